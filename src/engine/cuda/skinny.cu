/* Products of up to 32 rows of x with one to three matrices on Hopper, limited by reading the weights:
 * y[batch, n] = x[batch, k] W[n, k]^T. A task is TILES tiles of 64 rows of W and a slice of the columns;
 * its sums stay in registers. One thread copies tiles of 64 columns of W and x to a ring in shared
 * memory, four warps multiply them, with W as the first operand of wgmma. The copies of weights start
 * before the results of the previous kernel are there, and run ahead across tasks. For fp8 weights a
 * step has 128 columns, and the four warps convert them to bf16 in registers. Slices write their sums to
 * different places; the kernel that reads them adds them in a fixed order, so the same input gives the
 * same bits. */
#include "skinny_layout.h"
#include "tma.cuh"

#if HAS_WGMMA
enum { CONSUMERS = 128, TILE_ROWS = SKINNY_TILE, TILE_BYTES = SKINNY_TILE * 128, DEEP = SKINNY_STEP };

#define F4(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3])
__device__ __forceinline__ void multiply(float (&sum)[4], u64 w, u64 x, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, "
                 "0;\n}"
                 : F4(sum, 0)
                 : "l"(w), "l"(x), "r"(keep));
}
__device__ __forceinline__ void multiply(float (&sum)[8], u64 w, u64 x, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, p, 1, 1, 0, 0;\n}"
                 : F4(sum, 0), F4(sum, 4)
                 : "l"(w), "l"(x), "r"(keep));
}
__device__ __forceinline__ void multiply(float (&sum)[16], u64 w, u64 x, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
                 "%9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n}"
                 : F4(sum, 0), F4(sum, 4), F4(sum, 8), F4(sum, 12)
                 : "l"(w), "l"(x), "r"(keep));
}

/* The same with W in registers, as bf16: w[0] and w[2] are columns 2 q and 2 q + 8, and the next ones, of row
 * lane / 4 of the warp's 16 rows, with q = lane % 4; w[1] and w[3] are those of row lane / 4 + 8. */
__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&w)[4], u64 x, int keep) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, "
        "p, 1, 1, 0;\n}"
        : F4(sum, 0)
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x), "r"(keep));
}
__device__ __forceinline__ void multiply(float (&sum)[8], const unsigned (&w)[4], u64 x, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, %12, p, 1, 1, 0;\n}"
                 : F4(sum, 0), F4(sum, 4)
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x), "r"(keep));
}
__device__ __forceinline__ void multiply(float (&sum)[16], const unsigned (&w)[4], u64 x, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
                 "%9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}"
                 : F4(sum, 0), F4(sum, 4), F4(sum, 8), F4(sum, 12)
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x), "r"(keep));
}

/* Copies a tile of both matrices (map_pairs() in skinny.c). `group`: first group of eight rows of each. */
__device__ __forceinline__ void copy_pairs(unsigned to, const tensor_map *map, unsigned bar, int column,
                                           int group) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%3, %4, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(column), "r"(0), "r"(group)
                 : "memory");
}

/* A place in a ring of stages. `phase` changes with each round. */
struct ring_place {
    int stage, phase;
    __device__ __forceinline__ void next(int stages) {
        if (++stage == stages) {
            stage = 0;
            phase ^= 1;
        }
    }
};

__device__ __forceinline__ skinny_task task_of(const skinny_args &a, int t, int tiles) {
    return skinny_task_of(t, tiles, a.tiles, a.slices, a.steps);
}

__device__ __forceinline__ int matrix_of(const skinny_args &a, int tile) {
    int m = 0;
    while (m + 1 < a.matrices && tile >= a.first_tile[m + 1]) m++;
    return m;
}

/* A row of a tile has 128 bytes: X * DEEP columns, where X is 1 for bf16 and 2 for fp8 weights. */
template <int TILES, int X>
__device__ __forceinline__ void copy_weights(const skinny_args &a, const skinny_task &t, int step,
                                             unsigned to, unsigned bar) {
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        if (j >= t.tiles) break;
        int tile = t.first_tile + j;
        if (a.paired) {
            copy_pairs(to + j * TILE_BYTES, &a.w[0], bar, step * X * DEEP, tile * (TILE_ROWS / 16));
        } else {
            int m = matrix_of(a, tile);
            copy_tile(to + j * TILE_BYTES, &a.w[m], bar, step * X * DEEP,
                      (tile - a.first_tile[m]) * TILE_ROWS);
        }
    }
}

/* The tiles of x for a step: X of N rows and DEEP columns. */
template <int N, int X>
__device__ __forceinline__ void copy_x(const skinny_args &a, int step, unsigned to, unsigned bar) {
#pragma unroll
    for (int i = 0; i < X; i++) copy_tile(to + i * N * 128, &a.x, bar, (step * X + i) * DEEP, 0);
}

/* One thread. */
template <int N, int TILES, int X>
__device__ __forceinline__ void produce(const skinny_args &a, unsigned base, unsigned full, unsigned empty) {
    constexpr int X_BYTES = X * N * 128, STAGE_BYTES = TILES * TILE_BYTES + X_BYTES;
    int t = blockIdx.x, stages = a.stages, early = 0;
    if (t < a.tasks) {
        skinny_task v = task_of(a, t, TILES);
        early = min(stages, v.end - v.step);
        for (int s = 0; s < early; s++) {
            barrier_expect(full + 8 * s, v.tiles * TILE_BYTES + X_BYTES);
            copy_weights<TILES, X>(a, v, v.step + s, base + s * STAGE_BYTES, full + 8 * s);
        }
    }
    wait_for_previous();
    let_next_start();
    ring_place at = { early % stages, early / stages };
    for (; t < a.tasks; t += gridDim.x) {
        skinny_task v = task_of(a, t, TILES);
        for (int s = 0; s < early; s++)
            copy_x<N, X>(a, v.step + s, base + s * STAGE_BYTES + TILES * TILE_BYTES, full + 8 * s);
        for (int step = v.step + early; step < v.end; step++, at.next(stages)) {
            unsigned to = base + at.stage * STAGE_BYTES, bar = full + 8 * at.stage;
            barrier_wait(empty + 8 * at.stage, at.phase ^ 1);
            barrier_expect(bar, v.tiles * TILE_BYTES + X_BYTES);
            copy_weights<TILES, X>(a, v, step, to, bar);
            copy_x<N, X>(a, step, to + TILES * TILE_BYTES, bar);
        }
        early = 0;
    }
}

/* In a thread's sums[N / 2] of a tile, number i belongs to row lane / 4 + i / 2 % 2 * 8 of the warp's 16 rows
 * and to sequence i / 4 * 8 + lane % 4 * 2 + i % 2. */
template <int N>
__device__ __forceinline__ void store_rows(const skinny_args &a, const float (&sum)[N / 2], int tile,
                                           int slice) {
    int lane = threadIdx.x % 32, m = matrix_of(a, tile);
    int row = (tile - a.first_tile[m]) * TILE_ROWS + threadIdx.x / 32 * 16 + lane / 4;
    float *y = a.y + slice * a.slice_stride + a.first_row[m];
    const float *bias = slice == 0 ? a.bias[m] : nullptr;
#pragma unroll
    for (int half = 0; half < 2; half++, row += 8) {
        if (row >= a.rows[m]) return;
        float b = bias ? bias[row] : 0.0f;
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            int token = i / 2 * 8 + lane % 4 * 2 + i % 2;
            if (token < a.batch) y[(size_t)token * a.all_rows + row] = sum[i / 2 * 4 + half * 2 + i % 2] + b;
        }
    }
}

/* Groups of eight rows of both matrices alternate, so a thread has gate and up of the same row. */
template <int N>
__device__ __forceinline__ void store_pairs(const skinny_args &a, const float (&sum)[N / 2], int tile) {
    int lane = threadIdx.x % 32, row = tile * (TILE_ROWS / 2) + threadIdx.x / 32 * 8 + lane / 4;
    bf16 *y = (bf16 *)a.narrow;
    if (row >= a.rows[0]) return;
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        int token = i / 2 * 8 + lane % 4 * 2 + i % 2;
        float first = sum[i / 2 * 4 + i % 2], second = sum[i / 2 * 4 + 2 + i % 2];
        float v = a.swapped ? silu(second) * first : silu(first) * second;
        if (token < a.batch) y[(size_t)token * a.rows[0] + row] = to_bf16(v);
    }
}

template <int N, int TILES>
__device__ __forceinline__ void store_task(const skinny_args &a, const skinny_task &v,
                                           const float (&sums)[TILES][N / 2]) {
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        if (j >= v.tiles) break;
        if (a.paired)
            store_pairs<N>(a, sums[j], v.first_tile + j);
        else
            store_rows<N>(a, sums[j], v.first_tile + j, v.slice);
    }
}

template <int N, int TILES>
__device__ __forceinline__ void consume(const skinny_args &a, unsigned base, unsigned full, unsigned empty) {
    constexpr int STAGE_BYTES = TILES * TILE_BYTES + N * 128;
    float sums[TILES][N / 2];
    ring_place at = { 0, 0 };
    wait_for_previous();
    let_next_start();
    for (int t = blockIdx.x; t < a.tasks; t += gridDim.x) {
        skinny_task v = task_of(a, t, TILES);
        unsigned before = 0; /* "empty" barrier of the stage that the previous step used; 0: first step */
        for (int step = v.step; step < v.end; step++, at.next(a.stages)) {
            unsigned w = base + at.stage * STAGE_BYTES, x = w + TILES * TILE_BYTES;
            barrier_wait(full + 8 * at.stage, at.phase);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < DEEP / 16; k++)
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    multiply(sums[j], describe(w + j * TILE_BYTES + k * 32), describe(x + k * 32),
                             (step - v.step) | k);
            wgmma_commit();
            wgmma_wait<1>();
            if (before && threadIdx.x % 32 == 0) barrier_arrive(before);
            before = empty + 8 * at.stage;
        }
        wgmma_wait<0>();
        if (before && threadIdx.x % 32 == 0) barrier_arrive(before);
        store_task<N, TILES>(a, v, sums);
    }
}

/* ---- fp8 weights */
enum { HALF_STEPS = DEEP / 16 }; /* products of 16 columns in half a step */
typedef unsigned half_tile[HALF_STEPS][4];

/* Converts this thread's part of 64 of a tile's 128 columns to bf16, without their scales. */
__device__ __forceinline__ void load_half(half_tile &to, unsigned tile, int half) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int k = 0; k < HALF_STEPS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            /* 16-byte pieces are permuted by the row number */
            unsigned short pair;
            unsigned at = tile + (row + i % 2 * 8) * 128 + (((half * HALF_STEPS + k) ^ (row & 7)) << 4) +
                          i / 2 * 8 + lane % 4 * 2;
            asm volatile("ld.shared.u16 %0, [%1];" : "=h"(pair) : "r"(at) : "memory");
            float2 v = f8_pair(pair);
            to[k][i] = pack2(v.x, v.y);
        }
}

template <int N>
__device__ __forceinline__ void multiply_half(float (&sum)[N / 2], const half_tile &w, unsigned x, int half) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < HALF_STEPS; k++) multiply(sum, w[k], describe(x + half * N * 128 + k * 32), half | k);
    wgmma_commit();
}

/* The scales of the two rows of a tile whose sums a thread has. */
struct tile_scales {
    const float *at[2];
    int shift[2];
    __device__ __forceinline__ void find(const skinny_args &a, int tile) {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m = a.paired ? 0 : matrix_of(a, tile);
        int row = a.paired ? tile * (TILE_ROWS / 2) + warp * 8 + lane / 4
                           : (tile - a.first_tile[m]) * TILE_ROWS + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const scale_table &s = a.scale[a.paired ? i ^ a.swapped : m];
            at[i] = scale_row(s, min(a.paired ? row : row + i * 8, a.rows[m] - 1));
            shift[i] = s.shift;
        }
    }
    __device__ __forceinline__ float of(int i, int step) const {
        return __ldg(at[i] + (step * (2 * DEEP / 8) >> shift[i]));
    }
};

/* While the products of one half of a tile run, the next half is converted. Every thread reads the
 * tiles, so every thread arrives at the "empty" barriers. */
template <int N, int TILES>
__device__ __forceinline__ void consume_fp8(const skinny_args &a, unsigned base, unsigned full,
                                            unsigned empty) {
    constexpr int STAGE_BYTES = TILES * TILE_BYTES + 2 * N * 128;
    ring_place at = { 0, 0 };
    wait_for_previous();
    let_next_start();
    for (int t = blockIdx.x; t < a.tasks; t += gridDim.x) {
        skinny_task v = task_of(a, t, TILES);
        float sums[TILES][N / 2] = {}, part[N / 2];
        half_tile first, second;
        tile_scales scales[TILES];
#pragma unroll
        for (int j = 0; j < TILES; j++) scales[j].find(a, min(v.first_tile + j, a.tiles - 1));
        barrier_wait(full + 8 * at.stage, at.phase);
        load_half(first, base + at.stage * STAGE_BYTES, 0);
        for (int step = v.step; step < v.end; step++) {
            unsigned stage = base + at.stage * STAGE_BYTES, x = stage + TILES * TILE_BYTES,
                     done = empty + 8 * at.stage;
            at.next(a.stages);
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                float by[2] = { scales[j].of(0, step), scales[j].of(1, step) };
                multiply_half<N>(part, first, x, 0);
                load_half(second, stage + j * TILE_BYTES, 1);
                multiply_half<N>(part, second, x, 1);
                wgmma_wait<1>(); /* `first` is free again */
                if (j + 1 < TILES) {
                    load_half(first, stage + (j + 1) * TILE_BYTES, 0);
                } else if (step + 1 < v.end) {
                    barrier_wait(full + 8 * at.stage, at.phase);
                    load_half(first, base + at.stage * STAGE_BYTES, 0);
                }
                wgmma_wait<0>();
#pragma unroll
                for (int i = 0; i < N / 2; i++) sums[j][i] = fmaf(part[i], by[i / 2 % 2], sums[j][i]);
            }
            barrier_arrive(done);
        }
        store_task<N, TILES>(a, v, sums);
    }
}

/* X: as in copy_weights() */
template <int N, int TILES, int X> __device__ void skinny(const skinny_args &a) {
    constexpr int STAGE_BYTES = TILES * TILE_BYTES + X * N * 128;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned base = shared_address(memory), full = base + a.stages * STAGE_BYTES, empty = full + 8 * a.stages;
    if (threadIdx.x == CONSUMERS) {
        for (int s = 0; s < a.stages; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, X == 1 ? CONSUMERS / 32 : CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < CONSUMERS) {
        if (X == 1)
            consume<N, TILES>(a, base, full, empty);
        else
            consume_fp8<N, TILES>(a, base, full, empty);
    } else if (threadIdx.x == CONSUMERS) {
        produce<N, TILES, X>(a, base, full, empty);
    }
}
#define SKINNY(name, N, TILES, X)                                     \
    KERNEL __launch_bounds__(SKINNY_THREADS, 1)                       \
        name##_##N##_##TILES(const __grid_constant__ skinny_args a) { \
        skinny<N, TILES, X>(a);                                       \
    }
#else /* decode_batch.c does not use them on other GPUs */
#define SKINNY(name, N, TILES, X) \
    KERNEL name##_##N##_##TILES(const __grid_constant__ skinny_args) {}
#endif
#define SKINNY_TILES(name, N, X) SKINNY(name, N, 1, X) SKINNY(name, N, 2, X) SKINNY(name, N, 3, X)
#define SKINNY_ALL(N) SKINNY_TILES(skinny, N, 1) SKINNY_TILES(skinny_fp8, N, 2)
SKINNY_ALL(8)
SKINNY_ALL(16)
SKINNY_ALL(32)

/* One block per sequence: adds the parts of the last product to x (if there is one), then the norm. */
KERNEL __launch_bounds__(512) skinny_norm(const __grid_constant__ skinny_norm_args a) {
    constexpr int THREADS = 512, ROUNDS = 4;
    __shared__ float room[THREADS / 32];
    size_t row = (size_t)blockIdx.x * a.n;
    const float *parts = a.parts + blockIdx.x * a.part_row;
    float4 v[ROUNDS], g[ROUNDS];
    float sum = 0;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        g[r] = at < a.n ? __ldg((const float4 *)(a.w + at)) : make_float4(0, 0, 0, 0);
    }
    wait_for_previous();
    let_next_start();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        float4 p[PARTS_MOST];
        v[r] = make_float4(0, 0, 0, 0);
        if (at >= a.n) continue;
        if (a.x) v[r] = __ldcg((const float4 *)(a.x + row + at));
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++)
            p[i] = i < a.nparts ? __ldcg((const float4 *)(parts + i * a.part_stride + at))
                                : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++) {
            v[r].x += p[i].x;
            v[r].y += p[i].y;
            v[r].z += p[i].z;
            v[r].w += p[i].w;
        }
        sum += v[r].x * v[r].x + v[r].y * v[r].y + v[r].z * v[r].z + v[r].w * v[r].w;
    }
    float scale = rsqrtf(block_sum(sum, room) / a.n + a.eps);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        if (at >= a.n) continue;
        if (a.x && a.nparts) *(float4 *)(a.x + row + at) = v[r];
        *(uint2 *)((bf16 *)a.y + row + at) =
            make_uint2(pack2(v[r].x * scale * g[r].x, v[r].y * scale * g[r].y),
                       pack2(v[r].z * scale * g[r].z, v[r].w * scale * g[r].w));
    }
}
