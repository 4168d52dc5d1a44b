/* The state of decoding steps of several sequences (decode_batch.c). */
#ifndef ENGINE_CUDA_DECODE_BATCH_H
#define ENGINE_CUDA_DECODE_BATCH_H

#include "engine/cuda/internal.h"
#include "engine/cuda/pool.h"
#include "engine/ops/decode.h"

struct cuda_batch {
    struct cuda *c;
    int n, vocab, max_context, taken;
    cu_exec exec;
    struct cuda_pool memory;
    struct decode_state *state;       /* [n] */
    int *tokens;                      /* [n] */
    float *x, *qkv, *logits, *router; /* router: [n][experts]; qkv: [qkv_parts][n][heads and keys] */
    float *parts;                     /* [nparts][n][hidden]: the next norm adds them to x */
    int qkv_parts, nparts;
    struct {
        struct step_part *v;
        size_t n, cap;
    } named;                 /* the parts of a step, in order */
    size_t first_launch;     /* kernels launched before the step was captured */
    size_t launches;         /* kernels of a step */
    size_t first_stamp;      /* index of the first time of this request (stamps.c) */
    void *h, *mixed, *inner; /* bf16 */
    /* Latent attention. q_latent: bf16 [n][rank of the queries], and q: [parts][n][heads][dim], both NULL if
     * the queries are in qkv. absorbed, sums: struct latent_args. */
    void *q_latent;
    float *q, *absorbed, *sums;
    struct tensor *scratch[SCRATCH_COUNT]; /* of the routed experts; the graph has their addresses */
    int *out, *out_device;                 /* host memory [max_context][BATCH_MOST]; -1: not ready yet */
};

#endif
