/* The number types of weights and caches, and conversions from and to float. */
#ifndef ENGINE_COMPUTE_DTYPE_H
#define ENGINE_COMPUTE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(name, text, numbers per block, bytes per block). The types from Q8_0 to MXFP4 are blocks of ggml, whose
 * layouts are in quant_impl.h; rows of a matrix are whole blocks. The scales of F8_E4M3 and I8 are separate
 * (struct matrix). */
#define DTYPES(X)               \
    X(F32, "f32", 1, 4)         \
    X(BF16, "bf16", 1, 2)       \
    X(F16, "f16", 1, 2)         \
    X(Q8_0, "q8_0", 32, 34)     \
    X(Q4_0, "q4_0", 32, 18)     \
    X(Q4_1, "q4_1", 32, 20)     \
    X(Q5_0, "q5_0", 32, 22)     \
    X(Q5_1, "q5_1", 32, 24)     \
    X(Q4_K, "q4_k", 256, 144)   \
    X(Q5_K, "q5_k", 256, 176)   \
    X(Q6_K, "q6_k", 256, 210)   \
    X(MXFP4, "mxfp4", 32, 17)   \
    X(F8_E4M3, "f8_e4m3", 1, 1) \
    X(I8, "i8", 1, 1)

#define X(name, text, numbers, bytes) DTYPE_##name,
enum dtype { DTYPES(X) DTYPES_END };
#undef X

struct dtype_info {
    const char *name;
    size_t numbers, bytes; /* of a block */
};
static inline struct dtype_info dtype_info(enum dtype t) {
#define X(name, text, numbers, bytes) { text, numbers, bytes },
    static const struct dtype_info rows[] = { DTYPES(X) };
#undef X
    return rows[t];
}

static inline const char *dtype_name(enum dtype t) { return dtype_info(t).name; }
static inline bool dtype_is_float(enum dtype t) { return t <= DTYPE_F16; }
static inline bool dtype_is_blocks(enum dtype t) { return t >= DTYPE_Q8_0 && t <= DTYPE_MXFP4; }
/* Returns the size of n numbers in bytes; n is a multiple of the block size. */
static inline size_t dtype_size(enum dtype t, size_t n) {
    struct dtype_info i = dtype_info(t);
    return n / i.numbers * i.bytes;
}
static inline size_t dtype_bytes(enum dtype t) { return dtype_info(t).bytes; } /* not for blocks */

static inline uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Rounds to nearest, ties to even. The number must be finite. */
static inline uint16_t bf16_from_float(float f) {
    uint32_t u = float_bits(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* Handles denormals, infinities and NaN. */
static inline float f16_to_float(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float f = bits_float(magnitude) * 0x1p112f;
    uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;
    return bits_float(float_bits(f) | special | sign);
}
static inline float bf16_to_float(uint16_t h) { return bits_float((uint32_t)h << 16); }

/* Rounds to nearest, ties to even. Only for finite numbers within the range of half, such as synthetic
 * weights. */
static inline uint16_t f16_from_float(float f) {
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000;
    float a = bits_float(u & 0x7fffffff);
    if (a < 0x1p-14f) return (uint16_t)(sign | (float_bits(a + 0.5f) - float_bits(0.5f))); /* denormal */
    uint32_t b = float_bits(a);
    b += 0xfff + (b >> 13 & 1);
    return (uint16_t)(sign | ((b >> 13) - (112u << 10)));
}

/* Rounds to nearest, ties to even. Numbers above 448, the largest one, become 448. Not for NaN. */
static inline uint8_t f8_from_float(float f) {
    uint32_t u = float_bits(f), sign = u >> 24 & 0x80;
    float a = bits_float(u & 0x7fffffff);
    if (a < 0x1p-6f) return (uint8_t)(sign | (float_bits(a + 0x1p14f) - float_bits(0x1p14f))); /* denormal */
    uint32_t b = float_bits(a);
    b += 0x7ffff + (b >> 20 & 1);
    b = (b >> 20) - (120u << 3);
    return (uint8_t)(sign | (b < 0x7e ? b : 0x7e));
}

#endif
