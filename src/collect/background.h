/* The collector's background thread, one per process. It does what must not run inside the program's own
 * calls: it drains the threads' launch rings, takes clock pairs, queries the driver, opens and closes
 * windows by time and budget, and flushes CUPTI, which may hang in the driver. The program's exit waits
 * for it only up to a timeout. It runs with all signals blocked. */
#ifndef COLLECT_BACKGROUND_H
#define COLLECT_BACKGROUND_H

#include <stdbool.h>

void background_start(void);               /* may be called again */
void background_watch_gpu(void);           /* CUPTI is attached: also do clocks, windows and flushes */
bool background_stop(unsigned timeout_ms); /* with a last flush; false: not finished within the timeout */
void background_after_fork(void);

#endif
