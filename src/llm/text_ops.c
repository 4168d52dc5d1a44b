/* Operator table of decoders, for all families. Each row has the condition under which it exists. */
#include "base/util.h"
#include "llm/oprow.h"
#include "llm/parts.h"

enum number {
    NONE,
    ONE,
    HIDDEN,
    Q, /* heads * head_dim */
    K, /* kv_heads * head_dim */
    V, /* kv_heads * v_head_dim */
    O, /* heads * v_head_dim */
    HEAD,
    V_HEAD,
    INTER,
    VOCAB,
    POSITIONS,
    HEADS,
    KV_CACHE, /* cached numbers per token and layer */
    EXPERTS,
    TOPK,
    EXPERT_INTER,
    SHARED_INTER,
    Q_LORA,
    KV_LORA,
    KV_A, /* kv_lora + rope */
    KV_B, /* heads * (nope + v) */
    WINDOW,
    LAYERS, /* from here on: layer counts */
    DENSE,
    MOE,
    FULL,
    SLIDING,
};

enum condition {
    HAS_MLA = 1 << 0,
    HAS_Q_LORA = 1 << 1,
    HAS_QKV_BIAS = 1 << 2,
    HAS_O_BIAS = 1 << 3,
    HAS_MLP_BIAS = 1 << 4,
    HAS_NORM_BIAS = 1 << 5,
    HAS_QK_NORM = 1 << 6,
    HAS_SANDWICH = 1 << 7,
    HAS_POSITIONS = 1 << 8,
    HAS_SINKS = 1 << 9,
    HAS_PLAIN_MLP = 1 << 10,
    HAS_EXPERT_BIAS = 1 << 11,
    HAS_SHARED = 1 << 12,
    HAS_SHARED_GATE = 1 << 13,
    HAS_CORRECTION = 1 << 14,
    HAS_TIED = 1 << 15,
    HAS_NO_HEAD = 1 << 16,
};

#define LINEAR(n, mod, i, o, c, ...)                                                                 \
    {                                                                                                \
        .name = n, .module = mod, .kind = LLM_OP_LINEAR, .rows = LLM_ROWS_TOKENS, .in = i, .out = o, \
        .count = c, .quant = OPROW_QUANT_LINEAR, __VA_ARGS__                                         \
    }
#define EXPERT(n, i, o, ...)                                                                                \
    {                                                                                                       \
        .name = n, .module = "experts", .kind = LLM_OP_EXPERTS, .rows = LLM_ROWS_TOKENS, .in = i, .out = o, \
        .count = MOE, .experts = EXPERTS, .topk = TOPK, .quant = OPROW_QUANT_LINEAR | OPROW_QUANT_EXPERTS,  \
        __VA_ARGS__                                                                                         \
    }
#define NORM(n, i, c, ...)                                                                                \
    {                                                                                                     \
        .name = n, .module = "norms", .kind = LLM_OP_NORM, .rows = LLM_ROWS_TOKENS, .in = i, .vector = i, \
        .count = c, .vector_when = HAS_NORM_BIAS, __VA_ARGS__                                             \
    }

static const struct oprow decoder[] = {
    { .name = "embed_tokens",
      .module = "embedding",
      .kind = LLM_OP_EMBEDDING,
      .rows = LLM_ROWS_TOKENS,
      .in = VOCAB,
      .out = HIDDEN,
      .count = ONE },
    { .name = "embed_positions",
      .module = "positions",
      .kind = LLM_OP_EMBEDDING,
      .rows = LLM_ROWS_TOKENS,
      .in = POSITIONS,
      .out = HIDDEN,
      .count = ONE,
      .when = HAS_POSITIONS },

    NORM("input_norm", HIDDEN, LAYERS),
    LINEAR("q_proj", "attention", HIDDEN, Q, LAYERS, .vector = Q, .vector_when = HAS_QKV_BIAS,
           .unless = HAS_Q_LORA),
    LINEAR("q_a_proj", "attention", HIDDEN, Q_LORA, LAYERS, .vector = Q_LORA, .vector_when = HAS_QKV_BIAS,
           .when = HAS_Q_LORA),
    NORM("q_a_norm", Q_LORA, LAYERS, .when = HAS_Q_LORA),
    LINEAR("q_b_proj", "attention", Q_LORA, Q, LAYERS, .when = HAS_Q_LORA),
    LINEAR("k_proj", "attention", HIDDEN, K, LAYERS, .vector = K, .vector_when = HAS_QKV_BIAS,
           .unless = HAS_MLA),
    LINEAR("v_proj", "attention", HIDDEN, V, LAYERS, .vector = V, .vector_when = HAS_QKV_BIAS,
           .unless = HAS_MLA),
    LINEAR("kv_a_proj", "attention", HIDDEN, KV_A, LAYERS, .vector = KV_A, .vector_when = HAS_QKV_BIAS,
           .when = HAS_MLA),
    NORM("kv_a_norm", KV_LORA, LAYERS, .when = HAS_MLA),
    LINEAR("kv_b_proj", "attention", KV_LORA, KV_B, LAYERS, .when = HAS_MLA),
    NORM("q_norm", HEAD, LAYERS, .when = HAS_QK_NORM),
    NORM("k_norm", HEAD, LAYERS, .when = HAS_QK_NORM),
    { .name = "attention",
      .module = "attention",
      .kind = LLM_OP_ATTENTION,
      .rows = LLM_ROWS_TOKENS,
      .pairs = LLM_PAIRS_CAUSAL,
      .heads = HEADS,
      .qk_dim = HEAD,
      .v_dim = V_HEAD,
      .kv = KV_CACHE,
      .count = FULL,
      .vector = HEADS,
      .vector_when = HAS_SINKS },
    { .name = "attention_window",
      .module = "attention",
      .kind = LLM_OP_ATTENTION,
      .rows = LLM_ROWS_TOKENS,
      .pairs = LLM_PAIRS_CAUSAL,
      .heads = HEADS,
      .qk_dim = HEAD,
      .v_dim = V_HEAD,
      .kv = KV_CACHE,
      .window = WINDOW,
      .count = SLIDING,
      .vector = HEADS,
      .vector_when = HAS_SINKS },
    LINEAR("o_proj", "attention", O, HIDDEN, LAYERS, .vector = HIDDEN, .vector_when = HAS_O_BIAS),
    NORM("post_attention_norm", HIDDEN, LAYERS),
    NORM("pre_mlp_norm", HIDDEN, LAYERS, .when = HAS_SANDWICH),
    NORM("post_mlp_norm", HIDDEN, LAYERS, .when = HAS_SANDWICH),

    LINEAR("fc1", "mlp", HIDDEN, INTER, DENSE, .vector = INTER, .vector_when = HAS_MLP_BIAS,
           .when = HAS_PLAIN_MLP),
    LINEAR("fc2", "mlp", INTER, HIDDEN, DENSE, .vector = HIDDEN, .vector_when = HAS_MLP_BIAS,
           .when = HAS_PLAIN_MLP),
    LINEAR("gate_proj", "mlp", HIDDEN, INTER, DENSE, .vector = INTER, .vector_when = HAS_MLP_BIAS,
           .unless = HAS_PLAIN_MLP),
    LINEAR("up_proj", "mlp", HIDDEN, INTER, DENSE, .vector = INTER, .vector_when = HAS_MLP_BIAS,
           .unless = HAS_PLAIN_MLP),
    LINEAR("down_proj", "mlp", INTER, HIDDEN, DENSE, .vector = HIDDEN, .vector_when = HAS_MLP_BIAS,
           .unless = HAS_PLAIN_MLP),

    { .name = "router",
      .module = "router",
      .kind = LLM_OP_LINEAR,
      .rows = LLM_ROWS_TOKENS,
      .in = HIDDEN,
      .out = EXPERTS,
      .vector = EXPERTS,
      .vector_when = HAS_EXPERT_BIAS,
      .count = MOE },
    { .name = "router_correction",
      .module = "router",
      .kind = LLM_OP_PARAM,
      .rows = LLM_ROWS_TOKENS,
      .in = EXPERTS,
      .count = MOE,
      .when = HAS_CORRECTION },
    EXPERT("experts_gate", HIDDEN, EXPERT_INTER, .vector = EXPERT_INTER, .vector_when = HAS_EXPERT_BIAS),
    EXPERT("experts_up", HIDDEN, EXPERT_INTER, .vector = EXPERT_INTER, .vector_when = HAS_EXPERT_BIAS),
    EXPERT("experts_down", EXPERT_INTER, HIDDEN, .vector = HIDDEN, .vector_when = HAS_EXPERT_BIAS),
    LINEAR("shared_gate_proj", "shared_experts", HIDDEN, SHARED_INTER, MOE, .when = HAS_SHARED),
    LINEAR("shared_up_proj", "shared_experts", HIDDEN, SHARED_INTER, MOE, .when = HAS_SHARED),
    LINEAR("shared_down_proj", "shared_experts", SHARED_INTER, HIDDEN, MOE, .when = HAS_SHARED),
    LINEAR("shared_expert_gate", "shared_experts", HIDDEN, ONE, MOE, .when = HAS_SHARED | HAS_SHARED_GATE),

    NORM("final_norm", HIDDEN, ONE),
    { .name = "lm_head",
      .module = "lm_head",
      .kind = LLM_OP_LINEAR,
      .rows = LLM_ROWS_HEAD,
      .in = HIDDEN,
      .out = VOCAB,
      .count = ONE,
      .quant = OPROW_QUANT_HEAD,
      .unless = HAS_TIED | HAS_NO_HEAD },
    { .name = "lm_head",
      .module = "lm_head",
      .kind = LLM_OP_LINEAR,
      .rows = LLM_ROWS_HEAD,
      .in = HIDDEN,
      .out = VOCAB,
      .count = ONE,
      .tied = true,
      .when = HAS_TIED,
      .unless = HAS_NO_HEAD },
};

static uint32_t conditions(const struct llm_text *t, const struct text_family *fam) {
    uint32_t has = 0;
    if (t->kv_lora_rank) has |= HAS_MLA;
    if (t->kv_lora_rank && t->q_lora_rank) has |= HAS_Q_LORA;
    if (t->qkv_bias) has |= HAS_QKV_BIAS;
    if (t->o_bias) has |= HAS_O_BIAS;
    if (t->mlp_bias) has |= HAS_MLP_BIAS;
    if (t->layer_norm) has |= HAS_NORM_BIAS;
    if (t->qk_norm) has |= HAS_QK_NORM;
    if (t->sandwich_norms) has |= HAS_SANDWICH;
    if (t->learned_positions) has |= HAS_POSITIONS;
    if (!t->gated_mlp) has |= HAS_PLAIN_MLP;
    if (t->shared_intermediate) has |= HAS_SHARED;
    if (t->tied_head) has |= HAS_TIED;
    if (fam->traits & TEXT_SINKS) has |= HAS_SINKS;
    if (fam->traits & TEXT_EXPERT_BIAS) has |= HAS_EXPERT_BIAS;
    if (fam->traits & TEXT_SHARED_GATE) has |= HAS_SHARED_GATE;
    if (fam->traits & TEXT_CORRECTION_BIAS) has |= HAS_CORRECTION;
    if (fam->traits & TEXT_CLIP) has |= HAS_NO_HEAD;
    return has;
}

static void fill_numbers(const struct llm_text *t, uint64_t *n) {
    n[ONE] = 1;
    n[HIDDEN] = t->hidden;
    n[Q] = t->heads * t->head_dim;
    n[K] = t->kv_heads * t->head_dim;
    n[V] = t->kv_heads * t->v_head_dim;
    n[O] = t->heads * t->v_head_dim;
    n[HEAD] = t->head_dim;
    n[V_HEAD] = t->v_head_dim;
    n[INTER] = t->intermediate;
    n[VOCAB] = t->vocab;
    n[POSITIONS] = t->max_positions;
    n[HEADS] = t->heads;
    n[KV_A] = t->kv_lora_rank + t->qk_rope_dim;
    n[KV_B] = t->heads * (t->qk_nope_dim + t->v_head_dim);
    n[KV_CACHE] = t->kv_lora_rank ? n[KV_A] : n[K] + n[V];
    n[EXPERTS] = t->experts;
    n[TOPK] = t->experts_per_token;
    n[EXPERT_INTER] = t->expert_intermediate;
    n[SHARED_INTER] = t->shared_intermediate;
    n[Q_LORA] = t->q_lora_rank;
    n[KV_LORA] = t->kv_lora_rank;
    n[LAYERS] = t->layers;
    n[MOE] = t->moe_layers;
    n[DENSE] = t->layers - t->moe_layers;
    for (uint32_t i = 0; i < t->layers; i++) {
        n[t->layer[i].window ? SLIDING : FULL]++;
        if (t->layer[i].window) n[WINDOW] = t->layer[i].window;
    }
}

void text_ops(struct llm_model *m, const struct text_family *fam, int stage, const struct llm_quant *quant) {
    struct opbuild b = { .model = m,
                         .stage = stage,
                         .has = conditions(&m->text, fam),
                         .quantized = quant->pack.type,
                         .quant_scope = quant->scope };
    if (fam->traits & TEXT_CLIP) {
        b.tokens = LLM_ROWS_TEXT;
        b.causal = LLM_PAIRS_TEXT;
    }
    fill_numbers(&m->text, b.numbers);
    if (fam->traits & TEXT_CLIP) b.numbers[KV_CACHE] = 0;
    oprow_add(&b, decoder, COUNTOF(decoder));
}
