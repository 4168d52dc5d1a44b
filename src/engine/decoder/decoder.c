#include "engine/decoder/decoder.h"

#include <math.h>
#include <string.h>

#include "base/util.h"
#include "engine/decoder/latent.h"

void decoder_embed(struct decoder *d, const uint32_t *ids, int n, struct view x) {
    ops_embed(d->ops, &d->embed, ids, n, x);
    if (d->c->scaled_embedding)
        ops_adjust(d->ops, OPS_SCALE, sqrtf((float)d->hidden), x, (size_t)n * (size_t)d->hidden);
}

static void rotate_heads(struct decoder *d, const struct decoder_layer *l, struct view x, int heads,
                         const struct decoder_rows *r) {
    ops_rope(d->ops, l->local_rope ? &d->local_rope : &d->rope,
             &(struct rope_rows){ .x = x,
                                  .row = (ptrdiff_t)heads * d->dim_k,
                                  .rows = r->n,
                                  .heads = heads,
                                  .stride = d->dim_k,
                                  .position = r->position });
}

static struct view cache_of(const struct decoder *d, struct tensor *cache, int sequence, int dim) {
    return view_at(view_of(cache),
                   (size_t)sequence * (size_t)d->kv_heads * (size_t)d->positions * (size_t)dim);
}

static void store_in_cache(struct decoder *d, struct tensor *cache, struct view rows, int dim,
                           const struct decoder_rows *r) {
    ops_cache_store(d->ops, &(struct cache_rows){ .cache = cache_of(d, cache, r->sequence, dim),
                                                  .rows = rows,
                                                  .type = d->kv,
                                                  .n = r->n,
                                                  .heads = d->kv_heads,
                                                  .dim = dim,
                                                  .max_context = d->positions,
                                                  .position = r->position });
}

/* Returns true if a pass of n rows has 16-bit activations. */
static bool is_narrow(const struct decoder *d, int n) { return d->narrow.h && n > d->ops->backend->few_rows; }
/* Returns the scratch tensor for a pass of n rows: `narrow` or `wide`. */
static struct view scratch_of(const struct decoder *d, int n, struct tensor *wide, struct tensor *narrow) {
    return view_of(is_narrow(d, n) ? narrow : wide);
}

/* Writes queries, keys and values of all rows to d->q, d->k and d->v. */
static void project_heads(struct decoder *d, const struct decoder_layer *l, int n) {
    static const char *const names[] = { "q_proj", "k_proj", "v_proj" };
    struct ops *o = d->ops;
    struct view h = scratch_of(d, n, d->h, d->narrow.h), q = view_of(d->q), k = view_of(d->k);
    struct linear_out out[] = { { &l->q, q }, { &l->k, k }, { &l->v, view_of(d->v) } };
    if (n == 1)
        ops_linear_many(o, "qkv_proj", out, 3, h);
    else
        ops_linear_rows(o, "qkv_proj", names, out, 3, h, n);
    float eps = (float)d->c->norm_eps;
    if (is_narrow(d, n)) return; /* place_narrow() does the rest */
    if (l->q_norm) {
        ops_rmsnorm(o, "q_norm", q, d->dim_k, l->q_norm, n * d->heads, d->dim_k, eps, q, d->dim_k);
        ops_rmsnorm(o, "k_norm", k, d->dim_k, l->k_norm, n * d->kv_heads, d->dim_k, eps, k, d->dim_k);
    }
}

void decoder_fit_rope(struct decoder *d, const struct decoder_rows *r) {
    rope_fit(&d->rope, d->ops, &d->c->rope, &d->rope_filled, r->position, r->n,
             r->length ? r->length : r->position + r->n, r->places);
}

/* Rotates queries and keys by their positions and stores keys and values in the cache. */
static void place_heads(struct decoder *d, const struct decoder_layer *l, struct decoder_pass pass) {
    size_t row = 0;
    for (int i = 0; i < pass.n; i++) {
        const struct decoder_rows *r = &pass.v[i];
        struct view k = view_at(view_of(d->k), row * (size_t)(d->kv_heads * d->dim_k));
        struct view v = view_at(view_of(d->v), row * (size_t)(d->kv_heads * d->dim_v));
        decoder_fit_rope(d, r);
        rotate_heads(d, l, view_at(view_of(d->q), row * (size_t)(d->heads * d->dim_k)), d->heads, r);
        rotate_heads(d, l, k, d->kv_heads, r);
        store_in_cache(d, l->keys, k, d->dim_k, r);
        store_in_cache(d, l->values, v, d->dim_v, r);
        row += (size_t)r->n;
    }
}

/* Like place_heads(), but one operator per segment also applies the norms. Queries become 16-bit numbers in
 * d->narrow.q. */
static void place_narrow(struct decoder *d, const struct decoder_layer *l, struct decoder_pass pass) {
    size_t row = 0, q = (size_t)(d->heads * d->dim_k), kv = (size_t)(d->kv_heads * d->dim_k);
    for (int i = 0; i < pass.n; i++) {
        const struct decoder_rows *r = &pass.v[i];
        decoder_fit_rope(d, r);
        ops_place_heads(d->ops,
                        &(struct place_heads){ .q = view_at(view_of(d->q), row * q),
                                               .k = view_at(view_of(d->k), row * kv),
                                               .v = view_at(view_of(d->v), row * kv),
                                               .q_norm = l->q_norm,
                                               .k_norm = l->k_norm,
                                               .eps = (float)d->c->norm_eps,
                                               .rope = l->local_rope ? &d->local_rope : &d->rope,
                                               .n = r->n,
                                               .position = r->position,
                                               .heads = d->heads,
                                               .kv_heads = d->kv_heads,
                                               .dim = d->dim_k,
                                               .max_context = d->positions,
                                               .queries = view_at(view_of(d->narrow.q), row * q),
                                               .keys = cache_of(d, l->keys, r->sequence, d->dim_k),
                                               .values = cache_of(d, l->values, r->sequence, d->dim_v) });
        row += (size_t)r->n;
    }
}

/* Describes the attention of a segment that starts at row `row`, with the keys and values of the layer's
 * cache. latent_attention() uses other keys and values. */
static struct attention attention_of(const struct decoder *d, const struct decoder_layer *l,
                                     const struct decoder_rows *r, size_t row, int rows) {
    size_t q_row = (size_t)(d->heads * d->dim_k), out_row = (size_t)(d->heads * d->dim_v);
    bool latent = d->c->kv_lora_rank > 0;
    return (struct attention){ .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .dim_k = d->dim_k,
                               .dim_v = d->dim_v,
                               .scale = d->score_scale,
                               .q = view_at(scratch_of(d, rows, d->q, d->narrow.q), row * q_row),
                               .q_row = (ptrdiff_t)q_row,
                               .k = latent ? view_of(l->keys) : cache_of(d, l->keys, r->sequence, d->dim_k),
                               .v = latent ? view_of(NULL) : cache_of(d, l->values, r->sequence, d->dim_v),
                               .kv = d->kv,
                               .k_head = (ptrdiff_t)d->positions * d->dim_k,
                               .v_head = (ptrdiff_t)d->positions * d->dim_v,
                               .out = view_at(scratch_of(d, rows, d->mixed, d->narrow.mixed), row * out_row),
                               .out_row = (ptrdiff_t)out_row,
                               .nq = r->n,
                               .nk = r->position + r->n,
                               .room = d->positions,
                               .base = r->position,
                               .window = l->window,
                               .softcap = isnan(d->c->attention_softcap) ? 0 : (float)d->c->attention_softcap,
                               .sinks = l->sinks };
}

static void attend(struct decoder *d, const struct decoder_layer *l, struct decoder_pass pass) {
    size_t row = 0;
    int rows = decoder_pass_rows(pass);
    for (int i = 0; i < pass.n; i++) {
        d->attentions[i] = attention_of(d, l, &pass.v[i], row, rows);
        row += (size_t)pass.v[i].n;
    }
    if (d->c->kv_lora_rank)
        latent_attention(d, l, pass, d->attentions);
    else
        ops_attention_many(d->ops, "attention", d->attentions, pass.n);
}

/* x += post(last(from)). `last` is the last linear layer of the block; post NULL: no norm. */
static void add_block(struct decoder *d, const char *name, const struct linear *last, struct view from, int n,
                      const char *post_name, struct tensor *post, struct view x) {
    struct view h = view_of(d->h);
    int width = last->w.cols;
    if (!post) {
        ops_linear(d->ops, name, last, from, width, n, x, d->hidden, OPS_ADD);
        return;
    }
    ops_linear(d->ops, name, last, from, width, n, h, d->hidden, OPS_SET);
    ops_rmsnorm(d->ops, post_name, h, d->hidden, post, n, d->hidden, (float)d->c->norm_eps, h, d->hidden);
    ops_add(d->ops, "add", x, h, (size_t)n * (size_t)d->hidden);
}

void decoder_attention(struct decoder *d, const struct decoder_layer *l, struct view x,
                       struct decoder_pass pass) {
    struct ops *o = d->ops;
    int n = decoder_pass_rows(pass);
    ops_rmsnorm(o, "input_layernorm", x, d->hidden, l->norm1, n, d->hidden, (float)d->c->norm_eps,
                scratch_of(d, n, d->h, d->narrow.h), d->hidden);
    if (!d->c->kv_lora_rank) project_heads(d, l, n);
    if (is_narrow(d, n))
        place_narrow(d, l, pass);
    else if (!d->c->kv_lora_rank)
        place_heads(d, l, pass);
    attend(d, l, pass);
    add_block(d, "o_proj", &l->o, scratch_of(d, n, d->mixed, d->narrow.mixed), n, "post_attention_layernorm",
              l->post1, x);
}

void decoder_experts_reset(struct decoder *d) {
    d->experts_unknown = false;
    for (int i = 0; d->expert_used && i < d->layers; i++)
        memset(d->expert_used + (size_t)i * ROUTING_MAX_EXPERTS, 0,
               (size_t)d->layer[i].moe.routing.n * sizeof *d->expert_used);
}

double decoder_experts_used(const struct decoder *d) {
    size_t used = 0, routed = 0;
    if (d->experts_unknown) return NAN;
    for (int i = 0; d->expert_used && i < d->layers; i++) {
        routed += d->layer[i].moe.routing.n > 0;
        for (int e = 0; e < d->layer[i].moe.routing.n; e++)
            used += d->expert_used[(size_t)i * ROUTING_MAX_EXPERTS + (size_t)e];
    }
    return routed ? (double)used / (double)routed : NAN;
}

static void count_experts(struct decoder *d, const struct decoder_layer *l, int n) {
    bool *used = d->expert_used + (size_t)(l - d->layer) * ROUTING_MAX_EXPERTS;
    d->experts_unknown = d->experts_unknown || d->moe.by_device;
    for (int i = 0; i < n * l->moe.routing.k; i++) used[d->moe.choices[i].expert] = true;
}

static void feed_forward(struct decoder *d, const struct decoder_layer *l, struct view x, int n) {
    struct ops *o = d->ops;
    static const char *const names[] = { "gate_proj", "up_proj" };
    const struct expert *e = &l->mlp;
    struct view h = scratch_of(d, n, d->h, d->narrow.h), gate = scratch_of(d, n, d->gate, d->narrow.gate);
    ops_rmsnorm(o, l->post2 ? "pre_feedforward_layernorm" : "post_attention_layernorm", x, d->hidden,
                l->norm2, n, d->hidden, (float)d->c->norm_eps, h, d->hidden);
    if (l->moe.routing.n) {
        moe_forward(o, &l->moe, h, n, d->hidden, x, &d->moe, is_narrow(d, n) ? d->narrow.gate : d->moe.gate);
        count_experts(d, l, n);
    } else if (n > 1 || e->gate.bias || l->post2 ||
               !ops_experts_one(o, "mlp", &e, &(float){ 1.0f }, 1, h, x)) {
        ops_swiglu(o, "gate_up_proj", names, e, h, n, gate, view_of(d->up));
        add_block(d, "down_proj", &e->down, gate, n, "post_feedforward_layernorm", l->post2, x);
    }
}

/* Computes the logits of the last row of every segment that requests them. */
static void compute_logits(struct decoder *d, struct view x, struct decoder_pass pass, struct view logits) {
    struct ops *o = d->ops;
    struct view h = view_of(d->h);
    size_t row = 0, hidden = (size_t)d->hidden;
    int n = 0;
    record_push(o->rec, RECORD_MODULES, "head", -1);
    for (int i = 0; i < pass.n; i++) {
        row += (size_t)pass.v[i].n;
        if (!pass.v[i].logits) continue;
        ops_rmsnorm(o, "norm", view_at(x, (row - 1) * hidden), d->hidden, d->norm, 1, d->hidden,
                    (float)d->c->norm_eps, view_at(h, (size_t)n * hidden), d->hidden);
        n++;
    }
    ops_linear(o, "lm_head", &d->head, h, d->hidden, n, logits, d->vocab, OPS_SET);
    if (!isnan(d->c->logit_softcap))
        ops_adjust(o, OPS_SOFTCAP, (float)d->c->logit_softcap, logits, (size_t)n * (size_t)d->vocab);
    record_pop(o->rec, RECORD_MODULES);
}

/* The last layer's output is only used for the logits. So its feed-forward block runs only on the rows whose
 * logits are requested; keys and values of the other rows are in the cache by then. */
static void feed_forward_last(struct decoder *d, const struct decoder_layer *l, struct view x,
                              struct decoder_pass pass) {
    size_t row = 0;
    for (int i = 0; i < pass.n; i++) {
        row += (size_t)pass.v[i].n;
        if (pass.v[i].logits) feed_forward(d, l, view_at(x, (row - 1) * (size_t)d->hidden), 1);
    }
}

void decoder_forward_rows(struct decoder *d, struct view x, struct decoder_pass pass, struct view logits) {
    struct ops *o = d->ops;
    bool wanted = false;
    int rows = decoder_pass_rows(pass);
    for (int i = 0; i < pass.n; i++) wanted = wanted || pass.v[i].logits;
    for (int i = 0; i < d->layers; i++) {
        const struct decoder_layer *l = &d->layer[i];
        record_push(o->rec, RECORD_MODULES, "layer.%d.attn", i);
        decoder_attention(d, l, x, pass);
        record_pop(o->rec, RECORD_MODULES);
        record_push(o->rec, RECORD_MODULES, l->moe.routing.n ? "layer.%d.moe" : "layer.%d.mlp", i);
        if (i + 1 == d->layers && rows > pass.n && !d->narrow.h)
            feed_forward_last(d, l, x, pass);
        else
            feed_forward(d, l, x, rows);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, 1.0 / d->layers);
    }
    if (wanted) compute_logits(d, x, pass, logits);
}

void decoder_forward(struct decoder *d, struct view x, int n, int position, struct tensor *logits) {
    struct decoder_rows rows = { .position = position, .n = n, .logits = logits != NULL };
    decoder_forward_rows(d, x, (struct decoder_pass){ &rows, 1 }, view_of(logits));
}
