/* Three clocks: the one of CUPTI's records, CLOCK_MONOTONIC and the wall clock. Everything in the trace is
 * on the wall clock. Pairs taken over the run go into the trace, with a line through them and how far they
 * stray from it. */
#ifndef COLLECT_CLOCKS_H
#define COLLECT_CLOCKS_H

#include <stdint.h>

extern int64_t clocks_shift_ns; /* CUPTI minus wall at the start; 0 when they are the same clock */

void clocks_start(void);  /* measures the shift */
void clocks_pair(void);   /* one more pair */
void clocks_finish(void); /* the line and its residual */

static inline uint64_t clocks_to_wall(uint64_t cupti_ns) { return cupti_ns - (uint64_t)clocks_shift_ns; }

#endif
