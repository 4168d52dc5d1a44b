#include "collect/records.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "collect/call_clock.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/layout.h"
#include "collect/output.h"
#include "collect/window.h"

#define BATCH 16        /* records per write; struct batch takes 2.6 KiB of stack */
#define EARLY_NS 100000 /* accepted clock error */

static const struct layout *layout;

void records_start(void) { layout = layout_find(cupti.version); }

_Atomic uint64_t records_calls[RECORDS_CALLS];

void records_reset_calls(void) {
    for (size_t i = 0; i < RECORDS_CALLS; i++)
        atomic_store_explicit(&records_calls[i], 0, memory_order_relaxed);
    atomic_fetch_add(&call_clock.epoch, (uint64_t)1 << 32);
}

/* Returns how many ns the kernel started before its call. 0 or less: it started after the call, or the call
 * was not recorded. */
static int64_t before_call_ns(uint32_t correlation, uint64_t start_ns) {
    uint64_t slot = atomic_load_explicit(&records_calls[correlation % RECORDS_CALLS], memory_order_relaxed);
    if (!records_has_call(correlation)) return 0;
    uint64_t ahead = (slot - records_call_units(start_ns)) << 16; /* wraps around at 48 bits */
    return ((int64_t)ahead >> 16) * 256;
}

/* ---- conversion of CUPTI's records */
struct batch {
    struct trace_writer *w;
    unsigned nkernels, ncopies;
    struct trace_kernel kernels[BATCH];
    struct trace_copy copies[BATCH];
    struct record_counts counts;
    uint64_t lost[TRACE_KIND_END];
};

static struct {
    atomic_ullong kernels, graph_kernels, copies, graph_copies, untrusted, early, unknown, outside;
} totals;

static void batch_write(struct batch *b) {
    trace_writer_kernel(b->w, b->kernels, b->nkernels);
    trace_writer_copy(b->w, b->copies, b->ncopies);
    b->nkernels = b->ncopies = 0;
}

/* Returns false if the record was launched outside of any window or its timestamps are invalid. */
static bool is_usable(struct batch *b, enum trace_kind kind, uint32_t correlation, uint64_t start,
                      uint64_t end) {
    if (settings.launches && window_is_partial() && !records_has_call(correlation)) {
        b->counts.outside++;
        return false;
    }
    int64_t early = start && end >= start ? before_call_ns(correlation, clocks_to_wall(start)) : 0;
    if (start == 0 || end < start || early > EARLY_NS) {
        b->lost[kind]++;
        b->counts.untrusted++;
        return false;
    }
    b->counts.early += early > 1000;
    return true;
}

static void read_kernel(struct batch *b, const uint8_t *r) {
    const struct layout_kernel *at = layout->kernel;
    uint64_t start = field_u64(r, at->start), end = field_u64(r, at->end);
    uint32_t correlation = field_u32(r, at->correlation);
    if (!is_usable(b, TRACE_KERNEL, correlation, start, end)) return;
    const char *name;
    memcpy(&name, r + at->name, sizeof name);
    struct trace_kernel *k = &b->kernels[b->nkernels++];
    *k = (struct trace_kernel){
        .start_ns = clocks_to_wall(start),
        .end_ns = clocks_to_wall(end),
        .correlation = call_clock_id(correlation),
        .graph_node = field_u64(r, at->graph_node),
        .graph = field_u32(r, at->graph),
        .device = field_u32(r, at->device),
        .context = field_u32(r, at->context),
        .stream = field_u32(r, at->stream),
        .name = trace_writer_str(b->w, name),
        .grid_x = field_u32(r, at->grid),
        .grid_y = field_u32(r, (uint16_t)(at->grid + 4)),
        .grid_z = field_u32(r, (uint16_t)(at->grid + 8)),
        .block_x = field_u32(r, at->block),
        .block_y = field_u32(r, (uint16_t)(at->block + 4)),
        .block_z = field_u32(r, (uint16_t)(at->block + 8)),
        .registers = field_u16(r, at->registers),
        .static_smem_bytes = field_u32(r, at->static_smem),
        .dynamic_smem_bytes = field_u32(r, at->dynamic_smem),
    };
    b->counts.kernels++;
    b->counts.graph_kernels += k->graph_node != 0;
    devices_note_stream(k->device, k->context, k->stream);
}

static enum trace_copy_kind copy_kind(uint8_t cupti_kind) {
    static const uint8_t kinds[] = { TRACE_COPY_UNKNOWN, TRACE_COPY_HTOD, TRACE_COPY_DTOH, TRACE_COPY_HTOD,
                                     TRACE_COPY_DTOH,    TRACE_COPY_DTOD, TRACE_COPY_DTOD, TRACE_COPY_DTOD,
                                     TRACE_COPY_DTOD,    TRACE_COPY_HTOH, TRACE_COPY_PTOP };
    return cupti_kind < COUNTOF(kinds) ? kinds[cupti_kind] : TRACE_COPY_UNKNOWN;
}

static void read_copy(struct batch *b, const uint8_t *r, const struct layout_copy *at,
                      enum trace_copy_kind kind) {
    uint64_t start = field_u64(r, at->start), end = field_u64(r, at->end);
    uint32_t correlation = field_u32(r, at->correlation);
    if (!is_usable(b, TRACE_COPY, correlation, start, end)) return;
    struct trace_copy *c = &b->copies[b->ncopies++];
    *c = (struct trace_copy){
        .start_ns = clocks_to_wall(start),
        .end_ns = clocks_to_wall(end),
        .correlation = call_clock_id(correlation),
        .graph_node = field_u64(r, at->graph_node),
        .bytes = field_u64(r, at->bytes),
        .graph = field_u32(r, at->graph),
        .device = field_u32(r, at->device),
        .context = field_u32(r, at->context),
        .stream = field_u32(r, at->stream),
        .copy_kind = kind,
    };
    b->counts.copies++;
    b->counts.graph_copies += c->graph_node != 0;
    devices_note_stream(c->device, c->context, c->stream);
}

/* A graph launch that is recorded as a whole becomes a kernel without grid and block. */
static void read_graph(struct batch *b, const uint8_t *r) {
    const struct layout_graph *at = layout->graph;
    uint64_t start = field_u64(r, at->start), end = field_u64(r, at->end);
    uint32_t correlation = field_u32(r, at->correlation);
    char name[32];
    if (!is_usable(b, TRACE_KERNEL, correlation, start, end)) return;
    struct trace_kernel *k = &b->kernels[b->nkernels++];
    *k = (struct trace_kernel){
        .start_ns = clocks_to_wall(start),
        .end_ns = clocks_to_wall(end),
        .correlation = call_clock_id(correlation),
        .graph = field_u32(r, at->graph),
        .device = field_u32(r, at->device),
        .context = field_u32(r, at->context),
        .stream = field_u32(r, at->stream),
    };
    snprintf(name, sizeof name, "CUDA graph %u", k->graph);
    k->name = trace_writer_str(b->w, name);
    b->counts.kernels++;
    devices_note_stream(k->device, k->context, k->stream);
}

static void read_record(struct batch *b, const uint8_t *r, size_t left) {
    uint32_t kind = field_u32(r, 0);
    uint16_t bytes = layout_record_bytes(layout, kind);
    if (bytes == 0 || bytes > left) {
        b->counts.unknown++;
        return;
    }
    switch (kind) {
    case KIND_CONCURRENT_KERNEL: read_kernel(b, r); break;
    case KIND_MEMCPY: read_copy(b, r, layout->memcpy_, copy_kind(r[layout->memcpy_->copy_kind])); break;
    case KIND_MEMCPY2: read_copy(b, r, layout->peer, TRACE_COPY_PTOP); break;
    case KIND_MEMSET: read_copy(b, r, layout->memset_, TRACE_COPY_MEMSET); break;
    case KIND_GRAPH_TRACE: read_graph(b, r); break;
    default: b->counts.unknown++; break;
    }
    if (MAX(b->nkernels, b->ncopies) == BATCH) batch_write(b);
}

static void batch_add_totals(struct batch *b, uint64_t dropped) {
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (b->lost[k]) trace_writer_lost(b->w, k, TRACE_LOST_UNTRUSTED, b->lost[k]);
    if (dropped) trace_writer_lost(b->w, TRACE_KERNEL, TRACE_LOST_SOURCE, dropped);
    atomic_fetch_add(&totals.kernels, b->counts.kernels);
    atomic_fetch_add(&totals.graph_kernels, b->counts.graph_kernels);
    atomic_fetch_add(&totals.copies, b->counts.copies);
    atomic_fetch_add(&totals.graph_copies, b->counts.graph_copies);
    atomic_fetch_add(&totals.untrusted, b->counts.untrusted);
    atomic_fetch_add(&totals.early, b->counts.early);
    atomic_fetch_add(&totals.unknown, b->counts.unknown);
    atomic_fetch_add(&totals.outside, b->counts.outside);
}

void records_read(struct trace_writer *w, uint8_t *buffer, size_t valid, uint64_t dropped) {
    struct batch b;
    uint8_t *r = NULL;
    int rc;
    b.w = w;
    b.nkernels = b.ncopies = 0;
    memset(&b.counts, 0, sizeof b.counts);
    memset(b.lost, 0, sizeof b.lost);
    while ((rc = cupti.next_record(buffer, valid, &r)) == CUPTI_OK) {
        if (r < buffer || (size_t)(r - buffer) + sizeof(uint32_t) > valid) break;
        read_record(&b, r, valid - (size_t)(r - buffer));
    }
    if (rc != CUPTI_E_MAX_LIMIT && rc != CUPTI_OK)
        report_problem("reading a CUPTI buffer failed (%s): some kernels are missing", cupti_error(rc));
    batch_write(&b);
    batch_add_totals(&b, dropped);
}

void records_lose(uint8_t *buffer, size_t valid) {
    uint64_t kernels = 0, copies = 0;
    uint8_t *r = NULL;
    while (cupti.next_record(buffer, valid, &r) == CUPTI_OK) {
        if (r < buffer || (size_t)(r - buffer) + sizeof(uint32_t) > valid) break;
        uint32_t kind = field_u32(r, 0);
        kernels += kind == KIND_CONCURRENT_KERNEL || kind == KIND_GRAPH_TRACE;
        copies += kind == KIND_MEMCPY || kind == KIND_MEMCPY2 || kind == KIND_MEMSET;
    }
    output_lost(TRACE_KERNEL, TRACE_LOST_MEMORY, kernels);
    output_lost(TRACE_COPY, TRACE_LOST_MEMORY, copies);
    atomic_fetch_add(&totals.kernels, kernels);
    atomic_fetch_add(&totals.copies, copies);
}

struct record_counts records_counts(void) {
    return (struct record_counts){
        .kernels = atomic_load(&totals.kernels),
        .graph_kernels = atomic_load(&totals.graph_kernels),
        .copies = atomic_load(&totals.copies),
        .graph_copies = atomic_load(&totals.graph_copies),
        .untrusted = atomic_load(&totals.untrusted),
        .early = atomic_load(&totals.early),
        .unknown = atomic_load(&totals.unknown),
        .outside = atomic_load(&totals.outside),
    };
}

void records_after_fork(void) {
    memset(&totals, 0, sizeof totals);
    records_reset_calls();
}
