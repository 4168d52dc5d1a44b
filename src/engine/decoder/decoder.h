/* The text decoder: Llama and related models, with or without experts, with plain heads or DeepSeek's
 * latent attention.
 *
 *     x = embedding of the token, or a row of an image
 *     layer:  x += o(attention(rms(x)))          q, k rotated by position; k, v stored in the cache
 *             x += down(glu(gate(h), up(h)))      h = rms(x); or the experts of moe.h
 *     logits = head(rms(x))
 *
 *     struct decoder *d = decoder_open(&model->text, ops, weights, max_context, DTYPE_BF16, &err);
 *     ...weights_finish()...
 *     decoder_embed(d, ids, n, x);
 *     decoder_forward(d, x, n, position, logits);
 * decoder_forward_rows() processes rows of several sequences in one pass. Memory is allocated by
 * decoder_open() and decoder_reserve(); a forward pass allocates no tensors. */
#ifndef ENGINE_DECODER_DECODER_H
#define ENGINE_DECODER_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/decoder/moe.h"
#include "engine/decoder/rope.h"
#include "engine/ops/ops.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

enum { DECODER_CHUNK = 512 }; /* most rows per forward pass, unless ops_backend.rows is set */

struct decoder_layer {
    struct tensor *norm1, *norm2; /* [hidden]: before attention and before the feed-forward block */
    /* [hidden]: norms after attention and after the feed-forward block (gemma2, gemma3); else NULL */
    struct tensor *post1, *post2;
    struct linear q, k, v, o;       /* [heads*dim, hidden], [kv*dim, hidden] twice, [hidden, heads*v_dim] */
    struct tensor *q_norm, *k_norm; /* [dim]; NULL: no norms of queries and keys */
    struct tensor *sinks;           /* [heads], gpt_oss; else NULL */
    /* Latent attention: q = q_b rms(q_a h), or `q` above; (c, r) = kv_a h; k, v = kv_b rms(c); r is
     * rotated. */
    struct linear q_a, q_b, kv_a, kv_b;
    struct tensor *q_a_norm, *kv_a_norm;
    struct expert mlp; /* dense layers */
    struct moe moe;    /* moe.routing.n 0: dense */
    /* The cache: keys are [sequences][kv_heads][positions][dim_k], values [..][dim_v]. With latent
     * attention, keys are [sequences][positions][rank + rope], and values are NULL. */
    struct tensor *keys, *values;
    int window;
    bool local_rope; /* rotates by decoder.local_rope */
};

struct decoder {
    const struct llm_text *c; /* borrowed */
    struct ops *ops;          /* borrowed */
    int hidden, heads, kv_heads, dim_k, dim_v, layers, vocab, max_context;
    int sequences, positions; /* size of the cache; positions <= max_context */
    enum dtype kv;            /* type of the cache: f32, or bf16 if the backend supports it */
    unsigned reserved;        /* number of times that the cache was allocated */
    struct matrix embed;      /* [vocab, hidden] */
    struct linear head;       /* [vocab, hidden] */
    struct tensor *norm;
    struct decoder_layer *layer;
    struct rope_table rope;
    struct rope_table local_rope; /* for sliding-window layers (gemma3); dims 0: these layers use `rope` */
    struct rope_filled rope_filled;
    float score_scale;
    int chunk; /* most rows per forward pass */
    /* Scratch for `chunk` rows. */
    struct tensor *h, *q, *k, *v, *mixed, *gate, *up, *latent;
    /* Scratch of 16-bit numbers, for passes with more rows than the backend's few_rows. NULL: not
     * supported. */
    struct {
        struct tensor *h, *q, *mixed, *gate;
    } narrow;
    struct moe_scratch moe;
    /* [layers][ROUTING_MAX_EXPERTS]: used since decoder_experts_reset(); NULL: no layer has experts */
    bool *expert_used;
    /* true: the routing ran on the device since the reset, so expert_used is incomplete */
    bool experts_unknown;
    /* Latent attention: keys and values of one layer for many tokens; `absorbed` and `sums` are scratch
     * for one token. */
    struct tensor *wide_keys, *wide_values; /* [heads][max_context][dim_k], [..][dim_v] */
    struct attention *attentions;           /* [chunk]: scratch for the sequences of a pass */
    struct tensor *absorbed, *sums;         /* [heads][rank + rope], [heads][rank] */
};

/* -1: not supported by the decoder or the backend */
int decoder_check(const struct llm_text *c, const struct ops *o, struct err *err);
/* kv: requested type of the cache */
struct decoder *decoder_open(const struct llm_text *c, struct ops *o, struct weights *w, int max_context,
                             enum dtype kv, struct err *err);
void decoder_close(struct decoder *d); /* accepts NULL */

/* Allocates a cache for `sequences` sequences of up to `positions` positions; its contents are lost. Does
 * nothing if the cache already has this shape. decoder_open() reserves one sequence of max_context
 * positions. Returns -1 if the memory of this machine is too small. */
int decoder_reserve(struct decoder *d, int sequences, int positions, struct err *err);
void decoder_release(struct decoder *d); /* frees the cache */

/* n consecutive rows of one sequence, from `position` on. */
struct decoder_rows {
    int sequence, position, n;
    bool logits; /* compute the logits of the last row */
    int length;  /* length of the whole text in tokens, including later segments; 0: position + n */
    /* rotary positions of a text with images; NULL: position, position + 1, ... */
    const struct rope_places *places;
};
struct decoder_pass {
    const struct decoder_rows *v;
    int n; /* segments */
};

void decoder_embed(struct decoder *d, const uint32_t *ids, int n, struct view x); /* x[n, hidden] */
/* Runs all layers on x[rows of all segments, hidden], at most d->chunk rows, and changes x. The rows with
 * logits become the output of the last layer. logits[i, vocab] belongs to the i-th segment with `logits`
 * set. */
void decoder_forward_rows(struct decoder *d, struct view x, struct decoder_pass pass, struct view logits);
/* Processes n rows of sequence 0. Computes logits[vocab] of the last row unless `logits` is NULL. For
 * tests. */
void decoder_forward(struct decoder *d, struct view x, int n, int position, struct tensor *logits);
/* Starts counting the experts that tokens are routed to. */
void decoder_experts_reset(struct decoder *d);
/* Returns the number of different experts used since the reset, as a mean over the routed layers. Returns
 * NaN if the model has no experts or the routing ran on the device. */
double decoder_experts_used(const struct decoder *d);
/* The first half of a layer: x += o(attention(rms(x))), using the cache. */
void decoder_attention(struct decoder *d, const struct decoder_layer *l, struct view x,
                       struct decoder_pass pass);

/* Fits the table of rotary positions to the length and the images of a segment's text. Call before the
 * segment is rotated. */
void decoder_fit_rope(struct decoder *d, const struct decoder_rows *r);

/* Marks the computed rotary positions as outdated. Call before each request, because its images may
 * differ. */
static inline void decoder_forget_places(struct decoder *d) { d->rope_filled.n = 0; }

static inline int decoder_pass_rows(struct decoder_pass pass) {
    int rows = 0;
    for (int i = 0; i < pass.n; i++) rows += pass.v[i].n;
    return rows;
}

#endif
