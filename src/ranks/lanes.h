/* Kernels of a few ranks in one short window, on the clock of the job: the slowest, the median and the
 * fastest rank, around the middle of the job.
 *     struct rank_lanes l;
 *     rank_lanes_load(&job, &l);            -- l.n 0: no traces (only digests), kernels or steps
 *     rank_lanes_free(&l); */
#ifndef RANKS_LANES_H
#define RANKS_LANES_H

#include "ranks/ranks.h"

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

void rank_lanes_load(const struct rank_job *job, struct rank_lanes *out);
void rank_lanes_free(struct rank_lanes *l);

#endif
