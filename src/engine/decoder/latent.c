#include "engine/decoder/latent.h"

#include <string.h>

#include "base/util.h"

/* Norms inside latent attention have an eps of their own. */
static const float latent_eps = 1e-6f;

struct sizes {
    int rank, rope, nope, row; /* row: of the cache, rank + rope */
};
static struct sizes sizes_of(const struct decoder *d) {
    const struct llm_text *c = d->c;
    int rank = (int)c->kv_lora_rank, rope = (int)c->qk_rope_dim;
    return (struct sizes){ rank, rope, (int)c->qk_nope_dim, rank + rope };
}

/* Queries into d->q, latents into the cache. */
static void project(struct decoder *d, struct ops *o, const struct decoder_layer *l, int n, int position) {
    struct sizes s = sizes_of(d);
    int q_rank = (int)d->c->q_lora_rank, q_width = d->heads * d->dim_k;
    float *kept = l->keys + (ptrdiff_t)position * s.row;
    if (q_rank) {
        ops_linear(o, "q_a_proj", &l->q_a, d->h, d->hidden, n, d->latent, q_rank, OPS_SET);
        ops_rmsnorm(o, "q_a_norm", d->latent, q_rank, l->q_a_norm, n, q_rank, latent_eps, d->latent, q_rank);
        ops_linear(o, "q_b_proj", &l->q_b, d->latent, q_rank, n, d->q, q_width, OPS_SET);
    } else {
        ops_linear(o, "q_proj", &l->q, d->h, d->hidden, n, d->q, q_width, OPS_SET);
    }
    ops_linear(o, "kv_a_proj", &l->kv_a, d->h, d->hidden, n, kept, s.row, OPS_SET);
    ops_rmsnorm(o, "kv_a_norm", kept, s.row, l->kv_a_norm, n, s.rank, latent_eps, kept, s.row);
    for (int i = 0; i < n; i++) {
        rope_apply(&d->rope, d->q + (ptrdiff_t)i * q_width, d->heads, d->dim_k, s.nope, position + i);
        rope_apply(&d->rope, kept + (ptrdiff_t)i * s.row, 1, s.rope, s.rank, position + i);
    }
}

/* ---- many tokens: keys and values of every position so far, one layer's at a time */

/* One position's [heads][nope + v] and its turned part into every head's key and value. */
static void spread(struct decoder *d, const struct sizes *s, const float *wide, const float *turned,
                   int position) {
    size_t nope = (size_t)s->nope, v = (size_t)d->dim_v;
    for (int h = 0; h < d->heads; h++, wide += nope + v) {
        size_t at = (size_t)h * (size_t)d->max_context + (size_t)position;
        float *key = d->wide_keys + at * (size_t)d->dim_k;
        memcpy(key, wide, nope * sizeof(float));
        memcpy(key + nope, turned, (size_t)s->rope * sizeof(float));
        memcpy(d->wide_values + at * v, wide + nope, v * sizeof(float));
    }
}

static void widen(struct decoder *d, struct ops *o, const struct decoder_layer *l, int positions) {
    struct sizes s = sizes_of(d);
    int wide = d->heads * (s.nope + d->dim_v);
    for (int at = 0; at < positions; at += DECODER_CHUNK) {
        int rows = MIN(DECODER_CHUNK, positions - at);
        const float *kept = l->keys + (ptrdiff_t)at * s.row;
        ops_linear(o, "kv_b_proj", &l->kv_b, kept, s.row, rows, d->v, wide, OPS_SET);
        for (int i = 0; i < rows; i++)
            spread(d, &s, d->v + (ptrdiff_t)i * wide, kept + (ptrdiff_t)i * s.row + s.rank, at + i);
    }
}

/* ---- one token */
struct absorb_job {
    struct ops *o;
    const struct decoder *d;
    const struct linear *kv_b; /* [heads][nope + v][rank] */
    struct sizes s;
};

static const char *head_rows(const struct absorb_job *j, int head, int first) {
    const struct matrix *w = &j->kv_b->w;
    size_t row = (size_t)head * (size_t)(j->s.nope + j->d->dim_v) + (size_t)first;
    return (const char *)w->data + row * (size_t)j->s.rank * dtype_bytes(w->type);
}

/* absorbed[head] = [U^T q_nope | q_rope] */
static void query_task(void *job, int head, int worker) {
    const struct absorb_job *j = job;
    const struct kernels *k = j->o->k;
    enum dtype type = j->kv_b->w.type;
    size_t rank = (size_t)j->s.rank;
    const float *q = j->d->q + head * j->d->dim_k;
    const char *u = head_rows(j, head, 0);
    float *out = j->d->absorbed + head * j->s.row, *row = ops_own(j->o, worker);
    memset(out, 0, rank * sizeof *out);
    for (int i = 0; i < j->s.nope; i++, u += rank * dtype_bytes(type)) {
        k->widen(row, u, type, rank);
        k->axpy(out, q[i], row, rank);
    }
    memcpy(out + rank, q + j->s.nope, (size_t)j->s.rope * sizeof *out);
}

/* mixed[head] = V sum */
static void value_task(void *job, int head, int worker) {
    const struct absorb_job *j = job;
    const struct decoder *d = j->d;
    (void)worker;
    j->o->k->dots(head_rows(j, head, j->s.nope), j->kv_b->w.type, d->dim_v, j->s.rank,
                  d->sums + head * j->s.rank, 0, 1, d->mixed + head * d->dim_v, 0);
}

/* A part of kv_b, `rows` a head, for one token. */
static void run_absorb(struct absorb_job *j, threads_fn *task, int rows) {
    struct ops *o = j->o;
    double cells = (double)j->d->heads * rows * j->s.rank;
    uint64_t start = record_op_start(o->rec);
    ops_reserve_own(o, (size_t)j->s.rank);
    threads_run(o->threads, task, j, j->d->heads);
    if (start)
        record_op_end(o->rec, start,
                      &(struct record_op){ .name = "kv_b_proj",
                                           .kernel = "gemv",
                                           .type = j->kv_b->w.type,
                                           .m = 1,
                                           .n = (long)j->d->heads * rows,
                                           .k = j->s.rank,
                                           .flops = 2 * cells,
                                           .bytes = cells * (double)dtype_bytes(j->kv_b->w.type) });
}

static void attend_one(struct decoder *d, struct ops *o, const struct decoder_layer *l, struct attention a) {
    struct absorb_job j = { o, d, &l->kv_b, sizes_of(d) };
    run_absorb(&j, query_task, j.s.nope);
    a.kv_heads = 1;
    a.dim_k = j.s.row;
    a.dim_v = j.s.rank;
    a.q = d->absorbed;
    a.k = a.v = l->keys;
    a.v_row = j.s.row;
    a.k_head = a.v_head = 0;
    a.out = d->sums;
    ops_attention(o, "attention", &a);
    run_absorb(&j, value_task, d->dim_v);
}

void latent_attention(struct decoder *d, struct ops *o, const struct decoder_layer *l,
                      const struct attention *of) {
    struct attention a = *of;
    a.kv_heads = d->heads;
    a.k = d->wide_keys;
    a.v = d->wide_values;
    project(d, o, l, a.nq, a.base);
    if (a.nq == 1) {
        attend_one(d, o, l, a);
        return;
    }
    widen(d, o, l, a.nk);
    ops_attention(o, "attention", &a);
}
