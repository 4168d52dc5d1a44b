/* Converts CUPTI's activity records to trace records. CUPTI may return buffers on several threads at the same
 * time. */
#ifndef COLLECT_RECORDS_H
#define COLLECT_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

struct record_counts {
    uint64_t kernels, graph_kernels, copies, graph_copies;
    /* discarded: timestamps are 0 or reversed, or the start is more than 100 us before the call */
    uint64_t untrusted;
    uint64_t early;   /* kept: starts 1 to 100 us before the call */
    uint64_t unknown; /* truncated, or of another kind */
    uint64_t outside; /* discarded: launched outside of windows */
};

void records_start(void); /* call before the first buffer */
/* `dropped`: records that CUPTI dropped since the last buffer */
void records_read(struct trace_writer *w, uint8_t *buffer, size_t valid, uint64_t dropped);
/* Counts the records of a buffer as lost. Used if no file is open. */
void records_lose(uint8_t *buffer, size_t valid);
/* Start times of recorded calls. The low 18 bits of the correlation id select the slot. A slot contains the
 * other 14 bits and the time in units of 256 ns, modulo 2^48. A kernel without a slot was launched outside of
 * windows. */
#define RECORDS_CALLS (1u << 18) /* exceeds the launches in flight */
extern _Atomic uint64_t records_calls[RECORDS_CALLS];
static inline uint64_t records_call_units(uint64_t ns) { return ns >> 8 & (((uint64_t)1 << 48) - 1); }
static inline void records_note_call(uint32_t correlation, uint64_t start_ns) {
    atomic_store_explicit(&records_calls[correlation % RECORDS_CALLS],
                          (uint64_t)(correlation / RECORDS_CALLS) << 48 | records_call_units(start_ns),
                          memory_order_relaxed);
}
static inline bool records_has_call(uint32_t correlation) {
    uint64_t slot = atomic_load_explicit(&records_calls[correlation % RECORDS_CALLS], memory_order_relaxed);
    return slot != 0 && slot >> 48 == correlation / RECORDS_CALLS;
}
/* Call before a reattach: CUPTI may restart its ids at 1. */
void records_reset_calls(void);
struct record_counts records_counts(void); /* totals so far */
void records_after_fork(void);

#endif
