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
    uint32_t rank; /* RANK_NONE: the job is a single file that does not name its rank */
    /* paths: one per process, the trace with kernels first; then the files with the power of its GPUs */
    struct strlist traces;
    struct strlist devices;     /* uuids of its GPUs */
    char *digest;               /* path; the digest is used instead of the traces. NULL: none */
    struct rank_digest *loaded; /* contents of `digest`; NULL: none, or taken by the caller */
    bool has_kernels;
};
struct rank_inputs {
    struct rank_input *v; /* sorted by rank */
    size_t n, cap;
    struct strlist warnings;   /* messages about files that are not used */
    uint32_t world_size;       /* RANK_NONE: unknown */
    struct trace_set *readers; /* borrowed from the filter */
    /* number of digests (0 with traces_only) and traces that were found, over all parts; files with only the
     * power of GPUs are not counted */
    size_t files;
    bool twice; /* set if rank_inputs_find() failed because two files are of the same rank */
};

/* Which files to use. All zero: all files. */
struct rank_filter {
    bool traces_only;     /* ignore digests */
    uint32_t part, parts; /* use only traces i with i % parts == part; parts 0: all traces */
    unsigned threads;     /* files to read at the same time; 0: one per processor */
    /* Keeps the readers of the traces open for rank_job_load_inputs() and its callers. May be NULL. */
    struct trace_set *readers;
};
/* Operands as in rank_job_load(). Returns -1 if they belong to different jobs, if a rank has two digests or
 * two traces with GPU work, or if no file is usable. A filter that excludes all files is not an error. */
int rank_inputs_find(struct rank_inputs *in, const char *const *operands, size_t n,
                     const struct rank_filter *filter, struct err *err);
void rank_inputs_free(struct rank_inputs *in);
/* rank_job_load() for files that were found before. Takes the digests in `loaded` from the inputs. */
int rank_job_load_inputs(struct rank_job *job, struct rank_inputs *in, const struct rank_options *options,
                         struct err *err);

#endif
