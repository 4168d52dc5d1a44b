/* Samples the hardware counters of one device into a trace until *stop is set. Runs in a separate process,
 * with one thread per device. Nothing runs in the profiled program, and the counters cover all processes
 * that use the GPU. The device's thread decodes samples; the threads of evaluate.h evaluate and write
 * them. */
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
    atomic_bool *stop, *pause; /* requests from main.c */
    atomic_bool paused;        /* the pause is in effect */

    const char *chip;
    uint8_t *availability;
    struct metrics metrics;
    void *sampling;
    struct evaluators evaluators;
    bool by_clock;
    uint64_t decoded, decode_ns, overflows; /* statistics; written as meta at the end */
};

int sampler_open(struct sampler *s, struct err *err); /* configures and starts sampling */
/* samples until *stop is set, then drains the hardware buffer */
int sampler_loop(struct sampler *s, struct err *err);
void sampler_close(struct sampler *s);

#endif
