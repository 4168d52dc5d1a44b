/* The digest of one rank: all data that a job needs from it. Its size does not depend on the number of
 * kernels. A digest is computed on the machine with the trace, and read by `merge` and `report` instead of
 * the trace.
 *     struct rank_digest *d = rank_digest_make(paths, n, &limits, &err);
 *     rank_digest_write(d, path, &err);
 *     d = rank_digest_read(path, &err);                        -- untrusted: every number is checked
 *     rank_digest_free(d);
 * A digest is one JSON document (schemas/digest.schema.json). Times in it are relative to `base_ns`.
 *
 * Bounds: at most digest_limits.collectives collectives, RANK_STEPS_MAX rows of steps per stage,
 * DIGEST_STAGES stages, DIGEST_CLASSES kernel classes, DIGEST_OPERATIONS operations and DIGEST_TRACES paths
 * of traces. If a rank has more collectives, it keeps those whose sequence number is a multiple of 2^k.
 * Therefore two ranks keep the same ones, or one keeps a subset of the other's. If a stage has more steps, a
 * row is the sum of 2^k consecutive steps. If a rank has more operations, it keeps the first ones, and a
 * message in `warnings` counts the collectives of the others. */
#ifndef RANKS_DIGEST_H
#define RANKS_DIGEST_H

#include "ranks/ranks.h"

#define DIGEST_COLLECTIVES 4096
#define DIGEST_STAGES 64
#define DIGEST_CLASSES 64
#define DIGEST_OPERATIONS 65536
#define DIGEST_TRACES 10000
#define DIGEST_WARNINGS 22
#define DIGEST_CLOCK_STEPS 64
#define DIGEST_PIECES 8 /* largest number of exposed parts kept per collective */
#define DIGEST_BYTES_MAX (256u << 20)

/* Collectives with the same communicator, operation, type and size; in a pair, also with the same two
 * ranks. */
struct digest_operation {
    uint64_t match;                            /* equal on all ranks that take part; set by digest_finish() */
    uint64_t communicator;                     /* id as recorded */
    const char *communicator_name, *op, *type; /* NULL: unknown */
    uint64_t bytes;                            /* 0: unknown */
    uint32_t size;                             /* ranks in the communicator; 0: unknown */
    bool pair;                                 /* a send or a receive: two ranks take part */
    /* both ranks of a pair, by their rank in the communicator; RANK_NONE: not a pair, or unknown */
    uint32_t from_rank, to_rank;
    bool from_kernel; /* there is no collective record; communication kernels were numbered in their order */
    bool matchable;   /* the sequence number identifies the collective on all ranks */
    uint64_t calls;   /* number of all collectives, including those that were not kept */
    double exposed_ns, total_ns;
};

struct digest_collective {
    uint64_t sequence;
    /* times of its kernel, or of the call if it has no kernel, on the rank's own clock */
    uint64_t start_ns, end_ns;
    float exposed_ns;     /* NaN: it has no kernel */
    uint32_t operation;   /* row of `operations` */
    uint32_t step;        /* index among the occurrences of its stage; RANK_NONE: outside all stages */
    uint32_t first_piece; /* row of `pieces`: its first exposed part, if npieces is not 0 */
    uint16_t stage;       /* row of the top-level stage; DIGEST_NO_STAGE: none */
    uint8_t npieces;      /* 0: it is exposed completely or not at all, or it has too many parts */
};
#define DIGEST_NO_STAGE UINT16_MAX

struct digest_piece { /* an exposed part; times are relative to the start of the collective */
    uint64_t from_ns, to_ns;
};

struct digest_stage {
    const char *name, *path;
    uint32_t parent; /* row of rank_digest.stages; RANK_NONE: top level */
    bool outside, implicit;
    uint64_t occurrences, kernels, launches;
    double tokens_in, tokens_out;
    /* NaN: the trace does not give the time of the stage. Its steps then have no rows. */
    double compute_ns, exposed_ns, copy_ns, idle_ns;
    double idle_cause_ns[ANALYSIS_IDLE_CAUSES], category_ns[KERNEL_CATEGORY_END];
    /* Only top-level stages have rows of steps. A row is the sum over steps_per_row steps; the last may have
     * fewer. */
    uint32_t steps_per_row;
    size_t nrows;
    struct digest_step *rows;
};
/* Time that belongs to top-level stages, but not to a certain one: the stages have unknown times. */
struct digest_unassigned {
    double compute_ns, exposed_ns, copy_ns, idle_ns;
};
struct digest_step {
    uint64_t start_ns; /* start of the row's first step, on the rank's own clock */
    uint32_t steps;
    double wall_ns, compute_ns, exposed_ns, tokens; /* sums */
};

struct digest_class { /* kernels of one name and launch geometry; the largest owned time first */
    const char *name;
    uint64_t blocks, threads; /* 0: unknown */
    uint64_t calls;
    double total_ns;
    bool communicates;
};

struct rank_digest {
    uint32_t rank, world_size, local_rank, node_rank, pid; /* RANK_NONE: unknown */
    const char *node, *host, *launcher, *job;              /* NULL: unknown */
    bool finished, relative_clock;
    const char *device, *device_uuid;                       /* NULL: unknown */
    uint64_t base_ns, first_ns, last_ns, first_step_end_ns; /* on the rank's own clock; 0: unknown */
    /* steps of its clock, which were removed from all times of the digest, in the order of time */
    const struct rank_clock_step *clock_steps;
    size_t nclock_steps;
    uint64_t kernels, launches, lost_records, ncollectives_total;
    double timeline_ns, unrecorded_ns, hidden_ns;
    double sm_mhz_mean, throttled_ns, joules; /* NaN: unknown */
    struct digest_stage *stages;
    size_t nstages;
    struct digest_unassigned unassigned;
    struct digest_class *classes;
    size_t nclasses;
    struct digest_operation *operations;
    size_t noperations;
    /* Sorted by (match of the operation, sequence). */
    struct digest_collective *collectives;
    size_t ncollectives;
    struct digest_piece *pieces;
    size_t npieces;
    uint32_t every;            /* only sequence numbers that are multiples of this were kept: 1, 2, 4, ... */
    const char *const *traces; /* paths of the traces that the digest was made from */
    size_t ntraces;
    const char *const *warnings;
    size_t nwarnings;
    const struct rank_kernel *kept_kernels; /* in memory only; NULL: not kept */
    size_t nkept_kernels;
    const char *path; /* path of the digest file; NULL: made in memory */
    void *owner;      /* private */
};

struct digest_limits {
    const struct rank_options *options;  /* NULL: defaults */
    size_t collectives;                  /* 0: DIGEST_COLLECTIVES */
    struct trace_set *traces;            /* readers that are already open; may be NULL */
    size_t kept_kernels;                 /* largest number of kernels for rank_digest.kept_kernels */
    const struct rank_clock_step *steps; /* steps of its clock to remove, in the order of time */
    size_t nsteps;
};

/* All paths are traces of one rank. Returns NULL on errors, like the other functions that return a digest. */
struct rank_digest *rank_digest_make(const char *const *paths, size_t n, const struct digest_limits *limits,
                                     struct err *err);
int rank_digest_write(const struct rank_digest *d, const char *path, struct err *err);
struct rank_digest *rank_digest_read(const char *path, struct err *err);
/* Like rank_digest_read(), from memory, for tests and fuzzing. `what` names the text in messages. */
struct rank_digest *rank_digest_parse(const char *text, size_t n, const char *what, struct err *err);
void rank_digest_free(struct rank_digest *d); /* accepts NULL */

/* digest_owner.c: memory of a digest. */
void *digest_alloc(struct rank_digest *d, size_t n, size_t elem_bytes); /* zeroed, at least one element */
void *digest_keep(struct rank_digest *d, void *block);                  /* freed with the digest */
const char *digest_text(struct rank_digest *d, const char *text);       /* a copy; NULL for NULL and "" */
/* numbers that can be unknown are NaN or RANK_NONE; `every` is 1, all others are 0 */
struct rank_digest *digest_new(void);
/* Sets `match` of all operations and sorts the collectives. */
void digest_finish(struct rank_digest *d);

#endif
