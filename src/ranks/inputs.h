/* The files of a job, grouped by rank. */
#ifndef RANKS_INPUTS_H
#define RANKS_INPUTS_H

#include "base/err.h"
#include "base/strlist.h"
#include "ranks/ranks.h"

#define RANK_DIGEST_ENDING ".digest.json"
#define RANK_DIGEST_FOLDER "digest" /* in a run folder */

struct rank_digest;
struct rank_input {
    uint32_t rank;              /* RANK_NONE: no file names a rank, and this is the only one */
    struct strlist traces;      /* paths, one per process; the trace with kernels is first */
    char *digest;               /* NULL: none; used instead of the traces */
    struct rank_digest *loaded; /* the digest, already read; NULL: none, or taken by the caller */
    bool has_kernels;
};
struct rank_inputs {
    struct rank_input *v; /* sorted by rank */
    size_t n, cap;
    struct strlist problems; /* files that are not used */
    uint32_t world_size;     /* RANK_NONE: unknown */
    size_t files;            /* number of files found in the operands, including files of other parts */
};

/* Which files to use. All zero: everything. */
struct rank_filter {
    bool traces_only;     /* ignore digests */
    uint32_t part, parts; /* use only every parts-th trace, from number `part` on; parts 0: all */
};
/* Operands as in rank_job_load(). Returns -1 if they are not one job, or if there is nothing to read. */
int rank_inputs_find(struct rank_inputs *in, const char *const *operands, size_t n,
                     const struct rank_filter *filter, struct err *err);
void rank_inputs_free(struct rank_inputs *in);

#endif
