/* CUPTI's callbacks for the calls of calls.h. They record launches, synchronisations and allocations, and
 * detect when a context is created. They run on the program's threads, inside its CUDA calls: they must not
 * wait or print, and must not allocate memory in the common case. */
#ifndef COLLECT_CALLBACKS_H
#define COLLECT_CALLBACKS_H

#include <stdbool.h>

/* Subscribes to CUPTI. On failure, calls report_problem(). Returns false only if another tool is
 * subscribed. */
bool callbacks_start(void);
void callbacks_watch(void);      /* enables the callbacks */
void callbacks_capture(bool on); /* record calls from now on */
void callbacks_disable(void);    /* only while no thread is inside a call */

/* Sets whether the ends of unrecorded graph launches and synchronisations are reported to attach.h. */
void callbacks_report_ends(bool on);
void callbacks_count(bool on); /* report unrecorded calls to replays.h */
void callbacks_detached(void); /* call after a detach */

#endif
