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
#include "import/kineto_collective.h"
#include "import/kineto_event.h"
#include "import/kineto_head.h"
#include "import/kineto_keep.h"
#include "import/kineto_open.h"
#include "import/kineto_record.h"
#include "import/source.h"

#define RESYNC_MAX 1000 /* then the rest is skipped */
#define SYNC_CALLS_MAX (1u << 18)
#define PROCESS_NAMES_MAX 256

struct importer {
    struct sink *sink;
    struct kineto_info *info;
    int64_t base_ns; /* added to every time */
    struct json_pull *j;
    struct kineto_scratch scratch;
    struct kineto_open open; /* begin events without an end */
    /* Calls and device work without a correlation id. A later flow event may contain the id. */
    struct kineto_open unlinked;
    struct kineto_maker maker;
    struct kineto_sources sources;
    struct strbuf text; /* scratch buffer */
    uint64_t resyncs, items;
    bool in_events; /* "traceEvents" or an array was found */
    struct {        /* waiting calls, see note_sync_call() */
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

/* Calls that wait become sync records if the trace has no sync events. */
static void note_sync_call(struct importer *im, const struct kineto_event *ev, const struct trace_launch *l) {
    if (!span_has(ev->name, "Synchronize") || im->sync_calls.n >= SYNC_CALLS_MAX) return;
    vec_push(&im->sync_calls, ((struct trace_sync){ .start_ns = l->start_ns,
                                                    .end_ns = l->end_ns,
                                                    .correlation = l->correlation,
                                                    .thread = l->thread,
                                                    .sync_kind = kineto_sync_kind(ev->name) }));
}

static void emit_record(struct importer *im, const struct kineto_record *r) {
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

/* NULL: this kind has no flows */
static uint64_t *correlation_in(struct kineto_record *r) {
    switch (r->kind) {
    case TRACE_KERNEL: return &r->kernel.correlation;
    case TRACE_COPY: return &r->copy.correlation;
    case TRACE_LAUNCH: return &r->launch.correlation;
    default: return NULL;
    }
}

/* Hash of pid, tid and time. An event and its flow event have the same hash. */
static uint64_t place_key(const struct kineto_event *ev) {
    return hash_u64(hash_u64(ev->pid.key) ^ ev->tid.key) ^ hash_u64((uint64_t)ev->ts_ns);
}

/* Kineto writes the flow event after its event. Therefore records without a correlation id wait for it. */
static void emit_or_wait(struct importer *im, const struct kineto_event *ev, struct kineto_record *r) {
    const uint64_t *correlation = correlation_in(r);
    if (!correlation || *correlation || !kineto_open_push(&im->unlinked, place_key(ev), r))
        emit_record(im, r);
}

/* Sets the correlation id of a waiting record: the id of the flow from a call to its launched work. */
static void on_flow(struct importer *im, const struct kineto_event *ev) {
    struct kineto_record r;
    uint64_t id;
    im->sink->events[SINK_EVENT_FLOW]++;
    if (!im->unlinked.count || !(span_starts(ev->cat, "ac2g") || span_starts(ev->cat, "async"))) return;
    if (!json_to_u64(ev->id.p, ev->id.n, &id) || !id || !kineto_open_pop(&im->unlinked, place_key(ev), &r))
        return;
    *correlation_in(&r) = id;
    emit_record(im, &r);
}

/* ---- Events by phase */

static bool time_of(struct importer *im, const struct kineto_event *ev, uint64_t *out) {
    int64_t t;
    if (!ev->has_ts || __builtin_add_overflow(ev->ts_ns, im->base_ns, &t) || t < 0) {
        ++*problem(im, ev->has_ts || ev->bad_number ? SINK_PROBLEM_BAD_NUMBER : SINK_PROBLEM_NO_TIME);
        return false;
    }
    *out = (uint64_t)t;
    return true;
}

static void add_collective(struct importer *im, const struct kineto_event *ev, uint64_t start_ns,
                           uint64_t end_ns) {
    struct trace_collective c;
    if (!kineto_collective(im->sink, ev, im->info->rank, &c)) return;
    bool kernel = c.flags & TRACE_COLLECTIVE_FROM_KERNEL;
    c.start_ns = c.kernel_start_ns = c.kernel_end_ns = start_ns;
    c.end_ns = end_ns;
    if (kernel) {
        c.kernel_end_ns = end_ns;
        c.flags |= TRACE_COLLECTIVE_KERNEL_TIMES | TRACE_COLLECTIVE_GPU_CLOCK;
    }
    sink_collective(im->sink, &c);
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
    kineto_make(&im->maker, ev, &r);
    r.range.start_ns = start; /* every kind begins with these */
    r.range.end_ns = start + (uint64_t)ev->dur_ns;
    emit_or_wait(im, ev, &r);
    add_collective(im, ev, start, r.range.end_ns);
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
    kineto_make(&im->maker, ev, &r);
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
    emit_record(im, &r);
}

/* PyTorch's allocator logs allocations, frees and the total. Returns false for other events. */
static bool on_memory(struct importer *im, const struct kineto_event *ev, uint64_t at) {
    struct kineto_args a;
    if (ev->name.n != strlen("[memory]") || !span_starts(ev->name, "[memory]")) return false;
    kineto_args_parse(ev->args, &a);
    if (a.total_bytes == KINETO_UNKNOWN || a.device_type == KINETO_UNKNOWN) return false;
    struct trace_memory m = { .time_ns = at,
                              .address = a.address == KINETO_UNKNOWN ? 0 : a.address,
                              .bytes = a.total_bytes,
                              .device = a.device_type == 0 ? TRACE_UNKNOWN_U32 : sink_u32(a.device),
                              .thread = kineto_thread(im->sink, ev),
                              .action = TRACE_MEMORY_TOTAL,
                              .allocator = sink_text(im->sink, "torch", 5) };
    sink_memory(im->sink, &m);
    return true;
}

static void on_instant(struct importer *im, const struct kineto_event *ev) {
    uint64_t at;
    if (!time_of(im, ev, &at)) return;
    im->sink->events[SINK_EVENT_INSTANT]++;
    if (on_memory(im, ev, at)) return;
    struct trace_range r = {
        .start_ns = at,
        .end_ns = at,
        .thread = kineto_thread(im->sink, ev),
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
    s.device = sink_u32(ev->pid.number);
    s.metrics = sink_text(im->sink, im->text.buf, im->text.len);
    for (size_t i = 0; i < TRACE_SAMPLE_VALUES; i++) sink_values(&s)[i] = i < n ? values[i] : NAN;
    sink_sample(im->sink, &s);
}

static void on_metadata(struct importer *im, const struct kineto_event *ev) {
    im->sink->events[SINK_EVENT_METADATA]++;
    bool thread = span_starts(ev->name, "thread_name"), process = span_starts(ev->name, "process_name");
    if (!thread && !process) return;
    strbuf_reset(&im->text);
    if (!kineto_args_text(ev->args, "name", &im->text) ||
        span_starts((struct span){ im->text.buf, im->text.len }, "stream "))
        return;
    if (thread && im->sink->events[SINK_EVENT_METADATA] < 100000) {
        char key[48];
        snprintf(key, sizeof key, "thread.%u.name", kineto_thread(im->sink, ev));
        sink_meta(im->sink, key, "%s", im->text.buf);
    } else if (process && im->processes.n < PROCESS_NAMES_MAX) {
        struct process_name p = { .pid = ev->pid.number };
        snprintf(p.name, sizeof p.name, "%s", im->text.buf);
        vec_push(&im->processes, p);
    }
}

/* Keeps the event for exports, if its times are valid. Counters become samples instead. */
static void keep_event(struct importer *im, const struct kineto_event *ev) {
    int64_t at = 0;
    if (!ev->phase || ev->phase == 'C') return;
    if (ev->phase != 'M' && !ev->has_ts) return;
    if (__builtin_add_overflow(ev->ts_ns, im->base_ns, &at) || at < 0) return;
    if (ev->phase == 'X' && (!ev->has_dur || ev->dur_ns < 0)) return;
    kineto_keep(&im->sources, ev, (uint64_t)at);
}

static void on_event(struct importer *im, const struct kineto_event *ev) {
    keep_event(im, ev);
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

/* ---- File */

/* A second "ph" in an event means that a quote or bracket is missing, and that the text includes the next
 * events. */
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

/* Handles an unreadable value. Returns true if the next value can be read. */
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
    } else if (!kineto_event_parse(j->text, j->len, &im->scratch, &ev)) {
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

/* Reads the events after the opening bracket. Returns false if the array ends early or the rest is
 * unreadable. */
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

/* Reads the members of the top-level object. Returns false if it ends early or is unreadable. */
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
    while (kineto_open_any(&im->unlinked, &r)) emit_record(im, &r);
    while (kineto_open_any(&im->open, &r)) {
        ++*problem(im, SINK_PROBLEM_UNCLOSED);
        r.range.end_ns = MAX(r.range.start_ns, im->sink->last_ns);
        if (r.kind == TRACE_RANGE) r.range.flags |= TRACE_RANGE_OPEN;
        emit_record(im, &r);
    }
}

/* Names the process of each thread if the file has several processes, such as joined ranks. */
static void write_processes(struct importer *im) {
    const struct kineto_maker *mk = &im->maker;
    const struct sink *s = im->sink;
    char key[48];
    size_t n = 0;
    for (size_t p = 0; p < mk->npids; p++) n += mk->pids[p].calls && mk->pids[p].ranges;
    if (n < 2) return;
    for (size_t i = 0; i < s->thread_slots; i++)
        for (size_t p = 0; s->threads[i].used && p < mk->npids; p++) {
            if (mk->pids[p].key != s->threads[i].pid || !mk->pids[p].calls || !mk->pids[p].ranges) continue;
            snprintf(key, sizeof key, "thread.%u.pid", s->threads[i].number);
            sink_meta(im->sink, key, "%u", mk->pids[p].number);
        }
    for (size_t i = 0; i < mk->tracks.n; i++) {
        snprintf(key, sizeof key, "thread.%u.device", mk->tracks.v[i].thread);
        sink_meta(im->sink, key, "%u", mk->tracks.v[i].device);
    }
}

static void write_info(struct importer *im) {
    write_processes(im);
    struct kineto_info *info = im->info;
    for (size_t i = 0; i < im->processes.n; i++)
        if (im->processes.v[i].pid == info->pid)
            sink_meta(im->sink, "process.command", "%s", im->processes.v[i].name);
    if (info->pid != UINT64_MAX) sink_meta(im->sink, "process.pid", "%llu", (unsigned long long)info->pid);
    if (info->world_size >= 0) sink_meta(im->sink, "world_size", "%lld", (long long)info->world_size);
    /* Without a base, a first time after 2001 means that times are unix times. */
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
    kineto_maker_init(&im.maker, sink);
    kineto_sources_init(&im.sources, sink);
    int rc = 0;
    enum json_token tok = json_pull_next(im.j);
    bool whole =
        tok == JSON_OBJECT ? take_members(&im, options) : tok == JSON_ARRAY && take_events(&im, options, 0);
    if (!im.in_events && (tok != JSON_OBJECT || !whole || !info->has_base))
        rc = err_set(err,
                     "%s: no trace events found; expected a Chrome trace, {\"traceEvents\": [...]} or [...]",
                     name);
    /* A top-level array may lack its closing bracket. */
    if (rc == 0 && !whole &&
        !(tok == JSON_ARRAY && json_pull_position(im.j) && im.j->p == im.j->end && im.j->depth == 1 &&
          im.items && im.j->seen_item))
        ++*problem(&im, SINK_PROBLEM_TRUNCATED);
    *problem(&im, SINK_PROBLEM_TRAILING_COMMA) += im.j->commas;
    info->pid = im.maker.pid;
    close_open(&im);
    write_info(&im);
    info->read_bytes = json_pull_position(im.j);
    json_pull_close(im.j);
    kineto_scratch_free(&im.scratch);
    kineto_open_free(&im.open);
    kineto_open_free(&im.unlinked);
    kineto_maker_free(&im.maker);
    kineto_sources_free(&im.sources);
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

static bool is_kineto(const struct import_head *h) { return *h->text == '{' || *h->text == '['; }

static int read_kineto(struct import_job *job, struct err *err) {
    struct kineto_options o = { .progress = job->progress };
    struct kineto_info info;
    int rc = kineto_import(job->path, job->sink, &o, &info, err);
    job->rank = info.rank;
    job->read_bytes = info.read_bytes;
    return rc;
}

const struct import_format kineto_format = { .name = "torch.profiler (Kineto) JSON",
                                             .source = "import:kineto",
                                             .detect = is_kineto,
                                             .read = read_kineto };
