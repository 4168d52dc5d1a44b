/* The wall clock for the two moments of a launch: the processor's counter and a line through its last
 * readings, which the keeper draws anew several times a second. Where the counter is not steady, or before
 * there is a line, the clock itself. */
#ifndef COLLECT_CALL_CLOCK_H
#define COLLECT_CALL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counter.h"

/* Readers take the fields between two readings of `version`; odd: just being written, 0: there is no line. */
struct call_clock {
    _Alignas(64) atomic_uint version;
    _Atomic uint64_t ticks, wall_ns; /* of one moment */
    _Atomic uint64_t ns_per_tick;    /* in units of 2^-32 */
    /* here because whoever reads the clock needs them too */
    atomic_uint wanted;     /* enum call_wanted */
    _Atomic uint64_t epoch; /* added to CUPTI's correlation ids, which may begin anew when it comes again */
};
enum call_wanted {
    CALLS_RECORDED = 1,
    CALLS_TAPED = 2,
    CALLS_FIRST = 4, /* the first one that passes */
    CALLS_TOLD = 8,  /* those that pass are told to attach.h */
};
extern struct call_clock call_clock;

void call_clock_tick(void); /* from the keeper, a few times a second */

/* What the trace calls CUPTI's correlation id. */
static inline uint64_t call_clock_id(uint32_t correlation) {
    return atomic_load_explicit(&call_clock.epoch, memory_order_relaxed) + correlation;
}

static inline uint64_t call_clock_ns(void) {
    const struct call_clock *c = &call_clock;
    unsigned version = atomic_load_explicit(&c->version, memory_order_acquire);
    if (__builtin_expect(version == 0 || version & 1, 0)) return clock_wall_ns();
    uint64_t wall_ns = atomic_load_explicit(&c->wall_ns, memory_order_relaxed);
    /* below 0 where this core's counter lags behind that of the core which drew the line */
    int64_t since = (int64_t)(counter_now() - atomic_load_explicit(&c->ticks, memory_order_relaxed));
    uint64_t rate = atomic_load_explicit(&c->ns_per_tick, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(&c->version, memory_order_relaxed) != version, 0))
        return clock_wall_ns();
    return wall_ns + (uint64_t)((__int128)since * (__int128)rate >> 32);
}

#endif
