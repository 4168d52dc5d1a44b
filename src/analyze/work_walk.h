/* The kernels, memcpys and memsets of a device in order of their start:
 *     struct work_walk walk = work_walk_device(tl, device);
 *     for (struct work w; work_walk_next(&walk, &w);) ... */
#ifndef ANALYZE_WORK_WALK_H
#define ANALYZE_WORK_WALK_H

#include "timeline/timeline.h"

struct work {
    uint64_t start_ns, end_ns;
    uint32_t lane;
    bool is_kernel;
    size_t index; /* index in timeline.kernels or timeline.copies */
};
struct work_walk {
    const struct timeline *tl;
    size_t kernel, kernel_end, copy, copy_end;
};
struct work_walk work_walk_device(const struct timeline *tl, size_t device);
bool work_walk_next(struct work_walk *walk, struct work *w);

/* work_launch() returns the call that launched the work, work_range() the range that the work belongs to;
 * TIMELINE_NONE: unknown. */
static inline uint32_t work_launch(const struct timeline *tl, const struct work *w) {
    return w->is_kernel ? tl->kernels.launch[w->index] : tl->copies.launch[w->index];
}
static inline uint32_t work_range(const struct timeline *tl, const struct work *w) {
    return w->is_kernel ? tl->kernels.range[w->index] : tl->copies.range[w->index];
}
/* True for work of a process whose launches were not recorded. */
static inline bool work_without_launches(const struct timeline *tl, const struct work *w) {
    return work_launch(tl, w) == TIMELINE_NONE && !tl->processes[tl->lanes[w->lane].process].has_launches;
}

#endif
