/* Nested intervals on threads, and the device work launched inside them. */
#ifndef ANALYZE_TRACE_SWEEP_H
#define ANALYZE_TRACE_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyze/trace_stats.h"

/* qsort, for arrays that may be empty and then have no address. */
static inline void sort_if_any(void *v, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    if (n > 1) qsort(v, n, size, compare);
}

struct sweep_range {
    uint64_t start_ns, end_ns;
    uint32_t thread, name; /* name: index into rows */
    uint32_t order;        /* decides which of two equal intervals is the parent: the first recorded */
};
struct sweep_launch {
    uint64_t at_ns, device_ns; /* when it was launched; how long the device worked for it */
    uint32_t thread;
};

/* Sorts both arrays and adds to rows[name]: calls, total, self, device, self_device. */
void trace_sweep(struct sweep_range *ranges, size_t nranges, struct sweep_launch *launches, size_t nlaunches,
                 struct trace_stats_op *rows, size_t nrows);

#endif
