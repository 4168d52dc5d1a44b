/* Attention of a decoding step (decode.cu): applies norms and rotation to the new query and key, stores
 * key and value in the cache, then computes attention with the keys split over blocks. On Hopper, each of
 * eight blocks sends the other blocks a share of its sums, through their shared memory, and adds the shares
 * that it gets. The next kernel then reads an eighth of the sums. If there are only eight blocks per key
 * head, the result is complete, and the next kernel has nothing to add. */
#ifndef ENGINE_CUDA_DECODE_ATTENTION_CUH
#define ENGINE_CUDA_DECODE_ATTENTION_CUH

#include "common.cuh"
#include "kernel_args.h"

enum { THREADS = 256, WARPS = 8 };

#if __CUDA_ARCH__ >= 900
/* Stores v at address p of the block `rank` of the cluster. */
__device__ __forceinline__ void send(float *p, int rank, float v) {
    unsigned at = (unsigned)__cvta_generic_to_shared(p), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(v) : "memory");
}
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#else
__device__ __forceinline__ void send(float *, int, float) {}
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
#endif

/* In shared memory: the rotation of the new position, and the weights of the norms. */
template <int D> struct head_tables { float cosine[D / 2], sine[D / 2], q_norm[D], k_norm[D]; };

/* How kernels read a number of the new query, key or value: as it is, or in another way that the kernel
 * gives (decode_attention_parts.cu). */
struct read_whole {
    __device__ __forceinline__ float operator()(const float *p) const { return __ldcg(p); }
};

/* One warp applies the norm (if there is one), the rotation and `scale` to a head of D numbers. */
template <int D, class Read>
__device__ __forceinline__ void prepare_head(const decode_attention_args &a, const Read &read,
                                             const head_tables<D> &t, const float *from, const float *norm,
                                             float scale, float *to) {
    int lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < D; i += 32) {
        float v = read(from + i);
        sum += v * v;
        to[i] = norm ? v * norm[i] : v;
    }
    if (norm) scale *= rsqrtf(warp_sum(sum) / D + a.eps);
    __syncwarp();
    int half = a.dims / 2, step = a.interleaved ? 2 : 1, apart = a.interleaved ? 1 : half;
    for (int i = lane; i < half; i += 32) {
        float *v = to + i * step, x = v[0], y = v[apart], c = t.cosine[i], s = t.sine[i];
        v[0] = x * c - y * s;
        v[apart] = y * c + x * s;
    }
    __syncwarp();
    for (int i = lane; i < D; i += 32) to[i] *= scale;
}

template <class T, int D, int G, class Read>
__device__ void decode_attention(const decode_attention_args &a, const Read &read) {
    /* LANES: lanes per key. SUBS: keys that the block loads at once. BATCH: loads in flight. With several
     * query heads it is small, because registers of this kernel delay the start of the next one's blocks. */
    constexpr int LANES = D / 8, SUBS = THREADS / LANES, BATCH = G == 1 ? 4 : 2;
    constexpr int CLUSTER = 8, SHARE = D / CLUSTER; /* columns that a block of a cluster adds */
    __shared__ __align__(16) float q[G][D];
    __shared__ __align__(16) float fresh[2][D]; /* the new key and value */
    __shared__ float sums[WARPS][G][D], tops[WARPS][G], totals[WARPS][G];
    /* the shares of all blocks of the cluster; without clusters, [0] has the sums of this block */
    __shared__ float got[CLUSTER][G][SHARE], got_top[CLUSTER][G], got_total[CLUSTER][G], all[G][D];
    __shared__ head_tables<D> tables;
    int head = blockIdx.x / a.splits, split = blockIdx.x % a.splits, warp = threadIdx.x / 32;
    bool together = a.cluster == CLUSTER;
    int rank = split % CLUSTER, sub = threadIdx.x / LANES, lane = threadIdx.x % LANES,
        group = a.heads / a.kv_heads;
    int position = __ldcg(&a.state[blockIdx.y].position), n = position + 1;
    int start = a.window ? max(0, n - a.window) : 0, count = n - start;
    int k0 = start + (int)((long)split * count / a.splits),
        k1 = start + (int)((long)(split + 1) * count / a.splits);
    size_t cache = ((size_t)blockIdx.y * a.kv_heads + head) * a.max_context * D;
    T *keys = (T *)a.keys + cache, *values = (T *)a.values + cache;
    const float *qkv = a.qkv + (size_t)blockIdx.y * (a.heads + 2 * a.kv_heads) * D;
    if (together) cluster_arrive(); /* a block may send only to blocks that have started */
    eight<T> k[BATCH], v[BATCH];
    auto load = [&](int at) {
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int key = at + sub + j * SUBS;
            bool there = key < k1 && key < position; /* the newest key is not in the cache yet */
            k[j] = there ? load8<T>(keys + (size_t)key * D + lane * 8) : zero8<T>();
            v[j] = there ? load8<T>(values + (size_t)key * D + lane * 8) : zero8<T>();
        }
    };
    load(k0);
    for (int i = threadIdx.x; i < D; i += THREADS) {
        if (i < a.dims / 2) {
            tables.cosine[i] = a.cosine[(size_t)position * (a.dims / 2) + i];
            tables.sine[i] = a.sine[(size_t)position * (a.dims / 2) + i];
        }
        if (a.q_norm) {
            tables.q_norm[i] = a.q_norm[i];
            tables.k_norm[i] = a.k_norm[i];
        }
    }
    __syncthreads();
    wait_for_previous();
    let_next_start();
    for (int g0 = 0; g0 < group; g0 += G) { /* G query heads at a time */
        int here = min(G, group - g0);
        if (g0) load(k0);
        for (int i = warp; i < here + 1; i += WARPS) {
            int at = head * group + g0 + i;
            if (i < here) {
                prepare_head<D>(a, read, tables, qkv + (size_t)at * D, a.q_norm ? tables.q_norm : nullptr,
                                a.scale, q[i]);
                continue;
            }
            prepare_head<D>(a, read, tables, qkv + (size_t)(a.heads + head) * D,
                            a.k_norm ? tables.k_norm : nullptr, 1.0f, fresh[0]);
            __syncwarp();
            for (int d = threadIdx.x % 32; d < D; d += 32) { /* rounds to the precision of the cache */
                T r = from_float<T>(fresh[0][d]);
                fresh[0][d] = to_float(r);
                if (split == a.splits - 1 && g0 == 0) keys[(size_t)position * D + d] = r;
            }
        }
        /* in reverse order, because the first warps have the query heads */
        for (int i = THREADS - 1 - threadIdx.x; i < D; i += THREADS) {
            T r = from_float<T>(read(qkv + (size_t)(a.heads + a.kv_heads + head) * D + i));
            fresh[1][i] = to_float(r);
            if (split == a.splits - 1 && g0 == 0) values[(size_t)position * D + i] = r;
        }
        __syncthreads();
        float top[G], total[G], o[G][8];
#pragma unroll
        for (int g = 0; g < G; g++) {
            top[g] = -INFINITY;
            total[g] = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) o[g][i] = 0;
        }
        for (int at = k0; at < k1; at += SUBS * BATCH) {
            if (at != k0) load(at);
            float s[BATCH][G];
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                int key = at + sub + j * SUBS;
                float f[8];
                unpack8<T>(k[j], f);
                if (key == position)
#pragma unroll
                    for (int i = 0; i < 8; i++) f[i] = fresh[0][lane * 8 + i];
#pragma unroll
                for (int g = 0; g < G; g++) {
                    float4 lo = *(const float4 *)&q[g][lane * 8], hi = *(const float4 *)&q[g][lane * 8 + 4];
                    float d = f[0] * lo.x + f[1] * lo.y + f[2] * lo.z + f[3] * lo.w + f[4] * hi.x +
                              f[5] * hi.y + f[6] * hi.z + f[7] * hi.w;
#pragma unroll
                    for (int x = LANES / 2; x; x >>= 1) d += __shfl_xor_sync(~0u, d, x);
                    s[j][g] = key < k1 ? d : -INFINITY;
                }
            }
#pragma unroll
            for (int g = 0; g < G; g++) {
                float most = top[g];
#pragma unroll
                for (int j = 0; j < BATCH; j++) most = fmaxf(most, s[j][g]);
                float base = most == -INFINITY ? 0.0f : most, keep = __expf(top[g] - base);
                top[g] = most;
                total[g] *= keep;
#pragma unroll
                for (int i = 0; i < 8; i++) o[g][i] *= keep;
#pragma unroll
                for (int j = 0; j < BATCH; j++) total[g] += s[j][g] = __expf(s[j][g] - base);
            }
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                int key = at + sub + j * SUBS;
                float f[8];
                unpack8<T>(v[j], f);
                if (key == position)
#pragma unroll
                    for (int i = 0; i < 8; i++) f[i] = fresh[1][lane * 8 + i];
#pragma unroll
                for (int g = 0; g < G; g++)
#pragma unroll
                    for (int i = 0; i < 8; i++) o[g][i] = fmaf(s[j][g], f[i], o[g][i]);
            }
        }
#pragma unroll
        for (int g = 0; g < G; g++) {
#pragma unroll
            for (int x = LANES; x < 32; x <<= 1) { /* combines the keys of a warp */
                float t = __shfl_xor_sync(~0u, top[g], x), z = __shfl_xor_sync(~0u, total[g], x);
                float most = fmaxf(top[g], t), base = most == -INFINITY ? 0.0f : most;
                float c = __expf(top[g] - base), d = __expf(t - base);
                total[g] = total[g] * c + z * d;
#pragma unroll
                for (int i = 0; i < 8; i++) o[g][i] = o[g][i] * c + __shfl_xor_sync(~0u, o[g][i], x) * d;
                top[g] = most;
            }
            if (threadIdx.x % 32 < LANES) {
#pragma unroll
                for (int i = 0; i < 8; i++) sums[warp][g][lane * 8 + i] = o[g][i];
                if (lane == 0) {
                    tops[warp][g] = top[g];
                    totals[warp][g] = total[g];
                }
            }
        }
        __syncthreads();
        if (together) cluster_wait(); /* all blocks have started, or have used the shares of the last heads */
        for (int i = threadIdx.x; i < G * D; i += THREADS) { /* combines the warps of the block */
            int g = i / D, d = i % D;
            float most = -INFINITY, sum = 0, z = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) most = fmaxf(most, tops[w][g]);
            float base = most == -INFINITY ? 0.0f : most;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                float c = __expf(tops[w][g] - base);
                sum += c * sums[w][g][d];
                z += c * totals[w][g];
            }
            if (together) {
                send(&got[rank][g][d % SHARE], d / SHARE, sum);
                if (d < CLUSTER) {
                    send(&got_top[rank][g], d, most);
                    send(&got_total[rank][g], d, z);
                }
            } else {
                all[g][d] = sum;
                if (d == 0) {
                    got_top[0][g] = most;
                    got_total[0][g] = z;
                }
            }
        }
        if (together) {
            cluster_arrive();
            cluster_wait();
            for (int i = threadIdx.x; i < G * SHARE; i += THREADS) {
                int g = i / SHARE, d = rank * SHARE + i % SHARE;
                float most = -INFINITY, sum = 0, z = 0;
#pragma unroll
                for (int r = 0; r < CLUSTER; r++) most = fmaxf(most, got_top[r][g]);
                float base = most == -INFINITY ? 0.0f : most;
#pragma unroll
                for (int r = 0; r < CLUSTER; r++) {
                    float c = __expf(got_top[r][g] - base);
                    sum += c * got[r][g][i % SHARE];
                    z += c * got_total[r][g];
                }
                if (g < here && a.narrow) {
                    a.narrow[((size_t)blockIdx.y * a.heads + head * group + g0 + g) * D + d] =
                        to_bf16(sum / z);
                } else if (g < here) {
                    float *to =
                        a.parts + (size_t)(split / CLUSTER * a.heads + head * group + g0 + g) * (D + 4);
                    to[d] = a.splits == CLUSTER ? sum / z : sum;
                    if (d == 0) {
                        to[D] = most;
                        to[D + 1] = z;
                    }
                }
            }
            if (g0 + G < group) cluster_arrive();
            continue;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < here * D; i += THREADS) {
            int g = i / D, d = i % D;
            if (a.narrow) {
                a.narrow[((size_t)blockIdx.y * a.heads + head * group + g0 + g) * D + d] =
                    to_bf16(all[g][d] / got_total[0][g]);
                continue;
            }
            float *to = a.parts + (size_t)(split * a.heads + head * group + g0 + g) * (D + 4);
            to[d] = all[g][d];
            if (d == 0) {
                to[D] = got_top[0][g];
                to[D + 1] = got_total[0][g];
            }
        }
        __syncthreads();
    }
}

#endif
