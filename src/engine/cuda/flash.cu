/* Attention on tensor cores for heads of 64 or 128 bf16 numbers. A block handles 64 queries of one head;
 * keys and values stream through two stages of shared memory. Hopper uses wgmma, other GPUs mma.
 * With SAM's bias (W > 0), keys are ordered by rows of the grid, each padded to W columns. The bias by key
 * column stays in registers; the bias by key row is looked up once per tile. */
#include "kernel_args.h"
#include "wgmma.cuh"

enum { QUERIES = 64, THREADS = 128 };

/* Returns the address of a 16-byte piece of a row, in a tile of N rows. Columns are stored in groups of 64.
 * The pieces of a row within a group are permuted by the row number, which avoids bank conflicts and is the
 * layout of wgmma. */
template <int N> __device__ __forceinline__ unsigned row_at(unsigned base, int row, int piece) {
    return base + piece / 8 * (N * 128) + row * 128 + ((piece % 8 ^ (row & 7)) << 4);
}

/* Copies N rows of D numbers. Row r is a copy of row source(r); if source(r) is negative, row r becomes
 * zeros. */
template <int D, int N, class F>
__device__ __forceinline__ void copy_rows(unsigned base, const bf16 *from, long ld, const F &source) {
#pragma unroll
    for (int i = 0; i < N * D / 8 / THREADS; i++) {
        int p = threadIdx.x + i * THREADS, row = p / (D / 8), piece = p % (D / 8), at = source(row);
        copy16(row_at<N>(base, row, piece), at >= 0 ? from + at * ld + piece * 8 : from, at >= 0);
    }
}

/* Returns the number of rows of a table, padded to a multiple of 16. */
__device__ __forceinline__ int table_columns(int side) { return (2 * side - 1 + 15) / 16 * 16; }

/* Computes to[64][columns + 1] = factor q table^T for heads of 64 numbers. The table is first copied to
 * shared memory at `room`, as bf16. */
template <int D>
__device__ __forceinline__ void table_product(const unsigned (&fq)[D / 16][4], const float *table, int side,
                                              float factor, unsigned room, float *to) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, columns = table_columns(side), rows = 2 * side - 1;
    __syncthreads(); /* other threads may still read `room` and `to` */
    for (int p = threadIdx.x; p < columns * (D / 8); p += THREADS) {
        int row = p / (D / 8), piece = p % (D / 8);
        float4 a = make_float4(0, 0, 0, 0), b = a;
        if (row < rows) {
            a = *(const float4 *)(table + row * D + piece * 8);
            b = *(const float4 *)(table + row * D + piece * 8 + 4);
        }
        asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(row_at<1>(room, row, piece)),
                     "r"(pack2(a.x, a.y)), "r"(pack2(a.z, a.w)), "r"(pack2(b.x, b.y)), "r"(pack2(b.z, b.w))
                     : "memory");
    }
    __syncthreads();
    for (int c = 0; c < columns; c += 16) {
        float s[2][4] = {};
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            unsigned b[4];
            load_matrix(row_at<1>(room, c + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2), b);
            mma(bf16(), s[0], fq[i], b[0], b[1]);
            mma(bf16(), s[1], fq[i], b[2], b[3]);
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                to[(warp * 16 + lane / 4 + e / 2 * 8) * (columns + 1) + c + j * 8 + lane % 4 * 2 + e % 2] =
                    s[j][e] * factor;
    }
    __syncthreads();
}

#if HAS_WGMMA
#define S(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
__device__ __forceinline__ void scores(float (&s)[32], u64 q, u64 k, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_64
                 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : S(0), S(4), S(8), S(12), S(16), S(20), S(24), S(28)
                 : "l"(q), "l"(k), "r"(keep));
}
__device__ __forceinline__ void scores(float (&s)[40], u64 q, u64 k, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" SUMS_80
                 "}, %40, %41, p, 1, 1, 0, 0;\n}"
                 : S(0), S(4), S(8), S(12), S(16), S(20), S(24), S(28), S(32), S(36)
                 : "l"(q), "l"(k), "r"(keep));
}
/* Computes s += p[64, 16] v[16, 64]. p is in registers, v is a tile of rows in shared memory. */
__device__ __forceinline__ void weigh(float (&s)[32], const unsigned (&p)[4], u64 v) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_64
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : S(0), S(4), S(8), S(12), S(16), S(20), S(24), S(28)
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}
#undef S
#endif

/* Computes s[64, KEYS] = q k^T. */
template <int D, int KEYS>
__device__ __forceinline__ void multiply_keys(float (&s)[KEYS / 2], unsigned sq, unsigned kt,
                                              const unsigned (&fq)[D / 16][4]) {
#if HAS_WGMMA
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        scores(s, describe(sq + i / 4 * (QUERIES * 128) + i % 4 * 32),
               describe(kt + i / 4 * (KEYS * 128) + i % 4 * 32), i);
    wgmma_commit();
    wgmma_wait<0>();
#else
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) s[i] = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++)
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            unsigned b[4];
            load_matrix(row_at<KEYS>(kt, j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2), b);
            mma(bf16(), *(float(*)[4]) & s[j * 8], fq[i], b[0], b[1]);
            mma(bf16(), *(float(*)[4]) & s[j * 8 + 4], fq[i], b[2], b[3]);
        }
#endif
}

/* Computes o[64, D] += s[64, KEYS] v, 16 keys at a time. s is rounded to bf16. */
template <int D, int KEYS>
__device__ __forceinline__ void multiply_values(float (&o)[D / 64][32], const float (&s)[KEYS / 2],
                                                unsigned vt) {
#if HAS_WGMMA
    unsigned p[KEYS / 16][4];
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) p[j][i] = pack2(s[j * 8 + i * 2], s[j * 8 + i * 2 + 1]);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
        for (int h = 0; h < D / 64; h++) weigh(o[h], p[j], describe(vt + h * (KEYS * 128) + j * 2048));
    wgmma_commit();
    wgmma_wait<0>();
#else
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        unsigned p[4];
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = pack2(s[j * 8 + i * 2], s[j * 8 + i * 2 + 1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            unsigned b[4];
            float *to = &o[d / 4][d % 4 * 8];
            load_transposed(row_at<KEYS>(vt, j * 16 + lane % 16, d * 2 + lane / 16), b);
            mma(bf16(), *(float(*)[4])to, p, b[0], b[1]);
            mma(bf16(), *(float(*)[4])(to + 4), p, b[2], b[3]);
        }
    }
#endif
}

template <int D, int KEYS, int W> __device__ void flash(const flash_args &a) {
    /* TILES: tiles of eight keys. GRID_ROWS: rows of the grid per tile of keys. */
    constexpr int TILES = KEYS / 8, GRID_ROWS = W ? KEYS / W : 1;
    constexpr unsigned Q_BYTES = QUERIES * D * 2, K_BYTES = KEYS * D * 2;
    extern __shared__ unsigned char flash_memory[];
    const unsigned sq = (shared_address(flash_memory) + 1023) & ~1023u, sk = sq + Q_BYTES,
                   sv = sk + 2 * K_BYTES;
    float *products = (float *)(flash_memory + (sq - shared_address(flash_memory)) + Q_BYTES +
                                4 * K_BYTES); /* [64][columns + 1], only with a bias */
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y;
    /* The last queries come first: with causal attention they have the most work. */
    int q0 = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    const bf16 *q = (const bf16 *)a.q + blockIdx.z * a.q_batch + head * a.q_head;
    const bf16 *k = (const bf16 *)a.k + blockIdx.z * a.k_batch + head / a.group * a.k_head;
    const bf16 *v = (const bf16 *)a.v + blockIdx.z * a.v_batch + head / a.group * a.v_head;
    const float log2e = 1.4426950408889634f;
    wait_for_previous();
    let_next_start();
    int end = a.base >= 0 ? min(a.nk, a.base + q0 + QUERIES) : a.nk;
    int start = a.base >= 0 && a.window ? max(0, a.base + q0 - a.window + 1) / KEYS * KEYS : 0;
    int tiles = W ? (a.side + GRID_ROWS - 1) / GRID_ROWS : (end - start + KEYS - 1) / KEYS;
    auto copy = [&](int t) {
        if (t < tiles) {
            auto source = [&](int row) {
                int key = start + t * KEYS + row;
                if (W) {
                    int y = t * GRID_ROWS + row / max(W, 1), x = row % max(W, 1);
                    return y < a.side && x < a.side ? y * a.side + x : -1;
                }
                return key < a.nk ? key : -1;
            };
            copy_rows<D, KEYS>(sk + t % 2 * K_BYTES, k, a.k_row, source);
            copy_rows<D, KEYS>(sv + t % 2 * K_BYTES, v, a.v_row, source);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    copy_rows<D, QUERIES>(sq, q, a.q_row, [&](int row) { return q0 + row < a.nq ? q0 + row : -1; });
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (!W) copy(0);
    if (W)
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    async_fence();
    __syncthreads();
    unsigned fq[D / 16][4];
    if (W || !HAS_WGMMA) {
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            load_matrix(row_at<QUERIES>(sq, warp * 16 + lane % 16, i * 2 + lane / 16), fq[i]);
    }
    int row = warp * 16 + lane / 4; /* the lane also has row + 8 */
    float by_column[W ? W / 8 : 1][4];
    int row_index[2] = { 0, 0 }; /* index in `products` of the bias for row 0 of the grid */
    if (W) {
        int columns = table_columns(a.side);
        table_product<D>(fq, a.rel_w, a.side, log2e, sk, products);
#pragma unroll
        for (int j = 0; j < W / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int r = row + e / 2 * 8, x = j * 8 + lane % 4 * 2 + e % 2;
                int qx = min(q0 + r, a.nq - 1) % a.side;
                by_column[j][e] = x < a.side ? products[r * (columns + 1) + qx - x + a.side - 1] : -INFINITY;
            }
        table_product<D>(fq, a.rel_h, a.side, log2e, sk, products);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int r = row + e * 8;
            row_index[e] = r * (columns + 1) + min(q0 + r, a.nq - 1) / a.side + a.side - 1;
        }
        copy(0);
    }
    float o[D / 64][32] = {}, most[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 }, scale = a.scale * log2e;
    for (int t = 0; t < tiles; t++) {
        copy(t + 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        async_fence();
        __syncthreads();
        unsigned kt = sk + t % 2 * K_BYTES, vt = sv + t % 2 * K_BYTES;
        float s[TILES * 4]; /* in the layout of mma: four numbers per tile of eight keys */
        multiply_keys<D, KEYS>(s, sq, kt, fq);
        float top[2] = { most[0], most[1] };
        if (W) {
            float by_row[GRID_ROWS][2];
#pragma unroll
            for (int g = 0; g < GRID_ROWS; g++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int y = t * GRID_ROWS + g;
                    by_row[g][e] = y < a.side ? products[row_index[e] - y] : -INFINITY;
                }
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float x = fmaf(s[j * 4 + e], scale, by_column[j % (W ? W / 8 : 1)][e]);
                    s[j * 4 + e] = x += by_row[j * 8 / (W ? W : KEYS)][e / 2];
                    top[e / 2] = fmaxf(top[e / 2], x);
                }
        } else {
            int key0 = start + t * KEYS;
            bool edge = key0 + KEYS > a.nk ||
                        (a.base >= 0 && (key0 + KEYS > a.base + q0 + 1 ||
                                         (a.window && key0 <= a.base + q0 + QUERIES - a.window)));
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float x = s[j * 4 + e] * scale;
                    if (edge) {
                        int key = key0 + j * 8 + lane % 4 * 2 + e % 2;
                        int last = a.base >= 0 ? a.base + q0 + row + e / 2 * 8 : a.nk - 1;
                        if (key >= a.nk || key > last || (a.base >= 0 && a.window && key <= last - a.window))
                            x = -INFINITY;
                    }
                    s[j * 4 + e] = x;
                    top[e / 2] = fmaxf(top[e / 2], x);
                }
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            top[e] = fmaxf(top[e], __shfl_xor_sync(~0u, top[e], 1));
            top[e] = fmaxf(top[e], __shfl_xor_sync(~0u, top[e], 2));
            float base = top[e] == -INFINITY ? 0.0f : top[e], keep = exp2f(most[e] - base);
            most[e] = top[e];
            sum[e] *= keep;
#pragma unroll
            for (int j = 0; j < D / 8; j++) {
                o[j / 8][j % 8 * 4 + e * 2] *= keep;
                o[j / 8][j % 8 * 4 + e * 2 + 1] *= keep;
            }
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int c = 0; c < 2; c++)
                    sum[e] += s[j * 4 + e * 2 + c] = exp2f(s[j * 4 + e * 2 + c] - base);
        }
        multiply_values<D, KEYS>(o, s, vt);
        __syncthreads(); /* the next copy overwrites this stage */
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        sum[e] += __shfl_xor_sync(~0u, sum[e], 1);
        sum[e] += __shfl_xor_sync(~0u, sum[e], 2);
        int r = q0 + row + e * 8;
        long at = blockIdx.z * a.out_batch + head * a.out_head + min(r, a.nq - 1) * a.out_row;
        float inverse = 1.0f / sum[e];
        if (!a.narrow) {
            float *out = (float *)a.out + at;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
                if (r < a.nq)
                    *(float2 *)(out + j * 8 + lane % 4 * 2) = make_float2(
                        o[j / 8][j % 8 * 4 + e * 2] * inverse, o[j / 8][j % 8 * 4 + e * 2 + 1] * inverse);
            continue;
        }
        bf16 *out = (bf16 *)a.out + at;
#pragma unroll
        for (int j = 0; j < D / 8; j += 4) {
            unsigned u[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *from = &o[j / 8][(j % 8 + i) * 4 + e * 2];
                u[i] = pack2(from[0] * inverse, from[1] * inverse);
            }
            exchange4(u);
            if (r < a.nq) *(uint4 *)(out + (j + lane % 4) * 8) = make_uint4(u[0], u[1], u[2], u[3]);
        }
    }
    end_kernel(threadIdx.x == 0);
}
#define FLASH(name, D, KEYS, W, BLOCKS)                                                    \
    KERNEL __launch_bounds__(THREADS, BLOCKS) name(const __grid_constant__ flash_args a) { \
        flash<D, KEYS, W>(a);                                                              \
    }
FLASH(flash_64, 64, 64, 0, 3)
FLASH(flash_128, 128, 64, 0, 2)
FLASH(flash_grid_16, 64, 64, 16, 3) /* the number in the name is the maximum number of grid columns */
FLASH(flash_grid_32, 64, 64, 32, 3)
FLASH(flash_grid_40, 64, 80, 40, 3)
FLASH(flash_grid_64, 64, 64, 64, 3)
FLASH(flash_grid_80, 64, 80, 80, 2)
