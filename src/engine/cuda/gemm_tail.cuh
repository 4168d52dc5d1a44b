/* The last step of the matrix products in gemm.cu and gemm_wgmma.cu: adds the bias, applies the activation,
 * and stores the result. */
#ifndef ENGINE_CUDA_GEMM_TAIL_CUH
#define ENGINE_CUDA_GEMM_TAIL_CUH

#include "fragments.cuh"
#include "kernel_args.h"

/* Returns the row of y for row r of x; -1 if the row is outside of the grid. */
__device__ __forceinline__ long output_row(const gemm_out &o, int r) {
    if (!o.window) return r;
    int cells = o.padded * o.padded, view = r / cells, area = o.window * o.window,
        across = o.padded / o.window;
    int w = (r - view * cells) / area, c = r - view * cells - w * area;
    int y = w / across * o.window + c / o.window, x = w % across * o.window + c % o.window;
    return y < o.grid && x < o.grid ? ((long)view * o.grid + y) * o.grid + x : -1;
}

/* Returns v Phi(v), with Phi(v) = 1 / (1 + 2^-p(v)) and an odd polynomial p. The error is below 2.6e-5,
 * less than the rounding of bf16. erff() would take longer than the product of a tile with k = 768. */
__device__ __forceinline__ float gelu_of(float v) {
    float t = fminf(v * v, 64.0f);
    float p = v * fmaf(t, fmaf(t, 0.0010143193f, -0.1067759f), -2.3011213f); /* -p(v) */
    return v * reciprocal(1.0f + exp2_short(p));
}
__device__ __forceinline__ float quick_gelu_of(float v) { /* v / (1 + e^(-1.702 v)) */
    return v * reciprocal(1.0f + exp2_short(-2.4554669f * v));
}

/* ---- the sums of a warp in the layout of mma and wgmma: acc[4 j + e] belongs to row `row` + 8 (e / 2) and
 * column `column` + 8 j + e % 2. N is the number of tiles of eight columns. Rows from `end` on are not
 * stored. */
/* Returns true if all columns of the warp exist and y is aligned. Loads then need no conditions, so many of
 * them can be in flight. */
template <int N> __device__ __forceinline__ bool is_full(const gemm_out &o, int column) {
    return column - threadIdx.x % 4 * 2 + N * 8 <= o.n && o.n % 8 == 0 && o.ldy % 8 == 0;
}

template <int N> __device__ __forceinline__ void add_bias(const gemm_out &o, float *acc, int column) {
    if (!o.bias) return;
    if (is_full<N>(o, column)) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 b = __ldg((const float2 *)(o.bias + column + j * 8));
            acc[j * 4] += b.x;
            acc[j * 4 + 1] += b.y;
            acc[j * 4 + 2] += b.x;
            acc[j * 4 + 3] += b.y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        int c = column + j * 8;
        float a = c < o.n ? o.bias[c] : 0.0f, b = c + 1 < o.n ? o.bias[c + 1] : 0.0f;
        acc[j * 4] += a;
        acc[j * 4 + 1] += b;
        acc[j * 4 + 2] += a;
        acc[j * 4 + 3] += b;
    }
}
template <int N> __device__ __forceinline__ void activate(const gemm_out &o, float *acc) {
    if (o.activation == ACTIVATE_GELU) {
#pragma unroll
        for (int i = 0; i < N * 4; i++) acc[i] = gelu_of(acc[i]);
    } else if (o.activation == ACTIVATE_QUICK_GELU) {
#pragma unroll
        for (int i = 0; i < N * 4; i++) acc[i] = quick_gelu_of(acc[i]);
    }
}
__device__ __forceinline__ void store_one(const gemm_out &o, long row, int c, float v) {
    if (c >= o.n) return;
    size_t at = (size_t)row * o.ldy + c;
    if (o.type == 0)
        ((float *)o.y)[at] = o.accumulate ? ((float *)o.y)[at] + v : v;
    else
        ((unsigned short *)o.y)[at] = (unsigned short)pack2(v, 0.0f);
}
/* Stores the sums of row `row` + 8 e in y[to], or adds them to y[to]. All columns must exist. */
template <int N>
__device__ __forceinline__ void store_floats(const gemm_out &o, float *acc, int e, long to, int column) {
    float *y = (float *)o.y + (size_t)to * o.ldy + column;
    /* All loads come before the first store, because the compiler does not move loads across stores. */
    if (o.accumulate) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 old = *(const float2 *)(y + j * 8);
            acc[j * 4 + e * 2] += old.x;
            acc[j * 4 + e * 2 + 1] += old.y;
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        *(float2 *)(y + j * 8) = make_float2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
}

/* Stores the sums as bf16. All lanes of a warp must call this function; it stores nothing if `to` is -1. */
template <int N>
__device__ __forceinline__ void store_narrow(const gemm_out &o, const float *acc, int e, long to,
                                             int column) {
    unsigned short *y = (unsigned short *)o.y + (size_t)max(to, 0l) * o.ldy;
    if constexpr (N % 4) { /* exchange4() needs a multiple of four tiles */
#pragma unroll
        for (int j = 0; j < N; j++)
            if (to >= 0)
                *(unsigned *)(y + column + j * 8) = pack2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
    } else {
        int q = threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            unsigned u[4];
#pragma unroll
            for (int i = 0; i < 4; i++) u[i] = pack2(acc[(j + i) * 4 + e * 2], acc[(j + i) * 4 + e * 2 + 1]);
            exchange4(u);
            if (to >= 0) *(uint4 *)(y + column - q * 2 + (j + q) * 8) = make_uint4(u[0], u[1], u[2], u[3]);
        }
    }
}

template <int N>
__device__ __forceinline__ void store_sums(const gemm_out &o, float *acc, int row, int end, int column) {
    bool full = is_full<N>(o, column);
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int r = row + e * 8;
        long to = r < end ? output_row(o, r) : -1;
        if (full && o.type != 0) {
            store_narrow<N>(o, acc, e, to, column);
        } else if (full) {
            if (to >= 0) store_floats<N>(o, acc, e, to, column);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) {
                if (to < 0) continue;
                store_one(o, to, column + j * 8, acc[j * 4 + e * 2]);
                store_one(o, to, column + j * 8 + 1, acc[j * 4 + e * 2 + 1]);
            }
        }
    }
}

#endif
