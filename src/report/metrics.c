/* metrics.json: every number of the report, with its unit in its name (docs/metrics-json.md). The version in
 * SCHEMA_METRICS increases when a field is removed or changes its meaning. */
#include <math.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "base/util.h"
#include "report/gemm_columns.h"
#include "report/kernel_columns.h"
#include "report/metrics.h"
#include "report/operator_columns.h"
#include "report/report.h"
#include "report/rows.h"
#include "report/stage_columns.h"
#include "report/story.h"
#include "run/saved_metrics.h"

/* The CSV files have all rows. */
#define MAX_KERNELS 2000
#define MAX_OPERATORS 2000
#define MAX_GEMMS 500

static void write_stats(struct jsonw *j, const char *key, const struct stats *s, const char *unit) {
    jsonw_kobject(j, key);
    jsonw_kstr(j, "unit", unit);
    jsonw_ku64(j, "n", s->n);
    jsonw_knum(j, "mean", s->mean);
    jsonw_knum(j, "std", s->std);
    jsonw_knum(j, "median", s->median);
    jsonw_knum(j, "min", s->min);
    jsonw_knum(j, "max", s->max);
    jsonw_knum(j, "p90", s->p90);
    jsonw_knum(j, "p99", s->p99);
    jsonw_knum(j, "cv", s->cv);
    jsonw_knum(j, "ci95_low", s->ci95_low);
    jsonw_knum(j, "ci95_high", s->ci95_high);
    jsonw_end(j);
}

static void write_values(struct jsonw *j, const char *key, const double *v, size_t n) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) jsonw_num(j, v[i]);
    jsonw_end(j);
}

static void write_run(struct jsonw *j, const struct view *v) {
    const struct run_info *in = v->run;
    jsonw_kobject(j, "run");
    jsonw_kstr(j, "id", in->run_id);
    jsonw_kstr(j, "title", in->title);
    jsonw_kstr(j, "model", in->model);
    jsonw_kstr(j, "engine", in->engine);
    jsonw_kstr(j, "command", in->command);
    jsonw_kstr(j, "inferprof_version", in->version);
    jsonw_ku64_known(j, "started_unix_ns", in->started_wall_ns);
    jsonw_kbool(j, "incomplete", in->incomplete);
    jsonw_kbool(j, "unstable", view_unstable(v));
    jsonw_ku64(j, "repeats", in->repeats);
    jsonw_ku64(j, "failed_repeats", in->failed_repeats);
    jsonw_ku64(j, "top", in->top);
    jsonw_ku64(j, "answers", in->answers_total);
    jsonw_end(j);
}

static void write_device(struct jsonw *j, const struct view *v) {
    jsonw_kobject(j, "device");
    jsonw_kstr(j, "name", view_device(v));
    jsonw_knum(j, "peak_flop_per_s", view_peak_flops(v));
    jsonw_knum(j, "peak_byte_per_s", view_peak_bytes(v));
    jsonw_knum(j, "read_byte_per_s", v->run->peak.read_bytes_per_s > 0 ? v->run->peak.read_bytes_per_s : NAN);
    jsonw_kstr(j, "peak_type", v->run->peak.type);
    jsonw_kstr(j, "peak_source", view_peak_source(v));
    if (v->run->peak.levels.n) {
        jsonw_karray(j, "bandwidth_levels");
        for (size_t i = 0; i < v->run->peak.levels.n; i++) {
            const struct llm_level *l = &v->run->peak.levels.v[i];
            jsonw_object(j);
            jsonw_kstr(j, "level", l->name);
            jsonw_knum(j, "bytes", l->bytes);
            jsonw_knum(j, "byte_per_s", l->bytes_per_s);
            jsonw_end(j);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_model(struct jsonw *j, const struct view *v) {
    jsonw_kobject(j, "model");
    jsonw_knum(j, "mfu", view_model_mfu(v));
    jsonw_knum(j, "mbu", view_model_mbu(v));
    jsonw_kstr(j, "context_len_mode", v->run->context.mode);
    jsonw_knum(j, "context_len", v->run->context.tokens);
    jsonw_kstr(j, "reason", v->run->analysis ? v->run->analysis->model_over.text : NULL);
    for (size_t i = 0; i < run_model_fields_n; i++) {
        const void *from = (const char *)&v->run->facts + run_model_fields[i].offset;
        if (run_model_fields[i].text)
            jsonw_kstr(j, run_model_fields[i].key, *(const char *const *)from);
        else
            jsonw_knum(j, run_model_fields[i].key, *(const double *)from);
    }
    jsonw_end(j);
}

static void write_idle(struct jsonw *j, const struct analysis_stage *s) {
    jsonw_kobject(j, "idle");
    jsonw_kbool(j, "known", s->idle_known);
    jsonw_kstr(j, "refused_because", s->idle_refused);
    if (s->idle_known) {
        jsonw_kobject(j, "by_cause_ns");
        for (int c = 0; c < ANALYSIS_IDLE_CAUSES; c++)
            jsonw_knum(j, analysis_idle_cause_name((enum analysis_idle_cause)c), s->idle.ns[c]);
        jsonw_end(j);
        write_stats(j, "gap", &s->idle.gap_ns, "ns");
        columns_json(stage_idle_columns, &(struct column_row){ .item = s }, j);
    }
    jsonw_end(j);
}

/* One entry per device on which the stage has time. */
static void write_device_time(struct jsonw *j, const struct analysis *a, const struct analysis_stage *s) {
    jsonw_karray(j, "device_time");
    for (size_t d = 0; d < a->ndevices && a->stage_devices && !s->time_refused; d++) {
        const struct analysis_stage_device *on = analysis_stage_on(a, (size_t)(s - a->stages), d);
        if (!(on->busy_ns > 0) && !(on->idle_ns > 0)) continue;
        jsonw_object(j);
        jsonw_ku64(j, "device", d);
        jsonw_ku64(j, "steps", on->steps);
        jsonw_knum(j, "busy_ns", on->busy_ns);
        jsonw_knum(j, "idle_ns", on->idle_ns);
        jsonw_knum(j, "time_ns", on->busy_ns + on->idle_ns);
        jsonw_ku64(j, "kernels", on->kernels);
        jsonw_ku64(j, "copies", on->copies);
        jsonw_end(j);
    }
    jsonw_end(j);
}

#define MAX_STEPS 1000

/* Writes up to MAX_STEPS evenly chosen steps of a stage with several steps and no timed repeats: unrecorded
 * steps if there are any. `compare` uses them. */
static void write_steps(struct jsonw *j, const struct analysis *a, const struct analysis_stage *s) {
    const struct analyze_timing *t = s->unrecorded;
    if ((s->timing_ms.n && !t) || s->outside || s->finished < 2 || (a->input && a->input->one_run)) return;
    uint64_t all = t ? t->n : s->finished, every = (all + MAX_STEPS - 1) / MAX_STEPS, seen = 0;
    jsonw_karray(j, "steps_ms");
    for (size_t i = 0; t && i < t->n; i += every) jsonw_num(j, t->ms[i]);
    if (t) {
        jsonw_end(j);
        return;
    }
    for (size_t i = 0; i < a->noccurrences; i++) {
        const struct analysis_occurrence *o = &a->occurrences[i];
        if (o->stage != (uint32_t)(s - a->stages) || !analysis_counts(a, o) || seen++ % every) continue;
        jsonw_num(j, analysis_occurrence_time(o) / 1e6);
    }
    jsonw_end(j);
}

static void write_unrecorded(struct jsonw *j, const struct analysis_stage *s) {
    jsonw_kobject(j, "unrecorded");
    jsonw_knum(j, "mean_ms", s->timing_ms.mean);
    jsonw_knum(j, "median_ms", s->timing_ms.median);
    jsonw_knum(j, "p99_ms", s->timing_ms.p99);
    jsonw_ku64(j, "steps", s->timing_ms.n);
    jsonw_ku64(j, "left_out_steps", s->left_out_steps);
    jsonw_knum(j, "left_out_ms", s->left_out_ns * 1e-6);
    jsonw_knum(j, "recorded_ms", s->recorded_ms);
    jsonw_knum(j, "all_ms", s->watched_ms);
    jsonw_end(j);
}

static void write_stage(struct jsonw *j, const struct view *v, const struct analysis_stage *s) {
    struct column_row r = { .context = v, .item = s };
    jsonw_object(j);
    columns_json(&stage_columns[0], &r, j);
    struct stats none = stats_none();
    if (s->timing && !s->unrecorded) write_values(j, "repeats_ms", s->timing->ms, s->timing->n);
    write_stats(j, "timed", s->unrecorded ? &none : &s->timing_ms, "ms");
    if (s->unrecorded) write_unrecorded(j, s);
    if (v->a) {
        jsonw_kobject(j, "trace");
        columns_json(&stage_columns[1], &r, j);
        write_device_time(j, v->a, s);
        jsonw_knum(j, "at_once", s->at_once);
        write_stats(j, "host_per_occurrence", &s->host_each_ns, "ns");
        write_stats(j, "queue_per_occurrence", &s->queue_ns, "ns");
        write_stats(j, "gpu_span_per_occurrence", &s->span_ns, "ns");
        write_steps(j, v->a, s);
        write_stats(j, "wall_per_occurrence", &s->wall_ns, "ns");
        write_stats(j, "gpu_busy_per_occurrence", &s->busy_ns, "ns");
        write_stats(j, "per_token", &s->token_ns, "ns");
        write_idle(j, s);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_repeats(struct jsonw *j, const struct run_info *in) {
    if (!in->neach_repeat) return;
    jsonw_karray(j, "repeats");
    for (size_t i = 0; i < in->neach_repeat; i++) {
        jsonw_object(j);
        jsonw_ku64(j, "process", in->each_repeat[i].process);
        jsonw_ku64(j, "input_index", in->each_repeat[i].input);
        jsonw_kstr(j, "input", in->each_repeat[i].name);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_figures(struct jsonw *j, const struct run_info *in) {
    jsonw_karray(j, "figures");
    for (size_t i = 0; i < in->nfigures; i++) {
        const struct run_figure *f = &in->figures[i];
        struct stats s = run_figure_stats(in, f);
        jsonw_object(j);
        jsonw_kstr(j, "key", f->key);
        jsonw_kstr(j, "name", f->name);
        jsonw_kstr(j, "unit", f->unit);
        jsonw_kbool(j, "larger_is_better", f->larger_is_better);
        write_values(j, "repeats", f->values, f->n);
        write_stats(j, "stats", &s, f->unit ? f->unit : "");
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* "kernel": index in the list of kernels */
static void write_counter_rows(struct jsonw *j, const struct analysis *a) {
    jsonw_karray(j, "kernels");
    for (size_t i = 0; i < a->counters->nrows; i++) {
        const struct counter_row *r = &a->counters->rows[i];
        if (r->kernel >= MAX_KERNELS) continue;
        jsonw_object(j);
        jsonw_ku64(j, "kernel", r->kernel);
        jsonw_kstr(j, "stage", view_stage_name(a, r->stage));
        kernel_columns_counter_json(r, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_profiles(struct jsonw *j, const struct analysis_profiles *p) {
    if (!p) return;
    jsonw_kobject(j, "ncu");
    jsonw_ku64(j, "kernels", p->n);
    jsonw_ku64(j, "matched", p->n - p->unmatched);
    jsonw_knum(j, "covered_share", p->covered_share);
    jsonw_karray(j, "unmatched");
    for (size_t i = 0; i < p->n; i++)
        if (p->matches[i] == KERNEL_PROFILE_NO_MATCH) jsonw_str(j, p->profiles[i].name);
    jsonw_end(j);
    jsonw_end(j);
}

/* "counters": figures of the sampling, means per stage, and rows per kernel and stage. */
static void write_counters(struct jsonw *j, const struct analysis *a) {
    const struct analysis_counters *c = a->counters;
    if (!c) return;
    jsonw_kobject(j, "counters");
    jsonw_ku64(j, "samples", c->samples);
    jsonw_ku64(j, "unused_samples", c->unused);
    jsonw_knum(j, "interval_ns", c->interval_ns);
    jsonw_kbool(j, "concurrent_kernels", c->concurrent > 0);
    jsonw_knum(j, "concurrent_ratio", c->concurrent);
    jsonw_knum(j, "lag_ns", c->lag_ns);
    jsonw_karray(j, "stages");
    for (size_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i];
        if (!s->counters) continue;
        jsonw_object(j);
        columns_json(&stage_counter_columns[0], &(struct column_row){ .item = s }, j);
        columns_json(&stage_counter_columns[1], &(struct column_row){ .item = s->counters }, j);
        jsonw_end(j);
    }
    jsonw_end(j);
    write_counter_rows(j, a);
    jsonw_end(j);
}

static void write_kernels(struct jsonw *j, const struct view *v) {
    jsonw_karray(j, "kernels");
    for (size_t i = 0; i < MIN(v->a->nkernels, MAX_KERNELS); i++)
        kernel_columns_json(&(struct column_row){ v, &v->a->kernels[i], i }, j);
    jsonw_end(j);
}

static void write_roofline(struct jsonw *j, const struct analysis *a) {
    jsonw_karray(j, "roofline");
    for (size_t i = 0; i < MIN(a->nroofline, 2000); i++) {
        const struct analysis_point *p = &a->roofline[i];
        jsonw_object(j);
        jsonw_kstr(j, "label", p->label);
        jsonw_kstr(j, "source", p->source);
        jsonw_kstr(j, "kind",
                   p->stage != ANALYSIS_NONE    ? "stage"
                   : p->kernel != ANALYSIS_NONE ? "kernel"
                                                : "operator");
        jsonw_knum(j, "flop_per_byte", p->intensity);
        jsonw_knum(j, "flop_per_s", p->flop_per_s);
        jsonw_knum(j, "byte_per_s", p->byte_per_s);
        jsonw_knum(j, "peak_flop_per_s", p->peak_flop_per_s);
        jsonw_knum(j, "roof_flop_per_s", p->roof_flop_per_s);
        jsonw_knum(j, "attained", p->attained);
        jsonw_kstr(j, "reason", p->over.text);
        jsonw_kbool(j, "memory_bound", p->memory_bound);
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* Means over the devices with kernels. */
static void write_timeline(struct jsonw *j, const struct analysis *a) {
    struct analysis_timeline t = analysis_timeline(a);
    jsonw_ku64(j, "devices", t.devices);
    jsonw_knum(j, "timeline_ms", t.timeline_ns / 1e6);
    jsonw_knum(j, "between_steps_ms", t.between_ns / 1e6);
    jsonw_knum(j, "unrecorded_ms", t.unrecorded_ns / 1e6);
}

static void write_trace(struct jsonw *j, const struct view *v) {
    const struct analysis *a = v->a;
    const struct analysis_conservation *c = &a->conservation;
    jsonw_kobject(j, "trace");
    write_timeline(j, a);
    jsonw_knum(j, "wall_ns", a->wall_ns);
    jsonw_ku64(j, "kernels", a->kernels_total);
    jsonw_ku64(j, "launches", a->launches_total);
    jsonw_knum(j, "lost_share", a->lost_share);
    jsonw_knum(j, "captured_share", 1 - a->missed);
    jsonw_kobject(j, "conservation");
    jsonw_knum(j, "gpu_busy_ns", c->busy);
    jsonw_knum(j, "kernel_residual_ns", c->kernel_residual);
    jsonw_knum(j, "stage_residual_ns", c->stage_residual);
    jsonw_knum(j, "operator_residual_ns", c->operator_residual);
    jsonw_knum(j, "outside_stages_ns", c->outside_stages);
    jsonw_knum(j, "outside_operators_ns", c->outside_operators);
    jsonw_knum(j, "unmatched_ns", c->unmatched);
    jsonw_ku64(j, "unmatched_kernels", c->unmatched_kernels);
    jsonw_end(j);
    jsonw_end(j);
    write_counters(j, a);
    write_profiles(j, a->profiles);
    write_kernels(j, v);
#define ARRAY(array, n) ((struct column_items){ a->array, a->n, sizeof *a->array })
    columns_json_array("operators", operator_columns, v, ARRAY(operators, noperators), MAX_OPERATORS, j);
    columns_json_array("gemms", gemm_columns, v, ARRAY(gemms, ngemms), MAX_GEMMS, j);
    columns_json_array("categories", &rows_group_columns, v, ARRAY(categories, ncategories), SIZE_MAX, j);
    columns_json_array("libraries", &rows_group_columns, v, ARRAY(libraries, nlibraries), SIZE_MAX, j);
    rows_memory_json(v, j);
    columns_json_array("power", &rows_power_columns, v, ARRAY(powers, npowers), SIZE_MAX, j);
    columns_json_array("devices", &rows_device_columns, v, ARRAY(devices, ndevices), SIZE_MAX, j);
    columns_json_array("stability", &rows_stability_columns, v, ARRAY(stability, nstability), SIZE_MAX, j);
#undef ARRAY
    write_roofline(j, a);
}

/* Writes "findings": [...]. */
static void add_findings(struct jsonw *j, const struct analysis *a) {
    jsonw_karray(j, "findings");
    for (size_t i = 0; a && i < a->nfindings; i++) {
        const struct analysis_finding *f = &a->findings[i];
        jsonw_object(j);
        jsonw_ku64(j, "rank", i + 1);
        jsonw_kstr(j, "rule", f->rule);
        jsonw_kstr(j, "stage", view_stage_name(a, f->stage));
        jsonw_kstr(j, "title", f->title);
        jsonw_kstr(j, "evidence", f->evidence);
        jsonw_kstr(j, "advice", f->advice);
        jsonw_knum(j, "saving_ms", f->saving_ms);
        jsonw_knum(j, "saving_percent", f->saving_percent);
        jsonw_kstr(j, "confidence", analysis_confidence_name(f->confidence));
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_texts(struct jsonw *j, const char *key, const char *const *v, size_t n) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) jsonw_str(j, v[i]);
    jsonw_end(j);
}

static void write_environment(struct jsonw *j, const struct run_info *in) {
    jsonw_karray(j, "environment");
    for (size_t i = 0; i < in->nenv; i++) {
        jsonw_object(j);
        if (in->env[i].group) jsonw_kstr(j, "group", in->env[i].group);
        jsonw_kstr(j, "key", in->env[i].key);
        jsonw_kstr(j, "value", in->env[i].value);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_answers(struct jsonw *j, const struct run_info *in) {
    jsonw_karray(j, "answers");
    for (size_t i = 0; i < MIN(in->nanswers, RUN_ANSWERS_MAX); i++) {
        const struct run_answer *a = &in->answers[i];
        jsonw_object(j);
        jsonw_kstr(j, "input", a->input);
        jsonw_kstr(j, "prompt", a->prompt);
        jsonw_kstr(j, "text", a->text);
        jsonw_kstr(j, "error", a->error);
        jsonw_knum(j, "prompt_tokens", a->prompt_tokens);
        jsonw_knum(j, "new_tokens", a->new_tokens);
        jsonw_knum(j, "ms", a->ms);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_notes(struct jsonw *j, const struct analysis *a) {
    jsonw_karray(j, "notes");
    for (size_t i = 0; a && i < a->nnotes; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "severity", a->notes[i].severity == ANALYSIS_WARNING ? "warning" : "info");
        jsonw_kstr(j, "text", a->notes[i].text);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_anatomy(struct jsonw *j, const struct view *v) {
    const struct anatomy *a = v->a->anatomy;
    jsonw_kobject(j, "anatomy");
    jsonw_ku64(j, "layers", a->layers);
    jsonw_ku64(j, "steps", a->steps);
    jsonw_ku64(j, "of_steps", a->of);
    jsonw_knum(j, "step_ns", a->step_ns);
    jsonw_knum(j, "requests", a->requests);
    jsonw_knum(j, "model_bytes", a->model_bytes);
    jsonw_knum(j, "dram_bytes", a->dram_bytes);
    columns_json_array("roles", &rows_anatomy_columns, v, rows_anatomy_items(v), SIZE_MAX, j);
    jsonw_end(j);
}

static void write_recognition(struct jsonw *j, const struct view *v) {
    const struct analysis *a = v->a;
    const struct recognition *r = &a->recognition;
    const struct recognised_phases *p = &a->phases;
    if (!r->nsteps) return;
    jsonw_kobject(j, "recognition");
    jsonw_kbool(j, "language_model", r->llm);
    jsonw_kbool(j, "is_stages", a->recognised);
    jsonw_kstr(j, "boundary", r->boundary);
    jsonw_knum(j, "layers", r->layers ? (double)r->layers : NAN);
    jsonw_knum(j, "other_layers", r->other_layers ? (double)r->other_layers : NAN);
    jsonw_ku64(j, "steps", r->steady_steps);
    jsonw_ku64(j, "certain", r->certain_steps);
    jsonw_kobject(j, "kinds");
    for (int k = 0; k < STEP_KINDS; k++)
        if (r->kind_steps[k]) jsonw_ku64(j, step_kind_name(k), r->kind_steps[k]);
    jsonw_end(j);
    columns_json_array("by_kind", &rows_kind_columns, v, rows_kind_items(v), SIZE_MAX, j);
    if (a->anatomy) write_anatomy(j, v);
    if (p->steady_to_ns) {
        jsonw_kobject(j, "phases");
        jsonw_knum(j, "start_up_ns", p->start_ns);
        jsonw_knum(j, "load_ns", p->load_ns);
        jsonw_knum(j, "load_bytes", p->load_bytes);
        jsonw_knum(j, "warm_up_ns", p->warm_up_ns);
        jsonw_ku64(j, "warm_up_steps", p->warm_up_steps);
        jsonw_knum(j, "steady_ns", p->steady_ns);
        jsonw_knum(j, "shutdown_ns", p->shutdown_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* The sentence at the top of the report; null without stages. */
static void write_verdict(struct jsonw *j, const struct view *v) {
    struct strbuf verdict = STRBUF_INIT;
    story_answer(v, &story_plain, &verdict);
    jsonw_kstr(j, "verdict", verdict.len ? verdict.buf : NULL);
    strbuf_free(&verdict);
}

void report_metrics_json(const struct view *v, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_METRICS);
    write_verdict(&j, v);
    write_run(&j, v);
    write_device(&j, v);
    write_model(&j, v);
    jsonw_karray(&j, "stages");
    for (size_t i = 0; i < v->nstages; i++) write_stage(&j, v, v->stages[i]);
    jsonw_end(&j);
    metrics_aggregates(&j, v);
    write_figures(&j, v->run);
    write_repeats(&j, v->run);
    add_findings(&j, v->run->analysis);
    if (v->a) write_recognition(&j, v);
    if (v->a) write_trace(&j, v);
    write_environment(&j, v->run);
    write_texts(&j, "assumptions", v->run->assumptions, v->run->nassumptions);
    write_texts(&j, "problems", v->run->warnings, v->run->nwarnings);
    write_notes(&j, v->a);
    write_answers(&j, v->run);
    const struct analysis *a = v->run->analysis;
    if (a && (v->a || a->nfindings)) metrics_input(&j, a);
    jsonw_end(&j);
    jsonw_finish(&j);
}

void metrics_findings_json(const struct view *v, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_FINDINGS);
    jsonw_kstr(&j, "run", v->run->run_id);
    add_findings(&j, v->run->analysis);
    jsonw_end(&j);
    jsonw_finish(&j);
}
