/* The collector's background thread, started when CUDA is initialised. It does all work that must not run
 * inside the program's own calls: it drains the threads' launch rings, takes clock pairs, queries the
 * driver, opens and closes windows by time and budget, and flushes CUPTI, which may hang in the driver.
 * The end of the process waits for this thread only up to a deadline. */
#ifndef COLLECT_BACKGROUND_H
#define COLLECT_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

bool background_start(void); /* false: no thread could be started */
/* Call this when CUPTI is attached. The thread then also handles clocks, windows and flushes. */
void background_watch_gpu(void);
void background_wake(void); /* Starts the next tick now. May be called on any thread. */
/* Stops the thread after a last flush. Returns false if the thread has not finished at the deadline. */
bool background_stop(uint64_t until_ns);
void background_after_fork(void);

#endif
