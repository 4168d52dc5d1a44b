/* Finds the rank for which the others wait, and the reason, from the differences between it and the typical
 * rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_name.h"
#include "base/die.h"
#include "base/units.h"
#include "base/util.h"
#include "ranks/job.h"
#include "ranks/layout.h"
#include "ranks/link_use.h"

/* if less than this share of the time of all ranks is waiting, there is no straggler */
#define LEAST_WAIT_SHARE 0.01
/* a straggler causes more than this many times the mean waiting per rank, or more than 75% of all that ranks
 * cause */
#define FAIR_SHARES 2.0
#define LEAST_DIFFERENCE 0.02 /* smaller differences to the typical rank are not evidence */
/* if the ratio of its tokens to those of the typical rank is larger, tokens are the reason */
#define MORE_TOKENS 1.05
/* slower runs of the same kernels must explain at least this share of the extra compute time */
#define SLOWER_SHARE 0.6
/* its clocks are the reason if its SM clock is below this multiple of the typical rank's, or if its throttled
 * share of the time exceeds that of the typical rank by LONGER_THROTTLE */
#define LOWER_CLOCK 0.97
#define LONGER_THROTTLE 0.05

/* The typical rank: medians over the suspect's peers. Times and tokens are per step, because ranks
 * that died or started late have fewer steps. */
struct typical {
    double compute_ns, idle_ns, tokens, mhz, throttled, moe_ns;
    size_t peer; /* index of the digest whose compute time is closest to compute_ns */
};

/* Returns the number of steps of a rank, over all top-level stages; at least 1. */
static double steps_of(const struct rank_job *job, size_t row) {
    double steps = 0;
    for (size_t s = 0; s < job->nstages; s++)
        if (job->stages[s].parent == RANK_NONE && !job->stages[s].outside)
            steps += (double)rank_job_cell(job, row, s)->occurrences;
    return fmax(1, steps);
}

static double tokens_of(const struct rank_job *job, size_t row) {
    double tokens = NAN;
    for (size_t s = 0; s < job->nstages; s++) {
        const struct rank_cell *c = rank_job_cell(job, row, s);
        double more = fmax(c->tokens_in, c->tokens_out);
        if (job->stages[s].parent == RANK_NONE && !isnan(more)) tokens = isnan(tokens) ? more : tokens + more;
    }
    return tokens / steps_of(job, row);
}

static bool is_expert_kernel(const struct digest_class *c) {
    struct kernel_name name;
    kernel_name_parse(&name, c->name);
    bool experts = kernel_name_of_experts(&name);
    kernel_name_free(&name);
    return experts;
}

/* Returns the time per step in kernels of experts. */
static double moe_of(const struct rank_job *job, size_t row) {
    const struct job_owner *o = job_owner(job);
    double ns = 0;
    size_t i = 0;
    while (i < o->n && o->row_of[i] != row) i++;
    for (size_t k = 0; i < o->n && k < o->digests[i]->nclasses; k++)
        if (is_expert_kernel(&o->digests[i]->classes[k])) ns += o->digests[i]->classes[k].total_ns;
    return ns / steps_of(job, row);
}

static double throttled_share(const struct rank_row *r) { return r->throttled_ns / r->timeline_ns; }

/* Returns the idle time per step in which the host did not provide work. */
static double late_launches_of(const struct rank_job *job, size_t row) {
    double ns = 0;
    for (size_t s = 0; s < job->nstages; s++) {
        const struct rank_cell *c = rank_job_cell(job, row, s);
        if (job->stages[s].parent != RANK_NONE || !c->present || isnan(c->wall_ns)) continue;
        ns += c->idle_cause_ns[ANALYSIS_IDLE_LAUNCH] + c->idle_cause_ns[ANALYSIS_IDLE_SYNC] +
              c->idle_cause_ns[ANALYSIS_IDLE_NO_WORK] + c->idle_cause_ns[ANALYSIS_IDLE_UNKNOWN];
    }
    return ns / steps_of(job, row);
}

/* Ranks with which a suspect is compared: other ranks with data in its pipeline stage. */
struct peers {
    const struct rank_layout *layout;
    size_t row; /* row of the suspect */
};

static bool is_peer(const struct rank_job *job, const struct peers *p, size_t row) {
    return row != p->row && job->ranks[row].state != RANK_STATE_MISSING &&
           (!p->layout->source || p->layout->places[row].pp == p->layout->places[p->row].pp);
}

static double median_of(const struct rank_job *job, const struct peers *peers,
                        double (*value)(const struct rank_job *, size_t row)) {
    double *v = xmalloc((job->nranks + 1) * sizeof *v);
    size_t n = 0;
    for (size_t r = 0; r < job->nranks; r++)
        if (is_peer(job, peers, r)) v[n++] = value(job, r);
    double median = stats_median_sorting(v, n);
    free(v);
    return median;
}

static double compute_of(const struct rank_job *job, size_t row) {
    return job->ranks[row].time.compute_ns / steps_of(job, row);
}
static double mhz_of(const struct rank_job *job, size_t row) { return job->ranks[row].sm_mhz_mean; }
static double throttle_of(const struct rank_job *job, size_t row) {
    return throttled_share(&job->ranks[row]);
}

static struct typical typical_of(const struct rank_job *job, const struct peers *peers) {
    const struct job_owner *o = job_owner(job);
    struct typical t = { .compute_ns = median_of(job, peers, compute_of),
                         .idle_ns = median_of(job, peers, late_launches_of),
                         .tokens = median_of(job, peers, tokens_of),
                         .mhz = median_of(job, peers, mhz_of),
                         .throttled = median_of(job, peers, throttle_of),
                         .moe_ns = median_of(job, peers, moe_of) };
    double nearest = INFINITY;
    for (size_t i = 0; i < o->n; i++) {
        double distance = fabs(compute_of(job, o->row_of[i]) - t.compute_ns);
        if (!is_peer(job, peers, o->row_of[i]) || !(distance < nearest)) continue;
        nearest = distance;
        t.peer = i;
    }
    return t;
}

/* ---- kernels */

static const struct digest_class *find_class(const struct rank_digest *d, const struct digest_class *like) {
    for (size_t i = 0; i < d->nclasses; i++) {
        const struct digest_class *c = &d->classes[i];
        if (c->blocks == like->blocks && c->threads == like->threads && strcmp(c->name, like->name) == 0)
            return c;
    }
    return NULL;
}

/* Kernels that two ranks run with the same launch geometry. */
struct same_kernels {
    double extra_ns; /* time on the suspect minus the time expected from the other rank */
    double own_ns, expected_ns;
};

static double ratio_of(const struct same_kernels *k) {
    return k->expected_ns > 0 ? k->own_ns / k->expected_ns : NAN;
}

/* Compares d with peer: kernels of experts in *experts, all others in *rest. Communication is left out. */
static void compare_kernels(const struct rank_digest *d, const struct rank_digest *peer,
                            struct same_kernels *experts, struct same_kernels *rest) {
    *experts = *rest = (struct same_kernels){ 0 };
    for (size_t i = 0; i < d->nclasses; i++) {
        const struct digest_class *c = &d->classes[i], *p = find_class(peer, c);
        if (!p || c->communicates || !c->calls || !p->calls) continue;
        struct same_kernels *k = is_expert_kernel(c) ? experts : rest;
        double expected = (double)c->calls * p->total_ns / (double)p->calls;
        k->extra_ns += c->total_ns - expected;
        k->own_ns += c->total_ns;
        k->expected_ns += expected;
    }
}

/* ---- reasons */

struct suspect {
    struct rank_job *job;
    struct rank_straggler *out;
    size_t row, digest;
    struct typical t;
};

static void set_reason(struct suspect *s, enum rank_reason reason, const char *evidence) {
    s->out->reason = reason;
    s->out->evidence = evidence;
}

static void explain_slower(struct suspect *s, double ratio) {
    const struct rank_row *r = &s->job->ranks[s->row];
    double beyond = throttled_share(r) - s->t.throttled;
    const char *slower = job_text(s->job, "the same kernels take %.1f%% longer", 100 * (ratio - 1));
    if (r->sm_mhz_mean < LOWER_CLOCK * s->t.mhz)
        set_reason(s, RANK_REASON_THROTTLED,
                   job_text(s->job, "%s; SM clock %.0f MHz (typical rank: %.0f MHz)", slower, r->sm_mhz_mean,
                            s->t.mhz));
    else if (beyond > LONGER_THROTTLE)
        set_reason(s, RANK_REASON_THROTTLED,
                   job_text(s->job, "%s; throttled for %.1f%% of the time (typical rank: %.1f%%)", slower,
                            100 * throttled_share(r), 100 * s->t.throttled));
    else
        set_reason(s, RANK_REASON_SLOWER_KERNELS,
                   job_text(s->job, "the same kernels with the same grids take %.1f%% longer than on rank %u",
                            100 * (ratio - 1), s->job->ranks[job_owner(s->job)->row_of[s->t.peer]].rank));
}

/* Returns true if the suspect's experts have more work, and not only a slow GPU: its other kernels would then
 * be slower, too. */
static bool has_busier_experts(const struct suspect *s, double moe_ns, double more_ns,
                               const struct same_kernels *rest) {
    double experts = moe_ns / s->t.moe_ns - 1, others = ratio_of(rest) - 1;
    return s->t.moe_ns > 0 && moe_ns - s->t.moe_ns > SLOWER_SHARE * more_ns && !(others > experts / 2);
}

static void explain_compute(struct suspect *s, double more_ns) {
    const struct job_owner *o = job_owner(s->job);
    double tokens = tokens_of(s->job, s->row), moe = moe_of(s->job, s->row);
    struct same_kernels experts, rest;
    compare_kernels(o->digests[s->digest], o->digests[s->t.peer], &experts, &rest);
    double slower = (experts.extra_ns + rest.extra_ns) / steps_of(s->job, s->row);
    double ratio = (experts.own_ns + rest.own_ns) / (experts.expected_ns + rest.expected_ns);
    char own[32], typical[32];
    units_duration_ns(compute_of(s->job, s->row), own, sizeof own);
    units_duration_ns(s->t.compute_ns, typical, sizeof typical);
    if (tokens > MORE_TOKENS * s->t.tokens) {
        set_reason(s, RANK_REASON_MORE_TOKENS,
                   job_text(s->job, "it processes %.1f tokens per step, the typical rank %.1f", tokens,
                            s->t.tokens));
    } else if (has_busier_experts(s, moe, more_ns, &rest)) {
        set_reason(s, RANK_REASON_EXPERTS,
                   job_text(s->job, "its expert kernels take %.1f%% longer than on the typical rank",
                            100 * (moe / s->t.moe_ns - 1)));
    } else if (slower >= SLOWER_SHARE * more_ns && ratio > 1 + LEAST_DIFFERENCE / 2) {
        explain_slower(s, ratio);
    } else if (slower < (1 - SLOWER_SHARE) * more_ns) {
        set_reason(s, RANK_REASON_MORE_WORK,
                   job_text(s->job,
                            "it computes %s per step, the typical rank %s, with more or larger kernels", own,
                            typical));
    }
}

static void find_reason(struct suspect *s) {
    double more_compute = compute_of(s->job, s->row) - s->t.compute_ns;
    double more_idle = late_launches_of(s->job, s->row) - s->t.idle_ns;
    double base = s->t.compute_ns + s->t.idle_ns;
    if (!(fmax(more_compute, more_idle) > LEAST_DIFFERENCE * base)) return;
    if (more_compute >= more_idle) {
        explain_compute(s, more_compute);
        return;
    }
    char own[32], typical[32];
    set_reason(s, RANK_REASON_LATER_LAUNCHES,
               job_text(s->job, "its GPU waits %s per step for launches, that of the typical rank %s",
                        units_duration_ns(late_launches_of(s->job, s->row), own, sizeof own),
                        units_duration_ns(s->t.idle_ns, typical, sizeof typical)));
}

/* ---- the rank */

/* Returns the number of occurrences of a stage. "Between steps" has none and uses the number of steps. */
static double times_in_stage(const struct rank_job *job, size_t row, size_t stage) {
    if (job->stages[stage].outside) return steps_of(job, row);
    return fmax(1, (double)rank_job_cell(job, row, stage)->occurrences);
}

static uint32_t worst_stage(const struct rank_job *job, const struct peers *peers) {
    size_t row = peers->row;
    uint32_t worst = RANK_NONE;
    double most = 0;
    for (size_t s = 0; s < job->nstages; s++) {
        double others = 0, n = 0;
        const struct rank_cell *own = rank_job_cell(job, row, s);
        if (job->stages[s].parent != RANK_NONE || !own->present) continue;
        for (size_t r = 0; r < job->nranks; r++) {
            const struct rank_cell *c = rank_job_cell(job, r, s);
            if (!is_peer(job, peers, r) || !c->present) continue;
            others += (c->time.compute_ns + c->time.idle_ns) / times_in_stage(job, r, s);
            n++;
        }
        double behind = own->time.compute_ns + own->time.idle_ns - others / n * times_in_stage(job, row, s);
        if (behind > most) {
            most = behind;
            worst = (uint32_t)s;
        }
    }
    return worst;
}

static void describe(struct rank_job *job, const struct peers *peers) {
    size_t row = peers->row;
    const struct job_owner *o = job_owner(job);
    struct rank_straggler *out = &job->straggler;
    struct suspect s = { .job = job, .out = out, .row = row };
    out->rank = job->ranks[row].rank;
    out->stage = worst_stage(job, peers);
    out->last_share = job->matched ? (double)job->ranks[row].last_arrivals / (double)job->matched : NAN;
    out->wait_caused_ns = job->ranks[row].wait_caused_ns;
    for (size_t i = 0; i < o->n; i++)
        if (o->row_of[i] == row) s.digest = i;
    s.t = typical_of(job, peers);
    double others = 0, n = 0;
    for (size_t r = 0; r < job->nranks; r++)
        if (is_peer(job, peers, r) && job->ranks[r].late_ns >= 0) {
            others += job->ranks[r].late_ns;
            n++;
        }
    out->behind_ns = job->ranks[row].late_ns - others / n;
    find_reason(&s);
}

static double late_of(const struct rank_job *job, size_t row) { return job->ranks[row].late_ns; }

/* Returns true if a communicator of the rank is slow or lacks ranks: then it may be late because of them. */
static bool has_other_cause(const struct rank_job *job, uint32_t rank) {
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct rank_communicator *c = &job->communicators[job->collectives[i].communicator];
        double others;
        size_t peers;
        bool member = false;
        for (size_t k = 0; k < c->nranks; k++) member |= c->ranks[k] == rank;
        if (member && (c->size > c->nranks || rank_link_is_slow(job, i, &others, &peers))) return true;
    }
    return false;
}

/* Describes the suspect, unless it has no peers or they are as late: then its pipeline stage is late, not
 * the rank. */
static void describe_alone(struct rank_job *job, size_t row) {
    struct rank_layout layout;
    struct err err;
    if (rank_layout_find(job, &(struct rank_given){ 0 }, &layout, &err) < 0) return;
    struct peers peers = { &layout, row };
    if (median_of(job, &peers, late_of) < job->ranks[row].late_ns) describe(job, &peers);
    if (job->straggler.reason == RANK_REASON_UNKNOWN && has_other_cause(job, job->straggler.rank))
        job->straggler = (struct rank_straggler){ .rank = RANK_NONE, .stage = RANK_NONE };
    rank_layout_free(&layout);
}

void job_find_straggler(struct rank_job *job) {
    double caused = 0, all_ns = 0;
    size_t worst = 0;
    for (size_t r = 0; r < job->nranks; r++) {
        caused += job->ranks[r].wait_caused_ns;
        if (job->ranks[r].wait_caused_ns > job->ranks[worst].wait_caused_ns) worst = r;
        if (job->ranks[r].timeline_ns > 0) all_ns += job->ranks[r].timeline_ns;
    }
    if (job->present < 2 || !(job_owner(job)->ordered_wait_ns > LEAST_WAIT_SHARE * all_ns)) return;
    double fair = caused / (double)job->present, own = job->ranks[worst].wait_caused_ns;
    /* with two ranks, FAIR_SHARES would require all of the waiting */
    if (!(own > fmin(FAIR_SHARES * fair, 0.75 * caused))) return;
    describe_alone(job, worst);
}
