/* The buffers for CUPTI: a quarter of the collector's memory, mostly large ones, some small ones. CUPTI keeps
 * a full buffer until the next flush, so the pool must have enough buffers for one flush period. Called in
 * buffer callbacks, on CUPTI's threads and on the program's threads. */
#ifndef COLLECT_POOL_H
#define COLLECT_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Sets *bytes to the size. Returns NULL and size 0 if the pool is empty. CUPTI versions that do not accept
 * NULL get a small buffer from malloc() instead. */
uint8_t *pool_take(size_t *bytes);
void pool_give(uint8_t *buffer);
/* Takes back all buffers after a detach, because CUPTI does not return buffers that were in use. */
void pool_reclaim(void);
void pool_after_fork(void);

#endif
