/* Internal to ranks/: building a job from digests. */
#ifndef RANKS_JOB_H
#define RANKS_JOB_H

#include "base/strlist.h"
#include "ranks/clocks.h"
#include "ranks/digest.h"

/* Data that the job points to. */
struct job_owner {
    struct rank_digest **digests; /* [n], sorted by rank */
    size_t n;
    uint32_t *row_of;    /* [n]: row of rank_job.ranks */
    uint32_t *node_of;   /* [n]: row of rank_job.nodes */
    uint32_t **stage_of; /* [n][digest stages]: row of rank_job.stages */
    /* [n][digest stages]: number of steps of the stage in the job before the rank's first one */
    uint32_t **steps_before;
    struct rank_clocks clocks;
    struct strlist warnings, texts;
    double ordered_wait_ns; /* waiting of all ranks in collectives whose order of arrivals is known */
};

static inline struct job_owner *job_owner(const struct rank_job *job) { return job->owner; }
/* Returns a formatted text that lives as long as the job. */
const char *job_text(struct rank_job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void job_warning(struct rank_job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Takes over the digests. world_size may be RANK_NONE. */
void job_build(struct rank_job *job, struct rank_digest **digests, size_t n, uint32_t world_size);

/* The parts of job_build(), in the order of the calls. */
void job_add_steps(struct rank_job *job);       /* job_steps.c: rows of steps, without waiting */
void job_add_collectives(struct rank_job *job); /* job_waits.c: matched collectives, waiting and moving */
void job_sum_nodes(struct rank_job *job);       /* job_nodes.c */
void job_find_straggler(struct rank_job *job);  /* straggler.c */

/* Splits t->exposed_ns into t->wait_ns and t->move_ns in the ratio of its matched part: of matched_ns of
 * exposed time, wait_ns was waiting. */
void rank_time_divide(struct rank_time *t, double wait_ns, double matched_ns);

#endif
