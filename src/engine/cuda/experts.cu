/* Experts of many tokens: choices are ordered by expert, so that the products of all experts are one launch each
 * (gemm_grouped in gemm.cu). */
#include "common.cuh"

struct choice {
    int expert;
    float weight;
};

/* Orders n = m k choices by expert, and by token within an expert; one block. first[experts + 1]: rows of each expert;
 * token[row]; row_of[choice]; tiles: [0] how many tiles of 128 rows, then pairs of expert and first row. */
KERNEL group_choices(const choice *choices, int n, int k, int experts, int *first, int *token, int *row_of, int *tiles) {
    __shared__ int count[1024 + 1];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int e = warp; e < experts; e += warps) {
        int sum = 0;
        for (int i = lane; i < n; i += 32) sum += choices[i].expert == e;
#pragma unroll
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (lane == 0) count[e] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int at = 0, ntiles = 0;
        for (int e = 0; e < experts; e++) {
            int c = count[e];
            count[e] = first[e] = at;
            for (int r = 0; r < c; r += 128) {
                tiles[1 + 2 * ntiles] = e;
                tiles[2 + 2 * ntiles++] = at + r;
            }
            at += c;
        }
        first[experts] = at;
        tiles[0] = ntiles;
    }
    __syncthreads();
    for (int e = warp; e < experts; e += warps) {
        int at = count[e];
        for (int i0 = 0; i0 < n; i0 += 32) {
            int i = i0 + lane;
            bool mine = i < n && choices[i].expert == e;
            unsigned all = __ballot_sync(~0u, mine);
            if (mine) {
                int row = at + __popc(all & ((1u << lane) - 1));
                token[row] = i / k;
                row_of[i] = row;
            }
            at += __popc(all);
        }
    }
}

/* x of every row as 16-bit numbers, [rows][parts][width]; blockIdx.y is the row. */
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
/* silu(gate) up in the same form. */
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
#define TYPE(name, T)                                                                                             \
    KERNEL gather_##name(const float *x, const int *token, int rows, int width, int parts, T *out) {              \
        gather(x, token, rows, width, parts, out);                                                                \
    }                                                                                                             \
    KERNEL silu_convert_##name(const float *g, const float *u, int rows, int width, int parts, T *out) {          \
        silu_convert(g, u, rows, width, parts, out);                                                              \
    }
TYPE(f32, float)
TYPE(bf16, bf16)
TYPE(f16, __half)

/* y[token] += sum over its choices of weight out[row]; blockIdx.y is the token. */
KERNEL combine(const float *out, const choice *choices, const int *row_of, int m, int k, int width, float *y) {
    for (int t = blockIdx.y; t < m; t += gridDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < width; c += gridDim.x * blockDim.x) {
            float sum = 0;
            for (int i = t * k; i < (t + 1) * k; i++)
                sum = fmaf(choices[i].weight, out[(size_t)row_of[i] * width + c], sum);
            y[(size_t)t * width + c] += sum;
        }
}
