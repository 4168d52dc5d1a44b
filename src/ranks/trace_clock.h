/* Converts the times of a trace while timeline_load_with() reads it: removes the steps of its clock, then
 * converts the times to the clock of the job. After a backward step a clock shows some times twice, so
 * such a time has two possible values. The converter uses the value that fits the other records of the thread
 * or stream: records are written in the order of their ends, records of one name have similar durations and
 * intervals, and a kernel starts after its launch. */
#ifndef RANKS_TRACE_CLOCK_H
#define RANKS_TRACE_CLOCK_H

#include "ranks/ranks.h"
#include "timeline/timeline.h"

/* The clock of one rank's traces. */
struct trace_clock_rank {
    const struct rank_clock_step *steps; /* in the order of time */
    size_t nsteps;
    const struct rank_clock *clock; /* NULL: only the steps are removed */
};
/* Returns the functions for loading traces that all have the clock of `rank`. `rank` must outlive the
 * result. */
struct timeline_clocks trace_clock_functions(const struct trace_clock_rank *rank);

/* The functions themselves, for traces with different clocks. `rank` is copied; its pointers must outlive the
 * result. `path` is the file that is loaded. */
void *trace_clock_open(const struct trace_clock_rank *rank, const char *path);
void trace_clock_convert(void *state, const struct trace_batch *batch);
uint64_t trace_clock_time(void *state, uint64_t own_ns);
void trace_clock_close(void *state);

#endif
