/* Exposed parts of collectives: the time in which the kernel of a collective runs and no computing kernel
 * runs. If several communication kernels run at the same time, the time belongs to the one that started
 * first. */
#ifndef RANKS_EXPOSED_H
#define RANKS_EXPOSED_H

#include "analyze/analyze.h"
#include "ranks/digest.h"

struct exposed_row { /* exposed time of one collective */
    uint64_t ns;     /* total exposed time */
    uint32_t last;   /* row of its last part; the parts form a list from last to first. RANK_NONE: none */
    uint32_t npieces;
    bool has_kernel;
};
struct exposed_piece {
    uint64_t from_ns, to_ns;
    uint32_t before; /* row of the previous part of the same collective; RANK_NONE: none */
};
struct exposed {
    struct exposed_row *rows; /* [timeline.collectives.n] */
    struct exposed_piece *pieces;
    size_t npieces, cap;
};

struct exposed *exposed_find(const struct timeline *tl, const struct analysis *a);
/* Writes the parts of a collective, earliest first, with times relative to start_ns. */
void exposed_copy(const struct exposed *e, size_t collective, uint64_t start_ns, struct digest_piece *out);
void exposed_free(struct exposed *e);

#endif
