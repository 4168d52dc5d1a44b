/* Decides when kernels are captured: always, after a delay and for a duration, inside NVTX ranges that
 * match a pattern, in short windows within an overhead budget, or for some replays of each CUDA graph
 * (replays.h). window_tick() runs on the background thread; window_range() runs on the program's
 * threads, in NVTX calls. */
#ifndef COLLECT_WINDOW_H
#define COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

void window_start(void);
void window_tick(uint64_t mono_ns); /* call if window_needs_ticks() */
bool window_needs_ticks(void);
/* Returns true if no window is open and kernel records are disabled. */
bool window_is_idle(void);
unsigned window_tick_ms(void); /* time until the next tick */
bool window_is_partial(void);  /* false: all kernels are captured */
/* What a range does to the window. */
enum window_role {
    WINDOW_NONE,
    WINDOW_CAPTURE, /* keeps the window open */
    WINDOW_WARMUP,  /* CUPTI records kernels, which are discarded; the range is not written to the trace */
};
/* With settings.arms, also applies the words after the name. */
enum window_role window_role(const char *range_name);
/* A range with a role has started (`by` +1) or ended (-1) at `wall_ns`. Usually opens or closes the window
 * before it returns, so that the whole range is inside the window. */
void window_range(enum window_role role, int by, uint64_t wall_ns);
/* Opens or closes the window for replays.h. Any thread; does not wait. */
void window_replays(bool on);
/* Call this at the end of a CUDA call in which the program has waited for its graphs. Detaches CUPTI if
 * window_replays() has closed the window and all work is done. */
void window_try_detach(void);
void window_finish(void);
void window_after_fork(void);

#endif
