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
template <int N>
__device__ __forceinline__ void add_bias(const gemm_out &o, float *acc, int column) {
    if (!o.bias) return;
    bool even = o.n % 2 == 0;
#pragma unroll
    for (int j = 0; j < N; j++) {
        int c = column + j * 8;
        float2 b = make_float2(0, 0);
        if (even && c < o.n)
            b = __ldg((const float2 *)(o.bias + c));
        else if (c < o.n)
            b = make_float2(o.bias[c], c + 1 < o.n ? o.bias[c + 1] : 0.0f);
        acc[j * 4] += b.x, acc[j * 4 + 1] += b.y, acc[j * 4 + 2] += b.x, acc[j * 4 + 3] += b.y;
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
template <int N>
__device__ __forceinline__ void store_sums(const gemm_out &o, float *acc, int row, int end, int column) {
    bool even = o.n % 8 == 0 && o.ldy % 8 == 0;
    [[maybe_unused]] int q = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int r = row + e * 8;
        long to = r < end ? output_row(o, r) : -1;
        if (!even) {
#pragma unroll
            for (int j = 0; j < N; j++) {
                if (to < 0) continue;
                store_one(o, to, column + j * 8, acc[j * 4 + e * 2]);
                store_one(o, to, column + j * 8 + 1, acc[j * 4 + e * 2 + 1]);
            }
        } else if (o.type == 0) {
            float *y = (float *)o.y + (size_t)max(to, 0l) * o.ldy;
            if (o.accumulate) { /* all loads before the first store: they cannot overtake it */
#pragma unroll
                for (int j = 0; j < N; j++) {
                    if (to < 0 || column + j * 8 >= o.n) continue;
                    float2 old = *(const float2 *)(y + column + j * 8);
                    acc[j * 4 + e * 2] += old.x, acc[j * 4 + e * 2 + 1] += old.y;
                }
            }
#pragma unroll
            for (int j = 0; j < N; j++)
                if (to >= 0 && column + j * 8 < o.n)
                    *(float2 *)(y + column + j * 8) = make_float2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
        } else {
            unsigned short *y = (unsigned short *)o.y + (size_t)max(to, 0l) * o.ldy;
            if constexpr (N % 4) { /* too few tiles to exchange */
#pragma unroll
                for (int j = 0; j < N; j++)
                    if (to >= 0 && column + j * 8 < o.n)
                        *(unsigned *)(y + column + j * 8) = pack2(acc[j * 4 + e * 2], acc[j * 4 + e * 2 + 1]);
            } else {
#pragma unroll
                for (int j = 0; j < N; j += 4) {
                    unsigned u[4];
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        u[i] = pack2(acc[(j + i) * 4 + e * 2], acc[(j + i) * 4 + e * 2 + 1]);
                    exchange4(u);
                    int c = column - q * 2 + (j + q) * 8;
                    if (to >= 0 && c < o.n) *(uint4 *)(y + c) = make_uint4(u[0], u[1], u[2], u[3]);
                }
            }
        }
    }
}

#endif
