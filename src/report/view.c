#include "report/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static double pick(double first, double second) { return isfinite(first) ? first : second; }

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* A share over 1 is no share: the parts are not of one run. A rounding error is. */
static double share(double part, double whole) {
    double v = part / whole;
    return v >= 0 && v <= 1.001 ? fmin(v, 1) : NAN;
}

/* Only where all of the stage's kernels were recorded: a part of them has no place in figures of the
 * whole. */
static void from_kernels(struct view_stage *s, const struct analysis_stage *t) {
    double devices = t->devices ? t->devices : 1;
    s->busy_ms = t->busy_ns.mean / 1e6 / devices;
    if (!t->outside) s->busy_share = share(t->busy_ns.mean / devices, t->wall_ns.mean);
    if (t->occurrences) s->kernels = (double)t->kernels / (double)t->occurrences;
}

static void from_trace(struct view_stage *s, const struct analysis *a, const struct analysis_stage *t) {
    s->name = t->name;
    s->parent = t->parent == ANALYSIS_NONE ? NULL : a->stages[t->parent].name;
    s->depth = t->depth;
    s->trace = t;
    s->outside = t->outside;
    s->time_ms = t->outside ? NAN : t->time_ns / 1e6;
    snprintf(s->source, sizeof s->source, "%s", t->time_source ? t->time_source : "trace");
    if (t->timing) {
        s->values_ms = t->timing->ms;
        s->nvalues = t->timing->n;
        s->timed = t->timing_ms;
    }
    if (t->missed <= MISSED_LIMIT) from_kernels(s, t);
    s->launches_per_token = t->launches_per_token;
    s->floor_ms = t->floor_ns / 1e6;
    s->flops = t->flops;
    s->bytes = t->bytes;
    s->mfu = t->mfu;
    s->mbu = t->mbu;
    s->distance = t->distance;
    s->tokens_per_s = t->tokens_per_s;
    s->overhead = t->recording_cost;
    if (t->occurrences) s->tokens = analysis_stage_tokens(t) / (double)t->occurrences;
}

/* The time is that of a whole request; the representative run holds one, in one range or in many. */
static void whole_request(struct view_stage *s) {
    const struct analysis_stage *t = s->trace;
    if (!t || !t->occurrences || t->missed > MISSED_LIMIT) return;
    double busy_ms = t->gpu_busy_ns / 1e6 / (t->devices ? t->devices : 1);
    double recorded = share(busy_ms, t->wall_total_ns / 1e6), timed = share(busy_ms, s->time_ms);
    s->busy_share = t->on_cpu || isnan(timed) ? recorded : timed;
    s->busy_ms = s->busy_share * s->time_ms;
    s->kernels = (double)t->kernels;
}

/* What `profile` timed and modelled stands above what the trace says of the same stage. */
static void from_profile(struct view_stage *s, const struct report_stage *g) {
    s->name = g->name;
    s->parent = g->parent;
    s->given = g;
    if (!s->trace) s->depth = g->parent ? 1 : 0;
    s->floor_ms = pick(g->floor_ms, s->floor_ms);
    s->flops = pick(g->flops, s->flops);
    s->bytes = pick(g->bytes, s->bytes);
    s->mfu = pick(g->mfu, s->mfu);
    s->mbu = pick(g->mbu, s->mbu);
    s->distance = pick(g->distance, s->distance);
    s->tokens = pick(g->tokens, s->tokens);
    struct stats timed = stats_of(g->ms, g->n);
    if (timed.n == 0) return;
    s->timed = timed;
    s->values_ms = g->ms;
    s->nvalues = g->n;
    s->time_ms = timed.median;
    snprintf(s->source, sizeof s->source, "median of %zu timed repeats", timed.n);
    s->overhead = pick(g->representative_ms / timed.median, s->overhead);
    whole_request(s);
}

static void unknown(struct view_stage *s) {
    memset(s, 0, sizeof *s);
    s->timed = stats_none();
    s->time_ms = s->busy_ms = s->busy_share = s->floor_ms = s->flops = s->bytes = NAN;
    s->mfu = s->mbu = s->distance = s->tokens = s->tokens_per_s = s->overhead = s->kernels =
        s->launches_per_token = NAN;
}

static const struct report_stage *find_given(const struct report_input *in, const struct view_stage *s) {
    for (size_t i = 0; i < in->nstages; i++)
        if (same_text(in->stages[i].name, s->name) && same_text(in->stages[i].parent, s->parent))
            return &in->stages[i];
    return NULL;
}

/* A tower of the model that had nothing to do: a row of dashes tells nobody anything. */
static bool is_empty(const struct report_stage *g) {
    return stats_of(g->ms, g->n).n == 0 && isnan(g->floor_ms) && isnan(g->flops);
}

static bool is_taken(const struct view *v, size_t n, const struct report_stage *g) {
    for (size_t i = 0; i < n; i++)
        if (v->stages[i].given == g) return true;
    return false;
}

/* A trace in which nothing happened (the engine did not start) is no stage of no length. */
static bool is_nothing(const struct analysis_stage *t) {
    return t->implicit && !t->kernels && !(t->time_ns > 0);
}

void view_init(struct view *v, const struct report_input *in) {
    const struct analysis *a = in->analysis;
    *v = (struct view){ .in = in, .a = a };
    size_t ntrace = a ? a->nstages : 0;
    v->stages = xcalloc(ntrace + in->nstages + 1, sizeof *v->stages);
    for (size_t i = 0; i < ntrace; i++) {
        if (is_nothing(&a->stages[i])) continue;
        struct view_stage *s = &v->stages[v->nstages++];
        unknown(s);
        from_trace(s, a, &a->stages[i]);
        const struct report_stage *g = find_given(in, s);
        if (g) from_profile(s, g);
    }
    size_t known = v->nstages;
    for (size_t i = 0; i < in->nstages; i++) {
        if (is_taken(v, known, &in->stages[i]) || is_empty(&in->stages[i])) continue;
        struct view_stage *s = &v->stages[v->nstages++];
        unknown(s);
        from_profile(s, &in->stages[i]);
    }
}

void view_free(struct view *v) {
    free(v->stages);
    v->stages = NULL;
    v->nstages = 0;
}

bool view_is_told(const struct view_stage *s) { return !s->parent && !s->outside && isfinite(s->time_ms); }

const char *view_stage_name(const struct analysis *a, uint32_t stage) {
    return stage == ANALYSIS_NONE || stage >= a->nstages ? NULL : a->stages[stage].name;
}

size_t view_findings(const struct view *v, const struct analysis_finding **first) {
    *first = v->a ? v->a->findings : NULL;
    return v->a ? v->a->nfindings : 0;
}

bool view_unstable(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (!v->stages[i].parent && v->stages[i].timed.cv > 0.05) return true;
    return false;
}

bool view_says_unstable(const struct view *v) {
    for (size_t i = 0; i < v->in->nproblems; i++)
        if (strncmp(v->in->problems[i], "Unstable", 8) == 0) return false;
    return view_unstable(v);
}

bool view_has_floors(const struct view *v) {
    for (size_t i = 0; i < v->nstages; i++)
        if (isfinite(v->stages[i].floor_ms) || isfinite(v->stages[i].flops)) return true;
    return false;
}

size_t view_busy_devices(const struct view *v) {
    size_t n = 0;
    for (size_t i = 0; v->a && i < v->a->ndevices; i++) n += v->a->devices[i].kernels > 0;
    return n;
}

bool view_on_cpu(const struct view *v) { return v->a && v->a->cpu_only; }

const char *view_trace_device(const struct timeline *tl) {
    const char *named = NULL;
    for (size_t i = 0; tl && i < tl->ndevices; i++) {
        if (!tl->devices[i].name) continue;
        if (tl->devices[i].kernel_count) return timeline_text(tl, tl->devices[i].name);
        if (!named) named = timeline_text(tl, tl->devices[i].name);
    }
    return named;
}

const char *view_device(const struct view *v) {
    if (v->in->peak.device) return v->in->peak.device;
    return view_trace_device(v->a ? v->a->timeline : v->in->timeline);
}

double view_peak_flops(const struct view *v) {
    return pick(v->in->peak.flops_per_s, v->a ? v->a->peak_flops_per_s : NAN);
}

double view_peak_bytes(const struct view *v) {
    return pick(v->in->peak.bytes_per_s, v->a ? v->a->peak_bytes_per_s : NAN);
}

const char *view_peak_source(const struct view *v) {
    return v->in->peak.source ? v->in->peak.source : v->a ? v->a->peak_source : NULL;
}

double view_model_mfu(const struct view *v) { return pick(v->in->model_mfu, v->a ? v->a->model_mfu : NAN); }
