/* Converts the times of a trace while timeline_load_aligned() reads it: removes the steps of its clock, then
 * converts the times to the clock of the job. After a backward step a clock shows some times twice. Records
 * of one thread or stream are written in the order of their ends, and records of one name take about the same
 * time and come at about the same intervals: this shows which meaning of a time is right. */
#ifndef RANKS_TRACE_CLOCK_H
#define RANKS_TRACE_CLOCK_H

#include "ranks/ranks.h"
#include "timeline/timeline.h"

/* The trace of one rank. A value of timeline_clocks.arg for trace_clock_functions(). */
struct trace_clock_rank {
    const struct rank_clock_step *steps; /* in the order of time */
    size_t nsteps;
    const struct rank_clock *clock; /* NULL: only the steps are removed */
};
/* All files that are loaded with the result have the clock of `rank`, which must outlive it. */
struct timeline_clocks trace_clock_functions(const struct trace_clock_rank *rank);

/* For other values of timeline_clocks.arg. `rank` is copied; its pointers must outlive the result. `path` is
 * the file that is loaded. */
void *trace_clock_open(const struct trace_clock_rank *rank, const char *path);
void trace_clock_convert(void *state, const struct trace_batch *batch);
uint64_t trace_clock_time(void *state, uint64_t own_ns);
void trace_clock_close(void *state);

#endif
