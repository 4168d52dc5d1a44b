#include "engine/record/ticks.h"

#include "base/util.h"

void ticks_init(struct ticks *t) {
    t->counter = counter_is_steady();
    t->at = ticks_now(t);
    t->at_ns = clock_wall_ns();
}

struct ticks_span ticks_span(struct ticks *t) {
    struct ticks_span s = { .from = t->at, .from_ns = t->at_ns };
    t->at = ticks_now(t);
    t->at_ns = s.to_ns =
        MAX(clock_wall_ns(), s.from_ns); /* time must not go backwards, even if the wall clock was set back */
    s.ns_per_tick = t->at > s.from ? (double)(s.to_ns - s.from_ns) / (double)(t->at - s.from) : 0;
    return s;
}

uint64_t ticks_ns(const struct ticks_span *s, uint64_t ticks) {
    if (ticks <= s->from) return s->from_ns;
    return MIN(s->from_ns + (uint64_t)((double)(ticks - s->from) * s->ns_per_tick), s->to_ns);
}
