/* Compares the model's estimate with hardware counters. */
#include <math.h>

#include "analyze/counters.h"
#include "analyze/finding.h"
#include "base/util.h"

#define DIFFERS_RELATIVE 0.20 /* minimum difference, as a fraction of the larger value */
#define DIFFERS_POINTS 2.0    /* minimum difference in percentage points: small shares differ by chance */
#define ENOUGH_COVERED 0.50   /* minimum fraction of the stage's recorded wall time that samples cover */

static bool differs(double modelled_pct, double measured_pct) {
    double points = fabs(modelled_pct - measured_pct);
    return points > DIFFERS_POINTS && points > DIFFERS_RELATIVE * MAX(modelled_pct, measured_pct);
}

static const char *advice(double modelled_pct, double measured_pct, bool memory) {
    if (!(measured_pct > modelled_pct))
        return memory ? "Less data was moved than the model requires. Possible causes: weights smaller than "
                        "in the model file, weights that stay in the L2 cache, or the wrong model file."
                      : "Tensor cores did less work than the model requires. Possible causes: matrix "
                        "products that do not use tensor cores (fp32, GEMV), a type with a higher rate than "
                        "assumed, or the wrong model file.";
    return memory ? "More data was moved than the model requires. Possible causes: weights read twice, "
                    "activations written to memory between unfused kernels, padding, a larger type than "
                    "assumed, or the wrong model file."
                  : "Tensor cores did more work than the model requires. Possible causes: padding to tiles "
                    "or to the longest sequence, repeated work, a type with a lower rate than assumed, or "
                    "the wrong model file.";
}

static const char *percent_text(struct context *c, double percent) {
    return isnan(percent) ? "not" : analysis_text(c, "%.1f%%", percent);
}

/* Reports the resource with the larger difference in percentage points: memory bandwidth or arithmetic. */
void find_model_differs(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct counter_means *m = f->s->counters;
    if (!m || !(m->covered >= ENOUGH_COVERED)) return;
    double mfu_pct = 100 * f->s->recorded_mfu, mbu_pct = 100 * f->s->recorded_mbu;
    bool bytes = differs(mbu_pct, m->dram_pct), flops = differs(mfu_pct, m->tensor_at_peak_pct);
    if (!bytes && !flops) return;
    bool memory = bytes && !(flops && fabs(mfu_pct - m->tensor_at_peak_pct) > fabs(mbu_pct - m->dram_pct));
    double modelled = memory ? mbu_pct : mfu_pct, measured = memory ? m->dram_pct : m->tensor_at_peak_pct;
    const char *title =
        analysis_text(c, "%s: counters measured %.1f%% of the %s, the model predicts %.1f%%", f->s->name,
                      measured, memory ? "memory bandwidth" : "tensor peak", modelled);
    const char *evidence = analysis_text(
        c,
        "over the recorded run, of which samples cover %.0f%%: DRAM %s measured and %s modelled, "
        "tensor pipes %s measured (at the clock of their peak) and %s modelled",
        100 * m->covered, percent_text(c, m->dram_pct), percent_text(c, mbu_pct),
        percent_text(c, m->tensor_at_peak_pct), percent_text(c, mfu_pct));
    finding_emit(c, rule, f, NAN, ANALYSIS_MEDIUM, title, evidence, advice(modelled, measured, memory));
}
