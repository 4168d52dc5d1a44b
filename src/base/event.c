#include "base/event.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void event_set(struct event *e) {
    atomic_fetch_add(&e->count, 1);
    if (atomic_load(&e->waiters)) syscall(SYS_futex, &e->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void event_wait(struct event *e, unsigned seen, uint64_t until_ns) {
    uint64_t now = clock_mono_ns();
    if (now >= until_ns) return;
    uint64_t ns = until_ns - now;
    struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    atomic_fetch_add(&e->waiters, 1);
    if (atomic_load(&e->count) == seen)
        syscall(SYS_futex, &e->count, FUTEX_WAIT_PRIVATE, seen, ns / 1000000000u > INT_MAX ? NULL : &t, NULL,
                0);
    atomic_fetch_sub(&e->waiters, 1);
}

void event_reset(struct event *e) {
    atomic_store(&e->count, 0);
    atomic_store(&e->waiters, 0);
}
