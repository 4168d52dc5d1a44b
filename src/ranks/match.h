/* Walks over the collectives of all ranks in groups: the same collective of the same communicator on every
 * rank that has it. Uses memory only for one entry per rank, because each digest is sorted.
 *     struct match_walk *w = match_open(digests, n);
 *     for (struct match_group g; match_next(w, &g);) use(g.members, g.n);
 *     match_close(w); */
#ifndef RANKS_MATCH_H
#define RANKS_MATCH_H

#include "ranks/digest.h"

struct match_member {
    uint32_t digest; /* index of the digest */
    const struct digest_collective *collective;
};
struct match_group {
    uint64_t match, sequence;
    const struct match_member *members; /* sorted by digest; at most one per digest */
    size_t n;                           /* at least 2 */
};
struct match_walk;
struct match_walk *match_open(struct rank_digest *const *digests, size_t n);
/* Returns false at the end. Skips collectives of a single rank, and groups in which a rank has two
 * collectives. */
bool match_next(struct match_walk *w, struct match_group *g);
void match_close(struct match_walk *w);

static inline const struct digest_operation *match_operation(struct rank_digest *const *digests,
                                                             const struct match_member *m) {
    return &digests[m->digest]->operations[m->collective->operation];
}

#endif
