/* The buffers provided to CUPTI: a quarter of the collector's memory, first large ones, then small ones.
 * CUPTI keeps a buffer until the next flush, even if the buffer is full, so the pool must contain as many
 * buffers as fill up within a flush period. Called on CUPTI's threads and on the program's threads, inside
 * buffer callbacks. */
#ifndef COLLECT_POOL_H
#define COLLECT_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Returns a buffer and its size in *bytes. Returns NULL and sets *bytes to 0 if the pool is empty; CUPTI
 * versions that do not accept NULL get a small buffer from malloc(). */
uint8_t *pool_take(size_t *bytes);
void pool_give(uint8_t *buffer);
/* Takes back all buffers after a detach: CUPTI does not return buffers that busy threads were still
 * filling. */
void pool_reclaim(void);
void pool_after_fork(void);

#endif
