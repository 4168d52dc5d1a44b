/* Decoding steps of up to 32 sequences at once on Hopper: linear layers whose weights are read once for all
 * sequences, and the choice of the next tokens. Attention is that of decode_attention.cu.
 * A cluster of eight blocks computes tiles of 128 rows of weights times all sequences on tensor cores (mma).
 * Each block takes an eighth of the columns, and the blocks add their sums through shared memory in a fixed
 * order, so the same input gives the same bits. */
#include "fragments.cuh"
#include "kernel_args.h"

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

enum {
    THREADS = 256,
    TOKENS = BATCH_MOST,
    ROWS = BATCH_ROWS,
    RANKS = BATCH_RANKS,
    SUM_STRIDE = TOKENS + 1,
    UNIT = 128
};
static_assert(BATCH_SUM_BYTES == ROWS * SUM_STRIDE * 4, "kernel_args.h and the layout of the sums");

__device__ __forceinline__ float remote(const float *p, unsigned rank) {
    unsigned at = shared_address(p), there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there));
    return v;
}
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The weights of 16 rows and UNIT columns. A lane holds eight neighbouring numbers of each group of 32
 * columns, in rows lane / 4 and lane / 4 + 8. mma adds over columns, so their order does not matter as long
 * as x has the same one. */
struct piece {
    uint4 low[4], high[4];
    __device__ __forceinline__ void load(const bf16 *low_row, const bf16 *high_row, int at, int end) {
        int column = at + threadIdx.x % 4 * 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool there = column + i * 32 < end;
            low[i] = there ? load_stream(low_row + column + i * 32) : make_uint4(0, 0, 0, 0);
            high[i] = there ? load_stream(high_row + column + i * 32) : make_uint4(0, 0, 0, 0);
        }
    }
};

struct row_of {
    const bf16 *w;
    int matrix, row; /* row within its matrix */
};
/* Row r of the stacked matrices. With `paired`, the first half of a tile is gate and the second half is
 * up. */
__device__ __forceinline__ row_of find_row(const batch_args &a, int tile, int r) {
    row_of f;
    if (a.paired) {
        f.matrix = r / (ROWS / 2);
        f.row = min(tile * (ROWS / 2) + r % (ROWS / 2), a.rows[0] - 1);
    } else {
        int all = tile * ROWS + r;
        f.matrix = 0;
        while (f.matrix + 1 < a.matrices && all >= a.rows[f.matrix]) all -= a.rows[f.matrix++];
        f.row = min(all, a.rows[f.matrix] - 1);
    }
    f.w = (const bf16 *)a.w[f.matrix] + (size_t)f.row * a.k;
    return f;
}

__device__ __forceinline__ void store_sums(const float (&sum)[TOKENS / 8][4], float *to) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int t = 0; t < TOKENS / 8; t++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            to[(row + e / 2 * 8) * SUM_STRIDE + t * 8 + lane % 4 * 2 + e % 2] = sum[t][e];
}

__device__ __forceinline__ float add_ranks(const float *at) {
    float v[RANKS], sum = 0;
#pragma unroll
    for (int r = 0; r < RANKS; r++) v[r] = remote(at, r);
#pragma unroll
    for (int r = 0; r < RANKS; r++) sum += v[r];
    return sum;
}

/* Each block of the cluster completes an eighth of the rows. */
__device__ __forceinline__ void finish_rows(const batch_args &a, const float *sums, int tile, int rank) {
    constexpr int PART = ROWS / RANKS;
    int total = 0;
    for (int m = 0; m < a.matrices; m++) total += a.rows[m];
    for (int i = threadIdx.x; i < PART * TOKENS; i += THREADS) {
        int r = rank * PART + i % PART, token = i / PART, row = tile * ROWS + r;
        float v = add_ranks(sums + r * SUM_STRIDE + token);
        if (token >= a.batch || row >= total) continue;
        row_of f = find_row(a, tile, r);
        if (a.bias[f.matrix]) v += a.bias[f.matrix][f.row];
        float *to = a.y + (size_t)token * total + row;
        *to = a.add ? *to + v : v;
    }
}

__device__ __forceinline__ void finish_pairs(const batch_args &a, const float *sums, int tile, int rank) {
    constexpr int PART = ROWS / 2 / RANKS;
    for (int i = threadIdx.x; i < PART * TOKENS; i += THREADS) {
        int r = rank * PART + i % PART, token = i / PART, row = tile * (ROWS / 2) + r;
        float gate = add_ranks(sums + r * SUM_STRIDE + token);
        float up = add_ranks(sums + (r + ROWS / 2) * SUM_STRIDE + token);
        if (token >= a.batch || row >= a.rows[0]) continue;
        ((bf16 *)a.narrow)[(size_t)token * a.rows[0] + row] = to_bf16(silu(gate) * up);
    }
}

/* The weights of a block in the order in which they are used: its columns of the cluster's first tile, of its
 * second tile, and so on. Loads run ahead of the products, also across tiles. */
struct weights {
    const batch_args &a;
    int tile, at, tiles, step, first, end; /* tile, at: the next load; first, end: columns of the block */
    const bf16 *low, *high;
    __device__ __forceinline__ weights(const batch_args &args, int tiles_, int first_, int end_)
        : a(args), tile(blockIdx.x / RANKS), at(first_), tiles(tiles_), step(gridDim.x / RANKS),
          first(first_), end(end_) {
        find();
    }
    __device__ __forceinline__ void find() {
        int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        low = find_row(a, tile, r).w;
        high = find_row(a, tile, r + 8).w;
    }
    __device__ __forceinline__ void load(piece &p) {
        if (tile >= tiles) return;
        p.load(low, high, at, end);
        at += UNIT;
        if (at < end) return;
        at = first;
        tile += step;
        if (tile < tiles) find();
    }
};

/* Starts to copy columns c0 .. c0 + columns - 1 of x to shared memory and waits for the copy. `stride`: bytes
 * per sequence. */
__device__ __forceinline__ void stage(const batch_args &a, unsigned char *x, int c0, int columns,
                                      int stride) {
    int pieces = columns / 8;
    for (int i = threadIdx.x; i < TOKENS * pieces; i += THREADS) {
        int token = i / pieces, piece8 = i % pieces;
        bool there = token < a.batch;
        copy16(shared_address(x) + token * stride + piece8 * 16,
               (const bf16 *)a.x + (there ? (size_t)token * a.k + c0 + piece8 * 8 : 0), there);
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

extern __shared__ __align__(16) unsigned char memory[];

KERNEL __launch_bounds__(THREADS, 2) batch_linear(const __grid_constant__ batch_args a) {
    int lane = threadIdx.x % 32, rank = blockIdx.x % RANKS, tiles = a.tiles;
    int first = min(a.k, rank * a.share), end = min(a.k, first + a.share), chunk = a.chunk;
    bool whole = chunk == a.share; /* x stays in shared memory; otherwise every tile copies it again */
    int stride = chunk * 2 + BATCH_PAD;
    float *sums = (float *)memory;
    unsigned char *x = memory + BATCH_SUM_BYTES;
    weights w(a, tiles, first, end);
    piece now, next;
    if (first < end) {
        w.load(now);
        w.load(next);
    }
    wait_for_previous();
    let_next_start();
    if (whole && first < end) stage(a, x, first, end - first, stride);
    for (int tile = blockIdx.x / RANKS; tile < tiles; tile += gridDim.x / RANKS) {
        float sum[TOKENS / 8][4] = {};
        for (int c0 = first; c0 < end; c0 += chunk) {
            int columns = min(chunk, end - c0);
            if (!whole) {
                __syncthreads(); /* all warps have used the previous chunk */
                stage(a, x, c0, columns, stride);
            }
            for (int u = 0; u < columns; u += UNIT) {
#pragma unroll
                for (int i = 0; i < UNIT / 32; i++) {
                    if (u + i * 32 >= columns) break;
#pragma unroll
                    for (int t = 0; t < TOKENS / 8; t++) {
                        uint4 b = *(const uint4 *)(x + (t * 8 + lane / 4) * stride + (u + i * 32) * 2 +
                                                   lane % 4 * 16);
                        unsigned w0[4] = { now.low[i].x, now.high[i].x, now.low[i].y, now.high[i].y };
                        unsigned w1[4] = { now.low[i].z, now.high[i].z, now.low[i].w, now.high[i].w };
                        mma(bf16(), sum[t], w0, b.x, b.y);
                        mma(bf16(), sum[t], w1, b.z, b.w);
                    }
                }
                now = next;
                w.load(next);
            }
        }
        if (tile >= (int)(gridDim.x / RANKS))
            cluster_wait(); /* other blocks have read the sums of the last tile */
        store_sums(sum, sums);
        cluster_arrive();
        cluster_wait();
        if (a.paired)
            finish_pairs(a, sums, tile, rank);
        else
            finish_rows(a, sums, tile, rank);
        cluster_arrive(); /* the memory of a block must also exist until others have read it */
    }
    cluster_wait();
}

/* One block per sequence: finds the best token and prepares the next step. */
KERNEL __launch_bounds__(1024) batch_pick(const __grid_constant__ batch_pick_args a) {
    __shared__ u64 room[32];
    begin_kernel();
    const float *logits = a.logits + (size_t)blockIdx.x * a.vocab;
    u64 best = 0;
    for (int i = threadIdx.x; i < a.vocab; i += 1024) {
        float v = __ldcg(logits + i);
        if (v != v) v = -INFINITY;
        unsigned f = __float_as_uint(v);
        f = f & 0x80000000u ? ~f : f | 0x80000000u;
        u64 key = (u64)f << 32 | (0xffffffffu - i);
        best = key > best ? key : best;
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        u64 other = __shfl_xor_sync(~0u, best, d);
        best = other > best ? other : best;
    }
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 32; i++) best = room[i] > best ? room[i] : best;
    decode_state *s = a.state + blockIdx.x;
    int token = (int)(0xffffffffu - (unsigned)best);
    a.tokens[blockIdx.x] = token;
    if (s->step < a.steps) a.out[(size_t)s->step * BATCH_MOST + blockIdx.x] = token;
    s->step++;
    s->position =
        min(s->position + 1, a.max_context - 1); /* a sequence that has ended goes on until the batch ends */
    __threadfence_system();
}
#endif
