/* Cheap timestamps: the processor's counter if it has a constant rate, otherwise the wall clock. Ticks are
 * converted to nanoseconds later, by interpolation between two readings of both clocks.
 *     struct ticks t;
 *     ticks_init(&t);
 *     uint64_t a = ticks_now(&t);                 -- often
 *     struct ticks_span s = ticks_span(&t);       -- rarely: from the last such call (or init) until now
 *     uint64_t ns = ticks_ns(&s, a);              -- since the epoch; for ticks within the span */
#ifndef ENGINE_RECORD_TICKS_H
#define ENGINE_RECORD_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counter.h"

struct ticks {
    bool counter; /* false: ticks are nanoseconds */
    uint64_t at, at_ns;
};

struct ticks_span {
    uint64_t from, from_ns, to_ns;
    double ns_per_tick;
};

void ticks_init(struct ticks *t);
struct ticks_span ticks_span(struct ticks *t);
uint64_t ticks_ns(const struct ticks_span *s, uint64_t ticks); /* the result is always within the span */

static inline uint64_t ticks_now(const struct ticks *t) {
    return t->counter ? counter_now() : clock_wall_ns();
}

#endif
