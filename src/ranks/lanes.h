/* Kernels of a few ranks in one short window, on the clock of the job: the slowest, the median and the
 * fastest rank, around the middle of the job.
 *     struct rank_lanes l;
 *     rank_lanes_load(&job, &l);            -- l.n 0: no traces (only digests), kernels or steps
 *     rank_lanes_free(&l); */
#ifndef RANKS_LANES_H
#define RANKS_LANES_H

#include "ranks/ranks.h"

struct timeline;
struct trace_set;

struct rank_span {
    double start_ns, end_ns; /* from the start of the window */
    bool communication;
};
struct rank_lane {
    uint32_t rank;
    const char *role; /* "slowest", "median", "fastest" */
    /* kernels of all its GPUs, sorted by start; neighbouring spans of one kind with a very short gap are
     * merged */
    struct rank_span *spans;
    size_t nspans;
};
struct rank_lanes {
    struct rank_lane v[3];
    size_t n;
    double window_ns;
    uint64_t from_ns; /* start of the window on the job's clock */
};

/* Reads the traces of the chosen ranks only if their kernels were not kept. `readers` may be NULL. */
void rank_lanes_load(const struct rank_job *job, struct trace_set *readers, struct rank_lanes *out);
void rank_lanes_free(struct rank_lanes *l);
/* Returns the kernels of all GPUs sorted by start; the timeline sorts them by GPU first. The caller frees the
 * array. */
struct rank_kernel *rank_lane_kernels(const struct timeline *tl);

#endif
