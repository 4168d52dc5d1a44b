/* Ends a long computation early: at a time, or when a flag is set. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct stop {
    const atomic_bool *flag; /* NULL: none */
    uint64_t deadline_ns;    /* clock_mono_ns() */
};

/* `s` NULL: never. */
static inline bool stop_now(const struct stop *s) {
    return s && ((s->flag && atomic_load(s->flag)) || clock_mono_ns() >= s->deadline_ns);
}

#endif
