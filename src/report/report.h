/* The files of a run folder and the closing screen, from finished results. Nothing here measures or adds up:
 * what `struct report_input` does not say is printed as a dash, or null in JSON.
 *     struct report_input in = { .run_id = id, .title = "DeepSeek-OCR on H200", .analysis = a, ... };
 *     if (report_write_all(dir, &in, &err) < 0) ...
 *     report_terminal(&in, 100, &screen);
 * Everything is borrowed and only read. Doubles are NaN when unknown (the init function sets them so);
 * texts may be NULL. Names, paths and answers are hostile text: each format
 * escapes them. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

struct analysis;
struct timeline;

/* A figure over the repeats that is no stage: time to first token, time per token, tokens/s. */
struct report_figure {
    const char *key;  /* "time_to_first_token" */
    const char *name; /* "Time to first token" */
    const char *unit; /* "ms", "tok/s" */
    const double *values;
    size_t n;
    bool larger_is_better;
};

struct report_kv {
    const char *group; /* "GPU", "Software"; NULL: same as the row before */
    const char *key, *value;
};

struct report_peak {
    const char *device; /* "NVIDIA H200"; the CPU's name */
    const char *type;   /* "bf16 dense" */
    const char *source; /* "datasheet", "measured", "given by peak.tflops" */
    double flops_per_s, bytes_per_s;
};

/* An answer of the model, for the gallery. */
struct report_answer {
    const char *input, *prompt, *text, *error; /* error: NULL when it went well */
    double prompt_tokens, new_tokens, ms;
};

#define REPORT_ANSWERS_MAX 20

struct report_input {
    const char *run_id, *title; /* title: "DeepSeek-OCR (bf16) on NVIDIA H200" */
    const char *model, *engine; /* NULL: a foreign program or an import */
    const char *command;        /* how to get this run again */
    const char *version;        /* of inferprof */
    uint64_t started_wall_ns;   /* 0: unknown */
    bool incomplete;            /* ended early; `problems` say why */

    const struct analysis *analysis; /* of the trace, the timed repeats or both; NULL: there is neither */
    /* what the analysis was made of, for the drawn window; NULL: not drawn */
    const struct timeline *timeline;
    bool slim; /* the page holds a short timeline and no CSV files */

    const struct report_figure *figures;
    size_t nfigures;
    size_t repeats, failed_repeats;
    struct report_peak peak;

    const struct report_kv *env;
    size_t nenv;
    const char *config; /* the composed configuration, YAML */
    const char *const *assumptions;
    size_t nassumptions;
    const char *const *problems; /* what failed, is missing or must be doubted, in words */
    size_t nproblems;
    const struct report_answer *answers; /* the first REPORT_ANSWERS_MAX of them at most are shown and kept */
    size_t nanswers, answers_total;
    size_t top; /* rows of operators.md and kernels.md; 0: 50 */
};

void report_input_init(struct report_input *in); /* all unknown */

/* report.html report.md stakeholder_summary.md metrics.json findings.json stages.csv operators.md|csv
 * kernels.md|csv charts/ (SVG), each written whole or not at all. The folder exists already. */
int report_write_all(const char *dir, const struct report_input *in, struct err *err);

/* What the person at the terminal wants to know, on one screen (about 40 lines). */
void report_terminal(const struct report_input *in, size_t width, struct strbuf *out);
#define REPORT_TERMINAL_DOUBTS 4 /* problems it shows, the first ones */

/* Single documents, for `--stdout` and the tests. */
void report_html(const struct report_input *in, struct strbuf *out);
void report_markdown(const struct report_input *in, struct strbuf *out);
void report_summary(const struct report_input *in, struct strbuf *out); /* stakeholder_summary.md */
void report_metrics_json(const struct report_input *in, struct strbuf *out);

#endif
