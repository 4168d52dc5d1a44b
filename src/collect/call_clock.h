/* A fast wall clock for the start and end of a launch. The processor's counter is converted to wall time by a
 * line through recent readings of both clocks. The background thread updates the line several times per
 * second; the program's threads read it in CUPTI callbacks. call_clock_ns() falls back to clock_wall_ns() if
 * there is no constant-rate counter or no line, and while the line changes. */
#ifndef COLLECT_CALL_CLOCK_H
#define COLLECT_CALL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counter.h"

/* A sequence lock protects the line: readers check that `version` did not change. Odd: write in progress. 0:
 * no line. */
struct call_clock {
    _Alignas(64) atomic_uint version;
    _Atomic uint64_t ticks, wall_ns; /* a point on the line */
    _Atomic uint64_t ns_per_tick;    /* in units of 2^-32 */
    /* In the cache line of the clock, because recorded calls use all of these members. */
    atomic_uint flags;      /* enum call_flags */
    _Atomic uint64_t epoch; /* added to CUPTI's correlation ids */
};
enum call_flags {
    CALLS_RECORDED = 1,
    CALLS_TAPED = 2,        /* calls are copied to raw.h */
    CALLS_COUNT_FIRST = 4,  /* count the next unrecorded call, whatever its id */
    CALLS_REPORTED = 8,     /* report ends to attach.h */
    CALLS_COUNTED = 16,     /* report unrecorded calls to replays.h */
    CALLS_ALLOCATIONS = 32, /* record allocations and frees */
};
extern struct call_clock call_clock;

void call_clock_tick(void); /* background thread */
void call_clock_after_fork(void);

/* Returns the correlation id for the trace. The epoch makes it unique if CUPTI's ids restart after a
 * reattach. */
static inline uint64_t call_clock_id(uint32_t correlation) {
    return atomic_load_explicit(&call_clock.epoch, memory_order_relaxed) + correlation;
}

static inline uint64_t call_clock_ns(void) {
    const struct call_clock *c = &call_clock;
    unsigned version = atomic_load_explicit(&c->version, memory_order_acquire);
    if (__builtin_expect(version == 0 || version & 1, 0)) return clock_wall_ns();
    uint64_t wall_ns = atomic_load_explicit(&c->wall_ns, memory_order_relaxed);
    /* negative if this core's counter is behind the counter of the core that computed the line */
    int64_t since = (int64_t)(counter_now() - atomic_load_explicit(&c->ticks, memory_order_relaxed));
    uint64_t rate = atomic_load_explicit(&c->ns_per_tick, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(&c->version, memory_order_relaxed) != version, 0))
        return clock_wall_ns();
    return wall_ns + (uint64_t)((__int128)since * (__int128)rate >> 32);
}

#endif
