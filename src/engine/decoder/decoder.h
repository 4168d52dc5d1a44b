/* The text decoder: Llama and its kin, with experts or without, plain heads or DeepSeek's latent attention.
 *
 *     x = embedding of the token, or a row of an image
 *     layer:  x += o(attention(rms(x)))          q, k turned by position; k, v kept in the cache
 *             x += down(silu(gate(h)) up(h))     h = rms(x); or the experts of moe.h
 *     logits = head(rms(x))
 *
 *     struct decoder *d = decoder_open(&model->text, weights, max_context, &err);   -- asks for its tensors
 *     ...weights_finish()...
 *     decoder_embed(d, ops, ids, n, x);
 *     decoder_forward(d, ops, x, n, position, logits);
 * Buffers are allocated at open; a forward pass allocates nothing of its own. */
#ifndef ENGINE_DECODER_DECODER_H
#define ENGINE_DECODER_DECODER_H

#include <stdint.h>

#include "base/err.h"
#include "engine/decoder/moe.h"
#include "engine/ops/ops.h"
#include "engine/decoder/rope.h"
#include "engine/weights/weights.h"
#include "llm/model.h"

enum { DECODER_CHUNK = 512 }; /* tokens of a prompt that go through the layers together */

struct decoder_layer {
    const float *norm1, *norm2;   /* [hidden] */
    struct linear q, k, v, o;     /* [heads*dim, hidden], [kv*dim, hidden] twice, [hidden, heads*v_dim] */
    const float *q_norm, *k_norm; /* [dim]: Qwen3; NULL */
    /* Latent attention: q = q_b rms(q_a h), or q above; (c, r) = kv_a h; k, v = kv_b rms(c), r turned */
    struct linear q_a, q_b, kv_a, kv_b;
    const float *q_a_norm, *kv_a_norm;
    struct expert mlp; /* dense layers */
    struct moe moe;    /* moe.n 0: dense */
    float *keys;       /* [kv_heads][max_context][dim_k]; of latent attention [max_context][rank + rope] */
    float *values;     /* [kv_heads][max_context][dim_v]; of latent attention NULL */
    int window;
};

struct decoder {
    const struct llm_text *c; /* borrowed */
    int hidden, heads, kv_heads, dim_k, dim_v, layers, vocab, max_context;
    struct matrix embed; /* [vocab, hidden] */
    struct linear head;  /* [vocab, hidden] */
    const float *norm;
    struct decoder_layer *layer;
    struct rope rope;
    float score_scale;
    /* scratch for DECODER_CHUNK rows */
    float *h, *q, *k, *v, *mixed, *gate, *up, *latent, *moe_scratch;
    struct moe_choice *choices;
    int *order;
    /* latent attention: keys and values of the layer that many tokens go through, and what one token needs */
    float *wide_keys, *wide_values; /* [heads][max_context][dim_k], [..][dim_v] */
    float *absorbed, *sums;         /* [heads][rank + rope], [heads][rank] */
};

struct decoder *decoder_open(const struct llm_text *c, struct weights *w, int max_context, struct err *err);
void decoder_close(struct decoder *d); /* NULL: nothing */

void decoder_embed(struct decoder *d, struct ops *o, const uint32_t *ids, int n, float *x); /* x[n, hidden] */
/* Rows x[n, hidden] at positions position .. position + n - 1, n <= DECODER_CHUNK; x is overwritten with the
 * last layer's output. logits[vocab] of the last row; NULL: not wanted. */
void decoder_forward(struct decoder *d, struct ops *o, float *x, int n, int position, float *logits);
/* The first half of a layer alone: x += o(attention(rms(x))), with the cache. */
void decoder_attention(struct decoder *d, struct ops *o, const struct decoder_layer *l, float *x, int n,
                       int position);

#endif
