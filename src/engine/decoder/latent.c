#include "engine/decoder/latent.h"

#include "base/util.h"

/* The norms inside latent attention use this eps, whatever the config has for the others. */
static const float latent_eps = 1e-6f;

static struct latent latent_of(const struct decoder *d, const struct decoder_layer *l) {
    const struct llm_text *c = d->c;
    return (struct latent){ .kv_b = l->kv_b,
                            .heads = d->heads,
                            .nope = (int)c->qk_nope_dim,
                            .value = d->dim_v,
                            .rank = (int)c->kv_lora_rank,
                            .rope = (int)c->qk_rope_dim };
}

static struct view kept_at(const struct latent *s, const struct decoder_layer *l, int position) {
    return view_at(view_of(l->keys), (size_t)position * (size_t)(s->rank + s->rope));
}

/* Queries into d->q, latents into the cache. */
static void project_latent(struct decoder *d, const struct latent *s, const struct decoder_layer *l, int n,
                           int position) {
    struct ops *o = d->ops;
    int q_rank = (int)d->c->q_lora_rank, q_width = d->heads * d->dim_k, row = s->rank + s->rope;
    struct view h = view_of(d->h), q = view_of(d->q), latent = view_of(d->latent);
    struct view kept = kept_at(s, l, position);
    if (q_rank) {
        ops_linear(o, "q_a_proj", &l->q_a, h, d->hidden, n, latent, q_rank, OPS_SET);
        ops_rmsnorm(o, "q_a_norm", latent, q_rank, l->q_a_norm, n, q_rank, latent_eps, latent, q_rank);
        ops_linear(o, "q_b_proj", &l->q_b, latent, q_rank, n, q, q_width, OPS_SET);
    } else {
        ops_linear(o, "q_proj", &l->q, h, d->hidden, n, q, q_width, OPS_SET);
    }
    ops_linear(o, "kv_a_proj", &l->kv_a, h, d->hidden, n, kept, row, OPS_SET);
    ops_rmsnorm(o, "kv_a_norm", kept, row, l->kv_a_norm, n, s->rank, latent_eps, kept, row);
    ops_rope(o, &d->rope,
             &(struct rope_rows){ .x = q,
                                  .row = q_width,
                                  .rows = n,
                                  .heads = d->heads,
                                  .stride = d->dim_k,
                                  .offset = s->nope,
                                  .position = position });
    ops_rope(o, &d->rope,
             &(struct rope_rows){ .x = kept,
                                  .row = row,
                                  .rows = n,
                                  .heads = 1,
                                  .stride = s->rope,
                                  .offset = s->rank,
                                  .position = position });
}

/* Many tokens: the layer's keys and values of all positions so far. */
static void expand_latents(struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                           int positions) {
    int width = d->heads * (s->nope + s->value);
    for (int at = 0; at < positions; at += DECODER_CHUNK) {
        struct latent_rows r = { .rows = view_of(d->v),
                                 .kept = kept_at(s, l, at),
                                 .keys = view_of(d->wide_keys),
                                 .values = view_of(d->wide_values),
                                 .n = MIN(DECODER_CHUNK, positions - at),
                                 .max_context = d->max_context,
                                 .position = at };
        ops_linear(d->ops, "kv_b_proj", &l->kv_b, r.kept, s->rank + s->rope, r.n, r.rows, width, OPS_SET);
        ops_latent_expand(d->ops, s, &r);
    }
}

static void attend_one(struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                       struct attention a) {
    struct view out = a.out;
    ops_latent_query(d->ops, s, view_of(d->q), view_of(d->absorbed));
    a.kv_heads = 1;
    a.dim_k = s->rank + s->rope;
    a.dim_v = s->rank;
    a.q = view_of(d->absorbed);
    a.k = a.v = view_of(l->keys);
    a.v_row = s->rank + s->rope;
    a.k_head = a.v_head = 0;
    a.out = view_of(d->sums);
    ops_attention(d->ops, "attention", &a);
    ops_latent_value(d->ops, s, view_of(d->sums), out);
}

void latent_attention(struct decoder *d, const struct decoder_layer *l, const struct attention *of) {
    struct latent s = latent_of(d, l);
    struct attention a = *of;
    a.kv_heads = d->heads;
    a.k = view_of(d->wide_keys);
    a.v = view_of(d->wide_values);
    project_latent(d, &s, l, a.nq, a.base);
    if (a.nq == 1) {
        attend_one(d, &s, l, a);
        return;
    }
    expand_latents(d, &s, l, a.nk);
    ops_attention(d->ops, "attention", &a);
}
