/* Cost of operators: FLOPs of matmul, convolution and attention (2 per multiply-add), the minimum bytes to
 * move, and two times on a device. The roofline time is the sum over operators, each at its roof. The hard
 * bound is the larger of two times: all FLOPs at the peak, and all bytes at the bandwidth. Overlapping
 * operators can beat the roofline time, but not the hard bound. Formulas: docs/metrics.md.
 *     struct llm_setup s = { .peak = { 989.4e12, 4.8e12 } };
 *     struct llm_cost c = llm_cost_prefill(m, &s, 1, 913, 0);     -- c.flops, c.bytes, c.floor_s
 * To compare with a measurement, use the measured counts: tokens processed, context, images. */
#ifndef LLM_COST_H
#define LLM_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "llm/image.h"
#include "llm/model.h"

struct llm_peak {
    double flop_per_s;  /* dense peak for the compute type; NAN: unknown */
    double bytes_per_s; /* NAN: unknown */
    /* peak for operators with quantised weights; 0: same as flop_per_s */
    double quantized_flop_per_s;
};

struct llm_setup {
    struct llm_peak peak;
    enum llm_dtype kv; /* LLM_DTYPE_UNKNOWN: type of the activations */
    bool head_all;     /* true: logits for every prompt row; false: for the last row only */
    /* Number of different experts that a pass reads per layer, counted by the engine; 0: the expected
     * number under even routing. */
    double experts_read;
};

struct llm_cost {
    double flops;                /* sum of linear, attention and head */
    double linear_flops;         /* matmul and convolution, without the head */
    double full_attention_flops; /* attention including masked pairs; not part of `flops` */
    double attention_flops;      /* scores and values */
    double head_flops;           /* lm_head */
    double bytes;                /* sum of weights, cache reads, cache writes and I/O */
    double weight_bytes;         /* every used weight, counted once */
    double kv_read_bytes, kv_write_bytes;
    double io_bytes; /* bytes of the stage's inputs and outputs */
    double floor_s;  /* roofline time: sum over operators of max(compute, memory); NAN: unknown peak */
    /* sums of compute time and of memory time; the larger one is the hard bound */
    double compute_s, memory_s;
    double weights_s, weights_compute_bound_s; /* floor_s and compute_bound_s without attention */
    double compute_bound_s;                    /* the part of floor_s that compute-bound operators take */
};

/* Cost of the decoder for `tokens` new tokens of each of `batch` sequences with `past` tokens in the
 * cache. */
struct llm_cost llm_cost_prefill(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                 uint64_t tokens, uint64_t past);
/* One decode step of `batch` sequences; each new token attends to `context` keys, including its own. */
struct llm_cost llm_cost_decode(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                uint64_t context);
/* Sum of `steps` decode steps; the first has `context` keys. */
struct llm_cost llm_cost_generate(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                  uint64_t context, uint64_t steps);
/* Cost of an image stage (1 .. m->nstages - 1), for counts summed over all images of the batch. */
struct llm_cost llm_cost_vision(const struct llm_model *m, const struct llm_setup *s, int stage,
                                const struct llm_counts *counts);
void llm_cost_add(struct llm_cost *sum, const struct llm_cost *c);
void llm_cost_scale(struct llm_cost *c, double by);
/* The only place that computes MFU and MBU: the share of a peak that was reached, work / (seconds * peak).
 * `work` are FLOPs or bytes, `peak_per_s` FLOP/s or bytes/s. NAN: a value is unknown, or the time is not
 * positive. */
double llm_utilization(double work, double seconds, double peak_per_s);
double llm_cost_hard_bound_s(const struct llm_cost *c);       /* NAN: a peak is unknown */
double llm_intensity(double flops, double bytes);             /* FLOP per byte; NaN: no bytes */
const char *llm_cost_bound(const struct llm_cost *c);         /* "compute", "memory"; NULL: unknown */
const char *llm_cost_weights_bound(const struct llm_cost *c); /* the same without attention */

/* A pass: the row and pair counts of all operators. llm_cost_op() computes the cost of one operator in the
 * pass. */
struct llm_pass {
    struct llm_counts counts;
    uint64_t batch, tokens, past; /* decoder only */
    /* additional pairs per sequence, because image tokens also attend to later image tokens */
    double extra_pairs;
};
struct llm_pass llm_pass_decoder(const struct llm_setup *s, uint64_t batch, uint64_t tokens, uint64_t past);
struct llm_cost llm_cost_op(const struct llm_model *m, const struct llm_setup *s, const struct llm_op *op,
                            const struct llm_pass *pass);
struct llm_cost llm_cost_stage(const struct llm_model *m, const struct llm_setup *s, int stage,
                               const struct llm_pass *pass);

/* Bytes of the KV cache per token, summed over all layers. Sliding windows are ignored. */
double llm_kv_bytes_per_token(const struct llm_model *m, enum llm_dtype kv);
/* Bytes of the KV cache of one sequence with `tokens` tokens. Sliding windows limit the tokens of a layer. */
double llm_kv_bytes_held(const struct llm_model *m, enum llm_dtype kv, uint64_t tokens);
/* Estimated peak activation bytes of a stage: the rows in use at the same time in its widest module. Not a
 * bound. */
double llm_activation_bytes(const struct llm_model *m, int stage, const struct llm_pass *pass);
/* Returns the type of the KV cache: `override`, or the type of the activations if `override` is
 * LLM_DTYPE_UNKNOWN. */
enum llm_dtype llm_kv_dtype(const struct llm_model *m, enum llm_dtype override);

#endif
