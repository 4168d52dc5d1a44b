#include "import/kineto_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/vec.h"
#include "import/kineto_args.h"

#define DETAIL_BYTES (8u << 20) /* of all different shapes */
#define TRACKS_MAX 256

void kineto_maker_init(struct kineto_maker *mk, struct sink *sink) {
    *mk = (struct kineto_maker){ .sink = sink, .pid = UINT64_MAX, .text = STRBUF_INIT };
}

void kineto_maker_free(struct kineto_maker *mk) {
    text_cache_free(&mk->details);
    strbuf_free(&mk->text);
    free(mk->tracks.v);
}

uint32_t kineto_thread(struct sink *sink, const struct kineto_event *ev) {
    return sink_thread_number(sink, ev->pid.key, ev->tid.key);
}

static enum trace_copy_kind copy_kind(struct span name, struct span kind) {
    static const struct {
        const char *word;
        enum trace_copy_kind kind;
    } rows[] = {
        { "HtoD", TRACE_COPY_HTOD }, { "DtoH", TRACE_COPY_DTOH }, { "DtoD", TRACE_COPY_DTOD },
        { "HtoH", TRACE_COPY_HTOH }, { "PtoP", TRACE_COPY_PTOP }, { "HtoA", TRACE_COPY_HTOD },
        { "AtoH", TRACE_COPY_DTOH }, { "AtoD", TRACE_COPY_DTOD }, { "DtoA", TRACE_COPY_DTOD },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (span_has(name, rows[i].word) || span_has(kind, rows[i].word)) return rows[i].kind;
    return TRACE_COPY_UNKNOWN;
}

enum trace_sync_kind kineto_sync_kind(struct span name) {
    if (span_has(name, "Wait")) return TRACE_SYNC_STREAM_WAIT;
    if (span_has(name, "Event")) return TRACE_SYNC_EVENT;
    if (span_has(name, "Stream")) return TRACE_SYNC_STREAM;
    if (span_has(name, "Context") || span_has(name, "Device") || span_has(name, "Ctx"))
        return TRACE_SYNC_CONTEXT;
    return TRACE_SYNC_UNKNOWN;
}

/* The device and the stream are in args, or else in the event's pid and tid. */
static uint32_t first_known(uint64_t a, uint64_t b) {
    return a != KINETO_UNKNOWN ? sink_u32(a) : sink_u32(b);
}

static uint64_t correlation_of(const struct kineto_args *a) {
    return a->correlation == KINETO_UNKNOWN ? 0 : a->correlation;
}

static void make_kernel(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_KERNEL;
    r->event = SINK_EVENT_KERNEL;
    r->kernel = (struct trace_kernel){
        .correlation = correlation_of(&a),
        .graph_node = a.graph_node == KINETO_UNKNOWN ? 0 : a.graph_node,
        .graph = sink_u32(a.graph),
        .device = first_known(a.device, ev->pid.number),
        .context = sink_u32(a.context),
        .stream = first_known(a.stream, ev->tid.number),
        .name = sink_text(mk->sink, ev->name.p, ev->name.n),
        .grid_x = sink_u32(a.grid[0]),
        .grid_y = sink_u32(a.grid[1]),
        .grid_z = sink_u32(a.grid[2]),
        .block_x = sink_u32(a.block[0]),
        .block_y = sink_u32(a.block[1]),
        .block_z = sink_u32(a.block[2]),
        .registers = sink_u32(a.registers),
        .dynamic_smem_bytes = sink_u32(a.smem_bytes),
    };
}

static void make_copy(const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    bool memset_event = ev->category == KINETO_MEMSET;
    r->kind = TRACE_COPY;
    r->event = memset_event ? SINK_EVENT_MEMSET : SINK_EVENT_MEMCPY;
    r->copy = (struct trace_copy){
        .correlation = correlation_of(&a),
        .graph_node = a.graph_node == KINETO_UNKNOWN ? 0 : a.graph_node,
        .bytes = a.bytes == KINETO_UNKNOWN ? 0 : a.bytes,
        .graph = sink_u32(a.graph),
        .device = first_known(a.device, ev->pid.number),
        .context = sink_u32(a.context),
        .stream = first_known(a.stream, ev->tid.number),
        .copy_kind = memset_event ? TRACE_COPY_MEMSET : copy_kind(ev->name, a.kind),
    };
}

static void note_pid(struct kineto_maker *mk, const struct kineto_event *ev, bool call) {
    size_t i = mk->last_pid;
    if (ev->pid.number >= UINT32_MAX) return;
    if (i >= mk->npids || mk->pids[i].key != ev->pid.key)
        for (i = 0; i < mk->npids && mk->pids[i].key != ev->pid.key;) i++;
    if (i == KINETO_PIDS) return;
    mk->last_pid = i;
    if (i == mk->npids)
        mk->pids[mk->npids++] = (struct kineto_pid){ ev->pid.key, (uint32_t)ev->pid.number, false, false };
    mk->pids[i].calls |= call;
    mk->pids[i].ranges |= !call;
}

/* The pid of an event on a device is the number of the device. */
static void note_track(struct kineto_maker *mk, const struct kineto_event *ev, uint32_t thread) {
    if (ev->pid.number >= UINT32_MAX || mk->tracks.n >= TRACKS_MAX) return;
    for (size_t i = mk->tracks.n; i-- > 0;)
        if (mk->tracks.v[i].thread == thread) return;
    vec_push(&mk->tracks, ((struct kineto_track){ thread, (uint32_t)ev->pid.number }));
}

static void make_launch(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_LAUNCH;
    r->event = ev->category == KINETO_DRIVER ? SINK_EVENT_DRIVER : SINK_EVENT_RUNTIME;
    r->launch = (struct trace_launch){
        .correlation = correlation_of(&a),
        .thread = kineto_thread(mk->sink, ev),
        .api = sink_text(mk->sink, ev->name.p, ev->name.n),
    };
    if (mk->pid == UINT64_MAX && ev->pid.number != UINT64_MAX) mk->pid = ev->pid.number;
    note_pid(mk, ev, true);
}

static void make_sync(const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_SYNC;
    r->event = SINK_EVENT_SYNC;
    r->sync = (struct trace_sync){
        .correlation = correlation_of(&a),
        .sync_kind = kineto_sync_kind(a.kind.n ? a.kind : ev->name),
        .context = sink_u32(a.context),
        .stream = first_known(a.stream, ev->tid.number),
    };
}

/* True for operators whose FLOPs depend on stride and padding, or on a causal mask. */
static bool needs_values(struct span name) {
    return span_has(name, "conv") || span_has(name, "att") || span_has(name, "mha");
}

/* Returns the text id of the shapes of an operator; 0: none. Cached, because every step has the same
 * shapes. */
static uint32_t detail_of(struct kineto_maker *mk, const struct kineto_event *ev) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    if (!a.dims.n || a.dims.n + a.types.n + a.values.n > 8192) return 0;
    if (!needs_values(ev->name)) a.values.n = 0;
    strbuf_reset(&mk->text);
    strbuf_add(&mk->text, a.dims.p, a.dims.n);
    strbuf_add(&mk->text, a.types.p, a.types.n);
    strbuf_add(&mk->text, a.values.p, a.values.n);
    bool known;
    uint32_t *slot = text_cache_slot(&mk->details, mk->text.buf, mk->text.len, &known);
    if (known) return *slot;
    strbuf_reset(&mk->text);
    kineto_args_detail(a.dims, a.types, &mk->text);
    kineto_args_values(a.values, &mk->text);
    mk->detail_bytes += mk->text.len;
    if (mk->detail_bytes < DETAIL_BYTES)
        *slot = sink_text(mk->sink, mk->text.buf, mk->text.len);
    else
        mk->sink->problems[SINK_PROBLEM_TOO_MANY_TEXTS]++;
    return *slot;
}

static void make_range(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r) {
    static const enum sink_event events[] = {
        [KINETO_OP] = SINK_EVENT_CPU_OP,
        [KINETO_USER] = SINK_EVENT_USER_ANNOTATION,
        [KINETO_GPU_USER] = SINK_EVENT_GPU_USER_ANNOTATION,
        [KINETO_PYTHON] = SINK_EVENT_PYTHON_FUNCTION,
        [KINETO_OVERHEAD] = SINK_EVENT_OVERHEAD,
        [KINETO_NONE] = SINK_EVENT_OTHER,
        [KINETO_OTHER] = SINK_EVENT_OTHER,
    };
    bool op = ev->category == KINETO_OP,
         module = ev->category == KINETO_PYTHON && span_starts(ev->name, "nn.Module: ");
    bool on_thread = op || ev->category == KINETO_USER || ev->category == KINETO_PYTHON;
    r->kind = TRACE_RANGE;
    r->event = events[ev->category];
    r->range = (struct trace_range){
        .thread = kineto_thread(mk->sink, ev),
        .category = op       ? TRACE_CATEGORY_OP
                    : module ? TRACE_CATEGORY_MODULE
                             : TRACE_CATEGORY_USER,
        .flags = on_thread ? 0 : TRACE_RANGE_FREE,
        .domain = sink_text(mk->sink, ev->cat.p, ev->cat.n),
        .name = sink_text(mk->sink, ev->name.p, ev->name.n),
        .detail = op || span_starts(ev->name, "nccl:") ? detail_of(mk, ev) : 0,
        .flops = NAN,
        .bytes = NAN,
        .payload = NAN,
    };
    if (op || ev->category == KINETO_USER) note_pid(mk, ev, false);
    if (ev->category == KINETO_GPU_USER) note_track(mk, ev, r->range.thread);
    if (op && mk->pid == UINT64_MAX && ev->pid.number != UINT64_MAX) mk->pid = ev->pid.number;
}

void kineto_make(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r) {
    switch (ev->category) {
    case KINETO_KERNEL: make_kernel(mk, ev, r); break;
    case KINETO_MEMCPY:
    case KINETO_MEMSET: make_copy(ev, r); break;
    case KINETO_RUNTIME:
    case KINETO_DRIVER: make_launch(mk, ev, r); break;
    case KINETO_SYNC: make_sync(ev, r); break;
    default: make_range(mk, ev, r); break;
    }
}
