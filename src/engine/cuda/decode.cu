/* One decoding step, batch 1: five kernels per layer and one for the head.
 *     rows       q, k and v; in the first layer also the embedding and the banned ids
 *     attention  in decode_attention.cu
 *     out        output projection, and the router's logits. While attention runs, which reads little, it
 *                copies its weights to the L2 cache
 *     up         chooses the experts; silu(gate) up
 *     down       x += down; in dense layers of many rows, the kernel is `out`
 *     head       logits, next token
 * With programmatic dependent launch, a kernel reads its first weights before it waits for the previous
 * kernel. Before this wait, it may also read results of the kernel before the previous one, because each
 * kernel lets the next one start only after its own wait. Sums have a fixed order or are sums of integers,
 * so the same input gives the same bits. */
#include "common.cuh"
#include "kernel_args.h"

enum { THREADS = 256, WARPS = 8 };

extern __shared__ __align__(16) float shared[];

/* Returns the index of element i of a vector in shared memory. The first four numbers of each group of
 * eight are in the first half, so that 16-byte reads of neighbouring lanes have no bank conflicts.
 * `groups`: number of groups of eight, with padding. */
__device__ __forceinline__ int place(int i, int groups) {
    return (i & 4 ? groups * 4 : 0) + (i >> 3) * 4 + (i & 3);
}
template <int C> __device__ __forceinline__ int groups_of(int n8) {
    return (n8 + C * 32 - 1) / (C * 32) * C * 32;
}

/* The scales of R rows; only fp8 weights have any. row_of(unit, rows, scales) sets the rows of a unit and
 * their scales. */
template <class T, int R> struct row_scales {
    __device__ __forceinline__ row_scales(int, int) {}
    template <class F> __device__ __forceinline__ void move_to(int, const F &) {}
    /* sum + the product of group j of row r with [lo | hi] */
    __device__ __forceinline__ float add(int, int, const eight<T> &w, const float4 &lo, const float4 &hi,
                                         float sum) const {
        return dot8<T>(w, lo, hi, sum);
    }
};
template <int R> struct row_scales<f8, R> {
    const float *at[R];
    int shift, last;
    __device__ __forceinline__ row_scales(int shift_, int n8) : shift(shift_), last(n8 - 1) {}
    template <class F> __device__ __forceinline__ void move_to(int unit, const F &row_of) {
        const f8 *unused[R];
        row_of(unit, unused, at);
    }
    __device__ __forceinline__ float add(int r, int j, const eight<f8> &w, const float4 &lo, const float4 &hi,
                                         float sum) const {
        return fmaf(dot8<f8>(w, lo, hi, 0.0f), __ldg(at[r] + (min(j, last) >> shift)), sum);
    }
};

/* R rows of weights in registers: each lane holds C groups of eight numbers per row. */
template <class T, int R, int C> struct piece {
    eight<T> w[R][C];
    __device__ __forceinline__ void load(const T *const (&row)[R], int chunk, int lane, int n8) {
#pragma unroll
        for (int c = 0; c < C; c++) {
            int j = (chunk * C + c) * 32 + lane;
#pragma unroll
            for (int r = 0; r < R; r++) w[r][c] = j < n8 ? load8<T>(row[r] + (size_t)j * 8) : zero8<T>();
        }
    }
    __device__ __forceinline__ void dot(const float *x, int groups, int chunk, int lane,
                                        const row_scales<T, R> &scales, float (&sum)[R]) const {
#pragma unroll
        for (int c = 0; c < C; c++) {
            int j = (chunk * C + c) * 32 + lane;
            float4 lo = *(const float4 *)(x + j * 4), hi = *(const float4 *)(x + groups * 4 + j * 4);
#pragma unroll
            for (int r = 0; r < R; r++) sum[r] = scales.add(r, j, w[r][c], lo, hi, sum[r]);
        }
    }
};

/* Multiplies the weights of a warp with a vector, with two pieces in flight. A unit is R rows of n8 * 8
 * weights. */
template <class T, int R, int C> struct stream {
    piece<T, R, C> a, b;
    int unit, chunk, units, step, chunks, n8, lane; /* unit, chunk: the next load */
    __device__ __forceinline__ stream(int first, int units_, int step_, int n8_)
        : unit(first), chunk(0), units(units_), step(step_), chunks((n8_ + C * 32 - 1) / (C * 32)), n8(n8_),
          lane(threadIdx.x % 32) {}
    template <class F> __device__ __forceinline__ void fetch(piece<T, R, C> &p, const F &row_of) {
        if (unit >= units) return;
        const T *row[R];
        const float *unused[R];
        row_of(unit, row, unused);
        p.load(row, chunk, lane, n8);
        if (++chunk == chunks) {
            chunk = 0;
            unit += step;
        }
    }
    /* x is in shared memory. Calls done(unit, sums) after each unit, with the sums over all lanes. */
    template <class F, class G>
    __device__ __forceinline__ void run(int first, const float *x, int groups, row_scales<T, R> scales,
                                        const F &row_of, const G &done) {
        int u = first, c = 0;
        float sum[R] = {};
        if (u < units) scales.move_to(u, row_of);
        while (u < units) {
            a.dot(x, groups, c, lane, scales, sum);
            fetch(a, row_of);
            if (++c == chunks) finish(u, c, sum, scales, row_of, done);
            if (u >= units) break;
            b.dot(x, groups, c, lane, scales, sum);
            fetch(b, row_of);
            if (++c == chunks) finish(u, c, sum, scales, row_of, done);
        }
    }
    template <class F, class G>
    __device__ __forceinline__ void finish(int &u, int &c, float (&sum)[R], row_scales<T, R> &scales,
                                           const F &row_of, const G &done) {
#pragma unroll
        for (int r = 0; r < R; r++) sum[r] = warp_sum(sum[r]);
        done(u, sum);
#pragma unroll
        for (int r = 0; r < R; r++) sum[r] = 0;
        c = 0;
        u += step;
        if (u < units) scales.move_to(u, row_of);
    }
};

enum { ROUNDS = 4 }; /* loads in flight per thread */

/* Writes x times the norm's weights to shared memory and returns 1 / sqrt(mean(x^2) + eps). `room`: one
 * float per warp. `between` runs before the barrier. */
template <class F>
__device__ __forceinline__ float norm_into(const float *x, const float *g, int n, float eps, float *to,
                                           int groups, float *room, const F &between) {
    float sum = 0;
    for (int i = threadIdx.x * 4; i < groups * 8; i += THREADS * 4 * ROUNDS) {
        float4 v[ROUNDS], w[ROUNDS]; /* issue all loads before the first use */
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS * 4;
            v[r] = w[r] = make_float4(0, 0, 0, 0);
            if (at < n) {
                v[r] = __ldcg((const float4 *)(x + at));
                w[r] = __ldg((const float4 *)(g + at));
            }
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS * 4;
            float4 a = v[r], b = w[r];
            if (at >= groups * 8) break;
            sum += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
            *(float4 *)(to + place(at, groups)) = make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
    between();
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) sum += room[i];
    return rsqrtf(sum / n + eps);
}

/* ---- banned ids: one block */
__device__ void find_bans(const rows_args &a) {
    const decode_rules *r = a.rules;
    int end = a.state->position + 1, length = end - r->first, gram = r->n - 1;
    if (r->n == 0 || length < r->n) return;
    const int *ids = a.sequence + r->first, *last = ids + length - gram;
    int start = r->window > 0 && length > r->window ? length - r->window : 0;
    for (int i = start + threadIdx.x; i + gram < length; i += THREADS) {
        bool same = true;
        for (int j = gram - 1; same && j >= 0; j--) same = ids[i + j] == last[j];
        int id = ids[i + gram];
        for (int j = 0; j < r->nallow; j++) same = same && id != r->allow[j];
        if (!same) continue;
        unsigned bit = 1u << (id & 31);
        if (!(atomicOr(&a.ban_bits[id >> 5], bit) & bit)) a.ban_list[atomicAdd(&a.state->banned, 1)] = id;
    }
}

/* ---- rows: R per warp and turn, 1 or 2 */
template <class T, int R, int C> __device__ void decode_rows(const rows_args &a) {
    __shared__ float room[WARPS + 1];
    int n8 = a.k / 8, groups = groups_of<C>(n8), blocks = gridDim.x - (a.embed ? 1 : 0);
    int total = a.rows[0] + a.rows[1] + a.rows[2], first = blockIdx.x * WARPS + threadIdx.x / 32;
    if ((int)blockIdx.x == blocks) {
        wait_for_previous();
        let_next_start();
        find_bans(a);
        return;
    }
    auto row_of = [&](int u, const T *(&row)[R], const float *(&scale)[R]) {
        int r = u * R, m = 0;
        while (m + 1 < a.matrices && r >= a.rows[m]) r -= a.rows[m++];
        row[0] = (const T *)a.w[m] + (size_t)r * a.k;
        row[R - 1] = row[0] + (R - 1) * a.k;
        scale[0] = scale_row(a.scale[m], r);
        scale[R - 1] = scale_row(a.scale[m], r + R - 1);
    };
    stream<T, R, C> s(first, total / R, blocks * WARPS, n8);
    s.fetch(s.a, row_of);
    s.fetch(s.b, row_of);
    wait_for_previous();
    let_next_start();
    float scale;
    if (a.embed) { /* the norm of the embedding */
        typedef typename wide_of<T>::type E;
        const E *row = (const E *)a.embed + (size_t)__ldcg(&a.state->token) * a.k;
        float sum = 0;
        for (int i = threadIdx.x; i < groups * 8; i += THREADS) {
            float v = i < a.k ? to_float(row[i]) : 0.0f;
            sum += v * v;
            shared[place(i, groups)] = i < a.k ? v * a.norm[i] : 0.0f;
            if (blockIdx.x == 0 && i < a.k) a.x_out[i] = v;
        }
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int i = 0; i < WARPS; i++) sum += room[i];
        scale = rsqrtf(sum / a.k + a.eps);
    } else {
        scale = norm_into(a.x, a.norm, a.k, a.eps, shared, groups, room, [] {});
    }
    s.run(first, shared, groups, row_scales<T, R>(a.scale[0].shift, n8), row_of, [&](int u, float(&sum)[R]) {
        if (s.lane) return;
        int r = u * R, m = 0;
        while (m + 1 < a.matrices && r >= a.rows[m]) r -= a.rows[m++];
        const float *bias = a.bias[m];
#pragma unroll
        for (int i = 0; i < R; i++) a.y[u * R + i] = sum[i] * scale + (bias ? bias[r + i] : 0.0f);
    });
}

/* ---- out: one row per warp, so a block computes eight rows at a time */

/* Copies the result of attention, which is complete if it has one part, to shared memory. */
__device__ __forceinline__ void copy_heads(const out_args &a, float *to, int groups) {
    int quads = a.dim / 4; /* groups of four numbers per head */
    for (int i = threadIdx.x; i < groups * 2; i += THREADS * ROUNDS) {
        float4 v[ROUNDS];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS, head = at / quads;
            v[r] = make_float4(0, 0, 0, 0);
            if (head < a.heads)
                v[r] = __ldcg((const float4 *)(a.parts + (size_t)head * (a.dim + 4)) + (at - head * quads));
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            if (i + r * THREADS < groups * 2) *(float4 *)(to + place((i + r * THREADS) * 4, groups)) = v[r];
    }
}

/* Adds the parts of attention, weighted by their maxima and sums, and writes the result to shared memory. */
__device__ __forceinline__ void add_parts(const out_args &a, float *to, int groups) {
    float *factor = to + groups * 8; /* [nparts][heads] */
    int k = a.heads * a.dim;
    for (int h = threadIdx.x; h < a.heads; h += THREADS) {
        float most = -INFINITY, total = 0;
        for (int p0 = 0; p0 < a.nparts; p0 += 2 * ROUNDS) {
            float2 v[2 * ROUNDS]; /* maximum, sum of weights */
#pragma unroll
            for (int p = 0; p < 2 * ROUNDS; p++)
                if (p0 + p < a.nparts)
                    v[p] = __ldcg(
                        (const float2 *)(a.parts + (size_t)((p0 + p) * a.heads + h) * (a.dim + 4) + a.dim));
#pragma unroll
            for (int p = 0; p < 2 * ROUNDS; p++) {
                if (p0 + p >= a.nparts) break;
                float top = fmaxf(most, v[p].x), base = top == -INFINITY ? 0.0f : top;
                total = total * __expf(most - base) + v[p].y * __expf(v[p].x - base);
                most = top;
                factor[(p0 + p) * a.heads + h] = v[p].x;
            }
        }
        for (int p = 0; p < a.nparts; p++)
            factor[p * a.heads + h] = __expf(factor[p * a.heads + h] - most) / total;
    }
    int quads = a.dim / 4; /* groups of four numbers per head */
    enum { TOGETHER = 3 }; /* parts at a time */
    __syncthreads();
    for (int i = threadIdx.x; i < groups * 2; i += THREADS * ROUNDS) {
        float4 sum[ROUNDS];
        int head[ROUNDS];
        const float *from[ROUNDS];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS;
            sum[r] = make_float4(0, 0, 0, 0);
            head[r] = at * 4 < k ? at / quads : -1;
            from[r] = a.parts + (size_t)max(head[r], 0) * (a.dim + 4) + (at - max(head[r], 0) * quads) * 4;
        }
        for (int p0 = 0; p0 < a.nparts; p0 += TOGETHER) {
            float4 v[TOGETHER][ROUNDS]; /* issue all loads before the first use */
#pragma unroll
            for (int p = 0; p < TOGETHER; p++)
#pragma unroll
                for (int r = 0; r < ROUNDS; r++) {
                    v[p][r] = make_float4(0, 0, 0, 0);
                    if (head[r] >= 0 && p0 + p < a.nparts)
                        v[p][r] =
                            __ldcg((const float4 *)(from[r] + (size_t)(p0 + p) * a.heads * (a.dim + 4)));
                }
#pragma unroll
            for (int p = 0; p < TOGETHER; p++)
#pragma unroll
                for (int r = 0; r < ROUNDS; r++) {
                    float f = head[r] < 0 || p0 + p >= a.nparts ? 0.0f : factor[(p0 + p) * a.heads + head[r]];
                    sum[r].x = fmaf(f, v[p][r].x, sum[r].x);
                    sum[r].y = fmaf(f, v[p][r].y, sum[r].y);
                    sum[r].z = fmaf(f, v[p][r].z, sum[r].z);
                    sum[r].w = fmaf(f, v[p][r].w, sum[r].w);
                }
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            if (i + r * THREADS < groups * 2) *(float4 *)(to + place((i + r * THREADS) * 4, groups)) = sum[r];
    }
}

/* Starts to copy the numbers of a row from number `from` on to the L2 cache. */
template <class T> __device__ __forceinline__ void prefetch_row(const T *row, int n, int from) {
#if __CUDA_ARCH__ >= 900
    if (from < n)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row + from),
                     "r"((n - from) * (int)sizeof(T)));
#endif
}

/* R: rows per warp and turn. 1 in layers with a router, whose part needs all rows of a block at the same
 * time; otherwise 1 or 2. */
template <class T, int R, int C> __device__ void decode_out(const out_args &a) {
    typedef typename wide_of<T>::type E;
    __shared__ float fresh[WARPS];
    int k = a.heads * a.dim, n8 = k / 8, groups = groups_of<C>(n8), warp = threadIdx.x / 32;
    int first = blockIdx.x * WARPS + warp, e = threadIdx.x, units = a.rows / R;
    auto row_of = [&](int u, const T *(&row)[R], const float *(&scale)[R]) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            row[r] = (const T *)a.w + (size_t)(u * R + r) * k;
            scale[r] = scale_row(a.scale, u * R + r);
        }
    };
    row_scales<T, R> scales(a.scale.shift, n8);
    stream<T, R, C> s(first, units, gridDim.x * WARPS, n8);
    s.fetch(s.a, row_of);
    s.fetch(s.b, row_of);
    if (a.prefetch && s.lane == 0)
        for (int u = first; u < units; u += gridDim.x * WARPS)
#pragma unroll
            for (int r = 0; r < R; r++)
                prefetch_row((const T *)a.w + (size_t)(u * R + r) * k, k, u == first ? 2 * C * 32 * 8 : 0);
    eight<E> router = zero8<E>(); /* weights for the block's first rows and the thread's first expert */
    if (R == 1 && a.router && e < a.experts)
        router = load8<E>((const E *)a.router + (size_t)e * a.rows + blockIdx.x * WARPS);
    wait_for_previous();
    let_next_start();
    if (a.nparts == 1)
        copy_heads(a, shared, groups);
    else
        add_parts(a, shared, groups);
    __syncthreads();
    if (R > 1) {
        s.run(first, shared, groups, scales, row_of, [&](int u, float(&sum)[R]) {
            if (s.lane >= R) return;
            int row = u * R + s.lane;
            float v = s.lane ? sum[R - 1] : sum[0];
            a.y[row] = v + __ldcg(a.x + row) + (a.bias ? a.bias[row] : 0.0f);
        });
        return;
    }
    bool again = false;
    /* all warps stay in the loop because of its barriers */
    for (int u = first; u - warp < a.rows; u += gridDim.x * WARPS) {
        float sum[R] = { 0 }, before = s.lane == 0 && u < a.rows ? __ldcg(a.x + u) : 0.0f;
        int chunks = s.chunks;
        if (u < a.rows) scales.move_to(u, row_of);
        for (int c = 0; u < a.rows && c < chunks; c++) {
            if ((c & 1) == 0) {
                s.a.dot(shared, groups, c, s.lane, scales, sum);
                s.fetch(s.a, row_of);
            } else {
                s.b.dot(shared, groups, c, s.lane, scales, sum);
                s.fetch(s.b, row_of);
            }
        }
        if (u < a.rows && (chunks & 1)) { /* s.b holds the first piece of the next row */
            piece<T, R, C> swap = s.a;
            s.a = s.b;
            s.b = swap;
        }
        float v = warp_sum(sum[0]);
        if (s.lane == 0 && u < a.rows) {
            v += before + (a.bias ? a.bias[u] : 0.0f);
            a.y[u] = v;
            fresh[warp] = v * (a.norm ? a.norm[u] : 0.0f);
        }
        if (!a.router) continue;
        __syncthreads();
        for (int x = e; x < a.experts; x += THREADS) {
            if (again || x != e) router = load8<E>((const E *)a.router + (size_t)x * a.rows + (u - warp));
            float f[8], partial = 0;
            unpack8<E>(router, f);
#pragma unroll
            for (int i = 0; i < WARPS; i++) partial = fmaf(f[i], fresh[i], partial);
            atomicAdd((unsigned long long *)&a.logits[x],
                      (unsigned long long)__float2ll_rn(partial * 4294967296.0f));
        }
        again = true;
        __syncthreads();
    }
}

/* ---- experts */
enum { FEW_EXPERTS = 128, PER_LANE = FEW_EXPERTS / 32 };

/* Router logits of a layer, not yet divided by the root mean square of the router's input. The lanes of a
 * warp hold the first FEW_EXPERTS logits in registers and read the others from memory. */
struct router_logits {
    const long long *from;
    int n, lane;
    float own[PER_LANE];
    __device__ __forceinline__ router_logits(const long long *logits, int experts)
        : from(logits), n(experts), lane(threadIdx.x % 32) {
        long long raw[PER_LANE];
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) raw[i] = lane + i * 32 < n ? __ldcg(from + lane + i * 32) : 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) own[i] = number(raw[i]);
    }
    __device__ __forceinline__ static float number(long long v) {
        return (float)((double)v * 2.3283064365386963e-10); /* 2^-32 */
    }
    /* calls f(expert, logit) for the experts of this lane */
    template <class F> __device__ __forceinline__ void each(const F &f) const {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (lane + i * 32 < n) f(lane + i * 32, own[i]);
        for (int e = lane + FEW_EXPERTS; e < n; e += 32) f(e, number(__ldcg(from + e)));
    }
};

__device__ __forceinline__ unsigned ordered(float v) { /* maps floats to integers of the same order */
    unsigned u = __float_as_uint(v);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Returns a mask of the `kept` groups whose best experts have the largest logits. There are at most
 * FEW_EXPERTS experts, in at most 32 groups. Not inlined, because most models have no groups, and registers
 * are scarce. */
__device__ __noinline__ unsigned kept_groups(const long long *logits, int n, int groups, int kept) {
    router_logits l(logits, n);
    int size = n / groups;
    unsigned mask = 0;
    for (int round = 0; round < kept; round++) {
        unsigned best = 0;
        int group = 31;
#pragma unroll
        for (int i = PER_LANE - 1; i >= 0; i--) {
            int expert = l.lane + i * 32, own = expert / size;
            unsigned key = expert < n ? ordered(l.own[i]) : 0;
            if (key && !(mask >> own & 1) && key >= best) {
                best = key;
                group = own;
            }
        }
        unsigned top = __reduce_max_sync(~0u, best);
        mask |= 1u << __reduce_min_sync(~0u, best == top ? (unsigned)group : 31u);
    }
    return mask;
}

/* Chooses the k experts with the largest logits; if logits are equal, the lower number comes first. Writes
 * their numbers to chosen[] and their logits to value[]. Returns the largest logit. */
__device__ __forceinline__ float choose_experts(const router_logits &l, const mlp_args &a, int *chosen,
                                                float *value) {
    unsigned key[PER_LANE], last = ~0u; /* key: ordered(logit); 0: already chosen, or no expert */
    int last_expert = -1, k = a.k;
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) key[i] = l.lane + i * 32 < l.n ? ordered(l.own[i]) : 0;
    if (a.groups > 1) {
        unsigned mask = kept_groups(l.from, l.n, a.groups, a.groups_kept);
        int size = l.n / a.groups;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (!(mask >> ((l.lane + i * 32) / size & 31) & 1)) key[i] = 0;
    }
    for (int c = 0; c < k; c++) {
        unsigned best = 0;
        int expert = l.n;
#pragma unroll
        for (int i = PER_LANE - 1; i >= 0; i--)
            if (key[i] && key[i] >= best) {
                best = key[i];
                expert = l.lane + i * 32;
            }
        /* skips the experts that were already chosen */
        for (int e = l.lane + FEW_EXPERTS; e < l.n; e += 32) {
            unsigned u = ordered(router_logits::number(__ldcg(l.from + e)));
            if ((u < last || (u == last && e > last_expert)) && u > best) {
                best = u;
                expert = e;
            }
        }
        unsigned top = __reduce_max_sync(~0u, best);
        int winner = (int)__reduce_min_sync(~0u, best == top ? (unsigned)expert : ~0u);
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (l.lane + i * 32 == winner) key[i] = 0;
        last = top;
        last_expert = winner;
        float v = __uint_as_float(top & 0x80000000u ? top & 0x7fffffffu : ~top);
        if (c == 0) most = v;
        if (l.lane == 0) {
            chosen[c] = min(winner, l.n - 1);
            value[c] = v;
        }
    }
    return most;
}

enum { MOST_CHOSEN = 64 };

template <class T> struct has_scales {
    enum { value = 0 };
};
template <> struct has_scales<f8> {
    enum { value = 1 };
};

template <class T, int C> __device__ void decode_up(const mlp_args &a) {
    constexpr bool SCALED = has_scales<T>::value;
    __shared__ float room[WARPS + 1], weight[MOST_CHOSEN];
    __shared__ int chosen[MOST_CHOSEN];
    __shared__ const T *gates[MOST_CHOSEN], *ups[MOST_CHOSEN];
    __shared__ const float *scales_of[SCALED ? MOST_CHOSEN : 1][2]; /* of the chosen gates and ups */
    __shared__ const void *table[FEW_EXPERTS][2];
    int n8 = a.hidden / 8, groups = groups_of<C>(n8), early = a.shared * a.inner,
        units = early + a.k * a.inner;
    const T *shared_gate = (const T *)a.pointers[a.experts].gate,
            *shared_up = (const T *)a.pointers[a.experts].up;
    unsigned magic = 0xffffffffu / a.inner + 1; /* __umulhi(u, magic) is u / inner for u below 2^16 */
    bool small = units < 1 << 16;
    int first = blockIdx.x + gridDim.x * (threadIdx.x / 32); /* neighbouring rows in different blocks */
    /* The shared expert comes first, because it does not depend on the routing. A dense layer is treated
     * like a shared expert. */
    auto row_of = [&](int u, const T *(&row)[2], const float *(&scale)[2]) {
        if (u < early) {
            row[0] = shared_gate + (size_t)u * a.hidden;
            row[1] = shared_up + (size_t)u * a.hidden;
            if (SCALED) {
                size_t line = (size_t)(u / a.up_scale.rows) * a.up_scale.across;
                scale[0] = a.scales[a.experts].gate + line;
                scale[1] = a.scales[a.experts].up + line;
            }
        } else {
            int v = u - early, slot = small ? (int)__umulhi(v, magic) : v / a.inner, r = v - slot * a.inner;
            size_t at = (size_t)r * a.hidden;
            row[0] = gates[slot] + at;
            row[1] = ups[slot] + at;
            if (SCALED) {
                size_t line = (size_t)(r / a.up_scale.rows) * a.up_scale.across;
                scale[0] = scales_of[slot][0] + line;
                scale[1] = scales_of[slot][1] + line;
            }
        }
    };
    stream<T, 2, C> s(first, units, gridDim.x * WARPS, n8);
    bool first_early = s.unit < early;
    if (first_early) s.fetch(s.a, row_of);
    bool second_early = first_early && s.unit < early;
    if (second_early) s.fetch(s.b, row_of);
    for (int e = threadIdx.x; e < min(a.experts, (int)FEW_EXPERTS); e += THREADS) {
        table[e][0] = a.pointers[e].gate;
        table[e][1] = a.pointers[e].up;
    }
    __syncthreads();
    wait_for_previous();
    let_next_start();
    router_logits logits(a.logits, threadIdx.x < 32 ? a.experts : 0);
    float scale = norm_into(a.x, a.norm, a.hidden, a.eps, shared, groups, room, [&] {
        if (a.experts && threadIdx.x < 32) {
            choose_experts(logits, a, chosen, weight);
            __syncwarp();
            for (int c = threadIdx.x; c < a.k; c += 32) {
                int e = chosen[c];
                gates[c] = (const T *)(e < FEW_EXPERTS ? table[e][0] : a.pointers[e].gate);
                ups[c] = (const T *)(e < FEW_EXPERTS ? table[e][1] : a.pointers[e].up);
                if (SCALED) {
                    scales_of[c][0] = a.scales[e].gate;
                    scales_of[c][1] = a.scales[e].up;
                }
            }
        }
    });
    if (!first_early) s.fetch(s.a, row_of);
    if (!second_early) s.fetch(s.b, row_of);
    s.run(first, shared, groups, row_scales<T, 2>(a.up_scale.shift, n8), row_of, [&](int u, float(&sum)[2]) {
        if (s.lane) return;
        float g = sum[0] * scale;
        int at = u < early ? a.k * a.inner + u : u - early; /* in h, the chosen experts come first */
        a.h[at] = silu(g) * (sum[1] * scale);
    });
}

/* A slot is a chosen expert or a part of the shared expert. The down rows of all slots form one row of (k +
 * shared) * inner weights. */
template <class T, int C> __device__ void decode_down(const mlp_args &a) {
    constexpr bool SCALED = has_scales<T>::value;
    __shared__ const float *scales_of[SCALED ? MOST_CHOSEN + 64 : 1]; /* by slot */
    __shared__ float room[WARPS + 1], weight[MOST_CHOSEN + 64];
    __shared__ int chosen[MOST_CHOSEN];
    __shared__ const T *base[MOST_CHOSEN + 64];
    int slots = a.k + a.shared, n8 = slots * (a.inner / 8), inner8 = a.inner / 8, groups = groups_of<C>(n8);
    int lane = threadIdx.x % 32, first = blockIdx.x * WARPS + threadIdx.x / 32;
    if (a.experts) { /* no wait needed: x and logits are results of the kernel before the previous one */
        float sum = 0;
        for (int i = threadIdx.x; i < a.hidden; i += THREADS) sum += __ldcg(a.x + i) * __ldcg(a.x + i);
        sum = warp_sum(sum);
        if (lane == 0) room[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x < 32) {
            router_logits logits(a.logits, a.experts);
            float most = choose_experts(logits, a, chosen, weight);
            __syncwarp();
            float scale = 0, total = 0, picked = 0;
            for (int i = 0; i < WARPS; i++) scale += room[i];
            scale = rsqrtf(scale / a.hidden + a.eps);
            logits.each([&](int, float v) { total += __expf((v - most) * scale); });
            total = warp_sum(total);
            for (int c = 0; c < a.k; c++) picked += __expf((weight[c] - most) * scale) / total;
            __syncwarp();
            for (int c = lane; c < a.k; c += 32)
                weight[c] =
                    __expf((weight[c] - most) * scale) / total * a.scale / (a.normalise ? picked : 1.0f);
        }
    }
    for (int c = threadIdx.x; c < slots; c += THREADS)
        if (c >= a.k) weight[c] = 1.0f;
    __syncthreads();
    for (int c = threadIdx.x; c < slots; c += THREADS)
        base[c] = c < a.k ? (const T *)a.pointers[chosen[c]].down
                          : (const T *)a.pointers[a.experts].down + (size_t)(c - a.k) * a.inner;
    if (SCALED)
        for (int c = threadIdx.x; c < slots; c += THREADS)
            scales_of[c] = a.scales[c < a.k ? chosen[c] : a.experts].down;
    __syncthreads();
    unsigned magic = 0xffffffffu / inner8 + 1; /* __umulhi(j, magic) is j / inner8 for j below 2^16 */
    int row = first, chunk = 0, chunks = (n8 + C * 32 - 1) / (C * 32);
    eight<T> w[2][C];
    auto fetch = [&](eight<T>(&p)[C]) {
        if (row >= a.hidden) return;
#pragma unroll
        for (int c = 0; c < C; c++) {
            int j = (chunk * C + c) * 32 + lane;
            int slot = inner8 == 1 ? j : (int)__umulhi(j, magic);
            p[c] = zero8<T>();
            if (j < n8) {
                size_t stride = slot < a.k ? a.inner : (size_t)a.shared * a.inner;
                p[c] = load8<T>(base[slot] + row * stride + (size_t)(j - slot * inner8) * 8);
            }
        }
        if (++chunk == chunks) {
            chunk = 0;
            row += gridDim.x * WARPS;
        }
    };
    fetch(w[0]);
    fetch(w[1]);
    wait_for_previous();
    let_next_start();
    for (int i = threadIdx.x * 4; i < groups * 8; i += THREADS * 4 * ROUNDS) {
        float4 v[ROUNDS];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS * 4;
            v[r] = at < n8 * 8 ? __ldcg((const float4 *)(a.h + at)) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int at = i + r * THREADS * 4;
            if (at >= groups * 8) break;
            int slot = inner8 == 1 ? at / 8 : (int)__umulhi(at / 8, magic);
            float f = at < n8 * 8 ? weight[slot] : 0.0f;
            *(float4 *)(shared + place(at, groups)) =
                make_float4(v[r].x * f, v[r].y * f, v[r].z * f, v[r].w * f);
        }
    }
    __syncthreads();
    int u = first, c = 0;
    float sum = 0;
    /* Returns the scale of group j of row u. */
    auto scale_of = [&](int j) {
        int at = min(j, n8 - 1), slot = inner8 == 1 ? at : (int)__umulhi(at, magic);
        bool routed = slot < a.k;
        const scale_table &s = routed ? a.down_scale : a.shared_down;
        int group = at - (routed ? slot : a.k) * inner8; /* within its matrix */
        return __ldg(scales_of[slot] + (size_t)(u / s.rows) * s.across + (group >> s.shift));
    };
    auto take = [&](eight<T>(&p)[C]) {
#pragma unroll
        for (int i = 0; i < C; i++) {
            int j = (c * C + i) * 32 + lane;
            float part = dot8<T>(p[i], *(const float4 *)(shared + j * 4),
                                 *(const float4 *)(shared + groups * 4 + j * 4), SCALED ? 0.0f : sum);
            sum = SCALED ? fmaf(part, scale_of(j), sum) : part;
        }
        fetch(p);
        if (++c < chunks) return;
        sum = warp_sum(sum);
        if (lane == 0) a.y[u] = __ldcg(a.x + u) + sum;
        sum = 0;
        c = 0;
        u += gridDim.x * WARPS;
    };
    while (u < a.hidden) {
        take(w[0]);
        if (u < a.hidden) take(w[1]);
    }
}

/* ---- head */
template <class T, int C> __device__ void decode_head(const head_args &a) {
    __shared__ float room[WARPS + 1];
    __shared__ u64 best_of[WARPS];
    __shared__ int is_last;
    int n8 = a.hidden / 8, groups = groups_of<C>(n8), first = blockIdx.x * WARPS + threadIdx.x / 32;
    auto row_of = [&](int u, const T *(&row)[2], const float *(&)[2]) {
        row[0] = (const T *)a.w + (size_t)u * 2 * a.hidden;
        row[1] = u * 2 + 1 < a.vocab ? row[0] + a.hidden : row[0];
    };
    stream<T, 2, C> s(first, (a.vocab + 1) / 2, gridDim.x * WARPS, n8);
    s.fetch(s.a, row_of);
    s.fetch(s.b, row_of);
    wait_for_previous();
    let_next_start();
    float scale = norm_into(a.x, a.norm, a.hidden, a.eps, shared, groups, room, [] {});
    int banned = __ldcg(&a.state->banned);
    u64 best = 0;
    s.run(first, shared, groups, row_scales<T, 2>(0, n8), row_of, [&](int u, float(&sum)[2]) {
        if (s.lane) return;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int id = u * 2 + i;
            float v = sum[i] * scale;
            if (id >= a.vocab) continue;
            a.logits[id] = v;
            if ((banned && (__ldcg(&a.ban_bits[id >> 5]) >> (id & 31) & 1)) || v != v) v = -INFINITY;
            unsigned f = __float_as_uint(v);
            f = f & 0x80000000u ? ~f : f | 0x80000000u;
            u64 key = (u64)f << 32 | (0xffffffffu - id);
            best = key > best ? key : best;
        }
    });
    if (s.lane == 0) best_of[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < WARPS; i++) best = best_of[i] > best ? best_of[i] : best;
        atomicMax(&a.state->best, best);
        __threadfence();
        is_last = atomicAdd(&a.state->ticket, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    for (int i = threadIdx.x; i < a.router_n; i += THREADS) a.router[i] = 0;
    for (int i = threadIdx.x; i < banned; i += THREADS) a.ban_bits[a.ban_list[i] >> 5] = 0;
    if (threadIdx.x == 0) {
        int token = (int)(0xffffffffu - (unsigned)atomicExch(&a.state->best, 0ull));
        a.sequence[a.state->position + 1] = token;
        a.out[a.state->step] = token;
        a.state->token = token;
        a.state->position++;
        a.state->step++;
        a.state->banned = 0;
        a.state->ticket = 0;
        __threadfence_system();
    }
}

/* ---- variants by type of the weights and by C, the groups of eight numbers per lane. Two blocks fill the
 * registers of a multiprocessor. With fewer registers, one multiprocessor could get four blocks while another
 * one gets none, because blocks start while those of the previous kernel still occupy some. */
#define VARIANT(name, args, body) \
    KERNEL __launch_bounds__(256, 2) name(const __grid_constant__ args a) { body(a); }
#define LAYERS(T, name, C)                                                  \
    VARIANT(decode_rows_##name##_##C, rows_args, (decode_rows<T, 2, C>))    \
    VARIANT(decode_out_##name##_##C, out_args, (decode_out<T, 1, C>))       \
    VARIANT(decode_out_pairs_##name##_##C, out_args, (decode_out<T, 2, C>)) \
    VARIANT(decode_up_##name##_##C, mlp_args, (decode_up<T, C>))
#define STREAMED(T, name, C) \
    LAYERS(T, name, C)       \
    VARIANT(decode_head_##name##_##C, head_args, (decode_head<T, C>))
#define DOWN(T, name, C) VARIANT(decode_down_##name##_##C, mlp_args, (decode_down<T, C>))
#define TYPE(T, name)                                                  \
    STREAMED(T, name, 4)                                               \
    STREAMED(T, name, 5)                                               \
    VARIANT(decode_rows_##name##_8, rows_args, (decode_rows<T, 1, 8>)) \
    DOWN(T, name, 7)                                                   \
    DOWN(T, name, 8)
TYPE(bf16, bf16)
TYPE(__half, f16)
STREAMED(float, f32, 4)
DOWN(float, f32, 8)
LAYERS(f8, f8_e4m3, 5)
LAYERS(f8, f8_e4m3, 8)
DOWN(f8, f8_e4m3, 14)
DOWN(f8, f8_e4m3, 16)
