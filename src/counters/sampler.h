/* Samples the counters of one device into a trace, until told to stop. Lives in a process of its own: the profiled
 * program is left alone, and every user of the GPU is seen. */
#ifndef COUNTERS_SAMPLER_H
#define COUNTERS_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "counters/api.h"
#include "counters/metrics.h"
#include "trace/writer.h"

struct sampler {
    const struct pm_api *api;
    struct trace_writer *trace;
    size_t device, devices; /* its number; how many are sampled in this process */
    uint64_t interval_ns;
    atomic_bool *stop, *pause; /* told by others: to end; to let go of the counters until told otherwise */
    atomic_bool resting;       /* has let go of them */

    const char *chip;
    uint8_t *availability, *data;
    size_t data_bytes;
    struct trace_sample *batch; /* one image's worth */
    struct metrics metrics;
    void *host, *sampling;
    uint32_t metrics_text;
    size_t pool, always,
        in_turn; /* metrics evaluated at all; in every sample; more of each sample, in turn */
    size_t turn; /* whose it is */
    double metric_cost_ns, decode_cost_ns; /* of one metric of one sample, of decoding a sample, as seen */
    uint64_t last_decode_ns;
    uint64_t evaluated, evaluate_ns, decode_ns;
    bool first_dropped, by_clock;
    uint64_t last_end_ns;
    uint64_t samples, missing, overflows, out_of_order; /* what happened; written as meta at the end */
};

int sampler_open(struct sampler *s, struct err *err); /* configured and started */
int sampler_loop(struct sampler *s, struct err *err); /* until *stop, then what is left */
void sampler_close(struct sampler *s);

#endif
