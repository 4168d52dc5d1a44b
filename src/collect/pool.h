/* The buffers lent to CUPTI: a quarter of the collector's memory, in large ones while they last, then in
 * small ones. CUPTI keeps a buffer until it is flushed, full or not, so there must be as many as a flush
 * period can fill. */
#ifndef COLLECT_POOL_H
#define COLLECT_POOL_H

#include <stddef.h>
#include <stdint.h>

uint8_t *pool_take(size_t *bytes); /* NULL and 0: none is left, and this CUPTI bears being told so */
void pool_give(uint8_t *buffer);
void pool_reclaim(void); /* CUPTI left, and forgot one for each thread that was busy */
void pool_after_fork(void);

#endif
