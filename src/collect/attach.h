/* Attaches CUPTI to the process and detaches it again between capture windows.
 *
 * Why detach: once CUPTI 13.0.1 has recorded kernels, every later launch of the process is slower, even if
 * everything is disabled (0.34 us per launch, docs/overhead.md). CUPTI is therefore detached between the
 * windows of --budget and after the last window of --duration, and attached again for the next window.
 *
 * When it is safe: cuptiFinalize() must run at the end of a CUDA call, on the thread that made the call,
 * while no thread of the collector is inside CUPTI. It also waits until the GPU is idle. This wait must not
 * delay the program, in particular if a kernel itself waits for the program. CUPTI is therefore detached only
 * right after the program has synchronised with its only stream, and only if every launch since the attach
 * has its kernel record.
 *
 * CUDA graphs: with CUPTI 13.0.1, a graph that is launched after kernel records were disabled fails when
 * CUPTI is detached. attach_try_detach() therefore never detaches if graphs were launched.
 * attach_detach_graphs() disables kernel records and detaches within one call (replays.h). While CUPTI is
 * attached, even with everything disabled, each launch of a graph takes 0.2 to 0.4 us longer per kernel.
 *
 * Threads: attach_try_detach(), attach_detach_graphs() and attach_note_graph_launch() run in CUPTI callbacks
 * on the program's threads. attach_start() first runs in cuInit(). The other functions run on the background
 * thread, except where noted. No function waits for a lock. */
#ifndef COLLECT_ATTACH_H
#define COLLECT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

bool attach_start(void); /* attaches CUPTI; on failure, calls report_problem() and returns false */

/* attach_enter() and attach_exit() bracket every CUPTI call that is not made from a CUPTI callback, on any
 * thread. While a thread is between the two, CUPTI stays attached. If CUPTI is detached, attach_enter()
 * returns false, and the call must not be made. */
bool attach_enter(void);
void attach_exit(void);

bool attach_needs_syncs(void); /* true if synchronisations must be watched even if they are not recorded */
/* Call this when a window has closed. If CUPTI may be detached, the ends of graph launches and
 * synchronisations are reported to this module from now on. */
void attach_window_closed(void);
/* Requests a detach at the next safe moment. Call after a flush, with kernel records switched off. Returns
 * false if records are still missing: call again later. Returns true without a request if CUPTI must stay
 * attached. */
bool attach_request_detach(void);
/* For programs with CUDA graphs. attach_detach_graphs() is called at the end of a synchronisation.
 * `prepare` flushes and disables records; it returns false if work is still running.
 * attach_detach_graphs() returns true if CUPTI was detached. */
bool attach_can_detach_graphs(void);
bool attach_detach_graphs(bool (*prepare)(void));
/* Call this after kernel records were disabled: until the next attach, a detach is not safe with graphs. */
void attach_kernels_disabled(void);
void attach_note_graph_launch(void);
/* Call this when the program has just synchronised with this stream, or with all streams of the context
 * (DEVICES_ALL_STREAMS). Detaches CUPTI if a detach was requested and is safe. */
void attach_try_detach(uint32_t context, uint32_t stream);
/* Call this before a window opens: attaches again if detached, then calls attach_enter(). ATTACH_BUSY: a
 * detach is in progress, try again later. Only ATTACH_READY requires attach_exit(). */
enum attach_state { ATTACH_READY, ATTACH_BUSY, ATTACH_FAILED };
enum attach_state attach_reattach(void);

unsigned attach_detach_count(void);
uint64_t attach_detach_ns(void);           /* returns the total time spent in cuptiFinalize() so far */
const char *attach_no_detach_reason(void); /* returns why CUPTI stays attached, as part of a message */
void attach_after_fork(void);              /* call in the child of a fork, in which CUDA does not work */

#endif
