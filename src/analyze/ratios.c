/* Ratios of earlier results, for the tables: rates, shares, and times per request and device. */
#include <math.h>

#include "analyze/internal.h"

static void kernel_ratios(struct analysis *a) {
    for (size_t i = 0; i < a->nkernels; i++) {
        struct analysis_kernel *k = &a->kernels[i];
        k->flop_per_s = k->flops / k->work_ns * 1e9;
        k->byte_per_s = k->bytes / k->work_ns * 1e9;
    }
}

static void operator_ratios(const struct analysis *a, struct analysis_operator *v, size_t n) {
    double busy = a->conservation.busy;
    for (size_t i = 0; i < n; i++) {
        /* only products and attention are counted: 0 FLOP/s of a norm would be no rate */
        v[i].flop_per_s = v[i].flops > 0 ? v[i].flops / v[i].work_ns * 1e9 : NAN;
        v[i].byte_per_s = v[i].bytes / v[i].work_ns * 1e9;
        v[i].device_share = busy > 0 ? v[i].gpu_self_ns / busy : NAN;
    }
}

static void gemm_ratios(struct analysis *a) {
    double busy = a->conservation.busy;
    for (size_t i = 0; i < a->ngemms; i++) {
        struct analysis_gemm *g = &a->gemms[i];
        g->mean_ns = g->total_ns / (double)g->calls;
        g->share = busy > 0 ? g->owned_ns / busy : NAN;
        g->flop_per_s = g->flops / g->total_ns * 1e9;
        g->peak_share = g->compute_ns / g->total_ns;
    }
}

static void device_ratios(struct analysis *a) {
    for (size_t i = 0; i < a->ndevices; i++) {
        struct analysis_device *d = &a->devices[i];
        d->communication_exposed_ns = d->communication_ns - d->communication_hidden_ns;
        d->communication_overlap = d->communication_hidden_ns / d->communication_ns;
        d->exposed_share = d->communication_exposed_ns / d->busy_ns;
    }
}

static void sum_unrecorded(struct analysis *a) {
    struct analysis_unrecorded *u = &a->unrecorded;
    for (size_t i = 0; i < a->ndevices; i++) {
        const struct analysis_device *d = &a->devices[i];
        if (!(d->unrecorded_ns > 0)) continue;
        u->least_limit_ns =
            u->devices ? fmin(u->least_limit_ns, d->unrecorded_limit_ns) : d->unrecorded_limit_ns;
        u->most_limit_ns =
            u->devices ? fmax(u->most_limit_ns, d->unrecorded_limit_ns) : d->unrecorded_limit_ns;
        u->ns += d->unrecorded_ns;
        u->devices++;
    }
}

static void stage_ratios(struct analysis *a) {
    for (size_t i = 0; i < a->nstages; i++) {
        struct analysis_stage *s = &a->stages[i];
        bool is_timed = s->timing_ms.n > 0;
        s->idle_share = 1 - s->busy_share;
        s->recorded_busy_ms =
            isfinite(s->busy_ms) && is_timed ? s->gpu_busy_ns * 1e-6 / s->device_requests : s->busy_ms;
        s->idle_ms = s->idle_ns * 1e-6 / s->device_requests;
        for (int k = 0; k < ANALYSIS_IDLE_CAUSES; k++)
            s->idle_cause_ms[k] = s->idle.ns[k] * 1e-6 / s->device_requests;
        s->removable_ms = s->idle.graph_removable_ns * 1e-6 / s->device_requests;
        s->removable_share = s->idle.graph_removable_ns / (s->gpu_busy_ns + s->idle_ns);
        s->recorded_ms = s->wall_total_ns * 1e-6 / s->requests;
        s->spread_ms = s->timing_ms.cv * s->timing_ms.mean;
        if (is_timed) s->total_ms = s->timing_ms.mean * (double)s->timing_ms.n;
    }
}

static void add_part(struct context *c, size_t device, const char *name, uint64_t steps, double time_ns,
                     double busy_ns) {
    struct analysis_part *p = &c->a->parts[c->a->nparts++];
    *p = (struct analysis_part){ .device = (uint32_t)device,
                                 .name = name,
                                 .steps = steps,
                                 .time_ns = time_ns,
                                 .busy_ns = busy_ns,
                                 .share = time_ns / c->a->devices[device].timeline_ns,
                                 .busy_share = busy_ns / time_ns };
}

/* Returns true if a part of the device's timeline may be that of another stage. */
static bool parts_are_unknown(const struct analysis *a, size_t device) {
    for (size_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage_device *on = analysis_stage_on(a, i, device);
        if (a->stages[i].time_refused && on->busy_ns + on->idle_ns > 0) return true;
    }
    return false;
}

static void find_parts(struct context *c) {
    struct analysis *a = c->a;
    a->parts = analysis_alloc(c, a->ndevices * (a->nstages + 1), sizeof *a->parts);
    for (size_t d = 0; d < a->ndevices; d++) {
        if (!a->devices[d].kernels || parts_are_unknown(a, d)) continue;
        for (size_t i = 0; i < a->nstages; i++) {
            const struct analysis_stage_device *on = analysis_stage_on(a, i, d);
            double time_ns = on->busy_ns + on->idle_ns;
            if (a->stages[i].parent == ANALYSIS_NONE && time_ns > 0)
                add_part(c, d, a->stages[i].name, on->steps, time_ns,
                         a->stages[i].joined ? NAN : on->busy_ns);
        }
        if (a->devices[d].unrecorded_ns > 0)
            add_part(c, d, "unrecorded", 0, a->devices[d].unrecorded_ns, NAN);
    }
}

void analyze_ratios(struct context *c) {
    struct analysis *a = c->a;
    kernel_ratios(a);
    operator_ratios(a, a->operators, a->noperators);
    operator_ratios(a, a->operators_by_shape, a->noperators_by_shape);
    gemm_ratios(a);
    device_ratios(a);
    sum_unrecorded(a);
    stage_ratios(a);
    find_parts(c);
}
