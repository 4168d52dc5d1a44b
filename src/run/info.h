/* A finished run as input of its report: where and how it ran, its analysis, and further results. load.h
 * fills it from a run folder, profiled.h from a session that has just ended. All pointers are borrowed and
 * read-only. Unknown doubles are NaN (set by the init function); texts may be NULL. Names, paths and
 * answers are untrusted: each output format escapes them. */
#ifndef RUN_INFO_H
#define RUN_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stats.h"
#include "llm/bandwidth.h"

struct analysis;
struct timeline;

/* A metric with one value per repeat, other than the time of a stage: time to first token, time per token,
 * tokens/s. */
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
    uint32_t process; /* engine process of the repeat, starting at 1: repeats of one process are correlated */
    uint32_t input;   /* index of the repeat's input, starting at 0 */
    const char *name; /* name of the input; NULL: unknown */
};

struct run_kv {
    const char *group; /* such as "GPU" or "Software"; NULL: same as the previous row */
    const char *key, *value;
};

struct run_peak {
    const char *device; /* such as "NVIDIA H200", or the name of the CPU */
    const char *type;   /* "bf16 dense" */
    const char *source; /* such as "datasheet of H200 SXM, dense bf16" or "given by the user" */
    double flops_per_s, bytes_per_s;
    double read_bytes_per_s;  /* read bandwidth of a GPU that `calibrate` measured; 0 or NaN: not measured */
    struct llm_levels levels; /* bandwidth by working-set size; n 0: only one bandwidth is known */
};

/* The model's metadata. Texts may be NULL; numbers are NaN if unknown. */
struct run_model {
    const char *family, *architecture, *dtype, *quantization;
    const char *costs_from; /* source of FLOPs and bytes, such as "config of the model" or "assumed family" */
    double parameters, active_parameters, weight_bytes, layers, hidden_size, heads, kv_heads, vocab_size,
        experts, experts_per_token, context;
};
/* One member of struct run_model, with its key in metrics.json. */
struct run_model_field {
    const char *key;
    size_t offset;
    bool text;
};
extern const struct run_model_field run_model_fields[];
extern const size_t run_model_fields_n;

/* Context length used for the decode FLOPs, in tokens of one sequence. */
struct run_context {
    const char *mode; /* "auto", "max", "fixed"; NULL: unknown */
    double tokens;    /* median over the repeats */
};

/* An answer of the model, for the gallery. */
struct run_answer {
    const char *input, *prompt, *text, *error; /* error: NULL: none */
    double prompt_tokens, new_tokens, ms;
};

#define RUN_ANSWERS_MAX 20

struct run_info {
    const char *run_id, *title; /* title: such as "DeepSeek-OCR (bf16) on NVIDIA H200" */
    const char *model, *engine; /* NULL: the run is of another program, or was imported */
    const char *command;        /* command line that repeats this run */
    const char *version;        /* version of inferprof */
    uint64_t started_wall_ns;   /* 0: unknown */
    bool incomplete;            /* the run ended early; `problems` contains the reason */

    /* Analysis of the trace, of the timed repeats, or of both; NULL: there is neither. */
    const struct analysis *analysis;
    /* timeline of the analysis, for drawing; NULL: not drawn */
    const struct timeline *timeline;
    bool has_ranks; /* ranks.html is in the same folder */
    bool slim;      /* write a smaller page: a short timeline, no embedded CSV files */

    const struct run_figure *figures;
    size_t nfigures;
    size_t repeats, failed_repeats;
    const struct run_repeat *each_repeat; /* [neach_repeat] */
    size_t neach_repeat;
    struct run_peak peak;
    struct run_context context;
    struct run_model facts; /* metadata of the model */

    const struct run_kv *env;
    size_t nenv;
    const char *config; /* the composed configuration, YAML */
    const char *const *assumptions;
    size_t nassumptions;
    const char *const *problems; /* messages about failures, missing data and doubtful results */
    size_t nproblems;
    const struct run_answer *answers; /* the first RUN_ANSWERS_MAX are shown and stored */
    size_t nanswers, answers_total;
    size_t top; /* maximum rows of operators.md and kernels.md; 0: 50 */
};

struct llm_model;
/* Fills in the metadata from the config or file of the model. Does not change costs_from, nor dtype if it is
 * already set. */
void run_model_facts(const struct llm_model *m, struct run_model *out);
void run_info_init(struct run_info *in); /* all values are unknown */
/* Statistics over the repeats. If the inputs of the repeats are known, the CV is computed within each
 * input. */
struct stats run_figure_stats(const struct run_info *in, const struct run_figure *f);

#endif
