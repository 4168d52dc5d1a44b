/* Attention of a decoding step of several sequences on Hopper whose queries, keys and values are the sums of
 * parts (skinny.cu). */
#include "decode_attention.cuh"

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
struct read_parts {
    int parts;
    long stride;
    __device__ __forceinline__ float operator()(const float *p) const {
        float v[PARTS_MOST], sum = 0;
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++) v[i] = i < parts ? __ldcg(p + i * stride) : 0.0f;
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++) sum += v[i];
        return sum;
    }
};

#define HEADS(D, G)                                                                                    \
    KERNEL __launch_bounds__(256, 2)                                                                   \
        decode_attention_parts_bf16_##D##_##G(const __grid_constant__ decode_attention_parts_args a) { \
        decode_attention<bf16, D, G>(a.usual, read_parts{ a.parts, a.stride });                        \
    }
HEADS(16, 1)
HEADS(16, 4)
HEADS(32, 1)
HEADS(32, 4)
HEADS(64, 1)
HEADS(64, 4)
HEADS(128, 1)
HEADS(128, 4)
#endif
