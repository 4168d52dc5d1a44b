/* The report of several ranks, for commands. */
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
    const char *link, *net;        /* name or GB/s; link NULL: the GPU's link; net NULL: unknown */
    double peak_flops_per_s, peak_bytes_per_s; /* 0: from the GPU */
    const char *title;
    FILE *screen; /* for the summary; NULL: none */
};

/* Operands that may be a job of several ranks.
 *     struct trace_set *readers = trace_set_new();
 *     if (rank_operands_open(&o, operands, n, readers, &options, &err) < 0) ...  -- the ranks cannot be read
 *     if (o.ranks > 1) use(&o.job, &o.clocks);
 *     rank_operands_close(&o);
 *     trace_set_free(readers); */
struct rank_operands {
    size_t ranks;             /* 0, 1: `job` is not set */
    bool digests;             /* some rank has only a digest */
    unsigned long long bytes; /* size of all traces */
    struct rank_job job;
    struct timeline_clocks clocks; /* valid until close */
    struct trace_set *readers;     /* borrowed: open readers of the traces */
    struct rank_inputs inputs;     /* private */
};
int rank_operands_open(struct rank_operands *o, const char *const *operands, size_t n,
                       struct trace_set *readers, const struct rank_options *options, struct err *err);
void rank_operands_close(struct rank_operands *o);

/* Writes ranks.html, ranks.md and ranks.json into `dir`, which is created if necessary, and prints the
 * summary. */
int rank_report_run(const struct rank_operands *ranks, const char *dir, const struct rank_report_options *o,
                    struct err *err);

#endif
