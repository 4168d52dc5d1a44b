/* Shared by the passes behind totals.h. */
#ifndef ANALYZE_TOTALS_INTERNAL_H
#define ANALYZE_TOTALS_INTERNAL_H

#include "analyze/interval_union.h"
#include "analyze/totals.h"

enum totals_range_kind {
    TOTALS_RANGE_OTHER,
    TOTALS_RANGE_MARK,
    TOTALS_RANGE_OPERATOR,
    TOTALS_RANGE_ANNOTATION
};
enum totals_range_kind totals_range_kind(const struct timeline *tl, size_t range);

/* One pass per question. */
void totals_kernels(struct analysis_totals *t, const struct analysis *a);
void totals_counts(struct analysis_totals *t, const struct analysis *a); /* events and problems */
void totals_ranges(struct analysis_totals *t, const struct analysis *a); /* operators and annotations */
void totals_copies(struct analysis_totals *t, const struct analysis *a);
void totals_devices(struct analysis_totals *t, const struct analysis *a);
void totals_streams(struct analysis_totals *t, const struct analysis *a);
void totals_ranks(struct analysis_totals *t, const struct analysis *a);

/* The kernels, memcpys and memsets of a device in order of their start:
 *     struct work_walk walk = work_walk_device(tl, device);
 *     for (struct work w; work_walk_next(&walk, &w);) ... */
struct work {
    uint64_t start_ns, end_ns;
    uint32_t lane;
    bool is_kernel;
    size_t index; /* into timeline.kernels or timeline.copies */
};
struct work_walk {
    const struct timeline *tl;
    size_t kernel, kernel_end, copy, copy_end;
};
struct work_walk work_walk_device(const struct timeline *tl, size_t device);
bool work_walk_next(struct work_walk *walk, struct work *w);

static inline bool totals_is_communication(const struct analysis *a, const struct work *w) {
    return w->is_kernel && a->kernels[a->shape_kernel[a->timeline->kernels.shape[w->index]]].category ==
                               KERNEL_CATEGORY_COMMUNICATION;
}

#endif
