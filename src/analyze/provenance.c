/* Notes about the sources of the numbers and about their limits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"

#define LOST_LIMIT 0.001 /* if a larger share of kernels is missing, idle time may be unrecorded work */

/* If a trace has no stages and all its kernels lie within less than this share of its duration, it gets a
 * caveat. */
#define SPAN_LIMIT 0.5

/* Overhead of the collector per launch and per kernel of a graph, measured on an H200 against an unprofiled
 * process. The value for a kernel applies if the program waits for the end of the graph; for graphs launched
 * back to back it is a fifth of that (docs/overhead.md). */
#define RECORDED_LAUNCH_NS 2200.0
#define RECORDED_NODE_NS 900.0
#define NOTED_COST 0.02 /* a smaller overhead is not reported */

static void set_conservation(struct context *c) {
    struct analysis *a = c->a;
    struct analysis_conservation *v = &a->conservation;
    double kernels = 0, stages = 0, operators = 0;
    for (size_t i = 0; i < a->ndevices; i++) v->busy += a->devices[i].busy_ns;
    for (size_t i = 0; i < a->nkernels; i++) kernels += a->kernels[i].owned_ns;
    for (size_t i = 0; i < a->nstages; i++) stages += a->stages[i].gpu_owned_self_ns;
    for (size_t i = 0; i < a->noperators; i++) {
        operators += a->operators[i].gpu_self_ns;
        if (a->operators[i].outside) v->outside_operators = a->operators[i].gpu_self_ns;
    }
    v->kernel_residual = v->busy - kernels;
    v->stage_residual = v->busy - stages;
    v->operator_residual = v->busy - operators;
    v->outside_stages = a->stages[c->outside].gpu_owned_self_ns;
}

static bool has_whole_graphs(const struct context *c, size_t stage) {
    return c->a->stages[stage].category_ns[KERNEL_CATEGORY_GRAPH] > 0;
}

/* Adds a note that some launches have no kernel, so that a part of the idle time may be unrecorded work. */
static void note_doubt(struct context *c, const struct analysis_stage *s, uint64_t missing) {
    double ns = (double)missing * s->kernel_mean_ns;
    if (!(s->idle_ns > 0)) return;
    analysis_note(c, ANALYSIS_WARNING,
                  "%s: %s of %s launches have no kernel: about %.2g%% of its idle time (%.3g ms, at the mean "
                  "duration of a kernel) may be work that was not recorded",
                  s->path, analysis_count(c, missing), analysis_count(c, s->launches),
                  fmin(100, 100 * ns / s->idle_ns), fmin(ns, s->idle_ns) * 1e-6);
}

bool analysis_has_unknown_kernels(const struct context *c, const struct analysis_stage *s) {
    return c->tl->containment && !c->a->cpu_only && !s->kernels && !s->on_cpu && !s->outside;
}

static void check_idle(struct context *c, size_t stage) {
    struct analysis_stage *s = &c->a->stages[stage];
    const struct stage_scratch *w = &c->stage_scratch[stage];
    double unmatched = s->launches ? (double)w->unmatched_launches / (double)s->launches : 0;
    if (s->time_refused)
        s->idle_refused = s->time_refused;
    else if (analysis_has_unknown_kernels(c, s))
        s->idle_refused = "no kernel ran while it was open, and no launches tell which kernels are its own";
    else if (!s->kernels)
        s->idle_refused = "no kernels were recorded";
    else if (s->on_cpu)
        s->idle_refused = "it ran on the CPU, which has no kernel launches";
    else if (s->joined)
        s->idle_refused =
            "its kernels were recorded up to the start of the next one, so gaps between them count as "
            "kernel time";
    else if (has_whole_graphs(c, stage))
        s->idle_refused = "CUDA graphs were recorded as a whole: gaps between their kernels are not visible";
    else if (s->missed > MISSED_LIMIT)
        s->idle_refused =
            analysis_text(c, "kernels were recorded in only %.3g%% of its time", 100 * (1 - s->missed));
    else if (analysis_is_truncated(c))
        s->idle_refused = "the imported file ends early or is damaged, so kernels are missing";
    else if (c->a->lost_share > LOST_LIMIT)
        s->idle_refused = analysis_text(c, "%.2g%% of the kernel records were lost", 100 * c->a->lost_share);
    else if (unmatched > UNMATCHED_LIMIT)
        s->idle_refused =
            analysis_text(c, "%s of %s launches have no kernel: kernels are missing",
                          analysis_count(c, w->unmatched_launches), analysis_count(c, s->launches));
    s->idle_known = !s->idle_refused;
    if (s->idle_known && unmatched > LOST_LIMIT && !s->outside) note_doubt(c, s, w->unmatched_launches);
    if (!s->idle_known && !s->time_refused && (s->kernels || analysis_has_unknown_kernels(c, s)) &&
        !s->on_cpu && !s->joined && !s->outside)
        analysis_note(c, ANALYSIS_WARNING, "%s: idle time not classified: %s", s->path, s->idle_refused);
}

static void note_losses(struct context *c) {
    const struct timeline *tl = c->tl;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (tl->lost[k])
            analysis_note(c, ANALYSIS_WARNING, "%s %s records were lost while recording",
                          analysis_count(c, tl->lost[k]),
                          trace_kind_name(k) ? trace_kind_name(k) : "unknown");
    if (tl->bad_records)
        analysis_note(c, ANALYSIS_WARNING, "%s records end before they start and were ignored",
                      analysis_count(c, tl->bad_records));
    for (size_t i = 0; i < tl->nwarnings; i++)
        analysis_note(c, ANALYSIS_WARNING, "%s", timeline_text(tl, tl->warnings[i]));
}

static bool all_stages_are_whole(const struct analysis *a) {
    for (size_t i = 0; i < a->nstages; i++)
        if (a->stages[i].implicit || (!a->stages[i].outside && a->stages[i].missed > MISSED_LIMIT))
            return false;
    return true;
}

/* Reports the share of the time in which kernels were recorded. Unrecorded time between stages (loading a
 * model, warm-up) does not affect the stages, so it is not a warning. */
static void note_windows(struct context *c) {
    if (!c->tl->nwindows) return;
    bool whole = all_stages_are_whole(c->a);
    analysis_note(c, whole ? ANALYSIS_INFO : ANALYSIS_WARNING,
                  "kernels were recorded in %.3g%% of the time (%s window%s): %s", 100 * (1 - c->a->missed),
                  analysis_count(c, c->tl->nwindows), c->tl->nwindows == 1 ? "" : "s",
                  whole ? "stages are complete, the time between them is not shown"
                        : "counts and times cover only that part and are not scaled up");
}

/* Names the kernels whose launch is missing, and where they count. */
static void note_unmatched(struct context *c) {
    const struct analysis_conservation *v = &c->a->conservation;
    const char *mirrored = "";
    if (!v->unmatched_kernels) return;
    if (c->mirrored_kernels)
        mirrored =
            analysis_text(c,
                          "; %s of them count in a stage, because they ran inside the GPU's copy of its "
                          "annotation",
                          analysis_count(c, c->mirrored_kernels));
    analysis_note(
        c, ANALYSIS_WARNING,
        "%s of %s kernels (%.2f%% of GPU time) have no launch: they do not belong to an operator or "
        "a range%s",
        analysis_count(c, v->unmatched_kernels), analysis_count(c, c->tl->kernels.n),
        100 * v->unmatched / v->busy, mirrored);
}

/* The native engine on a GPU: its operators have the times of their kernels. */
static bool all_kernels_are_joined(const struct timeline *tl) {
    for (size_t i = 0; i < tl->ndevices; i++)
        if (tl->devices[i].kernel_count && !tl->devices[i].joined) return false;
    return true;
}

static void note_attribution(struct context *c) {
    const struct timeline *tl = c->tl;
    if (c->a->stages[0].implicit)
        analysis_note(c, ANALYSIS_INFO,
                      "no range of the trace is a stage: all its time counts as one stage (define stages "
                      "with rules NAME=GLOB)");
    if (tl->containment && !c->a->cpu_only && !all_kernels_are_joined(tl))
        analysis_note(c, ANALYSIS_WARNING,
                      "no launches were recorded: a kernel belongs to the range that was open when it ran%s",
                      c->mirrored_kernels ? ", or to the stage whose copy on the GPU it ran in" : "");
    note_unmatched(c);
    if (c->captured_launches)
        analysis_note(
            c, c->captured_launches > tl->kernels.n ? ANALYSIS_WARNING : ANALYSIS_INFO,
            "%s launches were captured into CUDA graphs: they are counted when the graphs run%s",
            analysis_count(c, c->captured_launches),
            c->captured_launches > tl->kernels.n
                ? ". Most of this trace is a capture: its times say little about the program's steps"
                : "");
    if (c->lent_kernels)
        analysis_note(c, ANALYSIS_INFO,
                      "%s kernels were launched by threads that mark no stages: they count in the stage open "
                      "in their process",
                      analysis_count(c, c->lent_kernels));
    if (tl->cut_kernels)
        analysis_note(c, ANALYSIS_INFO,
                      "%s kernels (%.1f ms) that ran before and after %s (%s, warm-up) are not in the tables",
                      analysis_count(c, tl->cut_kernels), tl->cut_ns * 1e-6,
                      c->a->recognised ? "the steady work" : "the recorded request",
                      c->a->recognised ? "loading" : "creating weights");
    note_windows(c);
    if (!tl->kernels.n)
        analysis_note(c, ANALYSIS_INFO, "no kernels were recorded: times are those of ranges on the host");
}

static void note_unrecorded(struct context *c) {
    for (size_t i = 0; i < c->a->ndevices; i++) {
        const struct analysis_device *d = &c->a->devices[i];
        if (!(d->unrecorded_ns > 0)) continue;
        analysis_note(c, ANALYSIS_INFO,
                      "device %s: %.3g%% of its time (%.3f ms) is unrecorded, not idle: launched work "
                      "waited for more than %.0f us while nothing recorded was running (%s), or the time is "
                      "outside of the recorded windows",
                      timeline_device_label(c->tl, i), 100 * d->unrecorded_ns / d->timeline_ns,
                      d->unrecorded_ns * 1e-6, d->unrecorded_limit_ns * 1e-3,
                      isnan(d->launch_delay_ns)
                          ? "the minimum"
                          : analysis_text(c, "the larger of 50 us and 10 times the median delay of %.1f us",
                                          d->launch_delay_ns * 1e-3));
    }
}

/* A cut trace, or a capture that begins late, has host events but no kernels in a part of its time. This
 * looks like an idle GPU. */
static void note_span(struct context *c) {
    for (size_t i = 0; i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        double all_ns = s->gpu_busy_ns + s->idle_ns;
        if (!s->implicit || s->on_cpu || !s->kernels || !(s->gpu_span_ns < SPAN_LIMIT * all_ns)) continue;
        analysis_note(c, ANALYSIS_WARNING,
                      "all kernels lie within %.1f ms of %.1f ms (%.2g%%), and the GPU is busy for %.3g%% of "
                      "that part; if the trace was cut or kernels were recorded only there, the busy share "
                      "of the whole trace is too low",
                      s->gpu_span_ns * 1e-6, all_ns * 1e-6, 100 * s->gpu_span_ns / all_ns,
                      100 * fmin(1, s->gpu_busy_ns / s->gpu_span_ns));
    }
}

static bool is_collected(const struct timeline *tl) {
    for (size_t i = 0; i < tl->nprocesses; i++)
        if (strcmp(timeline_text(tl, tl->processes[i].source), "collector") == 0) return true;
    return false;
}

static const char *less_overhead(const struct context *c, const struct analysis_stage *s) {
    if (s->graph_launches * 2 <= s->launches) return "--budget has less overhead";
    return c->tl->nwindows ? "replays outside of the recorded windows are faster"
                           : "--graphs sample has less overhead";
}

/* Reports the overhead of recording. Only needed without timed repeats: all times then include it. */
static void note_recording(struct context *c) {
    if (c->in->ntimings || !is_collected(c->tl)) return;
    for (size_t i = 0; i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        double cost = RECORDED_LAUNCH_NS * (double)s->launches +
                      RECORDED_NODE_NS * (double)c->stage_scratch[i].graph_nodes,
               rest = s->wall_total_ns - cost;
        if (s->outside || s->unrecorded || s->parent != ANALYSIS_NONE || !(cost > NOTED_COST * rest) ||
            rest <= 0)
            continue;
        analysis_note(c, ANALYSIS_INFO,
                      "%s: recording may have slowed it down by up to %.0f%%: kernel times are valid, wall "
                      "and idle times are those of the recorded program; %s",
                      s->path, 100 * cost / rest, less_overhead(c, s));
    }
}

void analyze_provenance(struct context *c) {
    const struct timeline *tl = c->tl;
    uint64_t all = tl->kernels.n + tl->lost[TRACE_KERNEL];
    c->a->lost_share = all ? (double)tl->lost[TRACE_KERNEL] / (double)all : 0;
    set_conservation(c);
    for (size_t i = 0; i < c->a->nstages; i++) check_idle(c, i);
    note_attribution(c);
    note_unrecorded(c);
    note_span(c);
    note_recording(c);
    note_losses(c);
}
