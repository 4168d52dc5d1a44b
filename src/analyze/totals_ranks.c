/* Sums per rank: computation and communication, and the rank that computes longest. src/ranks compares the
 * collectives of the ranks. */
#include <math.h>
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"

/* One rank on one device. */
struct rank_device {
    struct interval_union work, kernels, compute, communication;
    uint64_t first_ns; /* first start on this device */
    bool used;
};

static void add_work(struct totals_rank *rank, struct rank_device *d, const struct work *w,
                     bool communicates) {
    if (!d->used) d->first_ns = w->start_ns;
    d->used = true;
    interval_union_add(&d->work, w->start_ns, w->end_ns);
    if (!w->is_kernel) return;
    interval_union_add(&d->kernels, w->start_ns, w->end_ns);
    interval_union_add(communicates ? &d->communication : &d->compute, w->start_ns, w->end_ns);
    rank->kernels++;
    rank->kernel_ns += w->end_ns - w->start_ns;
}

static void add_device(struct totals_rank *rank, const struct rank_device *d) {
    if (!d->used) return;
    rank->busy_ns += d->work.total_ns;
    rank->span_ns += d->work.end_ns - d->first_ns;
    rank->compute_ns += d->compute.total_ns;
    rank->comm_ns += d->communication.total_ns;
    /* |A and B| = |A| + |B| - |A or B| */
    rank->comm_hidden_ns += d->communication.total_ns + d->compute.total_ns - d->kernels.total_ns;
}

static void sum_ranks(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline *tl = a->timeline;
    for (size_t device = 0; device < tl->ndevices; device++) {
        struct rank_device *on_device = xcalloc(t->nranks + 1, sizeof *on_device);
        struct work_walk walk = work_walk_device(tl, device);
        for (struct work w; work_walk_next(&walk, &w);) {
            uint32_t rank = tl->lanes[w.lane].process;
            bool communicates = totals_is_communication(a, &w);
            add_work(&t->ranks[rank], &on_device[rank], &w, communicates);
        }
        for (size_t i = 0; i < t->nranks; i++) add_device(&t->ranks[i], &on_device[i]);
        free(on_device);
    }
}

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

static void set_shares(struct totals_rank *r) {
    r->comm_share = ratio(r->comm_ns, r->busy_ns);
    r->comm_overlap = ratio(r->comm_hidden_ns, r->comm_ns);
}

static void add_together(struct analysis_totals *t) {
    for (size_t i = 0; i < t->nranks; i++) {
        set_shares(&t->ranks[i]);
        t->together.busy_ns += t->ranks[i].busy_ns;
        t->together.comm_ns += t->ranks[i].comm_ns;
        t->together.comm_hidden_ns += t->ranks[i].comm_hidden_ns;
    }
    set_shares(&t->together);
}

static void find_slowest(struct analysis_totals *t) {
    size_t slowest = 0;
    if (t->nranks < 2) return;
    for (size_t i = 0; i < t->nranks; i++)
        if (t->ranks[i].compute_ns > t->ranks[slowest].compute_ns) slowest = i;
    if (t->ranks[slowest].compute_ns) t->slowest_rank = slowest;
}

void totals_ranks(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline *tl = a->timeline;
    t->nranks = tl->nprocesses;
    t->ranks = xcalloc(t->nranks + 1, sizeof *t->ranks);
    for (size_t i = 0; i < t->nranks; i++)
        t->ranks[i] = (struct totals_rank){ .path = timeline_text(tl, tl->processes[i].path),
                                            .rank = tl->processes[i].rank,
                                            .world_size = tl->processes[i].world_size };
    sum_ranks(t, a);
    add_together(t);
    find_slowest(t);
}
