#include "import/kineto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "import/kineto_args.h"
#include "import/kineto_event.h"
#include "import/kineto_head.h"
#include "import/kineto_open.h"
#include "import/source.h"

#define RESYNC_MAX 1000         /* places that make no sense, before a file is given up */
#define DETAIL_BYTES (8u << 20) /* of shapes: names must not run out of room because of them */
#define SYNC_CALLS_MAX (1u << 18)
#define PROCESS_NAMES_MAX 256

struct importer {
    struct sink *sink;
    struct kineto_info *info;
    int64_t base_ns; /* added to every time */
    struct json_pull *j;
    struct kineto_scratch scratch;
    struct kineto_open open; /* begun, not ended */
    struct kineto_open
        unlinked; /* calls and device work without a correlation id: a flow may follow with it */
    struct text_cache details;
    struct strbuf text; /* reused */
    size_t detail_bytes;
    uint64_t resyncs, items;
    bool in_events; /* "traceEvents", or a bare array, was found */
    struct {        /* calls that wait for the device: sync records, unless the trace has its own */
        struct trace_sync *v;
        size_t n, cap;
    } sync_calls;
    struct {
        struct process_name {
            uint64_t pid;
            char name[128];
        } * v;
        size_t n, cap;
    } processes;
};

static uint64_t *problem(struct importer *im, enum sink_problem p) { return &im->sink->problems[p]; }

/* ---- from event to record */

static uint32_t small(uint64_t v) { return v < UINT32_MAX ? (uint32_t)v : 0; }

static uint32_t thread_of(struct importer *im, const struct kineto_event *ev) {
    return sink_thread_number(im->sink, ev->pid.key, ev->tid.key);
}

static bool span_has(struct span s, const char *word) { return s.n && memmem(s.p, s.n, word, strlen(word)); }

static bool starts_with(struct span s, const char *word) {
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
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

static enum trace_sync_kind sync_kind(struct span name) {
    if (span_has(name, "Wait")) return TRACE_SYNC_STREAM_WAIT;
    if (span_has(name, "Event")) return TRACE_SYNC_EVENT;
    if (span_has(name, "Stream")) return TRACE_SYNC_STREAM;
    if (span_has(name, "Context") || span_has(name, "Device") || span_has(name, "Ctx"))
        return TRACE_SYNC_CONTEXT;
    return TRACE_SYNC_UNKNOWN;
}

/* Device and stream: from args, else from where the event was drawn (pid, tid). */
static uint32_t first_known(uint64_t a, uint64_t b) { return a != KINETO_UNKNOWN ? small(a) : small(b); }

static uint64_t correlation_of(const struct kineto_args *a) {
    return a->correlation == KINETO_UNKNOWN ? 0 : a->correlation;
}

static void make_kernel(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_KERNEL;
    r->event = SINK_EVENT_KERNEL;
    r->kernel = (struct trace_kernel){
        .correlation = correlation_of(&a),
        .graph_node = a.graph_node == KINETO_UNKNOWN ? 0 : a.graph_node,
        .graph = small(a.graph),
        .device = first_known(a.device, ev->pid.number),
        .context = small(a.context),
        .stream = first_known(a.stream, ev->tid.number),
        .name = sink_text(im->sink, ev->name.p, ev->name.n),
        .grid_x = small(a.grid[0]),
        .grid_y = small(a.grid[1]),
        .grid_z = small(a.grid[2]),
        .block_x = small(a.block[0]),
        .block_y = small(a.block[1]),
        .block_z = small(a.block[2]),
        .registers = small(a.registers),
        .dynamic_smem_bytes = small(a.smem_bytes),
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
        .graph = small(a.graph),
        .device = first_known(a.device, ev->pid.number),
        .context = small(a.context),
        .stream = first_known(a.stream, ev->tid.number),
        .copy_kind = memset_event ? TRACE_COPY_MEMSET : copy_kind(ev->name, a.kind),
    };
}

static void make_launch(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_LAUNCH;
    r->event = ev->category == KINETO_DRIVER ? SINK_EVENT_DRIVER : SINK_EVENT_RUNTIME;
    r->launch = (struct trace_launch){
        .correlation = correlation_of(&a),
        .thread = thread_of(im, ev),
        .api = sink_text(im->sink, ev->name.p, ev->name.n),
    };
    if (im->info->pid == UINT64_MAX && ev->pid.number != UINT64_MAX) im->info->pid = ev->pid.number;
}

static void make_sync(const struct kineto_event *ev, struct kineto_record *r) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    r->kind = TRACE_SYNC;
    r->event = SINK_EVENT_SYNC;
    r->sync = (struct trace_sync){
        .correlation = correlation_of(&a),
        .sync_kind = sync_kind(a.kind.n ? a.kind : ev->name),
        .context = small(a.context),
        .stream = first_known(a.stream, ev->tid.number),
    };
}

/* Shapes repeat from step to step: the text is made once for each pair of raw arrays. */
static uint32_t detail_of(struct importer *im, const struct kineto_event *ev) {
    struct kineto_args a;
    kineto_args_parse(ev->args, &a);
    if (!a.dims.n || a.dims.n + a.types.n > 8192) return 0;
    strbuf_reset(&im->text);
    strbuf_add(&im->text, a.dims.p, a.dims.n);
    strbuf_add(&im->text, a.types.p, a.types.n);
    bool known;
    uint32_t *slot = text_cache_slot(&im->details, im->text.buf, im->text.len, &known);
    if (known) return *slot;
    strbuf_reset(&im->text);
    kineto_args_detail(a.dims, a.types, &im->text);
    im->detail_bytes += im->text.len;
    if (im->detail_bytes < DETAIL_BYTES)
        *slot = sink_text(im->sink, im->text.buf, im->text.len);
    else
        *problem(im, SINK_PROBLEM_TOO_MANY_TEXTS) += 1;
    return *slot;
}

static void make_range(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
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
         module = ev->category == KINETO_PYTHON && starts_with(ev->name, "nn.Module: ");
    bool on_thread = op || ev->category == KINETO_USER || ev->category == KINETO_PYTHON;
    r->kind = TRACE_RANGE;
    r->event = events[ev->category];
    r->range = (struct trace_range){
        .thread = thread_of(im, ev),
        .category = op       ? TRACE_CATEGORY_OP
                    : module ? TRACE_CATEGORY_MODULE
                             : TRACE_CATEGORY_USER,
        .flags = on_thread ? 0 : TRACE_RANGE_FREE,
        .domain = sink_text(im->sink, ev->cat.p, ev->cat.n),
        .name = sink_text(im->sink, ev->name.p, ev->name.n),
        .detail = op ? detail_of(im, ev) : 0,
        .flops = NAN,
        .bytes = NAN,
        .payload = NAN,
    };
    if (op && im->info->pid == UINT64_MAX && ev->pid.number != UINT64_MAX) im->info->pid = ev->pid.number;
}

static void make_record(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
    switch (ev->category) {
    case KINETO_KERNEL: make_kernel(im, ev, r); break;
    case KINETO_MEMCPY:
    case KINETO_MEMSET: make_copy(ev, r); break;
    case KINETO_RUNTIME:
    case KINETO_DRIVER: make_launch(im, ev, r); break;
    case KINETO_SYNC: make_sync(ev, r); break;
    default: make_range(im, ev, r); break;
    }
}

/* A host call that waits leaves a sync record too, if it turns out that the trace has none of its own. */
static void note_sync_call(struct importer *im, const struct kineto_event *ev, const struct trace_launch *l) {
    if (!span_has(ev->name, "Synchronize") || im->sync_calls.n >= SYNC_CALLS_MAX) return;
    vec_push(&im->sync_calls, ((struct trace_sync){ .start_ns = l->start_ns,
                                                    .end_ns = l->end_ns,
                                                    .correlation = l->correlation,
                                                    .thread = l->thread,
                                                    .sync_kind = sync_kind(ev->name) }));
}

static void emit(struct importer *im, const struct kineto_record *r) {
    im->sink->events[r->event]++;
    switch (r->kind) {
    case TRACE_KERNEL:
        *problem(im, SINK_PROBLEM_NO_CORRELATION) += !r->kernel.correlation;
        sink_kernel(im->sink, &r->kernel);
        break;
    case TRACE_COPY:
        *problem(im, SINK_PROBLEM_NO_CORRELATION) += !r->copy.correlation;
        sink_copy(im->sink, &r->copy);
        break;
    case TRACE_LAUNCH: sink_launch(im->sink, &r->launch); break;
    case TRACE_SYNC: sink_sync(im->sink, &r->sync); break;
    default: sink_range(im->sink, &r->range); break;
    }
}

/* Where a record keeps its correlation id; NULL: its kind has none that a flow could give. */
static uint64_t *correlation_in(struct kineto_record *r) {
    switch (r->kind) {
    case TRACE_KERNEL: return &r->kernel.correlation;
    case TRACE_COPY: return &r->copy.correlation;
    case TRACE_LAUNCH: return &r->launch.correlation;
    default: return NULL;
    }
}

/* The ends of a flow lie where an event begins: same pid, tid and time. */
static uint64_t place_key(const struct kineto_event *ev) {
    return hash_u64(hash_u64(ev->pid.key) ^ ev->tid.key) ^ hash_u64((uint64_t)ev->ts_ns);
}

/* Kineto writes an event's flow behind it: what has no correlation id waits for one, until the end of the file. */
static void emit_or_wait(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
    const uint64_t *correlation = correlation_in(r);
    if (!correlation || *correlation || !kineto_open_push(&im->unlinked, place_key(ev), r)) emit(im, r);
}

/* Flows from calls to the work they launched carry the correlation id as theirs. */
static void on_flow(struct importer *im, const struct kineto_event *ev) {
    struct kineto_record r;
    uint64_t id;
    im->sink->events[SINK_EVENT_FLOW]++;
    if (!im->unlinked.count || !(starts_with(ev->cat, "ac2g") || starts_with(ev->cat, "async"))) return;
    if (!json_to_u64(ev->id.p, ev->id.n, &id) || !id || !kineto_open_pop(&im->unlinked, place_key(ev), &r))
        return;
    *correlation_in(&r) = id;
    emit(im, &r);
}

/* ---- by phase */

static bool time_of(struct importer *im, const struct kineto_event *ev, uint64_t *out) {
    int64_t t;
    if (!ev->has_ts || __builtin_add_overflow(ev->ts_ns, im->base_ns, &t) || t < 0) {
        ++*problem(im, ev->has_ts || ev->bad_number ? SINK_PROBLEM_BAD_NUMBER : SINK_PROBLEM_NO_TIME);
        return false;
    }
    *out = (uint64_t)t;
    return true;
}

static void on_complete(struct importer *im, const struct kineto_event *ev) {
    struct kineto_record r;
    uint64_t start;
    if (!time_of(im, ev, &start)) return;
    if (!ev->has_dur) {
        ++*problem(im, ev->bad_number ? SINK_PROBLEM_BAD_NUMBER : SINK_PROBLEM_NO_DURATION);
        return;
    }
    if (ev->dur_ns < 0) {
        ++*problem(im, SINK_PROBLEM_NEGATIVE_DURATION);
        return;
    }
    make_record(im, ev, &r);
    r.range.start_ns = start; /* the first two fields of every kind */
    r.range.end_ns = start + (uint64_t)ev->dur_ns;
    emit_or_wait(im, ev, &r);
    if (r.kind == TRACE_LAUNCH) note_sync_call(im, ev, &r.launch);
}

static uint64_t open_key(const struct kineto_event *ev, bool async) {
    if (!async) return hash_u64(ev->pid.key) ^ ev->tid.key;
    return hash_bytes(ev->cat.p, ev->cat.n) ^ hash_u64(hash_bytes(ev->id.p, ev->id.n)) ^ ev->pid.key;
}

static void on_begin(struct importer *im, const struct kineto_event *ev, bool async) {
    struct kineto_record r;
    uint64_t start;
    if (!time_of(im, ev, &start)) return;
    make_record(im, ev, &r);
    r.range.start_ns = r.range.end_ns = start;
    if (async && r.kind == TRACE_RANGE) r.range.flags |= TRACE_RANGE_FREE;
    if (!kineto_open_push(&im->open, open_key(ev, async), &r)) ++*problem(im, SINK_PROBLEM_TOO_MANY_OPEN);
}

static void on_end(struct importer *im, const struct kineto_event *ev, bool async) {
    struct kineto_record r;
    uint64_t end;
    if (!time_of(im, ev, &end)) return;
    if (!kineto_open_pop(&im->open, open_key(ev, async), &r)) {
        ++*problem(im, SINK_PROBLEM_UNOPENED);
        return;
    }
    if (end < r.range.start_ns) {
        ++*problem(im, SINK_PROBLEM_NEGATIVE_DURATION);
        return;
    }
    r.range.end_ns = end;
    emit(im, &r);
}

static void on_instant(struct importer *im, const struct kineto_event *ev) {
    uint64_t at;
    if (!time_of(im, ev, &at)) return;
    im->sink->events[SINK_EVENT_INSTANT]++;
    struct trace_range r = {
        .start_ns = at,
        .end_ns = at,
        .thread = thread_of(im, ev),
        .category = TRACE_CATEGORY_USER,
        .flags = TRACE_RANGE_MARK,
        .domain = sink_text(im->sink, ev->cat.p, ev->cat.n),
        .name = sink_text(im->sink, ev->name.p, ev->name.n),
        .flops = NAN,
        .bytes = NAN,
        .payload = NAN,
    };
    sink_range(im->sink, &r);
}

static void on_counter(struct importer *im, const struct kineto_event *ev) {
    struct trace_sample s = { 0 };
    double values[TRACE_SAMPLE_VALUES];
    uint64_t at;
    if (!time_of(im, ev, &at)) return;
    im->sink->events[SINK_EVENT_COUNTER]++;
    strbuf_reset(&im->text);
    size_t n = kineto_args_counters(ev->args, ev->name, &im->text, values, TRACE_SAMPLE_VALUES);
    if (!n) return;
    s.start_ns = s.end_ns = at;
    s.device = small(ev->pid.number);
    s.metrics = sink_text(im->sink, im->text.buf, im->text.len);
    for (size_t i = 0; i < TRACE_SAMPLE_VALUES; i++) sink_values(&s)[i] = i < n ? values[i] : NAN;
    sink_sample(im->sink, &s);
}

static void on_metadata(struct importer *im, const struct kineto_event *ev) {
    im->sink->events[SINK_EVENT_METADATA]++;
    bool thread = starts_with(ev->name, "thread_name"), process = starts_with(ev->name, "process_name");
    if (!thread && !process) return;
    strbuf_reset(&im->text);
    if (!kineto_args_text(ev->args, "name", &im->text) ||
        starts_with((struct span){ im->text.buf, im->text.len }, "stream "))
        return;
    if (thread && im->sink->events[SINK_EVENT_METADATA] < 100000) {
        char key[48];
        snprintf(key, sizeof key, "thread.%u.name", thread_of(im, ev));
        sink_meta(im->sink, key, "%s", im->text.buf);
    } else if (process && im->processes.n < PROCESS_NAMES_MAX) {
        struct process_name p = { .pid = ev->pid.number };
        snprintf(p.name, sizeof p.name, "%s", im->text.buf);
        vec_push(&im->processes, p);
    }
}

static void on_event(struct importer *im, const struct kineto_event *ev) {
    switch (ev->phase) {
    case 'X': on_complete(im, ev); break;
    case 'B': on_begin(im, ev, false); break;
    case 'E': on_end(im, ev, false); break;
    case 'b':
    case 'S': on_begin(im, ev, true); break;
    case 'e':
    case 'F': on_end(im, ev, true); break;
    case 'i':
    case 'I':
    case 'R':
    case 'n': on_instant(im, ev); break;
    case 'C': on_counter(im, ev); break;
    case 'M': on_metadata(im, ev); break;
    case 's':
    case 't':
    case 'f': on_flow(im, ev); break;
    case 0: ++*problem(im, SINK_PROBLEM_NOT_AN_EVENT); break;
    default: im->sink->events[SINK_EVENT_OTHER]++; break;
    }
}

/* ---- the file */

/* A second "ph" in what should be one event: a quote or a bracket is missing, and it has run into its neighbours. */
static bool looks_lost(const char *p, size_t n) {
    const char *first = memmem(p, n, "\"ph\"", 4);
    if (!first) return false;
    first += 4;
    return memmem(first, n - (size_t)(first - p), "\"ph\"", 4) != NULL;
}

static bool resync(struct importer *im) {
    ++*problem(im, SINK_PROBLEM_LOST_SYNC);
    return ++im->resyncs <= RESYNC_MAX && json_pull_resync(im->j);
}

/* The next value could not be had. True: go on with the one after. */
static bool recover(struct importer *im) {
    struct json_pull *j = im->j;
    const char *why = j->error;
    bool cut = j->cut_short;
    if (looks_lost(j->p, (size_t)(j->end - j->p)) || !(cut || strstr(why, "longer"))) {
        j->cut_short = false;
        return resync(im);
    }
    if (cut) return false;
    ++*problem(im, SINK_PROBLEM_HUGE_EVENT);
    return json_pull_skip(j) > JSON_END;
}

static bool take_item(struct importer *im, enum json_token tok) {
    struct kineto_event ev;
    struct json_pull *j = im->j;
    im->items++;
    if (tok != JSON_OBJECT) {
        ++*problem(im, SINK_PROBLEM_NOT_AN_EVENT);
    } else if (!kineto_event_parse(j->text, j->len, im->unlinked.count > 0, &im->scratch, &ev)) {
        ++*problem(im, SINK_PROBLEM_SYNTAX);
        if (looks_lost(j->text, j->len)) {
            json_pull_rewind(j, j->text);
            return resync(im);
        }
    } else {
        *problem(im, SINK_PROBLEM_CUT_TEXT) += ev.cut_text;
        on_event(im, &ev);
    }
    return true;
}

/* The items of an array of events, whose bracket has been read. False: the file cannot be followed any further. */
static bool take_events(struct importer *im, const struct kineto_options *o, uint64_t all_bytes) {
    im->in_events = true;
    for (;;) {
        enum json_token tok = json_pull_raw(im->j);
        if (tok == JSON_ARRAY_END) return true;
        if (tok == JSON_END) return false;
        if (tok == JSON_ERROR ? !recover(im) : !take_item(im, tok)) return false;
        if (o->progress && im->items % 65536 == 0) o->progress(json_pull_position(im->j), all_bytes);
    }
}

static void take_member(struct importer *im, const char *key, bool *sound) {
    enum json_token tok = json_pull_raw(im->j);
    if (tok == JSON_ERROR && !im->j->cut_short && im->j->error && strstr(im->j->error, "longer"))
        tok = json_pull_skip(im->j);
    *sound = tok > JSON_END;
    if (!*sound || !im->j->text || tok == JSON_NULL) return;
    kineto_head_member(im->sink, im->info, key, im->j->text, im->j->len);
    if (strcmp(key, "baseTimeNanoseconds") != 0 || !im->info->has_base) return;
    if (im->items)
        im->info->late_base = im->info->base_ns != im->base_ns;
    else
        im->base_ns = im->info->base_ns;
}

/* The members of the top-level object. False: it broke off. */
static bool take_members(struct importer *im, const struct kineto_options *o) {
    char key[64];
    for (;;) {
        enum json_token tok = json_pull_next(im->j);
        if (tok == JSON_OBJECT_END) return true;
        if (tok != JSON_KEY) return false;
        snprintf(key, sizeof key, "%.*s", (int)MIN(im->j->len, sizeof key - 1), im->j->text);
        bool sound = true;
        if (strcmp(key, "traceEvents") == 0) {
            if (json_pull_next(im->j) != JSON_ARRAY) return false;
            sound = take_events(im, o, 0);
        } else {
            take_member(im, key, &sound);
        }
        if (!sound) return false;
    }
}

static void close_open(struct importer *im) {
    struct kineto_record r;
    while (kineto_open_any(&im->unlinked, &r)) emit(im, &r);
    while (kineto_open_any(&im->open, &r)) {
        ++*problem(im, SINK_PROBLEM_UNCLOSED);
        r.range.end_ns = MAX(r.range.start_ns, im->sink->last_ns);
        if (r.kind == TRACE_RANGE) r.range.flags |= TRACE_RANGE_OPEN;
        emit(im, &r);
    }
}

static void write_info(struct importer *im) {
    struct kineto_info *info = im->info;
    for (size_t i = 0; i < im->processes.n; i++)
        if (im->processes.v[i].pid == info->pid)
            sink_meta(im->sink, "process.command", "%s", im->processes.v[i].name);
    if (info->pid != UINT64_MAX) sink_meta(im->sink, "process.pid", "%llu", (unsigned long long)info->pid);
    if (info->world_size >= 0) sink_meta(im->sink, "world_size", "%lld", (long long)info->world_size);
    /* without a base, times of this century count from the epoch */
    bool based = im->base_ns != 0 || info->late_base || im->sink->first_ns > 1000000000ull * 1000000000ull;
    sink_meta(im->sink, "clock", "%s", based && im->sink->first_ns != UINT64_MAX ? "unix" : "relative");
    if (info->late_base)
        sink_meta(im->sink, "clock.offset_ns", "%lld", (long long)(info->base_ns - im->base_ns));
    if (!im->sink->events[SINK_EVENT_SYNC])
        for (size_t i = 0; i < im->sync_calls.n; i++) sink_sync(im->sink, &im->sync_calls.v[i]);
}

int kineto_import_stream(json_fill_fn *fill, void *source, const char *name, struct sink *sink,
                         const struct kineto_options *options, struct kineto_info *info, struct err *err) {
    struct importer im = { .sink = sink, .info = info, .text = STRBUF_INIT };
    *info = (struct kineto_info){ .rank = -1, .world_size = -1, .pid = UINT64_MAX };
    im.j = json_pull_open(fill, source, options->window_bytes);
    kineto_scratch_init(&im.scratch);
    int rc = 0;
    enum json_token tok = json_pull_next(im.j);
    bool whole =
        tok == JSON_OBJECT ? take_members(&im, options) : tok == JSON_ARRAY && take_events(&im, options, 0);
    if (!im.in_events && (tok != JSON_OBJECT || !whole || !info->has_base))
        rc = err_set(err,
                     "%s: no trace events in it: expected a Chrome trace, {\"traceEvents\": [...]} or [...]",
                     name);
    /* the array form may end without its bracket */
    if (rc == 0 && !whole &&
        !(tok == JSON_ARRAY && json_pull_position(im.j) && im.j->p == im.j->end && im.j->depth == 1 &&
          im.items && im.j->seen_item))
        ++*problem(&im, SINK_PROBLEM_TRUNCATED);
    *problem(&im, SINK_PROBLEM_TRAILING_COMMA) += im.j->commas;
    close_open(&im);
    write_info(&im);
    info->read_bytes = json_pull_position(im.j);
    json_pull_close(im.j);
    kineto_scratch_free(&im.scratch);
    kineto_open_free(&im.open);
    kineto_open_free(&im.unlinked);
    text_cache_free(&im.details);
    strbuf_free(&im.text);
    free(im.sync_calls.v);
    free(im.processes.v);
    return rc;
}

int kineto_import(const char *path, struct sink *sink, const struct kineto_options *options,
                  struct kineto_info *info, struct err *err) {
    struct source *s = source_open(path, err);
    if (!s) return -1;
    int rc = kineto_import_stream(source_read, s, path, sink, options, info, err);
    if (source_problem(s)) sink->problems[SINK_PROBLEM_DAMAGED]++;
    source_close(s);
    return rc;
}
