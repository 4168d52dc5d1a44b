#include "report/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/text.h"
#include "base/util.h"
#include "report/gemm_columns.h"
#include "report/kernel_columns.h"
#include "report/operator_columns.h"
#include "report/stage_columns.h"
#include "run/vision.h"

/* Returns why the model that the user gave, or that the trace names, gives no MFU and MBU; NULL: it does. */
static const char *model_problem(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i]->floor_ms) || isfinite(v->stages[i]->mfu) || isfinite(v->stages[i]->mbu))
            return NULL;
    if (v->a->no_model_costs) return v->a->no_model_costs;
    if (!view_has_floors(v)) return "the model has no cost for a stage of this trace";
    if (isfinite(view_peak_flops(v)) || isfinite(view_peak_bytes(v))) return NULL;
    return "the peaks of the device are unknown; give --peak-tflops and --peak-gbps";
}

void rows_no_model_note(const struct view *v, struct strbuf *out) {
    const char *problem = NULL;
    if (v->a && v->a->input && v->a->input->llm)
        problem = model_problem(v);
    else if (!view_has_floors(v))
        problem = "the model's cost is unknown. Use inferprof report RUN --model PATH to add them";
    if (problem) strbuf_addf(out, "No roofline time, MFU or MBU: %s.", problem);
}

static bool all_unknown(const struct table *t, size_t column) {
    for (size_t r = 0; r < table_rows(t); r++)
        if (strcmp(t->cells.v[r * t->heads.n + column], text_or_dash(NULL)) != 0) return false;
    return table_rows(t) > 0;
}

void rows_drop_unknown(struct table *t) {
    for (size_t c = t->heads.n; c-- > 1;)
        if (all_unknown(t, c)) table_drop(t, c);
}

/* ---- stages */

static bool is_listed(const void *item) { return !((const struct analysis_stage *)item)->outside; }
static bool is_top_level(const void *item) {
    return is_listed(item) && !((const struct analysis_stage *)item)->parent_name;
}
static bool is_substage(const void *item) {
    return is_listed(item) && ((const struct analysis_stage *)item)->parent_name;
}

static void stage_table(const struct view *v, enum column_document document, size_t limit,
                        bool (*keep)(const void *), struct table *t) {
    struct column_items items = { v->stages, MIN(v->nstages, limit), .keep = keep };
    view_table(stage_columns, COUNTOF(stage_columns), document, v, items, t);
}

/* If the user gave a model, unknown MFU and MBU stay as dashes: a note says why they are unknown. */
static void drop_unknown_figures(const struct view *v, struct table *t) {
    const struct analyze_input *in = v->a ? v->a->input : NULL;
    bool asked = in && in->llm && !in->llm_from;
    for (size_t c = t->heads.n; c-- > 1;) {
        bool of_model = c == table_find(t, "MFU") || c == table_find(t, "MBU");
        if (all_unknown(t, c) && !(asked && of_model)) table_drop(t, c);
    }
}

void rows_stages_md(const struct view *v, struct table *t) {
    stage_table(v, COLUMN_DOC_MARKDOWN, SIZE_MAX, is_top_level, t);
    drop_unknown_figures(v, t);
}
void rows_substages_md(const struct view *v, struct table *t) {
    stage_table(v, COLUMN_DOC_MARKDOWN, SIZE_MAX, is_substage, t);
    rows_drop_unknown(t);
}
void rows_stages_terminal(const struct view *v, size_t limit, struct table *t) {
    stage_table(v, COLUMN_DOC_TERMINAL, limit, is_listed, t);
    drop_unknown_figures(v, t);
}
void rows_stages_csv(const struct view *v, struct table *t) {
    stage_table(v, COLUMN_DOC_CSV, SIZE_MAX, NULL, t);
}
void rows_mfu_md(const struct view *v, struct table *t) {
    stage_table(v, COLUMN_DOC_SUMMARY, SIZE_MAX, is_top_level, t);
}

/* ---- kernels and operators */

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
    view_table(kernel_columns, COUNTOF(kernel_columns), document, v, first_items(rows_kernel_items(v), limit),
               t);
}
void rows_kernels_md(const struct view *v, size_t limit, struct table *t) {
    rows_kernels(v, COLUMN_DOC_MARKDOWN, limit, t);
}
void rows_kernels_csv(const struct view *v, struct table *t) { rows_kernels(v, COLUMN_DOC_CSV, SIZE_MAX, t); }

void rows_operators_md(const struct view *v, size_t limit, struct table *t) {
    view_table(operator_columns, COUNTOF(operator_columns), COLUMN_DOC_MARKDOWN, v,
               first_items(rows_operator_items(v), limit), t);
}

static int by_total(const void *a, const void *b) {
    const struct analysis_operator *x = *(const struct analysis_operator *const *)a,
                                   *y = *(const struct analysis_operator *const *)b;
    if (x->total_ns != y->total_ns) return x->total_ns < y->total_ns ? 1 : -1;
    return x < y ? -1 : x > y;
}

void rows_operators_by_total_md(const struct view *v, size_t limit, struct table *t) {
    size_t n = v->a ? v->a->noperators : 0;
    const struct analysis_operator **sorted = xcalloc(n + 1, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = &v->a->operators[i];
    qsort(sorted, n, sizeof *sorted, by_total);
    view_table(operator_columns, COUNTOF(operator_columns), COLUMN_DOC_MARKDOWN, v,
               (struct column_items){ sorted, MIN(n, limit) }, t);
    free(sorted);
}

/* All operators, then one row per shape for operators with a detail. */
void rows_operators_csv(const struct view *v, struct table *t) {
    struct column_set set;
    view_column_set(&set, operator_columns, COUNTOF(operator_columns), COLUMN_DOC_CSV, v);
    column_set_heads(&set, t);
    for (size_t i = 0; v->a && i < v->a->noperators; i++)
        column_set_cells(&set, &(struct column_row){ v, &v->a->operators[i], i }, t);
    for (size_t i = 0; v->a && i < v->a->noperators_by_shape; i++) {
        const struct analysis_operator *o = &v->a->operators_by_shape[i];
        if (o->detail && *o->detail) column_set_cells(&set, &(struct column_row){ v, o, i }, t);
    }
}

struct column_items rows_gemm_items(const struct view *v) {
    if (!v->a) return (struct column_items){ 0 };
    return (struct column_items){ v->a->gemms, v->a->ngemms, sizeof *v->a->gemms };
}
void rows_gemms_md(const struct view *v, size_t limit, struct table *t) {
    view_table(gemm_columns, COUNTOF(gemm_columns), COLUMN_DOC_MARKDOWN, v,
               first_items(rows_gemm_items(v), limit), t);
}
void rows_gemms_csv(const struct view *v, struct table *t) {
    view_table(gemm_columns, COUNTOF(gemm_columns), COLUMN_DOC_CSV, v, rows_gemm_items(v), t);
}

/* ---- statistics over the repeats */

struct aggregate {
    const char *name, *unit;
    struct stats s;
};

static void show_interval(const struct column_row *r, struct strbuf *out) {
    const struct stats *s = &((const struct aggregate *)r->item)->s;
    if (isfinite(s->ci95_low))
        strbuf_addf(out, "%s to %s", text_ms_number(s->ci95_low).s, text_ms_number(s->ci95_high).s);
}

/* Rates must not be added: their sum is unknown. */
static struct column_value get_total(const struct column_row *r) {
    const struct aggregate *a = r->item;
    bool sums = a->unit && (strcmp(a->unit, "ms") == 0 || strcmp(a->unit, "tokens") == 0);
    return column_f64(sums ? a->s.mean * (double)a->s.n : NAN);
}

#define A(field) FIELD(struct aggregate, field)
static const struct column aggregate_columns[] = {
    { NULL, "figure", COLUMN_TEXT, A(name), .at = { .md = 10 } },
    { NULL, "unit", COLUMN_TEXT, A(unit), .at = { .md = 20 } },
    { NULL, "median", COLUMN_MS, A(s.median), .at = { .md = 30 } },
    { NULL, "mean", COLUMN_MS, A(s.mean), .at = { .md = 40 } },
    { NULL, "std", COLUMN_MS, A(s.std), .at = { .md = 50 } },
    { NULL, "min", COLUMN_MS, A(s.min), .at = { .md = 60 } },
    { NULL, "max", COLUMN_MS, A(s.max), .at = { .md = 70 } },
    { NULL, "p90", COLUMN_MS, A(s.p90), .at = { .md = 80 } },
    { NULL, "CV", COLUMN_PERCENT, A(s.cv), .at = { .md = 90 } },
    { NULL, "95% CI of the mean", COLUMN_MS, A(s.ci95_low), .at = { .md = 100 }, .show = show_interval },
    { NULL, "n", COLUMN_COUNT, A(s.n), .at = { .md = 110 } },
    { NULL, "total", COLUMN_MS, GET(get_total), .at = { .md = 120 } },
};
static const struct column_group aggregate_group = { .columns = aggregate_columns,
                                                     .n = COUNTOF(aggregate_columns) };

void rows_aggregates_md(const struct view *v, struct table *t) {
    struct aggregate *rows = xcalloc(v->nstages + v->run->nfigures + 1, sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < v->nstages; i++)
        if (v->stages[i]->timing_ms.n && !v->stages[i]->parent_name)
            rows[n++] = (struct aggregate){ v->stages[i]->name, "ms", v->stages[i]->timing_ms };
    for (size_t i = 0; i < v->run->nfigures; i++) {
        const struct run_figure *f = &v->run->figures[i];
        rows[n++] = (struct aggregate){ f->name, f->unit, run_figure_stats(v->run, f) };
    }
    struct column_items items = { rows, n, sizeof *rows };
    view_table(&aggregate_group, 1, COLUMN_DOC_MARKDOWN, v, items, t);
    free(rows);
}

void rows_environment_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "what", TABLE_LEFT);
    table_column(t, "value", TABLE_LEFT);
    for (size_t i = 0; i < v->run->nenv; i++) {
        table_cell(t, "%s", v->run->env[i].key);
        table_cell(t, "%s", text_or_dash(v->run->env[i].value));
    }
}

static void add_part(struct strbuf *out, double ms, double flops, double mfu) {
    strbuf_addf(out, "%s", text_ms(ms).s);
    if (isfinite(flops)) strbuf_addf(out, ", %s", text_flops(flops).s);
    if (isfinite(mfu)) strbuf_addf(out, ", MFU %s", text_percent(mfu).s);
    if (mfu > 1) strbuf_addstr(out, " (over 100%: the peak is that of another type or clock)");
}

void rows_vision_total(const struct view *v, struct strbuf *out) {
    struct run_vision vision = run_vision(v->run);
    if (!vision.parts) return;
    strbuf_addstr(out, "Vision in total: ");
    add_part(out, vision.ms, vision.flops, vision.mfu);
    strbuf_addstr(out, ". Rest of prefill (decoder): ");
    add_part(out, vision.rest_ms, vision.rest_flops, vision.rest_mfu);
    strbuf_addch(out, '.');
}

void rows_vision_note(const struct view *v, struct strbuf *out) {
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!s->parent_name || s->outside) continue;
        strbuf_addf(out, "%s%s ", out->len ? "; " : "Substages: ", s->name);
        add_part(out, s->time_ms, NAN, s->mfu);
        strbuf_addf(out, " (in %s)", s->parent_name);
    }
    if (!out->len) return;
    strbuf_addstr(out, ". Their time is already included in their stage.");
    struct strbuf total = STRBUF_INIT;
    rows_vision_total(v, &total);
    if (total.len) strbuf_addf(out, " %s", total.buf);
    strbuf_free(&total);
}
