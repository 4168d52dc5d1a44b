/* How the ranks of a job share the model, from the process groups that a trace names (torch's
 * distributedInfo: meta group.N.name, .size, .ranks). */
#ifndef ANALYZE_RANK_GROUPS_H
#define ANALYZE_RANK_GROUPS_H

#include "analyze/internal.h"

struct rank_split {
    /* tp: GPUs that divide a layer; pp: groups of layers; ep: GPUs that share the experts; dp: replicas.
     * 0: unknown */
    uint64_t tp, pp, ep, dp;
};

/* Returns false if the trace names no groups (*why is NULL), or if their sizes conflict or do not explain the
 * job's number of ranks (*why is the reason). */
bool rank_groups_split(struct context *c, struct rank_split *out, const char **why);

#endif
