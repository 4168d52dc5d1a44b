/* Compares the ranks of a job: computation and communication per rank, the rank that computes longest, and
 * how far apart the ranks start the same collective. */
#include <math.h>
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* One rank on one device. */
struct rank_device {
    struct interval_union work, kernels, compute, communication;
    uint64_t first_ns; /* first start on this device */
    bool used;
};

struct rank_starts { /* starts of its communication kernels */
    uint64_t *v;
    size_t n, cap;
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

static void sum_ranks(struct analysis_totals *t, const struct analysis *a, struct rank_starts *starts) {
    const struct timeline *tl = a->timeline;
    for (size_t device = 0; device < tl->ndevices; device++) {
        struct rank_device *on_device = xcalloc(t->nranks + 1, sizeof *on_device);
        struct work_walk walk = work_walk_device(tl, device);
        for (struct work w; work_walk_next(&walk, &w);) {
            uint32_t rank = tl->lanes[w.lane].process;
            bool communicates = totals_is_communication(a, &w);
            if (communicates) vec_push(&starts[rank], w.start_ns);
            add_work(&t->ranks[rank], &on_device[rank], &w, communicates);
        }
        for (size_t i = 0; i < t->nranks; i++) add_device(&t->ranks[i], &on_device[i]);
        free(on_device);
    }
}

/* Returns true if the n-th collectives of all ranks can be compared: the ranks have a common clock and the
 * same number of collectives. */
static bool ranks_comparable(const struct timeline *tl, const struct rank_starts *starts) {
    if (tl->nprocesses < 2 || !starts[0].n) return false;
    for (size_t i = 0; i < tl->nprocesses; i++)
        if (tl->processes[i].relative_clock || starts[i].n != starts[0].n) return false;
    return true;
}

static int time_order(const void *pa, const void *pb) {
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

static void measure_skew(struct analysis_totals *t, const struct rank_starts *starts) {
    size_t n = starts[0].n;
    double sum_ns = 0, max_ns = 0;
    for (size_t r = 0; r < t->nranks; r++) {
        qsort(starts[r].v, n, sizeof *starts[r].v, time_order);
        t->ranks[r].late_ns = 0;
    }
    for (size_t k = 0; k < n; k++) {
        uint64_t first = UINT64_MAX, last = 0;
        for (size_t r = 0; r < t->nranks; r++) {
            first = MIN(first, starts[r].v[k]);
            last = MAX(last, starts[r].v[k]);
        }
        sum_ns += (double)(last - first);
        max_ns = MAX(max_ns, (double)(last - first));
        for (size_t r = 0; r < t->nranks; r++)
            t->ranks[r].late_ns += (double)(starts[r].v[k] - first) / (double)n;
    }
    t->skew.matched = n;
    t->skew.mean_ns = sum_ns / (double)n;
    t->skew.max_ns = max_ns;
}

static void find_slowest(struct analysis_totals *t) {
    size_t slowest = 0;
    if (t->nranks < 2) return;
    for (size_t i = 0; i < t->nranks; i++)
        if (t->ranks[i].compute_ns > t->ranks[slowest].compute_ns) slowest = i;
    if (t->ranks[slowest].compute_ns) t->skew.slowest = slowest;
}

void totals_ranks(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline *tl = a->timeline;
    struct rank_starts *starts = xcalloc(tl->nprocesses + 1, sizeof *starts);
    t->nranks = tl->nprocesses;
    t->ranks = xcalloc(t->nranks + 1, sizeof *t->ranks);
    for (size_t i = 0; i < t->nranks; i++)
        t->ranks[i] = (struct totals_rank){ .path = timeline_text(tl, tl->processes[i].path),
                                            .rank = tl->processes[i].rank,
                                            .world_size = tl->processes[i].world_size,
                                            .late_ns = NAN };
    sum_ranks(t, a, starts);
    find_slowest(t);
    if (ranks_comparable(tl, starts)) measure_skew(t, starts);
    for (size_t i = 0; i < t->nranks; i++) free(starts[i].v);
    free(starts);
}
