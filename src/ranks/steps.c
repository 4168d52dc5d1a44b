#include "ranks/steps.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/step_place.h"

/* The clock with the larger evidence was set. If the evidence differs by less than this, the number of clocks
 * that show the step decides. */
#define VOTE 2.0

struct found {
    uint64_t job_ns; /* end of the last matched collective before the step */
    struct rank_clock_step step;
};
struct clock_plan {
    struct {
        struct found *v;
        size_t n, cap;
    } found;
    struct rank_clock_step *steps; /* [found.n], in the order of time */
};
struct plan {
    const struct rank_job *job;
    struct rank_digest **digests;
    size_t n, reference;
    struct clock_plan *clocks; /* [job->nclocks] */
    struct digest_limits limits;
    size_t *rows; /* digests to replace */
    size_t nrows;
};

/* ---- which clock was set */

static bool overlap(const struct rank_clock_segment *a, const struct rank_clock_segment *b) {
    return a->job_before_ns <= b->job_after_ns && b->job_before_ns <= a->job_after_ns;
}

static bool is_same_step(const struct rank_clock_segment *a, const struct rank_clock_segment *b) {
    double slack = 1000 + 3 * (a->step_error_ns + b->step_error_ns);
    return b->step_ns != 0 && overlap(a, b) && fabs(a->step_ns - b->step_ns) < slack;
}

/* Counts the clocks that were compared with the reference, and of them those with this step. */
static size_t count_same(const struct rank_job *job, const struct rank_clock_segment *step,
                         size_t *compared) {
    size_t same = 0;
    *compared = 0;
    for (size_t c = 0; c < job->nclocks; c++) {
        const struct rank_clock *k = &job->clocks[c];
        bool has = false;
        if (k->source != RANK_CLOCK_COLLECTIVES) continue;
        for (size_t i = 1; i < k->nsegments; i++) has |= is_same_step(step, &k->segments[i]);
        same += has;
        ++*compared;
    }
    return same;
}

/* Collects the digests with this clock in `out`. Returns 0 if one of them has no trace. */
static size_t digests_of(const struct plan *p, size_t clock, const struct rank_digest **out) {
    const struct job_owner *o = job_owner(p->job);
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (o->clocks.of_digest[i] != clock) continue;
        if (!p->digests[i]->ntraces) return 0;
        out[n++] = p->digests[i];
    }
    return n;
}

static double place_step(const struct plan *p, size_t clock, const struct step_window *w, uint64_t *at_ns) {
    const struct rank_digest **digests = xmalloc((p->n + 1) * sizeof *digests);
    size_t n = digests_of(p, clock, digests);
    double evidence = n ? step_place_find(digests, n, w, p->limits.traces, at_ns) : -INFINITY;
    free(digests);
    return evidence;
}

static bool is_known(const struct clock_plan *k, const struct rank_clock_segment *s) {
    for (size_t i = 0; i < k->found.n; i++)
        if (k->found.v[i].job_ns <= s->job_after_ns && s->job_before_ns <= k->found.v[i].job_ns) return true;
    return false;
}

static void add_step(struct plan *p, size_t clock, const struct rank_clock_segment *s) {
    const struct step_window own = { s->before_ns, s->after_ns, s->step_ns, s->step_error_ns };
    /* if the reference was set back, its collectives near the step may be in a wrong order */
    uint64_t back = s->step_ns > 0 ? (uint64_t)s->step_ns : 0;
    const struct step_window other = { s->job_before_ns - MIN(back, s->job_before_ns), s->job_after_ns + back,
                                       -s->step_ns, s->step_error_ns };
    size_t compared, same = count_same(p->job, s, &compared), charged = clock;
    uint64_t at[2] = { 0, 0 };
    double evidence[2] = { -INFINITY, -INFINITY };
    evidence[0] = place_step(p, clock, &own, &at[0]);
    evidence[1] = place_step(p, p->reference, &other, &at[1]);
    double vote = compared == 1 ? 0 : 2 * same > compared ? VOTE : -VOTE;
    bool is_reference = evidence[1] + vote > evidence[0];
    if (is_reference) charged = p->reference;
    struct clock_plan *k = &p->clocks[charged];
    if (!isfinite(evidence[is_reference]) || is_known(k, s)) return;
    struct found f = { s->job_before_ns,
                       { at[is_reference], is_reference ? -s->step_ns : s->step_ns, s->step_error_ns } };
    vec_push(&k->found, f);
}

static int by_time(const void *pa, const void *pb) {
    const struct found *a = pa, *b = pb;
    return (a->job_ns > b->job_ns) - (a->job_ns < b->job_ns);
}

static void find_steps(struct plan *p) {
    for (size_t c = 0; c < p->job->nclocks; c++)
        for (size_t i = 1; i < p->job->clocks[c].nsegments; i++)
            if (p->job->clocks[c].segments[i].step_ns != 0) add_step(p, c, &p->job->clocks[c].segments[i]);
    for (size_t c = 0; c < p->job->nclocks; c++) {
        struct clock_plan *k = &p->clocks[c];
        if (k->found.n) qsort(k->found.v, k->found.n, sizeof *k->found.v, by_time);
        k->steps = xcalloc(k->found.n + 1, sizeof *k->steps);
        for (size_t i = 0; i < k->found.n; i++) k->steps[i] = k->found.v[i].step;
    }
}

/* ---- reading the traces again */

static void replace_digest(void *arg, size_t i) {
    struct plan *p = arg;
    size_t row = p->rows[i];
    const struct clock_plan *k = &p->clocks[job_owner(p->job)->clocks.of_digest[row]];
    struct digest_limits limits = p->limits;
    struct rank_digest *old = p->digests[row];
    struct err err;
    limits.steps = k->steps;
    limits.nsteps = k->found.n;
    struct rank_digest *new = rank_digest_make(old->traces, old->ntraces, &limits, &err);
    if (!new) return; /* the trace was deleted: the times of the rank keep the step */
    rank_digest_free(old);
    p->digests[row] = new;
}

bool clock_steps_remove(const struct rank_job *job, struct rank_digest **digests,
                        const struct digest_limits *limits, unsigned threads) {
    const struct job_owner *o = job_owner(job);
    struct plan p = { .job = job,
                      .digests = digests,
                      .n = o->n,
                      .reference = o->clocks.reference,
                      .clocks = xcalloc(job->nclocks + 1, sizeof *p.clocks),
                      .limits = *limits,
                      .rows = xcalloc(o->n + 1, sizeof *p.rows) };
    find_steps(&p);
    for (size_t i = 0; i < p.n; i++)
        if (p.clocks[o->clocks.of_digest[i]].found.n) p.rows[p.nrows++] = i;
    if (p.nrows) {
        progress_start("removing steps of clocks", "ranks", p.nrows);
        parallel_for(p.nrows, threads, replace_digest, &p);
        progress_finish();
    }
    for (size_t c = 0; c < job->nclocks; c++) {
        free(p.clocks[c].found.v);
        free(p.clocks[c].steps);
    }
    free(p.clocks);
    free(p.rows);
    return p.nrows > 0;
}
