/* A library for LD_PRELOAD: a machine whose wall clock differs. SHIFT_CLOCK_MS is added to CLOCK_REALTIME,
 * and SHIFT_CLOCK_PPM parts per million of the time since the program's start. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift_ns(void) {
    static long long from_ns; /* 0: not started */
    const char *ms = getenv("SHIFT_CLOCK_MS"), *ppm = getenv("SHIFT_CLOCK_PPM");
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    long long now_ns = t.tv_sec * 1000000000ll + t.tv_nsec;
    if (!from_ns) from_ns = now_ns;
    return (ms ? atoll(ms) * 1000000 : 0) + (ppm ? (now_ns - from_ns) / 1000 * atoll(ppm) / 1000 : 0);
}

static void shift(struct timespec *t) {
    long long ns = t->tv_sec * 1000000000ll + t->tv_nsec + shift_ns();
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(t);
    return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
