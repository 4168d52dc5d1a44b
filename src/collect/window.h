/* Decides when kernels are captured: always, after a delay and for a duration, inside NVTX ranges that
 * match a pattern, in short windows that keep the overhead of the whole run within a budget, or for some
 * replays of each CUDA graph (replays.h). NVTX ranges do not depend on windows. window_tick() runs on the
 * background thread; window_range() runs on the program's threads, in NVTX calls. */
#ifndef COLLECT_WINDOW_H
#define COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

void window_start(void);
void window_tick(uint64_t mono_ns); /* call every few ms if window_needs_ticks() */
bool window_needs_ticks(void);
/* returns true if no kernels are being recorded and all earlier ones were delivered */
bool window_is_idle(void);
unsigned window_tick_ms(void); /* time until the next tick */
bool window_is_partial(void);  /* true if kernels are captured in windows, not all the time */
/* Returns true if this range opens the window. With settings.arms, also applies the words after its name. */
bool window_matches(const char *range_name);
/* Called when a matching range started (`by` +1) or ended (-1) at `wall_ns`. Usually opens or closes the
 * window before it returns, so that the whole range is inside the window. */
void window_range(int by, uint64_t wall_ns);
/* Opens or closes the window according to replays.h. Any thread; does not wait. */
void window_replays(bool on);
/* Call this at the end of a CUDA call in which the program has waited for its graphs. Detaches CUPTI if the
 * window was closed by window_replays() and all work is done. */
void window_try_detach(void);
void window_finish(void);
void window_after_fork(void);

#endif
