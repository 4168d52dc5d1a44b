#include "report/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "report/text.h"

struct column {
    const char *head;
    enum table_align align;
};

static void columns(struct table *t, const struct column *c, size_t n) {
    table_init(t);
    for (size_t i = 0; i < n; i++) table_column(t, c[i].head, c[i].align);
}
#define COLUMNS(t, ...)                             \
    do {                                            \
        const struct column c_[] = { __VA_ARGS__ }; \
        columns(t, c_, COUNTOF(c_));                \
    } while (0)
#define L(head) \
    { head, TABLE_LEFT }
#define R(head) \
    { head, TABLE_RIGHT }

const char *rows_limiter_name(enum analysis_limiter limiter) {
    static const char *const names[] = { "", "warps", "blocks", "registers", "shared memory" };
    return (size_t)limiter < COUNTOF(names) ? names[limiter] : "";
}

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

void rows_kernels_md(const struct view *v, size_t limit, struct table *t) {
    COLUMNS(t, L("kernel"), L("library"), L("category"), L("stage"), R("share"), R("total ms"), R("calls"),
            R("mean us"), R("p99 us"), R("blocks"), R("occupancy"));
    rows_counter_heads(v, t);
    rows_profile_heads(v, t);
    for (size_t i = 0; v->a && i < MIN(limit, v->a->nkernels); i++) {
        const struct analysis_kernel *k = &v->a->kernels[i];
        table_cell(t, "%s", k->short_name);
        table_cell(t, "%s", kernel_library_name(k->library));
        table_cell(t, "%s", kernel_category_name(k->category));
        table_cell(t, "%s", text_or_dash(view_stage_name(v->a, k->stage)));
        table_cell(t, "%s", text_percent(k->share).s);
        table_cell(t, "%s", text_ms_number(k->total_ns / 1e6).s);
        table_cell(t, "%s", text_count(k->calls).s);
        table_cell(t, "%s", text_us_number(k->mean_ns).s);
        table_cell(t, "%s", text_us_number(k->p99_ns).s);
        table_cell(t, "%s", text_num(k->blocks ? (double)k->blocks : NAN, 0).s);
        table_cell(t, "%s", text_percent(k->occupancy).s);
        rows_counter_cells(v, (uint32_t)i, t);
        rows_profile_cells(v, (uint32_t)i, t);
    }
}

static void geometry(struct table *t, const uint32_t d[3]) {
    if (d[0])
        table_cell(t, "%ux%ux%u", d[0], d[1], d[2]);
    else
        table_cell(t, "%s", "");
}

void rows_kernels_csv(const struct view *v, struct table *t) {
    COLUMNS(t, R("rank"), L("name"), L("short_name"), L("library"), L("category"), L("stage"), R("calls"),
            R("total_ns"), R("owned_ns"), R("share"), R("mean_ns"), R("min_ns"), R("p50_ns"), R("p99_ns"),
            R("max_ns"), L("grid"), L("block"), R("registers"), R("static_smem_bytes"),
            R("dynamic_smem_bytes"), R("occupancy"), L("occupancy_limiter"), R("waves"), R("flops"),
            R("bytes"));
    rows_counter_heads_csv(v, t);
    rows_profile_heads_csv(v, t);
    for (size_t i = 0; v->a && i < v->a->nkernels; i++) {
        const struct analysis_kernel *k = &v->a->kernels[i];
        const struct timeline_shape *s = &v->a->timeline->shapes[k->shape];
        const char *stage = view_stage_name(v->a, k->stage);
        count(t, i + 1);
        table_cell(t, "%s", k->name);
        table_cell(t, "%s", k->short_name);
        table_cell(t, "%s", kernel_library_name(k->library));
        table_cell(t, "%s", kernel_category_name(k->category));
        table_cell(t, "%s", stage ? stage : "");
        count(t, k->calls);
        raw(t, k->total_ns);
        raw(t, k->owned_ns);
        raw(t, k->share);
        raw(t, k->mean_ns);
        raw(t, k->min_ns);
        raw(t, k->p50_ns);
        raw(t, k->p99_ns);
        raw(t, k->max_ns);
        geometry(t, s->grid);
        geometry(t, s->block);
        count(t, s->registers);
        count(t, s->static_smem_bytes);
        count(t, s->dynamic_smem_bytes);
        raw(t, k->occupancy);
        table_cell(t, "%s", rows_limiter_name(k->limiter));
        raw(t, k->waves);
        raw(t, k->flops);
        raw(t, k->bytes);
        rows_counter_cells_csv(v, (uint32_t)i, t);
        rows_profile_cells_csv(v, (uint32_t)i, t);
    }
}

void rows_operators_md(const struct view *v, size_t limit, struct table *t) {
    COLUMNS(t, L("operator"), L("stage"), R("total ms"), R("self ms"), R("device ms"), R("device self ms"),
            R("calls"), R("mean us"), R("kernels"));
    for (size_t i = 0; v->a && i < MIN(limit, v->a->noperators); i++) {
        const struct analysis_operator *o = &v->a->operators[i];
        table_cell(t, "%s", o->name);
        table_cell(t, "%s", text_or_dash(view_stage_name(v->a, o->stage)));
        table_cell(t, "%s", text_ms_number(o->total_ns / 1e6).s);
        table_cell(t, "%s", text_ms_number(o->self_ns / 1e6).s);
        table_cell(t, "%s", text_ms_number(o->gpu_ns / 1e6).s);
        table_cell(t, "%s", text_ms_number(o->gpu_self_ns / 1e6).s);
        table_cell(t, "%s", text_count(o->calls).s);
        table_cell(t, "%s", text_us_number(o->mean_ns).s);
        table_cell(t, "%s", text_count(o->kernels).s);
    }
}

static void operator_csv(const struct analysis *a, const struct analysis_operator *o, struct table *t) {
    const char *category = trace_range_category_name((unsigned)o->category);
    const char *stage = view_stage_name(a, o->stage);
    table_cell(t, "%s", o->name);
    table_cell(t, "%s", o->detail ? o->detail : "");
    table_cell(t, "%s", category ? category : "");
    table_cell(t, "%s", stage ? stage : "");
    count(t, o->calls);
    count(t, o->kernels);
    raw(t, o->total_ns);
    raw(t, o->self_ns);
    raw(t, o->mean_ns);
    raw(t, o->gpu_ns);
    raw(t, o->gpu_self_ns);
    raw(t, o->flops);
    raw(t, o->bytes);
}

/* All operators; then the same by shape, which are the rows with a detail. */
void rows_operators_csv(const struct view *v, struct table *t) {
    COLUMNS(t, L("operator"), L("detail"), L("category"), L("stage"), R("calls"), R("kernels"), R("total_ns"),
            R("self_ns"), R("mean_ns"), R("device_ns"), R("device_self_ns"), R("flops"), R("bytes"));
    for (size_t i = 0; v->a && i < v->a->noperators; i++) operator_csv(v->a, &v->a->operators[i], t);
    for (size_t i = 0; v->a && i < v->a->noperators_by_shape; i++)
        if (v->a->operators_by_shape[i].detail && *v->a->operators_by_shape[i].detail)
            operator_csv(v->a, &v->a->operators_by_shape[i], t);
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
