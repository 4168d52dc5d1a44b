/* Reads the event descriptors of NCCL, by the offsets of their version. */
#ifndef COLLECT_NCCL_READ_H
#define COLLECT_NCCL_READ_H

#include "collect/nccl_tables.h"
#include "trace/writer.h"

uint64_t nccl_read_type(const struct nccl_layout *l, const void *descriptor); /* enum nccl_event */
/* `offset` may be NCCL_ABSENT: then the result is `otherwise`, or TRACE_UNKNOWN_U32. */
uint64_t nccl_read_u64(const void *descriptor, uint16_t offset, uint64_t otherwise);
uint32_t nccl_read_byte(const void *descriptor, uint16_t offset);
/* Fills a record with a collective, send or receive of the communicator. `w` adds texts to the trace; NULL:
 * the record has none. */
void nccl_read_operation(struct trace_writer *w, struct nccl_comm *c, uint64_t type, const void *descriptor,
                         struct trace_collective *r);

#endif
