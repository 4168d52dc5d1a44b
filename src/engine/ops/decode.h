/* Decoding steps that run entirely on the device. The device chooses the next token, and the host only reads
 * the tokens. A backend may support them (ops_backend.decode); otherwise the engine calls one operator after
 * the other.
 *     void *d = calls->open(context, &plan);                     -- NULL: not supported for this model
 *     calls->begin(d, &start);
 *     calls->submit(d, 4);                                       -- steps ahead of the host
 *     while (calls->take(d, &token)) calls->submit(d, 1);        -- one take per step; false: failure */
#ifndef ENGINE_OPS_DECODE_H
#define ENGINE_OPS_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/ops/ops.h"

struct decode_layer {
    struct tensor *norm1, *norm2;
    struct linear q, k, v, o;
    struct tensor *q_norm, *k_norm; /* NULL: none */
    struct tensor *keys, *values;
    /* Latent attention, instead of k and v. q_a.w.rows 0: the queries are q x. `keys` is its cache. */
    struct linear q_a, q_b, kv_a, kv_b;
    struct tensor *q_a_norm, *kv_a_norm;
    int window;
    struct expert mlp;            /* dense layers */
    const struct linear *router;  /* NULL: a dense layer */
    const struct expert *experts; /* [routing.n] */
    struct expert shared;         /* shared.gate.w.rows 0: none */
    struct routing routing;
};

/* How steps run: one graph per step, one kernel for many steps, or chosen by the backend. */
enum decode_path { DECODE_AUTO, DECODE_GRAPH, DECODE_PERSISTENT };

/* The tensors, `rope`, routers and experts must exist as long as the steps; the array `layer` is copied. */
struct decode_plan {
    enum decode_path path;
    int hidden, heads, kv_heads, dim, vocab, max_context;
    /* sizes of latent attention (struct latent in ops.h); rank 0: the model has none */
    int nope, value, rank, rotated;
    float latent_eps; /* of the norms inside latent attention */
    float eps, scale; /* eps of the norms, scale of the scores */
    struct matrix embed;
    struct linear head;
    struct tensor *norm;
    const struct rope_table *rope;
    const struct decode_layer *layer; /* [layers] */
    int layers;
};

/* The tokens of a sequence so far. The cache contains the keys and values of all tokens except the last
 * one. */
struct decode_start {
    const uint32_t *ids;
    int n;
    /* rule against repeated n-grams (sampling/ngram.h); no_repeat 0: off */
    int no_repeat, window, first; /* first: the first position to which the rule applies */
    const uint32_t *allow;
    int nallow;
};

enum { DECODE_MOST_ALLOWED = 4 };

/* Vectors of the last step, for tests. */
enum decode_vector { DECODE_QKV, DECODE_HIDDEN, DECODE_X, DECODE_LOGITS };

/* A part of a step that the device timed, in ns of clock_wall_ns(). */
struct decode_span {
    const char *name, *kernel;
    enum dtype type; /* of the weights, or of the cache in attention */
    uint64_t start_ns, end_ns;
};
enum { DECODE_MOST_SPANS = 512 }; /* per step */

struct ops_decode_calls {
    /* NULL: model not supported */
    void *(*open)(void *context, const struct decode_plan *plan);
    void (*close)(void *decode); /* accepts NULL */
    /* Optional: makes what the first request needs, which takes long, before the request is timed. */
    void (*prepare)(void *decode);
    void (*begin)(void *decode, const struct decode_start *start);
    /* steps to submit at once */
    int (*portion)(void *decode);
    void (*submit)(void *decode, int steps);
    /* Discards submitted steps that have not started yet, so that they do not delay the next request. Does
     * nothing if the backend cannot discard them. */
    void (*stop)(void *decode);
    /* Waits for the next token. Returns false if the device failed (ops_check). */
    bool (*take)(void *decode, uint32_t *token);
    /* Stores the parts of all steps whose tokens were taken, in order, in *spans, which the caller frees, and
     * returns their number. Parts whose times are unknown end at 0. All steps must have ended. The backend's
     * stamps must be on (ops_backend). */
    size_t (*spans)(void *decode, struct decode_span **spans);
    /* Reads the first n numbers of a vector after all steps have ended. */
    void (*read)(void *decode, enum decode_vector which, float *to, size_t n);
};

/* Decoding steps of n sequences, greedy, without the n-gram rule. The cache has the keys and values of all
 * tokens except the last one of each sequence. A sequence that has ended is decoded until the batch ends. */
struct ops_batch_calls {
    /* returns NULL if this model or this n is not supported */
    void *(*open)(void *context, const struct decode_plan *plan, int n);
    void (*close)(void *batch);
    /* tokens[n], positions[n]: the last token of each sequence, and its position */
    void (*begin)(void *batch, const uint32_t *tokens, const int *positions);
    void (*submit)(void *batch, int steps);
    /* Waits for the next token of every sequence. Returns false if the device failed (ops_check). */
    bool (*take)(void *batch, uint32_t *tokens);
    size_t (*spans)(void *batch, struct decode_span **spans); /* as in ops_decode_calls */
};

#endif
