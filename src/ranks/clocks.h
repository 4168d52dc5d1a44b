/* The clocks of a job. Ranks of one node share a clock, unless their collectives prove otherwise. The clock
 * of the lowest rank is the clock of the job; the others are fitted to it (clock_fit.h), directly or through
 * nodes that were fitted before. */
#ifndef RANKS_CLOCKS_H
#define RANKS_CLOCKS_H

#include "ranks/digest.h"

struct rank_clocks {
    struct rank_clock *v;
    size_t n;
    uint32_t *of_digest; /* [ndigests]: clock of each digest */
    size_t split_nodes;  /* nodes whose ranks have different clocks */
};

/* node[i] is the node of digest i. The digests are sorted by rank. */
void clocks_find(struct rank_digest *const *digests, size_t n, const uint32_t *node, struct rank_clocks *out);
void clocks_free(struct rank_clocks *c);
/* Converts a time to the job's clock. After a backward step, a time has two meanings. If the result is more
 * than 1 ms from `near_ns`, a time on the job's clock, the closest meaning is returned. 0: no hint. */
uint64_t clocks_to_job(const struct rank_clock *c, uint64_t own_ns, uint64_t near_ns);

#endif
