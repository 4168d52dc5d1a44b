/* Start of the collector. */
#ifndef COLLECT_INJECT_H
#define COLLECT_INJECT_H

#include <stdbool.h>

/* Opens the trace of this process, once. Returns false if the collector is inactive in this process. Call
 * this between host_enter() and host_leave(). */
bool inject_start(void);

#endif
