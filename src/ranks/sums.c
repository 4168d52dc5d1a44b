#include "ranks/sums.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

struct rank_shares rank_shares_of(const struct rank_time *t, double whole_ns) {
    return (struct rank_shares){ t->compute_ns / whole_ns, t->exposed_ns / whole_ns, t->wait_ns / whole_ns,
                                 t->move_ns / whole_ns, t->idle_ns / whole_ns };
}

double rank_cell_each(const struct rank_cell *c, double total_ns) {
    return c->present && c->occurrences ? total_ns / (double)c->occurrences : NAN;
}

struct rank_stage_sum rank_stage_sum(const struct rank_job *job, size_t stage) {
    struct rank_stage_sum out = { .slowest_compute_ns = NAN, .fastest_compute_ns = NAN };
    struct rank_time sum = { 0 };
    for (size_t r = 0; r < job->nranks; r++) {
        const struct rank_cell *c = rank_job_cell(job, r, stage);
        out.occurrences += (double)c->occurrences;
        if (!c->present || !c->occurrences || isnan(c->wall_ns)) continue;
        double own = rank_cell_each(c, c->time.compute_ns);
        sum.compute_ns += c->time.compute_ns;
        sum.exposed_ns += c->time.exposed_ns;
        sum.wait_ns += c->time.wait_ns;
        sum.move_ns += c->time.move_ns;
        sum.idle_ns += c->time.idle_ns;
        out.wall_ns += c->wall_ns;
        if (!(c->wall_ns > 0)) continue; /* no GPU work was recorded: its compute time is unknown, not 0 */
        out.slowest_compute_ns = fmax(out.slowest_compute_ns, own); /* fmax() ignores NaN */
        out.fastest_compute_ns = fmin(out.fastest_compute_ns, own);
    }
    out.shares = rank_shares_of(&sum, out.wall_ns);
    return out;
}

size_t rank_clock_points(const struct rank_clock *c) {
    size_t points = 0;
    for (size_t i = 0; i < c->nsegments; i++) points += c->segments[i].points;
    return points;
}

struct rank_skew rank_job_skew(const struct rank_job *job) {
    struct rank_skew out = { .mean_ns = NAN, .max_ns = NAN };
    double sum_ns = 0;
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct stats *s = &job->collectives[i].skew_ns;
        if (!s->n) continue;
        out.matched += s->n;
        sum_ns += s->mean * (double)s->n;
        out.max_ns = fmax(out.max_ns, s->max);
    }
    if (out.matched) out.mean_ns = sum_ns / (double)out.matched;
    return out;
}

struct stats rank_step_stats(const struct rank_job *job, const struct rank_steps *s, size_t row) {
    double *v = xcalloc(job->nranks + 1, sizeof *v);
    for (size_t r = 0; r < job->nranks; r++) v[r] = (double)s->cells[row * job->nranks + r].compute_ns;
    struct stats st = stats_of_sorting(v, job->nranks);
    free(v);
    return st;
}

struct lateness {
    double late_ns, compute_ns; /* late_ns -1: unknown */
    size_t row;
};

static int by_lateness(const void *a, const void *b) {
    const struct lateness *x = a, *y = b;
    if (x->late_ns != y->late_ns) return x->late_ns < y->late_ns ? 1 : -1;
    if (x->compute_ns != y->compute_ns) return x->compute_ns < y->compute_ns ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

size_t *rank_rows_by_lateness(const struct rank_job *job) {
    struct lateness *v = xcalloc(job->nranks + 1, sizeof *v);
    size_t *rows = xcalloc(job->nranks + 1, sizeof *rows);
    for (size_t i = 0; i < job->nranks; i++) {
        const struct rank_row *k = &job->ranks[i];
        v[i] = (struct lateness){ isnan(k->late_ns) ? -1 : k->late_ns, k->time.compute_ns, i };
    }
    qsort(v, job->nranks, sizeof *v, by_lateness);
    for (size_t i = 0; i < job->nranks; i++) rows[i] = v[i].row;
    free(v);
    return rows;
}
