/* Applies the rules, and sorts and limits their findings. */
#include "analyze/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

#define FINDINGS_MAX 12 /* one page */
/* rule whose findings are never cut: they have no saving, but show that other figures may be wrong */
#define NEVER_CUT "model-vs-counters"
#define LEAST_SAVING 0.01 /* minimum saving as a fraction of the time of the stage or run */

#define FAILED_REQUESTS "failed-requests"
#define ROOF "roof-distance"
#define ROLE "role"

static const struct finding_rule rules[] = {
    { FAILED_REQUESTS, FINDING_RUN, false, find_failures },
    { "launch-bound", FINDING_GPU_STAGE, true, find_launch_bound },
    { ROOF, FINDING_ANY_STAGE, false, find_roof },
    { "synchronisation", FINDING_GPU_STAGE, true, find_sync },
    { "host-copies", FINDING_GPU_STAGE, true, find_host_copies },
    { "host-busy-elsewhere", FINDING_GPU_STAGE, true, find_no_work },
    { "exposed-communication", FINDING_GPU_STAGE, false, find_communication },
    { "stream-dependency", FINDING_GPU_STAGE, true, find_dependency },
    { "unexplained-idle", FINDING_GPU_STAGE, true, find_unexplained_idle },
    { "between-steps", FINDING_GPU_STAGE, true, find_between_steps },
    { "idle", FINDING_GPU_STAGE, true, find_other_idle }, /* without what the rules above report */
    { "small-grids", FINDING_GPU_STAGE, false, find_small_grids },
    { "busy-wait", FINDING_GPU_STAGE, false, find_waits },
    { ROLE, FINDING_GPU_STAGE, false, find_roles },
    { "gemm-tiles", FINDING_GPU_STAGE, false, find_wave_tails },
    { "unfused-elementwise", FINDING_GPU_STAGE, false, find_chains },
    { "cast-copy-traffic", FINDING_GPU_STAGE, false, find_casts },
    { "unfused-attention", FINDING_GPU_STAGE, false, find_attention },
    { "small-experts", FINDING_GPU_STAGE, true, find_experts },
    { "model-vs-counters", FINDING_GPU_STAGE, false, find_model_differs },
    { "throttled", FINDING_RUN, false, find_throttle },
    { "unstable", FINDING_RUN, false, find_variance },
    { "profiler-overhead", FINDING_RUN, false, find_overhead },
    { "idle-between-steps", FINDING_RUN, false, find_idle_between },
    { "outside-stages", FINDING_RUN, false, find_outside },
};

struct found {
    struct analysis_finding *v;
    size_t n, cap;
};

/* Returns how often the stage occurs in the run, unrecorded steps included. Returns 1 for the whole run. */
static double occurrences(const struct finding_scope *f) {
    if (!f) return 1;
    return (double)MAX(f->s->requests, 1) + (f->s->unrecorded ? (double)f->s->unrecorded->n : 0);
}

void finding_emit(struct context *c, const struct finding_rule *rule, const struct finding_scope *f,
                  double saving_ms, enum analysis_confidence confidence, const char *title,
                  const char *evidence, const char *advice) {
    struct analysis *a = c->a;
    double timeline_ns = analysis_timeline(a).timeline_ns;
    double of_ms = f ? f->wall_ms + f->outside_ms : (timeline_ns > 0 ? timeline_ns : a->wall_ns) * 1e-6;
    if (!isnan(saving_ms) && (!(of_ms > 0) || saving_ms < LEAST_SAVING * of_ms)) return;
    if (saving_ms > of_ms) saving_ms = of_ms;
    struct found all = { a->findings, a->nfindings, a->nfindings };
    vec_push(&all, ((struct analysis_finding){ .rule = rule->id,
                                               .title = title,
                                               .evidence = evidence,
                                               .advice = advice,
                                               .stage = f ? f->row : ANALYSIS_NONE,
                                               .saving_ms = saving_ms,
                                               .saving_percent = 100 * saving_ms / of_ms,
                                               .outside_ms = f ? f->outside_ms : 0,
                                               .total_saving_ms = saving_ms * occurrences(f),
                                               .confidence = confidence }));
    a->findings = all.v;
    a->nfindings = all.n;
}

/* Sorts by the saving in the whole run. Failures come first, other informative findings last. */
static int by_saving(const void *a, const void *b) {
    const struct analysis_finding *x = a, *y = b;
    bool failed_x = strcmp(x->rule, FAILED_REQUESTS) == 0, failed_y = strcmp(y->rule, FAILED_REQUESTS) == 0;
    if (failed_x != failed_y) return failed_x ? -1 : 1;
    double sx = isnan(x->saving_ms) ? -1 : x->total_saving_ms,
           sy = isnan(y->saving_ms) ? -1 : y->total_saving_ms;
    if (sx != sy) return sx < sy ? 1 : -1;
    if (x->confidence != y->confidence) return x->confidence < y->confidence ? 1 : -1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return strcmp(x->rule, y->rule);
}

const char *finding_time(struct context *c, double ms) {
    char text[40];
    return analysis_text(c, "%s", units_duration_ns(ms * 1e6, text, sizeof text));
}

const char *finding_bytes(struct context *c, double bytes) {
    char text[40];
    return analysis_text(c, "%s", units_bytes(bytes, text, sizeof text));
}

const char *finding_count(struct context *c, const struct finding_scope *f, uint64_t total) {
    double each = (double)total / f->shares;
    return each < 10 ? analysis_text(c, "%.2g", each) : analysis_count(c, (uint64_t)llround(each));
}

const char *finding_unit(const struct finding_scope *f) {
    bool steps = f->s->requests > 1, devices = f->shares > f->s->requests;
    return steps && devices ? " per step and device" : steps ? " per step" : devices ? " per device" : "";
}

const char *finding_advice(const struct context *c, const struct finding_scope *f, const char *model,
                           const char *other) {
    const char *name = f->s->name;
    bool is_model = c->a->recognition.llm || c->in->llm || f->s->token_source ||
                    strcmp(name, "prefill") == 0 || strcmp(name, "decode") == 0;
    return is_model ? model : other;
}

static double idle_scale(double wall_ms, double traced_ms, double busy_ms) {
    if (!(traced_ms > busy_ms)) return 1;
    return MAX(0, MIN(1, (wall_ms - busy_ms) / (traced_ms - busy_ms)));
}

static struct finding_scope stage_scope(const struct analysis_stage *s, uint32_t row) {
    double busy = s->gpu_busy_ns * 1e-6 / s->device_requests,
           traced = busy + s->idle_ns * 1e-6 / s->device_requests;
    if (!(traced > 0)) traced = s->wall_total_ns * 1e-6 / s->requests;
    double wall = s->timing_ms.n ? s->same_input_ms : traced;
    double floor = isnan(s->same_input_floor_ms) ? s->floor_ms : s->same_input_floor_ms;
    return (struct finding_scope){ .s = s,
                                   .row = row,
                                   .shares = s->device_requests,
                                   .wall_ms = wall,
                                   .traced_wall_ms = traced,
                                   .busy_ms = busy,
                                   .floor_ms = floor,
                                   .idle_scale = idle_scale(wall, traced, busy) };
}

static void apply_rule(struct context *c, const struct finding_rule *rule, uint32_t row) {
    const struct analysis_stage *s = &c->a->stages[row];
    bool on_gpu = s->kernels && !s->on_cpu;
    if (s->outside || s->warm_up || s->parent != ANALYSIS_NONE)
        /* savings of sub-stages are already part of their parent's saving */
        return;
    /* all repeats failed, so the recorded request probably failed too; or the trace does not give the time */
    if ((s->timing || s->time_refused) && isnan(s->time_ms)) return;
    if (rule->about == FINDING_GPU_STAGE && !on_gpu) return;
    if (rule->needs_idle && !s->idle_known) return;
    struct finding_scope f = stage_scope(s, row);
    if (f.wall_ms > 0) rule->find(c, rule, &f);
}

/* Returns the number of findings to keep, at most FINDINGS_MAX. NEVER_CUT findings beyond this number replace
 * the last of the others. */
static size_t limit_findings(struct analysis_finding *v, size_t n) {
    size_t kept = MIN(n, FINDINGS_MAX), low = kept;
    for (size_t i = kept; i < n; i++) {
        if (strcmp(v[i].rule, NEVER_CUT) != 0) continue;
        while (low > 0 && strcmp(v[low - 1].rule, NEVER_CUT) == 0) low--;
        if (low == 0) break;
        v[--low] = v[i];
    }
    return kept;
}

/* Lowers the confidence of all findings except failures, because the machine was busy, and advises to repeat
 * the run. */
static void soften(struct context *c) {
    for (size_t i = 0; i < c->a->nfindings; i++) {
        struct analysis_finding *f = &c->a->findings[i];
        if (strcmp(f->rule, FAILED_REQUESTS) == 0) continue;
        f->confidence = ANALYSIS_LOW;
        f->advice = analysis_text(c, "First repeat the run on an idle machine. %s", f->advice);
    }
}

static double saving_by_roles(const struct analysis *a, uint32_t stage) {
    double ms = 0;
    for (size_t i = 0; i < a->nfindings; i++)
        if (a->findings[i].stage == stage && strcmp(a->findings[i].rule, ROLE) == 0)
            ms += a->findings[i].saving_ms;
    return ms;
}

/* Removes the distance of a stage to its roofline if findings about roles explain at least half of it. */
static void drop_explained(struct analysis *a) {
    size_t kept = 0;
    for (size_t i = 0; i < a->nfindings; i++) {
        const struct analysis_finding *f = &a->findings[i];
        if (strcmp(f->rule, ROOF) == 0 && saving_by_roles(a, f->stage) >= 0.5 * f->saving_ms) continue;
        a->findings[kept++] = *f;
    }
    a->nfindings = kept;
}

void analyze_findings(struct context *c) {
    struct analysis *a = c->a;
    bool all_failed = c->in && c->in->failure && c->in->nfailed >= c->in->nrequests;
    for (size_t i = 0; i < COUNTOF(rules); i++) {
        /* without a trace or a successful answer, no other rule applies */
        if ((all_failed || !a->timeline) && rules[i].find != find_failures) continue;
        if (rules[i].about == FINDING_RUN)
            rules[i].find(c, &rules[i], NULL);
        else
            for (uint32_t row = 0; row < a->nstages; row++) apply_rule(c, &rules[i], row);
    }
    if (a->findings) analysis_keep(c, a->findings);
    drop_explained(a);
    if (c->in && c->in->busy) soften(c);
    if (a->nfindings) qsort(a->findings, a->nfindings, sizeof *a->findings, by_saving);
    a->nfindings = limit_findings(a->findings, a->nfindings);
}
