/* The tables of `inferprof stats`: rows in the printed units, and their columns. */
#ifndef REPORT_STATS_COLUMNS_H
#define REPORT_STATS_COLUMNS_H

#include "base/columns.h"
#include "report/stats.h"

/* Times in ms. NaN: unknown. */
struct stats_device {
    char *label;      /* "0 NVIDIA H100"; with several files, also the file */
    const char *key;  /* JSON: timeline_device_label() */
    const char *name; /* NULL: unknown */
    uint64_t kernels, copies;
    double timeline_ms, span_ms, busy_ms, kernel_busy_ms, idle_ms, between_ms, unrecorded_ms;
    double unrecorded_limit_ms; /* waits over this limit are unrecorded; NaN: no unrecorded time */
    double busy_share;          /* busy / (busy + idle) */
};
struct stats_kernel {
    const char *name;
    uint64_t calls;
    double total_ms, share, mean_us;
};
struct stats_range {
    const char *name;
    uint64_t calls;
    double total_ms, self_ms, device_ms, self_device_ms;
};
struct stats_copy {
    const char *kind; /* NULL: all kinds */
    uint64_t count, bytes;
    double total_ms;
};
struct stats_stream {
    uint32_t file, device, stream;
    uint64_t kernels, copies;
    double busy_ms;
};
struct stats_rank {
    char *label;
    const char *file;
    double rank, world_size;
    uint64_t kernels;
    double kernel_ms, span_ms, busy_ms, compute_ms, communication_ms, hidden_ms, share, overlap, late_ms;
};

struct stats_rows {
    struct stats_device *devices;
    struct stats_kernel *kernels;
    struct stats_range *operators, *annotations;
    struct stats_copy copies[TRACE_COPY_KIND_END], all_copies;
    struct stats_stream *streams;
    struct stats_rank *ranks;
    size_t ndevices, nkernels, noperators, nannotations, ncopies, nstreams, nranks;
    bool unrecorded; /* some device has unrecorded time */
};
void stats_rows_make(const struct stats_view *v, struct stats_rows *out);
void stats_rows_free(struct stats_rows *r);

/* [1]: used for unrecorded time */
extern const struct column_group stats_device_columns[2];
extern const struct column_group stats_kernel_columns, stats_operator_columns, stats_annotation_columns,
    stats_stream_columns, stats_rank_columns;
extern const struct column_group stats_copy_columns;      /* sums */
extern const struct column_group stats_copy_kind_columns; /* with the kind */

#endif
