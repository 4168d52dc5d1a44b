/* Findings about idle GPU time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/finding.h"
#include "base/bisect.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define LEAST_STEP_GAPS 8
#define LONGEST_STEP_GAP_NS 100000000 /* a gap of at least this length counts as a wait for a request */
/* A stage whose mean kernel is longer is launch-bound only if there are gaps before most of its kernels:
 * while such a kernel runs, the host can usually launch the next one. */
#define SHORT_KERNEL_NS 50000.0

static double cause_ms(const struct finding_scope *f, enum analysis_idle_cause cause) {
    return f->s->idle.ns[cause] * 1e-6 / f->shares * f->idle_scale;
}

/* Returns a note if the recorded idle time was scaled down by more than 1%; "" otherwise. */
static const char *scaled_from(struct context *c, const struct finding_scope *f, double recorded_ms) {
    if (f->idle_scale > 0.99) return "";
    return analysis_text(c, "; scaled to the timed run from %s in the recorded run, which took %.2fx as long",
                         finding_time(c, recorded_ms), f->traced_wall_ms / f->wall_ms);
}

static const char *per_token(struct context *c, const struct finding_scope *f) {
    if (isnan(f->s->launches_per_token)) return "";
    if (f->s->launches_per_token < 10)
        return analysis_text(c, ", %.2g launches per token", f->s->launches_per_token);
    return analysis_text(c, ", %s launches per token",
                         analysis_count(c, (uint64_t)llround(f->s->launches_per_token)));
}

static const char *empty_queue(struct context *c, const struct finding_scope *f) {
    if (isnan(f->s->idle.queue_empty_share)) return "";
    return analysis_text(c, "; the queue was empty at %.0f%% of the launches",
                         100 * f->s->idle.queue_empty_share);
}

void find_launch_bound(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct analysis_stage *s = f->s;
    double recorded = s->idle.graph_removable_ns * 1e-6 / f->shares, removable = recorded * f->idle_scale,
           late = cause_ms(f, ANALYSIS_IDLE_LAUNCH);
    bool keeps_waiting = s->kernel_mean_ns <= SHORT_KERNEL_NS || 4 * s->idle.gaps > 3 * s->kernels;
    if (removable < 0.15 * f->wall_ms || !keeps_waiting || late < removable / 3) return;
    const char *title = analysis_text(
        c, "%s is launch-bound: the GPU is busy for %s of %s and waits %s for launches", s->name,
        finding_time(c, f->busy_ms), finding_time(c, f->wall_ms), finding_time(c, removable));
    const char *evidence = analysis_text(
        c,
        "%s kernels of %.1f us on average%s; one launch call every %.1f us (median), each taking %.1f us%s%s",
        analysis_count(c, s->kernels), s->kernel_mean_ns * 1e-3, per_token(c, f),
        s->idle.launch_interval_ns * 1e-3, s->idle.launch_cost_ns * 1e-3, empty_queue(c, f),
        scaled_from(c, f, recorded));
    finding_emit(
        c, rule, f, removable,
        late > 0.5 * s->idle_ns * 1e-6 / f->shares * f->idle_scale ? ANALYSIS_HIGH : ANALYSIS_MEDIUM, title,
        evidence,
        finding_advice(c, f,
                       "Replay the step as a CUDA graph (torch.compile mode=\"reduce-overhead\" with a "
                       "static KV cache, or the server's graph mode); failing that, fuse small kernels "
                       "so that fewer are launched.",
                       "Replay the step as a CUDA graph; failing that, fuse small kernels so that fewer "
                       "are launched."));
}

void find_sync(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_SYNC);
    if (ms < 0.03 * f->wall_ms) return;
    const char *title =
        analysis_text(c, "%s waits for the host: the GPU is idle for %s after synchronisations", f->s->name,
                      finding_time(c, ms));
    const char *syncs = finding_count(c, f, f->s->syncs);
    bool one = strcmp(syncs, "1") == 0;
    const char *what = !f->s->syncs ? "blocking copies hold the host"
                                    : analysis_text(c, "%s synchronisation%s%s block%s the host for %s",
                                                    syncs, one ? "" : "s", finding_unit(f), one ? "s" : "",
                                                    finding_time(c, f->s->sync_ns * 1e-6 / f->shares));
    const char *evidence = analysis_text(
        c, "%s; the GPU is idle for %s during and after synchronisations and blocking copies%s", what,
        finding_time(c, ms), scaled_from(c, f, f->idle_scale > 0 ? ms / f->idle_scale : NAN));
    finding_emit(
        c, rule, f, ms, ANALYSIS_MEDIUM, title, evidence,
        finding_advice(c, f,
                       "Keep sampling and stop checks on the GPU, read results back asynchronously one "
                       "step later, and remove .item(), .cpu() and cudaStreamSynchronize from the loop.",
                       "Read results back asynchronously one step later, and remove synchronisations "
                       "from the loop."));
}

void find_host_copies(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double ms = 0;
    uint64_t copies = 0;
    for (size_t d = 0; d < c->a->ndevices; d++) {
        const struct analysis_stage_device *on = analysis_stage_on(c->a, f->row, d);
        ms += on->host_copy_alone_ns * 1e-6 / f->shares;
        copies += on->host_copies;
    }
    if (ms < 0.02 * f->wall_ms) return;
    const char *title =
        analysis_text(c, "%s waits %s for copies from or to the host", f->s->name, finding_time(c, ms));
    const char *evidence = analysis_text(
        c, "copies: %s%s; %s to the device, %s back; no kernel ran at the same time",
        finding_count(c, f, copies), finding_unit(f), finding_bytes(c, f->s->htod_bytes / f->shares),
        finding_bytes(c, f->s->dtoh_bytes / f->shares));
    finding_emit(c, rule, f, ms, ANALYSIS_MEDIUM, title, evidence,
                 "Keep the data on the device, copy from pinned memory on a separate stream, and overlap "
                 "copies with kernels.");
}

#define NAME_BYTES 60 /* longest name of a range in a sentence */

/* Long names lose their beginning: a Python frame is "path/file.py(line): function". */
static const char *quoted(struct context *c, const char *name) {
    size_t n = strlen(name), cut = n > NAME_BYTES ? n - NAME_BYTES : 0;
    while (cut && ((unsigned char)name[cut] & 0xc0) == 0x80) cut++;
    return analysis_text(c, "`%s%s`", cut ? "..." : "", name + cut);
}

void find_no_work(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_NO_WORK);
    if (ms < 0.05 * f->wall_ms) return;
    struct host_work host = host_work_longest(c, f->row);
    double inside_ms = host.ns * 1e-6 / f->shares * f->idle_scale;
    bool named = host.name && inside_ms > 0.3 * ms;
    const char *where = named
                            ? analysis_text(c, ", %s while the host is in %s",
                                            inside_ms > 0.5 * ms ? "mostly" : "partly", quoted(c, host.name))
                            : "",
               *inside = named ? analysis_text(c, "; the host is in %s for %s of them", quoted(c, host.name),
                                               finding_time(c, inside_ms))
                               : "";
    const char *title =
        analysis_text(c, "%s leaves the GPU without work for %s%s", f->s->name, finding_time(c, ms), where);
    const char *evidence = analysis_text(c,
                                         "gaps in which the launching thread launched nothing for more than "
                                         "200 us; the longest gap of any cause is %s%s",
                                         finding_time(c, f->s->idle.gap_ns.max * 1e-6), inside);
    const char *advice =
        named && host.is_call
            ? "The call launches nothing: it creates a context, loads code, or allocates or "
              "frees memory. Do this before the measured part (warm up), and reuse memory."
        : named && host.loads_data
            ? "Prepare the next inputs while the GPU computes: use worker processes in the data loader "
              "(num_workers, prefetch_factor, pin_memory), or decode and resize on the GPU."
            : finding_advice(c, f,
                             "Check the host's activity in these gaps (tokenising, image preparation, "
                             "scheduling, garbage collection) and move it off the launching thread.",
                             "Check the host's activity in these gaps (loading and preparing data, garbage "
                             "collection) and move it off the launching thread.");
    finding_emit(c, rule, f, ms, named ? ANALYSIS_MEDIUM : ANALYSIS_LOW, title, evidence, advice);
}

void find_dependency(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_DEPENDENCY);
    if (ms < 0.05 * f->wall_ms) return;
    const char *title = analysis_text(c, "%s waits %s for other streams", f->s->name, finding_time(c, ms));
    finding_emit(c, rule, f, ms, ANALYSIS_LOW, title,
                 "the kernels had been launched, but started only after other work (on another stream, or "
                 "not in this trace), with the GPU idle in between",
                 "Check events and stream waits. Dependent work has the least overhead on one stream or in "
                 "one graph.");
}

/* Time from the last kernel of a step to the first kernel of the next one in its process. */
struct step_gap {
    uint64_t from_ns, to_ns;
    const struct analysis_occurrence *next;
};
struct step_gaps {
    struct step_gap *v;
    size_t n, cap;
};

static int by_process_and_time(const void *pa, const void *pb) {
    const struct step_gap *a = pa, *b = pb;
    if (a->next->process != b->next->process) return a->next->process < b->next->process ? -1 : 1;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* Returns the gaps between occurrences that both belong to the stage, without gaps of LONGEST_STEP_GAP_NS or
 * more. */
static struct step_gaps gaps_between_steps(const struct context *c, uint32_t row) {
    const struct timeline *tl = c->tl;
    const struct analysis_occurrence **last = xcalloc(tl->nprocesses + 1, sizeof(*last));
    struct step_gaps gaps = { 0 };
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (o->parent != ANALYSIS_NONE || !o->kernels || o->process == TIMELINE_NONE) continue;
        const struct analysis_occurrence *before = last[o->process];
        last[o->process] = o;
        if (!before || before->stage != row || o->stage != row || o->gpu_first_ns <= before->gpu_last_ns)
            continue;
        if (o->gpu_first_ns - before->gpu_last_ns >= LONGEST_STEP_GAP_NS) continue;
        vec_push(&gaps, ((struct step_gap){ before->gpu_last_ns, o->gpu_first_ns, o }));
    }
    free(last);
    if (gaps.n) qsort(gaps.v, gaps.n, sizeof *gaps.v, by_process_and_time);
    return gaps;
}

static bool runs_on(const struct context *c, const struct analysis_occurrence *o, size_t device) {
    return device < 64 ? o->device_bits >> device & 1 : c->a->devices[device].process == o->process;
}

struct gap_key {
    const struct step_gaps *gaps;
    const struct outside_period *period;
};

static bool gap_ends_before(const void *arg, size_t i) {
    const struct gap_key *k = arg;
    const struct step_gap *g = &k->gaps->v[i];
    if (g->next->process != k->period->process) return g->next->process < k->period->process;
    return g->to_ns <= k->period->from_ns;
}

/* Returns the part of the idle period in gaps of its process. Idle time while a step is open is not in any
 * period: it is the idle time of a stage, which other findings report. */
static double period_in_gaps(const struct context *c, const struct step_gaps *gaps,
                             const struct outside_period *p) {
    double ns = 0;
    size_t first = bisect(0, gaps->n, gap_ends_before, &(struct gap_key){ gaps, p });
    for (size_t i = first; i < gaps->n; i++) {
        const struct step_gap *g = &gaps->v[i];
        if (g->next->process != p->process || g->from_ns >= p->to_ns) break;
        if (runs_on(c, g->next, p->device))
            ns += (double)(MIN(g->to_ns, p->to_ns) - MAX(g->from_ns, p->from_ns));
    }
    return ns;
}

/* Returns the sum over the devices on which the next step runs. */
static double idle_in_gaps(const struct context *c, const struct step_gaps *gaps) {
    double ns = 0;
    for (size_t i = 0; i < c->outside_idle.n; i++) ns += period_in_gaps(c, gaps, &c->outside_idle.v[i]);
    return ns;
}

/* Returns the number of pairs of a gap and a device on which the next step runs. */
static size_t count_waits(const struct context *c, const struct step_gaps *gaps) {
    size_t n = 0;
    for (size_t i = 0; i < gaps->n; i++)
        for (size_t d = 0; d < c->a->ndevices; d++) n += runs_on(c, gaps->v[i].next, d);
    return n;
}

/* The rules about idle time and the cause that each reports. */
static const struct {
    const char *rule;
    int cause;
} idle_rules[] = {
    { "launch-bound", ANALYSIS_IDLE_LAUNCH },         { "synchronisation", ANALYSIS_IDLE_SYNC },
    { "host-busy-elsewhere", ANALYSIS_IDLE_NO_WORK }, { "stream-dependency", ANALYSIS_IDLE_DEPENDENCY },
    { "unexplained-idle", ANALYSIS_IDLE_UNKNOWN },
};

/* Returns the idle time of the stage that findings about the cause report already, in ms.
 * ANALYSIS_IDLE_CAUSES: about any cause. */
static double claimed_ms(const struct context *c, uint32_t row, int cause) {
    double ms = 0;
    for (size_t i = 0; i < c->a->nfindings; i++)
        for (size_t k = 0; k < COUNTOF(idle_rules); k++)
            if (c->a->findings[i].stage == row && strcmp(c->a->findings[i].rule, idle_rules[k].rule) == 0 &&
                (cause == ANALYSIS_IDLE_CAUSES || idle_rules[k].cause == cause))
                ms += c->a->findings[i].saving_ms;
    return ms;
}

static double idle_ms(const struct finding_scope *f) {
    return f->s->idle_ns * 1e-6 / f->shares * f->idle_scale;
}

/* Reports the idle time of the row between steps that lies between two steps of the stage. No other finding
 * about a stage contains it. The percentage is of the step and the row's idle time. */
void find_between_steps(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    struct step_gaps gaps = gaps_between_steps(c, f->row);
    bool enough = gaps.n >= LEAST_STEP_GAPS;
    size_t steps = gaps.n, waits = enough ? count_waits(c, &gaps) : 0;
    double ns = enough ? idle_in_gaps(c, &gaps) : 0;
    free(gaps.v);
    double ms = ns * 1e-6 / f->shares * f->idle_scale;
    struct finding_scope whole = *f;
    whole.outside_ms = c->a->stages[c->outside].idle_ns * 1e-6 / f->shares * f->idle_scale;
    whole.outside_ms = fmax(whole.outside_ms, ms); /* the row may lack devices that were only idle */
    if (!enough || ms < 0.05 * (f->wall_ms + whole.outside_ms)) return;
    const char *title = analysis_text(c, "The GPU waits %s between steps%s%s", finding_time(c, ms),
                                      strcmp(f->s->name, "step") == 0 ? "" : " of ",
                                      strcmp(f->s->name, "step") == 0 ? "" : f->s->name);
    const char *evidence = analysis_text(
        c,
        "the GPU is idle for %.1f us on average after a step has ended and before the next one begins, over "
        "%s steps",
        ns * 1e-3 / (double)waits, analysis_count(c, steps));
    finding_emit(
        c, rule, &whole, ms, ANALYSIS_MEDIUM, title, evidence,
        finding_advice(c, f,
                       "Scheduling, sampling and detokenising run between the steps: overlap them with "
                       "GPU work (asynchronous scheduling), or make them cheaper.",
                       "Overlap the host's work between the steps with GPU work, or make it cheaper."));
}

void find_unexplained_idle(struct context *c, const struct finding_rule *rule,
                           const struct finding_scope *f) {
    double ms = cause_ms(f, ANALYSIS_IDLE_UNKNOWN);
    if (ms < 0.15 * f->wall_ms) return;
    const char *title =
        analysis_text(c, "%s leaves the GPU idle for %s, for reasons not visible in the trace", f->s->name,
                      finding_time(c, ms));
    const char *evidence = analysis_text(
        c, "%s gaps between kernels of %.1f us on average; no launches were recorded to explain them",
        analysis_count(c, f->s->idle.gaps), f->s->kernel_mean_ns * 1e-3);
    finding_emit(c, rule, f, ms, ANALYSIS_LOW, title, evidence,
                 "Record again with launches (inferprof run, or CUDA API tracing in the other tool): short "
                 "kernels with gaps "
                 "are usually launch-bound.");
}

/* rest of the idle time, as a fraction of the stage's time, that is always reported */
#define ALWAYS_EXPLAINED 0.15

/* Fallback: reports long idle time that no other finding reports, with its causes. */
void find_other_idle(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    double claimed = claimed_ms(c, f->row, ANALYSIS_IDLE_CAUSES), ms = idle_ms(f) - claimed;
    if (ms < ALWAYS_EXPLAINED * f->wall_ms) return;
    const char *causes = "", *largest = NULL;
    for (int i = 0; i < ANALYSIS_IDLE_CAUSES; i++) {
        double part = cause_ms(f, (enum analysis_idle_cause)i) - claimed_ms(c, f->row, i);
        if (part < 0.1 * ms) continue;
        causes = analysis_text(c, "%s%s%s %s", causes, *causes ? ", " : "",
                               analysis_idle_cause_name((enum analysis_idle_cause)i), finding_time(c, part));
        if (part > 0.6 * ms) largest = analysis_idle_cause_name((enum analysis_idle_cause)i);
    }
    const char *title =
        analysis_text(c, "%s leaves the GPU idle for %s of %s%s", f->s->name, finding_time(c, ms),
                      finding_time(c, f->wall_ms), claimed > 0 ? ", which no other finding reports" : "");
    const char *evidence =
        analysis_text(c,
                      "by cause: %s; %s gaps of %.1f us on average between kernels of %.1f us; a CUDA graph "
                      "could remove %s",
                      causes, analysis_count(c, f->s->idle.gaps), f->s->idle.gap_ns.mean * 1e-3,
                      f->s->kernel_mean_ns * 1e-3,
                      finding_time(c, f->s->idle.graph_removable_ns * 1e-6 / f->shares * f->idle_scale));
    const char *advice =
        analysis_text(c, "%s: check the longest gaps in the timeline and the launching thread's activity.",
                      largest ? analysis_text(c, "Most of this time has one cause (%s)", largest)
                              : "No single cause dominates");
    finding_emit(c, rule, f, ms, ANALYSIS_LOW, title, evidence, advice);
}
