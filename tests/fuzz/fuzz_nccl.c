/* The profiler plugin as NCCL calls it, in every version of its interface. The bytes of the input choose the
 * calls, the contents of the descriptors and the handles, which may be stale or invalid.
 *
 * For any calls: nothing beyond the descriptor is read, every operation is written exactly once, and no
 * record ends before it starts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/nccl.c"
#include "collect/nccl_layout.c"
#include "collect/nccl_read.c"
#include "collect/nccl_rows.c"
#include "collect/nccl_tables.c"
#include "fuzz/fuzz.h"
#include "fuzz/scratch_folder.h"
#include "trace/reader.h"

#define HANDLES 64
#define TEXTS 8

/* ---- the parts of the collector that the plugin uses */

static struct trace_writer *writer; /* NULL: no file is open */
static uint64_t lost;
bool host_enter(int *saved_errno) {
    *saved_errno = 0;
    return true;
}
void host_leave(int saved_errno) { (void)saved_errno; }
bool inject_start(void) { return true; }
uint32_t thread_id(void) { return 7; }
struct trace_writer *output_take(void) {
    return writer;
}
void output_give(void) {}
void output_lost(enum trace_kind kind, enum trace_lost_reason reason, uint64_t n) {
    if (kind != TRACE_COLLECTIVE || reason != TRACE_LOST_SOURCE) abort();
    lost += n;
}

/* ---- the input */

struct input {
    const uint8_t *p, *end;
    void *handles[HANDLES]; /* contexts and events; a closed one is stale */
    size_t nhandles;
    char
        *texts[TEXTS]; /* live as long as the input: NCCL's are constants or live as long as the descriptor */
    size_t ntexts;
    uint64_t operations; /* that the plugin accepted */
};

static uint8_t byte(struct input *in) { return in->p < in->end ? *in->p++ : 0; }

static uint64_t number(struct input *in) {
    static const uint64_t special[] = { 0,          1,         UINT32_MAX, INT32_MAX, 1ull << 32,
                                        UINT64_MAX, INT64_MAX, 1ull << 63, 1023,      1024 };
    uint8_t b = byte(in);
    return b < 200 ? b : special[b % COUNTOF(special)];
}

static const char *text(struct input *in) {
    static const char *const names[] = { "AllReduce",    "Broadcast", "AllToAll", "Send",   "Recv",
                                         "ncclBfloat16", "ncclInt8",  "RING",     "SIMPLE", "",
                                         "unknown" };
    uint8_t b = byte(in);
    if (b < 200) return names[b % COUNTOF(names)];
    if (b < 220 || in->ntexts == TEXTS) return NULL;
    size_t n = byte(in);
    if (n > (size_t)(in->end - in->p)) n = (size_t)(in->end - in->p);
    char *copy = in->texts[in->ntexts] = malloc(n + 1);
    if (!copy) abort();
    memcpy(copy, in->p, n);
    copy[n] = '\0';
    in->p += n;
    in->ntexts++;
    return copy;
}

static void *handle(struct input *in) {
    uint8_t b = byte(in);
    if (b < 200 && in->nhandles) return in->handles[b % in->nhandles];
    /* a number that NCCL did not get from the plugin */
    return (void *)(uintptr_t)(b < 220 ? b : number(in) << 12 | number(in) << 4 | b);
}

static void keep(struct input *in, void *h) {
    if (h && in->nhandles < HANDLES) in->handles[in->nhandles++] = h;
}

static void put(char *d, uint16_t offset, const void *v, size_t n) {
    if (offset != NCCL_ABSENT) memcpy(d + offset, v, n);
}

/* ---- calls */

static void init(struct input *in) {
    unsigned version = NCCL_FIRST_VERSION + byte(in) % (NCCL_LAST_VERSION - NCCL_FIRST_VERSION + 1);
    void *context = NULL;
    int mask = 0, nodes = (int)number(in), ranks = (int)number(in), rank = (int)number(in), rc;
    const char *name = text(in);
    uint64_t hash = number(in);
    switch (version) {
    case 2: rc = ncclProfiler_v2.init(&context, &mask); break;
    case 3: rc = ncclProfiler_v3.init(&context, &mask); break;
    case 4: rc = ncclProfiler_v4.init(&context, &mask, name, hash, nodes, ranks, rank, NULL); break;
    case 5: rc = ncclProfiler_v5.init(&context, hash, &mask, name, nodes, ranks, rank, NULL); break;
    case 6: rc = ncclProfiler_v6.init(&context, hash, &mask, name, nodes, ranks, rank, NULL); break;
    default: rc = ncclProfiler_v7.init(&context, hash, &mask, name, nodes, ranks, rank, NULL); break;
    }
    if ((rc == NCCL_SUCCESS) != (context != NULL)) abort();
    keep(in, context);
}

/* A descriptor of the version that the context has, of exactly the size that NCCL gives it. */
static void start(struct input *in) {
    static const uint64_t types[] = { NCCL_EVENT_COLL,     NCCL_EVENT_P2P,     NCCL_EVENT_KERNEL_CHANNEL,
                                      NCCL_EVENT_COLL_API, NCCL_EVENT_P2P_API, NCCL_EVENT_CE_COLL };
    void *context = handle(in), *event = (void *)1;
    const struct nccl_comm *c = context && nccl_tables_exist() ? nccl_comm_find(context) : NULL;
    const struct nccl_layout *l = c ? c->layout : nccl_layout(NCCL_LAST_VERSION);
    uint8_t b = byte(in);
    uint64_t type = b < 240 ? types[b % COUNTOF(types)] : number(in);
    char *d = malloc(l->size);
    if (!d) abort();
    for (size_t i = 0; i < l->size; i++) d[i] = (char)(i % 16 ? 0 : byte(in));
    uint8_t narrow = (uint8_t)type;
    put(d, l->type, l->type_bytes == 1 ? (void *)&narrow : (void *)&type, l->type_bytes);
    void *parent = handle(in);
    put(d, l->parent, &parent, sizeof parent);
    const uint16_t coll_texts[] = { l->coll_name, l->coll_function, l->coll_type, l->coll_algorithm,
                                    l->coll_protocol };
    const uint16_t p2p_texts[] = { l->p2p_name, l->p2p_function, l->p2p_type };
    const uint16_t ce_texts[] = { l->ce_function, l->ce_type };
    const uint16_t *at = type == NCCL_EVENT_COLL ? coll_texts : type == NCCL_EVENT_P2P ? p2p_texts : ce_texts;
    size_t n = type == NCCL_EVENT_COLL      ? COUNTOF(coll_texts)
               : type == NCCL_EVENT_P2P     ? COUNTOF(p2p_texts)
               : type == NCCL_EVENT_CE_COLL ? COUNTOF(ce_texts)
                                            : 0;
    int wide = (int)number(in);
    uint64_t count = number(in);
    if (type == NCCL_EVENT_COLL) put(d, l->coll_root, &wide, sizeof wide);
    if (type == NCCL_EVENT_COLL) put(d, l->coll_count, &count, sizeof count);
    if (type == NCCL_EVENT_P2P) put(d, l->p2p_peer, &wide, sizeof wide);
    if (type == NCCL_EVENT_P2P) put(d, l->p2p_count, &count, sizeof count);
    for (size_t i = 0; i < n; i++) {
        const char *s = text(in);
        put(d, at[i], &s, sizeof s);
    }
    if (type == NCCL_EVENT_KERNEL_CHANNEL) put(d, l->channel_timer, &count, sizeof count);
    uint64_t before = lost;
    ncclProfiler_v7.start(context, &event, d);
    if (event == (void *)1) abort();
    bool operation = event && ((uintptr_t)event >> 1 & 7) == NCCL_HANDLE_OPERATION;
    in->operations += operation;
    if (operation && lost != before) abort();
    keep(in, event);
    free(d);
}

static void call(struct input *in) {
    uint64_t timer;
    switch (byte(in) % 10) {
    case 0: init(in); break;
    case 1:
    case 2:
    case 3:
    case 4: start(in); break;
    case 5:
    case 6: ncclProfiler_v4.stop(handle(in)); break;
    case 7:
        timer = number(in);
        ncclProfiler_v5.state(handle(in), byte(in) & 1 ? NCCL_STATE_KERNEL_CHANNEL_STOP : byte(in), &timer);
        break;
    case 8: ncclProfiler_v6.finalize(handle(in)); break;
    default: nccl_finish(); break;
    }
}

/* ---- the result */

static void check_trace(const char *path, uint64_t operations) {
    struct err err;
    struct trace_batch b = { 0 };
    uint64_t found = 0;
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) abort();
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        if (trace_reader_chunk(r, i)->kind != TRACE_COLLECTIVE) continue;
        if (trace_reader_decode(r, i, &b, &err) < 0) abort();
        for (size_t k = 0; k < b.n; k++) {
            const struct trace_collective *c = &b.collective[k];
            if (c->end_ns < c->start_ns || c->kernel_end_ns < c->kernel_start_ns) abort();
            if (c->op >= TRACE_OP_END || c->thread != thread_id()) abort();
        }
        found += b.n;
    }
    if (found != operations) abort();
    trace_batch_free(&b);
    trace_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    struct input in = { .p = data, .end = data + size };
    char path[80];
    snprintf(path, sizeof path, "%s/0.ipt", scratch_folder());
    writer = trace_writer_open(path, &(struct trace_writer_options){ .file_id = 1 }, &err);
    if (!writer) abort();
    init(&in);
    while (in.p < in.end) call(&in);
    nccl_finish();
    nccl_after_fork();
    if (trace_writer_close(writer, &err) < 0) abort();
    writer = NULL;
    check_trace(path, in.operations);
    for (size_t i = 0; i < in.ntexts; i++) free(in.texts[i]);
    unlink(path);
    return 0;
}
