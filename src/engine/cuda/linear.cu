/* Linear layers for few rows, the experts of one token, and the products of latent attention, in float
 * arithmetic. */
#include "common.cuh"
#include "kernel_args.h"

enum { FEW_ROWS = 8 };

/* The numbers of row `row` of a matrix: group j of eight numbers, multiplied by its scale if T is f8. */
template <class T> struct matrix_row {
    const T *w;
    __device__ __forceinline__ matrix_row(const void *matrix, const scale_table &, int row, int k)
        : w((const T *)matrix + (size_t)row * k) {}
    __device__ __forceinline__ void group(int j, float *f) const {
        unpack8<T>(load8<T>(w + (size_t)j * 8), f);
    }
};
template <> struct matrix_row<f8> {
    const f8 *w;
    const float *scale;
    int shift;
    __device__ __forceinline__ matrix_row(const void *matrix, const scale_table &s, int row, int k)
        : w((const f8 *)matrix + (size_t)row * k), scale(scale_row(s, row)), shift(s.shift) {}
    __device__ __forceinline__ void group(int j, float *f) const {
        unpack8<f8>(load8<f8>(w + (size_t)j * 8), f);
        float by = __ldg(scale + (j >> shift));
#pragma unroll
        for (int e = 0; e < 8; e++) f[e] *= by;
    }
};
__device__ __forceinline__ float to_float(f8 v) { return f8_pair(v.bits).x; }

template <class T>
__device__ __forceinline__ void dot_rows(const matrix_row<T> &row, const float *x, long ldx, int m, int k,
                                         int lane, float *sum) {
    if (k % 8 == 0) {
        for (int j = lane * 8; j < k; j += 256) {
            float f[8];
            row.group(j / 8, f);
#pragma unroll
            for (int i = 0; i < FEW_ROWS; i++)
                if (i < m) {
                    const float *r = x + i * ldx + j;
#pragma unroll
                    for (int e = 0; e < 8; e++) sum[i] = fmaf(f[e], r[e], sum[i]);
                }
        }
    } else {
        for (int j = lane; j < k; j += 32) { /* not f8 */
            float f = to_float(row.w[j]);
#pragma unroll
            for (int i = 0; i < FEW_ROWS; i++)
                if (i < m) sum[i] = fmaf(f, x[i * ldx + j], sum[i]);
        }
    }
}

template <class T>
__device__ void few_rows(const T *w, const scale_table &scale, const float *bias, const float *x, long ldx,
                         int m, int n, int k, float *y, long ldy, int accumulate) {
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    float sum[FEW_ROWS] = { 0 };
    if (row >= n) return;
    dot_rows(matrix_row<T>(w, scale, row, k), x, ldx, m, k, lane, sum);
#pragma unroll
    for (int i = 0; i < FEW_ROWS; i++)
        if (i < m) {
            float v = warp_sum(sum[i]) + (bias ? bias[row] : 0.0f);
            if (lane == 0) y[i * ldy + row] = accumulate ? y[i * ldy + row] + v : v;
        }
}
enum { ONE_ROW_LOADS = 4 }; /* loads in flight per row of weights */
/* Multiplies a single row x, which is copied to shared memory. A warp handles two rows of weights at a time.
 * k is a multiple of 8. */
template <class T>
__device__ void one_row(const T *w, const float *bias, const float *x, int n, int k, float *y,
                        int accumulate) {
    extern __shared__ __align__(16) float row_memory[];
    int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (int i = threadIdx.x; i < k; i += blockDim.x) row_memory[i] = x[i];
    __syncthreads();
    for (int r = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 2; r < n; r += warps * 2) {
        const T *a = w + (size_t)r * k, *b = r + 1 < n ? a + k : a;
        float sum[2] = { 0, 0 };
        for (int j0 = lane * 8; j0 < k; j0 += 256 * ONE_ROW_LOADS) {
            eight<T> va[ONE_ROW_LOADS], vb[ONE_ROW_LOADS];
#pragma unroll
            for (int i = 0; i < ONE_ROW_LOADS; i++) {
                int j = j0 + i * 256;
                va[i] = j < k ? load8<T>(a + j) : zero8<T>();
                vb[i] = j < k ? load8<T>(b + j) : zero8<T>();
            }
#pragma unroll
            for (int i = 0; i < ONE_ROW_LOADS; i++) {
                int j = min(j0 + i * 256, k - 8);
                float4 lo = *(const float4 *)(row_memory + j), hi = *(const float4 *)(row_memory + j + 4);
                sum[0] = dot8<T>(va[i], lo, hi, sum[0]);
                sum[1] = dot8<T>(vb[i], lo, hi, sum[1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = warp_sum(sum[i]);
            if (lane || r + i >= n) continue;
            v += bias ? bias[r + i] : 0.0f;
            y[r + i] = accumulate ? y[r + i] + v : v;
        }
    }
}
#define ONE(name, T)                                                                                      \
    KERNEL __launch_bounds__(256, 2) one_row_##name(const T *w, const float *bias, const float *x, int n, \
                                                    int k, float *y, int accumulate) {                    \
        begin_kernel();                                                                                   \
        one_row(w, bias, x, n, k, y, accumulate);                                                         \
    }
ONE(f32, float)
ONE(bf16, bf16)
ONE(f16, __half)

#define FEW(name, T)                                                                                 \
    KERNEL few_rows_##name(const T *w, const __grid_constant__ scale_table scale, const float *bias, \
                           const float *x, long ldx, int m, int n, int k, float *y, long ldy,        \
                           int accumulate) {                                                         \
        begin_kernel();                                                                              \
        few_rows(w, scale, bias, x, ldx, m, n, k, y, ldy, accumulate);                               \
    }
FEW(f32, float)
FEW(bf16, bf16)
FEW(f16, __half)
FEW(f8_e4m3, f8)

/* ---- experts of one token; the list of experts is a kernel parameter */
__device__ __forceinline__ scale_table scale_of(const scale_table &layout, const float *v) {
    scale_table s = layout;
    s.v = v;
    return s;
}
template <class T> __device__ void experts_up(const expert_list &e, const float *x, int k, float *h) {
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, at = 0;
    if (row >= e.first[e.n]) return;
    while (row >= e.first[at + 1]) at++;
    int r = row - e.first[at];
    float gate[FEW_ROWS] = { 0 }, up[FEW_ROWS] = { 0 };
    dot_rows(matrix_row<T>(e.gate[at], scale_of(e.up_scale, e.gate_scales[at]), r, k), x, 0, 1, k, lane,
             gate);
    dot_rows(matrix_row<T>(e.up[at], scale_of(e.up_scale, e.up_scales[at]), r, k), x, 0, 1, k, lane, up);
    float g = warp_sum(gate[0]), u = warp_sum(up[0]);
    if (lane == 0) h[row] = silu(g) * u;
}
template <class T> __device__ void experts_down(const expert_list &e, const float *h, int n, float *y) {
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    float total = 0;
    if (row >= n) return;
    for (int i = 0; i < e.n; i++) {
        float sum[FEW_ROWS] = { 0 };
        int k = e.first[i + 1] - e.first[i];
        scale_table scale = scale_of(e.down_scale, e.down_scales[i]);
        if (scale.shift < 31) scale.across = (k + (8 << scale.shift) - 1) >> (scale.shift + 3);
        dot_rows(matrix_row<T>(e.down[i], scale, row, k), h + e.first[i], 0, 1, k, lane, sum);
        total += e.weight[i] * warp_sum(sum[0]);
    }
    if (lane == 0) y[row] += total;
}
#define EXPERTS(name, T)                                                                                 \
    KERNEL experts_up_##name(const __grid_constant__ expert_list e, const float *x, int k, float *h) {   \
        begin_kernel();                                                                                  \
        experts_up<T>(e, x, k, h);                                                                       \
    }                                                                                                    \
    KERNEL experts_down_##name(const __grid_constant__ expert_list e, const float *h, int n, float *y) { \
        begin_kernel();                                                                                  \
        experts_down<T>(e, h, n, y);                                                                     \
    }
EXPERTS(f32, float)
EXPERTS(bf16, bf16)
EXPERTS(f16, __half)
EXPERTS(f8_e4m3, f8)

/* ---- latent attention: kv_b is [heads][nope + value][rank]; one block per head */
template <class T>
__device__ void latent_query(const T *kv_b, int nope, int value, int rank, int rope, const float *q,
                             float *out) {
    int head = blockIdx.x;
    const T *u = kv_b + (size_t)head * (nope + value) * rank;
    q += head * (nope + rope);
    out += head * (rank + rope);
    for (int c = threadIdx.x; c < rank + rope; c += blockDim.x) {
        float sum = c < rank ? 0.0f : q[nope + c - rank];
        if (c < rank)
            for (int i = 0; i < nope; i++) sum = fmaf(q[i], to_float(u[(size_t)i * rank + c]), sum);
        out[c] = sum;
    }
}
template <class T>
__device__ void latent_value(const T *kv_b, int nope, int value, int rank, const float *sums, float *out) {
    int head = blockIdx.x, lane = threadIdx.x % 32;
    const T *v = kv_b + ((size_t)head * (nope + value) + nope) * rank;
    for (int i = threadIdx.x / 32; i < value; i += blockDim.x / 32) {
        float sum[FEW_ROWS] = { 0 };
        dot_rows(matrix_row<T>(v, scale_table(), i, rank), sums + head * rank, 0, 1, rank, lane, sum);
        float s = warp_sum(sum[0]);
        if (lane == 0) out[head * value + i] = s;
    }
}
#define LATENT(name, T)                                                                                \
    KERNEL latent_query_##name(const T *kv_b, int nope, int value, int rank, int rope, const float *q, \
                               float *out) {                                                           \
        begin_kernel();                                                                                \
        latent_query(kv_b, nope, value, rank, rope, q, out);                                           \
    }                                                                                                  \
    KERNEL latent_value_##name(const T *kv_b, int nope, int value, int rank, const float *sums,        \
                               float *out) {                                                           \
        begin_kernel();                                                                                \
        latent_value(kv_b, nope, value, rank, sums, out);                                              \
    }
LATENT(f32, float)
LATENT(bf16, bf16)
LATENT(f16, __half)

/* Copies rows[n][heads][nope + value] and the rotated part of kept[n][rank + rope] into keys and values. */
KERNEL latent_expand(const float *rows, const float *kept, float *keys, float *values, int n, int heads,
                     int nope, int value, int rank, int rope, int max_context, int position) {
    begin_kernel();
    int width = nope + rope + value;
    size_t all = (size_t)n * heads * width;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all;
         i += (size_t)gridDim.x * blockDim.x) {
        int c = (int)(i % width), h = (int)(i / width % heads), r = (int)(i / width / heads);
        const float *row = rows + ((size_t)r * heads + h) * (nope + value);
        size_t at = (size_t)h * max_context + position + r;
        if (c < nope)
            keys[at * (nope + rope) + c] = row[c];
        else if (c < nope + rope)
            keys[at * (nope + rope) + c] = kept[(size_t)r * (rank + rope) + rank + c - nope];
        else
            values[at * value + c - nope - rope] = row[c - rope];
    }
}
