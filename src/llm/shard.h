/* One GPU's part of a model that several GPUs share: the same operators with the GPU's own sizes, so that
 * cost.h computes the GPU's FLOPs and bytes.
 *     struct llm_layout l = llm_layout_of(8, 2, 0, 1);          -- tp 8, pp 2
 *     if (llm_layout_check(m, &l, &err) < 0) ...                -- the model cannot be divided like this
 *     struct llm_model *part = llm_shard_new(m, &l, 0);         -- a GPU of the first pipeline stage
 *     cost = llm_cost_prefill(part, &setup, batch, tokens, 0);
 *     llm_shard_free(part);                                     -- before the model
 * Tensor parallel: heads, MLP columns and vocabulary rows are divided by tp; the rest is on every GPU.
 * Pipeline parallel: each stage has consecutive layers; the first stages have one layer more if the layers
 * do not divide evenly. Expert parallel: ep GPUs share the experts of a layer. Data parallel: dp replicas,
 * each with its own batch. */
#ifndef LLM_SHARD_H
#define LLM_SHARD_H

#include <stdint.h>

#include "base/err.h"
#include "llm/cost.h"
#include "llm/model.h"

struct llm_layout {
    uint64_t tp, pp, dp; /* at least 1 (llm_layout_of) */
    uint64_t ep;         /* 0: every expert is divided among the tp GPUs, like the other matrices */
};

#define LLM_GPUS_MAX 65536

/* Replaces 0 by 1 for tp, pp and dp. */
struct llm_layout llm_layout_of(uint64_t tp, uint64_t pp, uint64_t ep, uint64_t dp);
uint64_t llm_layout_gpus(const struct llm_layout *l); /* tp * pp * dp */
/* Returns -1 with the reason if the model cannot be divided in this way. */
int llm_layout_check(const struct llm_model *m, const struct llm_layout *l, struct err *err);

/* The layers [first, end) of a pipeline stage. */
struct llm_layers {
    uint32_t first, end;
};
struct llm_layers llm_stage_layers(const struct llm_model *m, const struct llm_layout *l, uint64_t stage);
/* Returns the number of routed experts per layer on the GPU that has the most; 0: the model has no
 * experts. */
uint64_t llm_experts_per_gpu(const struct llm_model *m, const struct llm_layout *l);
/* Returns true if the GPUs that share the experts belong to several replicas, so that an all-to-all sends the
 * tokens to the experts. */
bool llm_experts_exchange(const struct llm_layout *l);

/* Borrows from `m`. The layout must have passed llm_layout_check(). */
struct llm_model *llm_shard_new(const struct llm_model *m, const struct llm_layout *l, uint64_t stage);
void llm_shard_free(struct llm_model *part);

/* The parts of all pipeline stages. The costs below are means over the stages. */
struct llm_shards {
    struct llm_model **parts;
    uint64_t n;
};
struct llm_shards llm_shards_new(const struct llm_model *m, const struct llm_layout *l);
void llm_shards_free(struct llm_shards *s);
struct llm_cost llm_shards_prefill(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                   uint64_t tokens, uint64_t past);
struct llm_cost llm_shards_decode(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                  uint64_t context);
struct llm_cost llm_shards_generate(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                    uint64_t context, uint64_t steps);

#endif
