#include "ranks/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/group_name.h"
#include "base/die.h"
#include "base/util.h"

#define OFTEN 4.0 /* with at least this many all-reduces per step and rank, a group works in the layers */

static uint64_t world_of(const struct rank_job *job) {
    return job->world_size != RANK_NONE ? job->world_size : job->nranks;
}

/* ---- Kinds of operations on a communicator */
enum use { USE_REDUCE, USE_GATHER, USE_EXCHANGE, USE_SEND, USE_SEND_KERNEL, USE_OTHER, USES };

static enum use use_of(const char *operation) {
    static const struct {
        const char *operation;
        enum use use;
    } rows[] = {
        { "all_reduce", USE_REDUCE },    { "all_gather", USE_GATHER }, { "reduce_scatter", USE_GATHER },
        { "all_to_all", USE_EXCHANGE },  { "send", USE_SEND },         { "recv", USE_SEND },
        { "send_recv", USE_SEND_KERNEL }
    };
    for (size_t i = 0; operation && i < COUNTOF(rows); i++)
        if (strcmp(rows[i].operation, operation) == 0) return rows[i].use;
    return USE_OTHER;
}

/* Returns the number of steps per rank: occurrences of all top-level stages, averaged over the ranks with
 * data; at least 1. */
static double steps_per_rank(const struct rank_job *job) {
    double sum = 0;
    for (size_t r = 0; r < job->nranks; r++)
        for (size_t s = 0; s < job->nstages; s++)
            if (job->stages[s].parent == RANK_NONE && !job->stages[s].outside)
                sum += (double)rank_job_cell(job, r, s)->occurrences;
    return job->present ? fmax(1, sum / (double)job->present) : 1;
}

/* Adds up the calls per step and rank on a communicator, by use. */
static void count_uses(const struct rank_job *job, size_t communicator, double per_step[USES]) {
    double ranks = (double)MAX(1, job->communicators[communicator].nranks), steps = steps_per_rank(job);
    for (size_t i = 0; i < job->ncollectives; i++) {
        const struct rank_collective *c = &job->collectives[i];
        if (c->communicator == communicator)
            per_step[use_of(c->operation)] += (double)c->calls / ranks / steps;
    }
}

static bool has_stage(const struct rank_job *job, const char *name) {
    for (size_t i = 0; i < job->nstages; i++)
        if (job->stages[i].name && strcmp(job->stages[i].name, name) == 0) return true;
    return false;
}

/* Returns true for inference programs. Their steps have no gradients, so an all-reduce in the layers is
 * tensor parallel. */
static bool is_inference(const struct rank_job *job) {
    return has_stage(job, "decode") || has_stage(job, "prefill");
}

/* Returns GROUP_KINDS if the operations do not show one kind. *ambiguous is then true if the communicator may
 * still belong to the layout. */
static enum group_kind kind_by_use(const struct rank_job *job, size_t communicator, bool *ambiguous) {
    double n[USES] = { 0 };
    count_uses(job, communicator, n);
    const struct rank_communicator *c = &job->communicators[communicator];
    /* The size of the group is unknown: it may include ranks without a trace. Without collective records,
     * kernels of several groups have no communicator that tells them apart. */
    if (!c->size && (job->present < world_of(job) || (c->from_kernels && job->present > 2))) {
        *ambiguous = true;
        return GROUP_KINDS;
    }
    if (n[USE_EXCHANGE] >= 1) return GROUP_EXPERT;
    if (n[USE_SEND] >= 1 && n[USE_REDUCE] < 1) return GROUP_PIPELINE;
    if (n[USE_REDUCE] >= OFTEN && is_inference(job)) return GROUP_TENSOR;
    /* an all-reduce or gather fits several kinds; a kernel that sends and receives is part of a pipeline or
     * of an all-to-all */
    *ambiguous = n[USE_REDUCE] + n[USE_GATHER] + n[USE_SEND_KERNEL] >= 1;
    return GROUP_KINDS;
}

/* ---- Groups of one kind */
struct groups {
    uint32_t *group; /* [job.nranks]: number of the rank's group; RANK_NONE: none */
    uint32_t *place; /* [job.nranks]: position in the group */
    uint64_t size;   /* 0: no group of this kind */
    bool conflict;   /* sizes differ, or a rank is in two groups */
};

static size_t row_of(const struct rank_job *job, uint32_t rank) {
    const struct rank_row *r = rank_job_find(job, rank);
    return r ? (size_t)(r - job->ranks) : SIZE_MAX;
}

static void add_group(const struct rank_job *job, const struct rank_communicator *c, uint32_t number,
                      struct groups *g) {
    uint64_t size = MAX(c->size, c->nranks);
    g->conflict |= g->size && g->size != size;
    g->size = size;
    for (size_t i = 0; i < c->nranks; i++) {
        size_t row = row_of(job, c->ranks[i]);
        if (row == SIZE_MAX) continue;
        g->conflict |= g->group[row] != RANK_NONE;
        g->group[row] = number;
        g->place[row] = (uint32_t)i;
    }
}

/* Adds two ranks that send to each other. Neighbours in a pipeline often have a communicator of their own.
 * Pairs that share a rank form one pipeline; its stages are the ranks in ascending order. */
static void add_pair(const struct rank_job *job, const struct rank_communicator *c, struct groups *g) {
    size_t a = row_of(job, c->ranks[0]), b = row_of(job, c->ranks[1]);
    if (a == SIZE_MAX || b == SIZE_MAX) return;
    uint32_t keep = g->group[a] != RANK_NONE ? g->group[a] : g->group[b];
    if (keep == RANK_NONE) keep = (uint32_t)MIN(a, b);
    uint32_t old[2] = { g->group[a], g->group[b] };
    for (size_t r = 0; r < job->nranks; r++)
        for (size_t k = 0; k < 2; k++)
            if (old[k] != RANK_NONE && g->group[r] == old[k]) g->group[r] = keep;
    g->group[a] = g->group[b] = keep;
}

/* Sets size and places after the last add_pair(). */
static void finish_pairs(const struct rank_job *job, struct groups *g) {
    for (size_t r = 0; r < job->nranks; r++) {
        uint32_t before = 0, all = 0;
        if (g->group[r] == RANK_NONE) continue;
        for (size_t k = 0; k < job->nranks; k++) {
            all += g->group[k] == g->group[r];
            before += k < r && g->group[k] == g->group[r];
        }
        g->conflict |= g->size && g->size != all;
        g->size = all;
        g->place[r] = before;
    }
}

struct found {
    struct groups kinds[GROUP_KINDS];
    bool named, ambiguous;
};

static void init_found(const struct rank_job *job, struct found *f) {
    *f = (struct found){ 0 };
    for (size_t k = 0; k < GROUP_KINDS; k++) {
        f->kinds[k].group = xcalloc(MAX(1, job->nranks), sizeof(uint32_t));
        f->kinds[k].place = xcalloc(MAX(1, job->nranks), sizeof(uint32_t));
        for (size_t r = 0; r < job->nranks; r++) f->kinds[k].group[r] = f->kinds[k].place[r] = RANK_NONE;
    }
}

static void free_found(struct found *f) {
    for (size_t k = 0; k < GROUP_KINDS; k++) {
        free(f->kinds[k].group);
        free(f->kinds[k].place);
    }
}

/* Groups the ranks by the names of process groups if any name shows a kind, otherwise by the operations of
 * the communicators. */
static void find_groups(const struct rank_job *job, struct found *f) {
    bool pairs = false;
    init_found(job, f);
    for (size_t i = 0; i < job->ncommunicators; i++)
        f->named |= job->communicators[i].name && group_kind_of(job->communicators[i].name) != GROUP_KINDS;
    for (size_t i = 0; i < job->ncommunicators; i++) {
        const struct rank_communicator *c = &job->communicators[i];
        bool ambiguous = false;
        enum group_kind kind =
            f->named ? (c->name ? group_kind_of(c->name) : GROUP_KINDS) : kind_by_use(job, i, &ambiguous);
        f->ambiguous |= ambiguous;
        if (kind == GROUP_KINDS || MAX(c->size, c->nranks) < 2) continue;
        if (kind == GROUP_PIPELINE && c->nranks == 2 && MAX(c->size, c->nranks) == 2) {
            add_pair(job, c, &f->kinds[kind]);
            pairs = true;
        } else {
            add_group(job, c, (uint32_t)i, &f->kinds[kind]);
        }
    }
    if (pairs) finish_pairs(job, &f->kinds[GROUP_PIPELINE]);
}

/* ---- Sizes */
static void set_unknown(struct rank_layout *l, char *why) {
    l->source = NULL;
    free(l->why);
    l->why = why;
}

static void size_by_groups(const struct rank_job *job, const struct found *f, struct rank_layout *l) {
    uint64_t world = world_of(job), tp = f->kinds[GROUP_TENSOR].size, pp = f->kinds[GROUP_PIPELINE].size;
    uint64_t dp = f->kinds[GROUP_DATA].size, ep = f->kinds[GROUP_EXPERT].size;
    uint64_t cp = MAX(1, f->kinds[GROUP_CONTEXT].size);
    for (size_t k = 0; k < GROUP_KINDS; k++)
        if (f->kinds[k].conflict) {
            set_unknown(
                l, xasprintf("the %s communicators overlap or have different sizes: give --tp, --pp, --ep "
                             "or --dp",
                             group_kind_name((enum group_kind)k)));
            return;
        }
    if (!tp && !pp && !ep && !dp) {
        set_unknown(l, xstrdup(f->ambiguous
                                   ? "the communicators fit several layouts: give --tp, --pp, --ep or --dp"
                               : job->ncommunicators
                                   ? "no communicator takes part in the steps: give --tp, --pp, --ep or --dp"
                                   : "no communicators were recorded: give --tp, --pp, --ep or --dp"));
        return;
    }
    if (f->ambiguous && !tp && !dp) {
        set_unknown(l, xstrdup("some communicators fit several layouts: give --tp, --pp, --ep or --dp"));
        return;
    }
    uint64_t shared = MAX(1, tp) * MAX(1, pp) * cp;
    if (world % shared || (dp && dp * shared != world)) {
        set_unknown(l, xasprintf("groups of %" PRIu64 " x %" PRIu64 " x %" PRIu64
                                 " ranks do not make up the %" PRIu64
                                 " ranks of the job: give --tp, --pp, --ep or --dp",
                                 MAX(1, tp), MAX(1, pp), dp ? dp * cp : cp, world));
        return;
    }
    l->sizes = llm_layout_of(tp, pp, ep, world / (MAX(1, tp) * MAX(1, pp)));
    l->source = f->named ? "names of process groups" : "communicators";
    l->why = xasprintf("from the %s", l->source);
}

static int size_given(const struct rank_job *job, const struct rank_given *g, struct rank_layout *l,
                      struct err *err) {
    uint64_t world = world_of(job), tp = MAX(1, g->tp), pp = MAX(1, g->pp), shared = tp * pp;
    if (world % shared || (g->dp && shared * g->dp != world))
        return err_set(
            err, "--tp %" PRIu64 " x --pp %" PRIu64 "%s do not make up the %" PRIu64 " ranks of the job", tp,
            pp, g->dp ? " and --dp" : "", world);
    l->sizes = llm_layout_of(g->tp, g->pp, g->ep, world / shared);
    l->source = "given";
    l->why = xstrdup("given on the command line");
    return 0;
}

/* ---- Places */
static uint32_t place_in(const struct groups *g, uint64_t size, size_t row) {
    if (size == 1) return 0;
    return g->size == size && !g->conflict ? g->place[row] : RANK_NONE;
}

/* Returns the place of a rank if ranks are numbered tp first, then dp, then pp. */
static struct rank_place usual_place(const struct llm_layout *s, uint32_t rank) {
    return (struct rank_place){ (uint32_t)(rank % s->tp), (uint32_t)(rank / s->tp / s->dp % s->pp),
                                (uint32_t)(rank / s->tp % s->dp) };
}

/* Sets the places that no communicator shows to the usual ones, unless a known place contradicts them. */
static void assume_order(const struct rank_job *job, struct rank_layout *l) {
    bool unknown = false;
    for (size_t r = 0; r < job->nranks; r++) {
        const struct rank_place *p = &l->places[r], usual = usual_place(&l->sizes, job->ranks[r].rank);
        if ((p->pp != RANK_NONE && p->pp != usual.pp) || (p->dp != RANK_NONE && p->dp != usual.dp)) return;
        unknown |= p->pp == RANK_NONE || p->dp == RANK_NONE;
    }
    for (size_t r = 0; r < job->nranks && unknown; r++)
        l->places[r] = usual_place(&l->sizes, job->ranks[r].rank);
    l->assumed_order = unknown;
    if (!unknown) return;
    free(l->why);
    l->why =
        xstrdup("given on the command line; ranks are assumed to be numbered tp first, then dp, then pp");
}

/* Sets the places of ranks. Without a communicator, tp is assumed to be innermost. Programs differ in whether
 * dp or pp follows: if both are larger than 1, an order is assumed only for given sizes. */
static void place_ranks(const struct rank_job *job, const struct found *f, bool given,
                        struct rank_layout *l) {
    for (size_t r = 0; l->source && r < job->nranks; r++) {
        struct rank_place *p = &l->places[r];
        uint32_t rank = job->ranks[r].rank;
        uint64_t tp = l->sizes.tp, pp = l->sizes.pp, dp = l->sizes.dp;
        p->tp = place_in(&f->kinds[GROUP_TENSOR], tp, r);
        p->pp = place_in(&f->kinds[GROUP_PIPELINE], pp, r);
        p->dp = place_in(&f->kinds[GROUP_DATA], dp, r);
        if (p->tp == RANK_NONE) p->tp = (uint32_t)(rank % tp);
        if (p->pp == RANK_NONE && dp == 1) p->pp = (uint32_t)(rank / tp % pp);
        if (p->dp == RANK_NONE && pp == 1) p->dp = (uint32_t)(rank / tp % dp);
    }
    if (given && l->source) assume_order(job, l);
}

int rank_layout_find(const struct rank_job *job, const struct rank_given *given, struct rank_layout *out,
                     struct err *err) {
    struct found found;
    int rc = 0;
    *out = (struct rank_layout){ .places = xcalloc(MAX(1, job->nranks), sizeof *out->places) };
    for (size_t r = 0; r < job->nranks; r++)
        out->places[r] = (struct rank_place){ RANK_NONE, RANK_NONE, RANK_NONE };
    find_groups(job, &found);
    bool is_given = given->tp || given->pp || given->ep || given->dp;
    if (is_given)
        rc = size_given(job, given, out, err);
    else
        size_by_groups(job, &found, out);
    place_ranks(job, &found, is_given, out);
    free_found(&found);
    if (rc < 0) rank_layout_free(out);
    return rc;
}

void rank_layout_free(struct rank_layout *l) {
    free(l->why);
    free(l->places);
    *l = (struct rank_layout){ 0 };
}

char *rank_layout_text(const struct rank_layout *l) {
    if (!l->source) return NULL;
    char *ep = l->sizes.ep ? xasprintf(", ep %" PRIu64, l->sizes.ep) : xstrdup("");
    char *text =
        xasprintf("tp %" PRIu64 ", pp %" PRIu64 "%s, dp %" PRIu64, l->sizes.tp, l->sizes.pp, ep, l->sizes.dp);
    free(ep);
    return text;
}
