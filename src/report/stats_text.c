#include <math.h>

#include "base/table.h"
#include "base/util.h"
#include "report/stats.h"

#define NAME_WIDTH 72

static void cell_count(struct table *t, uint64_t n) { table_cell(t, "%llu", (unsigned long long)n); }

static void cell_ms(struct table *t, double ns) {
    if (isnan(ns))
        table_cell(t, "–");
    else
        table_cell(t, "%.3f", ns / 1e6);
}

static void cell_percent(struct table *t, uint64_t part, uint64_t whole) {
    if (whole)
        table_cell(t, "%.1f%%", 100.0 * (double)part / (double)whole);
    else
        table_cell(t, "–");
}

static void start_table(struct table *t, const char *first, const char *const *rest, size_t n) {
    table_init(t);
    t->text_max_width = NAME_WIDTH;
    table_column(t, first, TABLE_LEFT);
    for (size_t i = 0; i < n; i++) table_column(t, rest[i], TABLE_RIGHT);
}

static void print_table(struct table *t, const char *title, const struct stats_view *v, struct strbuf *out) {
    t->text_line_width = v->line_width;
    if (table_rows(t)) {
        if (out->len) strbuf_addch(out, '\n');
        strbuf_addf(out, "%s\n", title);
        table_text(t, out);
    }
    table_free(t);
}

static void print_devices(const struct stats_view *v, struct strbuf *out) {
    static const char *const heads[] = { "kernels",    "copies",  "span ms", "busy ms",
                                         "kernels ms", "idle ms", "busy" };
    struct table t;
    start_table(&t, "device", heads, COUNTOF(heads));
    for (size_t i = 0; i < v->totals->ndevices; i++) {
        const struct totals_device *d = &v->totals->devices[i];
        const char *name = d->name ? d->name : "";
        if (v->totals->nranks > 1)
            table_cell(&t, "%s: %u %s", v->files[d->file], d->index, name);
        else
            table_cell(&t, "%u %s", d->index, name);
        cell_count(&t, d->kernels);
        cell_count(&t, d->copies);
        cell_ms(&t, (double)d->span_ns);
        cell_ms(&t, (double)d->busy_ns);
        cell_ms(&t, (double)d->kernel_busy_ns);
        cell_ms(&t, (double)(d->span_ns - d->busy_ns));
        cell_percent(&t, d->busy_ns, d->span_ns);
    }
    print_table(&t, "Devices", v, out);
}

static void print_kernels(const struct stats_view *v, struct strbuf *out) {
    static const char *const heads[] = { "calls", "total ms", "share", "mean us" };
    struct table t;
    start_table(&t, "kernel", heads, COUNTOF(heads));
    for (size_t i = 0; i < v->sums->kernels.n && i < v->top; i++) {
        const struct sums_kernel *k = &v->sums->kernels.v[i];
        table_cell(&t, "%s", k->name);
        cell_count(&t, k->calls);
        cell_ms(&t, (double)k->total_ns);
        cell_percent(&t, k->total_ns, v->sums->kernel_ns);
        if (k->calls)
            table_cell(&t, "%.2f", (double)k->total_ns / (double)k->calls / 1e3);
        else
            table_cell(&t, "–");
    }
    print_table(&t, "Kernels", v, out);
}

static void print_ranges(const struct stats_view *v, const struct totals_ranges *ranges, const char *title,
                         const char *first, struct strbuf *out) {
    static const char *const heads[] = { "calls", "total ms", "self ms", "device ms", "self device ms" };
    struct table t;
    start_table(&t, first, heads, COUNTOF(heads));
    for (size_t i = 0; i < ranges->n && i < v->top; i++) {
        const struct totals_range *r = &ranges->v[i];
        table_cell(&t, "%s", r->name);
        cell_count(&t, r->calls);
        cell_ms(&t, (double)r->total_ns);
        cell_ms(&t, (double)r->self_ns);
        cell_ms(&t, (double)r->device_ns);
        cell_ms(&t, (double)r->self_device_ns);
    }
    print_table(&t, title, v, out);
}

static void print_ranks(const struct stats_view *v, struct strbuf *out) {
    static const char *const heads[] = { "span ms",    "busy ms",     "compute ms", "comm ms",
                                         "comm share", "comm hidden", "late ms" };
    const struct totals_skew *skew = &v->totals->skew;
    struct table t;
    if (v->totals->nranks < 2) return;
    start_table(&t, "rank", heads, COUNTOF(heads));
    for (size_t i = 0; i < v->totals->nranks; i++) {
        const struct totals_rank *r = &v->totals->ranks[i];
        if (r->rank != TIMELINE_NONE)
            table_cell(&t, "%u %s", r->rank, v->files[i]);
        else
            table_cell(&t, "– %s", v->files[i]);
        cell_ms(&t, (double)r->span_ns);
        cell_ms(&t, (double)r->busy_ns);
        cell_ms(&t, (double)r->compute_ns);
        cell_ms(&t, (double)r->comm_ns);
        cell_percent(&t, r->comm_ns, r->busy_ns);
        cell_percent(&t, r->comm_hidden_ns, r->comm_ns);
        cell_ms(&t, r->late_ns);
    }
    print_table(&t, "Ranks", v, out);
    if (skew->slowest < v->totals->nranks)
        strbuf_addf(out, "Slowest rank, excluding communication: %s\n", v->files[skew->slowest]);
    if (skew->matched)
        strbuf_addf(out, "Collectives start %.3f ms apart on average, %.3f ms at most (%zu matched)\n",
                    skew->mean_ns / 1e6, skew->max_ns / 1e6, skew->matched);
}

static void print_counts(const struct stats_view *v, struct strbuf *out) {
    if (out->len) strbuf_addch(out, '\n');
    strbuf_addstr(out, "Events");
    for (size_t i = 0; i < v->sums->events.n; i++)
        strbuf_addf(out, "%s %s %llu", i ? "," : ":", v->sums->events.v[i].name,
                    (unsigned long long)v->sums->events.v[i].count);
    strbuf_addch(out, '\n');
    for (size_t i = 0; i < v->sums->problems.n; i++) {
        const struct sums_count *p = &v->sums->problems.v[i];
        const char *meaning = v->explain ? v->explain(p->name) : NULL;
        strbuf_addf(out, "Problem: %s %llu%s%s\n", p->name, (unsigned long long)p->count, meaning ? ": " : "",
                    meaning ? meaning : "");
    }
}

void stats_text(const struct stats_view *v, struct strbuf *out) {
    if (v->totals) {
        print_devices(v, out);
        print_ranks(v, out);
    }
    print_kernels(v, out);
    if (v->totals) {
        print_ranges(v, &v->totals->operators, "Operators", "operator", out);
        print_ranges(v, &v->totals->annotations, "Annotations", "annotation", out);
    }
    print_counts(v, out);
}
