/* Depth of the launch queue: the number of other launches that wait when a kernel starts. It is 0 if the host
 * launches more slowly than the device runs. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"

static void count(struct context *c, size_t kernel, uint64_t depth) {
    const struct timeline *tl = c->tl;
    uint32_t launch = tl->kernels.launch[kernel];
    uint64_t called = tl->launches.end_ns[launch], started = tl->kernels.start_ns[kernel];
    double delay =
        /* a kernel may start before its launch call returns */
        started > called ? (double)(started - called) : 0;
    uint32_t o = c->kernel_occurrence[kernel];
    uint32_t row = o == ANALYSIS_NONE ? c->outside : c->a->occurrences[o].stage;
    for (; row != ANALYSIS_NONE; row = c->a->stages[row].parent) {
        struct stage_scratch *w = &c->stage_scratch[row];
        w->queue_depth_sum += (double)depth;
        w->queue_seen++;
        w->queue_empty += depth == 0;
        stream_stats_add(&w->launch_delay, delay);
    }
}

/* Computes the queue depth at the first kernel of each launch: launches until then, minus launches whose work
 * has started. */
static void queue_device(struct context *c, const struct timeline_device *d, const uint32_t *device_of,
                         uint8_t *seen, uint32_t device) {
    const struct timeline *tl = c->tl;
    uint64_t launched = 0, started = 0;
    size_t next = 0;
    for (size_t i = d->first_kernel; i < d->first_kernel + d->kernel_count; i++) {
        uint32_t launch = tl->kernels.launch[i];
        if (launch == TIMELINE_NONE || seen[launch]) continue;
        seen[launch] = 1;
        started++;
        for (; next < tl->launches.n && tl->launches.start_ns[next] <= tl->kernels.start_ns[i]; next++)
            launched += device_of[next] == device;
        count(c, i, launched > started ? launched - started : 0);
    }
}

void analyze_queue(struct context *c) {
    const struct timeline *tl = c->tl;
    if (!tl->launches.n) return;
    /* device of the launch's first kernel */
    uint32_t *device_of = xmalloc(tl->launches.n * sizeof *device_of);
    uint8_t *seen = xcalloc(tl->launches.n, 1);
    memset(device_of, 0xff, tl->launches.n * sizeof *device_of);
    for (size_t i = tl->kernels.n; i-- > 0;)
        if (tl->kernels.launch[i] != TIMELINE_NONE)
            device_of[tl->kernels.launch[i]] = tl->lanes[tl->kernels.lane[i]].device;
    for (uint32_t d = 0; d < tl->ndevices; d++)
        if (!tl->devices[d].is_cpu) queue_device(c, &tl->devices[d], device_of, seen, d);
    free(device_of);
    free(seen);
}
