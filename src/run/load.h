/* Loads a finished run: analyses its traces, and reads timed repeats, model costs, environment and answers
 * from its metrics.json and config.yaml. Writing the report again gives the same files.
 *     struct loaded_run r;
 *     if (run_load(&r, operands, n, NULL, &err) < 0) ...
 *     view_init(&v, &r.info); report_write_all(dir, &v, &err); view_free(&v);
 *     run_unload(&r);
 * An operand is a run folder (its trace/ is read), a folder of .ipt files, or an .ipt file. */
#ifndef RUN_LOAD_H
#define RUN_LOAD_H

#include "analyze/analyze.h"
#include "base/strbuf.h"
#include "base/strlist.h"
#include "run/info.h"
#include "run/trace_model.h"

struct loaded_run {
    struct run_info info;
    struct timeline *timeline; /* NULL: there are no traces, or they cannot be read */
    struct analysis analysis;
    char *dir; /* the first operand that is a folder; NULL: all operands are files */
    /* private: owns the data that the members above point to */
    struct analyze_input input;
    struct recognised_phases phases;
    struct trace_model model; /* model found in the weight files that the program used */
    char *model_from;
    struct strlist paths, problems, env_texts;
    /* Problem that explains why the peaks of the GPU are unknown. "": they are known, or there is no GPU. */
    char no_peaks[320];
    char peak_source[128];
    struct saved_metrics *saved;   /* metrics.json; NULL: there is none, or it was not read */
    struct ncu_profiles *profiles; /* ncu.json; NULL: there is none, or it was not read */
    struct strbuf config;
    struct run_kv *env;
    char *title;
};

/* Options that are 0 or NULL are not given: the run and the table of GPUs are used. */
struct run_options {
    const struct analyze_rule *rules;
    size_t nrules;
    double peak_flops_per_s, peak_bytes_per_s; /* 0 or NaN: looked up */
    /* replaces the costs stored in the run; must stay valid until run_unload() */
    const struct llm_model *model;
    uint64_t tp, pp, ep, dp; /* degrees of parallelism (see analyze_input); 0: not given */
    /* clocks of the ranks of a job; NULL: the times of all files are comparable */
    const struct timeline_clocks *clocks;
    /* include the program's work outside of the recorded request, or outside of the steady work */
    bool whole;
    bool whole_trace; /* treat a trace without stages as one stage instead of looking for steps */
    /* the traces are new, so an existing metrics.json in the folder does not describe them */
    bool fresh;
};

int run_load(struct loaded_run *r, const char *const *operands, size_t n, const struct run_options *options,
             struct err *err);
/* Adds problems of the ranks of a job: failed, running and missing ranks. */
void run_rank_problems(const struct loaded_run *r, struct strlist *out);
void run_unload(struct loaded_run *r);

/* Reads the folder's new ncu.json and repeats the analysis of the loaded timeline with it. */
void run_add_profiles(struct loaded_run *r);

#endif
