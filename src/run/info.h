/* A finished run as its report needs it: where and how it ran, its analysis, and what is not in the
 * analysis. load.h fills it from a run folder, profiled.h from a session that has just ended.
 * Everything is borrowed and only read. Doubles are NaN when unknown (the init function sets them so); texts
 * may be NULL. Names, paths and answers come from outside: each format escapes them. */
#ifndef RUN_INFO_H
#define RUN_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stats.h"

struct analysis;
struct timeline;

/* A metric of each repeat that is not the time of a stage: time to first token, time per token, tokens/s. */
struct run_figure {
    const char *key;  /* "time_to_first_token" */
    const char *name; /* "Time to first token" */
    const char *unit; /* "ms", "tok/s" */
    const double *values;
    size_t n;
    bool larger_is_better;
};

/* A timed repeat. */
struct run_repeat {
    uint32_t process; /* of the engine, from 1: repeats of one process are correlated */
    uint32_t input;   /* index of its input, from 0 */
    const char *name; /* of the input; NULL */
};

struct run_kv {
    const char *group; /* "GPU", "Software"; NULL: same as the row before */
    const char *key, *value;
};

struct run_peak {
    const char *device; /* "NVIDIA H200"; the CPU's name */
    const char *type;   /* "bf16 dense" */
    const char *source; /* "datasheet", "measured", "given by peak.tflops" */
    double flops_per_s, bytes_per_s;
};

/* An answer of the model, for the gallery. */
struct run_answer {
    const char *input, *prompt, *text, *error; /* error: NULL: none */
    double prompt_tokens, new_tokens, ms;
};

#define RUN_ANSWERS_MAX 20

struct run_info {
    const char *run_id, *title; /* title: "DeepSeek-OCR (bf16) on NVIDIA H200" */
    const char *model, *engine; /* NULL: a foreign program or an import */
    const char *command;        /* repeats this run */
    const char *version;        /* of inferprof */
    uint64_t started_wall_ns;   /* 0: unknown */
    bool incomplete;            /* ended early; `problems` say why */

    const struct analysis *analysis; /* of the trace, the timed repeats or both; NULL: there is neither */
    /* timeline of the analysis, to draw a window of it; NULL: not drawn */
    const struct timeline *timeline;
    bool slim; /* for the page: a short timeline and no CSV files */

    const struct run_figure *figures;
    size_t nfigures;
    size_t repeats, failed_repeats;
    const struct run_repeat *each_repeat; /* [neach_repeat] */
    size_t neach_repeat;
    struct run_peak peak;

    const struct run_kv *env;
    size_t nenv;
    const char *config; /* the composed configuration, YAML */
    const char *const *assumptions;
    size_t nassumptions;
    const char *const *problems; /* what failed, is missing or is doubtful, in words */
    size_t nproblems;
    const struct run_answer *answers; /* the first RUN_ANSWERS_MAX are shown and kept */
    size_t nanswers, answers_total;
    size_t top; /* rows of operators.md and kernels.md; 0: 50 */
};

void run_info_init(struct run_info *in); /* all unknown */
/* Over the repeats; the CV is within an input. */
struct stats run_figure_stats(const struct run_info *in, const struct run_figure *f);

#endif
