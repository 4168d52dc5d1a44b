#include "base/clock.h"

#include <time.h>

static uint64_t now_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_mono_ns(void) { return now_ns(CLOCK_MONOTONIC); }
uint64_t clock_wall_ns(void) { return now_ns(CLOCK_REALTIME); }

const char *clock_format(uint64_t wall_ns, const char *strftime_format, int utc, char *out, size_t cap) {
    time_t sec = (time_t)(wall_ns / 1000000000u);
    struct tm tm;
    if (!(utc ? gmtime_r(&sec, &tm) : localtime_r(&sec, &tm)) || !strftime(out, cap, strftime_format, &tm))
        out[0] = '\0';
    return out;
}
