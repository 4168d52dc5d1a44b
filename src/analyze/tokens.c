/* Token counts of stages: from token records, from the labels of ranges, from recognised steps, or from the
 * answer of the engine. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

struct open_occurrences {
    uint32_t *v;
    size_t n, cap;
};

static uint32_t process_of(const struct context *c, uint32_t occurrence) {
    return c->a->occurrences[occurrence].process;
}

static bool same_process(const struct context *c, uint32_t occurrence, uint32_t thread) {
    uint32_t process = process_of(c, occurrence);
    return process == TIMELINE_NONE || process == c->tl->threads[thread].process;
}

/* Returns the innermost occurrence that is open in the token's process at its time; ANALYSIS_NONE: none. If
 * none is open, a generated token belongs to the top-level occurrence that ended last. */
static uint32_t occurrence_at(const struct context *c, const struct open_occurrences *open, size_t token) {
    const struct timeline_tokens *t = &c->tl->tokens;
    uint32_t after = ANALYSIS_NONE;
    for (size_t i = open->n; i-- > 0;) {
        uint32_t o = open->v[i];
        if (!same_process(c, o, t->thread[token])) continue;
        if (c->a->occurrences[o].end_ns >= t->time_ns[token]) return o;
        if (c->a->occurrences[o].parent != ANALYSIS_NONE) continue;
        if (after == ANALYSIS_NONE || c->a->occurrences[o].end_ns > c->a->occurrences[after].end_ns)
            after = o;
    }
    return t->kind[token] == TRACE_TOKEN_MADE ? after : ANALYSIS_NONE;
}

/* Drops occurrences that have ended, except the last 16: a token may still belong to one of them. */
static void drop_ended(const struct context *c, struct open_occurrences *open, uint64_t time_ns) {
    size_t kept = 0;
    if (open->n < 64) return; /* a short list costs little */
    for (size_t i = 0; i < open->n; i++)
        if (c->a->occurrences[open->v[i]].end_ns >= time_ns || i + 16 >= open->n)
            open->v[kept++] = open->v[i];
    open->n = kept;
}

static uint32_t *find_owners(const struct context *c) {
    const struct timeline_tokens *t = &c->tl->tokens;
    uint32_t *owner = xmalloc((t->n + 1) * sizeof *owner);
    struct open_occurrences open = { 0 };
    for (size_t i = 0, next = 0; i < t->n; i++) {
        for (; next < c->a->noccurrences && c->a->occurrences[next].start_ns <= t->time_ns[i]; next++) {
            drop_ended(c, &open, t->time_ns[i]);
            vec_push(&open, (uint32_t)next);
        }
        owner[i] = occurrence_at(c, &open, i);
    }
    free(open.v);
    return owner;
}

static void add_known(double *sum, double v) { *sum = isnan(*sum) ? v : *sum + v; }

static void add_tokens(struct context *c, const uint32_t *owner) {
    const struct timeline_tokens *t = &c->tl->tokens;
    for (size_t i = 0; i < t->n; i++) /* token records replace counts from labels */
        for (uint32_t o = owner[i]; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent)
            c->a->occurrences[o].tokens_in = c->a->occurrences[o].tokens_out = NAN;
    for (size_t i = 0; i < t->n; i++)
        for (uint32_t o = owner[i]; o != ANALYSIS_NONE; o = c->a->occurrences[o].parent) {
            struct analysis_occurrence *v = &c->a->occurrences[o];
            add_known(t->kind[i] == TRACE_TOKEN_MADE ? &v->tokens_out : &v->tokens_in, t->count[i]);
            c->a->stages[v->stage].token_source = "token records";
        }
}

/* ---- time between tokens */

struct made {
    uint64_t request, time_ns;
    uint32_t occurrence, count;
};

static int by_request(const void *a, const void *b) {
    const struct made *x = a, *y = b;
    if (x->request != y->request) return x->request < y->request ? -1 : 1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

struct intervals {
    double *v;
    size_t n, cap;
};

/* Computes the intervals between the tokens of a request in an occurrence. The first interval begins at the
 * start of the occurrence. A record of several tokens gives one value: the interval divided by their
 * number. */
static void token_intervals(struct context *c, const uint32_t *owner, struct intervals *by_stage) {
    const struct timeline_tokens *t = &c->tl->tokens;
    struct made *made = xmalloc((t->n + 1) * sizeof *made);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->kind[i] == TRACE_TOKEN_MADE && owner[i] != ANALYSIS_NONE && t->count[i])
            made[n++] = (struct made){ t->request[i], t->time_ns[i], owner[i], t->count[i] };
    if (n) qsort(made, n, sizeof *made, by_request);
    for (size_t i = 0; i < n; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[made[i].occurrence];
        bool first =
            !i || made[i - 1].request != made[i].request || made[i - 1].occurrence != made[i].occurrence;
        uint64_t from = first ? o->start_ns : made[i - 1].time_ns;
        vec_push(&by_stage[o->stage], (double)(made[i].time_ns - from) / made[i].count);
    }
    free(made);
}

/* Labels and recognised steps give the number of tokens per step, so the time per token is the duration of
 * its step. */
static void step_intervals(struct context *c, struct intervals *by_stage) {
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        struct analysis_stage *s = &c->a->stages[o->stage];
        if (isnan(o->tokens_out) || s->token_source || !analysis_counts(c->a, o)) continue;
        vec_push(&by_stage[o->stage], analysis_occurrence_time(o));
    }
}

/* Takes the token counts from the engine's answer if the trace has none for the stage. */
static void take_engine_tokens(const struct context *c, struct analysis_stage *s) {
    for (size_t i = 0; i < c->in->ntokens && !s->token_source; i++) {
        const struct analyze_tokens *t = &c->in->tokens[i];
        if (!s->occurrences || !analysis_names_stage(t->stage, s) || (isnan(t->in) && isnan(t->out)))
            continue;
        s->tokens_in = t->in;
        s->tokens_out = t->out;
        s->token_source = "engine's answer";
    }
}

void analyze_tokens(struct context *c) {
    struct analysis *a = c->a;
    struct intervals *by_stage = xcalloc(a->nstages, sizeof *by_stage);
    uint32_t *owner = find_owners(c);
    add_tokens(c, owner);
    token_intervals(c, owner, by_stage);
    step_intervals(c, by_stage);
    for (size_t i = 0; i < a->noccurrences; i++) {
        const struct analysis_occurrence *o = &a->occurrences[i];
        struct analysis_stage *s = &a->stages[o->stage];
        if (!analysis_counts(a, o)) continue;
        if (!isnan(o->tokens_in)) add_known(&s->tokens_in, o->tokens_in);
        if (!isnan(o->tokens_out)) add_known(&s->tokens_out, o->tokens_out);
        if (!s->token_source && (!isnan(s->tokens_in) || !isnan(s->tokens_out)))
            s->token_source = a->recognised ? "recognised steps" : "range labels";
    }
    for (size_t i = 0; i < a->nstages; i++) {
        take_engine_tokens(c, &a->stages[i]);
        a->stages[i].token_ns = stats_of_sorting(by_stage[i].v, by_stage[i].n);
        free(by_stage[i].v);
    }
    free(by_stage);
    free(owner);
}
