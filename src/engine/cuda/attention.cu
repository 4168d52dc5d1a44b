/* Attention over many keys: softmax(scale q k^T + bias) v.
 * attention_*: float arithmetic, any sizes; a warp, or eight, per query and head.
 * flash_*: tensor cores for heads of 64 or 128 numbers, bf16; scores exist only in registers. */
#include "common.cuh"
#include "kernel_args.h"

enum { MOST_PER_LANE = 32 }; /* dim_v up to 1024 */

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

/* Keys of a block of 32 are the lanes; then the numbers of a value are. Shared memory: per warp q[dim_k] and
 * bias[2 side]; with eight warps per query also the sums of each, [8][dim_v + 2]. */
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
    if (lane == 0) mine[a.dim_v] = most, mine[a.dim_v + 1] = sum;
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
KERNEL attention_f32(const __grid_constant__ attention_args a) { attention<float>(a); }
KERNEL attention_bf16(const __grid_constant__ attention_args a) { attention<bf16>(a); }

/* ---- SAM's bias of 64 queries of a head: out[batch][head][query][2][side]. Both tables are in shared memory, with rows
 * of an odd number of words, so that lanes that read different rows have no bank conflicts. */
KERNEL rel_bias(const float *q, long q_row, long q_batch, int heads, int dim, int n, int side, const float *rel_h,
                const float *rel_w, float *out) {
    extern __shared__ float rel_memory[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = 2 * side - 1, stride = dim + 1, head = blockIdx.y;
    float *tables = rel_memory, *own = rel_memory + 2 * rows * stride + warp * dim;
    for (int i = threadIdx.x; i < 2 * rows * dim; i += blockDim.x) {
        int r = i / dim, d = i - r * dim;
        tables[r * stride + d] = r < rows ? rel_h[i] : rel_w[i - rows * dim];
    }
    __syncthreads();
    for (int query = blockIdx.x * 64 + warp; query < min(n, (int)blockIdx.x * 64 + 64); query += 8) {
        const float *row = q + blockIdx.z * q_batch + query * q_row + head * dim;
        float *to = out + (((size_t)blockIdx.z * heads + head) * n + query) * 2 * side;
        __syncwarp();
        for (int d = lane; d < dim; d += 32) own[d] = row[d];
        __syncwarp();
        for (int i = lane; i < 2 * side; i += 32) {
            int at = i < side ? query / side - i : query % side - (i - side);
            const float *t = tables + ((i < side ? 0 : rows) + at + side - 1) * stride;
            float s = 0;
            for (int d = 0; d < dim; d++) s = fmaf(own[d], t[d], s);
            to[i] = s;
        }
    }
}

/* ---- tensor cores */
enum { QUERIES = 64, KEYS = 64 };

__device__ __forceinline__ unsigned smem(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void async16(unsigned to, const void *from, bool inside) {
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void ldsm(unsigned a, unsigned (&r)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a));
}
__device__ __forceinline__ void ldsm_t(unsigned a, unsigned (&r)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a));
}
__device__ __forceinline__ void mma16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Two floats as bf16: `lo` in the lower half. */
__device__ __forceinline__ unsigned pack(float lo, float hi) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
/* Piece of 16 bytes of a row of D numbers; exchanged by the row number against bank conflicts. */
template <int D> __device__ __forceinline__ unsigned row_at(unsigned base, int row, int piece) {
    return base + row * D * 2 + ((piece ^ (row & 7)) << 4);
}
/* 64 rows of D numbers by 128 threads; rows from `rows` on become zeros. */
template <int D>
__device__ __forceinline__ void copy_rows64(unsigned base, const bf16 *from, long ld, int first, int rows) {
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        int p = threadIdx.x + i * 128, row = p / (D / 8), piece = p % (D / 8);
        bool inside = first + row < rows;
        async16(row_at<D>(base, row, piece), inside ? from + (first + row) * ld + piece * 8 : from, inside);
    }
}

template <int D> __device__ void flash(const flash_args &a) {
    extern __shared__ __align__(1024) unsigned char flash_memory[];
    constexpr unsigned TILE = 64 * D * 2;
    const unsigned sq = smem(flash_memory), sk = sq + TILE, sv = sk + 2 * TILE;
    float *bias = (float *)(flash_memory + 5 * TILE); /* [64][2 side] */
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, q0 = blockIdx.x * QUERIES, head = blockIdx.y;
    const bf16 *q = (const bf16 *)a.q + blockIdx.z * a.q_batch + head * a.q_head;
    const bf16 *k = (const bf16 *)a.k + blockIdx.z * a.k_batch + head / a.group * a.k_head;
    const bf16 *v = (const bf16 *)a.v + blockIdx.z * a.v_batch + head / a.group * a.v_head;
    int end = a.base >= 0 ? min(a.nk, a.base + q0 + QUERIES) : a.nk;
    int start = a.base >= 0 && a.window ? max(0, a.base + q0 - a.window + 1) / KEYS * KEYS : 0;
    int tiles = (end - start + KEYS - 1) / KEYS;
    auto copy = [&](int t) {
        if (t < tiles) {
            copy_rows64<D>(sk + t % 2 * TILE, k, a.k_row, start + t * KEYS, a.nk);
            copy_rows64<D>(sv + t % 2 * TILE, v, a.v_row, start + t * KEYS, a.nk);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    copy_rows64<D>(sq, q, a.q_row, q0, a.nq);
    copy(0);
    if (a.bias) {
        const float *from = a.bias + (((size_t)blockIdx.z * a.heads + head) * a.nq + q0) * 2 * a.side;
        int n = min(QUERIES, a.nq - q0) * 2 * a.side;
        for (int i = threadIdx.x; i < n; i += 128) bias[i] = from[i];
    }
    float o[D / 8][4] = {}, most[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 };
    unsigned fq[D / 16][4];
    int row = warp * 16 + lane / 4; /* and row + 8 */
    const float log2e = 1.4426950408889634f;
    for (int t = 0; t < tiles; t++) {
        copy(t + 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (t == 0)
#pragma unroll
            for (int i = 0; i < D / 16; i++) ldsm(row_at<D>(sq, warp * 16 + lane % 16, i * 2 + lane / 16), fq[i]);
        unsigned kt = sk + t % 2 * TILE, vt = sv + t % 2 * TILE;
        float s[8][4] = {};
#pragma unroll
        for (int i = 0; i < D / 16; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned b[4];
                ldsm(row_at<D>(kt, j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2), b);
                mma16(s[j * 2], fq[i], b[0], b[1]);
                mma16(s[j * 2 + 1], fq[i], b[2], b[3]);
            }
        int key0 = start + t * KEYS;
        bool edge = key0 + KEYS > a.nk ||
                    (a.base >= 0 && (key0 + KEYS > a.base + q0 + 1 ||
                                     (a.window && key0 <= a.base + q0 + QUERIES - a.window)));
        float top[2] = { most[0], most[1] };
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int r = row + e / 2 * 8, key = key0 + j * 8 + lane % 4 * 2 + e % 2;
                float x = s[j][e] * a.scale;
                if (a.bias) {
                    const float *b = bias + r * 2 * a.side;
                    int ky = min(key, a.nk - 1) / a.side, kx = min(key, a.nk - 1) - ky * a.side;
                    x += b[ky] + b[a.side + kx];
                }
                if (edge) {
                    int last = a.base >= 0 ? a.base + q0 + r : a.nk - 1;
                    if (key >= a.nk || key > last || (a.base >= 0 && a.window && key <= last - a.window))
                        x = -INFINITY;
                }
                s[j][e] = x * log2e;
                top[e / 2] = fmaxf(top[e / 2], s[j][e]);
            }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            top[e] = fmaxf(top[e], __shfl_xor_sync(~0u, top[e], 1));
            top[e] = fmaxf(top[e], __shfl_xor_sync(~0u, top[e], 2));
            float base = top[e] == -INFINITY ? 0.0f : top[e], keep = exp2f(most[e] - base);
            most[e] = top[e];
            sum[e] *= keep;
#pragma unroll
            for (int j = 0; j < D / 8; j++) o[j][e * 2] *= keep, o[j][e * 2 + 1] *= keep;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int c = 0; c < 2; c++) sum[e] += s[j][e * 2 + c] = exp2f(s[j][e * 2 + c] - base);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) { /* 16 keys at a time */
            unsigned p[4] = { pack(s[j * 2][0], s[j * 2][1]), pack(s[j * 2][2], s[j * 2][3]),
                              pack(s[j * 2 + 1][0], s[j * 2 + 1][1]), pack(s[j * 2 + 1][2], s[j * 2 + 1][3]) };
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                unsigned b[4];
                ldsm_t(row_at<D>(vt, j * 16 + lane % 16, d * 2 + lane / 16), b);
                mma16(o[d * 2], p, b[0], b[1]);
                mma16(o[d * 2 + 1], p, b[2], b[3]);
            }
        }
        __syncthreads(); /* the next copy overwrites this stage */
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        sum[e] += __shfl_xor_sync(~0u, sum[e], 1);
        sum[e] += __shfl_xor_sync(~0u, sum[e], 2);
        int r = q0 + row + e * 8;
        if (r >= a.nq) continue;
        float *out = a.out + blockIdx.z * a.out_batch + head * a.out_head + r * a.out_row, inverse = 1.0f / sum[e];
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            *(float2 *)(out + j * 8 + lane % 4 * 2) = make_float2(o[j][e * 2] * inverse, o[j][e * 2 + 1] * inverse);
    }
}
KERNEL __launch_bounds__(128) flash_64(const __grid_constant__ flash_args a) { flash<64>(a); }
KERNEL __launch_bounds__(128) flash_128(const __grid_constant__ flash_args a) { flash<128>(a); }
