/* The collector's background thread, started when CUDA is initialised. It does the work that must not run
 * inside the program's own calls: it drains the launch rings, reads the clocks, queries the driver, opens and
 * closes windows, and flushes CUPTI. A flush may hang in the driver, so the end of the process waits for this
 * thread only up to a deadline. */
#ifndef COLLECT_BACKGROUND_H
#define COLLECT_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

bool background_start(void); /* false: no thread */
/* Call this when CUPTI is attached. From then on the thread also handles clocks, windows and flushes. */
void background_watch_gpu(void);
void background_wake(void); /* starts a tick; any thread */
/* Stops the thread after a last flush. Returns false if the thread has not finished by the deadline. */
bool background_stop(uint64_t until_ns);
void background_after_fork(void);

#endif
