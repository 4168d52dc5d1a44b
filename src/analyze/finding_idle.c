/* Findings about a GPU that waits. */
#include <math.h>
#include <stdlib.h>

#include "analyze/finding.h"
#include "base/util.h"

#define SHORT_KERNEL_NS 50000.0 /* longer kernels hide the launch of the next one, unless the host stalls */

static double cause_ms(const struct finding_stage *f, enum analysis_idle_cause cause) {
    return f->s->idle.ns[cause] * 1e-6 / f->devices;
}

/* No more can be saved than the stage takes beyond its GPU work, when nothing but the clock was on. */
static double bounded(const struct finding_stage *f, double saving_ms) {
    return f->s->timing_ms.n ? MAX(0, MIN(saving_ms, f->wall_ms - f->busy_ms)) : saving_ms;
}

static const char *per_token(struct context *c, const struct finding_stage *f) {
    if (isnan(f->s->launches_per_token)) return "";
    return analysis_text(
        c, f->s->launches_per_token < 10 ? ", %.2g launches a token" : ", %.0f launches a token",
        f->s->launches_per_token);
}

static const char *empty_queue(struct context *c, const struct finding_stage *f) {
    if (isnan(f->s->idle.queue_empty_share)) return "";
    return analysis_text(c, "; %.0f%% of the launches found the queue empty",
                         100 * f->s->idle.queue_empty_share);
}

void find_launch_bound(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    const struct analysis_stage *s = f->s;
    double removable = s->idle.graph_removable_ns * 1e-6 / f->devices,
           late = cause_ms(f, ANALYSIS_IDLE_LAUNCH);
    if (removable < 0.15 * f->traced_wall_ms || s->kernel_mean_ns > SHORT_KERNEL_NS || late < removable / 3)
        return;
    double saving = bounded(f, removable);
    const char *title = analysis_text(
        c, "%s is launch-bound: the GPU works %.3g ms of %.4g ms and waits %.3g ms for launches", s->name,
        f->busy_ms, f->wall_ms, saving);
    const char *evidence = analysis_text(
        c,
        "%llu kernels of %.1f us on average%s; a launch call every %.1f us (median), the call itself %.1f us%s",
        (unsigned long long)s->kernels, s->kernel_mean_ns * 1e-3, per_token(c, f),
        s->idle.launch_interval_ns * 1e-3, s->idle.launch_cost_ns * 1e-3, empty_queue(c, f));
    finding_emit(
        c, rule, f, saving, late > 0.5 * s->idle_ns * 1e-6 / f->devices ? ANALYSIS_HIGH : ANALYSIS_MEDIUM,
        title, evidence,
        "Replay the step as a CUDA graph (torch.compile mode=\"reduce-overhead\" with a static KV cache, or the "
        "server's graph mode); failing that, fuse small kernels so that fewer are launched.");
}

void find_sync(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_SYNC);
    if (ms < 0.03 * f->traced_wall_ms) return;
    const char *title = analysis_text(
        c, "%s stops for the host: the GPU waits %.3g ms after synchronisations", f->s->name, ms);
    const char *evidence =
        analysis_text(c, "%llu synchronisations hold the host for %.3g ms; %.3g ms of idle GPU follow them",
                      (unsigned long long)f->s->syncs, f->s->sync_ns * 1e-6, ms);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_MEDIUM, title, evidence,
        "Keep sampling and stop checks on the GPU, read results back asynchronously one step later, and remove "
        ".item(), .cpu() and cudaStreamSynchronize from the loop.");
}

void find_host_copies(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_COPY);
    if (ms < 0.02 * f->traced_wall_ms) return;
    const char *title = analysis_text(c, "%s waits %.3g ms for copies", f->s->name, ms);
    const char *evidence = analysis_text(
        c, "%llu copies and memsets; %.3g MB to the device, %.3g MB back; no kernel ran beside them",
        (unsigned long long)f->s->copies, f->s->htod_bytes * 1e-6, f->s->dtoh_bytes * 1e-6);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_MEDIUM, title, evidence,
        "Keep the data on the device, copy from pinned memory on a stream of its own, and overlap it with kernels.");
}

void find_no_work(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_NO_WORK);
    if (ms < 0.05 * f->traced_wall_ms) return;
    const char *title = analysis_text(c, "%s leaves the GPU without work for %.3g ms", f->s->name, ms);
    const char *evidence = analysis_text(
        c, "gaps in which the launching thread made no call for over 200 us; the longest gap is %.3g ms",
        f->s->idle.gap_ns.max * 1e-6);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_LOW, title, evidence,
        "Look at what the host does there (tokenising, image preparation, scheduling, garbage collection) and move "
        "it off the launching thread.");
}

void find_dependency(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_DEPENDENCY);
    if (ms < 0.05 * f->traced_wall_ms) return;
    const char *title = analysis_text(c, "%s waits %.3g ms for other streams", f->s->name, ms);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_LOW, title,
        "the kernels had been launched, but started only after other work (of another stream, or not in this trace), with "
        "the GPU idle in between",
        "Check events and stream waits; dependent work is cheapest on one stream or in one graph.");
}

/* Steps that are stages of their own: the device waits from the last kernel of one to the first of the next. */
void find_between_steps(struct context *c, const struct finding_rule *rule, const struct finding_stage *f) {
    const struct analysis_occurrence *last = NULL;
    double ns = 0;
    size_t steps = 0;
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (o->parent != ANALYSIS_NONE || !o->kernels) continue;
        bool follows =
            last && last->stage == f->row && o->stage == f->row && o->gpu_first_ns > last->gpu_last_ns;
        if (follows && o->gpu_first_ns - last->gpu_last_ns < 100000000) /* longer: no request was there */
            ns += (double)(o->gpu_first_ns - last->gpu_last_ns), steps++;
        last = o;
    }
    if (steps < 8 || ns * 1e-6 < 0.05 * f->traced_wall_ms) return;
    const char *title = analysis_text(c, "The GPU waits %.3g ms between steps of %s", ns * 1e-6, f->s->name);
    const char *evidence = analysis_text(
        c, "%.1f us on average from the last kernel of a step to the first of the next, over %zu steps",
        ns * 1e-3 / (double)steps, steps);
    finding_emit(
        c, rule, f, ns * 1e-6, ANALYSIS_MEDIUM, title, evidence,
        "Scheduling, sampling and detokenising run between the steps: overlap them with the GPU (asynchronous "
        "scheduling), or make them cheaper.");
}

void find_unexplained_idle(struct context *c, const struct finding_rule *rule,
                           const struct finding_stage *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_UNKNOWN);
    if (ms < 0.15 * f->traced_wall_ms) return;
    const char *title = analysis_text(
        c, "%s leaves the GPU idle for %.3g ms, for reasons the trace does not hold", f->s->name, ms);
    const char *evidence = analysis_text(
        c, "%llu gaps between kernels of %.1f us on average; no launches were recorded to explain them",
        (unsigned long long)f->s->idle.gaps, f->s->kernel_mean_ns * 1e-3);
    finding_emit(
        c, rule, f, bounded(f, ms), ANALYSIS_LOW, title, evidence,
        "Record again with launches (inferprof run, or CUDA API tracing in the other tool): short kernels with gaps "
        "are usually launch-bound.");
}
