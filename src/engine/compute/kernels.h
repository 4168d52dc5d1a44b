/* The inner loops, one table per instruction set, all compiled from kernels_impl.h. src/engine/cpu builds
 * the operators from them. */
#ifndef ENGINE_COMPUTE_KERNELS_H
#define ENGINE_COMPUTE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/compute/dtype.h"

/* Activations rounded to 8 bits: x = d q, with one d per 32 numbers and one sum of q per 16 numbers. Rows
 * are `stride` numbers apart. */
struct q8_rows {
    int8_t *q;
    float *d;
    int16_t *sums;
    ptrdiff_t stride; /* a multiple of 32 */
};

struct kernels {
    const char *name; /* "avx2" */
    int mr, nr;       /* a tile is mr x nr */

    /* C[i][j] = sum_k A[i][k] B[k][j] for i < mr, j < nr (added to C if `add`). A[i][k] is at a[i*a_row +
     * k*a_col]. Rows of A from `rows` on repeat row 0, so C must have space for all mr rows. */
    void (*tile)(int k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, int rows, const float *b,
                 ptrdiff_t ldb, float *c, ptrdiff_t ldc, bool add);
    /* Like tile(), for pairs of bf16 numbers, which are the 32-bit words of a and b: C[i][j] = sum_k
     * A[i][k].low B[k][j].low + A[i][k].high B[k][j].high for i < mr_bf16, j < nr. a may be read up to row
     * mr_bf16 - 1, and C must have space for mr_bf16 rows. */
    void (*tile_bf16)(int k, const uint32_t *a, ptrdiff_t a_row, int rows, const uint32_t *b, ptrdiff_t ldb,
                      float *c, ptrdiff_t ldc, bool add);
    void (*tile_bf16_end)(void); /* call after the last tile of a thread's task; NULL: no call needed */
    int mr_bf16;
    bool fast_bf16; /* true: tile_bf16 uses bf16 instructions; false: it is slow and only for tests */
    void (*narrow)(uint16_t *out, const float *in, size_t n); /* to bf16: nearest, ties to even */
    /* y[j*ldy + r] = W[r] . x[j] for r < rows, j < m (m <= 4); W row-major [rows][cols] of type t. */
    void (*dots)(const void *w, enum dtype t, int rows, int cols, const float *x, ptrdiff_t ldx, int m,
                 float *y, ptrdiff_t ldy);
    /* Rounds one row of n numbers to 8 bits; n is a multiple of 32. */
    void (*quantize)(struct q8_rows *out, const float *x, int n);
    /* Like dots(), for block types, in integer arithmetic. */
    void (*qdots)(const void *w, enum dtype t, int rows, int cols, const struct q8_rows *x, int m, float *y,
                  ptrdiff_t ldy);
    void (*widen)(float *out, const void *in, enum dtype t, size_t n); /* block types: whole blocks */
    /* Transposes in[nr rows][n] into out[n][nr]; rows from `rows` on become 0. */
    void (*pack)(float *out, const float *in, ptrdiff_t ld, int rows, int n);
    /* y[i][f] (+)= t[f][i] + bias[f] for i < rows, f < n; t is [n][nr], bias may be NULL. */
    void (*unpack)(float *y, ptrdiff_t ldy, const float *t, int rows, int n, const float *bias, bool add);

    void (*add)(float *y, const float *x, size_t n);           /* y += x */
    void (*axpy)(float *y, float a, const float *x, size_t n); /* y += a x */
    void (*silu_mul)(float *g, const float *u, size_t n);      /* g = g sigmoid(g) u */
    void (*gelu_mul)(float *g, const float *u, size_t n);      /* g = gelu(g) u */
    void (*gelu_tanh_mul)(float *g, const float *u, size_t n); /* the same, gelu with tanh */
    void (*clamped_mul)(float *g, const float *u, size_t n);   /* ops.h: OPS_GLU_CLAMPED */
    void (*softcap)(float *x, float cap, size_t n);            /* x = cap tanh(x / cap) */
    void (*gelu)(float *x, size_t n);                          /* x (1 + erf(x/sqrt 2)) / 2 */
    void (*quick_gelu)(float *x, size_t n);                    /* x sigmoid(1.702 x) */
    void (*rmsnorm)(float *y, const float *x, const float *w, int n, float eps);
    void (*layernorm)(float *y, const float *x, const float *w, const float *b, int n, float eps);
    void (*softmax)(float *x, size_t n); /* in place */

    /* Writes the numbers first .. first + n - 1 of the synthetic stream (a, b), times scale (weights.h).
     * Not for f16. */
    void (*generate)(void *out, enum dtype t, uint32_t a, uint32_t b, float scale, uint32_t first, size_t n);

    /* s[key][lane] *= scale, plus row_bias[key / side][lane] + col_bias[key % side][lane] if they are not
     * NULL. */
    void (*scale_bias)(float *s, int keys, float scale, const float *row_bias, const float *col_bias,
                       int side);
    /* s[key][lane] = exp(s - max over keys); inv[lane] = 1 / sum over keys. */
    void (*softmax_lanes)(float *s, int keys, float *inv);
    /* Softmax in blocks of keys. max[lane] becomes the maximum of itself and the new scores, factor[lane] =
     * exp(old max - new max), s[key][lane] = exp(s - new max), total[lane] = total factor + sum of s. */
    void (*softmax_block)(float *s, int keys, float *max, float *total, float *factor);
    void (*scale_lanes)(float *x, int rows, const float *factor); /* x[row][lane] *= factor[lane] */
    /* y[i*ldy + d] += sum_j s[i*lds + j] V[j][d] for i < m (m <= 4), d < dim, j < n. V: floats, bf16 or f16,
     * rows of v_row numbers. */
    void (*values)(float *y, ptrdiff_t ldy, const float *s, ptrdiff_t lds, int m, const void *v, enum dtype t,
                   ptrdiff_t v_row, int n, int dim);
};

/* Returns the table named by $INFERPROF_ISA (portable, avx2, avx512, avx512vnni, avx512bf16, amx) if this
 * machine supports it, otherwise the preferred one for this machine. */
const struct kernels *kernels_pick(void);
/* Returns NULL if this build or this machine does not support the instruction set. */
const struct kernels *kernels_named(const char *name);

extern const struct kernels kernels_portable;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512, kernels_avx512vnni, kernels_avx512bf16, kernels_amx;
#endif

#endif
