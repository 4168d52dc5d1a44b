/* Sums and shares over the ranks of a job, for reports. */
#ifndef RANKS_SUMS_H
#define RANKS_SUMS_H

#include "base/stats.h"
#include "ranks/ranks.h"

/* Shares of a time, 0..1; NaN: unknown. */
struct rank_shares {
    double compute, exposed, wait, move, idle;
};
struct rank_shares rank_shares_of(const struct rank_time *t, double whole_ns);

/* A stage, summed over the ranks that have it. */
struct rank_stage_sum {
    struct rank_shares shares;
    double wall_ns; /* 0: no rank has the stage with a known time */
    double occurrences;
    double slowest_compute_ns, fastest_compute_ns; /* compute time per occurrence of one rank; NaN: none */
};
struct rank_stage_sum rank_stage_sum(const struct rank_job *job, size_t stage);

/* Distance between the first and the last rank's start of a collective, over all matched collectives. NaN:
 * none was matched. */
struct rank_skew {
    uint64_t matched;
    double mean_ns, max_ns;
};
struct rank_skew rank_job_skew(const struct rank_job *job);

size_t rank_clock_points(const struct rank_clock *c); /* matched collectives of all segments */
/* Compute time per step over the ranks, in one row of steps. */
struct stats rank_step_stats(const struct rank_job *job, const struct rank_steps *s, size_t row);
/* Part of a cell's time per occurrence; NaN: the rank does not have the stage. */
double rank_cell_each(const struct rank_cell *c, double total_ns);
/* Rows of job->ranks, the latest rank first; equal ranks: the longest compute time first. The caller frees
 * the array. */
size_t *rank_rows_by_lateness(const struct rank_job *job);

#endif
