/* CUPTI's callbacks on the calls of calls.h: launches and synchronisations with their thread, and the news
 * that a context was made. */
#ifndef COLLECT_CALLBACKS_H
#define COLLECT_CALLBACKS_H

#include <stdbool.h>

bool callbacks_start(
    void); /* subscribes; false: somebody else holds CUPTI, or it refuses: problem() says so */
void callbacks_watch(void);      /* callbacks come from now on; what is not captured passes unrecorded */
void callbacks_capture(bool on); /* calls that begin from now on are recorded, or pass */
void callbacks_park(void);       /* no callbacks at all; only while no thread is in a call */

void callbacks_tell_ends(bool yes); /* of graph launches and waits outside of windows, to attach.h */
void callbacks_gone(void);          /* CUPTI left: the subscription is no more */

#endif
