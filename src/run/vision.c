#include "run/vision.h"

#include <math.h>
#include <string.h>

#include "analyze/analyze.h"
#include "llm/cost.h"

static double pick(double first, double second) { return isfinite(first) ? first : second; }

/* NaN: the run does not have this figure */
static double figure_median(const struct run_info *run, const char *key) {
    for (size_t i = 0; i < run->nfigures; i++)
        if (strcmp(run->figures[i].key, key) == 0) return run_figure_stats(run, &run->figures[i]).median;
    return NAN;
}

struct run_vision run_vision(const struct run_info *run) {
    const struct analysis *a = run->analysis;
    struct run_vision x = { .flops = 0, .rest_flops = NAN };
    double sum_ms = 0, prefill_ms = NAN, peak = pick(run->peak.flops_per_s, a ? a->peak_flops_per_s : NAN);
    for (size_t i = 0; a && i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i];
        if (s->parent_name && strcmp(s->parent_name, "prefill") == 0 && !s->outside) {
            x.parts++;
            x.flops += s->flops;
            sum_ms += s->time_ms;
        } else if (!s->parent_name && strcmp(s->name, "prefill") == 0) {
            x.rest_flops = s->flops;
            prefill_ms = s->time_ms;
        }
    }
    if (!x.parts) x.flops = sum_ms = NAN;
    x.ms = pick(figure_median(run, "vision"), sum_ms);
    x.rest_ms = pick(figure_median(run, "prefill_without_vision"), prefill_ms - sum_ms);
    x.rest_flops -= x.flops;
    x.mfu = llm_utilization(x.flops, x.ms * 1e-3, peak);
    x.rest_mfu = llm_utilization(x.rest_flops, x.rest_ms * 1e-3, peak);
    return x;
}
