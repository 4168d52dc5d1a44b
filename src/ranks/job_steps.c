/* Arranges the steps of all ranks in common rows. The n-th step of a stage on one rank is compared with
 * the n-th step on every other rank. A rank that started late begins with the step that the others were in
 * at that time. */
#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "ranks/job.h"

/* ---- ranks that started late */

/* Returns the digest of the complete rank whose first step of the stage is the earliest; NULL: no complete
 * rank has two rows of steps. *row is its row of the stage, *clock is its clock. */
static const struct rank_digest *earliest_rank(const struct rank_job *job, size_t stage, size_t *row,
                                               const struct rank_clock **clock) {
    const struct job_owner *o = job_owner(job);
    const struct rank_digest *best = NULL;
    uint64_t first_ns = UINT64_MAX;
    for (size_t i = 0; i < o->n; i++) {
        const struct rank_row *r = &job->ranks[o->row_of[i]];
        if (r->state != RANK_STATE_COMPLETE) continue;
        for (size_t s = 0; s < o->digests[i]->nstages; s++) {
            const struct digest_stage *d = &o->digests[i]->stages[s];
            if (o->stage_of[i][s] != stage || d->nrows < 2) continue;
            uint64_t ns = rank_clock_to_job(&job->clocks[r->clock], d->rows[0].start_ns);
            if (ns >= first_ns) continue;
            first_ns = ns;
            best = o->digests[i];
            *row = s;
            *clock = &job->clocks[r->clock];
        }
    }
    return best;
}

/* Returns the number of the step that starts closest to `job_ns`. The starts of steps inside a row are
 * interpolated. */
static uint64_t step_at(const struct digest_stage *d, const struct rank_clock *clock, uint64_t job_ns) {
    size_t row = 0;
    while (row + 2 < d->nrows && rank_clock_to_job(clock, d->rows[row + 1].start_ns) <= job_ns) row++;
    double from = (double)rank_clock_to_job(clock, d->rows[row].start_ns);
    double to = (double)rank_clock_to_job(clock, d->rows[row + 1].start_ns);
    double rows = to > from ? ((double)job_ns - from) / (to - from) : 0;
    return (uint64_t)llround(fmax(0, ((double)row + rows) * d->steps_per_row));
}

/* Returns the number of steps of the stage that the others had started before the first step of a late rank.
 * 0 if the rank is not late, or if the clocks are not accurate enough to tell. */
static uint32_t steps_before(const struct rank_job *job, size_t digest, size_t row) {
    const struct job_owner *o = job_owner(job);
    const struct rank_row *rank = &job->ranks[o->row_of[digest]];
    const struct digest_stage *late = &o->digests[digest]->stages[row];
    size_t other_row;
    const struct rank_clock *own = &job->clocks[rank->clock], *clock;
    if (rank->state != RANK_STATE_LATE || !late->nrows) return 0;
    const struct rank_digest *other = earliest_rank(job, o->stage_of[digest][row], &other_row, &clock);
    double step_ns = late->rows[0].wall_ns / late->rows[0].steps;
    if (!other || !(own->error_ns + clock->error_ns < step_ns / 2)) return 0;
    uint64_t n = step_at(&other->stages[other_row], clock, rank_clock_to_job(own, late->rows[0].start_ns));
    return (uint32_t)MIN(n, UINT32_MAX / 4);
}

static void find_shifts(const struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    o->steps_before = xcalloc(o->n + 1, sizeof *o->steps_before);
    for (size_t i = 0; i < o->n; i++) {
        o->steps_before[i] = xcalloc(o->digests[i]->nstages + 1, sizeof **o->steps_before);
        for (size_t s = 0; s < o->digests[i]->nstages; s++) o->steps_before[i][s] = steps_before(job, i, s);
    }
}

/* ---- rows */

/* Returns the steps per row of the stage: at least the largest value of all ranks. *rows: number of rows. */
static uint32_t common_rows(const struct rank_job *job, size_t stage, size_t *rows) {
    const struct job_owner *o = job_owner(job);
    uint32_t per_row = 1;
    uint64_t steps = 0;
    for (size_t i = 0; i < o->n; i++)
        for (size_t s = 0; s < o->digests[i]->nstages; s++) {
            const struct digest_stage *d = &o->digests[i]->stages[s];
            if (o->stage_of[i][s] != stage) continue;
            per_row = MAX(per_row, d->steps_per_row);
            steps = MAX(steps, (uint64_t)d->nrows * d->steps_per_row + o->steps_before[i][s]);
        }
    while (steps > (uint64_t)per_row * RANK_STEPS_MAX && per_row < 1u << 30) per_row *= 2;
    *rows = MIN((size_t)((steps + per_row - 1) / per_row), RANK_STEPS_MAX);
    return per_row;
}

/* Sums over the rows of a digest that form one row of the job. */
struct step_sum {
    double steps, wall_ns, compute_ns, exposed_ns, tokens;
};

static void fill_rank(struct rank_job *job, struct rank_steps *out, const struct digest_stage *d,
                      uint32_t before, size_t rank_row) {
    struct step_sum sums[RANK_STEPS_MAX] = { 0 };
    for (size_t k = 0; k < d->nrows; k++) {
        uint64_t at = ((uint64_t)k * d->steps_per_row + before) / out->steps_per_row;
        if (at >= out->nrows) break;
        sums[at].steps += d->rows[k].steps;
        sums[at].wall_ns += d->rows[k].wall_ns;
        sums[at].compute_ns += d->rows[k].compute_ns;
        sums[at].exposed_ns += d->rows[k].exposed_ns;
        sums[at].tokens += d->rows[k].tokens;
    }
    for (size_t row = 0; row < out->nrows; row++) {
        const struct step_sum *sum = &sums[row];
        if (!(sum->steps > 0)) continue;
        struct rank_step_cell *cell = &out->cells[row * job->nranks + rank_row];
        cell->wall_ns = (float)(sum->wall_ns / sum->steps);
        cell->compute_ns = (float)(sum->compute_ns / sum->steps);
        cell->exposed_ns = (float)(sum->exposed_ns / sum->steps);
        cell->tokens = (float)(sum->tokens / sum->steps);
    }
}

static void add_stage(struct rank_job *job, size_t stage) {
    const struct job_owner *o = job_owner(job);
    struct rank_steps out = { .stage = (uint32_t)stage };
    out.steps_per_row = common_rows(job, stage, &out.nrows);
    if (out.nrows < 2) return;
    out.cells = xmalloc(out.nrows * job->nranks * sizeof *out.cells);
    for (size_t i = 0; i < out.nrows * job->nranks; i++)
        out.cells[i] = (struct rank_step_cell){ NAN, NAN, NAN, NAN, NAN };
    for (size_t i = 0; i < o->n; i++)
        for (size_t s = 0; s < o->digests[i]->nstages; s++)
            if (o->stage_of[i][s] == stage)
                fill_rank(job, &out, &o->digests[i]->stages[s], o->steps_before[i][s], o->row_of[i]);
    job->steps[job->nsteps++] = out;
}

void job_add_steps(struct rank_job *job) {
    job->steps = xcalloc(job->nstages + 1, sizeof *job->steps);
    find_shifts(job);
    for (size_t s = 0; s < job->nstages; s++)
        if (job->stages[s].parent == RANK_NONE && !job->stages[s].outside) add_stage(job, s);
}
