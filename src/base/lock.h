/* Locks with a deadline. If a signal handler calls exit() while the interrupted thread holds a lock, the lock
 * stays held. Other threads must not wait forever for it. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC time; 0: no limit */
typedef atomic_uint_fast64_t lock_limit;

bool lock_wait(pthread_mutex_t *m, const lock_limit *limit); /* the slow part of lock_take() */

/* Returns false if the lock was not taken before the limit. */
static inline bool lock_take(pthread_mutex_t *m, const lock_limit *limit) {
    return pthread_mutex_trylock(m) == 0 || lock_wait(m, limit);
}

#endif
