/* MFU, MBU and roofline time of every rank and of the job: the costs of a GPU are those of its own part
 * of the model (llm/shard.h). Communication is not part of the roofline time here.
 *     struct rank_costs c;
 *     rank_costs_find(&job, &layout, model, &peaks, &c);       -- c.why: NULL, or why ratios are unknown
 *     rank_costs_free(&c); */
#ifndef RANKS_COSTS_H
#define RANKS_COSTS_H

#include "llm/model.h"
#include "ranks/layout.h"

/* Unknown members are NaN. flops, bytes and floor_ns (roofline time) are sums over the occurrences. */
struct rank_cost {
    double flops, bytes, floor_ns;
    double mfu, mbu;
    double floor_each_ns; /* roofline time per occurrence; only of the job */
};

struct rank_costs {
    struct rank_cost *cells; /* [nranks x nstages] */
    struct rank_cost *job;   /* [nstages]: sums over ranks; mfu and mbu are means weighted by wall time */
    char *why;               /* why mfu and mbu are unknown; NULL: some are known */
};

struct rank_peaks {
    double flop_per_s, bytes_per_s; /* peaks given by the user; NaN or 0: found by the GPU's name */
};

void rank_costs_find(const struct rank_job *job, const struct rank_layout *layout, const struct llm_model *m,
                     const struct rank_peaks *given, struct rank_costs *out);
void rank_costs_free(struct rank_costs *c);

#endif
