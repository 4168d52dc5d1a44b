/* Arranges the steps of all ranks in common rows. The n-th step of a stage on one rank is compared with
 * the n-th step on every other rank. */
#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "ranks/job.h"

/* Returns the steps per row of the stage: the largest value of all ranks. *rows: number of rows. */
static uint32_t common_rows(const struct rank_job *job, size_t stage, size_t *rows) {
    const struct job_owner *o = job_owner(job);
    uint32_t per_row = 1;
    *rows = 0;
    for (size_t i = 0; i < o->n; i++)
        for (size_t s = 0; s < o->digests[i]->nstages; s++)
            if (o->stage_of[i][s] == stage) per_row = MAX(per_row, o->digests[i]->stages[s].steps_per_row);
    for (size_t i = 0; i < o->n; i++)
        for (size_t s = 0; s < o->digests[i]->nstages; s++) {
            const struct digest_stage *d = &o->digests[i]->stages[s];
            size_t shrink = per_row / d->steps_per_row;
            if (o->stage_of[i][s] == stage) *rows = MAX(*rows, (d->nrows + shrink - 1) / shrink);
        }
    return per_row;
}

/* Sums over the rows of a digest that form one row of the job. */
struct step_sum {
    double steps, wall_ns, compute_ns, exposed_ns, tokens;
};

static void fill_rank(struct rank_job *job, struct rank_steps *out, const struct digest_stage *d,
                      size_t rank_row) {
    size_t shrink = out->steps_per_row / d->steps_per_row;
    for (size_t row = 0; row < out->nrows; row++) {
        struct step_sum sum = { 0 };
        for (size_t k = row * shrink; k < (row + 1) * shrink && k < d->nrows; k++) {
            sum.steps += d->rows[k].steps;
            sum.wall_ns += d->rows[k].wall_ns;
            sum.compute_ns += d->rows[k].compute_ns;
            sum.exposed_ns += d->rows[k].exposed_ns;
            sum.tokens += d->rows[k].tokens;
        }
        if (!(sum.steps > 0)) continue;
        struct rank_step_cell *cell = &out->cells[row * job->nranks + rank_row];
        cell->wall_ns = (float)(sum.wall_ns / sum.steps);
        cell->compute_ns = (float)(sum.compute_ns / sum.steps);
        cell->exposed_ns = (float)(sum.exposed_ns / sum.steps);
        cell->tokens = (float)(sum.tokens / sum.steps);
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
            if (o->stage_of[i][s] == stage) fill_rank(job, &out, &o->digests[i]->stages[s], o->row_of[i]);
    job->steps[job->nsteps++] = out;
}

void job_add_steps(struct rank_job *job) {
    job->steps = xcalloc(job->nstages + 1, sizeof *job->steps);
    for (size_t s = 0; s < job->nstages; s++)
        if (job->stages[s].parent == RANK_NONE && !job->stages[s].outside) add_stage(job, s);
}
