/* Locks with a deadline. A thread may stop forever while it holds a lock: a signal handler that
 * interrupted it has called exit(), which never returns. Other threads must not wait forever for such a
 * lock, so each group of locks has a time after which waiting fails. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A CLOCK_MONOTONIC time; 0: not set, wait without limit. */
typedef atomic_uint_fast64_t lock_limit;

bool lock_wait(pthread_mutex_t *m, const lock_limit *limit); /* the slow part of lock_take() */

/* Returns false if the lock could not be taken before the limit. */
static inline bool lock_take(pthread_mutex_t *m, const lock_limit *limit) {
    return pthread_mutex_trylock(m) == 0 || lock_wait(m, limit);
}

#endif
