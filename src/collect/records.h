/* CUPTI's activity records, read one by one into the trace. CUPTI's structs end here. */
#ifndef COLLECT_RECORDS_H
#define COLLECT_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

struct record_counts {
    uint64_t kernels, graph_kernels, copies;
    uint64_t untrusted; /* put aside: zero or reversed times, or started before they were launched */
    uint64_t early;     /* of those kept: up to 100 us before their launch, which is the clocks' error */
    uint64_t unknown;   /* records of kinds we do not read */
    uint64_t outside;   /* left out: launched while no capture window was open */
};

void records_start(void); /* before the first buffer */
/* Reads a buffer that CUPTI gave back; `dropped`: how many records it says it threw away before. */
void records_read(struct trace_writer *w, uint8_t *buffer, size_t valid, uint64_t dropped);
/* The moment a call with this correlation id began: its kernels cannot be older. */
void records_note_call(uint32_t correlation, uint64_t start_ns);
void records_counts(struct record_counts *out); /* so far */

#endif
