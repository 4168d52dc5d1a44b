/* A finished run, opened again: its traces analysed anew, and beside them what its metrics.json and
 * config.yaml remember of the timed repeats, the model's costs, the environment, the answers. Written
 * again, its files are the same.
 *     struct report_run r;
 *     if (report_run_open(&r, operands, n, NULL, &err) < 0) ...
 *     report_write_all(dir, &r.in, &err);
 *     report_run_close(&r);
 * An operand is a run folder (its trace/ is read), a folder of .ipt files, or an .ipt file. */
#ifndef REPORT_RUN_H
#define REPORT_RUN_H

#include "analyze/analyze.h"
#include "base/strlist.h"
#include "report/report.h"

struct report_run {
    struct timeline *timeline;
    struct analysis analysis;
    struct report_input in;
    char *dir; /* the run folder; NULL: files were given */
    struct strlist paths;
    struct analyze_input input; /* of the analysis, which borrows it */
    char peak_source[128];
    struct report_memory *memory;     /* of metrics.json; NULL: there is none */
    struct report_profiles *profiles; /* of ncu.json; NULL: there is none */
    struct strbuf config;
    struct strlist texts, env_texts; /* owners of what `in` points to */
    struct report_kv *env;
    char *title;
};

/* Options for the analysis; fields left 0 or NULL are filled from the run and from the device table. */
struct report_run_options {
    const struct analyze_rule *rules;
    size_t nrules;
    double peak_flops_per_s, peak_bytes_per_s; /* 0 or NaN: looked up */
    const struct llm_model *model; /* its costs replace those the run kept; must live until close */
    bool whole;                    /* of a recorded request also what its program did before and after it */
    bool fresh; /* the traces are new: an older metrics.json in the folder says nothing of them */
};

int report_run_open(struct report_run *r, const char *const *operands, size_t n,
                    const struct report_run_options *options, struct err *err);
void report_run_close(struct report_run *r);

/* A recorded request (input->one_run) is read again without what its program did before and after it:
 * loading, warming up. `tl` and `a` are replaced by the smaller ones, or stay. `input` must live on. */
void report_keep_request(const struct strlist *paths, const struct analyze_input *input, struct timeline **tl,
                         struct analysis *a);

/* What the traces themselves say that must be doubted: losses, damage, ends that are missing. Nothing
 * twice. */
void report_trace_problems(const struct timeline *tl, struct strlist *list);

#endif
