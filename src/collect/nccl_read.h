/* Reads NCCL's event descriptors. */
#ifndef COLLECT_NCCL_READ_H
#define COLLECT_NCCL_READ_H

#include "collect/nccl_tables.h"
#include "trace/writer.h"

uint64_t nccl_read_type(const struct nccl_layout *l, const void *descriptor); /* enum nccl_event */
/* If `offset` is NCCL_ABSENT, the first function returns `otherwise`, the second one TRACE_UNKNOWN_U32. */
uint64_t nccl_read_u64(const void *descriptor, uint16_t offset, uint64_t otherwise);
uint32_t nccl_read_byte(const void *descriptor, uint16_t offset);
/* Fills `r` from the descriptor of a collective, send or receive. `w`: for the strings; NULL: no strings. */
void nccl_read_operation(struct trace_writer *w, struct nccl_comm *c, uint64_t type, const void *descriptor,
                         struct trace_collective *r);

#endif
