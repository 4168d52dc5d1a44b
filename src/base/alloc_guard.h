/* Handling of failed allocations. By default the program ends (die()). Inside alloc_guard_run(), the guarded
 * call ends instead and the caller gets an error, so that a server survives a request that is too large.
 *
 * The guarded call is left by longjmp(): memory that it allocated and did not hand to `context` is lost, and
 * locks that it holds stay locked. So `context` must own everything large, and be able to release it
 * half-built. Guards hold for allocations of base/ (die.h, vec.h, strbuf.h) on the calling thread. */
#ifndef BASE_ALLOC_GUARD_H
#define BASE_ALLOC_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Returns false if memory ran out in call(context); *bytes: the size of the allocation that failed. */
bool alloc_guard_run(void (*call)(void *context), void *context, size_t *bytes);

/* An allocation failed: ends the guarded call or the program. */
_Noreturn void alloc_failed(size_t bytes);

/* No guard holds between these two: for code that other threads wait for. */
struct alloc_guard;
struct alloc_guard *alloc_guard_suspend(void);
void alloc_guard_resume(struct alloc_guard *g);

/* For tests: the nth allocation (1: the next one) in guarded calls fails. 0: none. */
void alloc_guard_fail_nth(size_t n);
bool alloc_guard_refuses(void); /* for allocation functions: this allocation is to fail */

#endif
