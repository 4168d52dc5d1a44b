/* Start of the collector from entry points outside of inject.c. */
#ifndef COLLECT_INJECT_H
#define COLLECT_INJECT_H

#include <stdbool.h>

/* Opens the trace of this process, once. Returns false if the collector does nothing in this process. Must be
 * called between host_enter() and host_leave(). */
bool inject_start(void);

#endif
