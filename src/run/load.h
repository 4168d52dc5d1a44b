/* A finished run, opened again: its traces analysed, and what its metrics.json and config.yaml keep of the
 * timed repeats, the model's costs, the environment and the answers. Written again, its files are the same.
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

struct loaded_run {
    struct run_info info;
    struct timeline *timeline; /* NULL: the folder has no traces */
    struct analysis analysis;
    char *dir; /* the run folder; NULL: files were given */
    /* private: owners of what the above borrow */
    struct analyze_input input;
    struct strlist paths, problems, env_texts;
    char peak_source[128];
    struct saved_metrics *saved;   /* metrics.json; NULL: there is none */
    struct ncu_profiles *profiles; /* ncu.json; NULL: there is none */
    struct strbuf config;
    struct run_kv *env;
    char *title;
};

/* Fields that are 0 or NULL are filled from the run and from the device table. */
struct run_options {
    const struct analyze_rule *rules;
    size_t nrules;
    double peak_flops_per_s, peak_bytes_per_s; /* 0 or NaN: looked up */
    const struct llm_model *model; /* replaces the costs that the run kept; must live until unload */
    uint64_t tp, pp, ep;           /* how many GPUs share the model (analyze_input); 0: not given */
    bool whole;                    /* also what the program of a recorded request did before and after it */
    bool fresh; /* the traces are new: an older metrics.json in the folder is not about them */
};

int run_load(struct loaded_run *r, const char *const *operands, size_t n, const struct run_options *options,
             struct err *err);
void run_unload(struct loaded_run *r);

/* Reads the folder's ncu.json, which is new, and analyses the loaded timeline again with it. */
void run_add_profiles(struct loaded_run *r);

#endif
