/* Explains ratios beyond their limit: a distance under 1, or MFU, MBU or a share of the roof over 100%. The
 * reasons are tried in order, and the first one with evidence is used. */
#include <math.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/units.h"
#include "llm/gpus.h"

#define MIB (1024.0 * 1024)
/* If the working set is at most this many times the L2 cache, every pass reads a part of it from the
 * cache. */
#define CACHE_REACH 2

struct ratios {
    bool distance, compute, memory; /* true: beyond its limit */
    const char *list;               /* "distance 0.47x, MBU 203%" */
    double step_bytes;              /* per pass; NaN: unknown */
    bool on_cpu, experts_assumed;
    bool whole_stage; /* false: a single kernel or operator */
    double hard_bound_ms;
};

static const char *bytes_text(struct context *c, double bytes) {
    char text[40];
    return analysis_text(c, "%s", units_bytes(bytes, text, sizeof text));
}

static const char *source_of(const struct context *c) {
    return c->a->peak_source ? c->a->peak_source : "source unknown";
}

static bool source_says(const struct context *c, const char *words) {
    return c->a->peak_source && strstr(c->a->peak_source, words);
}

/* Returns the L2 cache size of the GPU: from the trace, else from the table of GPUs. NaN: unknown. */
static double l2_bytes(const struct context *c) {
    for (size_t i = 0; c->tl && i < c->tl->ndevices; i++)
        if (!c->tl->devices[i].is_cpu && c->tl->devices[i].l2_bytes > 0)
            return (double)c->tl->devices[i].l2_bytes;
    return c->in->gpu && c->in->gpu->l2_mb > 0 ? c->in->gpu->l2_mb * MIB : NAN;
}

/* Finds a GPU whose highest sampled clock is above the clock for which its peak is specified, and sets both.
 * Returns false if there is none. */
static bool clock_above_peak(const struct context *c, double *mhz, double *peak_mhz) {
    for (size_t i = 0; i < c->a->npowers; i++) {
        *mhz = c->a->powers[i].sm_mhz_max;
        *peak_mhz = analysis_peak_clock_hz(c->a, c->a->powers[i].device) * 1e-6;
        if (*mhz > *peak_mhz) return true;
    }
    return false;
}

static struct analysis_over over(struct context *c, const struct ratios *r, const char *brief,
                                 const char *text) {
    return (struct analysis_over){ brief, analysis_text(c, "%s: %s", r->list, text) };
}

static bool explain_given(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!source_says(c, "given by")) return false;
    *out = over(c, r, "peaks given by the user",
                analysis_text(c,
                              "the peaks are not those of the table (%s); check them, and that the model is "
                              "the one that ran",
                              source_of(c)));
    return true;
}

static bool explain_cpu_cache(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!r->on_cpu || !r->memory || source_says(c, "by working-set size")) return false;
    *out = over(c, r, "weights in a CPU cache",
                analysis_text(c,
                              "the bandwidth is that of reading DRAM, and the %s that a step reads can stay "
                              "in a cache of the CPU; `inferprof calibrate` measures the caches",
                              r->step_bytes > 0 ? bytes_text(c, r->step_bytes) : "data"));
    return true;
}

static bool explain_gpu_cache(struct context *c, const struct ratios *r, struct analysis_over *out) {
    double l2 = l2_bytes(c);
    if (r->on_cpu || !(r->memory || r->distance) || !(r->step_bytes <= CACHE_REACH * l2)) return false;
    *out = over(c, r, "data in the L2 cache",
                analysis_text(c,
                              "the bandwidth is that of the device's memory, and much of the %s that a pass "
                              "reads can stay in the L2 cache of %s",
                              bytes_text(c, r->step_bytes), bytes_text(c, l2)));
    return true;
}

static bool explain_busy(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!r->on_cpu || !source_says(c, "while it was busy")) return false;
    *out = over(c, r, "peaks measured on a busy CPU",
                "the peaks were measured while other programs used the CPU and are too low; run `inferprof "
                "calibrate` when it is idle");
    return true;
}

static bool explain_clock(struct context *c, const struct ratios *r, struct analysis_over *out) {
    double mhz, peak_mhz;
    if (!r->compute || r->on_cpu || !c->tl || !clock_above_peak(c, &mhz, &peak_mhz)) return false;
    *out = over(c, r, "clock above that of the peak",
                analysis_text(c, "the GPU ran at up to %.0f MHz, and its peak is stated for %.0f MHz (%s)",
                              mhz, peak_mhz, source_of(c)));
    return true;
}

static bool explain_routing(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!r->experts_assumed || !(r->memory || r->distance)) return false;
    *out = over(c, r, "fewer experts read than assumed",
                "the bytes assume that tokens are routed evenly over the experts of a layer; uneven routing "
                "reads fewer of them");
    return true;
}

static bool explain_overlap(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!r->whole_stage || r->compute || r->memory) return false;
    *out = over(c, r, "operators overlap",
                analysis_text(c,
                              "the roofline time runs one operator after the other, and operators that "
                              "overlap beat it; the hard bound of %.3g ms is not beaten",
                              r->hard_bound_ms));
    return true;
}

static bool explain_cpu_clock(struct context *c, const struct ratios *r, struct analysis_over *out) {
    if (!r->on_cpu) return false;
    *out = over(c, r, "above the measured peaks",
                analysis_text(c,
                              "the CPU was faster than when its peaks were measured (%s): another clock, "
                              "other programs, products of a smaller type than float, or data that stayed "
                              "in a cache; run `inferprof calibrate` again on an idle machine",
                              source_of(c)));
    return true;
}

static void explain_mismatch(struct context *c, const struct ratios *r, struct analysis_over *out) {
    const char *text =
        r->whole_stage
            ? analysis_text(c,
                            "the model's cost or the peaks (%s) are not those of this run: another model or "
                            "batch, fewer weights read than the model has, or another device",
                            source_of(c))
            : analysis_text(c,
                            "the counted FLOPs or bytes, or the peaks (%s), are not those of this call: data "
                            "that stayed in a cache, a smaller type, or another device",
                            source_of(c));
    *out = over(c, r, "cost or peaks of another run", text);
}

static struct analysis_over explain(struct context *c, const struct ratios *r) {
    static bool (*const reasons[])(struct context *, const struct ratios *, struct analysis_over *) = {
        explain_given, explain_busy,    explain_cpu_cache, explain_gpu_cache,
        explain_clock, explain_routing, explain_overlap,   explain_cpu_clock,
    };
    struct analysis_over out = { 0 };
    if (!r->distance && !r->compute && !r->memory) return out;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i](c, r, &out)) return out;
    explain_mismatch(c, r, &out);
    return out;
}

/* ---- stages, points, the model */

static const char *list_add(struct context *c, const char *list, const char *name, double value,
                            const char *unit) {
    return analysis_text(c, "%s%s%s %.*f%s", list, *list ? ", " : "", name, *unit == 'x' ? 2 : 1, value,
                         unit);
}

static void explain_stage(struct context *c, struct analysis_stage *s) {
    struct ratios r = { .distance = s->distance<1, .compute = s->mfu> 1 || s->recorded_mfu > 1,
                        .memory = s->mbu > 1 || s->recorded_mbu > 1 || s->mbu_read > 1,
                        .list = "",
                        .step_bytes = s->step_bytes,
                        .on_cpu = s->on_cpu || (c->a->cpu_only && !c->in->gpu),
                        .experts_assumed = s->experts_assumed,
                        .whole_stage = true,
                        .hard_bound_ms = s->hard_bound_ms };
    if (r.distance) r.list = list_add(c, r.list, "distance", s->distance, "x");
    if (s->mfu > 1) r.list = list_add(c, r.list, "MFU", 100 * s->mfu, "%");
    if (s->mbu > 1) r.list = list_add(c, r.list, "MBU", 100 * s->mbu, "%");
    if (r.compute && !(s->mfu > 1)) r.list = list_add(c, r.list, "recorded MFU", 100 * s->recorded_mfu, "%");
    if (s->recorded_mbu > 1 && !(s->mbu > 1))
        r.list = list_add(c, r.list, "recorded MBU", 100 * s->recorded_mbu, "%");
    if (s->mbu_read > 1)
        r.list = list_add(c, r.list, "MBU of the measured read bandwidth", 100 * s->mbu_read, "%");
    s->over = explain(c, &r);
}

static void explain_point(struct context *c, struct analysis_point *p) {
    if (p->stage != ANALYSIS_NONE) p->over = c->a->stages[p->stage].over;
    if (!(p->attained > 1) || p->over.text) return;
    struct ratios r = { .compute = !p->memory_bound,
                        .memory = p->memory_bound,
                        .list = analysis_text(c, "%.1f%% of the roof", 100 * p->attained),
                        .step_bytes = p->stage == ANALYSIS_NONE ? p->bytes : NAN,
                        .on_cpu = c->a->cpu_only && !c->in->gpu,
                        .whole_stage = p->stage != ANALYSIS_NONE };
    p->over = explain(c, &r);
}

/* If a ratio of the model is beyond its limit, so is a ratio of a stage, because the ratios of the model are
 * means over stages. The model gets the explanation of the first top-level stage that has one. */
static void explain_model(struct context *c) {
    struct analysis *a = c->a;
    if (!(a->model_mfu > 1) && !(a->model_mbu > 1)) return;
    for (size_t i = 0; i < a->nstages && !a->model_over.text; i++)
        if (a->stages[i].parent == ANALYSIS_NONE && a->stages[i].over.text)
            a->model_over =
                (struct analysis_over){ a->stages[i].over.brief, analysis_text(c, "%s: %s", a->stages[i].name,
                                                                               a->stages[i].over.text) };
}

void analyze_over_peak(struct context *c) {
    for (size_t i = 0; i < c->a->nstages; i++) explain_stage(c, &c->a->stages[i]);
    for (size_t i = 0; i < c->a->nroofline; i++) explain_point(c, &c->a->roofline[i]);
    explain_model(c);
}
