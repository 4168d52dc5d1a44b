#include "report/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "report/kernel_columns.h"
#include "report/operator_columns.h"
#include "report/text.h"

struct heading {
    const char *head;
    enum table_align align;
};

static void columns(struct table *t, const struct heading *c, size_t n) {
    table_init(t);
    for (size_t i = 0; i < n; i++) table_column(t, c[i].head, c[i].align);
}
#define COLUMNS(t, ...)                              \
    do {                                             \
        const struct heading c_[] = { __VA_ARGS__ }; \
        columns(t, c_, COUNTOF(c_));                 \
    } while (0)
#define L(head) \
    { head, TABLE_LEFT }
#define R(head) \
    { head, TABLE_RIGHT }

static void stage_row(const struct analysis_stage *s, struct table *t) {
    table_cell(t, "%s", s->name);
    table_cell(t, "%s", text_ms_number(s->time_ms).s);
    table_cell(t, "%s", text_ms_number(s->busy_ms).s);
    table_cell(t, "%s", text_percent(1 - s->busy_share).s);
    table_cell(t, "%s", text_ms_number(s->floor_ms).s);
    table_cell(t, "%s", text_times(s->distance).s);
    table_cell(t, "%s", text_percent(s->mfu).s);
    table_cell(t, "%s", text_percent(s->mbu).s);
    table_cell(t, "%s", text_num(s->kernels_each, 0).s);
    table_cell(t, "%s", text_num(s->launches_per_token, 0).s);
    table_cell(t, "%s", text_num(s->tokens, s->tokens == floor(s->tokens) ? 0 : 1).s);
    table_cell(t, "%s", text_num(s->joules_per_token, 3).s);
}

const char rows_no_model_note[] =
    "What the model must cost is not known here, so there are no floors, MFU and MBU: "
    "inferprof report RUN --model PATH adds them.";

static bool all_unknown(const struct table *t, size_t column) {
    for (size_t r = 0; r < table_rows(t); r++)
        if (strcmp(t->cells.v[r * t->heads.n + column], text_or_dash(NULL)) != 0) return false;
    return table_rows(t) > 0;
}

void rows_drop_unknown(struct table *t) {
    for (size_t c = t->heads.n; c-- > 1;)
        if (all_unknown(t, c)) table_drop(t, c);
}

static void stage_rows(const struct view *v, struct table *t, bool sub) {
    COLUMNS(t, L("stage"), R("time ms"), R(view_on_cpu(v) ? "busy ms" : "GPU busy ms"),
            R(view_on_cpu(v) ? "idle" : "GPU idle"), R("floor ms"), R("distance"), R("MFU"), R("MBU"),
            R("kernels"), R("launches/token"), R("tokens"), R("J/token recorded"));
    for (size_t i = 0; i < v->nstages; i++)
        if ((v->stages[i]->parent_name != NULL) == sub && !v->stages[i]->outside) stage_row(v->stages[i], t);
    rows_drop_unknown(t);
}

void rows_stages_md(const struct view *v, struct table *t) { stage_rows(v, t, false); }
void rows_substages_md(const struct view *v, struct table *t) { stage_rows(v, t, true); }

static void raw(struct table *t, double v) { table_cell(t, "%s", text_raw(v).s); }
static void count(struct table *t, uint64_t n) { table_cell(t, "%" PRIu64, n); }

static void stage_csv_trace(const struct analysis_stage *a, struct table *t) {
    if (!a) {
        for (int i = 0; i < 18; i++) table_cell(t, "%s", "");
        return;
    }
    count(t, a->occurrences);
    raw(t, a->wall_total_ns);
    raw(t, a->wall_ns.median);
    raw(t, a->wall_ns.p90);
    raw(t, a->wall_ns.p99);
    raw(t, a->gpu_busy_ns);
    raw(t, a->gpu_span_ns);
    raw(t, a->idle_ns);
    raw(t, a->gpu_owned_ns);
    count(t, a->kernels);
    count(t, a->launches);
    count(t, a->copies);
    count(t, a->syncs);
    raw(t, a->copied_bytes);
    raw(t, a->kernels_per_token);
    raw(t, a->launches_per_token);
    raw(t, a->joules);
    raw(t, a->joules_per_token);
}

void rows_stages_csv(const struct view *v, struct table *t) {
    COLUMNS(t, L("stage"), L("parent"), R("time_ms"), L("time_source"), R("repeats"), R("mean_ms"),
            R("std_ms"), R("median_ms"), R("min_ms"), R("max_ms"), R("p90_ms"), R("cv"), R("ci95_low_ms"),
            R("ci95_high_ms"), R("tokens"), R("flops"), R("bytes"), R("floor_ms"), R("distance"), R("mfu"),
            R("mbu"), R("recording_overhead_ratio"), R("occurrences"), R("wall_total_ns"),
            R("wall_median_ns"), R("wall_p90_ns"), R("wall_p99_ns"), R("gpu_busy_ns"), R("gpu_span_ns"),
            R("idle_ns"), R("gpu_owned_ns"), R("kernels"), R("launches"), R("copies"), R("syncs"),
            R("copied_bytes"), R("kernels_per_token"), R("launches_per_token"), R("joules"),
            R("joules_per_token"));
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        table_cell(t, "%s", s->name);
        table_cell(t, "%s", s->parent_name ? s->parent_name : "");
        raw(t, s->time_ms);
        table_cell(t, "%s", view_time_source(v, s));
        count(t, s->timing_ms.n);
        raw(t, s->timing_ms.mean);
        raw(t, s->timing_ms.std);
        raw(t, s->timing_ms.median);
        raw(t, s->timing_ms.min);
        raw(t, s->timing_ms.max);
        raw(t, s->timing_ms.p90);
        raw(t, s->timing_ms.cv);
        raw(t, s->timing_ms.ci95_low);
        raw(t, s->timing_ms.ci95_high);
        raw(t, s->tokens);
        raw(t, s->flops);
        raw(t, s->bytes);
        raw(t, s->floor_ms);
        raw(t, s->distance);
        raw(t, s->mfu);
        raw(t, s->mbu);
        raw(t, s->recording_cost);
        stage_csv_trace(v->a ? s : NULL, t);
    }
}

struct column_items rows_kernel_items(const struct view *v) {
    if (!v->a) return (struct column_items){ 0 };
    return (struct column_items){ v->a->kernels, v->a->nkernels, sizeof *v->a->kernels };
}

struct column_items rows_operator_items(const struct view *v) {
    if (!v->a) return (struct column_items){ 0 };
    return (struct column_items){ v->a->operators, v->a->noperators, sizeof *v->a->operators };
}

static struct column_items first_items(struct column_items items, size_t limit) {
    items.n = MIN(items.n, limit);
    return items;
}

void rows_kernels(const struct view *v, enum column_document document, size_t limit, struct table *t) {
    columns_table(kernel_columns, COUNTOF(kernel_columns), document, v,
                  first_items(rows_kernel_items(v), limit), t);
}
void rows_kernels_md(const struct view *v, size_t limit, struct table *t) {
    rows_kernels(v, COLUMN_DOC_MARKDOWN, limit, t);
}
void rows_kernels_csv(const struct view *v, struct table *t) { rows_kernels(v, COLUMN_DOC_CSV, SIZE_MAX, t); }

void rows_operators_md(const struct view *v, size_t limit, struct table *t) {
    columns_table(operator_columns, COUNTOF(operator_columns), COLUMN_DOC_MARKDOWN, v,
                  first_items(rows_operator_items(v), limit), t);
}

/* All operators, then those with a detail again per shape. */
void rows_operators_csv(const struct view *v, struct table *t) {
    struct column_set set;
    column_set_init(&set, operator_columns, COUNTOF(operator_columns), COLUMN_DOC_CSV, v);
    column_set_heads(&set, t);
    for (size_t i = 0; v->a && i < v->a->noperators; i++)
        column_set_cells(&set, &(struct column_row){ v, &v->a->operators[i], i }, t);
    for (size_t i = 0; v->a && i < v->a->noperators_by_shape; i++) {
        const struct analysis_operator *o = &v->a->operators_by_shape[i];
        if (o->detail && *o->detail) column_set_cells(&set, &(struct column_row){ v, o, i }, t);
    }
}

static void aggregate_row(struct table *t, const char *name, const char *unit, const struct stats *s) {
    table_cell(t, "%s", name);
    table_cell(t, "%s", unit);
    table_cell(t, "%s", text_ms_number(s->median).s);
    table_cell(t, "%s", text_ms_number(s->mean).s);
    table_cell(t, "%s", text_ms_number(s->std).s);
    table_cell(t, "%s", text_ms_number(s->min).s);
    table_cell(t, "%s", text_ms_number(s->max).s);
    table_cell(t, "%s", text_ms_number(s->p90).s);
    table_cell(t, "%s", text_percent(s->cv).s);
    if (isfinite(s->ci95_low))
        table_cell(t, "%s to %s", text_ms_number(s->ci95_low).s, text_ms_number(s->ci95_high).s);
    else
        table_cell(t, "%s", text_or_dash(NULL));
    table_cell(t, "%zu", s->n);
}

void rows_aggregates_md(const struct view *v, struct table *t) {
    COLUMNS(t, L("figure"), L("unit"), R("median"), R("mean"), R("std"), R("min"), R("max"), R("p90"),
            R("CV"), R("95% CI of the mean"), R("n"));
    for (size_t i = 0; i < v->nstages; i++)
        if (v->stages[i]->timing_ms.n && !v->stages[i]->parent_name)
            aggregate_row(t, v->stages[i]->name, "ms", &v->stages[i]->timing_ms);
    for (size_t i = 0; i < v->run->nfigures; i++) {
        const struct run_figure *f = &v->run->figures[i];
        struct stats s = stats_of(f->values, f->n);
        aggregate_row(t, f->name, f->unit ? f->unit : "", &s);
    }
}

void rows_mfu_md(const struct view *v, struct table *t) {
    COLUMNS(t, L("stage"), R("FLOPs"), R("bytes"), R("time ms"), R("MFU"), R("MBU"), R("floor ms"),
            R("distance"));
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (s->outside || s->parent_name) continue;
        table_cell(t, "%s", s->name);
        table_cell(t, "%s", text_flops(s->flops).s);
        table_cell(t, "%s", text_bytes(s->bytes).s);
        table_cell(t, "%s", text_ms_number(s->time_ms).s);
        table_cell(t, "%s", text_percent(s->mfu).s);
        table_cell(t, "%s", text_percent(s->mbu).s);
        table_cell(t, "%s", text_ms_number(s->floor_ms).s);
        table_cell(t, "%s", text_times(s->distance).s);
    }
}

void rows_environment_md(const struct view *v, struct table *t) {
    COLUMNS(t, L("what"), L("value"));
    for (size_t i = 0; i < v->run->nenv; i++) {
        table_cell(t, "%s", v->run->env[i].key);
        table_cell(t, "%s", text_or_dash(v->run->env[i].value));
    }
}
