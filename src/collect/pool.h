/* The buffers lent to CUPTI: a quarter of the collector's memory, first large ones, then small ones. CUPTI
 * keeps a buffer until it is flushed, full or not, so the pool must hold as many as fill up within a flush
 * period. Called on CUPTI's threads and on the program's, inside buffer callbacks. */
#ifndef COLLECT_POOL_H
#define COLLECT_POOL_H

#include <stddef.h>
#include <stdint.h>

uint8_t *pool_take(size_t *bytes); /* NULL and 0: none left, and this CUPTI accepts that */
void pool_give(uint8_t *buffer);
/* Takes back all buffers after a detach: CUPTI does not return the one of each busy thread. */
void pool_reclaim(void);
void pool_after_fork(void);

#endif
