#include <math.h>

#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "report/stats_json.h"

#define NAME_WIDTH 72

static void cell_ms(struct table *t, double ns) {
    if (isnan(ns))
        table_cell(t, "–");
    else
        table_cell(t, "%.3f", ns / 1e6);
}

static void columns(struct table *t, const char *first, const char *const *rest, size_t n) {
    table_init(t);
    t->text_max_width = NAME_WIDTH;
    table_column(t, first, TABLE_LEFT);
    for (size_t i = 0; i < n; i++) table_column(t, rest[i], TABLE_RIGHT);
}

static void print(struct table *t, const char *title, const struct stats_form *form, struct strbuf *out) {
    t->text_line_width = form->line_width;
    if (table_rows(t)) {
        if (out->len) strbuf_addch(out, '\n');
        strbuf_addf(out, "%s\n", title);
        table_text(t, out);
    }
    table_free(t);
}

static void gpus(const struct trace_stats *st, const struct stats_form *form, struct strbuf *out) {
    static const char *const heads[] = { "kernels",    "copies",  "span ms", "busy ms",
                                         "kernels ms", "idle ms", "busy" };
    struct table t;
    columns(&t, "device", heads, COUNTOF(heads));
    for (size_t i = 0; i < st->gpus.n; i++) {
        const struct trace_stats_gpu *g = &st->gpus.v[i];
        const char *name = trace_stats_name(st, g->name);
        uint64_t span = g->last_ns - g->first_ns;
        if (st->files > 1)
            table_cell(&t, "%s: %u %s", trace_stats_name(st, st->ranks.v[g->file].path), g->device,
                       name ? name : "");
        else
            table_cell(&t, "%u %s", g->device, name ? name : "");
        table_cell(&t, "%llu", (unsigned long long)g->kernels);
        table_cell(&t, "%llu", (unsigned long long)g->copies);
        cell_ms(&t, (double)span);
        cell_ms(&t, (double)g->busy_ns);
        cell_ms(&t, (double)g->kernel_busy_ns);
        cell_ms(&t, (double)(span - g->busy_ns));
        if (span)
            table_cell(&t, "%.1f%%", 100.0 * (double)g->busy_ns / (double)span);
        else
            table_cell(&t, "–");
    }
    print(&t, "Devices", form, out);
}

static void kernels(const struct trace_stats *st, const struct stats_form *form, struct strbuf *out) {
    static const char *const heads[] = { "calls", "total ms", "share", "mean us" };
    struct table t;
    columns(&t, "kernel", heads, COUNTOF(heads));
    for (size_t i = 0; i < st->kernels.n && i < form->top; i++) {
        const struct trace_stats_kernel *k = &st->kernels.v[i];
        table_cell(&t, "%s", trace_stats_name(st, k->name));
        table_cell(&t, "%llu", (unsigned long long)k->calls);
        cell_ms(&t, (double)k->total_ns);
        if (st->kernel_ns)
            table_cell(&t, "%.1f%%", 100.0 * (double)k->total_ns / (double)st->kernel_ns);
        else
            table_cell(&t, "–");
        if (k->calls)
            table_cell(&t, "%.2f", (double)k->total_ns / (double)k->calls / 1e3);
        else
            table_cell(&t, "–");
    }
    print(&t, "Kernels", form, out);
}

static void ops(const struct trace_stats_op *v, size_t n, const struct trace_stats *st,
                const struct stats_form *form, const char *title, const char *what, struct strbuf *out) {
    static const char *const heads[] = { "calls", "total ms", "self ms", "device ms", "self device ms" };
    struct table t;
    columns(&t, what, heads, COUNTOF(heads));
    for (size_t i = 0; i < n && i < form->top; i++) {
        table_cell(&t, "%s", trace_stats_name(st, v[i].name));
        table_cell(&t, "%llu", (unsigned long long)v[i].calls);
        cell_ms(&t, (double)v[i].total_ns);
        cell_ms(&t, (double)v[i].self_ns);
        cell_ms(&t, (double)v[i].device_ns);
        cell_ms(&t, (double)v[i].self_device_ns);
    }
    print(&t, title, form, out);
}

static void percent(struct table *t, uint64_t part, uint64_t whole) {
    if (whole)
        table_cell(t, "%.1f%%", 100.0 * (double)part / (double)whole);
    else
        table_cell(t, "–");
}

static void ranks(const struct trace_stats *st, const struct stats_form *form, struct strbuf *out) {
    static const char *const heads[] = { "span ms",    "busy ms",     "compute ms", "comm ms",
                                         "comm share", "comm hidden", "late ms" };
    struct table t;
    if (st->ranks.n < 2) return;
    columns(&t, "rank", heads, COUNTOF(heads));
    for (size_t i = 0; i < st->ranks.n; i++) {
        const struct trace_stats_rank *r = &st->ranks.v[i];
        if (r->rank >= 0)
            table_cell(&t, "%lld %s", (long long)r->rank, trace_stats_name(st, r->path));
        else
            table_cell(&t, "– %s", trace_stats_name(st, r->path));
        cell_ms(&t, (double)r->span_ns);
        cell_ms(&t, (double)r->busy_ns);
        cell_ms(&t, (double)r->compute_ns);
        cell_ms(&t, (double)r->comm_ns);
        percent(&t, r->comm_ns, r->busy_ns);
        percent(&t, r->comm_hidden_ns, r->comm_ns);
        cell_ms(&t, r->late_ns);
    }
    print(&t, "Ranks", form, out);
    if (st->skew.slowest < st->ranks.n)
        strbuf_addf(out, "Slowest outside communication: %s\n",
                    trace_stats_name(st, st->ranks.v[st->skew.slowest].path));
    if (st->skew.matched)
        strbuf_addf(out, "Collectives start %.3f ms apart on average, %.3f ms at most (%zu matched)\n",
                    st->skew.mean_ns / 1e6, st->skew.max_ns / 1e6, st->skew.matched);
}

static void counts(const struct trace_stats *st, const char *(*words)(const char *), struct strbuf *out) {
    if (out->len) strbuf_addch(out, '\n');
    strbuf_addstr(out, "Events");
    for (size_t i = 0; i < st->events.n; i++)
        strbuf_addf(out, "%s %s %llu", i ? "," : ":", trace_stats_name(st, st->events.v[i].name),
                    (unsigned long long)st->events.v[i].count);
    strbuf_addch(out, '\n');
    for (size_t i = 0; i < st->problems.n; i++) {
        const char *name = trace_stats_name(st, st->problems.v[i].name), *more = words ? words(name) : NULL;
        strbuf_addf(out, "Problem: %s %llu%s%s\n", name, (unsigned long long)st->problems.v[i].count,
                    more ? ": " : "", more ? more : "");
    }
}

void stats_text(const struct trace_stats *st, const struct stats_form *form, struct strbuf *out) {
    gpus(st, form, out);
    ranks(st, form, out);
    kernels(st, form, out);
    ops(st->ops.v, st->ops.n, st, form, "Operators", "operator", out);
    ops(st->stages.v, st->stages.n, st, form, "Annotations", "annotation", out);
    counts(st, form->words, out);
}
