/* Findings about the run as a whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/finding.h"
#include "base/util.h"

void find_throttle(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    for (size_t i = 0; i < c->a->npowers; i++) {
        const struct analysis_power *p = &c->a->powers[i];
        double busy = c->a->devices[p->device].busy_ns;
        if (!p->throttled_by || p->throttled_ns < 0.02 * MIN(busy, p->covered_ns)) continue;
        double slower = 1 - p->sm_mhz_busy_mean / p->sm_mhz_max;
        finding_emit(
            c, rule, f, slower > 0 ? busy * slower * 1e-6 : NAN, ANALYSIS_MEDIUM,
            analysis_text(c, "The GPU ran at reduced clocks for %s: %s",
                          finding_time(c, p->throttled_ns * 1e-6), p->throttled_by),
            analysis_text(
                c,
                "SM clock %.0f MHz while busy, %.0f MHz at most; %.0f W on average%s, %.0f W at most "
                "in the samples",
                p->sm_mhz_busy_mean, p->sm_mhz_max, p->watts_mean,
                p->watts_mean > p->watts_max ? " by the energy counter" : "", p->watts_max),
            "Check the power limit and cooling; compare runs only at equal clocks (nvidia-smi -lgc).");
    }
}

/* Returns true for sub-stages, whose variation is already reported for their parent. */
static bool is_part(const struct context *c, const char *name) {
    for (size_t i = 0; i < c->a->nstages; i++)
        if (c->a->stages[i].parent != ANALYSIS_NONE &&
            (strcmp(c->a->stages[i].name, name) == 0 || strcmp(c->a->stages[i].path, name) == 0))
            return true;
    return false;
}

void find_failures(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analyze_input *in = c->in;
    if (!in->failure || !in->nfailed) return;
    bool all = in->nfailed >= in->nrequests;
    finding_emit(c, rule, f, NAN, ANALYSIS_HIGH,
                 all ? analysis_text(c, "All requests failed: %zu", in->nfailed)
                     : analysis_text(c, "%zu of %zu requests failed", in->nfailed, in->nrequests),
                 in->failure,
                 all ? "Fix the cause in the message and run again: there are no times to report."
                     : "Fix the cause in the message. The times are those of the other requests.");
}

void find_variance(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    for (size_t i = 0; i < c->a->nstability; i++) {
        const struct analysis_stability *s = &c->a->stability[i];
        if (!s->unstable || is_part(c, s->stage)) continue;
        const char *drift = s->drift_shown
                                ? analysis_text(c, "; drifts by %+.1f%% from first to last", s->drift_percent)
                                : "";
        finding_emit(
            c, rule, f, NAN, ANALYSIS_HIGH,
            analysis_text(c, "%s varies too much to compare small differences: CV %.1f%%", s->stage,
                          100 * s->cv),
            analysis_text(c, "%zu repeats, median %s, %s to %s, outliers: %zu, failed: %zu%s", s->ms.n,
                          finding_time(c, s->ms.median), finding_time(c, s->ms.min),
                          finding_time(c, s->ms.max), s->outliers, s->failed, drift),
            "Lock clocks, pin the process to cores, stop other work on the machine, and run more repeats.");
    }
}

void find_overhead(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    for (uint32_t i = 0; i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        if (s->parent != ANALYSIS_NONE || !(s->recording_cost > 1.25)) continue;
        const char *consequence = s->on_cpu ? "shares are valid, times of single operators are too large"
                                            : "kernel times are valid, idle times are too large";
        finding_emit(c, rule, f, NAN, ANALYSIS_HIGH,
                     analysis_text(c, "The recorded run of %s was %.0f%% slower than the timed ones", s->name,
                                   100 * (s->recording_cost - 1)),
                     analysis_text(c, "%s while recorded, %s in the timing phase: %s",
                                   finding_time(c, s->recording_cost * s->same_input_ms),
                                   finding_time(c, s->same_input_ms), consequence),
                     "Record less if you need times of single kernels and gaps: profiling=min (profile), "
                     "--preset min (run).");
    }
}

/* Returns true if kernels and idle time outside of stages can be those of a stage. */
static bool stages_are_unknown(const struct analysis *a) {
    for (size_t i = 0; i < a->nstages; i++)
        if (a->stages[i].time_refused) return true;
    return false;
}

/* Reports the idle time of the row between steps, as the mean over the devices. */
void find_idle_between(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis *a = c->a;
    double idle = 0, unknown = 0, timeline = 0, devices = 0;
    for (size_t i = 0; i < a->ndevices; i++) {
        if (!a->devices[i].kernels || a->timeline->devices[i].is_cpu) continue;
        const struct analysis_stage_device *on = analysis_stage_on(a, c->outside, i);
        idle += on->idle_ns;
        unknown += on->cause_ns[ANALYSIS_IDLE_UNKNOWN];
        timeline += a->devices[i].timeline_ns;
        devices++;
    }
    if (!(idle > 0.15 * timeline) || stages_are_unknown(c->a)) return;
    const char *before = unknown > 0
                             ? analysis_text(c, "; %s of it before work whose launch was not recorded",
                                             finding_time(c, unknown * 1e-6 / devices))
                             : "";
    finding_emit(
        c, rule, f, NAN, ANALYSIS_MEDIUM,
        analysis_text(c, "The GPU is idle for %.0f%% of the recorded time outside of stages",
                      100 * idle / timeline),
        analysis_text(c, "%s of %s%s; not included in any stage%s", finding_time(c, idle * 1e-6 / devices),
                      finding_time(c, timeline * 1e-6 / devices), devices > 1 ? " per device" : "", before),
        "If the program was processing requests in that time, mark the work as a stage too "
        "(NAME=GLOB). If it was waiting for requests, ignore this.");
}

void find_outside(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis_conservation *v = &c->a->conservation;
    if (!(v->outside_stages > 0.2 * v->busy) || c->a->stages[0].implicit || c->a->recognised ||
        stages_are_unknown(c->a))
        return;
    const char *unmatched = v->unmatched > 0 ? analysis_text(c, "; for %s of it the launch was not recorded",
                                                             finding_time(c, v->unmatched * 1e-6))
                                             : "";
    finding_emit(c, rule, f, NAN, ANALYSIS_HIGH,
                 analysis_text(c, "%.0f%% of the %s time is outside of stages",
                               100 * v->outside_stages / v->busy, c->a->cpu_only ? "busy" : "GPU"),
                 analysis_text(c, "%s of %s%s", finding_time(c, v->outside_stages * 1e-6),
                               finding_time(c, v->busy * 1e-6), unmatched),
                 c->in->one_run
                     ? "This work ran outside the measured request (loading, creating weights, warm-up) and "
                       "is not part of any stage; the kernel tables include it."
                     : "Define more ranges as stages (NAME=GLOB), or record from the start of the program.");
}
