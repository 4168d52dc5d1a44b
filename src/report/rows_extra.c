/* The smaller tables: idle time, launch queue, communication, tokens, categories, overhead, stability,
 * power. */
#include <math.h>

#include "base/util.h"
#include "report/rows.h"
#include "report/text.h"

/* A column only for causes that occur: the rest would be zeros. */
static bool has_cause(const struct view *v, int cause) {
    for (size_t i = 0; v->a && i < v->a->nstages; i++)
        if (v->a->stages[i].idle_known && v->a->stages[i].idle.ns[cause] > 0) return true;
    return false;
}

/* Stages whose idle time the data supports a word on. */
static bool has_idle(const struct analysis_stage *s) { return !s->outside && s->idle_known && s->kernels; }

void rows_idle_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "stage", TABLE_LEFT);
    table_column(t, "idle ms", TABLE_RIGHT);
    for (int c = 0; c < ANALYSIS_IDLE_CAUSES; c++)
        if (has_cause(v, c))
            table_column(t, analysis_idle_cause_name((enum analysis_idle_cause)c), TABLE_RIGHT);
    table_column(t, "a CUDA graph could remove", TABLE_RIGHT);
    for (size_t i = 0; v->a && i < v->a->nstages; i++) {
        const struct analysis_stage *s = &v->a->stages[i];
        if (!has_idle(s)) continue;
        double to_ms = 1e-6 / (s->devices ? s->devices : 1); /* sums over the devices */
        table_cell(t, "%s", s->path ? s->path : s->name);
        table_cell(t, "%s", text_ms_number(s->idle_ns * to_ms).s);
        for (int c = 0; c < ANALYSIS_IDLE_CAUSES; c++)
            if (has_cause(v, c)) table_cell(t, "%s", text_ms_number(s->idle.ns[c] * to_ms).s);
        table_cell(t, "%s (%s)", text_ms_number(s->idle.graph_removable_ns * to_ms).s,
                   text_percent(s->idle.graph_removable_ns * to_ms * 1e6 / s->wall_total_ns).s);
    }
}

void rows_queue_md(const struct view *v, struct table *t) {
    static const char *const heads[] = { "mean depth", "found it empty", "call every us", "call takes us",
                                         "call to start us" };
    table_init(t);
    table_column(t, "stage", TABLE_LEFT);
    for (size_t i = 0; i < COUNTOF(heads); i++) table_column(t, heads[i], TABLE_RIGHT);
    for (size_t i = 0; v->a && i < v->a->nstages; i++) {
        const struct analysis_stage *s = &v->a->stages[i];
        if (!has_idle(s) || isnan(s->idle.queue_depth_mean)) continue;
        table_cell(t, "%s", s->path ? s->path : s->name);
        table_cell(t, "%s", text_num(s->idle.queue_depth_mean, s->idle.queue_depth_mean < 9.95 ? 1 : 0).s);
        table_cell(t, "%s", text_percent(s->idle.queue_empty_share).s);
        table_cell(t, "%s", text_us_number(s->idle.launch_interval_ns).s);
        table_cell(t, "%s", text_us_number(s->idle.launch_cost_ns).s);
        table_cell(t, "%s", text_us_number(s->idle.launch_delay_ns).s);
    }
}

void rows_communication_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "device", TABLE_LEFT);
    table_column(t, "communication ms", TABLE_RIGHT);
    table_column(t, "beside other kernels", TABLE_RIGHT);
    table_column(t, "exposed ms", TABLE_RIGHT);
    table_column(t, "of busy time", TABLE_RIGHT);
    for (size_t i = 0; v->a && i < v->a->ndevices; i++) {
        const struct analysis_device *d = &v->a->devices[i];
        if (!(d->communication_ns > 0)) continue;
        double exposed = d->communication_ns - d->communication_hidden_ns;
        table_cell(t, "%zu %s", i, timeline_text(v->a->timeline, v->a->timeline->devices[i].name));
        table_cell(t, "%s", text_ms_number(d->communication_ns / 1e6).s);
        table_cell(t, "%s", text_percent(d->communication_hidden_ns / d->communication_ns).s);
        table_cell(t, "%s", text_ms_number(exposed / 1e6).s);
        table_cell(t, "%s", text_percent(exposed / d->busy_ns).s);
    }
}

void rows_tokens_md(const struct view *v, struct table *t) {
    static const char *const heads[] = { "median ms", "p90 ms", "p99 ms", "max ms", "n" };
    table_init(t);
    table_column(t, "stage", TABLE_LEFT);
    for (size_t i = 0; i < COUNTOF(heads); i++) table_column(t, heads[i], TABLE_RIGHT);
    for (size_t i = 0; v->a && i < v->a->nstages; i++) {
        const struct analysis_stage *s = &v->a->stages[i];
        if (s->outside || s->token_ns.n < 2) continue;
        table_cell(t, "%s", s->path ? s->path : s->name);
        table_cell(t, "%s", text_ms_number(s->token_ns.median / 1e6).s);
        table_cell(t, "%s", text_ms_number(s->token_ns.p90 / 1e6).s);
        table_cell(t, "%s", text_ms_number(s->token_ns.p99 / 1e6).s);
        table_cell(t, "%s", text_ms_number(s->token_ns.max / 1e6).s);
        table_cell(t, "%s", text_count(s->token_ns.n).s);
    }
}

void rows_categories_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "category", TABLE_LEFT);
    table_column(t, "share", TABLE_RIGHT);
    table_column(t, view_on_cpu(v) ? "busy ms" : "GPU ms", TABLE_RIGHT);
    table_column(t, "calls", TABLE_RIGHT);
    table_column(t, "kinds", TABLE_RIGHT);
    for (size_t i = 0; v->a && i < v->a->ncategories; i++) {
        const struct analysis_group *g = &v->a->categories[i];
        table_cell(t, "%s", g->name);
        table_cell(t, "%s", text_percent(g->share).s);
        table_cell(t, "%s", text_ms_number(g->owned_ns / 1e6).s);
        table_cell(t, "%s", text_count(g->calls).s);
        table_cell(t, "%s", text_count(g->classes).s);
    }
}

void rows_overhead_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "stage", TABLE_LEFT);
    table_column(t, "timed ms", TABLE_RIGHT);
    table_column(t, "recorded / timed", TABLE_RIGHT);
    for (size_t i = 0; i < v->nstages; i++) {
        const struct analysis_stage *s = v->stages[i];
        if (!isfinite(s->recording_cost)) continue;
        table_cell(t, "%s", s->name);
        table_cell(t, "%s", text_ms_number(s->timing_ms.median).s);
        table_cell(t, "%s", text_times(s->recording_cost).s);
    }
}

void rows_stability_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "stage", TABLE_LEFT);
    table_column(t, "CV", TABLE_RIGHT);
    table_column(t, "drift", TABLE_RIGHT);
    table_column(t, "outliers", TABLE_RIGHT);
    table_column(t, "failed", TABLE_RIGHT);
    table_column(t, "verdict", TABLE_LEFT);
    for (size_t i = 0; v->a && i < v->a->nstability; i++) {
        const struct analysis_stability *s = &v->a->stability[i];
        table_cell(t, "%s", s->stage);
        table_cell(t, "%s", text_percent(s->ms.cv).s);
        table_cell(t, "%s%s", text_percent(s->drift_percent / 100).s,
                   isfinite(s->drift_percent) && !s->drift_shown ? " (not significant)" : "");
        table_cell(t, "%zu", s->outliers);
        table_cell(t, "%zu", s->failed);
        table_cell(t, "%s", s->ms.n < 2 ? "too few repeats" : s->unstable ? "unstable" : "stable");
    }
}

void rows_power_md(const struct view *v, struct table *t) {
    table_init(t);
    table_column(t, "device", TABLE_LEFT);
    table_column(t, "energy J", TABLE_RIGHT);
    table_column(t, "mean W", TABLE_RIGHT);
    table_column(t, "max W", TABLE_RIGHT);
    table_column(t, "SM MHz busy", TABLE_RIGHT);
    table_column(t, "SM MHz max", TABLE_RIGHT);
    table_column(t, "idle J", TABLE_RIGHT);
    table_column(t, "throttled ms", TABLE_RIGHT);
    table_column(t, "by", TABLE_LEFT);
    for (size_t i = 0; v->a && i < v->a->npowers; i++) {
        const struct analysis_power *p = &v->a->powers[i];
        const struct timeline *tl = v->a->timeline;
        const char *name = p->device < tl->ndevices ? timeline_text(tl, tl->devices[p->device].name) : "";
        table_cell(t, "%u %s", p->device, name);
        table_cell(t, "%s", text_num(p->joules, 1).s);
        table_cell(t, "%s", text_num(p->watts_mean, 0).s);
        table_cell(t, "%s", text_num(p->watts_max, 0).s);
        table_cell(t, "%s", text_num(p->sm_mhz_busy_mean, 0).s);
        table_cell(t, "%s", text_num(p->sm_mhz_max, 0).s);
        table_cell(t, "%s", text_num(p->idle_joules, 1).s);
        table_cell(t, "%s", text_ms_number(p->throttled_ns / 1e6).s);
        table_cell(t, "%s", text_or_dash(p->throttled_by));
    }
}
