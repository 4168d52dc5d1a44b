/* Latent attention of a decoding step (decode.cu), in three kernels with one or several blocks per head. The
 * cache has one row [c | r] per position, which all heads share (decoder/latent.h).
 *     begin   applies norm and rotation to the new row, stores it, rotates the query and applies U to it
 *     attend  scores and weighted sums of the rows, with the positions split over blocks
 *     end     adds the sums of the blocks and applies V */
#include "common.cuh"
#include "kernel_args.h"

enum { THREADS = 256, WARPS = 8, PER_LANE = LATENT_MOST_ROW / 32 };

/* Rotates x[dims] in shared memory. Each pair of numbers belongs to one thread; the caller synchronises. */
__device__ __forceinline__ void rotate(const latent_args &a, float *x, int position) {
    int half = a.rope / 2, step = a.interleaved ? 2 : 1, apart = a.interleaved ? 1 : half;
    for (int i = threadIdx.x; i < half; i += THREADS) {
        float *v = x + i * step, u = v[0], w = v[apart];
        float c = __ldg(a.cosine + (size_t)position * half + i),
              s = __ldg(a.sine + (size_t)position * half + i);
        v[0] = u * c - w * s;
        v[apart] = w * c + u * s;
    }
}

/* The block of head 0 stores the new row of the cache. `row`: shared memory. */
__device__ void store_row(const latent_args &a, float *row, float *room, int position) {
    float sum = 0;
    for (int i = threadIdx.x; i < a.rank + a.rope; i += THREADS) {
        float v = __ldcg(a.kept + i);
        row[i] = v;
        if (i < a.rank) sum += v * v;
    }
    float scale = rsqrtf(block_sum(sum, room) / a.rank + a.eps); /* its barriers also cover `row` */
    rotate(a, row + a.rank, position);
    __syncthreads();
    float *to = a.cache + (size_t)position * (a.rank + a.rope);
    for (int i = threadIdx.x; i < a.rank + a.rope; i += THREADS)
        to[i] = i < a.rank ? row[i] * scale * a.norm[i] : row[i];
}

template <class T> __device__ void latent_begin(const latent_args &a) {
    __shared__ float q[LATENT_MOST_QUERY], row[LATENT_MOST_ROW], room[33];
    int head = blockIdx.x, width = a.nope + a.rope;
    const T *u = (const T *)a.kv_b + (size_t)head * (a.nope + a.value) * a.rank;
    wait_for_previous();
    let_next_start();
    int position = __ldcg(&a.state->position);
    for (int i = threadIdx.x; i < width; i += THREADS) q[i] = __ldcg(a.q + (size_t)head * width + i);
    __syncthreads();
    rotate(a, q + a.nope, position);
    __syncthreads();
    float *to = a.absorbed + (size_t)head * (a.rank + a.rope);
    for (int c = threadIdx.x; c < a.rank + a.rope; c += THREADS) {
        float sum = c < a.rank ? 0.0f : q[a.nope + c - a.rank];
        if (c < a.rank)
#pragma unroll 16
            for (int i = 0; i < a.nope; i++) sum = fmaf(q[i], to_float(u[(size_t)i * a.rank + c]), sum);
        to[c] = sum;
    }
    if (head == 0) store_row(a, row, room, position);
}

/* Blocks [splits][heads]. A warp takes one position at a time, its lanes share the numbers of the row. */
KERNEL __launch_bounds__(THREADS) latent_attend(const __grid_constant__ latent_args a) {
    __shared__ float sums[WARPS][LATENT_MOST_ROW], tops[WARPS], totals[WARPS];
    int head = blockIdx.x % a.heads, split = blockIdx.x / a.heads, lane = threadIdx.x % 32,
        warp = threadIdx.x / 32;
    int width = a.rank + a.rope;
    wait_for_previous();
    let_next_start();
    int n = __ldcg(&a.state->position) + 1;
    int first = (int)((long)split * n / a.splits), end = (int)((long)(split + 1) * n / a.splits);
    float q[PER_LANE], o[PER_LANE], top = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        q[i] = lane + i * 32 < width ? __ldcg(a.absorbed + (size_t)head * width + lane + i * 32) * a.scale
                                     : 0.0f;
        o[i] = 0;
    }
    for (int key = first + warp; key < end; key += WARPS) {
        const float *row = a.cache + (size_t)key * width;
        float v[PER_LANE], d = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) v[i] = lane + i * 32 < width ? __ldcg(row + lane + i * 32) : 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) d = fmaf(q[i], v[i], d);
        d = warp_sum(d);
        float most = fmaxf(top, d), keep = __expf(top - most), w = __expf(d - most);
        top = most;
        total = total * keep + w;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) o[i] = fmaf(w, v[i], o[i] * keep);
    }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + i * 32 < a.rank) sums[warp][lane + i * 32] = o[i];
    if (lane == 0) {
        tops[warp] = top;
        totals[warp] = total;
    }
    __syncthreads();
    float most = -INFINITY, all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, tops[w]);
    float base = most == -INFINITY ? 0.0f : most;
    float *to = a.sums + (size_t)(split * a.heads + head) * (a.rank + 2);
    for (int c = threadIdx.x; c < a.rank; c += THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += __expf(tops[w] - base) * sums[w][c];
        to[c] = sum;
    }
    if (threadIdx.x) return;
#pragma unroll
    for (int w = 0; w < WARPS; w++) all += __expf(tops[w] - base) * totals[w];
    to[a.rank] = most;
    to[a.rank + 1] = all;
}

/* Blocks [heads][LATENT_END_BLOCKS]: the blocks of a head divide its rows of V. */
template <class T> __device__ void latent_end(const latent_args &a) {
    __shared__ float sum[LATENT_MOST_ROW], factor[LATENT_MOST_SPLITS];
    int head = blockIdx.x / LATENT_END_BLOCKS, part = blockIdx.x % LATENT_END_BLOCKS, lane = threadIdx.x % 32;
    const T *v = (const T *)a.kv_b + ((size_t)head * (a.nope + a.value) + a.nope) * a.rank;
    wait_for_previous();
    let_next_start();
    if (threadIdx.x == 0) {
        float most = -INFINITY, total = 0;
        for (int s = 0; s < a.splits; s++) {
            const float *from = a.sums + (size_t)(s * a.heads + head) * (a.rank + 2) + a.rank;
            float top = fmaxf(most, __ldcg(from)), base = top == -INFINITY ? 0.0f : top;
            total = total * __expf(most - base) + __ldcg(from + 1) * __expf(__ldcg(from) - base);
            most = top;
        }
        for (int s = 0; s < a.splits; s++)
            factor[s] =
                __expf(__ldcg(a.sums + (size_t)(s * a.heads + head) * (a.rank + 2) + a.rank) - most) / total;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < a.rank; c += THREADS) {
        float all = 0;
        for (int s = 0; s < a.splits; s++)
            all = fmaf(factor[s], __ldcg(a.sums + (size_t)(s * a.heads + head) * (a.rank + 2) + c), all);
        sum[c] = all;
    }
    __syncthreads();
    for (int r = part * WARPS + threadIdx.x / 32; r < a.value; r += LATENT_END_BLOCKS * WARPS) {
        float d = 0;
#pragma unroll 8
        for (int c = lane; c < a.rank; c += 32) d = fmaf(to_float(v[(size_t)r * a.rank + c]), sum[c], d);
        d = warp_sum(d);
        if (lane == 0) a.parts[(size_t)head * (a.value + 4) + r] = d;
    }
}
#define LATENT(name, T)                                                                            \
    KERNEL __launch_bounds__(THREADS) latent_begin_##name(const __grid_constant__ latent_args a) { \
        latent_begin<T>(a);                                                                        \
    }                                                                                              \
    KERNEL __launch_bounds__(THREADS) latent_end_##name(const __grid_constant__ latent_args a) {   \
        latent_end<T>(a);                                                                          \
    }
LATENT(f32, float)
LATENT(bf16, bf16)
LATENT(f16, __half)
