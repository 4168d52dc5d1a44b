#include "ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/util.h"

#define X(id, name) name,
static const char *const source_names[] = { RANK_CLOCK_SOURCES(X) };
static const char *const state_names[] = { RANK_STATES(X) };
static const char *const reason_names[] = { RANK_REASONS(X) };
#undef X

const char *rank_clock_source_name(enum rank_clock_source source) {
    return (unsigned)source < COUNTOF(source_names) ? source_names[source] : "";
}

const char *rank_state_name(enum rank_state state) {
    return (unsigned)state < COUNTOF(state_names) ? state_names[state] : "";
}

const char *rank_reason_name(enum rank_reason reason) {
    return (unsigned)reason < COUNTOF(reason_names) ? reason_names[reason] : "";
}

struct wanted_rank {
    const struct rank_job *job;
    uint32_t rank;
};

static bool is_lower_rank(const void *arg, size_t i) {
    const struct wanted_rank *w = arg;
    return w->job->ranks[i].rank < w->rank;
}

const struct rank_row *rank_job_find(const struct rank_job *job, uint32_t rank) {
    size_t at = bisect(0, job->nranks, is_lower_rank, &(struct wanted_rank){ job, rank });
    return at < job->nranks && job->ranks[at].rank == rank ? &job->ranks[at] : NULL;
}

struct ranked {
    double slowness;
    size_t row;
};

static int by_slowness(const void *pa, const void *pb) {
    const struct ranked *a = pa, *b = pb;
    if (a->slowness != b->slowness) return a->slowness > b->slowness ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Keeps the ranks that ran from the start to the end, if there are at least two. Returns the new number. */
static size_t keep_complete(const struct rank_job *job, struct ranked *v, size_t n) {
    size_t complete = 0;
    for (size_t i = 0; i < n; i++) complete += job->ranks[v[i].row].state == RANK_STATE_COMPLETE;
    if (complete < 2) return n;
    for (size_t i = 0, k = 0; i < n; i++)
        if (job->ranks[v[i].row].state == RANK_STATE_COMPLETE) v[k++] = v[i];
    return complete;
}

size_t rank_job_choose(const struct rank_job *job, size_t rows[3]) {
    struct ranked *v = calloc(job->nranks + 1, sizeof *v);
    bool arrivals = true;
    size_t n = 0;
    if (!v) return 0;
    for (size_t r = 0; r < job->nranks; r++)
        if (job->ranks[r].state != RANK_STATE_MISSING && isnan(job->ranks[r].late_ns)) arrivals = false;
    for (size_t r = 0; r < job->nranks; r++) {
        const struct rank_row *row = &job->ranks[r];
        if (row->state == RANK_STATE_MISSING) continue;
        double slowness = arrivals ? row->late_ns : row->time.compute_ns;
        v[n++] = (struct ranked){ isnan(slowness) ? 0 : slowness, r };
    }
    if (n) qsort(v, n, sizeof *v, by_slowness);
    if (n > 0) rows[0] = v[0].row;
    if (n > 3) n = 1 + keep_complete(job, v + 1, n - 1);
    if (n > 1) rows[n > 2 ? 2 : 1] = v[n - 1].row;
    if (n > 2) rows[1] = v[n / 2].row;
    free(v);
    return MIN(n, 3);
}
