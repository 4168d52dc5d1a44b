/* Loads a decoder: the tensors of its model family, the cache and the scratch memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/decoder/decoder.h"

static struct linear load_linear(struct weights *w, int out, int in, bool bias, const char *prefix, int layer,
                                 const char *name) {
    struct linear l = { .w = weights_matrix(w, out, in, "%s.%d.%s.weight", prefix, layer, name) };
    if (bias) l.bias = weights_vector(w, out, WEIGHTS_BIAS, "%s.%d.%s.bias", prefix, layer, name);
    return l;
}
#define LAYERS "model.layers"

static enum weights_fill norm_fill(const struct decoder *d) {
    return d->c->norm_plus_one ? WEIGHTS_NORM_MINUS_ONE : WEIGHTS_NORM;
}

static struct linear load_part(struct weights *w, int all_rows, int first, int rows, int in, int layer,
                               const char *name) {
    return (struct linear){ .w = weights_rows(w, all_rows, first, rows, in, LAYERS ".%d.%s.weight", layer,
                                              name) };
}

static void load_fused_heads(struct decoder *d, struct weights *w, int i) {
    struct decoder_layer *l = &d->layer[i];
    int q = d->heads * d->dim_k, k = d->kv_heads * d->dim_k, v = d->kv_heads * d->dim_v, all = q + k + v;
    l->q = load_part(w, all, 0, q, d->hidden, i, "self_attn.qkv_proj");
    l->k = load_part(w, all, q, k, d->hidden, i, "self_attn.qkv_proj");
    l->v = load_part(w, all, q + k, v, d->hidden, i, "self_attn.qkv_proj");
}

static void load_heads(struct decoder *d, struct weights *w, int i) {
    const struct llm_text *c = d->c;
    struct decoder_layer *l = &d->layer[i];
    if (c->fused_projections) {
        load_fused_heads(d, w, i);
        return;
    }
    l->q = load_linear(w, d->heads * d->dim_k, d->hidden, c->qkv_bias, LAYERS, i, "self_attn.q_proj");
    l->k = load_linear(w, d->kv_heads * d->dim_k, d->hidden, c->qkv_bias, LAYERS, i, "self_attn.k_proj");
    l->v = load_linear(w, d->kv_heads * d->dim_v, d->hidden, c->qkv_bias, LAYERS, i, "self_attn.v_proj");
    if (c->sinks) l->sinks = weights_vector(w, d->heads, WEIGHTS_ROWS, LAYERS ".%d.self_attn.sinks", i);
    if (!c->qk_norm) return;
    l->q_norm = weights_vector(w, d->dim_k, norm_fill(d), LAYERS ".%d.self_attn.q_norm.weight", i);
    l->k_norm = weights_vector(w, d->dim_k, norm_fill(d), LAYERS ".%d.self_attn.k_norm.weight", i);
}

static void load_latent(struct decoder *d, struct weights *w, int i) {
    const struct llm_text *c = d->c;
    struct decoder_layer *l = &d->layer[i];
    int rank = (int)c->kv_lora_rank, q_rank = (int)c->q_lora_rank, rope = (int)c->qk_rope_dim;
    int wide = d->heads * ((int)c->qk_nope_dim + d->dim_v);
    if (q_rank) {
        l->q_a = load_linear(w, q_rank, d->hidden, c->qkv_bias, LAYERS, i, "self_attn.q_a_proj");
        l->q_a_norm = weights_vector(w, q_rank, WEIGHTS_NORM, LAYERS ".%d.self_attn.q_a_layernorm.weight", i);
        l->q_b = load_linear(w, d->heads * d->dim_k, q_rank, false, LAYERS, i, "self_attn.q_b_proj");
    } else {
        l->q = load_linear(w, d->heads * d->dim_k, d->hidden, false, LAYERS, i, "self_attn.q_proj");
    }
    l->kv_a = load_linear(w, rank + rope, d->hidden, c->qkv_bias, LAYERS, i, "self_attn.kv_a_proj_with_mqa");
    l->kv_a_norm = weights_vector(w, rank, WEIGHTS_NORM, LAYERS ".%d.self_attn.kv_a_layernorm.weight", i);
    weights_allow_fp8(w, WEIGHTS_FROM_FP8); /* kernels for one token read parts of it */
    l->kv_b = load_linear(w, wide, rank, false, LAYERS, i, "self_attn.kv_b_proj");
    weights_allow_fp8(w, WEIGHTS_FP8);
}

static struct expert load_expert(struct weights *w, int hidden, int inner, bool bias, const char *prefix,
                                 int layer, const char *const names[3], int expert) {
    char n[3][64];
    for (int i = 0; i < 3; i++) snprintf(n[i], sizeof n[i], names[i], expert);
    return (struct expert){ load_linear(w, inner, hidden, bias, prefix, layer, n[0]),
                            load_linear(w, inner, hidden, bias, prefix, layer, n[1]),
                            load_linear(w, hidden, inner, bias, prefix, layer, n[2]) };
}

/* Names of the tensors of a routed layer. Families without their own row use the first row. */
static const struct moe_names {
    const char *family, *router, *experts[3], *shared[3];
} moe_names[] = {
    { "",
      "mlp.gate",
      { "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj" },
      { "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj" } },
    { "mixtral",
      "block_sparse_moe.gate",
      { "block_sparse_moe.experts.%d.w1", "block_sparse_moe.experts.%d.w3",
        "block_sparse_moe.experts.%d.w2" },
      { 0 } },
    { "qwen2_moe",
      "mlp.gate",
      { "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj" },
      { "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj" } },
    { "gpt_oss",
      "mlp.router",
      { "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj" },
      { 0 } },
};

static const struct moe_names *names_of(const char *family) {
    for (size_t i = 1; i < COUNTOF(moe_names); i++)
        if (strcmp(moe_names[i].family, family) == 0) return &moe_names[i];
    return &moe_names[0];
}

static enum ops_glu glu_of(const struct llm_text *c) {
    if (c->clamped_glu) return OPS_GLU_CLAMPED;
    if (!c->activation || strcmp(c->activation, "silu") == 0) return OPS_GLU_SILU;
    return strcmp(c->activation, "gelu") == 0 ? OPS_GLU_GELU : OPS_GLU_GELU_TANH;
}

static void load_shared(struct decoder *d, struct weights *w, int i, const struct moe_names *names) {
    const struct llm_text *c = d->c;
    struct moe *e = &d->layer[i].moe;
    e->shared = load_expert(w, d->hidden, (int)c->shared_intermediate, false, LAYERS, i, names->shared, 0);
    e->shared.glu = glu_of(c);
    if (!c->shared_gate) return;
    weights_allow_fp8(w, WEIGHTS_NOT_FP8);
    e->shared_gate = load_linear(w, 1, d->hidden, false, LAYERS, i, "mlp.shared_expert_gate");
}

static void load_moe(struct decoder *d, struct weights *w, int i) {
    const struct llm_text *c = d->c;
    const struct moe_names *names = names_of(c->family);
    struct moe *e = &d->layer[i].moe;
    e->routing = (struct routing){ .n = (int)c->experts,
                                   .k = (int)c->experts_per_token,
                                   .groups = (int)c->expert_groups,
                                   .groups_kept = (int)c->groups_per_token,
                                   .normalise = c->norm_topk,
                                   .scale = isnan(c->routed_scaling) ? 1.0f : (float)c->routed_scaling,
                                   .sigmoid = c->sigmoid_scores };
    weights_allow_fp8(w, WEIGHTS_NOT_FP8);
    e->router = load_linear(w, e->routing.n, d->hidden, c->expert_bias, LAYERS, i, names->router);
    weights_allow_fp8(w, WEIGHTS_FP8);
    if (c->correction_bias)
        e->routing.correction =
            weights_vector(w, e->routing.n, WEIGHTS_BIAS, LAYERS ".%d.mlp.gate.e_score_correction_bias", i);
    e->experts = xcalloc((size_t)e->routing.n, sizeof *e->experts);
    for (int x = 0; x < e->routing.n; x++) {
        e->experts[x] = load_expert(w, d->hidden, (int)c->expert_intermediate, c->expert_bias, LAYERS, i,
                                    names->experts, x);
        e->experts[x].glu = glu_of(c);
    }
    if (c->shared_intermediate) load_shared(d, w, i, names);
}

static void load_mlp(struct decoder *d, struct weights *w, int i) {
    static const char *const names[3] = { "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj" };
    const struct llm_text *c = d->c;
    int inner = (int)c->intermediate;
    struct expert *e = &d->layer[i].mlp;
    if (c->fused_projections) {
        e->gate = load_part(w, 2 * inner, 0, inner, d->hidden, i, "mlp.gate_up_proj");
        e->up = load_part(w, 2 * inner, inner, inner, d->hidden, i, "mlp.gate_up_proj");
        e->down = load_linear(w, d->hidden, inner, false, LAYERS, i, "mlp.down_proj");
    } else {
        *e = load_expert(w, d->hidden, inner, c->mlp_bias, LAYERS, i, names, 0);
    }
    e->glu = glu_of(c);
}

/* gemma2 and gemma3 have four norms per layer, other families two. */
static void load_norms(struct decoder *d, struct weights *w, int i) {
    struct decoder_layer *l = &d->layer[i];
    enum weights_fill fill = norm_fill(d);
    l->norm1 = weights_vector(w, d->hidden, fill, LAYERS ".%d.input_layernorm.weight", i);
    struct tensor *after =
        weights_vector(w, d->hidden, fill, LAYERS ".%d.post_attention_layernorm.weight", i);
    if (!d->c->sandwich_norms) {
        l->norm2 = after;
        return;
    }
    l->post1 = after;
    l->norm2 = weights_vector(w, d->hidden, fill, LAYERS ".%d.pre_feedforward_layernorm.weight", i);
    l->post2 = weights_vector(w, d->hidden, fill, LAYERS ".%d.post_feedforward_layernorm.weight", i);
}

/* Returns the number of key elements per layer and position. Sets *values to the number of value elements. */
static size_t cache_row(const struct decoder *d, size_t *values) {
    *values = d->c->kv_lora_rank ? 0 : (size_t)d->kv_heads * (size_t)d->dim_v;
    return d->c->kv_lora_rank ? d->c->kv_lora_rank + d->c->qk_rope_dim
                              : (size_t)d->kv_heads * (size_t)d->dim_k;
}

static void free_cache(struct decoder *d) {
    for (int i = 0; i < d->layers; i++) {
        ops_free(d->ops, d->layer[i].keys);
        ops_free(d->ops, d->layer[i].values);
        d->layer[i].keys = d->layer[i].values = NULL;
    }
}

void decoder_release(struct decoder *d) {
    free_cache(d);
    d->sequences = 0;
}

int decoder_reserve(struct decoder *d, int sequences, int positions, struct err *err) {
    if (d->sequences == sequences && d->positions == positions) return 0;
    size_t values, keys = cache_row(d, &values), n = (size_t)sequences * (size_t)positions;
    double bytes = (double)dtype_bytes(d->kv) * (double)n * (double)(keys + values) * d->layers;
    const char *whose;
    double memory = (double)ops_memory_bytes(d->ops, &whose);
    if (bytes > memory)
        return err_set(err,
                       "the keys and values of %d sequences of %d tokens take %.1f GB, but %s has %.1f GB of "
                       "memory: use a smaller batch or context",
                       sequences, positions, bytes / 1e9, whose, memory / 1e9);
    decoder_release(d); /* keeps the decoder consistent if an allocation below fails */
    for (int i = 0; i < d->layers; i++) {
        d->layer[i].keys = ops_alloc_cache(d->ops, n * keys, d->kv);
        if (values) d->layer[i].values = ops_alloc_cache(d->ops, n * values, d->kv);
    }
    d->sequences = sequences;
    d->positions = positions;
    d->reserved++;
    return 0;
}

static void load_layer(struct decoder *d, struct weights *w, int i) {
    const struct llm_text *c = d->c;
    struct decoder_layer *l = &d->layer[i];
    l->window = (int)MIN(c->layer[i].window, 1u << 30);
    l->local_rope = c->rope.local_plain && l->window;
    load_norms(d, w, i);
    weights_allow_fp8(w, WEIGHTS_FP8);
    if (c->kv_lora_rank)
        load_latent(d, w, i);
    else
        load_heads(d, w, i);
    l->o = load_linear(w, d->hidden, d->heads * d->dim_v, c->o_bias, LAYERS, i, "self_attn.o_proj");
    if (c->layer[i].moe)
        load_moe(d, w, i);
    else
        load_mlp(d, w, i);
    weights_allow_fp8(w, WEIGHTS_NOT_FP8);
}

static struct tensor *alloc_rows(struct decoder *d, size_t width) {
    return ops_alloc(d->ops, (size_t)d->chunk * width, TENSOR_ZERO);
}
static struct tensor *alloc_narrow_rows(struct decoder *d, size_t width) {
    return ops_alloc_narrow(d->ops, (size_t)d->chunk * width);
}

static bool linear_narrow(const struct decoder *d, const struct linear *l) {
    return ops_has_narrow(d->ops, l->w.type);
}

static bool expert_narrow(const struct decoder *d, const struct expert *e) {
    return linear_narrow(d, &e->gate) && linear_narrow(d, &e->up) && linear_narrow(d, &e->down) &&
           !e->gate.bias && e->glu == OPS_GLU_SILU && !e->down.bias && e->gate.w.rows % 8 == 0;
}

/* Experts of several types run one by one, on floats. */
static bool routed_narrow(const struct decoder *d, const struct moe *m) {
    enum dtype type = m->experts[0].gate.w.type;
    for (int i = 0; i < m->routing.n; i++) {
        const struct expert *e = &m->experts[i];
        if (!expert_narrow(d, e) || e->gate.w.type != type || e->up.w.type != type || e->down.w.type != type)
            return false;
    }
    return true;
}

static bool layer_narrow(const struct decoder *d, const struct decoder_layer *l) {
    if (l->post1 || l->post2 || l->sinks) return false;
    if (!linear_narrow(d, &l->q) || !linear_narrow(d, &l->k) || !linear_narrow(d, &l->v) ||
        !linear_narrow(d, &l->o))
        return false;
    if (!l->moe.routing.n) return expert_narrow(d, &l->mlp);
    return linear_narrow(d, &l->moe.router) && routed_narrow(d, &l->moe) &&
           (!l->moe.shared.gate.w.rows || expert_narrow(d, &l->moe.shared));
}

/* Returns true if the device has kernels for 16-bit activations of this model. */
static bool can_narrow(const struct decoder *d) {
    if (d->c->kv_lora_rank || d->kv != DTYPE_BF16 || d->dim_k != d->dim_v || d->hidden % 8 ||
        (d->dim_k != 64 && d->dim_k != 128))
        return false;
    for (int i = 0; i < d->layers; i++)
        if (!layer_narrow(d, &d->layer[i])) return false;
    return true;
}

static void alloc_narrow_scratch(struct decoder *d, const struct moe *routed) {
    size_t wide = (size_t)(d->heads * d->dim_k), inner = d->c->intermediate;
    if (routed) inner = MAX(inner, (size_t)routed->shared.gate.w.rows);
    d->narrow.h = alloc_narrow_rows(d, (size_t)d->hidden);
    d->narrow.q = alloc_narrow_rows(d, wide);
    d->narrow.mixed = alloc_narrow_rows(d, wide);
    d->narrow.gate = alloc_narrow_rows(d, inner);
}

static void alloc_latent_scratch(struct decoder *d) {
    const struct llm_text *c = d->c;
    size_t heads = (size_t)d->heads, positions = heads * (size_t)d->max_context;
    d->latent = alloc_rows(d, MAX(c->kv_lora_rank + c->qk_rope_dim, c->q_lora_rank));
    d->wide_keys = ops_alloc(d->ops, positions * (size_t)d->dim_k, TENSOR_ZERO);
    d->wide_values = ops_alloc(d->ops, positions * (size_t)d->dim_v, TENSOR_ZERO);
    d->absorbed = ops_alloc(d->ops, heads * (c->kv_lora_rank + c->qk_rope_dim), TENSOR_ZERO);
    d->sums = ops_alloc(d->ops, heads * c->kv_lora_rank, TENSOR_ZERO);
}

static void alloc_scratch(struct decoder *d) {
    const struct llm_text *c = d->c;
    size_t wide = (size_t)(d->heads * MAX(d->dim_k, d->dim_v));
    if (c->kv_lora_rank) {
        wide = MAX(wide, (size_t)d->heads * (size_t)(c->qk_nope_dim + (uint64_t)d->dim_v));
        wide = MAX(wide, c->kv_lora_rank + c->qk_rope_dim);
    }
    d->h = alloc_rows(d, (size_t)d->hidden);
    d->q = alloc_rows(d, wide);
    d->k = alloc_rows(d, wide);
    d->v = alloc_rows(d, wide);
    d->mixed = alloc_rows(d, wide);
    d->gate = alloc_rows(d, c->intermediate);
    d->up = alloc_rows(d, c->intermediate);
    d->attentions = xcalloc((size_t)d->chunk, sizeof *d->attentions);
    if (c->kv_lora_rank) alloc_latent_scratch(d);
    const struct moe *routed = NULL; /* any routed layer; all have the same sizes */
    for (int i = 0; i < d->layers; i++)
        if (d->layer[i].moe.routing.n) routed = &d->layer[i].moe;
    if (routed) moe_scratch_init(&d->moe, d->ops, routed, d->hidden, d->chunk);
    if (can_narrow(d)) alloc_narrow_scratch(d, routed);
    if (routed) d->expert_used = xcalloc((size_t)d->layers * ROUTING_MAX_EXPERTS, sizeof *d->expert_used);
}

/* Makes the tables of rotary positions. GGUF files of Llama 3 contain the divisors of the frequencies
 * instead of the parameters. */
static int open_rope(struct decoder *d, const struct weights *w, struct err *err) {
    const struct llm_rope *c = &d->c->rope;
    int half = (int)c->dims / 2;
    float *factors = xcalloc((size_t)half + 1, sizeof *factors);
    bool given = weights_optional(w, "rope_freqs.weight", factors, half);
    for (int i = 0; given && i < half; i++) given = factors[i] > 0;
    int rc = rope_init(&d->rope, d->ops, c, d->c->kv_lora_rank > 0 || c->interleaved, d->max_context,
                       given ? factors : NULL, err);
    free(factors);
    struct llm_rope local = rope_local(c);
    if (rc == 0 && c->local_plain)
        rc = rope_init(&d->local_rope, d->ops, &local, false, d->max_context, NULL, err);
    return rc;
}

struct decoder *decoder_open(const struct llm_text *c, struct ops *o, struct weights *w, int max_context,
                             enum dtype kv, struct err *err) {
    if (decoder_check(c, o, err) < 0) return NULL;
    struct decoder *d = xcalloc(1, sizeof *d);
    bool latent = c->kv_lora_rank > 0;
    d->c = c;
    d->ops = o;
    d->hidden = (int)c->hidden;
    d->heads = (int)c->heads;
    d->layers = (int)c->layers;
    d->kv_heads = (int)c->kv_heads;
    d->dim_k = (int)c->head_dim;
    d->dim_v = (int)c->v_head_dim;
    d->vocab = (int)c->vocab;
    d->max_context = max_context;
    d->chunk = MIN(o->backend->rows ? o->backend->rows : DECODER_CHUNK, MAX(max_context, DECODER_CHUNK));
    d->kv = o->backend->bf16_cache ? kv : DTYPE_F32;
    double score_dim = isnan(c->score_dim) ? d->dim_k : c->score_dim;
    d->score_scale = (float)((latent ? rope_score_scale(&c->rope) : 1.0) / sqrt(score_dim));
    d->layer = xcalloc((size_t)d->layers, sizeof *d->layer);
    d->embed = weights_matrix(w, d->vocab, d->hidden, "model.embed_tokens.weight");
    for (int i = 0; i < d->layers; i++) load_layer(d, w, i);
    d->norm = weights_vector(w, d->hidden, norm_fill(d), "model.norm.weight");
    d->head.w = d->embed;
    if (!c->tied_head) d->head.w = weights_matrix(w, d->vocab, d->hidden, "lm_head.weight");
    alloc_scratch(d);
    if (decoder_reserve(d, 1, max_context, err) < 0 || open_rope(d, w, err) < 0) {
        decoder_close(d);
        return NULL;
    }
    return d;
}

void decoder_close(struct decoder *d) {
    if (!d) return;
    free_cache(d);
    for (int i = 0; i < d->layers; i++) free(d->layer[i].moe.experts);
    struct tensor *const scratch[] = { d->h,  d->q,      d->k,         d->v,           d->mixed,    d->gate,
                                       d->up, d->latent, d->wide_keys, d->wide_values, d->absorbed, d->sums };
    for (size_t i = 0; i < COUNTOF(scratch); i++) ops_free(d->ops, scratch[i]);
    struct tensor *const narrow[] = { d->narrow.h, d->narrow.q, d->narrow.mixed, d->narrow.gate };
    for (size_t i = 0; i < COUNTOF(narrow); i++) ops_free(d->ops, narrow[i]);
    moe_scratch_free(&d->moe, d->ops);
    free(d->expert_used);
    rope_free(&d->rope, d->ops);
    rope_free(&d->local_rope, d->ops);
    free(d->attentions);
    free(d->layer);
    free(d);
}
