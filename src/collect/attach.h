/* Attaches CUPTI to the process and detaches it again between capture windows.
 *
 * Why: once CUPTI 13.0.1 has recorded kernels, every later launch takes 0.34 us longer, even if all records
 * are disabled (docs/overhead.md).
 *
 * When: cuptiFinalize() must run at the end of a CUDA call, on the thread that made the call, while no thread
 * of the collector is inside CUPTI. It also waits until the GPU is idle, and this wait must not delay the
 * program. CUPTI is therefore detached only right after the program has synchronised with its only stream,
 * and only if every launch since the attach has its kernel record.
 *
 * CUDA graphs: with CUPTI 13.0.1, a graph that is launched after kernel records were disabled fails when
 * CUPTI is detached. Therefore attach_try_detach() does nothing if graphs were launched, and
 * attach_detach_graphs() disables kernel records and detaches in one call.
 *
 * Threads: attach_try_detach(), attach_detach_graphs() and attach_note_graph_launch() run in CUPTI callbacks
 * on the program's threads. attach_start() first runs in cuInit(). No function waits for a lock. */
#ifndef COLLECT_ATTACH_H
#define COLLECT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

bool attach_start(void); /* Attaches CUPTI. On failure, calls report_problem() and returns false. */

/* These two calls bracket every CUPTI call that is not made from a CUPTI callback, on any thread. CUPTI stays
 * attached in between. attach_enter() returns false if CUPTI is detached: the call must not be made. */
bool attach_enter(void);
void attach_exit(void);

bool attach_needs_syncs(void); /* watch synchronisations anyway */
/* Call this when a window has closed. If CUPTI may be detached, the callbacks report the ends of graph
 * launches and synchronisations to this module from now on. */
void attach_window_closed(void);
/* Requests a detach at the next safe moment. Call this after a flush, with kernel records disabled. Returns
 * false if records are still missing: call again later. Returns true without a request if CUPTI must stay
 * attached. */
bool attach_request_detach(void);
/* For programs with CUDA graphs: call attach_detach_graphs() at the end of a synchronisation. `prepare`
 * flushes and disables records; it returns false if work is still running. Returns true if CUPTI was
 * detached. */
bool attach_can_detach_graphs(void);
bool attach_detach_graphs(bool (*prepare)(void));
/* Call this after kernel records were disabled. attach_detach_graphs() then does nothing until the next
 * attach. */
void attach_kernels_disabled(void);
void attach_note_graph_launch(void);
/* Call this when the program has just synchronised with this stream, or with all streams of the context
 * (DEVICES_ALL_STREAMS). Detaches CUPTI if a detach was requested and is safe. */
void attach_try_detach(uint32_t context, uint32_t stream);
/* Call this before a window opens. Attaches CUPTI if it is detached, then calls attach_enter(). ATTACH_BUSY:
 * another thread attaches or detaches; try again later. Only ATTACH_READY requires attach_exit(). */
enum attach_state { ATTACH_READY, ATTACH_BUSY, ATTACH_FAILED };
enum attach_state attach_reattach(void);

unsigned attach_detach_count(void);
uint64_t attach_detach_ns(void);           /* total time in cuptiFinalize() */
const char *attach_no_detach_reason(void); /* part of a message */
void attach_after_fork(void);              /* call in the child */

#endif
