/* CUPTI's activity records, read one by one into the trace. CUPTI's structs end here. */
#ifndef COLLECT_RECORDS_H
#define COLLECT_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
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
/* When calls began, by correlation id: their kernels cannot be older, and what has no call is of no
 * window. A slot holds 14 more bits of the id and the time in units of 256 ns, modulo 2^48. */
#define RECORDS_CALLS (1u << 18) /* more than are launched before their kernels are read */
extern _Atomic uint64_t records_calls[RECORDS_CALLS];
static inline uint64_t records_call_ticks(uint64_t ns) { return ns >> 8 & (((uint64_t)1 << 48) - 1); }
static inline void records_note_call(uint32_t correlation, uint64_t start_ns) {
    atomic_store_explicit(&records_calls[correlation % RECORDS_CALLS],
                          (uint64_t)(correlation / RECORDS_CALLS) << 48 | records_call_ticks(start_ns),
                          memory_order_relaxed);
}
static inline bool records_has_call(uint32_t correlation) {
    uint64_t slot = atomic_load_explicit(&records_calls[correlation % RECORDS_CALLS], memory_order_relaxed);
    return slot != 0 && slot >> 48 == correlation / RECORDS_CALLS;
}
void records_forget_calls(void);           /* CUPTI comes again, and may count its calls from 1 */
struct record_counts records_counts(void); /* so far */

#endif
