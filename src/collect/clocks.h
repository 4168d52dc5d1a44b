/* Relates three clocks: the clock of CUPTI's records, CLOCK_MONOTONIC and the wall clock. All times in the
 * trace are wall clock times. The three clocks are read together during the run ("clock.pair" in the trace);
 * at the end, a fitted line and its largest residual are written. Called by the background thread, except
 * clocks_start(). */
#ifndef COLLECT_CLOCKS_H
#define COLLECT_CLOCKS_H

#include <stdint.h>

extern int64_t clocks_shift_ns; /* CUPTI clock minus wall clock at the start; 0 if they are the same clock */

void clocks_start(void);  /* measures the shift */
void clocks_pair(void);   /* reads the three clocks and writes the readings */
void clocks_finish(void); /* reads the clocks a last time and writes the fitted line */
void clocks_after_fork(void);

static inline uint64_t clocks_to_wall(uint64_t cupti_ns) { return cupti_ns - (uint64_t)clocks_shift_ns; }

#endif
