/* What both matrix products do with their sums: bias, activation, the place and type of the output. */
#ifndef ENGINE_CUDA_GEMM_TAIL_CUH
#define ENGINE_CUDA_GEMM_TAIL_CUH

#include "fragments.cuh"
#include "kernel_args.h"

/* Row of y for row r of x; -1: none, because the row is outside of the grid. */
__device__ __forceinline__ long output_row(const gemm_out &o, int r) {
    if (!o.window) return r;
    int cells = o.padded * o.padded, view = r / cells, area = o.window * o.window, across = o.padded / o.window;
    int w = (r - view * cells) / area, c = r - view * cells - w * area;
    int y = w / across * o.window + c / o.window, x = w % across * o.window + c % o.window;
    return y < o.grid && x < o.grid ? ((long)view * o.grid + y) * o.grid + x : -1;
}

/* v Phi(v), with Phi(v) = 1 / (1 + 2^-p(v)) for an odd polynomial p: within 2.6e-5 of the exact gelu, below the rounding
 * of bf16. erff() would take longer than the product of a tile with 768 columns. */
__device__ __forceinline__ float gelu_of(float v) {
    float t = fminf(v * v, 64.0f);
    float p = v * fmaf(t, fmaf(t, -0.0010143193f, 0.1067759f), 2.3011213f);
    return __fdividef(v, 1.0f + exp2f(-p));
}
__device__ __forceinline__ float quick_gelu_of(float v) { return __fdividef(v, 1.0f + __expf(-1.702f * v)); }

/* Sums of a warp in the layout of mma and wgmma: acc[4 j + e] is row `row` + 8 (e / 2), column `column` + 8 j + e % 2.
 * N: tiles of eight columns; rows from `end` on are not stored. */
/* Whether all of these columns exist. Then loads need no conditions, and many of them can be in flight. */
template <int N> __device__ __forceinline__ bool is_full(const gemm_out &o, int column) {
    return column - threadIdx.x % 4 * 2 + N * 8 <= o.n && o.n % 8 == 0 && o.ldy % 8 == 0;
}

template <int N>
__device__ __forceinline__ void add_bias(const gemm_out &o, float *acc, int column) {
    if (!o.bias) return;
    if (is_full<N>(o, column)) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 b = __ldg((const float2 *)(o.bias + column + j * 8));
            acc[j * 4] += b.x, acc[j * 4 + 1] += b.y, acc[j * 4 + 2] += b.x, acc[j * 4 + 3] += b.y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        int c = column + j * 8;
        float a = c < o.n ? o.bias[c] : 0.0f, b = c + 1 < o.n ? o.bias[c + 1] : 0.0f;
        acc[j * 4] += a, acc[j * 4 + 1] += b, acc[j * 4 + 2] += a, acc[j * 4 + 3] += b;
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
/* y[to] (+)= the sums of row e of the tile, without conditions on columns. */
template <int N>
__device__ __forceinline__ void store_floats(const gemm_out &o, float *acc, int e, long to, int column) {
    float *y = (float *)o.y + (size_t)to * o.ldy + column;
    if (o.accumulate) { /* all loads before the first store: they cannot overtake it */
#pragma unroll
        for (int j = 0; j < N; j++) {
            float2 old = *(const float2 *)(y + j * 8);
            acc[j * 4 + e * 2] += old.x, acc[j * 4 + e * 2 + 1] += old.y;
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        *(float2 *)(y + j * 8) = make_float2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
}

/* The same as bf16, for all lanes of a warp; to -1: nothing is stored. */
template <int N>
__device__ __forceinline__ void store_narrow(const gemm_out &o, const float *acc, int e, long to, int column) {
    unsigned short *y = (unsigned short *)o.y + (size_t)max(to, 0l) * o.ldy;
    if constexpr (N % 4) { /* too few tiles to exchange */
#pragma unroll
        for (int j = 0; j < N; j++)
            if (to >= 0) *(unsigned *)(y + column + j * 8) = pack2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
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
