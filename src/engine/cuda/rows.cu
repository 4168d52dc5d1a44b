/* Norms of rows that fit into registers, silu on 16-bit numbers, conversion of image bytes, and
 * preparation of the heads for attention. */
#include "fragments.cuh"
#include "kernel_args.h"

enum { THREADS = 256, WARPS = 8 };

/* Returns the row of x for row r of y; -1 if the row is outside of the grid. */
__device__ __forceinline__ long source_row(const norm_args &a, int r) {
    if (!a.window) return r;
    int cells = a.padded * a.padded, view = r / cells, area = a.window * a.window,
        across = a.padded / a.window;
    int w = (r - view * cells) / area, c = r - view * cells - w * area;
    int y = w / across * a.window + c / a.window, x = w % across * a.window + c % a.window;
    return y < a.grid && x < a.grid ? ((long)view * a.grid + y) * a.grid + x : -1;
}

__device__ __forceinline__ void store4(const norm_args &a, size_t at, float4 v) {
    if (a.type == 0)
        *(float4 *)((float *)a.y + at) = v;
    else
        *(uint2 *)((bf16 *)a.y + at) = make_uint2(pack2(v.x, v.y), pack2(v.z, v.w));
}

/* Returns the sum over the WIDE warps of a row. */
template <int WIDE> __device__ __forceinline__ float row_sum(float v, float (&room)[2][WARPS], int which) {
    v = warp_sum(v);
    if (WIDE == 1) return v;
    int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) room[which][warp] = v;
    __syncthreads();
    v = 0;
#pragma unroll
    for (int i = 0; i < WIDE; i++) v += room[which][warp / WIDE * WIDE + i];
    return v;
}

/* WIDE warps compute one row of n <= 128 PER WIDE numbers; n is a multiple of 4. */
template <int PER, int WIDE> __device__ void norm(const norm_args &a) {
    __shared__ float room[2][WARPS];
    int r = blockIdx.x * (WARPS / WIDE) + threadIdx.x / (32 * WIDE), lane = threadIdx.x % (32 * WIDE);
    bool there = r < a.rows;
    wait_for_previous();
    let_next_start();
    long from = there ? source_row(a, r) : -1;
    size_t to = (size_t)r * a.ldy;
    float4 v[PER];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = (i * 32 * WIDE + lane) * 4;
        v[i] = c < a.n && from >= 0 ? *(const float4 *)(a.x + from * a.ldx + c) : make_float4(0, 0, 0, 0);
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    float mean = a.b ? row_sum<WIDE>(sum, room, 0) / a.n : 0.0f;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        if ((i * 32 * WIDE + lane) * 4 >= a.n) continue;
        v[i].x -= mean;
        v[i].y -= mean;
        v[i].z -= mean;
        v[i].w -= mean;
        squares += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
    }
    float scale = rsqrtf(row_sum<WIDE>(squares, room, 1) / a.n + a.eps);
    if (!there) return;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = (i * 32 * WIDE + lane) * 4;
        if (c >= a.n) continue;
        float4 w = *(const float4 *)(a.w + c), b = a.b ? *(const float4 *)(a.b + c) : make_float4(0, 0, 0, 0);
        float4 y = make_float4(v[i].x * scale * w.x + b.x, v[i].y * scale * w.y + b.y,
                               v[i].z * scale * w.z + b.z, v[i].w * scale * w.w + b.w);
        store4(a, to + c, from >= 0 ? y : make_float4(0, 0, 0, 0));
    }
    end_kernel(threadIdx.x == 0);
}
/* The number in the name is the maximum number of columns. A block has 8, 4 or 1 rows. */
KERNEL __launch_bounds__(THREADS) norm_1024(const __grid_constant__ norm_args a) { norm<8, 1>(a); }
KERNEL __launch_bounds__(THREADS) norm_2048(const __grid_constant__ norm_args a) { norm<8, 2>(a); }
KERNEL __launch_bounds__(THREADS) norm_8192(const __grid_constant__ norm_args a) { norm<8, 8>(a); }

/* gate = silu(gate) up; n is a multiple of 8 */
KERNEL silu_mul_bf16(bf16 *gate, const bf16 *up, size_t n) {
    begin_kernel();
    size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= n) return;
    eight<bf16> g, u;
    float a[8], b[8];
    g.v = *(const uint4 *)(gate + i);
    u.v = *(const uint4 *)(up + i);
    unpack8<bf16>(g, a);
    unpack8<bf16>(u, b);
#pragma unroll
    for (int e = 0; e < 8; e++) a[e] = silu(a[e]) * b[e];
    *(uint4 *)(gate + i) =
        make_uint4(pack2(a[0], a[1]), pack2(a[2], a[3]), pack2(a[4], a[5]), pack2(a[6], a[7]));
}

/* out[i] = table[bytes[i]] */
KERNEL map_bytes(const unsigned char *bytes, size_t n, float *out, const __grid_constant__ byte_table table) {
    begin_kernel();
    __shared__ float value[256];
    value[threadIdx.x] = table.value[threadIdx.x];
    __syncthreads();
    for (size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < n;
         i += (size_t)gridDim.x * blockDim.x * 4) {
        if (i + 4 <= n) {
            uchar4 b = *(const uchar4 *)(bytes + i);
            *(float4 *)(out + i) = make_float4(value[b.x], value[b.y], value[b.z], value[b.w]);
            continue;
        }
        for (size_t j = i; j < n; j++) out[j] = value[bytes[j]];
    }
}

/* ---- new heads: blockIdx.x is the row. One warp per head: first the query heads, then keys, then values. */
KERNEL place_heads(const __grid_constant__ place_args a) {
    begin_kernel();
    __shared__ float room[WARPS][128];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = blockIdx.x, head = blockIdx.y * WARPS + warp;
    if (head >= a.heads + 2 * a.kv_heads) return;
    int kind = head < a.heads ? 0 : head < a.heads + a.kv_heads ? 1 : 2;
    int h = kind == 0 ? head : kind == 1 ? head - a.heads : head - a.heads - a.kv_heads;
    const float *x = kind == 0 ? a.q + ((size_t)r * a.heads + h) * a.dim
                               : (kind == 1 ? a.k : a.v) + ((size_t)r * a.kv_heads + h) * a.dim;
    bf16 *to = kind == 0 ? (bf16 *)a.queries + ((size_t)r * a.heads + h) * a.dim
                         : (bf16 *)(kind == 1 ? a.keys : a.values) +
                               ((size_t)h * a.max_context + a.position + r) * a.dim;
    const float *norm = kind == 0 ? a.q_norm : kind == 1 ? a.k_norm : nullptr;
    float *v = room[warp], sum = 0;
    for (int i = lane; i < a.dim; i += 32) {
        float f = x[i];
        sum += f * f;
        v[i] = norm ? f * norm[i] : f;
    }
    float scale = norm ? rsqrtf(warp_sum(sum) / a.dim + a.eps) : 1.0f;
    __syncwarp();
    int half = a.dims / 2;
    const float *cosine = a.cosine + (size_t)(a.position + r) * half,
                *sine = a.sine + (size_t)(a.position + r) * half;
    auto rotated = [&](int i) {
        if (kind == 2 || i >= a.dims) return v[i];
        if (a.interleaved)
            return i % 2 ? v[i] * cosine[i / 2] + v[i - 1] * sine[i / 2]
                         : v[i] * cosine[i / 2] - v[i + 1] * sine[i / 2];
        return i < half ? v[i] * cosine[i] - v[i + half] * sine[i]
                        : v[i] * cosine[i - half] + v[i - half] * sine[i - half];
    };
    for (int i = lane * 2; i < a.dim; i += 64)
        *(unsigned *)(to + i) = pack2(rotated(i) * scale, rotated(i + 1) * scale);
}

/* Only stores its time. */
KERNEL nothing() { begin_kernel(); }
