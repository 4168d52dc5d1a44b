/* CUPTI's callbacks for the calls of calls.h: records launches and synchronisations with their thread, and
 * notices when a context is created. The callbacks run on the program's threads, inside its CUDA calls:
 * they must not wait, allocate in the common case, or print. */
#ifndef COLLECT_CALLBACKS_H
#define COLLECT_CALLBACKS_H

#include <stdbool.h>

bool callbacks_start(void); /* subscribes; false: another tool is subscribed, report_problem() was called */
void callbacks_watch(void); /* enables the callbacks; nothing is recorded before callbacks_capture() */
void callbacks_capture(bool on); /* whether calls that start from now on are recorded */
void callbacks_disable(void);    /* disables the callbacks; only while no thread is inside a call */

void callbacks_report_ends(bool on); /* of unrecorded graph launches and synchronisations, to attach.h */
void callbacks_detached(void);       /* CUPTI was detached: forget the subscription */

#endif
