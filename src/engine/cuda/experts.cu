/* Experts of many tokens. Choices are ordered by expert, so that one launch multiplies the rows of all
 * experts (gemm_grouped in gemm.cu, or gemm_wgmma.cu). */
#include "common.cuh"

struct choice {
    int expert;
    float weight;
};

/* Orders the n = m k choices by expert, and by token within an expert. One block of 1024 threads handles
 * one expert. Writes first[experts + 1], the first row of each expert; token[row]; row_of[choice]; and
 * tiles: the number of tiles of 128 rows in [0], then one pair (expert, first row) per tile. */
KERNEL group_choices(const choice *choices, int n, int k, int experts, int *first, int *token, int *row_of,
                     int *tiles) {
    begin_kernel();
    __shared__ int count[1024], of_warp[32], base, tile;
    int e = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < experts; i += 1024) count[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 1024) atomicAdd(&count[choices[i].expert], 1);
    __syncthreads();
    if (warp == 0) {
        int rows = 0, before = 0; /* rows and tiles of the experts before this one */
        for (int i = lane; i < e; i += 32) {
            rows += count[i];
            before += (count[i] + 127) / 128;
        }
        rows = (int)__reduce_add_sync(~0u, (unsigned)rows);
        before = (int)__reduce_add_sync(~0u, (unsigned)before);
        if (lane == 0) {
            first[e] = base = rows;
            tile = before;
            if (e == experts - 1) {
                first[experts] = rows + count[e];
                tiles[0] = before + (count[e] + 127) / 128;
            }
        }
    }
    __syncthreads();
    int at = base, mine = count[e];
    for (int t = threadIdx.x; t < (mine + 127) / 128; t += 1024) {
        tiles[1 + 2 * (tile + t)] = e;
        tiles[2 + 2 * (tile + t)] = at + t * 128;
    }
    for (int i0 = 0; i0 < n; i0 += 1024) {
        int i = i0 + threadIdx.x;
        bool own = i < n && choices[i].expert == e;
        unsigned all = __ballot_sync(~0u, own);
        if (lane == 0) of_warp[warp] = __popc(all);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < 32; w++) {
            if (w == warp) before = total;
            total += of_warp[w];
        }
        if (own) {
            int row = at + before + __popc(all & ((1u << lane) - 1));
            token[row] = i / k;
            row_of[i] = row;
        }
        at += total;
        __syncthreads();
    }
}

/* Copies row token[r] of x to row r of out[rows][parts][width], as numbers of type T. With parts 2, the
 * second part is the rounding error of the first one. Rows are divided over blockIdx.y. */
template <class T>
__device__ void gather(const float *x, const int *token, int rows, int width, int parts, T *out) {
    for (int r = blockIdx.y; r < rows; r += gridDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < width; c += gridDim.x * blockDim.x) {
            float v = x[(size_t)token[r] * width + c];
            T hi = from_float<T>(v);
            out[(size_t)r * parts * width + c] = hi;
            if (parts == 2) out[((size_t)r * 2 + 1) * width + c] = from_float<T>(v - to_float(hi));
        }
}
/* Like gather() for x of 16-bit numbers, with parts 1. `width` is a multiple of 8. */
KERNEL gather_narrow(const bf16 *x, const int *token, int rows, int width, bf16 *out) {
    begin_kernel();
    int c = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (c >= width) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y)
        *(uint4 *)(out + (size_t)r * width + c) = *(const uint4 *)(x + (size_t)token[r] * width + c);
}
/* Writes silu(gate) up in the layout of gather(). */
template <class T>
__device__ void silu_convert(const float *gate, const float *up, int rows, int width, int parts, T *out) {
    for (int r = blockIdx.y; r < rows; r += gridDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < width; c += gridDim.x * blockDim.x) {
            size_t at = (size_t)r * width + c;
            float v = silu(gate[at]) * up[at];
            T hi = from_float<T>(v);
            out[(size_t)r * parts * width + c] = hi;
            if (parts == 2) out[((size_t)r * 2 + 1) * width + c] = from_float<T>(v - to_float(hi));
        }
}
#define TYPE(name, T)                                                                                    \
    KERNEL gather_##name(const float *x, const int *token, int rows, int width, int parts, T *out) {     \
        begin_kernel();                                                                                  \
        gather(x, token, rows, width, parts, out);                                                       \
    }                                                                                                    \
    KERNEL silu_convert_##name(const float *g, const float *u, int rows, int width, int parts, T *out) { \
        begin_kernel();                                                                                  \
        silu_convert(g, u, rows, width, parts, out);                                                     \
    }
TYPE(f32, float)
TYPE(bf16, bf16)
TYPE(f16, __half)

/* y[token] += sum of weight * out[row] over the choices of the token. Tokens are divided over blockIdx.y. */
KERNEL combine(const float *out, const choice *choices, const int *row_of, int m, int k, int width,
               float *y) {
    begin_kernel();
    for (int t = blockIdx.y; t < m; t += gridDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < width; c += gridDim.x * blockDim.x) {
            float sum = 0;
            for (int i = t * k; i < (t + 1) * k; i++)
                sum = fmaf(choices[i].weight, out[(size_t)row_of[i] * width + c], sum);
            y[(size_t)t * width + c] += sum;
        }
}
