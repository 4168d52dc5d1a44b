/* CUPTI's callbacks for the calls of calls.h. They record launches, synchronisations and allocations with
 * their thread, and detect when a context is created. The callbacks run on the program's threads, inside its
 * CUDA calls: they must not wait or print, and must not allocate in the common case. */
#ifndef COLLECT_CALLBACKS_H
#define COLLECT_CALLBACKS_H

#include <stdbool.h>

/* Subscribes to CUPTI. On failure, calls report_problem(). Returns false if another tool is subscribed. */
bool callbacks_start(void);
void callbacks_watch(void); /* enables the callbacks; launches are recorded from callbacks_capture() on */
void callbacks_capture(bool on); /* sets whether calls that start from now on are recorded */
void callbacks_disable(void);    /* disables the callbacks; only allowed while no thread is inside a call */

/* Sets whether the ends of unrecorded graph launches and synchronisations are reported to attach.h. */
void callbacks_report_ends(bool on);
void callbacks_count(bool on); /* sets whether unrecorded calls are reported to replays.h */
void callbacks_detached(void); /* call after CUPTI was detached: clears the subscription */

#endif
