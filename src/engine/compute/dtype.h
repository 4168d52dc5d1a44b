/* The number types of weights. Arithmetic is always float. */
#ifndef ENGINE_COMPUTE_DTYPE_H
#define ENGINE_COMPUTE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

static inline size_t dtype_bytes(enum dtype t) { return t == DTYPE_F32 ? 4 : 2; }
static inline const char *dtype_name(enum dtype t) {
    return t == DTYPE_F32 ? "f32" : t == DTYPE_BF16 ? "bf16" : "f16";
}

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

/* Rounds to nearest, ties to even; for finite numbers. */
static inline uint16_t bf16_from_float(float f) {
    uint32_t u = float_bits(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
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

#endif
