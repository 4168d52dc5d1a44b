/* Builds a job from the digests of its ranks: ranks, nodes, clocks, stages and sums. */
#include "ranks/job.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

static const char *add_text(struct strlist *list, const char *fmt, va_list ap) {
    struct strbuf s = STRBUF_INIT;
    strbuf_vaddf(&s, fmt, ap);
    strlist_add(list, "%s", s.buf ? s.buf : "");
    strbuf_free(&s);
    return list->v[list->n - 1];
}

const char *job_text(struct rank_job *job, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = add_text(&job_owner(job)->texts, fmt, ap);
    va_end(ap);
    return text;
}

void job_warning(struct rank_job *job, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_text(&job_owner(job)->warnings, fmt, ap);
    va_end(ap);
}

/* ---- ranks */

static void set_unknown(struct rank_time *t) {
    *t = (struct rank_time){ NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

static void add_missing(struct rank_job *job, uint32_t rank) {
    struct rank_row *row = &job->ranks[job->nranks++];
    *row = (struct rank_row){ .rank = rank,
                              .state = RANK_STATE_MISSING,
                              .local_rank = RANK_NONE,
                              .pid = RANK_NONE,
                              .node = RANK_NONE,
                              .clock = RANK_NONE,
                              .timeline_ns = NAN,
                              .unrecorded_ns = NAN,
                              .late_ns = NAN,
                              .sm_mhz_mean = NAN,
                              .throttled_ns = NAN,
                              .throttled_share = NAN,
                              .joules = NAN };
    set_unknown(&row->time);
    job->missing++;
}

static void add_present(struct rank_job *job, const struct rank_digest *d, uint32_t node) {
    struct rank_row *row = &job->ranks[job->nranks++];
    *row = (struct rank_row){ .rank = d->rank == RANK_NONE ? 0 : d->rank,
                              .state = d->finished ? RANK_STATE_COMPLETE : RANK_STATE_DIED,
                              .local_rank = d->local_rank,
                              .pid = d->pid,
                              .node = node,
                              .device = d->device,
                              .device_uuid = d->device_uuid,
                              .trace = d->ntraces ? d->traces[0] : NULL,
                              .kept_kernels = d->kept_kernels,
                              .nkept_kernels = d->nkept_kernels,
                              .digest = d->path,
                              .kernels = d->kernels,
                              .launches = d->launches,
                              .collectives = d->ncollectives_total,
                              .lost_records = d->lost_records,
                              .timeline_ns = d->timeline_ns,
                              .unrecorded_ns = d->unrecorded_ns,
                              .late_ns = NAN,
                              .sm_mhz_mean = d->sm_mhz_mean,
                              .throttled_ns = d->throttled_ns,
                              .throttled_share = d->throttled_ns / d->timeline_ns,
                              .joules = d->joules };
    job->died += row->state == RANK_STATE_DIED;
    job->present++;
}

static void add_ranks(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    /* a damaged or hostile file may name a huge world size: no rows are allocated for its missing ranks */
    size_t world = job->world_size != RANK_NONE && job->world_size <= 1u << 20 ? job->world_size : 0;
    size_t rows = MAX(world, o->n);
    job->ranks = xcalloc(rows + o->n + 1, sizeof *job->ranks);
    uint32_t next = 0;
    for (size_t i = 0; i < o->n; i++) {
        uint32_t rank = o->digests[i]->rank == RANK_NONE ? 0 : o->digests[i]->rank;
        while (world && next < rank && next < world) add_missing(job, next++);
        o->row_of[i] = (uint32_t)job->nranks;
        add_present(job, o->digests[i], o->node_of[i]);
        next = rank + 1;
    }
    while (world && next < world) add_missing(job, next++);
}

/* Groups the ranks into nodes: by node name, else by host name. */
static void add_nodes(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    struct intern *names = intern_open();
    job->nodes = xcalloc(o->n + 1, sizeof *job->nodes);
    for (size_t i = 0; i < o->n; i++) {
        const struct rank_digest *d = o->digests[i];
        const char *name = d->node ? d->node : d->host ? d->host : "unknown";
        uint32_t node = intern_str(names, name);
        if (node == job->nnodes) job->nodes[job->nnodes++].name = job_text(job, "%s", name);
        job->nodes[node].present++;
        o->node_of[i] = node;
    }
    intern_close(names);
}

static void set_clocks(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    clocks_find(o->digests, o->n, o->node_of, &o->clocks);
    job->clocks = o->clocks.v;
    job->nclocks = o->clocks.n;
    job->first_ns = UINT64_MAX;
    for (size_t i = 0; i < o->n; i++) {
        const struct rank_digest *d = o->digests[i];
        struct rank_row *row = &job->ranks[o->row_of[i]];
        row->clock = o->clocks.of_digest[i];
        struct rank_clock *c = &job->clocks[row->clock];
        if (!c->nsteps) {
            c->steps = d->clock_steps;
            c->nsteps = d->nclock_steps;
        }
        row->first_ns = rank_clock_to_job(c, d->first_ns);
        row->last_ns = rank_clock_to_job(c, d->last_ns);
        job->first_ns = MIN(job->first_ns, row->first_ns);
        job->last_ns = MAX(job->last_ns, row->last_ns);
        /* NaN is kept: one unknown error makes the largest error unknown */
        if (!(c->error_ns <= job->clock_error_ns)) job->clock_error_ns = c->error_ns;
    }
}

/* Marks a complete rank as late if its first record comes after the end of the first step (median over the
 * ranks). */
static void find_late(struct rank_job *job) {
    const struct job_owner *o = job_owner(job);
    double *ends = xmalloc((o->n + 1) * sizeof *ends);
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct rank_digest *d = o->digests[i];
        if (!d->first_step_end_ns) continue;
        uint64_t end = rank_clock_to_job(&job->clocks[job->ranks[o->row_of[i]].clock], d->first_step_end_ns);
        ends[n++] = (double)(end - job->first_ns);
    }
    double typical = stats_median_sorting(ends, n);
    for (size_t r = 0; r < job->nranks && o->n > 1; r++) {
        struct rank_row *row = &job->ranks[r];
        if (row->state != RANK_STATE_COMPLETE || !((double)(row->first_ns - job->first_ns) > typical))
            continue;
        row->state = RANK_STATE_LATE;
        job->late++;
    }
    free(ends);
}

/* ---- stages */

static void add_stage_rows(struct rank_job *job, bool outside) {
    struct job_owner *o = job_owner(job);
    for (size_t i = 0; i < o->n; i++)
        for (size_t s = 0; s < o->digests[i]->nstages; s++) {
            const struct digest_stage *d = &o->digests[i]->stages[s];
            size_t row = 0;
            if (d->outside != outside) continue;
            while (row < job->nstages && strcmp(job->stages[row].path, d->path) != 0) row++;
            if (row == job->nstages) {
                struct rank_stage stage = { .name = d->name,
                                            .path = d->path,
                                            .parent = RANK_NONE,
                                            .outside = d->outside,
                                            .implicit = d->implicit };
                if (d->parent != RANK_NONE) stage.parent = o->stage_of[i][d->parent];
                job->stages = realloc(job->stages, (job->nstages + 1) * sizeof *job->stages);
                if (!job->stages) die("out of memory");
                job->stages[job->nstages++] = stage;
            }
            job->stages[row].present++;
            o->stage_of[i][s] = (uint32_t)row;
        }
}

static void fill_cell(struct rank_cell *cell, const struct digest_stage *d) {
    cell->present = true;
    cell->occurrences = d->occurrences;
    cell->kernels = d->kernels;
    cell->launches = d->launches;
    cell->tokens_in = d->tokens_in;
    cell->tokens_out = d->tokens_out;
    cell->time = (struct rank_time){ .compute_ns = d->compute_ns,
                                     .exposed_ns = d->exposed_ns,
                                     .copy_ns = d->copy_ns,
                                     .idle_ns = d->idle_ns,
                                     .wait_ns = NAN,
                                     .move_ns = NAN,
                                     .matched_share = NAN,
                                     .hidden_ns = NAN };
    cell->wall_ns = d->compute_ns + d->exposed_ns + d->copy_ns + d->idle_ns;
    memcpy(cell->idle_cause_ns, d->idle_cause_ns, sizeof cell->idle_cause_ns);
    memcpy(cell->category_ns, d->category_ns, sizeof cell->category_ns);
}

static void add_time(struct rank_time *sum, const struct rank_time *t) {
    sum->compute_ns += t->compute_ns;
    sum->exposed_ns += t->exposed_ns;
    sum->copy_ns += t->copy_ns;
    sum->idle_ns += t->idle_ns;
}

static void add_cells(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    job->cells = xcalloc(job->nranks * job->nstages + 1, sizeof *job->cells);
    for (size_t i = 0; i < job->nranks * job->nstages; i++) {
        set_unknown(&job->cells[i].time);
        job->cells[i].tokens_in = job->cells[i].tokens_out = job->cells[i].wall_ns = NAN;
    }
    for (size_t i = 0; i < o->n; i++) {
        struct rank_row *row = &job->ranks[o->row_of[i]];
        const struct digest_unassigned *unassigned = &o->digests[i]->unassigned;
        row->time = (struct rank_time){ .compute_ns = unassigned->compute_ns,
                                        .exposed_ns = unassigned->exposed_ns,
                                        .copy_ns = unassigned->copy_ns,
                                        .idle_ns = unassigned->idle_ns,
                                        .wait_ns = NAN,
                                        .move_ns = NAN,
                                        .matched_share = NAN,
                                        .hidden_ns = o->digests[i]->hidden_ns };
        for (size_t s = 0; s < o->digests[i]->nstages; s++) {
            struct rank_cell *cell = &job->cells[o->row_of[i] * job->nstages + o->stage_of[i][s]];
            fill_cell(cell, &o->digests[i]->stages[s]);
            if (o->digests[i]->stages[s].parent == RANK_NONE && !isnan(cell->wall_ns))
                add_time(&row->time, &cell->time);
        }
        add_time(&job->time, &row->time);
        if (row->timeline_ns > 0) {
            job->timeline_ns += row->timeline_ns;
            job->unrecorded_ns += row->unrecorded_ns;
            job->time.hidden_ns += row->time.hidden_ns;
        }
    }
}

/* ---- texts for the user */

/* Adds the first 8 ranks in this state, and the number of the others: "2, 5, ..., 19 and 3 more". */
static void list_ranks(const struct rank_job *job, enum rank_state state, size_t total, struct strbuf *s) {
    size_t named = 0;
    for (size_t r = 0; r < job->nranks && named < 8; r++) {
        if (job->ranks[r].state != state) continue;
        strbuf_addf(s, "%s%u", named++ ? ", " : "", job->ranks[r].rank);
    }
    if (total > named) strbuf_addf(s, " and %zu more", total - named);
}

/* `text` is a format with one %s for the ranks: "rank 2" or "ranks 2, 5". */
static void note_ranks(struct rank_job *job, enum rank_state state, size_t total, const char *text) {
    struct strbuf s = STRBUF_INIT;
    if (!total) return;
    strbuf_addstr(&s, total > 1 ? "ranks " : "rank ");
    list_ranks(job, state, total, &s);
    job_warning(job, text, s.buf);
    strbuf_free(&s);
}

/* Adds the ranks of a clock: "ranks 4 to 7" or "ranks 1, 3 and 2 more". */
static void list_clock(const struct rank_job *job, size_t clock, struct strbuf *s) {
    size_t n = 0, first = 0, last = 0;
    for (size_t r = 0; r < job->nranks; r++) {
        if (job->ranks[r].clock != clock) continue;
        if (!n++) first = r;
        last = r;
    }
    if (n < 2)
        strbuf_addf(s, "rank %u", job->ranks[first].rank);
    else if (last - first + 1 == n)
        strbuf_addf(s, "ranks %u to %u", job->ranks[first].rank, job->ranks[last].rank);
    else
        strbuf_addf(s, "rank %u and %zu more", job->ranks[first].rank, n - 1);
}

static void note_step(struct rank_job *job, size_t clock, const struct rank_clock_change *step) {
    const struct rank_clock *c = &job->clocks[clock];
    char height[32], error[32], when[32];
    struct strbuf ranks = STRBUF_INIT;
    list_clock(job, clock, &ranks);
    double after_ns = (double)(int64_t)(step->job_ns - job->first_ns);
    job_warning(job,
                "The clock of node %s (%s) was set %s by %s (error %s), %s after the start of the job: %s",
                job->nodes[c->node].name, ranks.buf, step->step_ns < 0 ? "back" : "forward",
                units_duration_ns(fabs(step->step_ns), height, sizeof height),
                units_duration_ns(step->error_ns, error, sizeof error),
                units_duration_ns(fmax(0, after_ns), when, sizeof when),
                step->removed ? "the step was removed from all times"
                              : "its ranks have no traces here, so the time of the step is part of their "
                                "kernels or gaps. Merge the traces to remove it");
    strbuf_free(&ranks);
}

static void note_changes(struct rank_job *job, size_t clock) {
    const struct rank_clock *c = &job->clocks[clock];
    struct rank_clock_change step;
    size_t steps = 0;
    for (size_t i = 0; rank_clock_change(c, i, &step); i++) {
        note_step(job, clock, &step);
        steps += !step.removed;
    }
    if (c->nsegments > steps + 1)
        job_warning(job, "The rate of the clock of node %s changed: it was fitted in %zu parts",
                    job->nodes[c->node].name, c->nsegments);
}

static void note_edge(struct rank_job *job, const struct rank_clock *c) {
    char text[32];
    if (!c->edge_points) return;
    job_warning(
        job,
        "%zu matched collective%s at the %s of the job: on node %s, the end is %s %s than its clock "
        "predicts. This clock or that of the reference may have been set there, and times near it may "
        "be wrong by as much",
        c->edge_points, c->edge_points == 1 ? "" : "s", c->edge_is_last ? "end" : "start",
        job->nodes[c->node].name, units_duration_ns(fabs(c->edge_ns), text, sizeof text),
        c->edge_ns < 0 ? "earlier" : "later");
}

static void note_clocks(struct rank_job *job) {
    char text[32];
    size_t wall = 0, relative = 0;
    for (size_t c = 0; c < job->nclocks; c++) {
        if (job->clocks[c].node == RANK_NONE) continue;
        wall += job->clocks[c].source == RANK_CLOCK_WALL;
        relative += job->clocks[c].source == RANK_CLOCK_RELATIVE;
        note_changes(job, c);
        note_edge(job, &job->clocks[c]);
        if (!job->clocks[c].edge_points && job->clocks[c].source == RANK_CLOCK_COLLECTIVES &&
            job->clocks[c].error_ns > 100e3)
            job_warning(job,
                        "The clock of node %s is known only to %s: ends of its collectives scatter that much",
                        job->nodes[job->clocks[c].node].name,
                        units_duration_ns(job->clocks[c].error_ns, text, sizeof text));
    }
    if (wall)
        job_warning(
            job,
            "%zu of %zu clocks could not be compared through collectives: their wall clocks are used, "
            "with an unknown error",
            wall, job->nclocks);
    if (relative)
        job_warning(job,
                    "%zu of %zu clocks have no relation to the others: times between these ranks are not "
                    "comparable",
                    relative, job->nclocks);
}

static void note_without_work(struct rank_job *job) {
    size_t without = 0, with = 0, first = 0;
    for (size_t r = 0; r < job->nranks; r++) {
        if (job->ranks[r].state == RANK_STATE_MISSING) continue;
        with += job->ranks[r].kernels > 0;
        if (!job->ranks[r].kernels && !without++) first = r;
    }
    if (with && without)
        job_warning(
            job,
            "The traces of %zu rank%s contain no kernels (the first is rank %u): all times on GPUs are "
            "without them",
            without, without == 1 ? "" : "s", job->ranks[first].rank);
}

static void add_warnings(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    note_ranks(job, RANK_STATE_MISSING, job->missing, "There is no trace of %s: all sums are without them");
    note_ranks(job, RANK_STATE_DIED, job->died,
               "The trace of %s was not closed: killed, crashed or still running");
    note_ranks(job, RANK_STATE_LATE, job->late,
               "The first record of %s is later than the first step of the others");
    note_without_work(job);
    if (job->world_size == RANK_NONE && o->n > 1)
        job_warning(job, "The traces do not contain the world size: missing ranks cannot be named");
    note_clocks(job);
    for (size_t i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->digests[i]->nwarnings && o->warnings.n < 50; k++)
            job_warning(job, "Rank %u: %s", job->ranks[o->row_of[i]].rank, o->digests[i]->warnings[k]);
}

void rank_time_divide(struct rank_time *t, double wait_ns, double matched_ns) {
    if (!(t->exposed_ns > 0)) {
        /* exposed_ns may also be NaN: then waiting is unknown, too */
        if (t->exposed_ns <= 0) t->wait_ns = t->move_ns = 0;
        return;
    }
    t->matched_share = fmin(1, matched_ns / t->exposed_ns);
    if (!(matched_ns > 0)) return;
    t->wait_ns = t->exposed_ns * fmin(1, wait_ns / matched_ns);
    t->move_ns = t->exposed_ns - t->wait_ns;
}

void job_build(struct rank_job *job, struct rank_digest **digests, size_t n, uint32_t world_size) {
    struct job_owner *o = xcalloc(1, sizeof *o);
    *job = (struct rank_job){ .world_size = world_size, .owner = o };
    job->straggler.rank = job->straggler.stage = RANK_NONE;
    o->digests = digests;
    o->n = n;
    o->row_of = xcalloc(n + 1, sizeof *o->row_of);
    o->node_of = xcalloc(n + 1, sizeof *o->node_of);
    o->stage_of = xcalloc(n + 1, sizeof *o->stage_of);
    for (size_t i = 0; i < n; i++) {
        o->stage_of[i] = xcalloc(digests[i]->nstages + 1, sizeof *o->stage_of[i]);
        if (!job->id) job->id = digests[i]->job;
    }
    add_nodes(job);
    add_ranks(job);
    set_clocks(job);
    find_late(job);
    add_stage_rows(job, false);
    add_stage_rows(job, true);
    add_cells(job);
    job_add_steps(job);
    job_add_collectives(job);
    job_sum_nodes(job);
    job_find_straggler(job);
    add_warnings(job);
    job->warnings = (const char *const *)o->warnings.v;
    job->nwarnings = o->warnings.n;
}

void rank_job_free(struct rank_job *job) {
    struct job_owner *o = job_owner(job);
    if (!o) return;
    for (size_t i = 0; i < o->n; i++) {
        rank_digest_free(o->digests[i]);
        free(o->stage_of[i]);
        free(o->steps_before[i]);
    }
    for (size_t i = 0; i < job->nsteps; i++) free(job->steps[i].cells);
    for (size_t i = 0; i < job->ncommunicators; i++) free(job->communicators[i].ranks);
    free(o->digests);
    free(o->row_of);
    free(o->node_of);
    free(o->stage_of);
    free(o->steps_before);
    clocks_free(&o->clocks);
    strlist_free(&o->warnings);
    strlist_free(&o->texts);
    free(job->ranks);
    free(job->nodes);
    free(job->stages);
    free(job->cells);
    free(job->steps);
    free(job->communicators);
    free(job->collectives);
    free(o);
    *job = (struct rank_job){ 0 };
}
