/* CUPTI's activity buffers: lent, taken back, read record by record into the trace. CUPTI's structs end here. */
#ifndef COLLECT_ACTIVITY_H
#define COLLECT_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

struct activity_counts {
    uint64_t kernels, graph_kernels, copies, syncs, buffers;
    uint64_t untrusted; /* put aside: zero or reversed times, or started before they were launched */
    uint64_t early;     /* of those kept: up to 100 us before their launch, which is the clocks' error */
    uint64_t unknown;   /* records of kinds we do not read */
};

bool activity_start(void); /* registers the buffers; false: problem() says why */
void activity_capture(bool on);
/* The moment a call with this correlation id began: its kernels cannot be older. */
void activity_note_call(uint32_t correlation, uint64_t start_ns);
void activity_counts(struct activity_counts *out);
void activity_after_fork(void);

#endif
