#include "engine/decoder/decoder.h"

#include <string.h>

#include "base/util.h"
#include "engine/decoder/latent.h"

void decoder_embed(struct decoder *d, struct ops *o, const uint32_t *ids, int n, float *x) {
    ops_embed(o, &d->embed, ids, n, x);
}

/* k[n][kv_heads][dim] into the cache, head by head. */
static void keep(float *cache, const float *rows, int n, int heads, int dim, int max_context, int position) {
    for (int i = 0; i < n; i++)
        for (int h = 0; h < heads; h++)
            memcpy(cache + ((size_t)h * (size_t)max_context + (size_t)(position + i)) * (size_t)dim,
                   rows + ((size_t)i * (size_t)heads + (size_t)h) * (size_t)dim, sizeof(float) * (size_t)dim);
}

static void project_heads(struct decoder *d, struct ops *o, const struct decoder_layer *l, int n,
                          int position) {
    int q_width = d->heads * d->dim_k, k_width = d->kv_heads * d->dim_k, v_width = d->kv_heads * d->dim_v;
    if (n == 1) {
        struct linear_out out[] = { { &l->q, d->q }, { &l->k, d->k }, { &l->v, d->v } };
        ops_linear_many(o, "qkv_proj", out, 3, d->h);
    } else {
        ops_linear(o, "q_proj", &l->q, d->h, d->hidden, n, d->q, q_width, OPS_SET);
        ops_linear(o, "k_proj", &l->k, d->h, d->hidden, n, d->k, k_width, OPS_SET);
        ops_linear(o, "v_proj", &l->v, d->h, d->hidden, n, d->v, v_width, OPS_SET);
    }
    float eps = (float)d->c->norm_eps;
    if (l->q_norm) {
        ops_rmsnorm(o, "q_norm", d->q, d->dim_k, l->q_norm, n * d->heads, d->dim_k, eps, d->q, d->dim_k);
        ops_rmsnorm(o, "k_norm", d->k, d->dim_k, l->k_norm, n * d->kv_heads, d->dim_k, eps, d->k, d->dim_k);
    }
    for (int i = 0; i < n; i++) {
        rope_apply(&d->rope, d->q + (ptrdiff_t)i * q_width, d->heads, d->dim_k, 0, position + i);
        rope_apply(&d->rope, d->k + (ptrdiff_t)i * k_width, d->kv_heads, d->dim_k, 0, position + i);
    }
    keep(l->keys, d->k, n, d->kv_heads, d->dim_k, d->max_context, position);
    keep(l->values, d->v, n, d->kv_heads, d->dim_v, d->max_context, position);
}

/* Of n tokens at those positions over each head's keys and values in the layer's cache. */
static struct attention attention_of(const struct decoder *d, const struct decoder_layer *l, int n,
                                     int position) {
    return (struct attention){ .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .dim_k = d->dim_k,
                               .dim_v = d->dim_v,
                               .scale = d->score_scale,
                               .q = d->q,
                               .q_row = (ptrdiff_t)d->heads * d->dim_k,
                               .k = l->keys,
                               .v = l->values,
                               .k_head = (ptrdiff_t)d->max_context * d->dim_k,
                               .v_head = (ptrdiff_t)d->max_context * d->dim_v,
                               .out = d->mixed,
                               .out_row = (ptrdiff_t)d->heads * d->dim_v,
                               .nq = n,
                               .nk = position + n,
                               .room = d->max_context,
                               .base = position,
                               .window = l->window };
}

void decoder_attention(struct decoder *d, struct ops *o, const struct decoder_layer *l, float *x, int n,
                       int position) {
    int width = d->heads * d->dim_v;
    ops_rmsnorm(o, "input_layernorm", x, d->hidden, l->norm1, n, d->hidden, (float)d->c->norm_eps, d->h,
                d->hidden);
    struct attention a = attention_of(d, l, n, position);
    if (d->c->kv_lora_rank) {
        latent_attention(d, o, l, &a);
    } else {
        project_heads(d, o, l, n, position);
        ops_attention(o, "attention", &a);
    }
    ops_linear(o, "o_proj", &l->o, d->mixed, width, n, x, d->hidden, OPS_ADD);
}

static void feed_forward(struct decoder *d, struct ops *o, const struct decoder_layer *l, float *x, int n) {
    const struct expert *e = &l->mlp;
    int inner = e->gate.w.rows;
    ops_rmsnorm(o, "post_attention_layernorm", x, d->hidden, l->norm2, n, d->hidden, (float)d->c->norm_eps,
                d->h, d->hidden);
    if (l->moe.n) {
        moe_forward(o, &l->moe, d->h, n, d->hidden, x, d->choices, d->order, d->moe_scratch);
    } else if (n == 1 && !e->gate.bias) {
        ops_experts_one(o, "mlp", &e, &(float){ 1.0f }, 1, d->h, x);
    } else {
        ops_linear(o, "gate_proj", &e->gate, d->h, d->hidden, n, d->gate, inner, OPS_SET);
        ops_linear(o, "up_proj", &e->up, d->h, d->hidden, n, d->up, inner, OPS_SET);
        ops_silu_mul(o, d->gate, d->up, (size_t)n * (size_t)inner);
        ops_linear(o, "down_proj", &e->down, d->gate, inner, n, x, d->hidden, OPS_ADD);
    }
}

void decoder_forward(struct decoder *d, struct ops *o, float *x, int n, int position, float *logits) {
    for (int i = 0; i < d->layers; i++) {
        const struct decoder_layer *l = &d->layer[i];
        record_push(o->rec, RECORD_MODULES, "layer.%d.attn", i);
        decoder_attention(d, o, l, x, n, position);
        record_pop(o->rec, RECORD_MODULES);
        record_push(o->rec, RECORD_MODULES, l->moe.n ? "layer.%d.moe" : "layer.%d.mlp", i);
        feed_forward(d, o, l, x, n);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, 1.0 / d->layers);
    }
    if (!logits) return;
    record_push(o->rec, RECORD_MODULES, "head", -1);
    const float *last = x + (ptrdiff_t)(n - 1) * d->hidden;
    ops_rmsnorm(o, "norm", last, d->hidden, d->norm, 1, d->hidden, (float)d->c->norm_eps, d->h, d->hidden);
    ops_linear(o, "lm_head", &d->head, d->h, d->hidden, 1, logits, d->vocab, OPS_SET);
    record_pop(o->rec, RECORD_MODULES);
}
