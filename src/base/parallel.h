/* Runs independent pieces of work on several threads. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/* Calls work(arg, i) once for every i below n, in any order, on up to `threads` threads (0: one per
 * processor). The calling thread is one of them. Returns when all calls have returned. */
void parallel_for(size_t n, unsigned threads, void (*work)(void *arg, size_t i), void *arg);

#endif
