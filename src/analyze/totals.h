/* Plain totals of a timeline, for `inferprof stats`. Each number is the sum or the union that its name says:
 * no stage is guessed and no time is split between kernels that overlap. Definitions: docs/stats.md.
 * Times are ns. Texts belong to the analysis. A file is one trace; its number is its index in
 * timeline.processes. */
#ifndef ANALYZE_TOTALS_H
#define ANALYZE_TOTALS_H

#include "analyze/analyze.h"
#include "analyze/sums.h"

/* Operators, or annotations, of one name. */
struct totals_range {
    const char *name;
    uint64_t calls, total_ns;
    uint64_t self_ns;   /* without the children of the same kind on the same thread */
    uint64_t device_ns; /* work launched while it was open on its thread; nested in itself: counts once */
    uint64_t self_device_ns; /* work for which it was the innermost of its kind */
};
struct totals_ranges {
    struct totals_range *v; /* by total_ns, then name */
    size_t n, cap;
};

struct totals_copy {
    uint64_t count, bytes, total_ns;
};

/* "Work" is kernels, memcpys and memsets. Only devices that have some are listed. */
struct totals_device {
    uint32_t file;    /* the first that has work on it */
    uint32_t index;   /* its number in that file */
    const char *name; /* NULL: unknown */
    uint64_t kernels, copies;
    uint64_t span_ns;        /* first start to last end of its work */
    uint64_t busy_ns;        /* union of its work */
    uint64_t kernel_busy_ns; /* union of its kernels: the busy time of the report */
};

struct totals_stream {
    uint32_t file, device, stream; /* device: its number in the file */
    uint64_t kernels, copies, busy_ns;
};

/* One file: the files are taken as ranks of one job. Unions and spans are summed over its devices. */
struct totals_rank {
    const char *path;
    uint32_t rank, world_size; /* TIMELINE_NONE: unknown */
    uint64_t kernels, kernel_ns, span_ns, busy_ns;
    uint64_t compute_ns;     /* union of kernels that do not communicate */
    uint64_t comm_ns;        /* union of communication kernels */
    uint64_t comm_hidden_ns; /* of that, while another kernel ran */
    double late_ns;          /* mean start of its collectives after the first rank's; NaN: not comparable */
};

/* The n-th collectives of all ranks, compared. */
struct totals_skew {
    size_t matched; /* 0: not comparable, and both times are NaN */
    double mean_ns, max_ns;
    size_t slowest; /* row of ranks with the largest compute_ns; SIZE_MAX: fewer than two ranks */
};

struct analysis_totals {
    struct sums sums; /* kernels, events and problems; not sorted */
    struct totals_ranges operators, annotations;
    struct totals_copy copies[TRACE_COPY_KIND_END];
    struct totals_device *devices; /* by file, then index */
    struct totals_stream *streams; /* by file, device, stream */
    struct totals_rank *ranks;     /* as timeline.processes */
    size_t ndevices, nstreams, nranks;
    struct totals_skew skew;
    struct intern *operator_names, *annotation_names;
};

/* After the kernels and the devices of the analysis are complete. */
struct analysis_totals *totals_make(const struct analysis *a);
void totals_free(struct analysis_totals *t); /* NULL is fine */

#endif
