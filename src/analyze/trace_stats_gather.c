/* From the records of a trace to the few columns the totals need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"
#include "analyze/trace_stats_internal.h"
#include "base/die.h"
#include "base/vec.h"
#include "trace/reader.h"

struct gather {
    struct trace_stats *st;
    const struct trace_reader *r;
    struct stats_trace *out;
    uint32_t *names; /* by string number: name + 1; 0: not yet asked for */
    /* by string number of a domain: 1 no, 2 its ranges count as stages; 0: not yet asked */
    uint8_t *marks_stage;
    uint32_t strings;
    bool imported; /* from a file of another tool */
    uint64_t counts[TRACE_KIND_END], memcpys, memsets, ops, stages, marks, bad;
};

static uint32_t name_of(struct gather *g, uint32_t string) {
    if (string >= g->strings) string = 0;
    if (!g->names[string]) {
        size_t len;
        const char *text = trace_reader_string(g->r, string, &len);
        g->names[string] =
            (text ? intern_id(g->st->names, text, len) : intern_str(g->st->names, "(lost)")) + 1;
    }
    return g->names[string] - 1;
}

/* Importers give names as their source has them; the collector gives them mangled. */
static uint32_t kernel_name_of(struct gather *g, uint32_t string) {
    uint32_t name = name_of(g, string);
    const char *text = intern_text(g->st->names, name);
    if (g->imported || strncmp(text, "_Z", 2) != 0 || string >= g->strings) return name;
    struct kernel_name kn;
    kernel_name_parse(&kn, text);
    name = intern_str(g->st->names, kn.demangled);
    kernel_name_free(&kn);
    g->names[string] = name + 1;
    return name;
}

/* Steps of a loop are one stage: "ProfilerStep#12" -> "ProfilerStep". */
static uint32_t stage_name(struct gather *g, uint32_t string) {
    uint32_t name = name_of(g, string);
    const char *text = intern_text(g->st->names, name), *hash = strrchr(text, '#');
    if (!hash || hash == text || !hash[1] || hash[1 + strspn(hash + 1, "0123456789")]) return name;
    return intern_id(g->st->names, text, (size_t)(hash - text));
}

static void take_kernels(struct gather *g, const struct trace_kernel *k, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (k[i].end_ns < k[i].start_ns) {
            g->bad++;
            continue;
        }
        uint32_t at = trace_stats_kernel_row(g->st, kernel_name_of(g, k[i].name));
        struct trace_stats_kernel *row = &g->st->kernels.v[at];
        uint64_t duration = k[i].end_ns - k[i].start_ns;
        row->calls++;
        row->total_ns += duration;
        g->st->kernel_calls++;
        g->st->kernel_ns += duration;
        struct stats_work w = { k[i].start_ns, k[i].end_ns, k[i].correlation, k[i].device,
                                k[i].stream,   true,        row->comm };
        vec_push(&g->out->work, w);
    }
}

static void take_copies(struct gather *g, const struct trace_copy *c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (c[i].end_ns < c[i].start_ns) {
            g->bad++;
            continue;
        }
        struct trace_stats_copy *row =
            &g->st->copies[c[i].copy_kind < TRACE_COPY_KIND_END ? c[i].copy_kind : 0];
        row->count++;
        row->bytes += c[i].bytes;
        row->total_ns += c[i].end_ns - c[i].start_ns;
        *(c[i].copy_kind == TRACE_COPY_MEMSET ? &g->memsets : &g->memcpys) += 1;
        struct stats_work w = { c[i].start_ns, c[i].end_ns, c[i].correlation, c[i].device, c[i].stream,
                                false,         false };
        vec_push(&g->out->work, w);
    }
}

static void take_launches(struct gather *g, const struct trace_launch *l, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (l[i].correlation)
            vec_push(&g->out->launches,
                     ((struct stats_launch){ l[i].correlation, l[i].start_ns, l[i].thread }));
}

/* Annotations of people count as stages: torch's user_annotation and NVTX; not what a profiler says of
 * itself, nor the stack of Python. */
static bool stage_domain(struct gather *g, uint32_t string) {
    if (string >= g->strings) return false;
    if (!g->marks_stage[string]) {
        const char *text = trace_reader_string(g->r, string, NULL);
        static const char *const never[] = { "python_function", "overhead", "Trace", "gpu_user_annotation" };
        bool yes = text != NULL;
        for (size_t i = 0; yes && i < sizeof never / sizeof *never; i++) yes = strcmp(text, never[i]) != 0;
        g->marks_stage[string] = yes ? 2 : 1;
    }
    return g->marks_stage[string] == 2;
}

static void take_ranges(struct gather *g, const struct trace_range *r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (r[i].end_ns < r[i].start_ns) {
            g->bad++;
            continue;
        }
        if (r[i].flags & TRACE_RANGE_MARK) {
            g->marks++;
            continue;
        }
        struct sweep_range s = { r[i].start_ns, r[i].end_ns, r[i].thread, 0, 0 };
        if (r[i].category == TRACE_CATEGORY_OP) {
            g->ops++;
            s.name = trace_stats_op_row(g->st, name_of(g, r[i].name));
            s.order = (uint32_t)g->out->ops.n;
            vec_push(&g->out->ops, s);
        } else if (r[i].category == TRACE_CATEGORY_STAGE ||
                   (r[i].category == TRACE_CATEGORY_USER && !(r[i].flags & TRACE_RANGE_FREE) &&
                    stage_domain(g, r[i].domain))) {
            g->stages++;
            s.name = trace_stats_stage_row(g->st, stage_name(g, r[i].name));
            s.order = (uint32_t)g->out->stages.n;
            vec_push(&g->out->stages, s);
        }
    }
}

static void take(struct gather *g, const struct trace_batch *b) {
    if (b->kind < TRACE_KIND_END) g->counts[b->kind] += b->n;
    switch (b->kind) {
    case TRACE_KERNEL: take_kernels(g, b->kernel, b->n); break;
    case TRACE_COPY: take_copies(g, b->copy, b->n); break;
    case TRACE_LAUNCH: take_launches(g, b->launch, b->n); break;
    case TRACE_RANGE: take_ranges(g, b->range, b->n); break;
    default: break;
    }
}

/* An importer tells what it met in the terms of its source; for traces of our own the records are counted. */
static void take_tally(struct gather *g) {
    static const char events[] = "import.events.", problems[] = "import.problem.";
    const char *key, *value;
    for (size_t i = 0; trace_reader_meta_at(g->r, i, &key, &value); i++) {
        uint64_t n = strtoull(value, NULL, 10);
        if (strncmp(key, events, sizeof events - 1) == 0)
            trace_stats_event(g->st, key + sizeof events - 1, n);
        if (strncmp(key, problems, sizeof problems - 1) == 0)
            trace_stats_problem(g->st, key + sizeof problems - 1, n);
    }
    if (g->imported) return;
    trace_stats_event(g->st, "kernel", g->counts[TRACE_KERNEL]);
    trace_stats_event(g->st, "memcpy", g->memcpys);
    trace_stats_event(g->st, "memset", g->memsets);
    trace_stats_event(g->st, "runtime", g->counts[TRACE_LAUNCH]);
    trace_stats_event(g->st, "cpu_op", g->ops);
    trace_stats_event(g->st, "user_annotation", g->stages);
    trace_stats_event(g->st, "instant", g->marks);
    trace_stats_event(g->st, "range", g->counts[TRACE_RANGE] - g->ops - g->stages - g->marks);
    for (unsigned kind = TRACE_SYNC; kind < TRACE_LOST; kind++)
        trace_stats_event(g->st, trace_kind_name(kind), g->counts[kind]);
}

static void take_losses(struct gather *g) {
    const struct trace_summary *s = trace_reader_summary(g->r);
    uint64_t lost = 0;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned why = 0; why < TRACE_LOST_REASON_END; why++) lost += s->lost[k][why];
    trace_stats_problem(g->st, "lost_records", lost);
    trace_stats_problem(g->st, "damaged_places", s->damaged_places);
    trace_stats_problem(g->st, "unfinished_trace", !s->finished);
    trace_stats_problem(g->st, "end_before_start", g->bad);
}

int trace_stats_gather(struct trace_stats *st, const struct trace_reader *r, struct stats_trace *out,
                       struct err *err) {
    struct gather g = { .st = st, .r = r, .out = out, .strings = trace_reader_string_end(r) };
    struct trace_batch b = { 0 };
    const char *source = trace_reader_meta(r, "source");
    g.imported = source && strncmp(source, "import:", 7) == 0;
    if (g.strings == 0) g.strings = 1;
    g.names = xcalloc(g.strings, sizeof *g.names);
    g.marks_stage = xcalloc(g.strings, 1);
    uint64_t damaged = 0;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        if (trace_reader_decode(r, i, &b, err) < 0)
            damaged++;
        else
            take(&g, &b);
    }
    trace_stats_problem(st, "damaged_chunks", damaged);
    take_tally(&g);
    take_losses(&g);
    trace_batch_free(&b);
    free(g.names);
    free(g.marks_stage);
    return 0;
}
