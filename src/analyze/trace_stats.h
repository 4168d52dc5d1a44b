/* The plain totals of a trace, straight from its records: what `inferprof stats` prints. No stages are
 * guessed and no time is shared out: each number is the sum its name says, so that any other tool can
 * check it.
 *     struct trace_stats st;
 *     trace_stats_init(&st);
 *     rc = trace_stats_read(&st, reader, &err);     -- adds one trace; several may be added
 *     trace_stats_free(&st);
 * Definitions: docs/stats.md. Times are ns. Rows are sorted by total time, then by name. */
#ifndef ANALYZE_TRACE_STATS_H
#define ANALYZE_TRACE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intern.h"
#include "trace/format.h"

struct trace_reader;

struct trace_stats_count { /* events by kind, problems by kind */
    uint32_t name;
    uint64_t count;
};
struct trace_stats_kernel {
    uint32_t name;
    uint64_t calls, total_ns;
    bool comm; /* communication between devices, by its name */
};
/* An operator or an annotation. `device`: work launched while it was open on its thread, each name once
 * however often it is nested in itself; `self_device`: work for which it is the innermost. `self`: without
 * children on its thread. */
struct trace_stats_op {
    uint32_t name;
    uint64_t calls, total_ns, self_ns, device_ns, self_device_ns;
};
struct trace_stats_copy {
    enum trace_copy_kind kind;
    uint64_t count, bytes, total_ns;
};
struct trace_stats_gpu {
    uint32_t file, device; /* file: which of the traces added, from 0 */
    uint32_t name;         /* INTERN_NONE: not said */
    uint64_t kernels, copies;
    uint64_t first_ns, last_ns;
    uint64_t busy_ns;        /* union of kernels, memcpys and memsets */
    uint64_t kernel_busy_ns; /* union of kernels */
    uint64_t comm_ns;        /* union of communication kernels */
    uint64_t comm_hidden_ns; /* of those, while another kernel ran */
};
struct trace_stats_stream {
    uint32_t file, device, stream;
    uint64_t kernels, copies, busy_ns;
};
struct trace_stats_rank {
    uint32_t file;
    uint32_t path;            /* text */
    int64_t rank, world_size; /* -1: not said */
    uint64_t kernels, kernel_ns, span_ns, busy_ns, compute_ns, comm_ns, comm_hidden_ns;
    bool unix_clock;
    struct { /* communication kernels by start; for the skew between ranks */
        uint64_t *v;
        size_t n, cap;
    } comm_starts;
    double late_ns; /* mean start of its collectives after the first rank's; NaN: not comparable */
};
struct trace_stats_skew { /* of collectives that all ranks ran */
    size_t matched;       /* 0: not comparable; the next two are NaN then */
    double mean_ns, max_ns;
    /* index into ranks: most device time outside communication; SIZE_MAX: fewer than two ranks */
    size_t slowest;
};

#define TRACE_STATS_VEC(T) \
    struct {               \
        T *v;              \
        size_t n, cap;     \
    }
struct trace_stats_index { /* name -> row + 1; private */
    uint32_t *v;
    size_t n, cap;
};
struct trace_stats {
    struct intern *names;
    uint32_t files;
    TRACE_STATS_VEC(struct trace_stats_count) events, problems;
    TRACE_STATS_VEC(struct trace_stats_kernel) kernels;
    uint64_t kernel_calls, kernel_ns;
    TRACE_STATS_VEC(struct trace_stats_op) ops, stages;
    struct trace_stats_copy copies[TRACE_COPY_KIND_END];
    TRACE_STATS_VEC(struct trace_stats_gpu) gpus;
    TRACE_STATS_VEC(struct trace_stats_stream) streams;
    TRACE_STATS_VEC(struct trace_stats_rank) ranks;
    struct trace_stats_skew skew;
    struct trace_stats_index kernel_index, op_index, stage_index;
};

void trace_stats_init(struct trace_stats *st);
void trace_stats_free(struct trace_stats *st);
int trace_stats_read(struct trace_stats *st, const struct trace_reader *r, const char *path, struct err *err);
/* After the last trace: sorts the rows and compares the ranks. */
void trace_stats_finish(struct trace_stats *st);

void trace_stats_problem(struct trace_stats *st, const char *name,
                         uint64_t count); /* adds to what is there */
void trace_stats_event(struct trace_stats *st, const char *name, uint64_t count);
/* A kernel row from a source that has only sums (summary tables). */
void trace_stats_add_kernel(struct trace_stats *st, const char *name, size_t len, uint64_t calls,
                            uint64_t total_ns);
const char *trace_stats_name(const struct trace_stats *st, uint32_t name); /* NULL for INTERN_NONE */

#endif
