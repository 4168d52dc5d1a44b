/* The kernels of decode_attention.cuh, by type of the cache, size of a head and query heads at a time. */
#include "decode_attention.cuh"

#define HEADS(T, name, D, G)                                                                   \
    KERNEL __launch_bounds__(256, 2)                                                           \
        decode_attention_##name##_##D##_##G(const __grid_constant__ decode_attention_args a) { \
        decode_attention<T, D, G>(a, read_whole());                                            \
    }
#define HEADS_ALL(D)        \
    HEADS(float, f32, D, 1) \
    HEADS(float, f32, D, 4) \
    HEADS(bf16, bf16, D, 1) \
    HEADS(bf16, bf16, D, 4)
HEADS_ALL(16)
HEADS_ALL(32)
HEADS_ALL(64)
HEADS_ALL(128)
