#include "engine/record/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/record/nvtx.h"
#include "engine/record/texts.h"
#include "engine/record/ticks.h"
#include "trace/writer.h"

enum { MAX_DEPTH = 64, EVENTS = 128, CACHE_LINE = 64 };

/* One finished range or operator, a number of tokens, or a total of memory. An operator evicts the
 * recorder's memory from the caches, and loading a cache line again costs more than all instructions of
 * the recorder. Therefore an event is one cache line. Names, numbers and the writer's locks are handled
 * later, for many events at once. */
struct event {
    uint64_t start, end; /* timestamps in ticks; for tokens and memory, see below */
    const char *name, *kernel;
    double flops, bytes;
    /* Ranges: m is the index. Tokens: `end` is the request, m the count, and n is nonzero if they were
     * generated. Memory: `end` is the bytes, m the kind. */
    int32_t m, n, k;
    uint8_t type, kv_type, depth;
    uint8_t kind : 6;   /* enum event_kind */
    uint8_t in_ns : 1;  /* start is in nanoseconds: the range began before the last flush, or all_ns */
    uint8_t all_ns : 1; /* start and end are in nanoseconds: the device measured them */
};
_Static_assert(sizeof(struct event) == CACHE_LINE, "one cache line per event");
enum event_kind { EVENT_OP, EVENT_MODULE, EVENT_STAGE, EVENT_TOKENS, EVENT_MEMORY };

struct open_range {
    uint64_t start;
    const char *name;
    int index;
    bool stage, in_ns;
    bool marked; /* `start` is a mark of the device */
};

struct recorder {
    struct ticks clock;
    enum record_detail detail;
    uint32_t depth, nevents;
    struct event *events;        /* [EVENTS] */
    struct trace_writer *writer; /* NULL: NVTX only */
    struct open_range open[MAX_DEPTH];

    struct record_texts *texts;
    uint32_t thread, domain;
    uint64_t correlation;
    /* The records of a flush. Fields that are equal in all launches and kernels are set once, at open. */
    struct trace_range ranges[EVENTS];
    struct trace_launch launches[EVENTS];
    struct trace_kernel kernels[EVENTS];
    struct trace_token tokens[EVENTS];
    struct trace_memory memories[EVENTS];
    size_t nranges, nops, ntokens, nmemories;
    bool memory;
    uint32_t allocator;

    struct record_device device; /* mark NULL: none */
    struct {
        struct event *v;
        size_t n, cap;
    } waiting;           /* events whose start and end are marks of the device */
    uint64_t waiting_ns; /* they began after this time */
};

static void write_meta(struct recorder *r, const struct record_info *info) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    trace_writer_meta(r->writer, "clock", "unix");
    trace_writer_meta(r->writer, "source", "engine");
    trace_writer_meta(r->writer, "process.pid", "%d", (int)getpid());
    trace_writer_meta(r->writer, "process.command", "inferprof engine");
    trace_writer_meta(r->writer, "host", "%s", host);
    trace_writer_meta(r->writer, "device.0.name", "%s", info->device);
    if (info->uuid && *info->uuid) trace_writer_meta(r->writer, "device.0.uuid", "%s", info->uuid);
    trace_writer_meta(r->writer, "device.0.sms", "%d", info->units);
    trace_writer_meta(r->writer, "setting.isa", "%s", info->isa);
    trace_writer_meta(r->writer, "model.name", "%s", info->model);
}

static void fill_constants(struct recorder *r, const struct record_info *info) {
    uint32_t api = trace_writer_str(r->writer, "threads_run");
    r->domain = trace_writer_str(r->writer, "inferprof");
    r->allocator = trace_writer_str(r->writer, "engine");
    r->memory = info->memory;
    for (size_t i = 0; i < EVENTS; i++) {
        r->launches[i] = (struct trace_launch){ .thread = r->thread, .api = api };
        r->kernels[i] = (struct trace_kernel){ .grid_x = (uint32_t)info->units,
                                               .grid_y = 1,
                                               .grid_z = 1,
                                               .block_x = 1,
                                               .block_y = 1,
                                               .block_z = 1 };
    }
}

/* Allocates all memory before the file is opened. */
static struct recorder *record_alloc(const char *path, const struct record_info *info) {
    struct recorder *r = xcalloc(1, sizeof *r);
    if (!path) return r;
    r->texts = record_texts_open(info->no_shapes);
    if (!alloc_guard_refuses() &&
        posix_memalign((void **)&r->events, CACHE_LINE, EVENTS * sizeof *r->events) == 0) {
        /* so that page faults happen now, not during an operator */
        memset(r->events, 0, EVENTS * sizeof *r->events);
        return r;
    }
    record_texts_close(r->texts);
    free(r);
    alloc_failed(EVENTS * sizeof(struct event));
}

struct recorder *record_open(const char *path, enum record_detail detail, const struct record_info *info,
                             struct err *err) {
    struct recorder *r = record_alloc(path, info);
    r->detail = detail;
    r->thread = (uint32_t)gettid();
    nvtx_attach();
    if (!path) return r;
    r->writer = trace_writer_open(path, NULL, err);
    if (!r->writer) {
        record_close(r, err);
        return NULL;
    }
    record_texts_attach(r->texts, r->writer);
    write_meta(r, info);
    fill_constants(r, info);
    ticks_init(&r->clock);
    return r;
}

/* ---- events into records */
static void add_op(struct recorder *r, const struct event *e, uint64_t start_ns, uint64_t end_ns,
                   struct trace_range *range) {
    const struct record_text *t =
        record_texts_find(r->texts, &(struct record_op){ .name = e->name,
                                                         .kernel = e->kernel,
                                                         .type = (enum dtype)e->type,
                                                         .kv_type = (enum dtype)e->kv_type,
                                                         .m = e->m,
                                                         .n = e->n,
                                                         .k = e->k,
                                                         .flops = e->flops,
                                                         .bytes = e->bytes });
    struct trace_launch *launch = &r->launches[r->nops];
    struct trace_kernel *kernel = &r->kernels[r->nops++];
    range->name = t->name;
    range->detail = t->detail;
    launch->start_ns = launch->end_ns = kernel->start_ns = start_ns;
    kernel->end_ns = end_ns;
    kernel->name = t->kernel;
    if (!r->device.mark) launch->correlation = kernel->correlation = ++r->correlation;
}

static void add_event(struct recorder *r, const struct event *e, const struct ticks_span *span) {
    static const uint8_t categories[] = { [EVENT_OP] = TRACE_CATEGORY_OP,
                                          [EVENT_MODULE] = TRACE_CATEGORY_MODULE,
                                          [EVENT_STAGE] = TRACE_CATEGORY_STAGE };
    uint64_t start_ns = e->in_ns ? e->start : ticks_ns(span, e->start);
    if (e->kind == EVENT_TOKENS) {
        r->tokens[r->ntokens++] =
            (struct trace_token){ .time_ns = start_ns,
                                  .request = e->end,
                                  .count = (uint32_t)e->m,
                                  .token_kind = e->n ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED,
                                  .thread = r->thread };
        return;
    }
    if (e->kind == EVENT_MEMORY) {
        r->memories[r->nmemories++] = (struct trace_memory){ .time_ns = start_ns,
                                                             .bytes = e->end,
                                                             .thread = r->thread,
                                                             .memory_kind = (uint32_t)e->m,
                                                             .action = TRACE_MEMORY_TOTAL,
                                                             .allocator = r->allocator };
        return;
    }
    uint64_t end_ns = e->all_ns ? e->end : ticks_ns(span, e->end);
    struct trace_range *range = &r->ranges[r->nranges++];
    *range = (struct trace_range){ .start_ns = start_ns,
                                   .end_ns = end_ns,
                                   .thread = r->thread,
                                   .depth = e->depth,
                                   .category = categories[e->kind],
                                   .domain = r->domain,
                                   .flops = e->flops,
                                   .bytes = e->bytes,
                                   .payload = NAN };
    if (e->kind == EVENT_OP)
        add_op(r, e, start_ns, end_ns, range);
    else
        range->name = record_texts_range(r->texts, e->name, e->m);
}

static void flush_events(struct recorder *r) {
    struct ticks_span span = ticks_span(&r->clock);
    for (uint32_t i = 0; i < r->nevents; i++) add_event(r, &r->events[i], &span);
    for (uint32_t i = 0; i < r->depth; i++) {
        struct open_range *o = &r->open[i];
        if (!o->in_ns && !o->marked) {
            o->start = ticks_ns(&span, o->start);
            o->in_ns = true;
        }
    }
    trace_writer_range(r->writer, r->ranges, r->nranges);
    if (!r->device.mark) trace_writer_launch(r->writer, r->launches, r->nops);
    trace_writer_kernel(r->writer, r->kernels, r->nops);
    trace_writer_token(r->writer, r->tokens, r->ntokens);
    trace_writer_memory(r->writer, r->memories, r->nmemories);
    r->nevents = 0;
    r->nranges = r->nops = r->ntokens = r->nmemories = 0;
}

int record_close(struct recorder *r, struct err *err) {
    if (!r) return 0;
    while (r->depth > 0) record_pop(r, RECORD_STAGES); /* closes the ranges that a failed request left open */
    if (r->writer) flush_events(r);
    free(r->waiting.v);
    int rc = r->writer ? trace_writer_close(r->writer, err) : 0;
    record_texts_close(r->texts);
    free(r->events);
    free(r);
    return rc;
}

/* ---- events */
static void add_pending(struct recorder *r, const struct event *e) {
    r->events[r->nevents++] = *e;
    if (r->nevents == EVENTS) flush_events(r);
}

static void push_nvtx(const char *name, int index) {
    char text[128];
    snprintf(text, sizeof text, name, index);
    nvtx_push(text);
}

/* ---- times of the device */
void record_set_device(struct recorder *r, const struct record_device *device) {
    r->device = *device;
    r->waiting_ns = clock_wall_ns();
    /* launches and grids are not known here */
    for (size_t i = 0; i < EVENTS; i++) r->kernels[i] = (struct trace_kernel){ 0 };
    if (r->writer) trace_writer_meta(r->writer, "device.0.kernel_ends", "next start");
}

bool record_needs_wait(const struct recorder *r) { return r && !r->device.mark; }

void record_resolve(struct recorder *r) {
    const uint64_t *ns = NULL;
    if (!r || r->waiting.n == 0) return;
    size_t n = r->device.take(r->device.context, &ns), lost = 0;
    uint64_t now = clock_wall_ns();
    for (size_t i = 0; i < r->waiting.n; i++) {
        struct event e = r->waiting.v[i];
        if (e.end >= n) { /* unknown */
            lost += e.kind == EVENT_OP;
            continue;
        }
        /* the clocks of host and device differ by some microseconds */
        e.start = MIN(MAX(ns[e.start], r->waiting_ns), now);
        e.end = MIN(MAX(ns[e.end], e.start), now);
        e.in_ns = e.all_ns = 1;
        add_pending(r, &e);
    }
    record_lost_ops(r, lost);
    r->waiting.n = 0;
    r->waiting_ns = now;
}

/* ---- ranges and operators */
void record_push(struct recorder *r, enum record_detail level, const char *name, int index) {
    if (!r || level > r->detail || r->depth == MAX_DEPTH) return;
    bool stage = level == RECORD_STAGES, marked = r->device.mark && (!stage || r->depth > 0);
    if (nvtx_attached()) push_nvtx(name, index);
    if (r->depth == 0 && r->device.mark) {
        record_resolve(r);
        r->waiting_ns = clock_wall_ns();
    }
    uint64_t start = marked ? r->device.mark(r->device.context) : ticks_now(&r->clock);
    r->open[r->depth++] = (struct open_range){ start, name, index, stage, false, marked };
}

void record_pop(struct recorder *r, enum record_detail level) {
    if (!r || level > r->detail || r->depth == 0) return;
    const struct open_range *o = &r->open[--r->depth];
    nvtx_pop();
    if (!r->writer) return;
    struct event e = { .start = o->start,
                       .end = o->marked ? r->device.mark(r->device.context) : ticks_now(&r->clock),
                       .name = o->name,
                       .flops = NAN,
                       .bytes = NAN,
                       .m = o->index,
                       .depth = (uint8_t)r->depth,
                       .kind = o->stage ? EVENT_STAGE : EVENT_MODULE,
                       .in_ns = o->in_ns };
    if (o->marked) {
        vec_push(&r->waiting, e);
        return;
    }
    add_pending(r, &e);
    if (!o->stage) return;
    if (r->depth == 0) record_resolve(r);
    /* A crash in a later stage must not lose these events. The operators of a device are still unknown, and
     * the device must not wait for the writing. */
    if (r->nevents && (r->depth == 0 || !r->device.mark)) flush_events(r);
}

uint64_t record_ticks(const struct recorder *r) {
    if (r->detail < RECORD_OPERATORS || !r->writer) return 0;
    return r->device.mark ? r->device.mark(r->device.context) + 1 : ticks_now(&r->clock);
}

static struct event event_of(const struct recorder *r, uint64_t start, uint64_t end,
                             const struct record_op *op) {
    return (struct event){ .start = start,
                           .end = end,
                           .name = op->name,
                           .kernel = op->kernel,
                           .flops = op->flops,
                           .bytes = op->bytes,
                           .m = (int32_t)op->m,
                           .n = (int32_t)op->n,
                           .k = (int32_t)op->k,
                           .type = (uint8_t)op->type,
                           .kv_type = (uint8_t)op->kv_type,
                           .depth = (uint8_t)r->depth,
                           .kind = EVENT_OP };
}

void record_op_end(struct recorder *r, uint64_t start, const struct record_op *op) {
    if (!start) return;
    if (!r->device.mark) {
        struct event e = event_of(r, start, ticks_now(&r->clock), op);
        add_pending(r, &e);
        return;
    }
    struct event e = event_of(r, start - 1, r->device.mark(r->device.context), op);
    vec_push(&r->waiting, e);
}

void record_op_ns(struct recorder *r, uint64_t start_ns, uint64_t end_ns, const struct record_op *op) {
    struct event e = event_of(r, start_ns, end_ns, op);
    e.in_ns = e.all_ns = 1;
    e.depth++; /* within the stage */
    add_pending(r, &e);
}

void record_lost_ops(struct recorder *r, size_t n) {
    if (n && r->writer) trace_writer_lost(r->writer, TRACE_KERNEL, TRACE_LOST_SOURCE, n);
}

void record_tokens(struct recorder *r, uint64_t request, uint32_t count, int made) {
    if (!r || !r->writer) return;
    add_pending(r, &(struct event){ .start = ticks_now(&r->clock),
                                    .end = request,
                                    .m = (int32_t)count,
                                    .n = made,
                                    .kind = EVENT_TOKENS });
}

void record_memory(struct recorder *r, enum trace_memory_kind kind, uint64_t bytes) {
    if (!r || !r->writer || !r->memory) return;
    add_pending(r,
                &(struct event){
                    .start = ticks_now(&r->clock), .end = bytes, .m = (int32_t)kind, .kind = EVENT_MEMORY });
}
