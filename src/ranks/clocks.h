/* The clocks of a job. Ranks of one node share a clock, unless their collectives prove otherwise. The clock
 * of the lowest rank that was not set back is the clock of the job; the others are fitted to it
 * (clock_fit.h), directly or through clocks that are already fitted. */
#ifndef RANKS_CLOCKS_H
#define RANKS_CLOCKS_H

#include "ranks/digest.h"

struct rank_clocks {
    struct rank_clock *v;
    size_t n;
    uint32_t *of_digest; /* [ndigests]: clock of each digest */
    size_t reference;    /* the clock of the job */
};

/* node[i] is the node of digest i. The digests are sorted by rank. The caller frees `out` with
 * clocks_free(). */
void clocks_find(struct rank_digest *const *digests, size_t n, const uint32_t *node, struct rank_clocks *out);
void clocks_free(struct rank_clocks *c);
/* Converts a time to the job's clock. near_ns: a time on the job's clock near the expected result; 0: no
 * hint. After a backward step, one time belongs to two segments: if the result is 1 ms or more from near_ns,
 * the segment with the closest result is used. */
uint64_t clocks_to_job(const struct rank_clock *c, uint64_t own_ns, uint64_t near_ns);

#endif
