#include "collect/activity.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/layout.h"
#include "collect/output.h"
#include "collect/raw.h"

#define BATCH 64
#define SMALL_BUFFER_BYTES (64u << 10)
#define SMALL_BUFFERS 64
#define EARLY_NS 100000       /* clock error we accept between a launch and its kernel */
#define CAN_REFUSE_BUFFERS 27 /* CUPTI before this version crashes when a buffer is refused */

static const struct layout *layout;

/* ---- buffers */
static struct {
    pthread_mutex_t lock;
    void *idle; /* list through the buffers' first bytes */
    unsigned made, small;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void pool_count(unsigned *counter, int by) {
    pthread_mutex_lock(&pool.lock);
    *counter += (unsigned)by;
    pthread_mutex_unlock(&pool.lock);
}

static uint8_t *pool_take(size_t *bytes) {
    unsigned limit = (unsigned)(settings.memory_bytes / 4 / settings.buffer_bytes);
    pthread_mutex_lock(&pool.lock);
    uint8_t *b = pool.idle;
    if (b) memcpy(&pool.idle, b, sizeof pool.idle);
    bool grow = !b && pool.made < limit, small = !b && !grow && pool.small < SMALL_BUFFERS;
    pool.made += grow;
    pool.small += small;
    pthread_mutex_unlock(&pool.lock);
    *bytes = small ? SMALL_BUFFER_BYTES : settings.buffer_bytes;
    if (b) return b;
    if (!grow && !small) {
        *bytes = 0;
        if (cupti.version >= CAN_REFUSE_BUFFERS) return NULL;
        *bytes = 8192;
    }
    b = malloc(*bytes);
    if (!b) {
        if (grow) pool_count(&pool.made, -1);
        if (small) pool_count(&pool.small, -1);
        *bytes = 0;
    }
    return b;
}

static void pool_give(uint8_t *b, size_t bytes) {
    if (bytes != settings.buffer_bytes) {
        if (bytes == SMALL_BUFFER_BYTES) pool_count(&pool.small, -1);
        free(b);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    memcpy(b, &pool.idle, sizeof pool.idle);
    pool.idle = b;
    pthread_mutex_unlock(&pool.lock);
}

static void on_buffer_wanted(uint8_t **buffer, size_t *bytes, size_t *max_records) {
    *buffer = pool_take(bytes);
    *max_records = 0;
}

/* ---- when calls began: a slot holds 16 more bits of the id and the time in units of 256 ns, modulo 2^48 */
#define CALL_SLOTS 65536u
static _Atomic uint64_t call_times[CALL_SLOTS];

static uint64_t call_ticks(uint64_t ns) { return ns >> 8 & (((uint64_t)1 << 48) - 1); }

void activity_note_call(uint32_t correlation, uint64_t start_ns) {
    atomic_store_explicit(&call_times[correlation % CALL_SLOTS],
                          (uint64_t)(correlation / CALL_SLOTS) << 48 | call_ticks(start_ns),
                          memory_order_relaxed);
}

/* How long before its call a kernel started, in ns; 0 or less: after it, or the call is not known. */
static int64_t before_call_ns(uint32_t correlation, uint64_t start_ns) {
    uint64_t slot = atomic_load_explicit(&call_times[correlation % CALL_SLOTS], memory_order_relaxed);
    if (slot == 0 || slot >> 48 != correlation / CALL_SLOTS) return 0;
    uint64_t ahead = (slot - call_ticks(start_ns)) << 16; /* wraps at 48 bits */
    return ((int64_t)ahead >> 16) * 256;
}

/* ---- records */
struct batch {
    struct trace_writer *w;
    unsigned nkernels, ncopies;
    struct trace_kernel kernels[BATCH];
    struct trace_copy copies[BATCH];
    struct activity_counts counts;
    uint64_t lost[TRACE_KIND_END];
};

static struct {
    atomic_ullong kernels, graph_kernels, copies, syncs, buffers, untrusted, early, unknown;
} totals;

static void batch_write(struct batch *b) {
    trace_writer_kernel(b->w, b->kernels, b->nkernels);
    trace_writer_copy(b->w, b->copies, b->ncopies);
    b->nkernels = b->ncopies = 0;
}

/* False: the times cannot be what happened; counted, and not used. */
static bool trusted(struct batch *b, enum trace_kind kind, uint32_t correlation, uint64_t start,
                    uint64_t end) {
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
    if (!trusted(b, TRACE_KERNEL, correlation, start, end)) return;
    const char *name;
    memcpy(&name, r + at->name, sizeof name);
    struct trace_kernel *k = &b->kernels[b->nkernels++];
    *k = (struct trace_kernel){
        .start_ns = clocks_to_wall(start),
        .end_ns = clocks_to_wall(end),
        .correlation = correlation,
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
    devices_saw(k->device, k->context, k->stream);
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
    if (!trusted(b, TRACE_COPY, correlation, start, end)) return;
    struct trace_copy *c = &b->copies[b->ncopies++];
    *c = (struct trace_copy){
        .start_ns = clocks_to_wall(start),
        .end_ns = clocks_to_wall(end),
        .correlation = correlation,
        .graph_node = field_u64(r, at->graph_node),
        .bytes = field_u64(r, at->bytes),
        .graph = field_u32(r, at->graph),
        .device = field_u32(r, at->device),
        .context = field_u32(r, at->context),
        .stream = field_u32(r, at->stream),
        .copy_kind = kind,
    };
    b->counts.copies++;
    devices_saw(c->device, c->context, c->stream);
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
    default: b->counts.unknown++; break;
    }
    if (b->nkernels == BATCH || b->ncopies == BATCH) batch_write(b);
}

static void add_up(struct batch *b, uint64_t dropped) {
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (b->lost[k]) trace_writer_lost(b->w, k, TRACE_LOST_UNTRUSTED, b->lost[k]);
    if (dropped) trace_writer_lost(b->w, TRACE_KERNEL, TRACE_LOST_SOURCE, dropped);
    atomic_fetch_add(&totals.kernels, b->counts.kernels);
    atomic_fetch_add(&totals.graph_kernels, b->counts.graph_kernels);
    atomic_fetch_add(&totals.copies, b->counts.copies);
    atomic_fetch_add(&totals.untrusted, b->counts.untrusted);
    atomic_fetch_add(&totals.early, b->counts.early);
    atomic_fetch_add(&totals.unknown, b->counts.unknown);
}

static void read_buffer(struct trace_writer *w, uint8_t *buffer, size_t valid, uint64_t dropped) {
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
        problem("CUPTI could not read on in one of its buffers (%s): some kernels are missing",
                cupti_error(rc));
    batch_write(&b);
    add_up(&b, dropped);
}

static void on_buffer_done(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    size_t dropped = 0;
    atomic_fetch_add(&totals.buffers, 1);
    if (buffer && valid > 0 && valid <= bytes && !settings.empty) {
        struct trace_writer *w = output_take();
        if (w) {
            if (cupti.dropped(context, stream, &dropped) != CUPTI_OK) dropped = 0;
            raw_buffer(buffer, valid);
            read_buffer(w, buffer, valid, dropped);
            output_give();
        }
    }
    if (buffer) pool_give(buffer, bytes);
}

/* ---- switching */
bool activity_start(void) {
    layout = layout_find(cupti.version);
    int rc = cupti.register_buffers(on_buffer_wanted, on_buffer_done);
    if (rc != CUPTI_OK) problem("no kernels were recorded: CUPTI takes no buffers (%s)", cupti_error(rc));
    return rc == CUPTI_OK;
}

static const char *remedy(int rc) {
    switch (rc) {
    case CUPTI_E_PRIVILEGES:
        return "the driver reserves profiling for administrators: run as root, or load the nvidia module with "
               "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_E_VIRTUALIZED:
        return "this virtual GPU does not allow profiling: ask for a vGPU profile that does";
    case CUPTI_E_MIG: return "this CUPTI does not profile MIG devices: use a newer CUDA";
    case CUPTI_E_MULTIPLE_SUBSCRIBERS: return "another tool is profiling this process";
    default: return "check that CUPTI and the driver belong together (inferprof doctor)";
    }
}

static void switch_kind(int kind, const char *name, bool on) {
    int rc = on ? cupti.enable(kind) : cupti.disable(kind);
    if (rc != CUPTI_OK && on)
        problem("no %s were recorded: CUPTI refuses (%s); %s", name, cupti_error(rc), remedy(rc));
}

void activity_capture(bool on) {
    if (settings.kernels) switch_kind(KIND_CONCURRENT_KERNEL, "kernels", on);
    if (!settings.copies || settings.empty) return;
    switch_kind(KIND_MEMCPY, "copies", on);
    switch_kind(KIND_MEMCPY2, "peer copies", on);
    switch_kind(KIND_MEMSET, "memsets", on);
}

void activity_counts(struct activity_counts *out) {
    *out = (struct activity_counts){
        .kernels = atomic_load(&totals.kernels),
        .graph_kernels = atomic_load(&totals.graph_kernels),
        .copies = atomic_load(&totals.copies),
        .buffers = atomic_load(&totals.buffers),
        .untrusted = atomic_load(&totals.untrusted),
        .early = atomic_load(&totals.early),
        .unknown = atomic_load(&totals.unknown),
    };
}

void activity_after_fork(void) { pthread_mutex_init(&pool.lock, NULL); }
