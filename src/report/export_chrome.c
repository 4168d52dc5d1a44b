/* Chrome trace events with the categories and arguments of PyTorch's profiler, so that tools for its
 * traces can read them. Times are microseconds since baseTimeNanoseconds with three decimals, so nothing
 * is rounded. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "report/export_records.h"

struct chrome {
    struct export_job *x;
    FILE *out;
    struct strbuf text;
    uint64_t base;
    bool first;
};

static void flush_text(struct chrome *c) {
    fwrite(c->text.buf, 1, c->text.len, c->out);
    strbuf_reset(&c->text);
}

static void add_quoted(struct chrome *c, const char *text) { jsonw_quote(&c->text, text, strlen(text)); }

static void micros(struct chrome *c, const char *key, uint64_t ns) {
    strbuf_addf(&c->text, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Writes {"ph":"X","cat":...,"dur":...,"args":{ without the closing brackets; the caller adds arguments. */
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

/* Writes one end of the arrow from a launch to its kernel or copy. */
static void flow(struct chrome *c, char phase, uint64_t id, uint64_t pid, uint64_t tid, uint64_t at) {
    strbuf_addf(&c->text,
                ",\n{\"ph\":\"%c\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":%" PRIu64 ",\"pid\":%" PRIu64
                ",\"tid\":%" PRIu64,
                phase, id, pid, tid);
    micros(c, "ts", at - c->base);
    strbuf_addstr(&c->text, phase == 'f' ? ",\"bp\":\"e\"}" : "}");
    flush_text(c);
}

static bool is_omitted(const struct export_column *column, struct column_value v) {
    if (v.type == COLUMN_NONE) return true;
    if (column->use != EXPORT_ID) return false;
    return v.type == COLUMN_STR ? !*v.str : v.type == COLUMN_DIMS ? !v.dims[0] : v.u64 == 0;
}

/* Writes the members of an object, without its brackets. */
static void arguments(struct chrome *c, const struct export_table *t, size_t i) {
    const char *comma = "";
    for (size_t k = 0; k < t->n; k++) {
        const struct export_column *column = &t->columns[k];
        if (!column->chrome) continue;
        struct column_value v = column->get(&(struct export_row){ .x = c->x, .i = i });
        if (is_omitted(column, v)) continue;
        strbuf_addf(&c->text, "%s\"%s\":", comma, column->chrome);
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
        slice(c, "kernel", export_kernel_name(c->x, i), s->device, l->stream, k->start_ns[i], k->end_ns[i]);
        arguments(c, &export_kernels, i);
        slice_end(c);
        if (k->launch[i] != TIMELINE_NONE)
            flow(c, 'f', (uint64_t)k->launch[i] + 1, s->device, l->stream, k->start_ns[i]);
    }
}

static void copies(struct chrome *c) {
    const struct timeline_copies *k = &c->x->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_lane *l = &c->x->tl->lanes[k->lane[i]];
        bool set = k->kind[i] == TRACE_COPY_MEMSET;
        char name[64];
        snprintf(name, sizeof name, set ? "Memset (Device)" : "Memcpy %s", export_copy_name(k->kind[i]));
        slice(c, set ? "gpu_memset" : "gpu_memcpy", name, l->device, l->stream, k->start_ns[i], k->end_ns[i]);
        arguments(c, &export_copies, i);
        slice_end(c);
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
        if (k->kernels[i]) flow(c, 's', i + 1, pid, t->tid, k->start_ns[i]);
    }
}

static void ranges(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_ranges *r = &tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (!export_has(c->x, r->start_ns[i], r->end_ns[i])) continue;
        const struct timeline_thread *t = &tl->threads[r->thread[i]];
        const char *cat = r->category[i] == TRACE_CATEGORY_OP ? "cpu_op" : "user_annotation";
        slice(c, cat, timeline_text(tl, r->name[i]), export_pid(c->x, t->process), t->tid, r->start_ns[i],
              r->end_ns[i]);
        arguments(c, &export_ranges, i);
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
    strbuf_addf(&c->text, ",\"pid\":%u,\"tid\":0", device);
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
    for (size_t i = 0; i < tl->ndevices; i++) {
        char label[200];
        uint32_t process = export_device_process(c->x, (uint32_t)i);
        char rank[32] = "";
        if (process != TIMELINE_NONE) snprintf(rank, sizeof rank, "rank %u: ", tl->processes[process].rank);
        snprintf(label, sizeof label, "%sGPU %zu %.150s", rank, i, timeline_text(tl, tl->devices[i].name));
        name_event(c, "process_name", i, 0, label);
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

int export_chrome(struct export_job *x, const char *path, struct err *err) {
    struct file_atomic f;
    if (file_atomic_open(&f, path, err) < 0) return -1;
    struct chrome c = { .x = x, .out = f.out, .text = STRBUF_INIT, .base = x->tl->start_ns, .first = true };
    bool unix_clock = !(x->tl->nprocesses && x->tl->processes[0].relative_clock);
    strbuf_addf(&c.text,
                "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%" PRIu64
                ",\"deviceProperties\":[",
                unix_clock ? c.base : 0);
    device_properties(&c);
    strbuf_addstr(&c.text, "],\"traceEvents\":[");
    flush_text(&c);
    names(&c);
    ranges(&c);
    launches(&c);
    syncs(&c);
    kernels(&c);
    copies(&c);
    counters(&c);
    strbuf_addstr(&c.text, "\n]}\n");
    flush_text(&c);
    strbuf_free(&c.text);
    return file_atomic_commit(&f, err);
}
