/* What runs on a device, as the fit of counter_fit.h wants it: kernels, and copies and memsets where no
 * kernel runs beside them (a copy engine at work is not idle: it reads and writes memory). Sorted by
 * start. */
#ifndef ANALYZE_COUNTER_EVENTS_H
#define ANALYZE_COUNTER_EVENTS_H

#include "timeline/timeline.h"

struct counter_events {
    struct counter_event {
        uint64_t start_ns, end_ns;
        uint32_t class;
    } * v;
    size_t n, cap;
    uint64_t *start_ns, *end_ns; /* the same as columns */
    uint32_t *class_of;
};

/* Kernels have the classes given, [d->kernel_count]; copies of kind k have class first_copy_class + k. */
void counter_events_make(const struct timeline *tl, const struct timeline_device *d,
                         const uint32_t *class_of_kernel, uint32_t first_copy_class,
                         struct counter_events *out);
void counter_events_free(struct counter_events *e);

#endif
