/* How the ranks of a job share a model: sizes of tensor, pipeline, expert and data parallelism. Sources are
 * the command line, the names of process groups, or the operations of the communicators.
 *     struct rank_layout l;
 *     if (rank_layout_find(&job, &(struct rank_given){ .tp = 8 }, &l, &err) < 0) ...  -- contradicts the job
 *     if (!l.source) say(l.why);                                                      -- unknown
 *     rank_layout_free(&l);
 * Only an unambiguous layout is used: a guess would make every figure per GPU wrong. */
#ifndef RANKS_LAYOUT_H
#define RANKS_LAYOUT_H

#include "llm/shard.h"
#include "ranks/ranks.h"

struct rank_given {
    uint64_t tp, pp, ep, dp; /* 0: not given */
};

/* Position of a rank in each kind of group, from 0; RANK_NONE: unknown. */
struct rank_place {
    uint32_t tp, pp, dp;
};

struct rank_layout {
    struct llm_layout sizes;   /* valid if `source` is set */
    const char *source;        /* "given", "names of process groups", "communicators"; NULL: unknown */
    char *why;                 /* why the layout is unknown, or where it comes from; never NULL */
    struct rank_place *places; /* [job.nranks] */
    /* The places in given sizes do not come from communicators: ranks are numbered tp first, then dp, then
     * pp, as `static` numbers GPUs. */
    bool assumed_order;
};

/* Returns -1 if the given sizes contradict the number of ranks. */
int rank_layout_find(const struct rank_job *job, const struct rank_given *given, struct rank_layout *out,
                     struct err *err);
void rank_layout_free(struct rank_layout *l);
/* Returns "tp 8, pp 2, dp 1", or NULL if the layout is unknown. The caller frees it. */
char *rank_layout_text(const struct rank_layout *l);

#endif
