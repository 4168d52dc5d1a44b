/* The collector's background thread, started once CUDA is initialised. It does what must not run inside the
 * program's own calls: it drains the threads' launch rings, takes clock pairs, queries the driver, opens and
 * closes windows by time and budget, and flushes CUPTI, which may hang in the driver. The end of the process
 * waits for it only up to a deadline. */
#ifndef COLLECT_BACKGROUND_H
#define COLLECT_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

bool background_start(void);             /* false: no thread could be started */
void background_watch_gpu(void);         /* CUPTI is attached: also do clocks, windows and flushes */
bool background_stop(uint64_t until_ns); /* with a last flush; false: not finished at the deadline */
void background_after_fork(void);

#endif
