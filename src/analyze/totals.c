#include "analyze/totals.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/intern.h"

struct analysis_totals *totals_make(const struct analysis *a) {
    struct analysis_totals *t = xcalloc(1, sizeof *t);
    t->slowest_rank = SIZE_MAX;
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
