/* Converts the block types of ggml to floats. Included by kernels_impl.h, so that the loops are compiled for
 * each instruction set. d and m are f16 numbers; s and t are the scale and the minimum of a group; q are the
 * stored integers.
 *     Q8_0   d, q[32] signed                                   d q
 *     Q4_0   d, 16 bytes: low nibbles 0..15, high 16..31       d (q - 8)
 *     Q4_1   d, m, nibbles as Q4_0                             d q + m
 *     Q5_0   d, 32 high bits, nibbles as Q4_0                  d (q - 16)
 *     Q5_1   d, m, 32 high bits, nibbles as Q4_0               d q + m
 *     MXFP4  exponent e, nibbles as Q4_0 of values in fp4      2^(e - 127) fp4(q)
 *     Q4_K   d, m, 12 bytes of 8 6-bit scales and minima, 8 groups of 32 nibbles   d s q - m t
 *     Q5_K   as Q4_K, with 32 bytes of high bits
 *     Q6_K   low nibbles [128], high 2 bits [64], scales[16] signed, d             d s (q - 32) */

static inline float half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return f16_to_float(h);
#endif
}

static void widen_q8_0(float *out, const uint8_t *b) {
    float d = half_at(b);
    const int8_t *q = (const int8_t *)b + 2;
    for (int i = 0; i < 32; i++) out[i] = d * (float)q[i];
}

static void widen_nibbles(float *out, const uint8_t *q, float d, float m) {
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(q[i] & 15) + m;
        out[i + 16] = d * (float)(q[i] >> 4) + m;
    }
}

static void widen_q4_0(float *out, const uint8_t *b) {
    float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

static void widen_q4_1(float *out, const uint8_t *b) {
    widen_nibbles(out, b + 4, half_at(b), half_at(b + 2));
}

/* Unpacks the 5-bit numbers of a block: the low four bits from the nibbles q[16], the fifth bit
 * of number i from bit i of high_bytes. */
static void five_bits(uint8_t *out, const uint8_t *q, const uint8_t *high_bytes) {
    uint32_t high;
    memcpy(&high, high_bytes, 4);
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)((q[i] & 15) | (high >> i & 1) << 4);
        out[i + 16] = (uint8_t)(q[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
}

static void widen_q5_0(float *out, const uint8_t *b) {
    uint8_t q[32];
    float d = half_at(b);
    five_bits(q, b + 6, b + 2);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(q[i] - 16);
}

static void widen_q5_1(float *out, const uint8_t *b) {
    uint8_t q[32];
    float d = half_at(b), m = half_at(b + 2);
    five_bits(q, b + 8, b + 4);
    for (int i = 0; i < 32; i++) out[i] = d * (float)q[i] + m;
}

/* The values of fp4 (E2M1), times two. */
static const int8_t fp4_doubled[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* Returns half of 2^(e - 127), because the table contains doubled values. */
static inline float mxfp4_scale(uint8_t e) {
    return e < 2 ? bits_float(0x00200000u << e) : bits_float((uint32_t)(e - 1) << 23);
}

static void widen_mxfp4(float *out, const uint8_t *b) {
    float d = mxfp4_scale(b[0]);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)fp4_doubled[b[1 + i] & 15];
        out[i + 16] = d * (float)fp4_doubled[b[1 + i] >> 4];
    }
}

/* Unpacks the scale and the minimum of group i of a Q4_K or Q5_K block: 6 bits each, in 12 bytes. */
static inline void group_scales(const uint8_t *p, int i, int *scale, int *min) {
    if (i < 4) {
        *scale = p[i] & 63;
        *min = p[i + 4] & 63;
    } else {
        *scale = (p[i + 4] & 15) | (p[i - 4] >> 6) << 4;
        *min = p[i + 4] >> 4 | (p[i] >> 6) << 4;
    }
}

static void widen_q4_k(float *out, const uint8_t *b) {
    float d = half_at(b), m = half_at(b + 2);
    const uint8_t *q = b + 16;
    for (int g = 0; g < 8; g++) {
        int scale, min;
        group_scales(b + 4, g, &scale, &min);
        float ds = d * (float)scale, ms = m * (float)min;
        for (int i = 0; i < 32; i++) {
            int v = g & 1 ? q[i] >> 4 : q[i] & 15;
            out[g * 32 + i] = ds * (float)v - ms;
        }
        q += g & 1 ? 32 : 0;
    }
}

static void widen_q5_k(float *out, const uint8_t *b) {
    float d = half_at(b), m = half_at(b + 2);
    const uint8_t *high = b + 16, *q = b + 48;
    for (int g = 0; g < 8; g++) {
        int scale, min;
        group_scales(b + 4, g, &scale, &min);
        float ds = d * (float)scale, ms = m * (float)min;
        for (int i = 0; i < 32; i++) {
            int v = (g & 1 ? q[i] >> 4 : q[i] & 15) | (high[i] >> g & 1) << 4;
            out[g * 32 + i] = ds * (float)v - ms;
        }
        q += g & 1 ? 32 : 0;
    }
}

static void widen_q6_k(float *out, const uint8_t *b) {
    const uint8_t *low = b, *high = b + 128;
    const int8_t *scales = (const int8_t *)b + 192;
    float d = half_at(b + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, scales += 8)
        for (int g = 0; g < 4; g++)
            for (int i = 0; i < 32; i++) {
                int nibble = g < 2 ? low[(g & 1) * 32 + i] & 15 : low[(g & 1) * 32 + i] >> 4;
                int v = (nibble | (high[i] >> (2 * g) & 3) << 4) - 32;
                out[half * 128 + g * 32 + i] = d * (float)scales[g * 2 + i / 16] * (float)v;
            }
}

/* LANES bytes as integers. GCC 12 compiles __builtin_convertvector() of bytes to one instruction per byte. */
#if defined(__AVX512F__) && LANES == 16
static inline vu load_bytes(const uint8_t *in) {
    return (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in));
}
static inline vi load_signed_bytes(const uint8_t *in) {
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in));
}
#elif defined(__AVX2__) && LANES == 8
static inline vu load_bytes(const uint8_t *in) {
    return (vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in));
}
static inline vi load_signed_bytes(const uint8_t *in) {
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in));
}
#else
typedef uint8_t vb __attribute__((vector_size(LANES)));
typedef int8_t vsb __attribute__((vector_size(LANES)));
static inline vu load_bytes(const uint8_t *in) {
    vb bytes;
    memcpy(&bytes, in, LANES);
    return __builtin_convertvector(bytes, vu);
}
static inline vi load_signed_bytes(const uint8_t *in) {
    vsb bytes;
    memcpy(&bytes, in, LANES);
    return __builtin_convertvector(bytes, vi);
}
#endif

/* F8_E4M3 has 1 sign, 4 exponent and 3 fraction bits. They are moved to their places in a float, which
 * is then multiplied by 2^120. This is also correct for denormals. There are no infinities; 0x7f is NaN. */
static inline vf f8_floats(vu u) {
    vu magnitude = u & 0x7f, nan = (vu)(magnitude == 0x7f) & 0x7fc00000u;
    return (vf)((vu)((vf)(magnitude << 20) * all(0x1p120f)) | nan | (u & 0x80) << 24);
}

static inline vf byte_floats(const uint8_t *in, enum dtype t) {
    return t == DTYPE_I8 ? __builtin_convertvector(load_signed_bytes(in), vf) : f8_floats(load_bytes(in));
}

static void widen_bytes(float *out, const uint8_t *in, enum dtype t, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf f = byte_floats(in + i, t);
        memcpy(out + i, &f, sizeof f);
    }
    if (i == n) return;
    uint8_t rest[LANES] = { 0 };
    memcpy(rest, in + i, n - i);
    vf f = byte_floats(rest, t);
    memcpy(out + i, &f, (n - i) * sizeof *out);
}

#define WIDEN_BLOCKS(name)                                            \
    for (size_t i_ = 0; i_ < n / info.numbers; i_++, p += info.bytes) \
        widen_##name(out + i_ * info.numbers, p);                     \
    return;

/* Converts n numbers, which are whole blocks. F8_E4M3 and I8 are converted without their scales. */
static void widen_blocks(float *out, const void *in, enum dtype t, size_t n) {
    struct dtype_info info = dtype_info(t);
    const uint8_t *p = in;
    switch (t) {
    case DTYPE_Q8_0: WIDEN_BLOCKS(q8_0)
    case DTYPE_Q4_0: WIDEN_BLOCKS(q4_0)
    case DTYPE_Q4_1: WIDEN_BLOCKS(q4_1)
    case DTYPE_Q5_0: WIDEN_BLOCKS(q5_0)
    case DTYPE_Q5_1: WIDEN_BLOCKS(q5_1)
    case DTYPE_Q4_K: WIDEN_BLOCKS(q4_k)
    case DTYPE_Q5_K: WIDEN_BLOCKS(q5_k)
    case DTYPE_Q6_K: WIDEN_BLOCKS(q6_k)
    case DTYPE_MXFP4: WIDEN_BLOCKS(mxfp4)
    case DTYPE_F8_E4M3:
    case DTYPE_I8: widen_bytes(out, in, t, n); return;
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPES_END: break;
    }
}
