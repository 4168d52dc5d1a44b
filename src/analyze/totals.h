/* Totals of a timeline, for `inferprof stats`. Each number is a sum or a union: no stages are inferred, and
 * overlapping time is not divided between kernels. Definitions: docs/stats.md. Times are in ns. The analysis
 * owns the strings. A file is one trace; its number is its index in timeline.processes. */
#ifndef ANALYZE_TOTALS_H
#define ANALYZE_TOTALS_H

#include "analyze/analyze.h"
#include "analyze/sums.h"

/* All operators, or all annotations, with one name. */
struct totals_range {
    const char *name;
    uint64_t calls, total_ns;
    uint64_t self_ns; /* time excluding children of the same kind on the same thread */
    /* device work launched by the range and by the ranges nested in it; counted once if ranges of the same
     * name are nested */
    uint64_t device_ns;
    uint64_t self_device_ns; /* device work for which this was the innermost range of its kind */
    /* The trace does not tell which work is that of the range (analysis_stage.time_refused): device_ns and
     * self_device_ns are those of the moments in which it is open. */
    bool device_unknown;
};
struct totals_ranges {
    struct totals_range *v; /* sorted by total_ns, then name */
    size_t n, cap;
};

struct totals_copy {
    uint64_t count, bytes, total_ns;
};

/* "Work" means kernels, memcpys and memsets. Only devices with work are listed. */
struct totals_device {
    uint32_t file;     /* first file with work on it */
    uint32_t index;    /* index in that file */
    const char *label; /* timeline_device_label() */
    const char *name;  /* NULL: unknown */
    uint64_t kernels, copies;
    uint64_t span_ns;        /* from the first start to the last end of its work */
    uint64_t busy_ns;        /* union of its work */
    uint64_t kernel_busy_ns; /* union of its kernels, as in the report */
    /* Parts of the report's partition: timeline = busy + idle + unrecorded. */
    double timeline_ns, idle_ns, unrecorded_ns;
    double unrecorded_limit_ns; /* longer waits of launched work are unrecorded time */
    double between_ns;          /* busy and idle time between steps */
    double busy_share;          /* busy / (busy + idle) */
};

struct totals_stream {
    uint32_t file, device, stream; /* device: its index in the file */
    uint64_t kernels, copies, busy_ns;
};

/* One file, treated as one rank of a job. Unions and spans are summed over its devices. */
struct totals_rank {
    const char *path;
    uint32_t rank, world_size; /* TIMELINE_NONE: unknown */
    uint64_t kernels, kernel_ns, span_ns, busy_ns;
    uint64_t compute_ns;     /* union of all kernels except communication */
    uint64_t comm_ns;        /* union of communication kernels */
    uint64_t comm_hidden_ns; /* the part of comm_ns that overlaps other kernels */
    double comm_share;       /* comm_ns / busy_ns; NaN: no work */
    double comm_overlap;     /* comm_hidden_ns / comm_ns; NaN: no communication */
};

struct analysis_totals {
    struct sums sums; /* kernels, events and problems; not sorted */
    struct totals_ranges operators, annotations;
    struct totals_copy copies[TRACE_COPY_KIND_END], all_copies;
    struct totals_device *devices; /* by file, then index */
    struct totals_stream *streams; /* by file, device, stream */
    struct totals_rank *ranks;     /* same order as timeline.processes */
    struct totals_rank together;   /* sums and shares over all ranks */
    size_t ndevices, nstreams, nranks;
    /* row of the rank with the largest compute_ns; SIZE_MAX: fewer than two ranks, or all are 0 */
    size_t slowest_rank;
    struct intern *operator_names, *annotation_names;
};

/* Call this after the kernels and devices of the analysis are complete. */
struct analysis_totals *totals_make(const struct analysis *a);
void totals_free(struct analysis_totals *t); /* accepts NULL */

#endif
