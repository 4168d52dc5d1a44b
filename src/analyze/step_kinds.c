/* Summarises the recognised steps of each kind, explains why the slowest step was slow, and compares the
 * steps with the labels of servers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

static double time_of(const struct context *c, size_t step) {
    const struct recognised_step *s = &c->a->recognition.steps[step];
    if (c->a->recognised) return analysis_occurrence_time(&c->a->occurrences[step]);
    return (double)(s->end_ns - s->start_ns);
}

struct columns { /* one value per step of a kind */
    double *ns, *tokens, *requests, *work, *busy;
    size_t n;
};

/* Describes how the slowest step exceeds the median step; NULL: no visible difference. */
static const char *what_differed(struct context *c, size_t worst, const struct analysis_step_kind *k,
                                 const struct columns *v) {
    const struct recognised_step *s = &c->a->recognition.steps[worst];
    double more = time_of(c, worst) - k->ns.median, busy = stats_of_sorting(v->busy, v->n).median,
           work = stats_of_sorting(v->work, v->n).median;
    if (s->tokens > 1.5 * k->tokens.median)
        return analysis_text(c, "it had %.0f tokens, not %.0f", s->tokens, k->tokens.median);
    if ((double)s->count > 1.2 * work)
        return analysis_text(c, "it ran %zu kernels and copies, not %.0f", s->count, work);
    if (!c->a->recognised || !(more > 0)) return NULL;
    double busy_more = c->a->occurrences[worst].busy_ns - busy;
    if (busy_more > 0.5 * more) return analysis_text(c, "its kernels took %.3g ms longer", busy_more * 1e-6);
    return analysis_text(c, "the GPU waited %.3g ms longer", (more - busy_more) * 1e-6);
}

static void summarize(struct context *c, enum step_kind kind, struct columns *v,
                      struct analysis_step_kind *out) {
    const struct recognition *r = &c->a->recognition;
    size_t worst = 0;
    double worst_ns = -1, tokens = 0, total_ns = 0;
    v->n = 0;
    *out = (struct analysis_step_kind){ .kind = kind, .name = step_kind_name(kind) };
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *s = &r->steps[i];
        double ns = time_of(c, i);
        if (s->kind != kind || s->warm_up) continue;
        v->ns[v->n] = ns;
        v->tokens[v->n] = s->tokens;
        v->requests[v->n] = s->requests;
        v->work[v->n] = (double)s->count;
        v->busy[v->n++] = c->a->recognised ? c->a->occurrences[i].busy_ns : NAN;
        out->certain += s->certain;
        tokens += kind == STEP_DECODE || kind == STEP_MIXED ? s->requests : s->tokens;
        total_ns += ns;
        if (ns > worst_ns) {
            worst_ns = ns;
            worst = i;
        }
    }
    out->steps = v->n;
    if (!v->n) return;
    out->ns = stats_of_sorting(v->ns, v->n);
    out->tokens = stats_of_sorting(v->tokens, v->n);
    out->requests = stats_of_sorting(v->requests, v->n);
    out->tokens_per_s = tokens / total_ns * 1e9;
    out->slow_ns = v->n >= STATS_P99_LEAST ? out->ns.p99 : out->ns.max;
    out->worst = worst;
    out->worst_ns = worst_ns;
    out->worst_why = v->n > 1 ? what_differed(c, worst, out, v) : NULL;
}

static void add_unrecorded(struct context *c, struct analysis_step_kind *k) {
    k->unrecorded_ns = stats_none();
    k->unrecorded_tokens_per_s = NAN;
    for (size_t i = 0; c->a->recognised && i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        if (strcmp(s->name, k->name) != 0 || s->outside) continue;
        k->recorded_only = s->recorded_only;
        if (!s->unrecorded) continue;
        double *ns = analysis_alloc(c, s->unrecorded->n, sizeof *ns);
        for (size_t j = 0; j < s->unrecorded->n; j++) ns[j] = s->unrecorded->ms[j] * 1e6;
        k->unrecorded_ns = stats_of_sorting(ns, s->unrecorded->n);
        k->unrecorded_tokens_per_s = s->tokens_per_s;
    }
}

/* ---- labels */

/* Returns the occurrence of the first kernel in the second half of the step; ANALYSIS_NONE: none. */
static uint32_t label_of(const struct context *c, const struct recognised_step *s) {
    for (size_t i = s->first + s->count / 2; i < s->first + s->count; i++)
        if (c->a->recognition.work[i].is_kernel) return c->kernel_occurrence[c->a->recognition.work[i].index];
    return ANALYSIS_NONE;
}

static void compare_labels(struct context *c) {
    const struct recognition *r = &c->a->recognition;
    size_t same = 0, compared = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *s = &r->steps[i];
        uint32_t o = label_of(c, s);
        if (!s->certain || o == ANALYSIS_NONE) continue;
        const struct analysis_occurrence *label = &c->a->occurrences[o];
        const struct analysis_stage *stage = &c->a->stages[label->stage];
        if (!stage->token_source || strcmp(stage->token_source, "range labels") != 0) continue;
        compared++;
        bool equal = strcmp(stage->name, step_kind_name(s->kind)) == 0 && label->tokens_in == s->tokens &&
                     label->tokens_out == s->requests;
        same += equal;
        if (!equal && compared - same <= 3)
            analysis_note(
                c, ANALYSIS_WARNING,
                "a step is labelled %s with %.0f tokens and %.0f requests; its kernels and copies say %s "
                "with %.0f tokens and %.0f requests",
                stage->name, label->tokens_in, label->tokens_out, step_kind_name(s->kind), s->tokens,
                s->requests);
    }
    if (compared)
        analysis_note(
            c, same == compared ? ANALYSIS_INFO : ANALYSIS_WARNING,
            "%s of %s labelled steps were read the same from their kernels and copies, without the labels",
            analysis_count(c, same), analysis_count(c, compared));
}

void analyze_step_kinds(struct context *c) {
    struct analysis *a = c->a;
    size_t n = a->recognition.nsteps;
    if (!n) return;
    double *v = xmalloc(5 * (n + 1) * sizeof *v);
    struct columns columns = { v, v + (n + 1), v + 2 * (n + 1), v + 3 * (n + 1), v + 4 * (n + 1), 0 };
    a->step_kinds = analysis_alloc(c, STEP_KINDS, sizeof *a->step_kinds);
    for (int k = 0; k < STEP_KINDS; k++) {
        summarize(c, k, &columns, &a->step_kinds[a->nstep_kinds]);
        add_unrecorded(c, &a->step_kinds[a->nstep_kinds]);
        if (a->step_kinds[a->nstep_kinds].steps) a->nstep_kinds++;
    }
    free(v);
    if (!a->recognised) compare_labels(c);
}
