#include "ranks/job_findings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

#define LEAST_SHARE 0.05 /* findings that save a smaller share of a step are not reported */
#define LOW_USE 0.5      /* the use of a link is low below this share of its peak */
#define REACHABLE 0.8    /* share of the link's peak that large messages can reach */
/* least correlation of tokens and compute time at which tokens are the reason */
#define SIMILAR 0.8
/* least share of the steps in which the slowest rank is on the same node, for this node to be named */
#define USUAL_NODE 0.95
/* a rank is nearly as slow as the straggler above this share of the straggler's excess over the median */
#define NEARLY 0.75

/* ---- Figures of a stage, per step and by rank; NaN for ranks without the stage */
struct figures {
    size_t n;
    double *v; /* contains all arrays below */
    double *wall, *compute, *wait, *move, *exposed, *idle, *own, *busy;
};

/* `own` is everything except communication; `busy` is everything except waiting. */
static struct figures figures_of(const struct rank_job *job, size_t stage) {
    size_t n = job->nranks;
    struct figures f = { .n = n, .v = xcalloc(MAX(1, 8 * n), sizeof *f.v) };
    double **parts[] = { &f.wall, &f.compute, &f.wait, &f.move, &f.exposed, &f.idle, &f.own, &f.busy };
    for (size_t k = 0; k < COUNTOF(parts); k++) *parts[k] = f.v + k * n;
    for (size_t r = 0; r < n; r++) {
        const struct rank_cell *c = rank_job_cell(job, r, stage);
        double steps = c->present && c->occurrences ? (double)c->occurrences : NAN;
        f.wall[r] = c->wall_ns / steps;
        f.compute[r] = c->time.compute_ns / steps;
        f.wait[r] = c->time.wait_ns / steps;
        f.move[r] = c->time.move_ns / steps;
        f.exposed[r] = c->time.exposed_ns / steps;
        f.idle[r] = c->time.idle_ns / steps;
        f.own[r] = (c->time.compute_ns + c->time.copy_ns + c->time.idle_ns) / steps;
        f.busy[r] = f.own[r] + f.move[r];
    }
    return f;
}

static bool same_group(const struct rank_layout *l, size_t a, size_t b) {
    return !l->source || l->places[a].pp == l->places[b].pp;
}

/* Returns the median over the other ranks with the same layers as rank row `except`. NaN: there are none. */
static double median_of_others(const struct rank_layout *l, const double *v, size_t n, size_t except) {
    double *others = xmalloc((n + 1) * sizeof *others);
    for (size_t r = 0; r < n; r++) others[r] = r != except && same_group(l, r, except) ? v[r] : NAN;
    double median = stats_median(others, n);
    free(others);
    return median;
}

double rank_step_ns(const struct rank_job *job, size_t stage) {
    double most = NAN;
    for (size_t r = 0; r < job->nranks; r++) {
        const struct rank_cell *c = rank_job_cell(job, r, stage);
        if (c->present && c->occurrences && !isnan(c->wall_ns))
            most = fmax(isnan(most) ? 0 : most, c->wall_ns / (double)c->occurrences);
    }
    return most;
}

/* ---- Emitting */
struct search {
    const struct rank_job *job;
    const struct rank_layout *layout;
    const struct rank_links *links;
    struct rank_findings *out;
    double *excess_ns; /* [nranks]: moving time per step that findings about links save, in `link_stage` */
    uint32_t link_stage;
};

static const char *text_ns(double ns, char *buf, size_t cap) { return units_duration_ns(ns, buf, cap); }

/* Returns the part of a step that the findings so far do not save. */
static double left_ns(const struct search *s, size_t stage, double step_ns) {
    double left = step_ns;
    for (size_t i = 0; i < s->out->n; i++)
        if (s->out->v[i].stage == stage) left -= s->out->v[i].saving_ms * 1e6;
    return fmax(0, left);
}

/* Adds a finding, unless it saves too little. Takes over its title and evidence. */
static void emit(struct search *s, struct rank_finding f, double saving_ns) {
    double step_ns = rank_step_ns(s->job, f.stage);
    saving_ns = fmin(saving_ns, left_ns(s, f.stage, step_ns));
    if (!(saving_ns >= LEAST_SHARE * step_ns)) {
        free(f.title);
        free(f.evidence);
        return;
    }
    f.saving_ms = saving_ns * 1e-6;
    f.step_ms = step_ns * 1e-6;
    f.saving_percent = 100 * saving_ns / step_ns;
    vec_push(s->out, f);
}

/* ---- Straggler */
static const struct reason_text {
    enum rank_reason reason;
    const char *rule, *cause, *advice;
} reason_texts[] = {
    { RANK_REASON_SLOWER_KERNELS, "slow-gpu", "its kernels are slower",
      "compare clocks, power limit, temperature and memory errors of this GPU with the others; exclude or "
      "replace it" },
    { RANK_REASON_THROTTLED, "slow-gpu", "its clocks are throttled",
      "check power limit, temperature and cooling of this GPU" },
    { RANK_REASON_LATER_LAUNCHES, "slow-host", "its host launches later",
      "look at the host of this rank: other processes on its cores, CPU frequency, NUMA binding, data "
      "loading" },
    { RANK_REASON_MORE_TOKENS, "token-imbalance", "it has more tokens",
      "balance the tokens of the ranks: sort or pack sequences by length, or route requests by tokens" },
    { RANK_REASON_EXPERTS, "expert-imbalance", "its experts have more work",
      "balance the experts: place or replicate busy experts, or limit their capacity" },
    { RANK_REASON_MORE_WORK, "uneven-work", "it has more or larger kernels",
      "find out why this rank has more work: last pipeline stage, logging, sampling, uneven layers" },
    { RANK_REASON_UNKNOWN, "straggler", "the reason is unknown",
      "compare its timeline with that of the median rank" },
};

static const struct reason_text *text_of(enum rank_reason reason) {
    for (size_t i = 0; i < COUNTOF(reason_texts); i++)
        if (reason_texts[i].reason == reason) return &reason_texts[i];
    return &reason_texts[COUNTOF(reason_texts) - 1];
}

/* Returns the largest value of the ranks with the same layers as rank row `of` that are not in `slow`. NaN:
 * there are none. */
static double most_of_rest(const struct rank_layout *l, const double *v, size_t n, size_t of,
                           const bool *slow) {
    double most = NAN;
    for (size_t r = 0; r < n; r++)
        if (!slow[r] && same_group(l, r, of) && !isnan(v[r])) most = isnan(most) ? v[r] : fmax(most, v[r]);
    return most;
}

/* Returns the mean over the ranks with the same layers as rank row `of`. */
static double mean_of_group(const struct rank_layout *l, const double *v, size_t n, size_t of) {
    double sum = 0, count = 0;
    for (size_t r = 0; r < n; r++) {
        if (!same_group(l, r, of) || isnan(v[r])) continue;
        sum += v[r];
        count++;
    }
    return sum / count;
}

/* Returns the time by which rank row `r`, together with the ranks in `slow`, exceeds the slowest of the
 * rest. */
static double lead_over_rest(const struct rank_layout *l, const struct figures *f, size_t r,
                             const bool *slow) {
    /* fmin() ignores NaN: the time of a rank without waiting may be unknown */
    return fmin(f->own[r] - most_of_rest(l, f->own, f->n, r, slow),
                f->busy[r] - most_of_rest(l, f->busy, f->n, r, slow));
}

/* Ranks that are nearly as slow as the straggler, in row `r`, are marked in `slow`, because it saves little
 * to repair only one of them. Returns their number, without the straggler: 0 if it is slower than all others
 * by more than a quarter of its excess. */
static size_t mark_as_slow(const struct rank_layout *l, const struct figures *f, size_t r, bool *slow) {
    double median = median_of_others(l, f->own, f->n, r), extra = f->own[r] - median;
    size_t n = 0;
    slow[r] = true;
    if (!(lead_over_rest(l, f, r, slow) < (1 - NEARLY) * extra)) return 0;
    for (size_t k = 0; k < f->n; k++) {
        if (k == r || !same_group(l, k, r) || !(f->own[k] > median + NEARLY * extra)) continue;
        slow[k] = true;
        n++;
    }
    return n;
}

/* Returns "; rank 5 is as slow", or "; ranks 2, 5 are as slow" with at most 8 numbers. */
static char *as_slow_text(const struct rank_job *job, const bool *slow, size_t straggler, size_t n) {
    struct strbuf text = STRBUF_INIT;
    size_t named = 0;
    for (size_t r = 0; n && r < job->nranks && named < 8; r++) {
        if (!slow[r] || r == straggler) continue;
        strbuf_addf(&text, "%s%u", named ? ", " : n == 1 ? "; rank " : "; ranks ", job->ranks[r].rank);
        named++;
    }
    if (n > named) strbuf_addf(&text, " and %zu more", n - named);
    if (n) strbuf_addf(&text, n == 1 ? " is as slow" : " are as slow");
    return strbuf_detach(&text);
}

/* Returns what a step becomes shorter. Tokens and work of experts move to the other ranks, so the rank comes
 * down to the mean. Other causes are repaired, and the next slowest rank is the limit. */
static double straggler_saving(const struct rank_layout *l, const struct figures *f, size_t r,
                               const bool *slow, enum rank_reason reason) {
    if (reason == RANK_REASON_MORE_TOKENS || reason == RANK_REASON_EXPERTS)
        return f->own[r] - mean_of_group(l, f->own, f->n, r);
    return lead_over_rest(l, f, r, slow);
}

/* The saving is not more than the others wait. */
static void find_straggler(struct search *s) {
    const struct rank_straggler *g = &s->job->straggler;
    char a[32], b[32];
    const struct rank_row *row = g->rank != RANK_NONE ? rank_job_find(s->job, g->rank) : NULL;
    if (!row || g->stage >= s->job->nstages) return;
    size_t r = (size_t)(row - s->job->ranks);
    struct figures f = figures_of(s->job, g->stage);
    bool *slow = xcalloc(f.n + 1, sizeof *slow);
    size_t nslow = mark_as_slow(s->layout, &f, r, slow);
    char *others = as_slow_text(s->job, slow, r, nslow);
    double extra = f.own[r] - median_of_others(s->layout, f.own, f.n, r);
    double waits = median_of_others(s->layout, f.wait, f.n, r);
    if (isnan(waits)) waits = median_of_others(s->layout, f.exposed, f.n, r);
    const struct reason_text *t = text_of(g->reason);
    struct rank_finding finding = {
        .rule = t->rule,
        .title = xasprintf("%s: all ranks wait for rank %u: %s%s", s->job->stages[g->stage].name, g->rank,
                           t->cause, others),
        .evidence =
            xasprintf("rank %u arrives last at %.0f%% of the collectives; it takes %s per step longer than "
                      "the median rank, and the others wait %s per step%s%s",
                      g->rank, 100 * g->last_share, text_ns(extra, a, sizeof a), text_ns(waits, b, sizeof b),
                      g->evidence ? "; " : "", g->evidence ? g->evidence : ""),
        .advice = t->advice,
        .stage = g->stage,
        .rank = g->rank,
        .confidence =
            g->last_share > 0.8 && g->reason != RANK_REASON_UNKNOWN ? ANALYSIS_HIGH : ANALYSIS_MEDIUM,
    };
    emit(s, finding, fmin(straggler_saving(s->layout, &f, r, slow, g->reason), waits));
    free(others);
    free(slow);
    free(f.v);
}

/* ---- Imbalance */

/* Sums over steps and ranks for the correlation of tokens (t) and compute time (c), as deviations from the
 * mean of each step. */
struct relation {
    double tt, cc, tc, tokens, n;
};

/* Returns the compute time of the slowest rank minus the mean, over the ranks with the same layers as rank
 * row `first`. Adds these ranks to `rel`. NaN: fewer than two ranks have data. */
static double excess_in_step(const struct rank_layout *l, const struct rank_step_cell *cells, size_t n,
                             size_t first, struct relation *rel) {
    double sum = 0, most = 0, tokens = 0;
    size_t count = 0;
    for (size_t r = first; r < n; r++) {
        if (!same_group(l, first, r) || isnan(cells[r].compute_ns)) continue;
        sum += cells[r].compute_ns;
        tokens += cells[r].tokens;
        most = fmax(most, cells[r].compute_ns);
        count++;
    }
    if (count < 2) return NAN;
    double mean = sum / (double)count, mean_tokens = tokens / (double)count;
    for (size_t r = first; r < n && !isnan(mean_tokens); r++) {
        if (!same_group(l, first, r) || isnan(cells[r].compute_ns)) continue;
        double dt = cells[r].tokens - mean_tokens, dc = cells[r].compute_ns - mean;
        rel->tt += dt * dt;
        rel->cc += dc * dc;
        rel->tc += dt * dc;
        rel->tokens += cells[r].tokens;
        rel->n++;
    }
    return most - mean;
}

/* Returns true for the first rank of each group of ranks with the same layers. */
static bool starts_group(const struct rank_layout *l, size_t r) {
    for (size_t k = 0; k < r; k++)
        if (same_group(l, k, r)) return false;
    return true;
}

/* Returns the row of the rank with the most compute time in a step. */
static size_t slowest_in(const struct rank_step_cell *cells, size_t n) {
    size_t slowest = 0;
    for (size_t r = 0; r < n; r++)
        if (isnan(cells[slowest].compute_ns) || cells[r].compute_ns > cells[slowest].compute_ns) slowest = r;
    return slowest;
}

/* Counts the rows of steps in which each rank is the slowest. The caller frees the array. */
static size_t *times_slowest(const struct rank_steps *steps, size_t n) {
    size_t *times = xcalloc(n + 1, sizeof *times);
    for (size_t i = 0; i < steps->nrows; i++) times[slowest_in(&steps->cells[i * n], n)]++;
    return times;
}

/* Returns the row of the rank that is the slowest in more than half of the rows of steps; SIZE_MAX: there is
 * none. *share: its share of the rows. */
static size_t usual_slowest(const struct rank_steps *steps, size_t n, double *share) {
    size_t *times = times_slowest(steps, n), most = 0;
    for (size_t r = 0; r < n; r++)
        if (times[r] > times[most]) most = r;
    *share = steps->nrows ? (double)times[most] / (double)steps->nrows : 0;
    free(times);
    return *share > 0.5 ? most : SIZE_MAX;
}

/* Returns the name of the node that has the slowest rank in at least USUAL_NODE of the rows of steps. NULL:
 * there is none, or the job has one node or fewer than 8 rows. */
static const char *usual_node(const struct rank_job *job, const struct rank_steps *steps) {
    const char *name = NULL;
    if (job->nnodes < 2 || steps->nrows < 8) return NULL;
    size_t *times = times_slowest(steps, job->nranks), *of_node = xcalloc(job->nnodes, sizeof *of_node);
    for (size_t r = 0; r < job->nranks; r++) {
        uint32_t node = job->ranks[r].node;
        if (node >= job->nnodes) continue;
        of_node[node] += times[r];
        if ((double)of_node[node] >= USUAL_NODE * (double)steps->nrows) name = job->nodes[node].name;
    }
    free(of_node);
    free(times);
    return name;
}

/* Returns which rank is the slowest, for the evidence of an imbalance. */
static char *slowest_text(const struct rank_job *job, const struct rank_steps *steps, uint32_t rank,
                          double share) {
    const char *node = usual_node(job, steps);
    if (rank != RANK_NONE)
        return xasprintf("rank %u is the slowest in %.0f%% of the steps", rank, 100 * share);
    if (node) return xasprintf("the slowest rank differs between steps, but is on node %s", node);
    return xstrdup("the slowest rank differs between steps");
}

/* Returns the mean over the steps of the largest excess_in_step() of all groups of ranks. NaN: no data. */
static double mean_excess(const struct search *s, const struct rank_steps *steps, struct relation *rel) {
    double sum = 0, rows = 0;
    size_t n = s->job->nranks;
    for (size_t i = 0; i < steps->nrows; i++) {
        double most = NAN;
        for (size_t r = 0; r < n; r++) {
            if (!starts_group(s->layout, r)) continue;
            double e = excess_in_step(s->layout, &steps->cells[i * n], n, r, rel);
            if (!isnan(e)) most = isnan(most) ? e : fmax(most, e);
        }
        if (isnan(most)) continue;
        sum += most;
        rows++;
    }
    return rows > 0 ? sum / rows : NAN;
}

static bool has_operation(const struct rank_job *job, const char *operation) {
    for (size_t i = 0; i < job->ncollectives; i++)
        if (job->collectives[i].operation && strcmp(job->collectives[i].operation, operation) == 0)
            return true;
    return false;
}

static enum rank_reason imbalance_reason(const struct search *s, const struct relation *rel) {
    double mean = rel->tokens / rel->n, spread = sqrt(rel->tt / rel->n) / mean;
    if (rel->n > 0 && spread > 0.02 && rel->tc / sqrt(rel->tt * rel->cc) > SIMILAR)
        return RANK_REASON_MORE_TOKENS;
    if ((s->layout->source && s->layout->sizes.ep > 1) || has_operation(s->job, "all_to_all"))
        return RANK_REASON_EXPERTS;
    return RANK_REASON_UNKNOWN;
}

static bool has_finding_about_ranks(const struct search *s, uint32_t stage) {
    for (size_t i = 0; i < s->out->n; i++)
        if (s->out->v[i].stage == stage && s->out->v[i].rank != RANK_NONE) return true;
    return false;
}

static void find_imbalance(struct search *s, const struct rank_steps *steps) {
    struct relation rel = { 0 };
    char a[32], b[32];
    if (has_finding_about_ranks(s, steps->stage)) return;
    double excess = mean_excess(s, steps, &rel);
    struct figures f = figures_of(s->job, steps->stage);
    double waits = stats_median(f.wait, f.n), compute = stats_median(f.compute, f.n);
    free(f.v);
    if (isnan(excess)) return;
    enum rank_reason reason = imbalance_reason(s, &rel);
    const char *name = s->job->stages[steps->stage].name;
    double share;
    size_t slowest = usual_slowest(steps, s->job->nranks, &share);
    uint32_t rank = slowest == SIZE_MAX ? RANK_NONE : s->job->ranks[slowest].rank;
    /* find_straggler() decided that this rank saves too little */
    if (rank != RANK_NONE && rank == s->job->straggler.rank) return;
    char *who = slowest_text(s->job, steps, rank, share);
    const char *what = reason == RANK_REASON_MORE_TOKENS ? "the tokens of the ranks are uneven"
                       : reason == RANK_REASON_EXPERTS   ? "the work of the experts is uneven"
                                                         : "the work of the ranks is uneven";
    struct rank_finding finding = {
        .rule = reason == RANK_REASON_UNKNOWN ? "uneven-work" : text_of(reason)->rule,
        .title = rank == RANK_NONE ? xasprintf("%s: %s", name, what)
                                   : xasprintf("%s: %s, rank %u has the most", name, what, rank),
        .evidence =
            xasprintf("in a step, the slowest rank computes %s longer than the mean rank (median compute "
                      "time %s); %s",
                      text_ns(excess, a, sizeof a), text_ns(compute, b, sizeof b), who),
        .advice = reason == RANK_REASON_UNKNOWN
                      ? "compare the kernels of the slowest and the fastest rank in one step"
                      : text_of(reason)->advice,
        .stage = steps->stage,
        .rank = rank,
        .confidence = reason == RANK_REASON_MORE_TOKENS ? ANALYSIS_HIGH : ANALYSIS_MEDIUM,
    };
    free(who);
    emit(s, finding, isnan(waits) ? excess : fmin(excess, waits));
}

/* ---- Waiting that no other rule explains */

/* Returns the part of the waiting that errors of the clocks can cause, per step and rank. NaN: unknown. */
static double clock_noise_ns(const struct rank_job *job, uint32_t stage) {
    double calls = 0, steps = 0;
    if (job->nclocks < 2) return 0;
    for (size_t i = 0; i < job->ncollectives; i++)
        if (job->communicators[job->collectives[i].communicator].nodes > 1)
            calls += (double)job->collectives[i].calls;
    for (size_t r = 0; r < job->nranks; r++) steps += (double)rank_job_cell(job, r, stage)->occurrences;
    return steps > 0 ? calls / steps * job->clock_error_ns : NAN;
}

/* Returns true if at least half of the waiting is in all-to-alls, which bring tokens to experts. */
static bool waits_for_experts(const struct rank_job *job) {
    double exchange = 0, all = 0;
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct rank_collective *c = &job->collectives[i];
        if (!(c->wait_ns > 0)) continue;
        all += c->wait_ns;
        if (c->operation && strcmp(c->operation, "all_to_all") == 0) exchange += c->wait_ns;
    }
    return all > 0 && exchange >= all / 2;
}

/* Ranks may compute equally long in a step and still wait for each other, if another rank has the most work
 * in each layer. With the same work in every layer, each step becomes shorter by the mean waiting time. In
 * a pipeline, ranks wait for the stage before them: find_bubbles() reports that. */
static void find_turns(struct search *s, uint32_t stage) {
    char a[32], b[32];
    if (!s->layout->source || s->layout->sizes.pp > 1) return;
    struct figures f = figures_of(s->job, stage);
    struct stats wait = stats_of(f.wait, f.n);
    double step = rank_step_ns(s->job, stage), known = step - left_ns(s, stage, step);
    double left = wait.mean - known;
    free(f.v);
    if (!(left > clock_noise_ns(s->job, stage))) return;
    bool experts = waits_for_experts(s->job);
    struct rank_finding finding = {
        .rule = experts ? "expert-imbalance" : "uneven-work",
        .title = xasprintf("%s: the work of the %s is uneven within a step", s->job->stages[stage].name,
                           experts ? "experts" : "ranks"),
        .evidence =
            xasprintf("ranks wait %s per step for each other (mean)%s%s; the last rank differs between "
                      "collectives",
                      text_ns(wait.mean, a, sizeof a), known > 0 ? ", of which other findings explain " : "",
                      known > 0 ? text_ns(known, b, sizeof b) : ""),
        .advice = experts ? text_of(RANK_REASON_EXPERTS)->advice
                          : "compare the kernels and the gaps of the ranks before a collective",
        .stage = stage,
        .rank = RANK_NONE,
        .confidence = ANALYSIS_MEDIUM,
    };
    emit(s, finding, left);
}

/* ---- Pipeline bubbles: a full pipeline would keep the busiest rank busy all the time */
static void find_bubbles(struct search *s, uint32_t stage) {
    char a[32], b[32];
    if (!s->layout->source || s->layout->sizes.pp < 2) return;
    struct figures f = figures_of(s->job, stage);
    double busiest = 0, sum = 0, n = 0, step = rank_step_ns(s->job, stage);
    bool unknown = false;
    for (size_t r = 0; r < f.n; r++) {
        if (isnan(f.wall[r])) continue;
        unknown |= isnan(f.wait[r]);
        double bubble = f.idle[r] + (isnan(f.wait[r]) ? 0 : f.wait[r]);
        busiest = fmax(busiest, f.wall[r] - bubble);
        sum += bubble / f.wall[r];
        n++;
    }
    free(f.v);
    if (n < 2) return;
    struct rank_finding finding = {
        .rule = "pipeline-bubbles",
        .title = xasprintf("%s: pipeline bubbles: GPUs are idle or wait %s%.0f%% of a step",
                           s->job->stages[stage].name, unknown ? "at least " : "", 100 * sum / n),
        .evidence = xasprintf("%" PRIu64 " pipeline stages; the busiest rank works %s%s of a step of %s",
                              s->layout->sizes.pp, unknown ? "at most " : "", text_ns(busiest, a, sizeof a),
                              text_ns(step, b, sizeof b)),
        .advice = "keep more micro-batches in flight (at least as many as stages), interleave stages, or "
                  "move layers from "
                  "the busiest stage",
        .stage = stage,
        .rank = RANK_NONE,
        .confidence = ANALYSIS_MEDIUM,
    };
    emit(s, finding, step - busiest);
}

/* ---- Exposed communication */

/* Returns the operation with the most exposed time, without waiting where it is known. */
static const char *top_operation(const struct rank_job *job) {
    const char *top = "communication";
    double most = 0;
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct rank_collective *c = &job->collectives[i];
        double move = c->exposed_ns - (isnan(c->wait_ns) ? 0 : c->wait_ns);
        if (!c->operation || !(move > most)) continue;
        most = move;
        top = c->operation;
    }
    return top;
}

/* Returns true if the moving time of every rank with the stage is known. */
static bool are_matched(const struct figures *f) {
    bool any = false;
    for (size_t r = 0; r < f->n; r++) {
        if (isnan(f->exposed[r])) continue;
        if (isnan(f->move[r])) return false;
        any = true;
    }
    return any;
}

/* Reports the median moving time. If it is not known for all ranks, the smallest exposed time is used: the
 * rank that arrives last does not wait, so its exposed time is the moving time. */
static void find_exposed(struct search *s, uint32_t stage) {
    char a[32], b[32];
    struct figures f = figures_of(s->job, stage);
    for (size_t r = 0; r < f.n && stage == s->link_stage; r++) {
        f.move[r] -= fmin(f.move[r], s->excess_ns[r]);
        f.exposed[r] -= fmin(f.exposed[r], s->excess_ns[r]);
    }
    double move = stats_median(f.move, f.n), step = rank_step_ns(s->job, stage);
    bool matched = are_matched(&f);
    if (!matched) move = stats_of(f.exposed, f.n).min;
    free(f.v);
    if (!(move > 0)) return;
    struct rank_finding finding = {
        .rule = "exposed-communication",
        .title = xasprintf("%s: %s is exposed: %s%s of a step of %s%s", s->job->stages[stage].name,
                           top_operation(s->job), text_ns(move, a, sizeof a),
                           matched ? "" : " on the rank with the least,", text_ns(step, b, sizeof b),
                           matched ? "" : " on the slowest rank"),
        .evidence = xstrdup(
            matched ? "median over ranks of the time in which only communication runs on a GPU; "
                      "waiting for other ranks is not part of it"
                    : "time in which only communication runs on the GPU of that rank; "
                      "not all of the communication was matched, so it may include waiting for other ranks"),
        .advice = "overlap communication with computation, fuse small collectives, reduce the bytes (lower "
                  "precision, "
                  "fewer GPUs per tensor group), or use a faster link",
        .stage = stage,
        .rank = RANK_NONE,
        .confidence = matched ? ANALYSIS_HIGH : ANALYSIS_LOW,
    };
    emit(s, finding, move);
}

/* ---- Slow links */

/* Returns the top-level stage with the most exposed communication; RANK_NONE: there is none. Findings about
 * a collective are reported for this stage. */
static uint32_t busiest_stage(const struct rank_job *job) {
    uint32_t best = RANK_NONE;
    double most = 0;
    for (size_t s = 0; s < job->nstages; s++) {
        double sum = 0;
        for (size_t r = 0; r < job->nranks; r++) sum += fmax(0, rank_job_cell(job, r, s)->time.exposed_ns);
        if (job->stages[s].parent != RANK_NONE || !(sum > most)) continue;
        most = sum;
        best = (uint32_t)s;
    }
    return best;
}

static char *ranks_text(const struct rank_communicator *c) {
    if (!c->nranks) return xstrdup("unknown ranks");
    return xasprintf("ranks %u to %u (%zu)", c->ranks[0], c->ranks[c->nranks - 1], c->nranks);
}

/* Returns the mean exposed moving time of a collective per step of a rank. NaN: no steps. */
static double exposed_move_ns(const struct rank_job *job, const struct rank_collective *c, uint32_t stage) {
    const struct rank_communicator *comm = &job->communicators[c->communicator];
    double steps = 0, wait = isnan(c->wait_ns) ? 0 : c->wait_ns;
    for (size_t i = 0; i < comm->nranks; i++) {
        const struct rank_row *row = rank_job_find(job, comm->ranks[i]);
        if (row) steps += (double)rank_job_cell(job, (size_t)(row - job->ranks), stage)->occurrences;
    }
    return steps > 0 ? (c->exposed_ns - wait) / steps : NAN;
}

/* Returns the ranks of all slow communicators of the same operation and size: "ranks 0 to 1 (2), ranks 4 to 5
 * (2)". NULL: another one of them is slower, and the finding is about that one. */
static char *slow_ranks_text(const struct rank_job *job, size_t row) {
    const struct rank_collective *c = &job->collectives[row];
    struct strbuf text = STRBUF_INIT;
    bool slowest = true;
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct rank_collective *o = &job->collectives[i];
        double others;
        size_t peers;
        if (o->bytes != c->bytes || strcmp(o->operation, c->operation) != 0 ||
            !rank_link_is_slow(job, i, &others, &peers))
            continue;
        slowest &= i == row || o->bus_bytes_per_s > c->bus_bytes_per_s ||
                   (o->bus_bytes_per_s == c->bus_bytes_per_s && i > row);
        char *ranks = ranks_text(&job->communicators[o->communicator]);
        strbuf_addf(&text, "%s%s", text.len ? ", " : "", ranks);
        free(ranks);
    }
    if (slowest && text.len) return strbuf_detach(&text);
    strbuf_free(&text);
    return NULL;
}

/* Notes the excess of a slow collective, so that find_exposed() does not report it again. */
static void note_excess(struct search *s, const struct rank_communicator *comm, double excess_ns) {
    for (size_t i = 0; i < comm->nranks && excess_ns > 0; i++) {
        const struct rank_row *row = rank_job_find(s->job, comm->ranks[i]);
        if (row) s->excess_ns[row - s->job->ranks] += excess_ns;
    }
}

/* Returns the time by which the ranks with an excess are slower than the slowest other rank: a job does not
 * get faster than that rank. NaN: unknown. */
static double lead_of_slow(const struct search *s, uint32_t stage) {
    struct figures f = figures_of(s->job, stage);
    double slow = NAN, rest = NAN;
    for (size_t r = 0; r < f.n; r++) {
        double *most = s->excess_ns[r] > 0 ? &slow : &rest;
        if (!isnan(f.busy[r])) *most = isnan(*most) ? f.busy[r] : fmax(*most, f.busy[r]);
    }
    free(f.v);
    return slow - rest;
}

/* only_note: notes the excess of the row and reports nothing. All rows are noted before the first report. */
static void find_slow_link(struct search *s, size_t row, uint32_t stage, bool only_note) {
    const struct rank_collective *c = &s->job->collectives[row];
    const struct rank_communicator *comm = &s->job->communicators[c->communicator];
    struct rank_link_use use = rank_link_use(s->job, s->links, row);
    size_t peers;
    char *title, *evidence;
    double others;
    bool slow = rank_link_is_slow(s->job, row, &others, &peers);
    bool low = c->bytes >= RANK_LARGE_BYTES && use.share < LOW_USE;
    if (!slow && !low) return;
    double expected = slow ? others : REACHABLE * use.peak_bytes_per_s;
    double excess_ns = exposed_move_ns(s->job, c, stage) * (1 - c->bus_bytes_per_s / expected);
    if (only_note) {
        note_excess(s, comm, excess_ns);
        return;
    }
    char *ranks = slow ? slow_ranks_text(s->job, row) : ranks_text(comm);
    if (!ranks) return;
    if (slow) {
        title = xasprintf("%s: a slow link between %s", c->operation, ranks);
        evidence = xasprintf(
            "%.3g GB/s bus bandwidth; the same %s of %.3g MB runs at %.3g GB/s on %zu other communicator%s",
            c->bus_bytes_per_s * 1e-9, c->operation, (double)c->bytes * 1e-6, others * 1e-9, peers,
            peers == 1 ? "" : "s");
    } else {
        title = xasprintf("%s of %s uses %.0f%% of %s", c->operation, ranks, 100 * use.share, use.link);
        evidence = xasprintf("%.3g GB/s bus bandwidth of %.3g GB/s, in messages of %.3g MB",
                             c->bus_bytes_per_s * 1e-9, use.peak_bytes_per_s * 1e-9, (double)c->bytes * 1e-6);
    }
    struct rank_finding finding = {
        .rule = "slow-link",
        .title = title,
        .evidence = evidence,
        .advice = "check the topology of these GPUs (nvidia-smi topo -m, NCCL_DEBUG=INFO), cables and "
                  "adapters, and run "
                  "nccl-tests on them",
        .stage = stage,
        .rank = RANK_NONE,
        .confidence = slow && peers > 1 ? ANALYSIS_HIGH : ANALYSIS_MEDIUM,
    };
    free(ranks);
    emit(s, finding, slow ? fmin(excess_ns, lead_of_slow(s, stage)) : excess_ns);
}

/* ---- All rules */
static int by_saving(const void *a, const void *b) {
    const struct rank_finding *x = a, *y = b;
    return x->saving_ms < y->saving_ms ? 1 : x->saving_ms > y->saving_ms ? -1 : strcmp(x->title, y->title);
}

/* Specific rules run first. The general rules after them report only the time that is left of a step. */
void rank_findings_find(const struct rank_job *job, const struct rank_layout *layout,
                        const struct rank_links *links, struct rank_findings *out) {
    *out = (struct rank_findings){ 0 };
    uint32_t stage = busiest_stage(job);
    if (job->present < 2) return;
    struct search s = { .job = job,
                        .layout = layout,
                        .links = links,
                        .out = out,
                        .excess_ns = xcalloc(job->nranks + 1, sizeof *s.excess_ns),
                        .link_stage = stage };
    find_straggler(&s);
    for (size_t i = 0; i < job->nsteps; i++) find_imbalance(&s, &job->steps[i]);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; stage != RANK_NONE && i < job->ncollectives; i++)
            find_slow_link(&s, i, stage, pass == 0);
    for (size_t i = 0; i < job->nstages; i++) {
        if (job->stages[i].parent != RANK_NONE || job->stages[i].outside) continue;
        find_turns(&s, (uint32_t)i);
        find_bubbles(&s, (uint32_t)i);
        find_exposed(&s, (uint32_t)i);
    }
    free(s.excess_ns);
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_saving);
}

void rank_findings_free(struct rank_findings *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].title);
        free(f->v[i].evidence);
    }
    free(f->v);
    *f = (struct rank_findings){ 0 };
}
