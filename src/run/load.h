/* Loads a finished run: analyses its traces, and reads timed repeats, model costs, environment and answers
 * from its metrics.json and config.yaml.
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
    struct timeline *timeline; /* NULL: no readable traces */
    struct analysis analysis;
    char *dir; /* first folder; NULL: only files */
    /* private, owns the data above */
    struct analyze_input input;
    struct recognised_phases phases;
    struct trace_model model; /* from the program's weight files */
    char *model_from;
    struct strlist paths, warnings, env_texts;
    /* Why the peaks of the GPU are unknown. "": they are known, or there is no GPU. */
    char no_peaks[320];
    char peak_source[320];
    struct saved_metrics *saved;   /* NULL: none, or not read */
    struct ncu_profiles *profiles; /* NULL: none, or not read */
    struct strbuf config;
    struct run_kv *env;
    char *title;
};

/* 0 or NULL: not given. */
struct run_options {
    const struct analyze_rule *rules;
    size_t nrules;
    double peak_flops_per_s, peak_bytes_per_s; /* 0 or NaN: looked up */
    /* Replaces the costs stored in the run. Must live until run_unload(). */
    const struct llm_model *model;
    uint64_t tp, pp, ep, dp; /* degrees of parallelism; 0: not given */
    /* clocks of the ranks; NULL: all times are comparable */
    const struct timeline_clocks *clocks;
    struct trace_set *readers; /* readers that are already open; NULL: none */
    /* Include the work outside of the recorded request or of the steady steps. */
    bool whole;
    bool whole_trace; /* one stage, no search for steps */
    /* New traces: an existing metrics.json does not describe them. */
    bool fresh;
};

int run_load(struct loaded_run *r, const char *const *operands, size_t n, const struct run_options *options,
             struct err *err);
/* Adds warnings about failed, running and missing ranks. */
void run_rank_warnings(const struct loaded_run *r, struct strlist *out);
void run_unload(struct loaded_run *r);

/* Adds the measurements of the new ncu.json to the analysis. */
void run_add_profiles(struct loaded_run *r);

#endif
