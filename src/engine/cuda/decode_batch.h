/* Decoding steps of several sequences: what decode_batch.c and decode_batch_tma.c share. */
#ifndef ENGINE_CUDA_DECODE_BATCH_H
#define ENGINE_CUDA_DECODE_BATCH_H

#include "engine/cuda/internal.h"
#include "engine/ops/decode.h"

struct cuda_batch {
    struct cuda *c;
    const struct batch_products *products;
    int n, vocab, max_context, taken;
    cu_exec exec;
    struct {
        cu_ptr *v;
        size_t n, cap;
    } memory;
    struct decode_state *state;            /* [n] */
    int *tokens;                           /* [n] */
    float *x, *qkv, *logits, *router;      /* router: [n][experts]; qkv: [qkv_parts][n][heads and keys] */
    float *parts;                          /* [nparts][n][hidden]: the next norm adds them to x */
    int qkv_parts, nparts;                 /* of decode_batch_tma.c; otherwise 1 and 0 */
    void *h, *mixed, *inner;               /* bf16 */
    struct tensor *scratch[SCRATCH_COUNT]; /* of the routed experts; the graph has their addresses */
    int *out, *out_device;                 /* host memory [max_context][BATCH_MOST]; -1: not ready yet */
};

/* The norms and products of a step. */
struct batch_products {
    int parts; /* results of rows() can be the sum of so many parts */
    /* h = norm(x) */
    void (*norm)(struct cuda_batch *b, const struct decode_plan *p, const struct tensor *w);
    /* y = x [l[0]; l[1]; ...]^T + bias. y has room for `parts` parts. Returns their number. */
    int (*rows)(struct cuda_batch *b, const void *x, const struct linear *const *l, int n, int parts,
                float *y);
    /* b->x += x l^T + bias, at the latest in the next norm() */
    void (*add)(struct cuda_batch *b, const void *x, const struct linear *l);
    /* inner = silu(h l[0]^T) (h l[1]^T) */
    void (*pair)(struct cuda_batch *b, const struct linear *const *l);
};
/* NULL: $INFERPROF_CUDA_BATCH is not tma, or the kernels could not be loaded. */
const struct batch_products *cuda_batch_tma(struct cuda *c);

#endif
