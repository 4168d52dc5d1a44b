/* The work on a device as input for counter_fit.h: kernels, plus copies and memsets while no kernel runs.
 * A copy engine reads and writes memory, so the device is not idle during a copy. Sorted by start. */
#ifndef ANALYZE_COUNTER_EVENTS_H
#define ANALYZE_COUNTER_EVENTS_H

#include "timeline/timeline.h"

struct counter_events {
    struct counter_event {
        uint64_t start_ns, end_ns;
        uint32_t class;
    } * v;
    size_t n, cap;
    uint64_t *start_ns, *end_ns; /* the same events as columns; `v` is freed after these are filled */
    uint32_t *class_of;
};

/* class_of_kernel [d->kernel_count]: the classes of the kernels. Copies of kind k get class first_copy_class
 * + k. */
void counter_events_make(const struct timeline *tl, const struct timeline_device *d,
                         const uint32_t *class_of_kernel, uint32_t first_copy_class,
                         struct counter_events *out);
void counter_events_free(struct counter_events *e);

#endif
