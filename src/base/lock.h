/* Locks with a way out. A thread may be stopped for good while it holds a lock: a signal handler that
 * interrupted it has called exit(), which never returns. Those who wait for such a lock must not wait
 * forever, so each group of locks has a time at which its waiters give up. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* On CLOCK_MONOTONIC; 0: not yet set, wait. */
typedef atomic_uint_fast64_t lock_limit;

bool lock_wait(pthread_mutex_t *m, const lock_limit *limit); /* the slow part of lock_take() */

/* False: not taken, and the limit has passed. */
static inline bool lock_take(pthread_mutex_t *m, const lock_limit *limit) {
    return pthread_mutex_trylock(m) == 0 || lock_wait(m, limit);
}

#endif
