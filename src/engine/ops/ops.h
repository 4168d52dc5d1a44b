/* The operators of the models on the CPU: the reference that another backend will be held to. Activations are
 * float, row-major, one row a token (or pixel); weights are read in the type they have. Every operator
 * divides its work among the threads and records itself.
 *     struct ops *o = ops_open(threads);
 *     ops_linear(o, "q_proj", &layer->q, x, hidden, m, q, width, OPS_SET);
 *     ops_close(o);
 * Scratch memory grows to what the largest call needs and then stays: repeating a call allocates nothing. */
#ifndef ENGINE_OPS_OPS_H
#define ENGINE_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/compute/dtype.h"
#include "engine/compute/kernels.h"
#include "engine/record/record.h"
#include "engine/compute/threads.h"

struct ops {
    const struct kernels *k;
    struct threads *threads;
    struct recorder *rec;                        /* borrowed; NULL: nothing is recorded */
    void (*on_step)(void *context, double part); /* see ops_step(); NULL: nobody watches */
    void *step_context;
    struct ops_buffer {
        float *v;
        size_t cap;
    } shared, unfolded, *own; /* own: one a thread */
};

struct ops *ops_open(int threads); /* 0: one a usable core */
void ops_close(struct ops *o);
float *ops_shared(struct ops *o, size_t floats);    /* valid until the next operator */
float *ops_unfold(struct ops *o, size_t floats);    /* valid until the next convolution */
void ops_reserve_own(struct ops *o, size_t floats); /* before the parallel part */
static inline float *ops_own(struct ops *o, int worker) { return o->own[worker].v; }

/* Says that a layer is done: `part` of the view or piece of the prompt that is being worked on, 0..1. */
static inline void ops_step(struct ops *o, double part) {
    if (o->on_step) o->on_step(o->step_context, part);
}

struct matrix {
    const void *data; /* [rows][cols] */
    enum dtype type;
    int rows, cols;
};
struct linear {
    struct matrix w;   /* [out, in] */
    const float *bias; /* [out]; NULL: none */
};

enum ops_store { OPS_SET, OPS_ADD };

/* y[m, out] = (y +) x[m, in] W^T + bias. Rows of x and y are ldx and ldy apart. */
void ops_linear(struct ops *o, const char *name, const struct linear *l, const float *x, ptrdiff_t ldx, int m,
                float *y, ptrdiff_t ldy, enum ops_store store);

/* y = rms(x) w: x / sqrt(mean(x^2) + eps) over rows of n; rows ldx and ldy apart. */
void ops_rmsnorm(struct ops *o, const char *name, const float *x, ptrdiff_t ldx, const float *w, int rows,
                 int n, float eps, float *y, ptrdiff_t ldy);
/* y = (x - mean) / sqrt(var + eps) w + b, biased variance. */
void ops_layernorm(struct ops *o, const char *name, const float *x, const float *w, const float *b, int rows,
                   int n, float eps, float *y);

enum ops_activation { OPS_GELU, OPS_QUICK_GELU };
void ops_activate(struct ops *o, enum ops_activation a, float *x, size_t n);
void ops_silu_mul(struct ops *o, float *gate, const float *up, size_t n); /* gate = silu(gate) up */
void ops_add(struct ops *o, const char *name, float *y, const float *x, size_t n);

/* Rows of a table of any type as floats: out[i] = table[ids[i]]. */
void ops_embed(struct ops *o, const struct matrix *table, const uint32_t *ids, int n, float *out);

/* x[h, w, c_in] (*) w[c_out, c_in * side * side] -> y[h', w', c_out]: a square kernel with zero padding,
 * channels last. Weights come as the files have them, [c_out, c_in, side, side]. */
struct conv {
    struct matrix w;   /* [c_out, c_in * side * side] */
    const float *bias; /* NULL: none */
    int c_in, side, stride, pad;
};
void ops_conv(struct ops *o, const char *name, const struct conv *c, const float *x, int h, int w, float *y);

/* Attention of one sequence: out[i, head] = softmax_j(scale q[i, head] . k[j, group(head)] + bias) v[j, ...].
 * k and v lie as [kv_heads][..][dim], heads k_head and v_head floats apart. */
struct attention {
    int heads, kv_heads, dim_k, dim_v;
    float scale;
    const float *q; /* [nq][q_row], head h at h * dim_k */
    ptrdiff_t q_row;
    const float *k, *v;
    ptrdiff_t k_head, v_head;
    ptrdiff_t v_row; /* floats from a value to the next; 0: dim_v */
    float *out;      /* [nq][out_row], head h at h * dim_v */
    ptrdiff_t out_row;
    int nq, nk;
    int room;   /* keys there may be in later calls: scratch is made for these at once; 0: nk */
    int base;   /* query i sees keys 0 .. base + i; -1: all */
    int window; /* and of those only the last `window`; 0: all */
    /* Bias of SAM: keys and queries on a side x side grid, q . rel_h[qy - ky + side - 1] and the same for w.
     * Tables are [2 side - 1][dim_k], shared by the heads; NULL: no bias. */
    const float *rel_h, *rel_w;
    int side;
};
void ops_attention(struct ops *o, const char *name, const struct attention *a);

/* The same for `batch` independent sequences of qkv rows [batch * n][3][heads][dim] (ViT order), each n
 * tokens long; out is [batch * n][heads * dim]. */
struct qkv_attention {
    const float *qkv;
    float *out;
    int batch, n, heads, dim;
    const float *rel_h, *rel_w; /* as above; n = side * side */
    int side;
};
void ops_qkv_attention(struct ops *o, const char *name, const struct qkv_attention *a);

/* Feed-forward of one token by several experts at once: y (+)= sum_e weight_e down_e(silu(gate_e x) up_e x).
 * What decoding spends its time in: two passes over the weights, nothing else. */
struct expert {
    struct linear gate, up, down;
};
void ops_experts_one(struct ops *o, const char *name, const struct expert *const *experts,
                     const float *weights, int n, const float *x, float *y);
/* Several linear layers on the same single row: one pass, no waiting in between. */
struct linear_out {
    const struct linear *l;
    float *y;
};
void ops_linear_many(struct ops *o, const char *name, const struct linear_out *v, int n, const float *x);

#endif
