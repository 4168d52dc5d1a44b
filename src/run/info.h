/* A finished run as input of its report. load.h fills it from a run folder, profiled.h from a session that
 * has just ended. All pointers are borrowed. Unknown doubles are NaN; texts may be NULL. Names, paths and
 * answers are untrusted. */
#ifndef RUN_INFO_H
#define RUN_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stats.h"
#include "llm/bandwidth.h"

struct analysis;
struct timeline;

/* A metric with one value per repeat that is not the time of a stage. */
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
    uint32_t process; /* Engine process, from 1. Repeats of one process are correlated. */
    uint32_t input;   /* index of its input */
    const char *name; /* of the input; NULL: unknown */
};

struct run_kv {
    const char *group; /* "GPU"; NULL: as in the previous row */
    const char *key, *value;
};

struct run_peak {
    const char *device; /* "NVIDIA H200", or the CPU */
    const char *type;   /* "bf16 dense" */
    const char *source; /* "datasheet of H200 SXM, dense bf16" */
    double flops_per_s, bytes_per_s;
    double read_bytes_per_s;  /* of a GPU, from `calibrate`; 0 or NaN: not measured */
    struct llm_levels levels; /* bandwidth by working-set size; n 0: none */
};

/* NULL or NaN: unknown */
struct run_model {
    const char *family, *architecture, *dtype, *quantization;
    const char *costs_from; /* source of FLOPs and bytes: "config of the model", "assumed family" */
    double parameters, active_parameters, weight_bytes, layers, hidden_size, heads, kv_heads, vocab_size,
        experts, experts_per_token, context;
};
/* Member of struct run_model. */
struct run_model_field {
    const char *key;
    size_t offset;
    bool text;
};
extern const struct run_model_field run_model_fields[];
extern const size_t run_model_fields_n;

/* Context length for the decode FLOPs, in tokens of one sequence. */
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
    const char *run_id, *title; /* title: "DeepSeek-OCR (bf16) on NVIDIA H200" */
    const char *model, *engine; /* NULL: imported, or another program */
    const char *command;        /* repeats this run */
    const char *version;        /* version of inferprof */
    uint64_t started_wall_ns;   /* 0: unknown */
    bool incomplete;            /* `warnings` contains the reason */

    /* Analysis of the trace, of the timed repeats, or of both. NULL: neither exists. */
    const struct analysis *analysis;
    /* for drawing; NULL: not drawn */
    const struct timeline *timeline;
    bool has_ranks; /* the folder has ranks.html */
    bool slim;      /* short timeline, no embedded CSV */

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
    const char *const *warnings; /* failures, missing data, doubtful results */
    size_t nwarnings;
    const struct run_answer *answers; /* at most RUN_ANSWERS_MAX are shown */
    size_t nanswers, answers_total;
    size_t top; /* rows of operators.md, kernels.md; 0: 50 */
};

struct llm_model;
/* Fills in the metadata. Does not change costs_from, nor dtype if it is set. */
void run_model_facts(const struct llm_model *m, struct run_model *out);
void run_info_init(struct run_info *in); /* all values are unknown */
/* Statistics over the repeats. If the inputs are known, the CV is computed within each input. */
struct stats run_figure_stats(const struct run_info *in, const struct run_figure *f);

#endif
