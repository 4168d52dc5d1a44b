/* Relates three clocks: the clock of CUPTI's records, CLOCK_MONOTONIC and the wall clock. All times in the
 * trace are wall clock times. Pairs of readings are taken during the run and written to the trace, with a
 * line fitted to them and its residual. Called by the background thread; clocks_start() is called before
 * that thread starts. */
#ifndef COLLECT_CLOCKS_H
#define COLLECT_CLOCKS_H

#include <stdint.h>

extern int64_t clocks_shift_ns; /* CUPTI clock minus wall clock at the start; 0 if they are the same clock */

void clocks_start(void);  /* measures the shift */
void clocks_pair(void);   /* takes one pair of readings */
void clocks_finish(void); /* takes the last pair and writes the fitted line */
void clocks_after_fork(void);

static inline uint64_t clocks_to_wall(uint64_t cupti_ns) { return cupti_ns - (uint64_t)clocks_shift_ns; }

#endif
