/* Attention: softmax(scale q k^T + bias) v, in float arithmetic, for value vectors of up to 1024 numbers.
 * One or eight warps compute one query of one head. flash.cu has the kernels for tensor cores. */
#include "common.cuh"
#include "kernel_args.h"

enum { MOST_PER_LANE = 32 }; /* numbers per lane: a value vector has at most 32 * 32 numbers */

__device__ __forceinline__ float dot_any(const float *q, const float *k, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s = fmaf(q[i], k[i], s);
    return s;
}
__device__ __forceinline__ float dot_any(const float *q, const bf16 *k, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s = fmaf(q[i], to_float(k[i]), s);
    return s;
}

/* A warp handles 32 keys at a time: each lane computes the score of one key, then adds its columns of the 32
 * weighted values. Shared memory holds q[dim_k] and bias[2 side] per warp. With eight warps per query it also
 * holds the sums, the maximum and the sum of weights of each warp: [8][dim_v + 2]. */
template <class T> __device__ void attention(const attention_args &a) {
    extern __shared__ float memory[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = a.dim_k + 2 * a.side;
    int item = a.warps == 8 ? blockIdx.x : blockIdx.x * 8 + warp, part = a.warps == 8 ? warp : 0;
    int query = item / a.heads, head = item % a.heads;
    bool idle = query >= a.nq;
    if (idle) query = 0;
    const float *q = a.q + blockIdx.y * a.q_batch + query * a.q_row + head * a.dim_k;
    const T *k = (const T *)a.k + blockIdx.y * a.k_batch + head / a.group * a.k_head;
    const T *v = (const T *)a.v + blockIdx.y * a.v_batch + head / a.group * a.v_head;
    float *sq = memory + warp * own, *bias = sq + a.dim_k;
    for (int i = lane; i < a.dim_k; i += 32) sq[i] = q[i];
    __syncwarp();
    if (a.rel_h)
        for (int i = lane; i < 2 * a.side; i += 32) {
            int at = i < a.side ? query / a.side - i : query % a.side - (i - a.side);
            const float *row = (i < a.side ? a.rel_h : a.rel_w) + (long)(at + a.side - 1) * a.dim_k;
            bias[i] = dot_any(sq, row, a.dim_k);
        }
    __syncwarp();
    int first = a.base >= 0 && a.window ? max(0, a.base + query - a.window + 1) : 0;
    int end = a.base >= 0 ? min(a.nk, a.base + query + 1) : a.nk;
    float most = -INFINITY, sum = 0, o[MOST_PER_LANE];
#pragma unroll
    for (int i = 0; i < MOST_PER_LANE; i++) o[i] = 0;
    for (int at = first + part * 32; at < end; at += a.warps * 32) {
        int j = at + lane;
        float s = -INFINITY;
        if (j < end) {
            s = a.scale * dot_any(sq, k + j * a.k_row, a.dim_k);
            if (a.rel_h) s += bias[j / a.side] + bias[a.side + j % a.side];
        }
        float top = fmaxf(most, warp_max(s));
        float keep = top == -INFINITY ? 1.0f : expf(most - top), p = s == -INFINITY ? 0.0f : expf(s - top);
        most = top;
        sum = sum * keep + warp_sum(p);
#pragma unroll
        for (int i = 0; i < MOST_PER_LANE; i++) o[i] *= keep;
        for (int l = 0; l < min(32, end - at); l++) {
            float w = __shfl_sync(~0u, p, l);
            const T *row = v + (at + l) * a.v_row;
#pragma unroll
            for (int i = 0; i < MOST_PER_LANE; i++)
                if (lane + i * 32 < a.dim_v) o[i] = fmaf(w, to_float(row[lane + i * 32]), o[i]);
        }
    }
    float *out = a.out + blockIdx.y * a.out_batch + query * a.out_row + head * a.dim_v;
    if (a.warps == 1) {
#pragma unroll
        for (int i = 0; i < MOST_PER_LANE; i++)
            if (!idle && lane + i * 32 < a.dim_v) out[lane + i * 32] = o[i] / sum;
        return;
    }
    float *all = memory + 8 * own, *mine = all + warp * (a.dim_v + 2);
#pragma unroll
    for (int i = 0; i < MOST_PER_LANE; i++)
        if (lane + i * 32 < a.dim_v) mine[lane + i * 32] = o[i];
    if (lane == 0) {
        mine[a.dim_v] = most;
        mine[a.dim_v + 1] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < a.dim_v; i += blockDim.x) {
        float top = -INFINITY, total = 0, value = 0;
        for (int w = 0; w < 8; w++) top = fmaxf(top, all[w * (a.dim_v + 2) + a.dim_v]);
        for (int w = 0; w < 8; w++) {
            const float *r = all + w * (a.dim_v + 2);
            float c = r[a.dim_v] == -INFINITY ? 0.0f : expf(r[a.dim_v] - top);
            value += c * r[i];
            total += c * r[a.dim_v + 1];
        }
        out[i] = value / total;
    }
}
KERNEL attention_f32(const __grid_constant__ attention_args a) {
    begin_kernel();
    attention<float>(a);
}
KERNEL attention_bf16(const __grid_constant__ attention_args a) {
    begin_kernel();
    attention<bf16>(a);
}
