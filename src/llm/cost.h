/* What operators cost: FLOPs (a multiply-add is 2; matmul, convolution and attention), the fewest bytes they
 * must move, and the time below which a device cannot do them. Formulas: docs/metrics.md.
 *     struct llm_setup s = { .peak = { 989.4e12, 4.8e12 } };
 *     struct llm_cost c = llm_cost_prefill(m, &s, 1, 913, 0);     -- c.flops, c.bytes, c.floor_s
 * For what really ran, give the counts that really were: tokens consumed, context, images. */
#ifndef LLM_COST_H
#define LLM_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "llm/image.h"
#include "llm/model.h"

struct llm_peak {
    double flop_per_s;           /* dense, for the type computed in; NAN: unknown */
    double bytes_per_s;          /* NAN: unknown */
    double quantized_flop_per_s; /* of layers quantised to fp8, which multiply in it; 0: as the others */
};

struct llm_setup {
    struct llm_peak peak;
    enum llm_dtype kv; /* LLM_DTYPE_UNKNOWN: as the model computes */
    bool head_all;     /* logits for every prompt row, not for the last alone */
};

struct llm_cost {
    double flops;                /* the sum of the next three */
    double linear_flops;         /* matmul and convolution, head excepted */
    double full_attention_flops; /* not in the sum: as if every query met every key and a mask came after */
    double attention_flops;      /* scores and values */
    double head_flops;           /* lm_head */
    double bytes;                /* the sum of the next four */
    double weight_bytes;         /* each weight touched, once */
    double kv_read_bytes, kv_write_bytes;
    double io_bytes;            /* what enters and leaves the stage */
    double floor_s;             /* sum over operators of max(compute, memory); NAN: a peak is unknown */
    double compute_s, memory_s; /* the two sums on their own */
    double weights_s, weights_compute_bound_s; /* floor_s and compute_bound_s of all but attention */
    double compute_bound_s;                    /* the part of floor_s where compute is the larger */
};

/* The decoder over `tokens` new tokens of `batch` sequences that each have `past` tokens in the cache. */
struct llm_cost llm_cost_prefill(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                 uint64_t tokens, uint64_t past);
/* One decode step of `batch` sequences; each new token attends to `context` keys, itself included. */
struct llm_cost llm_cost_decode(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                uint64_t context);
/* `steps` decode steps, the first with `context` keys: the sum, not the last. */
struct llm_cost llm_cost_generate(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                  uint64_t context, uint64_t steps);
/* An image stage (1 .. m->nstages - 1), for counts summed over all images of the batch. */
struct llm_cost llm_cost_vision(const struct llm_model *m, const struct llm_setup *s, int stage,
                                const struct llm_counts *counts);
void llm_cost_add(struct llm_cost *sum, const struct llm_cost *c);
const char *llm_cost_bound(const struct llm_cost *c);         /* "compute", "memory"; NULL: unknown */
const char *llm_cost_weights_bound(const struct llm_cost *c); /* the same, attention set aside */

/* A pass in general: which rows go where. One operator of it on its own. */
struct llm_pass {
    struct llm_counts counts;
    uint64_t batch, tokens, past; /* decoder */
    double extra_pairs;           /* per sequence: image tokens that see later ones */
};
struct llm_pass llm_pass_decoder(const struct llm_setup *s, uint64_t batch, uint64_t tokens, uint64_t past);
struct llm_cost llm_cost_op(const struct llm_model *m, const struct llm_setup *s, const struct llm_op *op,
                            const struct llm_pass *pass);
struct llm_cost llm_cost_stage(const struct llm_model *m, const struct llm_setup *s, int stage,
                               const struct llm_pass *pass);

double llm_experts_touched(uint64_t experts, uint64_t topk, double tokens); /* on average, routing evenly */
double llm_kv_bytes_held(const struct llm_model *m, enum llm_dtype kv, uint64_t tokens); /* windows cut it */
/* Rows alive at once in the widest module of a stage, in bytes: an estimate, not a bound. */
double llm_activation_bytes(const struct llm_model *m, int stage, const struct llm_pass *pass);
enum llm_dtype llm_kv_dtype(const struct llm_model *m, enum llm_dtype told);

#endif
