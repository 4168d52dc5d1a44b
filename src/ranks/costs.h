/* MFU, MBU and roofline time of every rank and of the job: each GPU is charged with its own part of the
 * model (llm/shard.h). Communication is not part of the roofline time here.
 *     struct rank_costs c;
 *     rank_costs_find(&job, &layout, model, &options, &c);     -- c.why: NULL, or why there are no costs
 *     rank_costs_free(&c); */
#ifndef RANKS_COSTS_H
#define RANKS_COSTS_H

#include "llm/model.h"
#include "ranks/layout.h"

/* All NaN if unknown. FLOPs, bytes and roofline time are sums over the occurrences. */
struct rank_cost {
    double flops, bytes, floor_ns;
    double mfu, mbu;
};

struct rank_costs {
    struct rank_cost *cells; /* [nranks x nstages] */
    struct rank_cost *job;   /* [nstages]: sums over ranks; ratios over the time of all ranks */
    char *why;               /* why nothing is known; NULL: costs are known */
};

struct rank_peaks {
    double flop_per_s, bytes_per_s; /* peaks given by the user; NaN or 0: taken from the GPU's name */
};

void rank_costs_find(const struct rank_job *job, const struct rank_layout *layout, const struct llm_model *m,
                     const struct rank_peaks *given, struct rank_costs *out);
void rank_costs_free(struct rank_costs *c);

#endif
