#include "analyze/totals.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/intern.h"

struct work_walk work_walk_device(const struct timeline *tl, size_t device) {
    const struct timeline_device *d = &tl->devices[device];
    return (struct work_walk){ tl, d->first_kernel, d->first_kernel + d->kernel_count, d->first_copy,
                               d->first_copy + d->copy_count };
}

bool work_walk_next(struct work_walk *walk, struct work *w) {
    const struct timeline_kernels *k = &walk->tl->kernels;
    const struct timeline_copies *c = &walk->tl->copies;
    bool kernels_left = walk->kernel < walk->kernel_end, copies_left = walk->copy < walk->copy_end;
    if (!kernels_left && !copies_left) return false;
    bool is_kernel = kernels_left && (!copies_left || k->start_ns[walk->kernel] <= c->start_ns[walk->copy]);
    size_t i = is_kernel ? walk->kernel++ : walk->copy++;
    *w = is_kernel ? (struct work){ k->start_ns[i], k->end_ns[i], k->lane[i], true, i }
                   : (struct work){ c->start_ns[i], c->end_ns[i], c->lane[i], false, i };
    return true;
}

struct analysis_totals *totals_make(const struct analysis *a) {
    struct analysis_totals *t = xcalloc(1, sizeof *t);
    t->skew = (struct totals_skew){ .mean_ns = NAN, .max_ns = NAN, .slowest = SIZE_MAX };
    sums_init(&t->sums);
    totals_kernels(t, a);
    totals_counts(t, a);
    totals_ranges(t, a);
    totals_copies(t, a);
    totals_devices(t, a);
    totals_streams(t, a);
    totals_ranks(t, a);
    return t;
}

void totals_free(struct analysis_totals *t) {
    if (!t) return;
    sums_free(&t->sums);
    if (t->operator_names) intern_close(t->operator_names);
    if (t->annotation_names) intern_close(t->annotation_names);
    free(t->operators.v);
    free(t->annotations.v);
    free(t->devices);
    free(t->streams);
    free(t->ranks);
    free(t);
}
