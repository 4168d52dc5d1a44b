/* The roofline. FLOPs and bytes of stages come from the model; of kernels, from GEMM records, operator
 * shapes or hardware counters; of operators, from the engine or their shapes. */
#include <math.h>

#include "analyze/counters.h"
#include "analyze/internal.h"
#include "base/util.h"
#include "base/vec.h"

#define OPERATOR_POINTS 40
#define COUNTER_LEAST_PCT 1.0 /* in percent of the peak; a lower value is mostly counter noise */

struct points {
    struct analysis_point *v;
    size_t n, cap;
};

/* Completes and adds a point; skips it if FLOPs, bytes or time are unknown, or bytes or time are 0.
 * p.peak_flop_per_s and `bandwidth` are its peaks; NaN: the peaks of the device. */
static void add_point(const struct context *c, struct points *out, struct analysis_point p,
                      double bandwidth) {
    if (isnan(p.flops) || isnan(p.bytes) || !(p.bytes > 0) || !(p.time_ns > 0)) return;
    if (!(p.peak_flop_per_s > 0)) p.peak_flop_per_s = c->a->peak_flops_per_s;
    if (!(bandwidth > 0)) bandwidth = c->a->peak_bytes_per_s;
    double peak = p.peak_flop_per_s, seconds = p.time_ns * 1e-9;
    p.intensity = p.flops / p.bytes;
    p.flop_per_s = p.flops / seconds;
    p.byte_per_s = p.bytes / seconds;
    p.roof_flop_per_s = isnan(peak) || isnan(bandwidth) ? NAN : fmin(peak, p.intensity * bandwidth);
    p.attained = p.flops > 0 ? p.flop_per_s / p.roof_flop_per_s : p.byte_per_s / bandwidth;
    p.memory_bound = p.intensity * bandwidth < peak;
    vec_push(out, p);
}

static struct analysis_point stage_point(const struct analysis_stage *s, uint32_t row) {
    return (struct analysis_point){ .label = s->path,
                                    .stage = row,
                                    .kernel = ANALYSIS_NONE,
                                    .flops = s->flops,
                                    .bytes = s->bytes,
                                    .time_ns = s->time_ms * 1e6,
                                    .peak_flop_per_s = s->peak_flops_per_s,
                                    .source = "model" };
}

/* Returns a point from GEMM records or operator shapes, else from counters: bytes from DRAM, FLOPs from the
 * tensor pipes' share of the peak. A kernel that does not use tensor cores gets no point from counters. */
static struct analysis_point kernel_point(const struct analysis *a, uint32_t row) {
    const struct analysis_kernel *k = &a->kernels[row];
    const struct counter_row *r =
        a->counters && isnan(k->flops) ? counters_of_kernel(a->counters, row) : NULL;
    bool counted = r && r->tensor_at_peak_pct >= COUNTER_LEAST_PCT && r->dram_pct >= COUNTER_LEAST_PCT;
    double ns = counted || isnan(k->work_ns) ? k->mean_ns : k->work_ns, seconds = k->mean_ns * 1e-9;
    return (struct analysis_point){ .label = k->short_name,
                                    .stage = ANALYSIS_NONE,
                                    .kernel = row,
                                    .flops = counted
                                                 ? r->tensor_at_peak_pct / 100 * a->peak_flops_per_s * seconds
                                                 : k->flops,
                                    .bytes = counted ? r->dram_bytes_per_s * seconds : k->bytes,
                                    .time_ns = ns,
                                    .peak_flop_per_s = counted ? NAN : k->flops / k->compute_ns * 1e9,
                                    .source = counted ? "counters" : k->work_source };
}

static struct analysis_point operator_point(const struct analysis_operator *o) {
    return (struct analysis_point){ .label = o->name,
                                    .stage = ANALYSIS_NONE,
                                    .kernel = ANALYSIS_NONE,
                                    .flops = o->flops,
                                    .bytes = o->bytes,
                                    .time_ns = o->work_ns,
                                    .peak_flop_per_s = o->flops / o->compute_ns * 1e9,
                                    .source = o->work_source };
}

void analyze_roofline(struct context *c) {
    struct analysis *a = c->a;
    struct points out = { 0 };
    for (uint32_t i = 0; i < a->nstages; i++)
        add_point(c, &out, stage_point(&a->stages[i], i), a->stages[i].peak_bytes_per_s);
    for (uint32_t i = 0; i < a->nkernels; i++) add_point(c, &out, kernel_point(a, i), NAN);
    for (size_t i = 0; i < MIN(a->noperators, OPERATOR_POINTS); i++)
        add_point(c, &out, operator_point(&a->operators[i]), NAN);
    a->roofline = out.v ? analysis_keep(c, out.v) : NULL;
    a->nroofline = out.n;
}
