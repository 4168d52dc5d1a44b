#include "engine/decoder/latent.h"

#include "base/util.h"

static struct latent latent_of(const struct decoder *d, const struct decoder_layer *l) {
    const struct llm_text *c = d->c;
    return (struct latent){ .kv_b = l->kv_b,
                            .heads = d->heads,
                            .nope = (int)c->qk_nope_dim,
                            .value = d->dim_v,
                            .rank = (int)c->kv_lora_rank,
                            .rope = (int)c->qk_rope_dim };
}

/* The cache of a sequence, [positions][rank + rope]. */
static struct view kept_of(const struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                           int sequence) {
    size_t row = (size_t)sequence * (size_t)d->positions;
    return view_at(view_of(l->keys), row * (size_t)(s->rank + s->rope));
}

/* n rows of the cache from `position` on. The caller sets `rows`. */
static struct cache_rows rows_of(const struct decoder *d, const struct latent *s,
                                 const struct decoder_layer *l, int sequence, int position, int n) {
    return (struct cache_rows){ .cache = kept_of(d, s, l, sequence),
                                .type = d->kv,
                                .n = n,
                                .heads = 1,
                                .dim = s->rank + s->rope,
                                .max_context = d->positions,
                                .position = position };
}

/* Writes the queries of n rows to d->q, and the latents to d->k. */
static void project_latent(struct decoder *d, const struct latent *s, const struct decoder_layer *l, int n) {
    struct ops *o = d->ops;
    int q_rank = (int)d->c->q_lora_rank, q_width = d->heads * d->dim_k, row = s->rank + s->rope;
    struct view h = view_of(d->h), q = view_of(d->q), latent = view_of(d->latent), kept = view_of(d->k);
    if (q_rank) {
        ops_linear(o, "q_a_proj", &l->q_a, h, d->hidden, n, latent, q_rank, OPS_SET);
        ops_rmsnorm(o, "q_a_norm", latent, q_rank, l->q_a_norm, n, q_rank, LATENT_EPS, latent, q_rank);
        ops_linear(o, "q_b_proj", &l->q_b, latent, q_rank, n, q, q_width, OPS_SET);
    } else {
        ops_linear(o, "q_proj", &l->q, h, d->hidden, n, q, q_width, OPS_SET);
    }
    ops_linear(o, "kv_a_proj", &l->kv_a, h, d->hidden, n, kept, row, OPS_SET);
    ops_rmsnorm(o, "kv_a_norm", kept, row, l->kv_a_norm, n, s->rank, LATENT_EPS, kept, row);
}

/* Rotates a segment's queries and latents, and stores the latents in the cache. */
static void place_latent(struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                         const struct decoder_rows *r, size_t first) {
    struct ops *o = d->ops;
    size_t q_width = (size_t)(d->heads * d->dim_k), row = (size_t)(s->rank + s->rope);
    struct view kept = view_at(view_of(d->k), first * row);
    decoder_fit_rope(d, r);
    ops_rope(o, &d->rope,
             &(struct rope_rows){ .x = view_at(view_of(d->q), first * q_width),
                                  .row = (ptrdiff_t)q_width,
                                  .rows = r->n,
                                  .heads = d->heads,
                                  .stride = d->dim_k,
                                  .offset = s->nope,
                                  .position = r->position });
    ops_rope(o, &d->rope,
             &(struct rope_rows){ .x = kept,
                                  .row = (ptrdiff_t)row,
                                  .rows = r->n,
                                  .heads = 1,
                                  .stride = s->rope,
                                  .offset = s->rank,
                                  .position = r->position });
    struct cache_rows c = rows_of(d, s, l, r->sequence, r->position, r->n);
    c.rows = kept;
    ops_cache_store(o, &c);
}

/* Computes the layer's keys and values for all positions of the sequence so far. Used for segments of
 * several tokens. */
static void expand_latents(struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                           int sequence, int positions) {
    int width = d->heads * (s->nope + s->value);
    for (int at = 0; at < positions; at += d->chunk) {
        struct cache_rows c = rows_of(d, s, l, sequence, at, MIN(d->chunk, positions - at));
        struct latent_rows r = { .rows = view_of(d->v),
                                 .kept = view_of(d->latent),
                                 .keys = view_of(d->wide_keys),
                                 .values = view_of(d->wide_values),
                                 .n = c.n,
                                 .max_context = d->max_context,
                                 .position = at };
        c.rows = r.kept;
        ops_cache_load(d->ops, &c);
        ops_linear(d->ops, "kv_b_proj", &l->kv_b, r.kept, s->rank + s->rope, r.n, r.rows, width, OPS_SET);
        ops_latent_expand(d->ops, s, &r);
    }
}

static void attend_one(struct decoder *d, const struct latent *s, struct view kept, struct attention a) {
    struct view out = a.out;
    ops_latent_query(d->ops, s, a.q, view_of(d->absorbed));
    a.kv_heads = 1;
    a.dim_k = s->rank + s->rope;
    a.dim_v = s->rank;
    a.q = view_of(d->absorbed);
    a.k = a.v = kept;
    a.v_row = s->rank + s->rope;
    a.k_head = a.v_head = 0;
    a.out = view_of(d->sums);
    ops_attention(d->ops, "attention", &a);
    ops_latent_value(d->ops, s, view_of(d->sums), out);
}

static void attend_many(struct decoder *d, const struct latent *s, const struct decoder_layer *l,
                        int sequence, struct attention a) {
    a.kv_heads = d->heads;
    a.kv = DTYPE_F32;
    a.k = view_of(d->wide_keys);
    a.v = view_of(d->wide_values);
    a.k_head = (ptrdiff_t)d->max_context * d->dim_k;
    a.v_head = (ptrdiff_t)d->max_context * d->dim_v;
    expand_latents(d, s, l, sequence, a.nk);
    ops_attention(d->ops, "attention", &a);
}

void latent_attention(struct decoder *d, const struct decoder_layer *l, struct decoder_pass pass,
                      const struct attention *a) {
    struct latent s = latent_of(d, l);
    size_t row = 0;
    project_latent(d, &s, l, decoder_pass_rows(pass));
    for (int i = 0; i < pass.n; i++) {
        place_latent(d, &s, l, &pass.v[i], row);
        row += (size_t)pass.v[i].n;
    }
    for (int i = 0; i < pass.n; i++)
        if (pass.v[i].n == 1)
            attend_one(d, &s, kept_of(d, &s, l, pass.v[i].sequence), a[i]);
        else
            attend_many(d, &s, l, pass.v[i].sequence, a[i]);
}
