/* Converts CUPTI's activity records to trace records. records_read() runs on the thread on which CUPTI
 * returns a buffer; several threads may call it at the same time. */
#ifndef COLLECT_RECORDS_H
#define COLLECT_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

struct record_counts {
    uint64_t kernels, graph_kernels, copies, graph_copies;
    /* discarded: timestamps are zero or reversed, or more than 100 us before the launch */
    uint64_t untrusted;
    uint64_t early;   /* kept despite a start 1 to 100 us before the launch: clock error */
    uint64_t unknown; /* records that are truncated or of an unused kind */
    uint64_t outside; /* discarded: launched while no capture window was open */
};

void records_start(void); /* call before the first buffer */
/* Reads a buffer returned by CUPTI. `dropped`: number of records that CUPTI dropped since the last buffer. */
void records_read(struct trace_writer *w, uint8_t *buffer, size_t valid, uint64_t dropped);
/* Counts the records of a buffer as lost because no file is open. */
void records_lose(uint8_t *buffer, size_t valid);
/* Start times of recorded calls, by correlation id. A kernel cannot start before its call, and a kernel
 * without an entry was launched outside of any window. The low 18 bits of the id select the slot, which
 * contains the upper 14 bits and the time in units of 256 ns, modulo 2^48. */
#define RECORDS_CALLS (1u << 18) /* more than the number of launches whose kernel records are still pending */
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
/* Call this before a reattach, because CUPTI may restart its ids at 1. */
void records_reset_calls(void);
struct record_counts records_counts(void); /* totals so far */
void records_after_fork(void);

#endif
