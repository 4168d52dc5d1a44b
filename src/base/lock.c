#include "base/lock.h"

#include <time.h>

#include "base/clock.h"

/* Waiting threads check the limit at this interval, because it may be set while they wait. */
#define SLICE_NS 20000000

bool lock_wait(pthread_mutex_t *m, const lock_limit *limit) {
    for (;;) {
        uint64_t until_ns = atomic_load(limit), now = clock_mono_ns();
        if (until_ns && now >= until_ns) return pthread_mutex_trylock(m) == 0;
        uint64_t slice = until_ns && until_ns - now < SLICE_NS ? until_ns - now : SLICE_NS;
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        uint64_t ns = (uint64_t)t.tv_nsec + slice;
        t.tv_sec += (time_t)(ns / 1000000000u);
        t.tv_nsec = (long)(ns % 1000000000u);
        if (pthread_mutex_timedlock(m, &t) == 0) return true;
    }
}
