/* Handling of failed allocations. By default the program ends (die()). Inside alloc_guard_run(), the guarded
 * call ends instead and the caller gets an error, so that a server survives a request that is too large.
 *
 * The guarded call is left by longjmp(). Memory that it allocated and that `context` does not own is
 * leaked, and locks that it holds stay locked. Therefore `context` must own all large memory and be able
 * to release it in any state. A guard applies to allocations of base/ (die.h, vec.h, strbuf.h) on the
 * calling thread. */
#ifndef BASE_ALLOC_GUARD_H
#define BASE_ALLOC_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Returns false if memory ran out in call(context). *bytes is the size of the allocation that failed. */
bool alloc_guard_run(void (*call)(void *context), void *context, size_t *bytes);

/* Reports a failed allocation: ends the guarded call or the program. */
_Noreturn void alloc_failed(size_t bytes);

/* No guard applies between these two calls. Use them for code that must finish because other threads wait for
 * it. */
struct alloc_guard;
struct alloc_guard *alloc_guard_suspend(void);
void alloc_guard_resume(struct alloc_guard *g);

/* For tests: makes the nth allocation (1: the next one) in guarded calls fail. 0: none fails. */
void alloc_guard_fail_nth(size_t n);
bool alloc_guard_refuses(void); /* for allocation functions: true if this allocation must fail */

#endif
