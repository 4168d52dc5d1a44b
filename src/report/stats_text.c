#include "base/table.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "ranks/sums.h"
#include "report/stats_columns.h"
#include "report/unrecorded.h"

#define NAME_WIDTH 72

static void print_table(const struct stats_view *v, const char *title, const struct column_group *groups,
                        size_t ngroups, struct column_items items, struct strbuf *out) {
    struct table t;
    columns_table(groups, ngroups, COLUMN_DOC_TERMINAL, NULL, items, &t);
    t.text_max_width = NAME_WIDTH;
    t.text_line_width = v->line_width;
    if (table_rows(&t)) {
        if (out->len) strbuf_addch(out, '\n');
        strbuf_addf(out, "%s\n", title);
        table_text(&t, out);
    }
    table_free(&t);
}

static void print_unrecorded(const struct stats_view *v, struct strbuf *out) {
    struct strbuf line = STRBUF_INIT;
    if (v->unrecorded) text_unrecorded(&line, v->unrecorded);
    if (line.len) wrap_text(out, line.buf, 0, v->line_width, 2);
    strbuf_free(&line);
}

/* The report takes its figures from the recognised steps, if there are any. */
static void print_whole_trace(const struct stats_view *v, const struct stats_rows *r, struct strbuf *out) {
    if (!v->no_stages || !r->ndevices) return;
    wrap_text(out,
              "Totals of the whole trace, which marks no stages. If report recognises steps, its figures are "
              "of the steady work only, without start-up and shutdown.",
              0, v->line_width, 2);
}

static void print_ranks(const struct stats_view *v, const struct stats_rows *r, struct strbuf *out) {
    if (r->nranks < 2) return;
    struct column_items items = { r->ranks, r->nranks, sizeof *r->ranks, NULL };
    print_table(v, "Ranks", &stats_rank_columns, 1, items, out);
    if (v->totals->slowest_rank < v->totals->nranks)
        strbuf_addf(out, "Slowest rank, excluding communication: %s\n", v->files[v->totals->slowest_rank]);
    struct rank_skew skew = v->job ? rank_job_skew(v->job) : (struct rank_skew){ 0 };
    if (skew.matched)
        strbuf_addf(out,
                    "Collectives start %.3f ms apart on average, %.3f ms at most (%llu matched, on the clock "
                    "of the job)\n",
                    skew.mean_ns / 1e6, skew.max_ns / 1e6, (unsigned long long)skew.matched);
}

static void print_counts(const struct stats_view *v, struct strbuf *out) {
    if (out->len) strbuf_addch(out, '\n');
    struct strbuf line = STRBUF_INIT;
    strbuf_addstr(&line, "Events");
    for (size_t i = 0; i < v->sums->events.n; i++)
        strbuf_addf(&line, "%s %s %llu", i ? "," : ":", v->sums->events.v[i].name,
                    (unsigned long long)v->sums->events.v[i].count);
    wrap_text(out, line.buf, 0, v->line_width, 2);
    for (size_t i = 0; i < v->sums->problems.n; i++) {
        const struct sums_count *p = &v->sums->problems.v[i];
        const char *meaning = v->explain ? v->explain(p->name) : NULL;
        strbuf_reset(&line);
        strbuf_addf(&line, "Problem: %s %llu%s%s", p->name, (unsigned long long)p->count, meaning ? ": " : "",
                    meaning ? meaning : "");
        wrap_text(out, line.buf, 0, v->line_width, 2);
    }
    strbuf_free(&line);
}

void stats_text(const struct stats_view *v, struct strbuf *out) {
    struct stats_rows r;
    stats_rows_make(v, &r);
    struct column_items devices = { r.devices, r.ndevices, sizeof *r.devices, NULL };
    struct column_items kernels = { r.kernels, MIN(r.nkernels, v->top), sizeof *r.kernels, NULL };
    struct column_items operators = { r.operators, MIN(r.noperators, v->top), sizeof *r.operators, NULL };
    struct column_items annotations = { r.annotations, MIN(r.nannotations, v->top), sizeof *r.annotations,
                                        NULL };
    print_table(v, "Devices", stats_device_columns, r.unrecorded ? 2 : 1, devices, out);
    print_unrecorded(v, out);
    print_whole_trace(v, &r, out);
    print_ranks(v, &r, out);
    print_table(v, "Kernels", &stats_kernel_columns, 1, kernels, out);
    print_table(v, "Operators", &stats_operator_columns, 1, operators, out);
    print_table(v, "Annotations", &stats_annotation_columns, 1, annotations, out);
    print_counts(v, out);
    stats_rows_free(&r);
}
