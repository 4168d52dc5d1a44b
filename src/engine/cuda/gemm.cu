/* y[m, n] = x[m, k] W[n, k]^T, stored as struct gemm_out describes. gemm_bf16, gemm_f16 and gemm_small_*
 * use tensor cores; their x has 16-bit numbers. With `parts` 2, x is the sum of two such numbers,
 * [m][2][k], which doubles the work and gives 16 bits of mantissa. gemm_any_* use float arithmetic, for
 * float weights and for k that is not a multiple of 8. */
#include "gemm_tail.cuh"

enum { TILE = 128, DEEP = 64, STAGES = 3 };

/* ---- conversion of x, eight numbers per thread; rows are divided over blockIdx.y. With parts 2 the
 * result is [hi | lo], and hi + lo equals x up to 16 bits. */
template <class T>
__device__ void convert(const float *x, long ldx, int m, int k, int aligned, int parts, T *out) {
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (c >= k) return;
    for (int r = blockIdx.y; r < m; r += gridDim.y) {
        const float *from = x + r * ldx + c;
        T *to = out + (size_t)r * parts * k + c;
        float v[8];
        if (aligned) {
            *(float4 *)v = *(const float4 *)from;
            *(float4 *)(v + 4) = *(const float4 *)(from + 4);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] = from[i];
        }
        __align__(16) T hi[8];
#pragma unroll
        for (int i = 0; i < 8; i++) hi[i] = from_float<T>(v[i]);
        *(uint4 *)to = *(const uint4 *)hi;
        if (parts == 1) continue;
#pragma unroll
        for (int i = 0; i < 8; i++) hi[i] = from_float<T>(v[i] - to_float(hi[i]));
        *(uint4 *)(to + k) = *(const uint4 *)hi;
    }
}
KERNEL convert_bf16(const float *x, long ldx, int m, int k, int aligned, int parts, bf16 *out) {
    begin_kernel();
    convert(x, ldx, m, k, aligned, parts, out);
}
KERNEL convert_f16(const float *x, long ldx, int m, int k, int aligned, int parts, __half *out) {
    begin_kernel();
    convert(x, ldx, m, k, aligned, parts, out);
}

/* ---- fp8 matrices, one per blockIdx.y, with their scales as numbers of type T; list NULL: only `one` */
__device__ __forceinline__ void store8(bf16 *to, const float *f) {
    unsigned u[4];
#pragma unroll
    for (int i = 0; i < 4; i++) u[i] = (unsigned)to_bf16(f[2 * i]) | (unsigned)to_bf16(f[2 * i + 1]) << 16;
    *(uint4 *)to = make_uint4(u[0], u[1], u[2], u[3]);
}
__device__ __forceinline__ void store8(float *to, const float *f) {
    *(float4 *)to = make_float4(f[0], f[1], f[2], f[3]);
    *(float4 *)(to + 4) = make_float4(f[4], f[5], f[6], f[7]);
}
template <class T> __device__ void widen(const widen_args &one, const widen_args *list) {
    const widen_args &a = list ? list[blockIdx.y] : one;
    size_t across = a.cols / 8, all = a.rows * across;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all;
         i += (size_t)gridDim.x * blockDim.x) {
        int row = (int)(i / across), j = (int)(i - row * across);
        float f[8], by = __ldg(scale_row(a.scale, row) + (j >> a.scale.shift));
        unpack8<f8>(load8<f8>((const f8 *)a.w + i * 8), f);
#pragma unroll
        for (int e = 0; e < 8; e++) f[e] *= by;
        store8((T *)a.out + i * 8, f);
    }
}
KERNEL widen_bf16(const __grid_constant__ widen_args one, const widen_args *list) {
    begin_kernel();
    widen<bf16>(one, list);
}
KERNEL widen_f32(const __grid_constant__ widen_args one, const widen_args *list) {
    begin_kernel();
    widen<float>(one, list);
}

/* ---- tensor cores */
/* Returns the address of a 16-byte piece of a tile [128 or 64][64] of 16-bit numbers in shared memory. A row
 * has 128 bytes. Its eight 16-byte pieces are permuted by the row number, so that neither copies nor
 * ldmatrix have bank conflicts. */
__device__ __forceinline__ unsigned tile_at(unsigned base, int row, int piece) {
    return base + row * 128 + ((piece ^ (row & 7)) << 4);
}

/* Copies N rows, starting at row `first` and column `at`, of a matrix with `rows` rows of `width` numbers.
 * Numbers outside of the matrix become zeros. */
template <int N, class T>
__device__ __forceinline__ void copy_tile(unsigned base, const T *from, size_t ld, int first, int rows,
                                          int at, int width) {
#pragma unroll
    for (int i = 0; i < N / 32; i++) {
        int p = threadIdx.x + i * 256, row = p / 8, piece = p % 8, c = at + piece * 8;
        bool inside = first + row < rows && c < width;
        copy16(tile_at(base, row, piece), inside ? from + (size_t)(first + row) * ld + c : from, inside);
    }
}

/* Computes S x S outputs, starting at row m0 of x. Rows from `end` on are not stored. S is 128 or 64. */
template <class T, int S> __device__ void gemm(const gemm_args &g, const T *w, int m0, int end) {
    /* a warp computes I x J tiles of 16 x 8 */
    constexpr int I = S / 32, J = S / 32, STAGE_BYTES = 2 * S * DEEP * 2;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned base = shared_address(memory);
    const T *x = (const T *)g.x;
    int n0 = blockIdx.y * S, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int wm = warp % 2 * (S / 2), wn = warp / 2 * (S / 4); /* a warp computes S / 2 x S / 4 outputs */
    int blocks = (g.k + DEEP - 1) / DEEP, steps = blocks * g.parts;
    float acc[I][J][4] = {};
    auto copy = [&](int s) {
        if (s < steps) {
            unsigned to = base + s % STAGES * STAGE_BYTES;
            int part = s / blocks, at = s % blocks * DEEP;
            copy_tile<S>(to, x + (size_t)part * g.k, (size_t)g.parts * g.k, m0, end, at, g.k);
            copy_tile<S>(to + S * DEEP * 2, w, (size_t)g.k, n0, g.out.n, at, g.k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < STAGES - 1; s++) copy(s);
    for (int s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        copy(s + STAGES - 1);
        unsigned at = base + s % STAGES * STAGE_BYTES, bt = at + S * DEEP * 2;
#pragma unroll
        for (int kk = 0; kk < DEEP / 16; kk++) {
            unsigned a[I][4], b[J / 2][4];
#pragma unroll
            for (int i = 0; i < I; i++)
                load_matrix(tile_at(at, wm + i * 16 + lane % 16, kk * 2 + lane / 16), a[i]);
#pragma unroll
            for (int i = 0; i < J / 2; i++) /* two fragments: rows n .. n + 7 and n + 8 .. n + 15 of W */
                load_matrix(tile_at(bt, wn + i * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2), b[i]);
#pragma unroll
            for (int i = 0; i < I; i++)
#pragma unroll
                for (int j = 0; j < J; j++)
                    mma(T(), acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < I; i++) {
        int row = m0 + wm + i * 16 + lane / 4, column = n0 + wn + lane % 4 * 2;
        add_bias<J>(g.out, &acc[i][0][0], column);
        activate<J>(g.out, &acc[i][0][0]);
        store_sums<J>(g.out, &acc[i][0][0], row, end, column);
    }
}
#define GEMM(name, T, S)                                                         \
    KERNEL __launch_bounds__(256, 2) name(const __grid_constant__ gemm_args g) { \
        begin_kernel();                                                          \
        gemm<T, S>(g, (const T *)g.w, blockIdx.x * S, g.m);                      \
    }
GEMM(gemm_bf16, bf16, 128)
GEMM(gemm_f16, __half, 128)
GEMM(gemm_small_bf16, bf16, 64) /* for few tiles of 128 x 128: smaller tiles give more blocks */
GEMM(gemm_small_f16, __half, 64)

template <class T> __device__ void gemm_grouped(const grouped_args &a) {
    if ((int)blockIdx.x >= a.tiles[0]) return;
    int e = a.tiles[1 + 2 * blockIdx.x], m0 = a.tiles[2 + 2 * blockIdx.x];
    const expert_pointers *p = a.pointers + e;
    gemm<T, TILE>(a.g,
                  (const T *)(a.which == 0   ? p->gate
                              : a.which == 1 ? p->up
                                             : p->down),
                  m0, a.first[e + 1]);
}
KERNEL __launch_bounds__(256, 2) gemm_grouped_bf16(const __grid_constant__ grouped_args a) {
    begin_kernel();
    gemm_grouped<bf16>(a);
}
KERNEL __launch_bounds__(256, 2) gemm_grouped_f16(const __grid_constant__ grouped_args a) {
    begin_kernel();
    gemm_grouped<__half>(a);
}

/* ---- float arithmetic: blocks of 64 x 64, 256 threads with 4 x 4 outputs each */
template <class T>
__device__ void gemm_any(const float *x, long ldx, const T *w, const float *bias, float *y, long ldy, int m,
                         int n, int k, int accumulate) {
    __shared__ float a[16][65], b[16][65];
    int m0 = blockIdx.x * 64, n0 = blockIdx.y * 64, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float acc[4][4] = {};
    for (int at = 0; at < k; at += 16) {
        for (int i = threadIdx.x; i < 1024; i += 256) {
            int r = i / 16, c = i % 16;
            a[c][r] = m0 + r < m && at + c < k ? x[(m0 + r) * ldx + at + c] : 0.0f;
            b[c][r] = n0 + r < n && at + c < k ? to_float(w[(size_t)(n0 + r) * k + at + c]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 16; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(a[c][ty + i * 16], b[c][tx + j * 16], acc[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int r = m0 + ty + i * 16, c = n0 + tx + j * 16;
            if (r >= m || c >= n) continue;
            float v = acc[i][j] + (bias ? bias[c] : 0.0f);
            y[r * ldy + c] = accumulate ? y[r * ldy + c] + v : v;
        }
}
#define ANY(name, T)                                                                                    \
    KERNEL gemm_any_##name(const float *x, long ldx, const T *w, const float *bias, float *y, long ldy, \
                           int m, int n, int k, int accumulate) {                                       \
        begin_kernel();                                                                                 \
        gemm_any(x, ldx, w, bias, y, ldy, m, n, k, accumulate);                                         \
    }
ANY(f32, float)
ANY(bf16, bf16)
ANY(f16, __half)
