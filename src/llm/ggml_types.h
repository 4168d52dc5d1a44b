/* Tensor types of ggml: numbers per block and bytes per block. */
#ifndef LLM_GGML_TYPES_H
#define LLM_GGML_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, number in the file, numbers per block, bytes per block). Sizes are those of the structs in
 * ggml-common.h (llama.cpp). */
#define GGML_TYPES(X)       \
    X(F32, 0, 1, 4)         \
    X(F16, 1, 1, 2)         \
    X(Q4_0, 2, 32, 18)      \
    X(Q4_1, 3, 32, 20)      \
    X(Q5_0, 6, 32, 22)      \
    X(Q5_1, 7, 32, 24)      \
    X(Q8_0, 8, 32, 34)      \
    X(Q8_1, 9, 32, 36)      \
    X(Q2_K, 10, 256, 84)    \
    X(Q3_K, 11, 256, 110)   \
    X(Q4_K, 12, 256, 144)   \
    X(Q5_K, 13, 256, 176)   \
    X(Q6_K, 14, 256, 210)   \
    X(Q8_K, 15, 256, 292)   \
    X(IQ2_XXS, 16, 256, 66) \
    X(IQ2_XS, 17, 256, 74)  \
    X(IQ3_XXS, 18, 256, 98) \
    X(IQ1_S, 19, 256, 50)   \
    X(IQ4_NL, 20, 32, 18)   \
    X(IQ3_S, 21, 256, 110)  \
    X(IQ2_S, 22, 256, 82)   \
    X(IQ4_XS, 23, 256, 136) \
    X(I8, 24, 1, 1)         \
    X(I16, 25, 1, 2)        \
    X(I32, 26, 1, 4)        \
    X(I64, 27, 1, 8)        \
    X(F64, 28, 1, 8)        \
    X(IQ1_M, 29, 256, 56)   \
    X(BF16, 30, 1, 2)       \
    X(TQ1_0, 34, 256, 54)   \
    X(TQ2_0, 35, 256, 66)   \
    X(MXFP4, 39, 32, 17)    \
    X(NVFP4, 40, 64, 36)    \
    X(Q1_0, 41, 128, 18)

#define X(name, number, numbers, bytes) GGML_##name = number,
enum ggml_type { GGML_TYPES(X) GGML_TYPES_END = 42 };
#undef X

struct ggml_type_info {
    const char *name;        /* "Q4_K"; NULL: unknown type */
    uint32_t numbers, bytes; /* size of a block; 0: the type is no longer used in files */
};

/* Accepts any number; the name is NULL if the type is unknown. */
struct ggml_type_info ggml_type_info(uint32_t type);

#endif
