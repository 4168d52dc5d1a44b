/* One thread of the collector's own for what must not be done inside the program's calls: emptying
 * batches, clock pairs, asking the driver, switching windows by time, and the flush at the end, which may
 * hang in the driver. */
#ifndef COLLECT_KEEPER_H
#define COLLECT_KEEPER_H

#include <stdbool.h>

void keeper_start(void);               /* again is harmless */
void keeper_watch_gpu(void);           /* CUPTI is up: clocks, windows and flushing too */
bool keeper_stop(unsigned timeout_ms); /* last flush included; false: it did not come back in time */
void keeper_after_fork(void);

#endif
