/* When kernels are captured: all the time, after a delay and for a duration, inside NVTX ranges of a name,
 * or in windows short enough to keep the whole run within a budget. NVTX ranges are recorded at all times. */
#ifndef COLLECT_WINDOW_H
#define COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

void window_start(void);
void window_tick(uint64_t mono_ns); /* from the keeper: every few ms while a budget or a time limit is set */
bool window_needs_ticks(void);
bool window_is_partial(void);                /* kernels are captured in windows, not all the time */
bool window_matches(const char *range_name); /* does this range open the window? */
/* by +1: such a range began at that time; -1: ended. Switches before it returns, so all of the range is in
 * the window. */
void window_range(int by, uint64_t wall_ns);
void window_finish(void);

#endif
