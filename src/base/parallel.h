#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/* Calls work(arg, i) once for every i < n, in any order, on up to `threads` threads including this one (0:
 * one per processor). Returns when all calls have returned. */
void parallel_for(size_t n, unsigned threads, void (*work)(void *arg, size_t i), void *arg);

#endif
