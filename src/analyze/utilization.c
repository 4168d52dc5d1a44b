/* Computes the time, tokens and busy time of each stage per request, and compares them with the model's cost
 * (MFU, MBU, roofline time, distance). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "llm/cost.h"

bool analysis_names_stage(const char *text, const struct analysis_stage *s) {
    return text && (strcmp(text, s->path) == 0 || strcmp(text, s->name) == 0);
}

bool analysis_timing_is_of(const struct analyze_timing *t, const struct analysis_stage *s) {
    if (!analysis_names_stage(t->stage, s)) return false;
    return !t->parent || !s->parent_name || strcmp(t->parent, s->parent_name) == 0;
}

static const struct analyze_cost *find_cost(const struct context *c, const struct analysis_stage *s) {
    const struct analyze_cost *found = NULL;
    for (size_t i = 0; i < c->a->ncosts; i++) {
        if (!analysis_names_stage(c->a->costs[i].stage, s)) continue;
        found = &c->a->costs[i];
        /* a path takes precedence over a name */
        if (strcmp(found->stage, s->path) == 0) break;
    }
    return found;
}

static const struct analyze_timing *find_timing(const struct context *c, const struct analysis_stage *s) {
    for (size_t i = 0; i < c->in->ntimings; i++)
        if (analysis_timing_is_of(&c->in->timings[i], s)) return &c->in->timings[i];
    return s->unrecorded;
}

static bool repeat_counts(const struct analyze_timing *t, size_t repeat) {
    return !(t->failed && t->failed[repeat]) && !isnan(t->ms[repeat]);
}

/* Returns statistics of the values over the repeats that have a time and did not fail. */
static struct stats timing_stats(struct context *c, const struct analyze_timing *t, const double *values) {
    double *v = analysis_alloc(c, t->n, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (repeat_counts(t, i)) v[n++] = values[i];
    return stats_of_sorting(v, n);
}

/* Returns the median of time / work over the repeats, in ms per unit of work; NaN: no repeat has both. Rates
 * are the inverse of this median, so they agree with the median time if all repeats do the same work. */
static double ms_per_unit(struct context *c, const struct analyze_timing *t, const double *work) {
    double *ratio = analysis_alloc(c, t->n, sizeof *ratio);
    for (size_t i = 0; i < t->n; i++) ratio[i] = work[i] > 0 ? t->ms[i] / work[i] : NAN;
    return timing_stats(c, t, ratio).median;
}

/* Returns the median over the repeats with the input of the recorded request; over all repeats if no repeat
 * has that input. */
static double same_input_median(struct context *c, const struct analyze_timing *t, const double *values) {
    double *v = analysis_alloc(c, t->n, sizeof *v);
    for (size_t i = 0; i < t->n; i++) v[i] = !t->input || t->input[i] == t->recorded_input ? values[i] : NAN;
    struct stats s = timing_stats(c, t, v);
    return s.n ? s.median : timing_stats(c, t, values).median;
}

/* ---- time and tokens */

static double pick(double first, double second) { return isfinite(first) ? first : second; }

/* Returns the recorded time of one request in ns; NaN: unknown. If some kernels were not recorded, the time
 * on the device is unknown and the duration of the range is used. */
static double traced_time(const struct analysis_stage *s) {
    if (s->time_refused) return NAN;
    double all = s->missed > MISSED_LIMIT && !s->implicit ? s->host_ns : s->wall_total_ns;
    double ns = s->occurrences ? all / s->requests : NAN;
    return s->implicit && ns == 0 ? NAN : ns; /* nothing was recorded; the real duration is unknown, not 0 */
}

static const char *trace_source(struct context *c, const struct analysis_stage *s) {
    const char *n = analysis_count(c, s->finished);
    if (s->recorded_only)
        return analysis_text(c, "mean of %s recorded steps, which take longer than others", n);
    if (s->devices > 1)
        return analysis_text(c, "mean of %s occurrence%s and %u devices in the trace", n,
                             s->finished == 1 ? "" : "s", s->devices);
    return s->finished == 1 ? "one occurrence in the trace"
                            : analysis_text(c, "mean of %s occurrences in the trace", n);
}

static size_t failed_repeats(const struct analyze_timing *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) n += t->failed && t->failed[i];
    return n;
}

/* Returns true if no timed repeat has a time and some failed. The recorded request probably failed too, so
 * the stage has no time. */
static bool all_failed(const struct analysis_stage *s) {
    return s->timing && !s->timing_ms.n && failed_repeats(s->timing) > 0;
}

/* The time of unrecorded steps is their mean, as for recorded steps. The cv is for repeats of a measurement,
 * so it stays unknown. */
static void set_unrecorded_time(struct context *c, struct analysis_stage *s) {
    s->timing_ms.cv = NAN;
    s->same_input_ms = s->time_ms = s->timing_ms.mean;
    s->time_source =
        analysis_text(c, "mean of %s steps that were not recorded", analysis_count(c, s->timing_ms.n));
}

/* Returns the number of requests in the trace. Sums over occurrences include the part of an occurrence in
 * which recording ended, so this part counts as a fraction: the quotient is then the mean of the others. */
static double traced_requests(const struct context *c, const struct analysis_stage *s) {
    if (c->in->one_run || !s->occurrences) return 1;
    bool cut = s->finished < s->occurrences && s->wall_total_ns > 0 && s->wall_ns.mean > 0;
    return cut ? s->wall_total_ns / s->wall_ns.mean : (double)s->occurrences;
}

static void set_time(struct context *c, struct analysis_stage *s) {
    const struct analyze_timing *t = s->timing = find_timing(c, s);
    s->requests = traced_requests(c, s);
    if (s->occurrences) s->device_requests = s->device_steps * s->requests / (double)s->occurrences;
    double traced = traced_time(s);
    if (t) s->timing_ms = timing_stats(c, t, t->ms);
    if (s->timing_ms.n) {
        s->timing_ms.cv = analysis_timing_cv(c, t);
        s->same_input_ms = same_input_median(c, t, t->ms);
        s->time_ms = s->timing_ms.median;
        s->time_source = analysis_text(c, "median of %zu timed repeats", s->timing_ms.n);
        if (s->unrecorded) set_unrecorded_time(c, s);
        s->overhead_ratio = s->same_input_ms > 0 ? traced / (s->same_input_ms * 1e6) : NAN;
        s->recording_cost = s->overhead_ratio;
        if (t->work) s->recording_cost = pick(t->work->recorded_ms / s->same_input_ms, s->recording_cost);
        if (t->recording_cost > 0) s->recording_cost = t->recording_cost;
    } else if (all_failed(s)) {
        s->time_source = analysis_text(c, "none: %zu timed repeats failed", failed_repeats(t));
    } else if (s->time_refused) {
        s->time_source = analysis_text(c, "none: %s", s->time_refused);
    } else if (!isnan(traced)) {
        s->time_ms = traced / 1e6;
        s->time_source = trace_source(c, s);
    }
}

/* Returns time_ms in seconds; NaN: no time. Times of the trace are converted directly from ns to avoid
 * rounding. */
static double stage_seconds(const struct analysis_stage *s) {
    if (all_failed(s)) return NAN;
    return s->timing_ms.n ? s->time_ms * 1e-3 : traced_time(s) * 1e-9;
}

/* Returns the median token count of the timed repeats; NaN: unknown. */
static double timed_tokens(struct context *c, const struct analysis_stage *s, const double *tokens) {
    return s->timing_ms.n && tokens ? timing_stats(c, s->timing, tokens).median : NAN;
}

/* Sets the token counts and the rate. If the trace has no token counts, the counts of the timed repeats are
 * used. */
static void set_tokens(struct context *c, struct analysis_stage *s) {
    const struct analyze_timing *t = s->timing;
    double in = timed_tokens(c, s, t ? t->tokens_in : NULL),
           out = timed_tokens(c, s, t ? t->tokens_out : NULL);
    if (!s->token_source && (!isnan(in) || !isnan(out))) {
        s->token_source = "timing phase";
        s->tokens_in = in * s->requests;
        s->tokens_out = out * s->requests;
    }
    double with_tokens = s->finished < s->occurrences ? (double)s->finished : s->requests;
    double in_each = isnan(in) ? s->tokens_in / with_tokens : in;
    double out_each = isnan(out) ? s->tokens_out / with_tokens : out;
    double worked_on = in_each > out_each || isnan(out_each) ? in_each : out_each;
    double seconds = stage_seconds(s);
    if (seconds > 0) s->tokens_per_s = worked_on / seconds;
    const double *timed = !t ? NULL : t->tokens_in ? t->tokens_in : t->tokens_out;
    if (s->timing_ms.n && timed && !s->unrecorded)
        s->tokens_per_s = pick(1e3 / ms_per_unit(c, t, timed), s->tokens_per_s);
    if (s->unrecorded && timed) s->tokens_per_s = timing_stats(c, t, timed).mean / s->time_ms * 1e3;
    c->stage_scratch[s - c->a->stages].tokens_out_each = out_each;
    double traced = s->occurrences ? analysis_stage_tokens(s) / (double)s->finished : NAN;
    s->tokens = pick(t && t->work ? t->work->tokens : NAN, traced);
}

/* Kernels, launches and tokens of the finished occurrences of a stage. */
struct finished {
    double kernels, launches, tokens_out;
    size_t unfinished;
};

static struct finished finished_work(const struct context *c, const struct analysis_stage *s) {
    struct finished f = { 0 };
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (&c->a->stages[o->stage] != s) continue;
        f.unfinished += o->unfinished;
        if (o->unfinished) continue;
        f.kernels += o->kernels;
        f.launches += o->launches;
        if (!isnan(o->tokens_out)) f.tokens_out += o->tokens_out;
    }
    return f;
}

/* Reports the occurrences in which recording ended. */
static void note_unfinished(struct context *c, const struct analysis_stage *s, size_t unfinished) {
    if (!unfinished || s->implicit || c->in->one_run || c->a->recognised) return;
    const char *of = analysis_count(c, s->occurrences);
    if (unfinished < s->occurrences)
        analysis_note(
            c, ANALYSIS_INFO,
            "%s: recording ended in %zu of %s occurrences; means and figures per token exclude them", s->path,
            unfinished, of);
    else
        analysis_note(
            c, ANALYSIS_WARNING,
            "%s: recording ended before its kernels did, in %s: its time and kernels are those of the "
            "recorded part",
            s->path, s->occurrences == 1 ? "its only occurrence" : "all its occurrences");
}

/* Sets counts and energy per token. A prefill launches once for all tokens that it reads, so launches per
 * token are meaningless there. Occurrences during which recording ended are excluded if token counts are
 * known per occurrence. */
static void set_per_token(struct context *c, struct analysis_stage *s) {
    struct finished f = { (double)s->kernels, (double)s->launches, s->tokens_out, 0 };
    bool by_occurrence = s->token_source && (strcmp(s->token_source, "range labels") == 0 ||
                                             strcmp(s->token_source, "token records") == 0);
    struct finished finished = finished_work(c, s);
    note_unfinished(c, s, finished.unfinished);
    if (by_occurrence && finished.unfinished) f = finished;
    double made = f.tokens_out > 0 && s->occurrences && !(s->missed > MISSED_LIMIT) ? f.tokens_out : NAN;
    double worked_on = analysis_stage_tokens(s);
    s->kernels_per_token = s->time_refused ? NAN : f.kernels / made;
    bool has_launches = c->a->launches_total > 0; /* else they were not recorded */
    if (!s->on_cpu && has_launches && !(s->tokens_in > s->tokens_out))
        s->launches_per_token = f.launches / made;
    s->joules_per_token = worked_on > 0 ? s->joules / worked_on : NAN;
    s->tokens_per_joule = s->joules > 0 ? worked_on / s->joules : NAN;
}

static void note_steps_at_once(struct context *c, const struct analysis_stage *s) {
    if (!analysis_runs_at_once(s)) return;
    analysis_note(
        c, ANALYSIS_INFO,
        "%s: while one of its steps is open, %.1f steps are open at once on a device on average. The time "
        "of a step is its part of the device's time; on the host it is open for %.4g ms (mean)",
        s->path, s->at_once, s->host_each_ns.mean * 1e-6);
}

void analyze_times(struct context *c) {
    for (size_t i = 0; i < c->a->nstages; i++) {
        struct analysis_stage *s = &c->a->stages[i];
        if (s->outside) continue;
        set_time(c, s);
        set_tokens(c, s);
        set_per_token(c, s);
        note_steps_at_once(c, s);
    }
}

/* ---- the device */

/* Returns NaN for a ratio above 1 (beyond rounding): the two values are then not from the same run. */
static double share_of(double part, double whole) {
    double v = part / whole;
    return v >= 0 && v <= 1.001 ? fmin(v, 1) : NAN;
}

/* Sets the busy share and time. A GPU is busy for the same time in the timed repeats as in the recorded run.
 * Recording slows down kernels on a CPU, so there, and without timed repeats, the busy share of the recorded
 * run is used. */
static void set_busy(const struct context *c, struct analysis_stage *s) {
    double busy_ms = s->gpu_busy_ns / 1e6 / s->device_requests;
    bool not_recorded = c->in->one_run || s->unrecorded;
    double recorded = share_of(s->gpu_busy_ns, s->gpu_busy_ns + s->idle_ns),
           timed =
               not_recorded && s->timing_ms.n && !isnan(recorded) ? share_of(busy_ms, s->same_input_ms) : NAN;
    if (s->outside) return;
    s->kernels_each = s->occurrences ? (double)s->kernels / s->requests : NAN;
    if (s->joined) return;
    s->busy_share = s->on_cpu || (isnan(timed) && !s->unrecorded) ? recorded : timed;
    s->busy_ms = s->busy_share * s->time_ms;
}

/* Returns true if only a part of the stage's kernels was recorded. Its busy time is then incomplete. */
static bool lacks_kernels(const struct context *c, const struct analysis_stage *s) {
    if (!c->tl) return false;
    if (s->time_refused || analysis_has_unknown_kernels(c, s)) return true;
    double unmatched = (double)c->stage_scratch[s - c->a->stages].unmatched_launches;
    return s->missed > MISSED_LIMIT || analysis_is_truncated(c) ||
           (!s->on_cpu && unmatched > UNMATCHED_LIMIT * (double)s->launches);
}

void analyze_busy(struct context *c) {
    for (size_t i = 0; i < c->a->nstages; i++)
        if (!lacks_kernels(c, &c->a->stages[i])) set_busy(c, &c->a->stages[i]);
}

/* ---- the model */

/* Sets the cost of the recorded request, recorded_mfu and recorded_mbu. set_utilization() replaces the cost
 * if the timed repeats have their own. */
static void set_recorded_cost(struct context *c, struct analysis_stage *s) {
    const struct analyze_cost *cost = find_cost(c, s);
    if (!cost) return;
    double out_each = c->stage_scratch[s - c->a->stages].tokens_out_each;
    double times = cost->per_token ? out_each : 1;
    s->flops = cost->flops * times;
    s->bytes = cost->bytes * times;
    s->floor_ms = cost->floor_ns * times / 1e6;
    if (cost->peak_flops_per_s > 0) s->peak_flops_per_s = cost->peak_flops_per_s;
    if (cost->peak_bytes_per_s > 0) s->peak_bytes_per_s = cost->peak_bytes_per_s;
    if (cost->step_bytes > 0) s->step_bytes = cost->step_bytes;
    s->experts_assumed = cost->experts_assumed;
    s->level = cost->level;
    if (cost->experts_read > 0) s->experts_read = cost->experts_read;
    double seconds = s->timing_ms.n ? traced_time(s) * 1e-9 : stage_seconds(s);
    if (!(seconds > 0)) return;
    s->recorded_mfu = llm_utilization(s->flops, seconds, s->peak_flops_per_s);
    s->recorded_mbu = llm_utilization(s->bytes, seconds, s->peak_bytes_per_s);
}

static void set_ratios_of_repeats(struct context *c, struct analysis_stage *s) {
    const struct analyze_timing *t = s->timing;
    /* ms per unit of work are seconds per 1000 units */
    if (t->flops)
        s->mfu = pick(llm_utilization(1e3, ms_per_unit(c, t, t->flops), s->peak_flops_per_s), s->mfu);
    if (t->bytes)
        s->mbu = pick(llm_utilization(1e3, ms_per_unit(c, t, t->bytes), s->peak_bytes_per_s), s->mbu);
    if (!t->floor_ms) return;
    s->distance = pick(ms_per_unit(c, t, t->floor_ms), s->distance);
    s->same_input_floor_ms = same_input_median(c, t, t->floor_ms);
}

static void set_utilization(struct context *c, struct analysis_stage *s) {
    const struct analyze_work *work = s->timing && !c->a->costs_replaced ? s->timing->work : NULL;
    double seconds = stage_seconds(s);
    s->peak_flops_per_s = c->a->peak_flops_per_s;
    s->peak_bytes_per_s = c->a->peak_bytes_per_s;
    set_recorded_cost(c, s);
    if (work) {
        s->flops = pick(work->flops, s->flops);
        s->bytes = pick(work->bytes, s->bytes);
        s->floor_ms = pick(work->floor_ms, s->floor_ms);
    }
    double compute_ms = s->flops / s->peak_flops_per_s * 1e3,
           memory_ms = s->bytes / s->peak_bytes_per_s * 1e3;
    if (!isnan(compute_ms) && !isnan(memory_ms)) s->hard_bound_ms = fmax(compute_ms, memory_ms);
    if (!(seconds > 0)) return;
    s->mfu = llm_utilization(s->flops, seconds, s->peak_flops_per_s);
    s->mbu = llm_utilization(s->bytes, seconds, s->peak_bytes_per_s);
    s->distance = s->floor_ms > 0 ? s->time_ms / s->floor_ms : NAN;
    if (work && s->timing_ms.n) set_ratios_of_repeats(c, s);
    if (c->in->read_bytes_per_s > 0) s->mbu_read = s->mbu * s->peak_bytes_per_s / c->in->read_bytes_per_s;
}

/* Computes the means of MFU and MBU over the top-level stages, weighted by time; MBU only over timed
 * stages. */
static void set_model_utilization(struct analysis *a) {
    double mfu_seconds = 0, flops_seconds = 0, mbu_seconds = 0, timed_seconds = 0;
    for (size_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i];
        if (s->parent != ANALYSIS_NONE || s->outside) continue;
        if (!isnan(s->flops) && !isnan(s->time_ms)) {
            mfu_seconds += s->mfu * stage_seconds(s);
            flops_seconds += stage_seconds(s);
        }
        if (s->timing_ms.n) {
            mbu_seconds += s->mbu * stage_seconds(s);
            timed_seconds += stage_seconds(s);
        }
    }
    a->model_mfu = flops_seconds > 0 ? mfu_seconds / flops_seconds : NAN;
    a->model_mbu = timed_seconds > 0 ? mbu_seconds / timed_seconds : NAN;
}

void analyze_utilization(struct context *c) {
    for (size_t i = 0; i < c->a->nstages; i++)
        if (!c->a->stages[i].outside) set_utilization(c, &c->a->stages[i]);
    set_model_utilization(c->a);
}
