/* Products on Hopper's tensor cores: y[m, n] = x[m, k] W[n, k]^T for 16-bit x and W, in tiles of 128 rows
 * and BN columns. Warp group 0 copies parts of x and W into a ring of stages in shared memory. Groups 1
 * and 2 multiply 64 rows each. Group 2 starts two steps later, so that one group stores its sums while the
 * other one multiplies. Two mbarriers per stage signal that the stage is full or empty. */
#include "gemm_tail.cuh"
#include "tma.cuh"

enum { GEMM_THREADS = 384, ROWS = 128, DEEP = 64, CONSUMER_WARPS = 8, HALF_BYTES = 128 * 128 };

#if HAS_WGMMA
/* ---- wgmma */
#define F4(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3])
#define F16(a, i) F4(a, i), F4(a, i + 4), F4(a, i + 8), F4(a, i + 12)
#define F64(a, i) F16(a, i), F16(a, i + 16), F16(a, i + 32), F16(a, i + 48)
/* sums[64, N] (+)= x[64, 16] w[N, 16]^T; with `keep` 0 the old sums are discarded. */
#define WGMMA_128(sums, x, w, keep, type)                                                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                               \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SUMS_128 \
                 "}, %64, %65, p, 1, 1, 0, 0;\n}"                                           \
                 : F64(sums, 0)                                                             \
                 : "l"(x), "l"(w), "r"(keep))
#define WGMMA_256(sums, x, w, keep, type)                                                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                              \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" SUMS_256 \
                 "}, %128, %129, p, 1, 1, 0, 0;\n}"                                         \
                 : F64(sums, 0), F64(sums, 64)                                              \
                 : "l"(x), "l"(w), "r"(keep))
__device__ __forceinline__ void multiply(bf16, float (&sums)[64], u64 x, u64 w, int keep) {
    WGMMA_128(sums, x, w, keep, "bf16");
}
__device__ __forceinline__ void multiply(bf16, float (&sums)[128], u64 x, u64 w, int keep) {
    WGMMA_256(sums, x, w, keep, "bf16");
}
__device__ __forceinline__ void multiply(__half, float (&sums)[64], u64 x, u64 w, int keep) {
    WGMMA_128(sums, x, w, keep, "f16");
}
__device__ __forceinline__ void multiply(__half, float (&sums)[128], u64 x, u64 w, int keep) {
    WGMMA_256(sums, x, w, keep, "f16");
}

/* ---- tiles */
struct tile {
    int m0, end, n0, matrix; /* rows from `end` on are not stored */
    const tensor_map *w[2];  /* w[1]: for the second 128 columns of the tile */
    int row[2];              /* first rows of w[0] and w[1] */
};

/* The tiles of all blocks. */
template <int BN> struct tile_list {
    const wgmma_args &g;
    int row_tiles, columns, all;
    __device__ __forceinline__ tile_list(const wgmma_args &args) : g(args) {
        row_tiles = g.experts ? g.tiles[0] : (g.m + ROWS - 1) / ROWS;
        columns = 0;
        for (int i = 0; i < (g.paired ? 1 : g.matrices); i++) columns += column_tiles(i);
        all = row_tiles * columns;
    }
    __device__ __forceinline__ int column_tiles(int matrix) const {
        int width = g.paired ? BN / 2 : BN;
        return (g.out[matrix].n + width - 1) / width;
    }
    __device__ __forceinline__ tile at(int t) const {
        tile v;
        int row = g.by_columns ? t / columns : t % row_tiles,
            column = g.by_columns ? t % columns : t / row_tiles;
        int expert = 0;
        v.matrix = 0;
        while (!g.paired && column >= column_tiles(v.matrix)) column -= column_tiles(v.matrix++);
        if (g.experts) {
            expert = g.tiles[1 + 2 * row];
            v.m0 = g.tiles[2 + 2 * row];
            v.end = g.first[expert + 1];
        } else {
            v.m0 = row * ROWS;
            v.end = g.m;
        }
        const tensor_map *w = g.experts ? g.experts + expert * 3 + g.which : g.w + v.matrix;
        v.n0 = column * (g.paired ? BN / 2 : BN);
        v.w[0] = w;
        v.w[1] = g.paired ? w + 1 : w;
        v.row[0] = v.n0;
        v.row[1] = g.paired ? v.n0 : v.n0 + 128;
        return v;
    }
};

/* A place in the ring of stages. `phase` changes with each round. */
template <int STAGES> struct ring {
    int stage = 0, phase = 0;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

template <class T, int BN> __device__ void gemm_wgmma(const wgmma_args &g) {
    constexpr int STAGES = BN == 256 ? 4 : 6, STAGE_BYTES = HALF_BYTES * (1 + BN / 128);
    extern __shared__ unsigned char memory[];
    unsigned base = (shared_address(memory) + 1023) & ~1023u, full = base + STAGES * STAGE_BYTES,
             empty = full + 8 * STAGES;
    int group = threadIdx.x / 128, steps = (g.k + DEEP - 1) / DEEP;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    wait_for_previous();
    let_next_start();
    tile_list<BN> list(g);
    ring<STAGES> at;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x) return;
        for (int t = blockIdx.x; t < list.all; t += gridDim.x) {
            tile v = list.at(t);
            for (int s = 0; s < steps; s++, at.next()) {
                unsigned to = base + at.stage * STAGE_BYTES, bar = full + 8 * at.stage;
                barrier_wait(empty + 8 * at.stage, at.phase ^ 1);
                barrier_expect(bar, STAGE_BYTES);
                copy_tile(to, &g.x, bar, s * DEEP, v.m0);
                copy_tile(to + HALF_BYTES, v.w[0], bar, s * DEEP, v.row[0]);
                if (BN == 256) copy_tile(to + 2 * HALF_BYTES, v.w[1], bar, s * DEEP, v.row[1]);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float sums[BN / 2];
    if (group == 2 && (int)blockIdx.x < list.all) asm volatile("bar.sync 1, 256;" ::: "memory");
    for (int t = blockIdx.x; t < list.all; t += gridDim.x) {
        unsigned before = 0; /* "empty" barrier of the stage that the previous step used; 0: first step */
        for (int s = 0; s < steps; s++, at.next()) {
            unsigned x = base + at.stage * STAGE_BYTES + (group - 1) * 64 * 128,
                     w = base + at.stage * STAGE_BYTES + HALF_BYTES;
            barrier_wait(full + 8 * at.stage, at.phase);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < DEEP / 16; k++)
                multiply(T(), sums, describe(x + k * 32), describe(w + k * 32), s | k);
            wgmma_commit();
            wgmma_wait<1>();
            if (before && lane == 0) barrier_arrive(before);
            before = empty + 8 * at.stage;
            if (group == 1 && t == (int)blockIdx.x && s == min(1, steps - 1))
                asm volatile("bar.arrive 1, 256;" ::: "memory");
        }
        wgmma_wait<0>();
        if (lane == 0) barrier_arrive(before);
        tile v = list.at(t);
        const gemm_out &o = g.out[v.matrix];
        int row = v.m0 + (group - 1) * 64 + warp * 16 + lane / 4, column = v.n0 + lane % 4 * 2;
        if (BN == 256 && g.paired) {
#pragma unroll
            for (int i = 0; i < BN / 4; i++) sums[i] = silu(sums[i]) * sums[i + BN / 4];
            store_sums<BN / 16>(o, sums, row, v.end, column);
        } else {
            add_bias<BN / 8>(o, sums, column);
            activate<BN / 8>(o, sums);
            store_sums<BN / 8>(o, sums, row, v.end, column);
        }
    }
    end_kernel(threadIdx.x % 128 == 0);
}
/* ---- products with few tiles: two blocks share a tile of 128 columns, each takes half of the steps, and the
 * first one adds the sums of the second one and stores them. */
__device__ __forceinline__ float remote(const float *p, unsigned rank) {
    unsigned there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there));
    return v;
}
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

template <class T> __device__ void gemm_split(const wgmma_args &g) {
    constexpr int BN = 128, STAGES = 6, STAGE_BYTES = HALF_BYTES * 2, CONSUMERS = 256;
    extern __shared__ unsigned char memory[];
    unsigned base = (shared_address(memory) + 1023) & ~1023u, full = base + STAGES * STAGE_BYTES,
             empty = full + 8 * STAGES;
    int group = threadIdx.x / 128, steps = (g.k + DEEP - 1) / DEEP, rank = blockIdx.x % 2;
    int first = rank ? (steps + 1) / 2 : 0, end = rank ? steps : (steps + 1) / 2;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    wait_for_previous();
    let_next_start();
    tile_list<BN> list(g);
    tile v = list.at(blockIdx.x / 2);
    ring<STAGES> at;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x) return;
        for (int s = first; s < end; s++, at.next()) {
            unsigned to = base + at.stage * STAGE_BYTES, bar = full + 8 * at.stage;
            barrier_wait(empty + 8 * at.stage, at.phase ^ 1);
            barrier_expect(bar, STAGE_BYTES);
            copy_tile(to, &g.x, bar, s * DEEP, v.m0);
            copy_tile(to + HALF_BYTES, v.w[0], bar, s * DEEP, v.row[0]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, me = threadIdx.x - 128;
    float sums[BN / 2];
    unsigned before = 0; /* as in gemm_wgmma() */
    for (int s = first; s < end; s++, at.next()) {
        unsigned x = base + at.stage * STAGE_BYTES + (group - 1) * 64 * 128,
                 w = base + at.stage * STAGE_BYTES + HALF_BYTES;
        barrier_wait(full + 8 * at.stage, at.phase);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < DEEP / 16; k++)
            multiply(T(), sums, describe(x + k * 32), describe(w + k * 32), (s - first) | k);
        wgmma_commit();
        wgmma_wait<1>();
        if (before && lane == 0) barrier_arrive(before);
        before = empty + 8 * at.stage;
    }
    wgmma_wait<0>();
    asm volatile("bar.sync 2, 256;" ::
                     : "memory"); /* both groups have read all stages, whose memory is used again */
    float *room = (float *)(memory + (base - shared_address(memory)));
    if (rank)
#pragma unroll
        for (int i = 0; i < BN / 2; i++) room[i * CONSUMERS + me] = sums[i];
    cluster_barrier();
    if (!rank) {
#pragma unroll
        for (int i = 0; i < BN / 2; i++) sums[i] += remote(room + i * CONSUMERS + me, 1);
    }
    cluster_barrier(); /* the second block must not end before its sums are read */
    if (rank) return;
    const gemm_out &o = g.out[v.matrix];
    int row = v.m0 + (group - 1) * 64 + warp * 16 + lane / 4, column = v.n0 + lane % 4 * 2;
    add_bias<BN / 8>(o, sums, column);
    activate<BN / 8>(o, sums);
    store_sums<BN / 8>(o, sums, row, v.end, column);
    end_kernel(threadIdx.x % 128 == 0);
}
#define GEMM_SPLIT(name, T) \
    KERNEL __launch_bounds__(GEMM_THREADS, 1) name(const __grid_constant__ wgmma_args g) { gemm_split<T>(g); }
#define GEMM(name, T, BN)                                                                  \
    KERNEL __launch_bounds__(GEMM_THREADS, 1) name(const __grid_constant__ wgmma_args g) { \
        gemm_wgmma<T, BN>(g);                                                              \
    }
#else /* other GPUs use gemm.cu */
#define GEMM(name, T, BN) \
    KERNEL name(const __grid_constant__ wgmma_args) {}
#define GEMM_SPLIT(name, T) \
    KERNEL name(const __grid_constant__ wgmma_args) {}
#endif
GEMM_SPLIT(wgmma_split_bf16, bf16)
GEMM_SPLIT(wgmma_split_f16, __half)
GEMM(wgmma_bf16_128, bf16, 128)
GEMM(wgmma_bf16_256, bf16, 256)
GEMM(wgmma_f16_128, __half, 128)
GEMM(wgmma_f16_256, __half, 256)
