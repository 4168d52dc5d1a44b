/* Walks over the kernels of a device in order of their start. Computes the time that each kernel owns
 * (sharing.h), and the first and last kernel of each occurrence.
 * stage_time.c walks over the device again, because it also shares time between kernels and copies: stages
 * add up to the timeline, but kernel tables must add up to the kernel time. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "analyze/interval_union.h"
#include "analyze/range_tree.h"
#include "analyze/sharing.h"
#include "base/die.h"
#include "base/util.h"

struct walk {
    struct context *c;
    struct analysis_device *out;
    uint32_t device;
    struct sharing sharing;
    struct interval_union kernels;                    /* end_ns: latest end so far */
    struct interval_union communication, computation; /* computation: all other kernels */
};

/* ---- sharing */

/* Adds the owned time of a kernel to its class, stage, category and range. */
static void add_owned_time(struct context *c, uint32_t kernel, double owned_ns) {
    const struct timeline_kernels *k = &c->tl->kernels;
    uint32_t shape = k->shape[kernel], occurrence = c->kernel_occurrence[kernel];
    uint32_t row = occurrence == ANALYSIS_NONE ? c->outside : c->a->occurrences[occurrence].stage;
    c->shape_owned_ns[shape] += owned_ns;
    if (c->shape_stage_ns) c->shape_stage_ns[shape * c->a->nstages + row] += owned_ns;
    c->range_gpu_ns[k->range[kernel] == TIMELINE_NONE ? c->tl->ranges.n : k->range[kernel]] += owned_ns;
    range_sums_add(c->range_owned, k->range[kernel],
                   range_launch_ns(c->tl, k->launch[kernel], k->start_ns[kernel]), owned_ns);
    c->a->stages[row].gpu_owned_self_ns += owned_ns;
    for (uint32_t r = row; r != ANALYSIS_NONE; r = c->a->stages[r].parent) {
        c->a->stages[r].category_ns[c->shape_category[shape]] += owned_ns;
        if (c->attends && c->attends[kernel]) c->stage_softmax_ns[r] += owned_ns;
    }
    if (k->launch[kernel] == TIMELINE_NONE && k->range[kernel] == TIMELINE_NONE &&
        c->tl->processes[c->tl->lanes[k->lane[kernel]].process].has_launches) {
        c->a->conservation.unmatched += owned_ns;
        c->a->conservation.unmatched_kernels++;
    }
}

static void end_until(struct walk *w, uint64_t time_ns) {
    struct running r;
    struct shares owned;
    while (sharing_end(&w->sharing, time_ns, &r, &owned)) {
        add_owned_time(w->c, r.id, owned.ns);
        w->c->shape_alone_ns[w->c->tl->kernels.shape[r.id]] += owned.alone_ns;
    }
}

/* ---- occurrences */

static void extend_occurrence(struct walk *w, uint32_t occurrence, size_t kernel) {
    const struct timeline_kernels *k = &w->c->tl->kernels;
    struct occurrence_scratch *o = &w->c->occ_scratch[occurrence];
    struct analysis_occurrence *out = &w->c->a->occurrences[occurrence];
    struct analysis_stage *s = &w->c->a->stages[out->stage];
    if (o->device != w->device)
        *o = (struct occurrence_scratch){ .device = w->device,
                                          .first_ns = k->start_ns[kernel],
                                          .first_kernel = (uint32_t)kernel };
    o->last_ns = MAX(o->last_ns, k->end_ns[kernel]);
    out->kernels++;
    s->kernels++;
    w->c->stage_scratch[out->stage].kernel_sum_ns += (double)(k->end_ns[kernel] - k->start_ns[kernel]);
    s->on_cpu |= w->c->tl->devices[w->device].is_cpu;
    s->joined |= w->c->tl->devices[w->device].joined;
}

/* Stores the walk's results per occurrence before the next device starts. */
static void close_occurrences(struct walk *w) {
    struct context *c = w->c;
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct occurrence_scratch *o = &c->occ_scratch[i];
        struct analysis_occurrence *out = &c->a->occurrences[i];
        if (o->device != w->device) continue;
        if (w->device < 64) out->device_bits |= (uint64_t)1 << w->device;
        if (!out->gpu_first_ns || o->first_ns < out->gpu_first_ns) {
            uint32_t launch = c->tl->kernels.launch[o->first_kernel];
            out->gpu_first_ns = o->first_ns;
            out->gpu_launched_ns = launch == TIMELINE_NONE ? 0 : c->tl->launches.start_ns[launch];
        }
        out->gpu_last_ns = MAX(out->gpu_last_ns, o->last_ns);
        out->wall_end_ns = MAX(out->wall_end_ns, o->last_ns);
        c->a->stages[out->stage].gpu_span_ns += (double)(o->last_ns - o->first_ns);
    }
}

/* ---- the whole device */

static void start_kernel(struct walk *w, size_t i) {
    struct context *c = w->c;
    const struct timeline_kernels *k = &c->tl->kernels;
    uint64_t start = k->start_ns[i], end = k->end_ns[i];
    end_until(w, start);
    sharing_start(&w->sharing, start, (struct running){ .end_ns = end, .id = (uint32_t)i });
    interval_union_add(&w->kernels, start, end);
    bool communicates = c->shape_category[k->shape[i]] == KERNEL_CATEGORY_COMMUNICATION;
    interval_union_add(communicates ? &w->communication : &w->computation, start, end);
    w->out->kernels++;
    if (c->kernel_occurrence[i] == ANALYSIS_NONE) {
        c->a->stages[c->outside].kernels++;
        c->stage_scratch[c->outside].kernel_sum_ns += (double)(end - start);
    }
    for (uint32_t o = c->kernel_occurrence[i]; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent)
        extend_occurrence(w, o, i);
}

static void walk_copies(struct walk *w, const struct timeline_device *d) {
    const struct timeline_copies *k = &w->c->tl->copies;
    struct interval_union copies = { 0 };
    for (size_t i = d->first_copy; i < d->first_copy + d->copy_count; i++)
        interval_union_add(&copies, k->start_ns[i], k->end_ns[i]);
    w->out->copy_ns = (double)copies.total_ns;
}

static void walk_device(struct context *c, uint32_t device) {
    const struct timeline_device *d = &c->tl->devices[device];
    struct walk w = { .c = c, .out = &c->a->devices[device], .device = device };
    w.out->device = device;
    walk_copies(&w, d);
    if (!d->kernel_count) return;
    w.kernels.end_ns = c->tl->kernels.start_ns[d->first_kernel];
    for (size_t i = d->first_kernel; i < d->first_kernel + d->kernel_count; i++) start_kernel(&w, i);
    end_until(&w, UINT64_MAX);
    close_occurrences(&w);
    w.out->busy_ns = (double)w.kernels.total_ns;
    w.out->span_ns = (double)(w.kernels.end_ns - c->tl->kernels.start_ns[d->first_kernel]);
    w.out->communication_ns = (double)w.communication.total_ns;
    /* |A and B| = |A| + |B| - |A or B| */
    w.out->communication_hidden_ns =
        (double)(w.communication.total_ns + w.computation.total_ns - w.kernels.total_ns);
    sharing_free(&w.sharing);
}

void analyze_devices(struct context *c) {
    c->a->ndevices = c->tl->ndevices;
    c->a->devices = analysis_alloc(c, c->tl->ndevices, sizeof *c->a->devices);
    c->stage_softmax_ns = xcalloc(c->a->nstages + 1, sizeof *c->stage_softmax_ns);
    c->range_gpu_ns = xcalloc(c->tl->ranges.n + 1, sizeof *c->range_gpu_ns);
    c->range_owned = range_sums_open(&c->tl->ranges);
    for (uint32_t i = 0; i < c->tl->ndevices; i++) walk_device(c, i);
}
