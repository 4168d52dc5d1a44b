/* Stages against what the model must cost: MFU, MBU, floor, distance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"

bool analysis_names_stage(const char *text, const struct analysis_stage *s) {
    return text && (strcmp(text, s->path) == 0 || strcmp(text, s->name) == 0);
}

static const struct analyze_cost *cost_of(const struct context *c, const struct analysis_stage *s) {
    const struct analyze_cost *found = NULL;
    for (size_t i = 0; i < c->in->ncosts; i++) {
        if (!analysis_names_stage(c->in->costs[i].stage, s)) continue;
        found = &c->in->costs[i];
        if (strcmp(found->stage, s->path) == 0) break; /* the path is more precise than the name */
    }
    return found;
}

static const struct analyze_timing *timing_of(const struct context *c, const struct analysis_stage *s) {
    for (size_t i = 0; i < c->in->ntimings; i++)
        if (analysis_names_stage(c->in->timings[i].stage, s)) return &c->in->timings[i];
    return NULL;
}

static bool counts(const struct analyze_timing *t, size_t repeat) {
    return !(t->failed && t->failed[repeat]) && !isnan(t->ms[repeat]);
}

struct stats analysis_timing_stats(struct context *c, const struct analyze_timing *t, const double *values) {
    double *v = analysis_alloc(c, t->n, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (counts(t, i)) v[n++] = values[i];
    return stats_of_sorting(v, n);
}

/* Into how many equal parts the trace's sums are cut to stand beside costs and timings. 0: it has none. */
static double parts_of(const struct context *c, const struct analysis_stage *s) {
    return c->in->one_run && s->occurrences ? 1 : (double)s->occurrences;
}

/* Tokens of one timed repeat. */
static double timed_tokens(struct context *c, const struct analysis_stage *s, const double *tokens) {
    return s->timing_ms.n && tokens ? analysis_timing_stats(c, s->timing, tokens).median : NAN;
}

static void set_time(struct context *c, struct analysis_stage *s) {
    const struct analyze_timing *t = s->timing = timing_of(c, s);
    double traced = s->occurrences ? s->wall_total_ns / parts_of(c, s) : NAN;
    if (s->implicit && traced == 0)
        traced = NAN; /* nothing was recorded: that is not known to take no time */
    if (t) s->timing_ms = analysis_timing_stats(c, t, t->ms);
    if (s->timing_ms.n) {
        s->time_ns = s->timing_ms.median * 1e6;
        s->time_source = analysis_text(c, "median of %zu timing repeats", s->timing_ms.n);
        s->overhead_ratio = s->time_ns > 0 ? traced / s->time_ns : NAN;
        s->recording_cost = t->recording_cost > 0 ? t->recording_cost : s->overhead_ratio;
    } else if (!isnan(traced)) {
        s->time_ns = traced;
        s->time_source = s->occurrences == 1 ? "one occurrence in the trace"
                                             : analysis_text(c, "mean of %s occurrences in the trace",
                                                             analysis_count(c, s->occurrences));
    }
}

/* A trace without tokens is taken to have as many as the repeats. */
static void set_tokens(struct context *c, struct analysis_stage *s, double *out_each) {
    const struct analyze_timing *t = s->timing;
    double in = timed_tokens(c, s, t ? t->tokens_in : NULL),
           out = timed_tokens(c, s, t ? t->tokens_out : NULL);
    double parts = s->occurrences ? parts_of(c, s) : 1;
    if (!s->token_source && (!isnan(in) || !isnan(out))) {
        s->token_source = "timing phase";
        s->tokens_in = in * parts;
        s->tokens_out = out * parts;
    }
    double in_each = isnan(in) ? s->tokens_in / parts : in;
    *out_each = isnan(out) ? s->tokens_out / parts : out;
    double worked_on =
        in_each > *out_each || isnan(*out_each) ? in_each : *out_each; /* prefill reads, decode makes */
    if (s->time_ns > 0) s->tokens_per_s = worked_on / (s->time_ns * 1e-9);
}

/* Sums of the recorded run by its tokens. A prefill launches once for all that it reads: no launches a
 * token. */
static void set_per_token(struct analysis_stage *s) {
    double made = s->tokens_out > 0 && s->occurrences ? s->tokens_out : NAN;
    double worked_on = analysis_stage_tokens(s);
    s->kernels_per_token = (double)s->kernels / made;
    if (!s->on_cpu && !(s->tokens_in > s->tokens_out)) s->launches_per_token = (double)s->launches / made;
    s->joules_per_token = worked_on > 0 ? s->joules / worked_on : NAN;
    s->tokens_per_joule = s->joules > 0 ? worked_on / s->joules : NAN;
}

static void set_cost(struct context *c, struct analysis_stage *s, double out_each) {
    const struct analyze_cost *cost = cost_of(c, s);
    if (!cost) return;
    double times = cost->per_token ? out_each : 1;
    s->flops = cost->flops * times;
    s->bytes = cost->bytes * times;
    s->floor_ns = cost->floor_ns * times;
    if (cost->per_token && s->token_source && strcmp(s->token_source, "range labels") == 0 && out_each > 1) {
        s->bytes = s->floor_ns = NAN; /* a batch reads the weights once, not once a token */
        analysis_note(
            c, ANALYSIS_INFO,
            "%s: steps make %.1f tokens together, so bytes and floor of a single token do not apply", s->path,
            out_each);
    }
    double seconds = s->time_ns * 1e-9;
    if (!(seconds > 0)) return;
    s->mfu = s->flops / (seconds * c->a->peak_flops_per_s);
    s->mbu = s->bytes / (seconds * c->a->peak_bytes_per_s);
    s->distance = s->floor_ns > 0 ? s->time_ns / s->floor_ns : NAN;
}

void analyze_model(struct context *c) {
    struct analysis *a = c->a;
    double flops = 0, seconds = 0;
    for (size_t i = 0; i < a->nstages; i++) {
        struct analysis_stage *s = &a->stages[i];
        double out_each = NAN;
        if (s->outside) continue;
        set_time(c, s);
        set_tokens(c, s, &out_each);
        set_per_token(s);
        set_cost(c, s, out_each);
        if (s->parent != ANALYSIS_NONE || isnan(s->flops) || isnan(s->time_ns)) continue;
        flops += s->flops;
        seconds += s->time_ns * 1e-9;
    }
    a->model_mfu = seconds > 0 ? flops / (seconds * a->peak_flops_per_s) : NAN;
}
