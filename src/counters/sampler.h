/* Samples the counters of one device into a trace, until told to stop. Lives in a process of its own: the
 * profiled program is left alone, and every user of the GPU is seen. */
#ifndef COUNTERS_SAMPLER_H
#define COUNTERS_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "counters/api.h"
#include "counters/evaluate.h"
#include "counters/metrics.h"
#include "trace/writer.h"

struct sampler {
    const struct pm_api *api;
    struct trace_writer *trace;
    size_t device;
    uint64_t interval_ns;
    atomic_bool *stop, *pause; /* told by others: to end; to take no samples until told otherwise */
    atomic_bool resting;       /* takes none */

    const char *chip;
    uint8_t *availability;
    struct metrics metrics;
    void *sampling;
    struct evaluators evaluators;
    bool by_clock;
    uint64_t decoded, decode_ns, overflows; /* what happened; written as meta at the end */
};

int sampler_open(struct sampler *s, struct err *err); /* configured and started */
int sampler_loop(struct sampler *s, struct err *err); /* until *stop, then what is left */
void sampler_close(struct sampler *s);

#endif
