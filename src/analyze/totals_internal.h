/* Internal to totals*.c. */
#ifndef ANALYZE_TOTALS_INTERNAL_H
#define ANALYZE_TOTALS_INTERNAL_H

#include "analyze/interval_union.h"
#include "analyze/totals.h"
#include "analyze/work_walk.h"

enum totals_range_kind {
    TOTALS_RANGE_OTHER,
    TOTALS_RANGE_MARK,
    TOTALS_RANGE_OPERATOR,
    TOTALS_RANGE_ANNOTATION
};
enum totals_range_kind totals_range_kind(const struct timeline *tl, size_t range);

void totals_kernels(struct analysis_totals *t, const struct analysis *a);
void totals_counts(struct analysis_totals *t, const struct analysis *a); /* events and problems */
void totals_ranges(struct analysis_totals *t, const struct analysis *a); /* operators and annotations */
void totals_copies(struct analysis_totals *t, const struct analysis *a);
void totals_devices(struct analysis_totals *t, const struct analysis *a);
void totals_streams(struct analysis_totals *t, const struct analysis *a);
void totals_ranks(struct analysis_totals *t, const struct analysis *a);

static inline bool totals_is_communication(const struct analysis *a, const struct work *w) {
    return w->is_kernel && a->kernels[a->shape_kernel[a->timeline->kernels.shape[w->index]]].category ==
                               KERNEL_CATEGORY_COMMUNICATION;
}

#endif
