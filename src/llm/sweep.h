/* Varies one workload parameter over a range. Computes roofline times, their tokens/s, MFU and MBU, and
 * the crossover points from memory-bound to compute-bound.
 *     struct llm_sweep s;
 *     if (llm_sweep_parse("batch=1..256", &s, &err) < 0 || llm_sweep_run(&base, &s, &err) < 0) ...
 *     llm_sweep_free(&s); */
#ifndef LLM_SWEEP_H
#define LLM_SWEEP_H

#include "llm/static.h"

enum llm_sweep_what { LLM_SWEEP_BATCH, LLM_SWEEP_PROMPT, LLM_SWEEP_CONTEXT };

struct llm_sweep_point {
    uint64_t value;
    double prefill_s, decode_s; /* roofline times of prefill and of one decode step, for the batch */
    double tokens_per_s;        /* for the whole batch */
    double prefill_mfu, prefill_mbu, decode_mfu, decode_mbu; /* 0..1, at the roofline time */
    const char *prefill_bound, *decode_bound;
    /* what limits a decode step without attention */
    const char *weights_bound;
    double memory_bytes;
    int fits; /* as llm_static_fits() */
};

struct llm_sweep {
    enum llm_sweep_what what;
    uint64_t from, to, step; /* step 0: multiply by `factor` */
    double factor;
    struct llm_sweep_point *points;
    size_t npoints;
    /* crossover: first compute-bound value after memory-bound values; 0: none */
    uint64_t prefill_turn, decode_turn, weights_turn;
    uint64_t largest_fit; /* 0: no value fits, or the memory size is unknown */
};

/* The text is NAME=A..B, NAME=A..B:STEP or NAME=A..B:xFACTOR. */
int llm_sweep_parse(const char *text, struct llm_sweep *s, struct err *err);
int llm_sweep_run(const struct llm_static *base, struct llm_sweep *s, struct err *err);
void llm_sweep_free(struct llm_sweep *s);
const char *llm_sweep_name(enum llm_sweep_what what); /* "batch" */

void llm_sweep_json(const struct llm_sweep *s, struct jsonw *j);
void llm_sweep_text(const struct llm_sweep *s, struct llm_print how, struct strbuf *out);
void llm_sweep_svg(const struct llm_static *base, const struct llm_sweep *s, struct strbuf *out);

#endif
