/* Shared by the files behind trace_stats.h. */
#ifndef ANALYZE_TRACE_STATS_INTERNAL_H
#define ANALYZE_TRACE_STATS_INTERNAL_H

#include "analyze/trace_stats.h"
#include "analyze/trace_sweep.h"

/* One kernel, memcpy or memset. */
struct stats_work {
    uint64_t start_ns, end_ns, correlation;
    uint32_t device, stream;
    bool kernel, comm;
};
struct stats_launch {
    uint64_t correlation, start_ns;
    uint32_t thread;
};
/* What one trace holds, as far as the totals need it. */
struct stats_trace {
    TRACE_STATS_VEC(struct stats_work) work;
    TRACE_STATS_VEC(struct stats_launch) launches;
    TRACE_STATS_VEC(struct sweep_range) ops, stages;
};

uint32_t trace_stats_kernel_row(struct trace_stats *st, uint32_t name);
uint32_t trace_stats_op_row(struct trace_stats *st, uint32_t name);
uint32_t trace_stats_stage_row(struct trace_stats *st, uint32_t name);

int trace_stats_gather(struct trace_stats *st, const struct trace_reader *r, struct stats_trace *out,
                       struct err *err);
/* Busy times by device and stream; adds to the rank's sums. Sorts the work. */
void trace_stats_devices(struct trace_stats *st, struct stats_trace *t, const struct trace_reader *r,
                         struct trace_stats_rank *rank);
void trace_stats_compare_ranks(struct trace_stats *st);

#endif
