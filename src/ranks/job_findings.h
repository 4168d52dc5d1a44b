/* Findings about a job of several ranks. A saving is the time in ms by which every step of the job can
 * become shorter, not the waiting time of one rank. The savings of one stage never add up to more than its
 * step.
 *     struct rank_findings f;
 *     rank_findings_find(&job, &layout, &links, &f);       -- f.v sorted by saving
 *     rank_findings_free(&f); */
#ifndef RANKS_JOB_FINDINGS_H
#define RANKS_JOB_FINDINGS_H

#include "ranks/layout.h"
#include "ranks/link_use.h"

struct rank_finding {
    const char *rule; /* "slow-gpu": a stable id for scripts */
    char *title, *evidence;
    const char *advice;
    uint32_t stage;        /* row of rank_job.stages */
    uint32_t rank;         /* the rank that causes the loss; RANK_NONE: no single rank */
    double saving_ms;      /* upper bound per step */
    double step_ms;        /* duration of a step: the mean of the slowest rank */
    double saving_percent; /* of step_ms */
    enum analysis_confidence confidence;
};
struct rank_findings {
    struct rank_finding *v;
    size_t n, cap;
};

void rank_findings_find(const struct rank_job *job, const struct rank_layout *layout,
                        const struct rank_links *links, struct rank_findings *out);
void rank_findings_free(struct rank_findings *f);
/* Returns the mean duration of a step of the slowest rank, in ns; NaN: the stage has no steps. */
double rank_step_ns(const struct rank_job *job, size_t stage);

#endif
