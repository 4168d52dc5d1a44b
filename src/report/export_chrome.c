/* Chrome trace events with the categories and arguments of PyTorch's profiler. Times are microseconds since
 * baseTimeNanoseconds with three decimals, so nothing is rounded. Events of a trace that was imported from
 * one Chrome trace are written unchanged. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/export_kept.h"
#include "report/export_records.h"

struct chrome {
    struct export_job *x;
    FILE *out;
    struct strbuf text;
    uint64_t base;
    bool first;
    unsigned char *flows; /* [launches.n]: its kernel or copy is written */
};

static void flush_text(struct chrome *c) {
    fwrite(c->text.buf, 1, c->text.len, c->out);
    strbuf_reset(&c->text);
}

static void add_quoted(struct chrome *c, const char *text) { jsonw_quote(&c->text, text, strlen(text)); }

static void micros(struct chrome *c, const char *key, uint64_t ns) {
    strbuf_addf(&c->text, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Writes {"ph":"X","cat":...,"dur":...,"args":{ and leaves it open for the arguments. */
static void slice(struct chrome *c, const char *cat, const char *name, uint64_t pid, uint64_t tid,
                  uint64_t start, uint64_t end) {
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addf(&c->text, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", cat);
    add_quoted(c, name);
    strbuf_addf(&c->text, ",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64, pid, tid);
    micros(c, "ts", start - c->base);
    micros(c, "dur", end - start);
    strbuf_addstr(&c->text, ",\"args\":{");
    c->x->written++;
}

static void slice_end(struct chrome *c) {
    strbuf_addstr(&c->text, "}}");
    flush_text(c);
}

static void name_event(struct chrome *c, const char *what, uint64_t pid, uint64_t tid, const char *name) {
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addf(&c->text,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"args\":{\"name\":",
                what, pid, tid);
    add_quoted(c, name);
    slice_end(c);
}

/* One end of the arrow from a launch to its kernel or copy. */
static void flow(struct chrome *c, char phase, uint32_t launch, uint64_t pid, uint64_t tid, uint64_t at) {
    strbuf_addf(&c->text,
                ",\n{\"ph\":\"%c\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":%" PRIu64 ",\"pid\":%" PRIu64
                ",\"tid\":%" PRIu64,
                phase, (uint64_t)launch + 1, pid, tid);
    micros(c, "ts", at - c->base);
    strbuf_addstr(&c->text, phase == 'f' ? ",\"bp\":\"e\"}" : "}");
    flush_text(c);
}

/* Writes members without the brackets. */
static void arguments(struct chrome *c, const struct export_table *t, size_t i) {
    const char *comma = "";
    for (size_t k = 0; k < t->n; k++) {
        const struct export_column *column = &t->columns[k];
        struct column_value v;
        if (!export_argument(column, &(struct export_row){ .x = c->x, .i = i }, &v)) continue;
        strbuf_addf(&c->text, "%s\"%s\":", comma, column->argument);
        if (v.type == COLUMN_STR)
            add_quoted(c, v.str);
        else if (v.type == COLUMN_DIMS)
            strbuf_addf(&c->text, "[%u,%u,%u]", v.dims[0], v.dims[1], v.dims[2]);
        else
            strbuf_addf(&c->text, "%" PRIu64, v.u64);
        comma = ",";
    }
}

static void kernels(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_kernels *k = &tl->kernels;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_shape *s = &tl->shapes[k->shape[i]];
        const struct timeline_lane *l = &tl->lanes[k->lane[i]];
        uint32_t device = export_device_number(c->x, s->device);
        slice(c, "kernel", export_kernel_name(c->x, i), device, l->stream, k->start_ns[i], k->end_ns[i]);
        arguments(c, &export_kernels, i);
        slice_end(c);
        if (k->launch[i] != TIMELINE_NONE) flow(c, 'f', k->launch[i], device, l->stream, k->start_ns[i]);
    }
}

static void copies(struct chrome *c) {
    const struct timeline_copies *k = &c->x->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_lane *l = &c->x->tl->lanes[k->lane[i]];
        bool set = k->kind[i] == TRACE_COPY_MEMSET;
        uint32_t device = export_device_number(c->x, l->device);
        char name[64];
        snprintf(name, sizeof name, set ? "Memset (Device)" : "Memcpy %s", export_copy_name(k->kind[i]));
        slice(c, set ? "gpu_memset" : "gpu_memcpy", name, device, l->stream, k->start_ns[i], k->end_ns[i]);
        arguments(c, &export_copies, i);
        slice_end(c);
        if (k->launch[i] != TIMELINE_NONE) flow(c, 'f', k->launch[i], device, l->stream, k->start_ns[i]);
    }
}

static void launches(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_launches *k = &tl->launches;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has_launch(c->x, i)) continue;
        const struct timeline_thread *t = &tl->threads[k->thread[i]];
        const char *api = timeline_text(tl, k->api[i]);
        uint32_t pid = export_pid(c->x, t->process);
        slice(c, export_is_driver_call(api) ? "cuda_driver" : "cuda_runtime", *api ? api : "launch", pid,
              t->tid, k->start_ns[i], k->end_ns[i]);
        arguments(c, &export_launches, i);
        slice_end(c);
        if (c->flows[i]) flow(c, 's', (uint32_t)i, pid, t->tid, k->start_ns[i]);
    }
}

/* Name of an element type in PyTorch's profiler. */
static const char *torch_type(const char *type, size_t n) {
    static const char *const rows[][2] = { { "bf16", "c10::BFloat16" },
                                           { "f16", "c10::Half" },
                                           { "f32", "float" },
                                           { "f64", "double" },
                                           { "i64", "long int" },
                                           { "i32", "int" },
                                           { "i16", "short int" },
                                           { "i8", "signed char" },
                                           { "u8", "unsigned char" },
                                           { "bool", "bool" },
                                           { "f8e4m3", "c10::Float8_e4m3fn" },
                                           { "f8e5m2", "c10::Float8_e5m2" } };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strlen(rows[i][0]) == n && memcmp(rows[i][0], type, n) == 0) return rows[i][1];
    return NULL;
}

/* Returns the end of "[4,196,768]" or of a list of such arrays. NULL: other text. */
static const char *dims_end(const char *p, int depth) {
    if (*p != '[' || depth > 1) return NULL;
    for (p++; *p != ']'; p += *p == ',') {
        size_t digits = strspn(p, "0123456789");
        const char *end = digits && (digits == 1 || *p != '0') ? p + digits : dims_end(p, depth + 1);
        if (!end || (*end != ']' && !(*end == ',' && end[1] != ']'))) return NULL;
        p = end;
    }
    return p + 1;
}

/* Parses a tensor such as "w[4096,1280]bf16". Adds its dimensions and its type. Returns its end; NULL: not a
 * tensor. */
static const char *next_tensor(const char *p, struct strbuf *dims, struct strbuf *types) {
    const char *open = p + strcspn(p, " ["), *type = dims_end(open, 0);
    if (!type) return NULL;
    const char *end = type + strcspn(type, " ;");
    const char *name = torch_type(type, (size_t)(end - type));
    strbuf_addf(dims, "%s%.*s", dims->len ? "," : "", (int)(type - open), open);
    strbuf_addstr(types, types->len ? "," : "");
    if (name)
        jsonw_quote(types, name, strlen(name));
    else
        jsonw_quote(types, type, (size_t)(end - type));
    return end;
}

/* Writes the tensors of a detail as "Input Dims" and "Input type", like PyTorch's profiler. If the detail has
 * other content, also writes the whole detail as "detail". */
static void add_shapes(struct chrome *c, const char *detail) {
    struct strbuf dims = STRBUF_INIT, types = STRBUF_INIT;
    const char *p = detail;
    while (p && *p && *p != ';') {
        p = next_tensor(p, &dims, &types);
        while (p && *p == ' ') p++;
    }
    if (p && dims.len) strbuf_addf(&c->text, "\"Input Dims\":[%s],\"Input type\":[%s]", dims.buf, types.buf);
    if (*detail && (!p || !dims.len || *p == ';')) {
        strbuf_addstr(&c->text, p && dims.len ? ",\"detail\":" : "\"detail\":");
        add_quoted(c, detail);
    }
    strbuf_free(&dims);
    strbuf_free(&types);
}

static void ranges(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_ranges *r = &tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (!export_has(c->x, r->start_ns[i], r->end_ns[i])) continue;
        const struct timeline_thread *t = &tl->threads[r->thread[i]];
        const char *domain = timeline_text(tl, r->domain[i]),
                   *cat = r->category[i] == TRACE_CATEGORY_OP      ? "cpu_op"
                          : strcmp(domain, "python_function") == 0 ? domain
                                                                   : "user_annotation";
        slice(c, cat, timeline_text(tl, r->name[i]), export_pid(c->x, t->process), t->tid, r->start_ns[i],
              r->end_ns[i]);
        add_shapes(c, timeline_text(tl, r->detail[i]));
        slice_end(c);
    }
}

static void syncs(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_syncs *s = &tl->syncs;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i])) continue;
        const struct timeline_thread *t = &tl->threads[s->thread[i]];
        slice(c, "cuda_sync", trace_sync_kind_name(s->kind[i]), export_pid(c->x, t->process), t->tid,
              s->start_ns[i], s->end_ns[i]);
        arguments(c, &export_syncs, i);
        slice_end(c);
    }
}

static void counter(struct chrome *c, const char *name, uint32_t device, uint64_t at, double value) {
    if (!isfinite(value)) return;
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addstr(&c->text, "{\"ph\":\"C\",\"name\":");
    add_quoted(c, name);
    strbuf_addf(&c->text, ",\"pid\":%u,\"tid\":0", export_device_number(c->x, device));
    micros(c, "ts", at - c->base);
    strbuf_addf(&c->text, ",\"args\":{\"value\":%.9g", value);
    slice_end(c);
    c->x->written++;
}

static void counters(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_powers *p = &tl->powers;
    for (size_t i = 0; i < p->n; i++) {
        if (!export_has(c->x, p->time_ns[i], p->time_ns[i]) || p->time_ns[i] < c->base) continue;
        for (size_t k = 0; k < COUNTOF(export_power_series); k++) {
            const struct export_series *series = &export_power_series[k];
            char label[64];
            snprintf(label, sizeof label, "%s (%s)", series->name, series->unit);
            counter(c, label, p->device[i], p->time_ns[i], series->get(p, i));
        }
    }
    const struct timeline_samples *s = &tl->samples;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i]) || s->start_ns[i] < c->base) continue;
        const struct timeline_metric_set *set = &tl->metric_sets[s->set[i]];
        for (uint32_t m = 0; m < set->n; m++)
            counter(c, timeline_text(tl, set->names[m]), s->device[i], s->start_ns[i],
                    (double)tl->sample_values[s->first[i] + m]);
    }
}

static void device_properties(struct chrome *c) {
    for (size_t i = 0; i < c->x->tl->ndevices; i++) {
        strbuf_addstr(&c->text, i ? ",{" : "{");
        arguments(c, &export_devices, i);
        strbuf_addch(&c->text, '}');
    }
}

static void names(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    for (uint32_t i = 0; i < tl->ndevices; i++) {
        char label[256], name[160];
        uint32_t process = export_device_process(c->x, i);
        char rank[32] = "";
        if (process != TIMELINE_NONE) snprintf(rank, sizeof rank, "rank %u: ", tl->processes[process].rank);
        snprintf(label, sizeof label, "%s%s", rank, export_device_name(c->x, i, name, sizeof name));
        name_event(c, "process_name", export_device_number(c->x, i), 0, label);
    }
    for (uint32_t i = 0; i < tl->nprocesses; i++) {
        char name[256];
        name_event(c, "process_name", export_pid(c->x, i), 0,
                   export_process_name(c->x, i, name, sizeof name));
    }
    for (size_t i = 0; i < tl->nthreads; i++)
        if (*timeline_text(tl, tl->threads[i].name))
            name_event(c, "thread_name", export_pid(c->x, tl->threads[i].process), tl->threads[i].tid,
                       timeline_text(tl, tl->threads[i].name));
}

/* ---- events of an import */

static void add_id(struct chrome *c, const char *key, uint64_t number, const char *text) {
    if (!*text && number == TRACE_ID_NONE) return;
    strbuf_addf(&c->text, ",\"%s\":", key);
    if (*text || number == TRACE_ID_EMPTY)
        add_quoted(c, text);
    else
        strbuf_addf(&c->text, "%" PRId64, (int64_t)number);
}

static void kept_event(struct chrome *c, const struct export_kept *k) {
    const struct trace_source_event *e = k->event;
    const char phase[2] = { (char)e->phase, '\0' };
    strbuf_addstr(&c->text, c->first ? "\n{\"ph\":" : ",\n{\"ph\":");
    c->first = false;
    add_quoted(c, phase);
    if (*k->category) {
        strbuf_addstr(&c->text, ",\"cat\":");
        add_quoted(c, k->category);
    }
    strbuf_addstr(&c->text, ",\"name\":");
    add_quoted(c, k->name);
    if (strchr("stfbenSF", phase[0])) strbuf_addf(&c->text, ",\"id\":%" PRIu64, e->flow);
    add_id(c, "pid", e->pid, k->pid_text);
    add_id(c, "tid", e->tid, k->tid_text);
    micros(c, "ts", e->start_ns > c->base ? e->start_ns - c->base : 0);
    if (e->phase == 'X') micros(c, "dur", e->duration_ns);
    if (e->phase == 'f') strbuf_addstr(&c->text, ",\"bp\":\"e\"");
    if (*k->args) strbuf_addf(&c->text, ",\"args\":%s", k->args);
    strbuf_addch(&c->text, '}');
    flush_text(c);
    c->x->written += e->phase == 'X' || e->phase == 'i';
}

static int u64_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Start times of the written launches, sorted. */
struct calls {
    uint64_t *v;
    size_t n, cap;
};

static struct calls calls_of_kernels(const struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    struct calls out = { 0 };
    for (size_t i = 0; c->x->has_launch && i < tl->launches.n; i++)
        if (c->x->has_launch[i]) vec_push(&out, tl->launches.start_ns[i]);
    if (out.n) qsort(out.v, out.n, sizeof *out.v, u64_order);
    return out;
}

static bool is_inside(const struct chrome *c, const struct export_kept *k, const struct calls *calls) {
    const struct trace_source_event *e = k->event;
    if (e->phase == 'M' || export_has(c->x, e->start_ns, e->start_ns + e->duration_ns)) return true;
    bool call = strstr(k->category, "runtime") || strstr(k->category, "driver");
    return call && calls->n && bsearch(&e->start_ns, calls->v, calls->n, sizeof *calls->v, u64_order);
}

/* Writes the events of an imported Chrome trace unchanged. Returns false if there are none, or if there are
 * several files, whose ids would collide. */
static bool kept_events(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    struct export_kept k;
    for (size_t i = 1; i < tl->nprocesses; i++)
        if (tl->processes[i].path != tl->processes[0].path) return false;
    if (!tl->nprocesses) return false;
    bool any = export_kept_open(&k, c->x->readers, timeline_text(tl, tl->processes[0].path));
    if (any) {
        struct calls calls = calls_of_kernels(c);
        while (export_kept_next(&k))
            if (is_inside(c, &k, &calls)) kept_event(c, &k);
        free(calls.v);
    }
    export_kept_close(&k);
    return any;
}

static void mark_flows(struct chrome *c) {
    const struct timeline_kernels *k = &c->x->tl->kernels;
    const struct timeline_copies *m = &c->x->tl->copies;
    for (size_t i = 0; i < k->n; i++)
        if (k->launch[i] != TIMELINE_NONE)
            c->flows[k->launch[i]] |= export_has(c->x, k->start_ns[i], k->end_ns[i]);
    for (size_t i = 0; i < m->n; i++)
        if (m->launch[i] != TIMELINE_NONE)
            c->flows[m->launch[i]] |= export_has(c->x, m->start_ns[i], m->end_ns[i]);
}

static void timeline_events(struct chrome *c) {
    c->flows = xcalloc(c->x->tl->launches.n + 1, 1);
    mark_flows(c);
    names(c);
    ranges(c);
    launches(c);
    syncs(c);
    kernels(c);
    copies(c);
    free(c->flows);
}

int export_chrome(struct export_job *x, const char *path, struct err *err) {
    struct file_atomic f;
    if (file_atomic_open(&f, path, err) < 0) return -1;
    /* A relative clock has no base that would make its times absolute. They are written unchanged. */
    bool unix_clock = !(x->tl->nprocesses && x->tl->processes[0].relative_clock);
    uint64_t base = unix_clock ? x->tl->start_ns : 0;
    struct chrome c = { .x = x, .out = f.out, .text = STRBUF_INIT, .base = base, .first = true };
    strbuf_addf(&c.text,
                "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%" PRIu64
                ",\"deviceProperties\":[",
                c.base);
    device_properties(&c);
    strbuf_addstr(&c.text, "],\"traceEvents\":[");
    flush_text(&c);
    if (!kept_events(&c)) timeline_events(&c);
    counters(&c);
    strbuf_addstr(&c.text, "\n]}\n");
    flush_text(&c);
    strbuf_free(&c.text);
    return file_atomic_commit(&f, err);
}
