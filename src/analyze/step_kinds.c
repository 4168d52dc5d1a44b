/* Summarises the recognised steps of each kind, explains why the slowest step was slow, and compares the
 * steps with the labels of servers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/bisect.h"
#include "base/die.h"
#include "base/util.h"

/* ---- time of a step: the same clock as that of the stages */

static bool is_labelled(const struct context *c, uint32_t occurrence) {
    const char *source = c->a->stages[c->a->occurrences[occurrence].stage].token_source;
    return source && strcmp(source, "range labels") == 0;
}

/* Returns the outermost occurrence around `occurrence` whose label gives its tokens; ANALYSIS_NONE: none. */
static uint32_t outer_label(const struct context *c, uint32_t occurrence) {
    uint32_t found = ANALYSIS_NONE;
    for (uint32_t o = occurrence; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent)
        if (is_labelled(c, o)) found = o;
    return found;
}

/* Returns the occurrence of the first kernel in the second half of the step; ANALYSIS_NONE: none. */
static uint32_t occurrence_of(const struct context *c, const struct recognised_step *s) {
    for (size_t i = s->first + s->count / 2; i < s->first + s->count; i++)
        if (c->a->recognition.work[i].is_kernel) return c->kernel_occurrence[c->a->recognition.work[i].index];
    return ANALYSIS_NONE;
}

/* Returns the labelled occurrence that has more than half of the step's kernels; ANALYSIS_NONE: none. */
static uint32_t label_of(const struct context *c, const struct recognised_step *s) {
    uint32_t label = outer_label(c, occurrence_of(c, s));
    size_t kernels = 0, inside = 0;
    for (size_t i = s->first; label != ANALYSIS_NONE && i < s->first + s->count; i++) {
        const struct recognised_work *w = &c->a->recognition.work[i];
        if (!w->is_kernel) continue;
        kernels++;
        inside += outer_label(c, c->kernel_occurrence[w->index]) == label;
    }
    return 2 * inside > kernels ? label : ANALYSIS_NONE;
}

struct period_key {
    const struct context *c;
    uint32_t device;
    uint64_t from_ns;
};

static bool ends_before(const void *arg, size_t i) {
    const struct period_key *k = arg;
    const struct unrecorded_period *p = &k->c->unrecorded.v[i];
    return p->device != k->device ? p->device < k->device : p->to_ns <= k->from_ns;
}

/* Returns the time from the step's first call to its end, without unrecorded time of its device. */
static double recorded_span(const struct context *c, const struct recognised_step *s) {
    double ns = (double)(s->end_ns - s->start_ns);
    struct period_key key = { c, s->device, s->start_ns };
    for (size_t i = bisect(0, c->unrecorded.n, ends_before, &key); i < c->unrecorded.n; i++) {
        const struct unrecorded_period *p = &c->unrecorded.v[i];
        if (p->device != s->device || p->from_ns >= s->end_ns) break;
        ns -= (double)(MIN(p->to_ns, s->end_ns) - MAX(p->from_ns, s->start_ns));
    }
    return ns;
}

struct step_labels {
    uint32_t *of; /* [nsteps]: the labelled occurrence, or ANALYSIS_NONE; NULL: the steps are the stages */
    bool *own;    /* [nsteps]: the step has the time of that occurrence */
};

/* Finds the labelled occurrence of each step. It is the step's own if it contains no other step of the same
 * device. */
static struct step_labels find_labels(struct context *c) {
    struct recognition *r = &c->a->recognition;
    struct step_labels labels = { xmalloc((r->nsteps + 1) * sizeof *labels.of),
                                  xcalloc(r->nsteps + 1, sizeof *labels.own) };
    /* A list of the steps of each occurrence: index of a step plus 1; 0: end of the list. */
    size_t *last = xcalloc(c->a->noccurrences + 1, sizeof *last),
           *previous = xcalloc(r->nsteps + 1, sizeof *previous);
    bool *several = xcalloc(c->a->noccurrences + 1, sizeof *several);
    for (size_t i = 0; i < r->nsteps; i++) {
        uint32_t o = labels.of[i] = label_of(c, &r->steps[i]);
        if (o == ANALYSIS_NONE) continue;
        r->steps[i].label = c->a->stages[c->a->occurrences[o].stage].name;
        for (size_t j = last[o]; j && !several[o]; j = previous[j - 1])
            several[o] = r->steps[j - 1].device == r->steps[i].device;
        previous[i] = last[o];
        last[o] = i + 1;
    }
    for (size_t i = 0; i < r->nsteps; i++)
        labels.own[i] = labels.of[i] != ANALYSIS_NONE && !several[labels.of[i]];
    free(last);
    free(previous);
    free(several);
    return labels;
}

/* Sets time_ns and label of all steps. The caller frees the members of the result. */
static struct step_labels set_times(struct context *c) {
    struct recognition *r = &c->a->recognition;
    struct step_labels labels = { 0 };
    if (!c->a->recognised) labels = find_labels(c);
    for (size_t i = 0; i < r->nsteps; i++) {
        struct recognised_step *s = &r->steps[i];
        if (c->a->recognised)
            s->time_ns = analysis_occurrence_time(&c->a->occurrences[i]);
        else if (labels.own[i] && !c->a->stages[c->a->occurrences[labels.of[i]].stage].time_refused)
            s->time_ns = analysis_occurrence_time(&c->a->occurrences[labels.of[i]]);
        else
            s->time_ns = recorded_span(c, s);
    }
    return labels;
}

/* ---- the kinds */

struct columns { /* one value per step of a kind */
    double *ns, *tokens, *requests, *work, *busy;
    size_t n;
};

/* Returns the difference in size between the slowest and the median step; NULL: none. */
static const char *larger(struct context *c, const struct recognised_step *s,
                          const struct analysis_step_kind *k, double work) {
    if (s->tokens > 1.5 * k->tokens.median)
        return analysis_text(c, "it had %.0f tokens, not %.0f", s->tokens, k->tokens.median);
    if ((double)s->count > 1.2 * work)
        return analysis_text(c, "it ran %zu kernels and copies, not %.0f", s->count, work);
    return NULL;
}

/* Describes how the slowest step exceeds the median step; NULL: no visible difference. */
static const char *what_differed(struct context *c, size_t worst, const struct analysis_step_kind *k,
                                 const struct columns *v) {
    const struct recognised_step *s = &c->a->recognition.steps[worst];
    double more = s->time_ns - k->ns.median, busy = stats_of_sorting(v->busy, v->n).median,
           work = stats_of_sorting(v->work, v->n).median;
    const char *size = larger(c, s, k, work);
    if (!c->a->recognised || !(more > 0)) return size;
    double busy_more = c->a->occurrences[worst].busy_ns - busy;
    if (busy_more > 0.5 * more)
        return size ? size : analysis_text(c, "its kernels took %.3g ms longer", busy_more * 1e-6);
    return analysis_text(c, "%s%sthe GPU waited %.3g ms longer", size ? size : "", size ? ", and " : "",
                         (more - busy_more) * 1e-6);
}

/* Compares a step with its label. Returns false if kind, tokens or requests differ. */
static bool add_label(struct context *c, const struct step_labels *labels, size_t step,
                      struct analysis_step_kind *out) {
    const struct recognised_step *s = &c->a->recognition.steps[step];
    if (!labels->of || labels->of[step] == ANALYSIS_NONE) return true;
    const struct analysis_occurrence *o = &c->a->occurrences[labels->of[step]];
    out->stage_times += labels->own[step];
    if (strcmp(s->label, out->name) != 0) {
        if (!out->labelled)
            out->labelled = s->label;
        else if (!strstr(out->labelled, s->label))
            out->labelled = analysis_text(c, "%s, %s", out->labelled, s->label);
        return false;
    }
    return (isnan(o->tokens_in) || o->tokens_in == s->tokens) &&
           (isnan(o->tokens_out) || o->tokens_out == s->requests);
}

static void summarize(struct context *c, enum step_kind kind, const struct step_labels *labels,
                      struct columns *v, struct analysis_step_kind *out) {
    const struct recognition *r = &c->a->recognition;
    size_t worst = 0;
    double worst_ns = -1, tokens = 0, total_ns = 0;
    bool as_labelled = true;
    v->n = 0;
    *out = (struct analysis_step_kind){ .kind = kind, .name = step_kind_name(kind) };
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *s = &r->steps[i];
        double ns = s->time_ns;
        if (s->kind != kind || s->warm_up) continue;
        v->ns[v->n] = ns;
        v->tokens[v->n] = s->tokens;
        v->requests[v->n] = s->requests;
        v->work[v->n] = (double)s->count;
        v->busy[v->n++] = c->a->recognised ? c->a->occurrences[i].busy_ns : NAN;
        as_labelled &= add_label(c, labels, i, out);
        out->certain += s->certain;
        tokens += kind == STEP_DECODE ? s->requests : s->tokens;
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
    out->tokens_per_s = as_labelled ? tokens / total_ns * 1e9 : NAN;
    out->slow_ns = v->n >= STATS_P99_LEAST ? out->ns.p99 : out->ns.max;
    out->worst = worst;
    out->worst_ns = worst_ns;
    out->worst_why = v->n > 1 ? what_differed(c, worst, out, v) : NULL;
}

static void count_steps(struct recognition *r, const struct analysis_step_kind *k) {
    r->steady_steps += k->steps;
    r->certain_steps += k->certain;
    r->stage_time_steps += k->stage_times;
    r->kind_steps[k->kind] = k->steps;
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

static void compare_labels(struct context *c) {
    const struct recognition *r = &c->a->recognition;
    size_t same = 0, compared = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *s = &r->steps[i];
        uint32_t o = occurrence_of(c, s);
        if (!s->certain || o == ANALYSIS_NONE) continue;
        const struct analysis_occurrence *label = &c->a->occurrences[o];
        const struct analysis_stage *stage = &c->a->stages[label->stage];
        if (!is_labelled(c, o)) continue;
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
    struct step_labels labels = set_times(c);
    a->step_kinds = analysis_alloc(c, STEP_KINDS, sizeof *a->step_kinds);
    for (int k = 0; k < STEP_KINDS; k++) {
        summarize(c, k, &labels, &columns, &a->step_kinds[a->nstep_kinds]);
        add_unrecorded(c, &a->step_kinds[a->nstep_kinds]);
        count_steps(&a->recognition, &a->step_kinds[a->nstep_kinds]);
        if (a->step_kinds[a->nstep_kinds].steps) a->nstep_kinds++;
    }
    free(v);
    free(labels.of);
    free(labels.own);
    if (a->recognition.other_layers)
        analysis_note(
            c, ANALYSIS_WARNING,
            "steps of two models, with %u and %u layers, are in the same stages: times and rates are "
            "those of both; steps.csv has the layers of each step",
            a->recognition.layers, a->recognition.other_layers);
    if (!a->recognised) compare_labels(c);
}
