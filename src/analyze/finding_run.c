/* Findings about the run as a whole. */
#include <math.h>
#include <stdlib.h>

#include "analyze/finding.h"
#include "base/util.h"

void find_throttle(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    for (size_t i = 0; i < c->a->npowers; i++) {
        const struct analysis_power *p = &c->a->powers[i];
        double busy = c->a->devices[p->device].busy_ns;
        if (!p->throttled_by || p->throttled_ns < 0.02 * MIN(busy, p->covered_ns)) continue;
        double slower = 1 - p->sm_mhz_busy_mean / p->sm_mhz_max;
        finding_emit(
            c, rule, f, slower > 0 ? busy * slower * 1e-6 : NAN, ANALYSIS_MEDIUM,
            analysis_text(c, "The GPU ran below its clocks for %.3g ms: %s", p->throttled_ns * 1e-6,
                          p->throttled_by),
            analysis_text(c,
                          "SM clock %.0f MHz while busy, %.0f MHz at most; %.0f W on average, %.0f W at most",
                          p->sm_mhz_busy_mean, p->sm_mhz_max, p->watts_mean, p->watts_max),
            "Check power limit and cooling; compare runs only at equal clocks (nvidia-smi -lgc).");
    }
}

void find_communication(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    double all = 0, hidden = 0, busy = 0;
    for (size_t i = 0; i < c->a->ndevices; i++) {
        const struct analysis_device *d = &c->a->devices[i];
        if (!(d->communication_ns > 0)) continue;
        all += d->communication_ns, hidden += d->communication_hidden_ns, busy += d->busy_ns;
    }
    if (!(all > 0) || all - hidden < 0.05 * busy) return;
    double devices = 0;
    for (size_t i = 0; i < c->a->ndevices; i++) devices += c->a->devices[i].communication_ns > 0;
    finding_emit(
        c, rule, f, (all - hidden) * 1e-6 / devices, ANALYSIS_LOW,
        analysis_text(c, "Communication is exposed for %.3g ms a device", (all - hidden) * 1e-6 / devices),
        analysis_text(
            c,
            "%.3g ms of communication kernels a device, %.0f%% of it beside other kernels; waiting for the "
            "slowest rank is part of it",
            all * 1e-6 / devices, 100 * hidden / all),
        "Overlap it with computation, fuse all-reduce with its neighbours, or split the model over fewer devices.");
}

void find_variance(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    for (size_t i = 0; i < c->a->nstability; i++) {
        const struct analysis_stability *s = &c->a->stability[i];
        if (!s->unstable && !s->failed) continue;
        const char *drift = s->drift_shown
                                ? analysis_text(c, "; drifts by %+.1f%% from first to last", s->drift_percent)
                                : "";
        finding_emit(
            c, rule, f, NAN, ANALYSIS_HIGH,
            s->unstable ? analysis_text(c, "%s varies too much to conclude from small differences: CV %.1f%%",
                                        s->stage, 100 * s->ms.cv)
                        : analysis_text(c, "%s failed in %zu repeats", s->stage, s->failed),
            analysis_text(c, "%zu repeats, median %.4g ms, %.4g to %.4g ms, %zu outliers, %zu failed%s",
                          s->ms.n, s->ms.median, s->ms.min, s->ms.max, s->outliers, s->failed, drift),
            "Lock clocks, pin the process to cores, keep other work off the machine, and run more repeats.");
    }
}

void find_overhead(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    for (uint32_t i = 0; i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        if (s->parent != ANALYSIS_NONE || !(s->overhead_ratio > 1.25)) continue;
        finding_emit(
            c, rule, f, NAN, ANALYSIS_HIGH,
            analysis_text(c, "Recording made %s %.0f%% slower", s->name, 100 * (s->overhead_ratio - 1)),
            analysis_text(
                c,
                "%.4g ms while recorded, %.4g ms in the timing phase: shares hold, idle times are too large",
                s->overhead_ratio * s->time_ns * 1e-6, s->time_ns * 1e-6),
            "Use a lighter preset (detail=min) for times of single kernels and gaps.");
    }
}

void find_outside(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    const struct analysis_conservation *v = &c->a->conservation;
    if (!(v->outside_stages > 0.2 * v->busy) || c->a->stages[0].implicit) return;
    finding_emit(
        c, rule, f, NAN, ANALYSIS_HIGH,
        analysis_text(c, "%.0f%% of the GPU time belongs to no stage", 100 * v->outside_stages / v->busy),
        analysis_text(c, "%.3g ms of %.3g ms; %.3g ms of it because its launch was not recorded",
                      v->outside_stages * 1e-6, v->busy * 1e-6, v->unmatched * 1e-6),
        "Name more ranges as stages (NAME=GLOB), or record from the start of the program.");
}
