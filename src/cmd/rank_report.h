/* Writes the report of a job of several ranks, for commands that write reports. */
#ifndef CMD_RANK_REPORT_H
#define CMD_RANK_REPORT_H

#include <stdio.h>

#include "llm/model.h"
#include "ranks/inputs.h"
#include "ranks/ranks.h"
#include "timeline/timeline.h"

struct rank_report_options {
    const struct llm_model *model; /* NULL: no MFU and MBU */
    uint64_t tp, pp, ep, dp;       /* 0: recognised from the traces */
    const char *link, *net;        /* names or GB/s; link NULL: that of the GPU; net NULL: unknown */
    double peak_flops_per_s, peak_bytes_per_s; /* 0: from the GPU */
    const char *title;
    FILE *screen; /* for the summary; NULL: none */
};

/* The operands of a command that accepts jobs of several ranks.
 *     if (rank_operands_open(&o, operands, n, &options, &err) < 0) ...     -- the ranks cannot be read
 *     if (o.ranks > 1) use(&o.job, &o.clocks);
 *     rank_operands_close(&o); */
struct rank_operands {
    size_t ranks;             /* 0 or 1: not a job of several ranks; `job` and `clocks` are not set */
    bool digests;             /* at least one rank has only a digest */
    unsigned long long bytes; /* size of all traces */
    struct rank_job job;
    struct timeline_clocks clocks; /* clocks of the traces; valid until close */
    struct rank_inputs inputs;     /* private */
};
int rank_operands_open(struct rank_operands *o, const char *const *operands, size_t n,
                       const struct rank_options *options, struct err *err);
void rank_operands_close(struct rank_operands *o);

/* Writes ranks.html, ranks.md and ranks.json into `dir`, which is created if necessary, then prints the
 * summary. */
int rank_report_run(const struct rank_job *job, const char *dir, const struct rank_report_options *o,
                    struct err *err);

#endif
