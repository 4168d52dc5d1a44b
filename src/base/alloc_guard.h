/* Handling of failed allocations. By default the program ends (die()). Inside alloc_guard_run(), only the
 * guarded call ends, so that a server survives a request that is too large. longjmp() ends the call: memory
 * that `context` does not own is leaked, and locks stay locked. A guard applies to allocations of base/
 * (die.h, vec.h, strbuf.h) on the calling thread. */
#ifndef BASE_ALLOC_GUARD_H
#define BASE_ALLOC_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Returns false if an allocation in call(context) failed. *bytes: its size. */
bool alloc_guard_run(void (*call)(void *context), void *context, size_t *bytes);

/* Ends the guarded call or the program. */
_Noreturn void alloc_failed(size_t bytes);

/* Between these two calls no guard applies. For code that must finish because other threads wait for it. */
struct alloc_guard;
struct alloc_guard *alloc_guard_suspend(void);
void alloc_guard_resume(struct alloc_guard *g);

/* For tests: the nth allocation (1: the next one) in guarded calls fails. 0: none fails. */
void alloc_guard_fail_nth(size_t n);
bool alloc_guard_refuses(void); /* for allocation functions */

#endif
