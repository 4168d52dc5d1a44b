/* Relates three clocks: the clock of CUPTI's records, CLOCK_MONOTONIC and the wall clock. All times in the
 * trace are wall clock times. The clocks are read together during the run ("clock.pair" in the trace); at the
 * end, a fitted line and its largest residual are written. Background thread only, except clocks_start(). */
#ifndef COLLECT_CLOCKS_H
#define COLLECT_CLOCKS_H

#include <stdint.h>

extern int64_t clocks_shift_ns; /* CUPTI clock minus wall clock at the start; 0: same clock */

void clocks_start(void);  /* measures the shift */
void clocks_pair(void);   /* writes the readings */
void clocks_finish(void); /* last reading; writes the line */
void clocks_after_fork(void);

static inline uint64_t clocks_to_wall(uint64_t cupti_ns) { return cupti_ns - (uint64_t)clocks_shift_ns; }

#endif
