/* Busy time per device: kernels, memcpys and memsets together, and kernels alone. */
#include <math.h>
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/util.h"

static void set_partition(struct totals_device *row, const struct analysis *a, size_t device) {
    row->timeline_ns = a->devices[device].timeline_ns;
    row->unrecorded_ns = a->devices[device].unrecorded_ns;
    row->unrecorded_limit_ns = a->devices[device].unrecorded_limit_ns;
    row->idle_ns = MAX(0, row->timeline_ns - row->unrecorded_ns - (double)row->busy_ns);
    bool joined = a->timeline->devices[device].joined;
    row->busy_share = joined ? NAN : (double)row->busy_ns / ((double)row->busy_ns + row->idle_ns);
    row->between_ns = NAN;
    for (size_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage_device *on = analysis_stage_on(a, i, device);
        if (a->stages[i].outside) row->between_ns = on->busy_ns + on->idle_ns;
    }
}

static void sum_device(struct totals_device *row, const struct analysis *a, size_t device) {
    const struct timeline *tl = a->timeline;
    const struct timeline_device *d = &tl->devices[device];
    struct work_walk walk = work_walk_device(tl, device);
    struct interval_union busy = { 0 };
    uint64_t first_ns = UINT64_MAX;
    *row = (struct totals_device){ .file = UINT32_MAX,
                                   .index = d->index,
                                   .label = timeline_device_label(tl, device),
                                   .name = d->name ? timeline_text(tl, d->name) : NULL,
                                   .kernels = d->kernel_count,
                                   .copies = d->copy_count,
                                   .kernel_busy_ns = (uint64_t)a->devices[device].busy_ns };
    for (struct work w; work_walk_next(&walk, &w);) {
        row->file = MIN(row->file, tl->lanes[w.lane].process);
        first_ns = MIN(first_ns, w.start_ns);
        interval_union_add(&busy, w.start_ns, w.end_ns);
    }
    row->busy_ns = busy.total_ns;
    row->span_ns = busy.end_ns - first_ns;
    set_partition(row, a, device);
}

static int device_order(const void *pa, const void *pb) {
    const struct totals_device *a = pa, *b = pb;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

void totals_devices(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline *tl = a->timeline;
    t->devices = xcalloc(tl->ndevices + 1, sizeof *t->devices);
    for (size_t i = 0; i < tl->ndevices; i++)
        if (tl->devices[i].kernel_count || tl->devices[i].copy_count)
            sum_device(&t->devices[t->ndevices++], a, i);
    qsort(t->devices, t->ndevices, sizeof *t->devices, device_order);
}
