#include "engine/decoder/decoder.h"

#include "base/util.h"
#include "engine/decoder/latent.h"

void decoder_embed(struct decoder *d, const uint32_t *ids, int n, struct view x) {
    ops_embed(d->ops, &d->embed, ids, n, x);
}

static void rotate_heads(struct decoder *d, struct tensor *x, int heads, int n, int position) {
    ops_rope(d->ops, &d->rope,
             &(struct rope_rows){ .x = view_of(x),
                                  .row = (ptrdiff_t)heads * d->dim_k,
                                  .rows = n,
                                  .heads = heads,
                                  .stride = d->dim_k,
                                  .position = position });
}

static void store_in_cache(struct decoder *d, struct tensor *cache, struct tensor *rows, int dim, int n,
                           int position) {
    ops_cache_store(d->ops, &(struct cache_rows){ .cache = view_of(cache),
                                                  .rows = view_of(rows),
                                                  .n = n,
                                                  .heads = d->kv_heads,
                                                  .dim = dim,
                                                  .max_context = d->max_context,
                                                  .position = position });
}

/* Queries into d->q, keys and values into the cache. */
static void project_heads(struct decoder *d, const struct decoder_layer *l, int n, int position) {
    struct ops *o = d->ops;
    int q_width = d->heads * d->dim_k, k_width = d->kv_heads * d->dim_k, v_width = d->kv_heads * d->dim_v;
    struct view h = view_of(d->h), q = view_of(d->q), k = view_of(d->k), v = view_of(d->v);
    if (n == 1) {
        struct linear_out out[] = { { &l->q, q }, { &l->k, k }, { &l->v, v } };
        ops_linear_many(o, "qkv_proj", out, 3, h);
    } else {
        ops_linear(o, "q_proj", &l->q, h, d->hidden, n, q, q_width, OPS_SET);
        ops_linear(o, "k_proj", &l->k, h, d->hidden, n, k, k_width, OPS_SET);
        ops_linear(o, "v_proj", &l->v, h, d->hidden, n, v, v_width, OPS_SET);
    }
    float eps = (float)d->c->norm_eps;
    if (l->q_norm) {
        ops_rmsnorm(o, "q_norm", q, d->dim_k, l->q_norm, n * d->heads, d->dim_k, eps, q, d->dim_k);
        ops_rmsnorm(o, "k_norm", k, d->dim_k, l->k_norm, n * d->kv_heads, d->dim_k, eps, k, d->dim_k);
    }
    rotate_heads(d, d->q, d->heads, n, position);
    rotate_heads(d, d->k, d->kv_heads, n, position);
    store_in_cache(d, l->keys, d->k, d->dim_k, n, position);
    store_in_cache(d, l->values, d->v, d->dim_v, n, position);
}

/* Attention of n tokens over each head's keys and values in the layer's cache. */
static struct attention attention_of(const struct decoder *d, const struct decoder_layer *l, int n,
                                     int position) {
    return (struct attention){ .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .dim_k = d->dim_k,
                               .dim_v = d->dim_v,
                               .scale = d->score_scale,
                               .q = view_of(d->q),
                               .q_row = (ptrdiff_t)d->heads * d->dim_k,
                               .k = view_of(l->keys),
                               .v = view_of(l->values),
                               .k_head = (ptrdiff_t)d->max_context * d->dim_k,
                               .v_head = (ptrdiff_t)d->max_context * d->dim_v,
                               .out = view_of(d->mixed),
                               .out_row = (ptrdiff_t)d->heads * d->dim_v,
                               .nq = n,
                               .nk = position + n,
                               .room = d->max_context,
                               .base = position,
                               .window = l->window };
}

void decoder_attention(struct decoder *d, const struct decoder_layer *l, struct view x, int n, int position) {
    struct ops *o = d->ops;
    int width = d->heads * d->dim_v;
    ops_rmsnorm(o, "input_layernorm", x, d->hidden, l->norm1, n, d->hidden, (float)d->c->norm_eps,
                view_of(d->h), d->hidden);
    struct attention a = attention_of(d, l, n, position);
    if (d->c->kv_lora_rank) {
        latent_attention(d, l, &a);
    } else {
        project_heads(d, l, n, position);
        ops_attention(o, "attention", &a);
    }
    ops_linear(o, "o_proj", &l->o, view_of(d->mixed), width, n, x, d->hidden, OPS_ADD);
}

static void feed_forward(struct decoder *d, const struct decoder_layer *l, struct view x, int n) {
    struct ops *o = d->ops;
    const struct expert *e = &l->mlp;
    int inner = e->gate.w.rows;
    struct view h = view_of(d->h), gate = view_of(d->gate), up = view_of(d->up);
    ops_rmsnorm(o, "post_attention_layernorm", x, d->hidden, l->norm2, n, d->hidden, (float)d->c->norm_eps, h,
                d->hidden);
    if (l->moe.routing.n) {
        moe_forward(o, &l->moe, h, n, d->hidden, x, &d->moe);
    } else if (n == 1 && !e->gate.bias) {
        ops_experts_one(o, "mlp", &e, &(float){ 1.0f }, 1, h, x);
    } else {
        ops_linear(o, "gate_proj", &e->gate, h, d->hidden, n, gate, inner, OPS_SET);
        ops_linear(o, "up_proj", &e->up, h, d->hidden, n, up, inner, OPS_SET);
        ops_silu_mul(o, gate, up, (size_t)n * (size_t)inner);
        ops_linear(o, "down_proj", &e->down, gate, inner, n, x, d->hidden, OPS_ADD);
    }
}

static void compute_logits(struct decoder *d, struct view last, struct tensor *logits) {
    struct ops *o = d->ops;
    struct view h = view_of(d->h);
    record_push(o->rec, RECORD_MODULES, "head", -1);
    ops_rmsnorm(o, "norm", last, d->hidden, d->norm, 1, d->hidden, (float)d->c->norm_eps, h, d->hidden);
    ops_linear(o, "lm_head", &d->head, h, d->hidden, 1, view_of(logits), d->vocab, OPS_SET);
    record_pop(o->rec, RECORD_MODULES);
}

void decoder_forward(struct decoder *d, struct view x, int n, int position, struct tensor *logits) {
    struct ops *o = d->ops;
    for (int i = 0; i < d->layers; i++) {
        const struct decoder_layer *l = &d->layer[i];
        record_push(o->rec, RECORD_MODULES, "layer.%d.attn", i);
        decoder_attention(d, l, x, n, position);
        record_pop(o->rec, RECORD_MODULES);
        record_push(o->rec, RECORD_MODULES, l->moe.routing.n ? "layer.%d.moe" : "layer.%d.mlp", i);
        feed_forward(d, l, x, n);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, 1.0 / d->layers);
    }
    if (logits) compute_logits(d, view_at(x, (size_t)(n - 1) * (size_t)d->hidden), logits);
}
