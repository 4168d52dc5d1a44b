/* When kernels are captured: all the time, after a delay and for a duration, inside NVTX ranges of a name, or in
 * windows short enough to keep the whole run within a budget. NVTX ranges are recorded at all times.
 *
 * The budget is kept on an account: it earns PCT of the time that passes and pays an estimate of what capturing cost,
 * so much a call and so much a kernel of a graph (measured on an H200, docs/overhead.md), and the time spent in
 * switching. While it is in debt, capturing is off. */
#ifndef COLLECT_WINDOW_H
#define COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

void window_start(void);
void window_tick(uint64_t mono_ns); /* from the keeper: every few ms while a budget or a time limit is set */
bool window_needs_ticks(void);
bool window_matches(const char *range_name); /* does this range open the window? */
void window_range(int by); /* +1: such a range began; -1: ended. Switches before it returns */
void window_finish(void);

#endif
