/* Busy time: intervals of a device, a stream, of communication and of the rest, each moment counted once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/trace_stats_internal.h"
#include "base/util.h"
#include "base/vec.h"
#include "trace/reader.h"

/* Intervals come sorted by start; `total` is what they cover. */
struct cover {
    uint64_t until_ns, total_ns;
};

static uint64_t cover_add(struct cover *c, uint64_t start_ns, uint64_t end_ns) {
    uint64_t from = MAX(start_ns, c->until_ns), added = end_ns > from ? end_ns - from : 0;
    c->total_ns += added;
    c->until_ns = MAX(c->until_ns, end_ns);
    return added;
}

static int by_device_start(const void *pa, const void *pb) {
    const struct stats_work *a = pa, *b = pb;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static int by_stream_start(const void *pa, const void *pb) {
    const struct stats_work *a = pa, *b = pb;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static uint32_t device_name(struct trace_stats *st, const struct trace_reader *r, uint32_t device) {
    char key[48];
    snprintf(key, sizeof key, "device.%u.name", device);
    const char *text = trace_reader_meta(r, key);
    return text ? intern_str(st->names, text) : INTERN_NONE;
}

/* Work of one device, sorted by start. */
static void one_device(struct trace_stats *st, const struct stats_work *w, size_t n,
                       struct trace_stats_gpu *gpu, struct trace_stats_rank *rank) {
    struct cover all = { 0 }, kernels = { 0 }, comm = { 0 }, compute = { 0 };
    gpu->first_ns = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        gpu->first_ns = MIN(gpu->first_ns, w[i].start_ns);
        gpu->last_ns = MAX(gpu->last_ns, w[i].end_ns);
        cover_add(&all, w[i].start_ns, w[i].end_ns);
        *(w[i].kernel ? &gpu->kernels : &gpu->copies) += 1;
        if (!w[i].kernel) continue;
        cover_add(&kernels, w[i].start_ns, w[i].end_ns);
        cover_add(w[i].comm ? &comm : &compute, w[i].start_ns, w[i].end_ns);
        if (w[i].comm) vec_push(&rank->comm_starts, w[i].start_ns);
        rank->kernels++;
        rank->kernel_ns += w[i].end_ns - w[i].start_ns;
    }
    gpu->busy_ns = all.total_ns;
    gpu->kernel_busy_ns = kernels.total_ns;
    gpu->comm_ns = comm.total_ns;
    gpu->comm_hidden_ns = comm.total_ns + compute.total_ns - kernels.total_ns; /* |A| + |B| - |A or B| */
    rank->busy_ns += gpu->busy_ns;
    rank->compute_ns += compute.total_ns;
    rank->comm_ns += gpu->comm_ns;
    rank->comm_hidden_ns += gpu->comm_hidden_ns;
    rank->span_ns += gpu->last_ns - gpu->first_ns;
    vec_push(&st->gpus, *gpu);
}

static void streams(struct trace_stats *st, struct stats_trace *t) {
    uint64_t overlaps = 0;
    sort_if_any(t->work.v, t->work.n, sizeof *t->work.v, by_stream_start);
    for (size_t i = 0; i < t->work.n;) {
        const struct stats_work *w = &t->work.v[i];
        struct trace_stats_stream row = { .file = st->files, .device = w->device, .stream = w->stream };
        struct cover busy = { 0 };
        for (; i < t->work.n && t->work.v[i].device == row.device && t->work.v[i].stream == row.stream; i++) {
            overlaps += t->work.v[i].start_ns < busy.until_ns;
            cover_add(&busy, t->work.v[i].start_ns, t->work.v[i].end_ns);
            *(t->work.v[i].kernel ? &row.kernels : &row.copies) += 1;
        }
        row.busy_ns = busy.total_ns;
        vec_push(&st->streams, row);
    }
    trace_stats_problem(st, "overlap_on_stream", overlaps);
}

void trace_stats_devices(struct trace_stats *st, struct stats_trace *t, const struct trace_reader *r,
                         struct trace_stats_rank *rank) {
    sort_if_any(t->work.v, t->work.n, sizeof *t->work.v, by_device_start);
    for (size_t i = 0, next; i < t->work.n; i = next) {
        for (next = i + 1; next < t->work.n && t->work.v[next].device == t->work.v[i].device;) next++;
        struct trace_stats_gpu gpu = { .file = st->files,
                                       .device = t->work.v[i].device,
                                       .name = device_name(st, r, t->work.v[i].device) };
        one_device(st, &t->work.v[i], next - i, &gpu, rank);
    }
    streams(st, t);
}
