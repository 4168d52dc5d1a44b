/* A fast wall clock for the start and end of a launch: the processor's counter, converted to wall time by a
 * line through recent readings of both clocks. The background thread updates the line several times per
 * second; readers are the program's threads, in CUPTI callbacks. Without a constant-rate counter, and while
 * there is no line or the line changes, call_clock_ns() falls back to clock_wall_ns(). */
#ifndef COLLECT_CALL_CLOCK_H
#define COLLECT_CALL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counter.h"

/* The line is protected by a sequence lock: readers check that `version` did not change. Odd: write in
 * progress. 0: no line. */
struct call_clock {
    _Alignas(64) atomic_uint version;
    _Atomic uint64_t ticks, wall_ns; /* a point on the line */
    _Atomic uint64_t ns_per_tick;    /* in units of 2^-32 */
    /* `flags` and `epoch` are in the cache line of the clock, because recorded calls use all of them. */
    atomic_uint flags;      /* enum call_flags */
    _Atomic uint64_t epoch; /* added to CUPTI's correlation ids, which may restart after a reattach */
};
enum call_flags {
    CALLS_RECORDED = 1,
    CALLS_TAPED = 2,        /* calls are copied to the tape of raw.h */
    CALLS_COUNT_FIRST = 4,  /* count the next unrecorded call, regardless of its id */
    CALLS_REPORTED = 8,     /* the ends of unrecorded calls are reported to attach.h */
    CALLS_COUNTED = 16,     /* unrecorded calls are reported to replays.h */
    CALLS_ALLOCATIONS = 32, /* allocations and frees of device memory are recorded */
};
extern struct call_clock call_clock;

void call_clock_tick(void); /* background thread, a few times per second */
void call_clock_after_fork(void);

/* Returns the correlation id for the trace: CUPTI's id plus the epoch, unique across reattaches. */
static inline uint64_t call_clock_id(uint32_t correlation) {
    return atomic_load_explicit(&call_clock.epoch, memory_order_relaxed) + correlation;
}

static inline uint64_t call_clock_ns(void) {
    const struct call_clock *c = &call_clock;
    unsigned version = atomic_load_explicit(&c->version, memory_order_acquire);
    if (__builtin_expect(version == 0 || version & 1, 0)) return clock_wall_ns();
    uint64_t wall_ns = atomic_load_explicit(&c->wall_ns, memory_order_relaxed);
    /* negative if this core's counter is behind that of the core that computed the line */
    int64_t since = (int64_t)(counter_now() - atomic_load_explicit(&c->ticks, memory_order_relaxed));
    uint64_t rate = atomic_load_explicit(&c->ns_per_tick, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(&c->version, memory_order_relaxed) != version, 0))
        return clock_wall_ns();
    return wall_ns + (uint64_t)((__int128)since * (__int128)rate >> 32);
}

#endif
