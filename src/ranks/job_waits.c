/* Matched collectives of a job: when each rank arrived, which part of the exposed communication was
 * waiting, and how fast the bytes moved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/stream_stats.h"
#include "base/die.h"
#include "base/intern.h"
#include "base/util.h"
#include "base/vec.h"
#include "llm/links.h"
#include "ranks/job.h"
#include "ranks/match.h"

/* If more than this share of the exposed time of a rank is in operations of which none was matched, its
 * waiting is unknown: a receive usually waits longer than the collectives that were matched. */
#define UNMATCHED_SHARE 0.05

/* Exposed time of matched collectives, and the part of it that was waiting. */
struct waited {
    double wait_ns, matched_ns;
};
struct wait_sums {
    struct rank_job *job;
    struct waited *cells;  /* [nranks x nstages] */
    struct waited *ranks;  /* [nranks] */
    struct waited *waits;  /* [ncollectives] */
    struct waited **steps; /* [nsteps][rows x nranks] */
    uint32_t *steps_of;    /* [nstages]: row of job.steps; RANK_NONE: none */
    double *late_ns, *caused_ns;
    uint64_t *arrivals, *last;        /* [nranks] */
    uint32_t **row_of;                /* [digests][operations]: row of job.collectives */
    bool **matched;                   /* [digests][operations]: at least one call was matched */
    double *unmatched_ns;             /* [nranks]: exposed time in operations without a match */
    struct stream_stats *move, *skew; /* [ncollectives] */
    struct intern *rows, *comms, *texts;
    size_t cap;
    uint64_t incomplete; /* matched collectives without all ranks of their communicator */
};

/* ---- communicators and rows of collectives */

static uint32_t communicator_row(struct wait_sums *w, const struct digest_operation *op) {
    struct rank_job *job = w->job;
    uint32_t id = intern_id(w->comms, (const char *)&op->communicator, sizeof op->communicator);
    if (id < job->ncommunicators) return id;
    job->communicators = realloc(job->communicators, (job->ncommunicators + 1) * sizeof *job->communicators);
    if (!job->communicators) die("out of memory");
    job->communicators[job->ncommunicators++] = (struct rank_communicator){ .id = op->communicator,
                                                                            .name = op->communicator_name,
                                                                            .size = op->size,
                                                                            .from_kernels = op->from_kernel };
    return id;
}

struct row_key {
    uint64_t bytes;
    uint32_t communicator, op, type, pad;
};

static uint32_t text_id(struct wait_sums *w, const char *text) {
    return intern_str(w->texts, text ? text : "");
}

static uint32_t collective_row(struct wait_sums *w, const struct digest_operation *op) {
    struct rank_job *job = w->job;
    struct row_key key;
    memset(&key, 0, sizeof key);
    key.bytes = op->bytes;
    key.communicator = communicator_row(w, op);
    key.op = text_id(w, op->op);
    key.type = text_id(w, op->type);
    uint32_t id = intern_id(w->rows, (const char *)&key, sizeof key);
    if (id < job->ncollectives) return id;
    job->collectives = vec_fit(job->collectives, id + 1, &w->cap, sizeof *job->collectives);
    job->collectives[job->ncollectives++] = (struct rank_collective){
        .communicator = key.communicator,
        .operation = op->op ? op->op : "unknown",
        .type = op->type,
        .bytes = op->bytes,
        .wait_ns = NAN,
        .algorithm_bytes_per_s = NAN,
        .bus_bytes_per_s = NAN,
    };
    return id;
}

/* Adds the operations of all digests as rows of job.collectives, so that row_of[] contains the row of
 * each. */
static void add_rows(struct wait_sums *w) {
    struct rank_job *job = w->job;
    const struct job_owner *o = job_owner(job);
    for (size_t i = 0; i < o->n; i++) {
        const struct rank_digest *d = o->digests[i];
        w->row_of[i] = xcalloc(d->noperations + 1, sizeof *w->row_of[i]);
        w->matched[i] = xcalloc(d->noperations + 1, sizeof *w->matched[i]);
        for (size_t k = 0; k < d->noperations; k++) {
            const struct digest_operation *op = &d->operations[k];
            uint32_t row = w->row_of[i][k] = collective_row(w, op);
            struct rank_communicator *c = &job->communicators[job->collectives[row].communicator];
            uint32_t rank = job->ranks[o->row_of[i]].rank;
            job->collectives[row].calls += op->calls;
            job->collectives[row].exposed_ns += op->exposed_ns;
            c->size = MAX(c->size, op->size);
            if (c->nranks && c->ranks[c->nranks - 1] == rank) continue;
            c->ranks = realloc(c->ranks, (c->nranks + 1) * sizeof *c->ranks);
            if (!c->ranks) die("out of memory");
            c->ranks[c->nranks++] = rank;
        }
    }
    w->move = xcalloc(job->ncollectives + 1, sizeof *w->move);
    w->skew = xcalloc(job->ncollectives + 1, sizeof *w->skew);
    w->waits = xcalloc(job->ncollectives + 1, sizeof *w->waits);
}

static void count_nodes(struct rank_job *job) {
    bool *used = xcalloc(job->nnodes + 1, sizeof *used);
    for (size_t i = 0; i < job->ncommunicators; i++) {
        struct rank_communicator *c = &job->communicators[i];
        memset(used, 0, job->nnodes * sizeof *used);
        for (size_t r = 0; r < c->nranks; r++) {
            const struct rank_row *row = rank_job_find(job, c->ranks[r]);
            if (!row || row->node == RANK_NONE || used[row->node]) continue;
            used[row->node] = true;
            c->nodes++;
        }
    }
    free(used);
}

/* ---- one matched collective */

/* One rank in a matched collective, with times on the job's clock. */
struct arrival {
    uint64_t start_ns, end_ns;
    uint32_t row;   /* row of job.ranks */
    uint32_t stage; /* row of job.stages; RANK_NONE: none */
};

/* Returns the exposed time of the collective until `until_ns`, a time relative to its start. */
static double exposed_before(const struct rank_digest *d, const struct digest_collective *c,
                             uint64_t until_ns) {
    uint64_t length = c->end_ns - c->start_ns;
    double exposed = (double)c->exposed_ns, ns = 0;
    if (!(exposed > 0)) return 0;
    if (until_ns >= length) return exposed;
    /* It is exposed completely, or it has too many parts: they are assumed to be spread evenly. */
    if (!c->npieces) return exposed * (double)until_ns / (double)length;
    for (size_t i = 0; i < c->npieces; i++) {
        const struct digest_piece *p = &d->pieces[c->first_piece + i];
        if (until_ns > p->from_ns) ns += (double)(MIN(until_ns, p->to_ns) - p->from_ns);
    }
    return ns;
}

static void add_waited(struct waited *w, double wait_ns, double exposed_ns) {
    w->wait_ns += wait_ns;
    w->matched_ns += exposed_ns;
}

static void add_to_step(struct wait_sums *w, uint32_t stage, uint32_t step, uint32_t row, double wait_ns,
                        double exposed_ns) {
    uint32_t table = stage == RANK_NONE ? RANK_NONE : w->steps_of[stage];
    if (table == RANK_NONE || step == RANK_NONE) return;
    const struct rank_steps *s = &w->job->steps[table];
    size_t at = step / s->steps_per_row;
    if (at < s->nrows) add_waited(&w->steps[table][at * w->job->nranks + row], wait_ns, exposed_ns);
}

/* Returns the number of the step in the job; RANK_NONE: the collective is outside all stages. */
static uint32_t step_of_job(const struct job_owner *o, uint32_t digest, const struct digest_collective *c) {
    if (c->step == RANK_NONE || c->stage == DIGEST_NO_STAGE) return RANK_NONE;
    return c->step + o->steps_before[digest][c->stage];
}

/* Returns the end of the collective on a rank whose clock was not stepped; 0: there is none. After a backward
 * step, a time of a clock has two meanings, and this end shows which one is right. */
static uint64_t certain_end(const struct rank_job *job, const struct match_group *g) {
    const struct job_owner *o = job_owner(job);
    for (size_t i = 0; i < g->n; i++) {
        const struct rank_clock *clock = &job->clocks[o->clocks.of_digest[g->members[i].digest]];
        if (clock->nsegments == 1) return rank_clock_to_job(clock, g->members[i].collective->end_ns);
    }
    return 0;
}

static void convert_group(struct wait_sums *w, const struct match_group *g, struct arrival *v) {
    struct rank_job *job = w->job;
    const struct job_owner *o = job_owner(job);
    uint64_t near_ns = certain_end(job, g);
    for (size_t i = 0; i < g->n; i++) {
        uint32_t digest = g->members[i].digest;
        const struct digest_collective *c = g->members[i].collective;
        const struct rank_clock *clock = &job->clocks[o->clocks.of_digest[digest]];
        uint64_t end = clocks_to_job(clock, c->end_ns, near_ns), length = c->end_ns - c->start_ns;
        if (!near_ns) near_ns = end;
        v[i] = (struct arrival){ end > length ? end - length : 0, end, o->row_of[digest],
                                 c->stage == DIGEST_NO_STAGE ? RANK_NONE : o->stage_of[digest][c->stage] };
    }
}

/* Returns the index of the last arrival. *first: time of the first arrival; *second: time of the last but
 * one. */
static size_t find_last(const struct arrival *v, size_t n, uint64_t *first, uint64_t *second) {
    size_t last = 0;
    *first = v[0].start_ns;
    *second = 0;
    for (size_t i = 0; i < n; i++) {
        *first = MIN(*first, v[i].start_ns);
        if (v[i].start_ns > v[last].start_ns) last = i;
    }
    for (size_t i = 0; i < n; i++)
        if (i != last) *second = MAX(*second, v[i].start_ns);
    return last;
}

/* Returns the largest error over the segments of a clock. NaN: unknown. */
static double usual_error(const struct rank_clock *c) {
    double most = 0;
    for (size_t i = 0; i < c->nsegments; i++)
        if (!(c->segments[i].error_ns <= most)) most = c->segments[i].error_ns;
    return most;
}

/* Returns false if the ranks have different clocks, and the error of one is unknown. */
static bool is_order_known(const struct rank_job *job, const struct arrival *v, size_t n) {
    bool differ = false, unknown = false;
    for (size_t i = 0; i < n; i++) {
        differ |= job->ranks[v[i].row].clock != job->ranks[v[0].row].clock;
        unknown |= isnan(usual_error(&job->clocks[job->ranks[v[i].row].clock]));
    }
    return !differ || !unknown;
}

/* Returns true if the last arrival is later than each other one by more than the error between their
 * clocks. */
static bool is_clearly_last(const struct rank_job *job, const struct arrival *v, size_t n, size_t last) {
    uint32_t clock = job->ranks[v[last].row].clock;
    double own = usual_error(&job->clocks[clock]);
    for (size_t i = 0; i < n; i++) {
        uint32_t other = job->ranks[v[i].row].clock;
        double error = other == clock ? 0 : fmax(own, usual_error(&job->clocks[other]));
        if (i != last && !((double)(v[last].start_ns - v[i].start_ns) > error)) return false;
    }
    return true;
}

/* Nobody is late in a pair: a pipeline stage waits in its receive until the stage before it is done. */
static void add_group(struct wait_sums *w, const struct match_group *g, struct arrival *v) {
    struct rank_job *job = w->job;
    const struct job_owner *o = job_owner(job);
    const struct digest_operation *op = match_operation(o->digests, &g->members[0]);
    uint32_t row = w->row_of[g->members[0].digest][g->members[0].collective->operation];
    uint64_t first, second, last_end = 0;
    double others_wait = 0;
    convert_group(w, g, v);
    size_t last = find_last(v, g->n, &first, &second);
    bool ordered = !op->pair && is_order_known(job, v, g->n);
    uint64_t start = v[last].start_ns;
    for (size_t i = 0; i < g->n; i++) {
        const struct digest_collective *c = g->members[i].collective;
        double wait = exposed_before(o->digests[g->members[i].digest], c, start - v[i].start_ns);
        double exposed = c->exposed_ns > 0 ? (double)c->exposed_ns : 0;
        uint32_t r = v[i].row;
        last_end = MAX(last_end, v[i].end_ns);
        w->matched[g->members[i].digest][c->operation] = true;
        /* without the last rank, the others would wait until the last but one arrives */
        uint64_t anyway_ns = second > v[i].start_ns ? second - v[i].start_ns : 0;
        if (i != last) others_wait += wait - exposed_before(o->digests[g->members[i].digest], c, anyway_ns);
        if (ordered) job_owner(job)->ordered_wait_ns += wait;
        if (ordered) w->late_ns[r] += (double)(v[i].start_ns - first);
        w->arrivals[r] += ordered;
        add_waited(&w->ranks[r], wait, exposed);
        /* the receive of a pair has its own row */
        add_waited(&w->waits[w->row_of[g->members[i].digest][c->operation]], wait, exposed);
        if (v[i].stage != RANK_NONE) add_waited(&w->cells[r * job->nstages + v[i].stage], wait, exposed);
        add_to_step(w, v[i].stage, step_of_job(o, g->members[i].digest, c), r, wait, exposed);
    }
    if (ordered && is_clearly_last(job, v, g->n, last)) {
        w->last[v[last].row]++;
        w->caused_ns[v[last].row] += others_wait;
    }
    stream_stats_add(&w->skew[row], (double)(start - first));
    if (last_end > start) stream_stats_add(&w->move[row], (double)(last_end - start));
    job->collectives[row].matched++;
    job->matched++;
    w->incomplete += op->size && !op->pair && g->n < op->size;
}

/* Adds the collectives of communicators with a single rank, which never waits. */
static void add_alone(struct wait_sums *w) {
    struct rank_job *job = w->job;
    const struct job_owner *o = job_owner(job);
    for (size_t i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->digests[i]->ncollectives; k++) {
            const struct digest_collective *c = &o->digests[i]->collectives[k];
            uint32_t row = w->row_of[i][c->operation], r = o->row_of[i];
            double exposed = c->exposed_ns > 0 ? (double)c->exposed_ns : 0;
            if (o->digests[i]->operations[c->operation].size != 1) continue;
            w->matched[i][c->operation] = true;
            add_waited(&w->ranks[r], 0, exposed);
            add_waited(&w->waits[row], 0, exposed);
            if (c->stage != DIGEST_NO_STAGE) {
                uint32_t stage = o->stage_of[i][c->stage];
                add_waited(&w->cells[r * job->nstages + stage], 0, exposed);
                add_to_step(w, stage, step_of_job(o, (uint32_t)i, c), r, 0, exposed);
            }
            stream_stats_add(&w->skew[row], 0);
            stream_stats_add(&w->move[row], (double)(c->end_ns - c->start_ns));
        }
}

/* ---- results */

/* Returns bus bandwidth / algorithm bandwidth for n ranks, as nccl-tests defines it; NaN: not defined. For
 * all_gather and reduce_scatter, NCCL reports the size of one rank's part, but the algorithm bandwidth uses
 * the whole buffer: *size_factor is n. It is 1 for other operations. */
static double bus_factor(const char *op, double n, double *size_factor) {
    enum llm_collective_kind kind = llm_collective_of(op);
    *size_factor = kind == LLM_ALL_GATHER || kind == LLM_REDUCE_SCATTER ? n : 1;
    return llm_collective_factor(kind, (uint64_t)n);
}

static void finish_collective(struct rank_job *job, struct rank_collective *c) {
    const struct rank_communicator *comm = &job->communicators[c->communicator];
    double ranks = comm->size ? comm->size : (double)comm->nranks, size_factor;
    if (!c->bytes || !(c->move_ns.median > 0) || ranks < 2) return;
    double factor = bus_factor(c->operation, ranks, &size_factor);
    c->algorithm_bytes_per_s = (double)c->bytes * size_factor / (c->move_ns.median * 1e-9);
    c->bus_bytes_per_s = c->algorithm_bytes_per_s * factor;
}

static int by_exposed(const void *pa, const void *pb) {
    const struct rank_collective *a = pa, *b = pb;
    if (a->exposed_ns != b->exposed_ns) return a->exposed_ns > b->exposed_ns ? -1 : 1;
    return (a->calls < b->calls) - (a->calls > b->calls);
}

static void finish_collectives(struct wait_sums *w) {
    struct rank_job *job = w->job;
    for (size_t i = 0; i < job->ncollectives; i++) {
        struct rank_collective *c = &job->collectives[i];
        c->move_ns = stream_stats_take(&w->move[i]);
        c->skew_ns = stream_stats_take(&w->skew[i]);
        if (w->waits[i].matched_ns > 0)
            c->wait_ns = c->exposed_ns * fmin(1, w->waits[i].wait_ns / w->waits[i].matched_ns);
        finish_collective(job, c);
    }
    if (job->ncollectives) qsort(job->collectives, job->ncollectives, sizeof *job->collectives, by_exposed);
}

static void sum_unmatched(struct wait_sums *w) {
    const struct job_owner *o = job_owner(w->job);
    for (size_t i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->digests[i]->noperations; k++)
            if (!w->matched[i][k]) w->unmatched_ns[o->row_of[i]] += o->digests[i]->operations[k].exposed_ns;
}

static bool is_wait_known(const struct wait_sums *w, size_t rank_row) {
    return !(w->unmatched_ns[rank_row] > UNMATCHED_SHARE * w->job->ranks[rank_row].time.exposed_ns);
}

/* Splits the exposed time of every rank into waiting and moving, in every stage and step. A nested stage is
 * split in the same ratio as its top-level stage, because waiting is not known per nested stage. */
static void finish_cells(struct wait_sums *w) {
    struct rank_job *job = w->job;
    for (size_t r = 0; r < job->nranks; r++)
        for (size_t s = 0; s < job->nstages; s++) {
            size_t top = s;
            while (job->stages[top].parent != RANK_NONE) top = job->stages[top].parent;
            const struct waited *x = &w->cells[r * job->nstages + top];
            struct rank_cell *cell = &job->cells[r * job->nstages + s];
            if (cell->present)
                rank_time_divide(&cell->time, x->wait_ns, is_wait_known(w, r) ? x->matched_ns : 0);
        }
    for (size_t t = 0; t < job->nsteps; t++)
        for (size_t i = 0; i < job->steps[t].nrows * job->nranks; i++) {
            struct rank_step_cell *cell = &job->steps[t].cells[i];
            const struct waited *x = &w->steps[t][i];
            if (x->matched_ns > 0 && is_wait_known(w, i % job->nranks))
                cell->wait_ns = (float)((double)cell->exposed_ns * fmin(1, x->wait_ns / x->matched_ns));
            else if (cell->exposed_ns <= 0)
                cell->wait_ns = 0;
        }
}

/* Splits the exposed time of every rank into waiting and moving, in the ratio of its matched collectives. The
 * exposed time of the job is split in the ratio of the ranks whose waiting is known, if they have nearly all
 * of it. */
static void finish_ranks(struct wait_sums *w) {
    struct rank_job *job = w->job;
    double wait = 0, matched = 0, exposed = 0;
    for (size_t r = 0; r < job->nranks; r++) {
        struct rank_row *row = &job->ranks[r];
        if (row->state == RANK_STATE_MISSING) continue;
        double known_ns = is_wait_known(w, r) ? w->ranks[r].matched_ns : 0;
        rank_time_divide(&row->time, w->ranks[r].wait_ns, known_ns);
        if (w->arrivals[r]) row->late_ns = w->late_ns[r] / (double)w->arrivals[r];
        row->last_arrivals = w->last[r];
        row->wait_caused_ns = w->caused_ns[r];
        matched += known_ns;
        if (row->time.wait_ns >= 0) {
            wait += row->time.wait_ns;
            exposed += row->time.exposed_ns;
        }
    }
    job->time.wait_ns = job->time.move_ns = job->time.matched_share = NAN;
    if (exposed < (1 - UNMATCHED_SHARE) * job->time.exposed_ns) matched = 0;
    rank_time_divide(&job->time, exposed > 0 ? wait / exposed * matched : 0, matched);
}

static void open_sums(struct wait_sums *w, struct rank_job *job) {
    const struct job_owner *o = job_owner(job);
    *w = (struct wait_sums){
        .job = job, .rows = intern_open(), .comms = intern_open(), .texts = intern_open()
    };
    w->cells = xcalloc(job->nranks * job->nstages + 1, sizeof *w->cells);
    w->ranks = xcalloc(job->nranks + 1, sizeof *w->ranks);
    w->late_ns = xcalloc(job->nranks + 1, sizeof *w->late_ns);
    w->caused_ns = xcalloc(job->nranks + 1, sizeof *w->caused_ns);
    w->arrivals = xcalloc(job->nranks + 1, sizeof *w->arrivals);
    w->last = xcalloc(job->nranks + 1, sizeof *w->last);
    w->row_of = xcalloc(o->n + 1, sizeof *w->row_of);
    w->matched = xcalloc(o->n + 1, sizeof *w->matched);
    w->unmatched_ns = xcalloc(job->nranks + 1, sizeof *w->unmatched_ns);
    w->steps = xcalloc(job->nsteps + 1, sizeof *w->steps);
    w->steps_of = xmalloc((job->nstages + 1) * sizeof *w->steps_of);
    for (size_t s = 0; s < job->nstages; s++) w->steps_of[s] = RANK_NONE;
    for (size_t t = 0; t < job->nsteps; t++) {
        w->steps_of[job->steps[t].stage] = (uint32_t)t;
        w->steps[t] = xcalloc(job->steps[t].nrows * job->nranks + 1, sizeof *w->steps[t]);
    }
}

static void close_sums(struct wait_sums *w) {
    const struct job_owner *o = job_owner(w->job);
    for (size_t i = 0; i < o->n; i++) free(w->row_of[i]);
    for (size_t i = 0; i < o->n; i++) free(w->matched[i]);
    for (size_t t = 0; t < w->job->nsteps; t++) free(w->steps[t]);
    void *blocks[] = {
        w->cells,   w->ranks,        w->late_ns, w->caused_ns, w->arrivals, w->last, w->row_of,
        w->matched, w->unmatched_ns, w->steps,   w->steps_of,  w->move,     w->skew, w->waits
    };
    for (size_t i = 0; i < COUNTOF(blocks); i++) free(blocks[i]);
    intern_close(w->rows);
    intern_close(w->comms);
    intern_close(w->texts);
}

void job_add_collectives(struct rank_job *job) {
    const struct job_owner *o = job_owner(job);
    struct wait_sums w;
    open_sums(&w, job);
    add_rows(&w);
    count_nodes(job);
    struct arrival *v = xmalloc((o->n + 1) * sizeof *v);
    struct match_walk *walk = match_open(o->digests, o->n);
    for (struct match_group g; match_next(walk, &g);) add_group(&w, &g, v);
    match_close(walk);
    free(v);
    add_alone(&w);
    sum_unmatched(&w);
    finish_cells(&w);
    finish_ranks(&w);
    finish_collectives(&w);
    if (w.incomplete)
        job_warning(
            job,
            "%llu of %llu matched collectives lack some ranks of their communicator: waiting for these "
            "ranks counts as moving",
            (unsigned long long)w.incomplete, (unsigned long long)job->matched);
    close_sums(&w);
}
