/* Products of quantised weights with activations that were rounded to 8 bits, 32 numbers per scale, in
 * integer arithmetic. Included by kernels_impl.h. A group of 32 weights is stored as unsigned
 * integers q with w = a q + b. Therefore
 *     sum w x = a d sum(q x8) + b d sum(x8)           d: the scale of the group's x8
 * where sum(x8) is stored with x8. Q8_0 is signed and has b = 0. Q6_K has two scales per group. */
#if defined(__AVX2__)
typedef __m256i quants; /* 32 bytes */
typedef __m256 qsum;

static inline quants q_bytes(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline quants q_low(quants v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
static inline quants q_high(quants v) {
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}
static inline quants q_or(quants a, quants b) { return _mm256_or_si256(a, b); }
/* Loads the low nibbles of 16 bytes, then the high ones. */
static inline quants q_nibbles(const uint8_t *p) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return q_low(_mm256_set_m128i(_mm_srli_epi16(v, 4), v));
}
/* Returns 32 bytes: byte i is 16 if bit i of the 32 bits at p is set, otherwise 0. */
static inline quants q_mask(const uint8_t *p) {
    uint32_t bits;
    memcpy(&bits, p, 4);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
                                          2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(16));
}
/* Computes (byte >> shift & mask) << 4; mask is 1 or 3. */
static inline quants q_shifted(quants v, int shift, int mask) {
    __m256i bits = _mm256_srl_epi16(v, _mm_cvtsi32_si128(shift));
    return _mm256_slli_epi16(_mm256_and_si256(bits, _mm256_set1_epi8((char)mask)), 4);
}
/* Converts each nibble to fp4_doubled[nibble] + 12, which is not negative. */
static inline quants q_fp4(quants nibbles) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm256_shuffle_epi8(table, nibbles);
}

static inline __m256i dot_bytes(__m256i u, __m256i s) { /* 8 sums of 4 products */
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s);
#elif defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
#endif
}
static inline qsum q_scaled(qsum acc, float f, __m256i sums) {
    return _mm256_fmadd_ps(_mm256_set1_ps(f), _mm256_cvtepi32_ps(sums), acc);
}
static inline qsum q_dot(qsum acc, float f, quants q, const int8_t *x) {
    return q_scaled(acc, f, dot_bytes(q, q_bytes((const uint8_t *)x)));
}
static inline qsum q_dot_signed(qsum acc, float f, quants q, const int8_t *x) {
    __m256i v = q_bytes((const uint8_t *)x);
    return q_scaled(acc, f, dot_bytes(_mm256_sign_epi8(q, q), _mm256_sign_epi8(v, q)));
}
static inline qsum q_zero(void) { return _mm256_setzero_ps(); }
static inline float q_total(qsum v) {
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
#else
typedef struct {
    uint8_t v[32];
} quants;
typedef float qsum;

#define EACH(expression)                                         \
    quants r;                                                    \
    for (int i = 0; i < 32; i++) r.v[i] = (uint8_t)(expression); \
    return r;
static inline quants q_bytes(const uint8_t *p) { EACH(p[i]) }
static inline quants q_low(quants v) { EACH(v.v[i] & 15) }
static inline quants q_high(quants v) { EACH(v.v[i] >> 4) }
static inline quants q_or(quants a, quants b) { EACH(a.v[i] | b.v[i]) }
static inline quants q_nibbles(const uint8_t *p) { EACH(i < 16 ? p[i] & 15 : p[i - 16] >> 4) }
static inline quants q_mask(const uint8_t *p) { EACH((p[i / 8] >> (i % 8) & 1) << 4) }
static inline quants q_shifted(quants v, int shift, int mask) { EACH((v.v[i] >> shift & mask) << 4) }
static inline quants q_fp4(quants v) { EACH(fp4_doubled[v.v[i]] + 12) }
#undef EACH

static inline qsum q_dot_two(qsum acc, float f, quants q, const int8_t *x, int s0, int s1) {
    int sum0 = 0, sum1 = 0;
    for (int i = 0; i < 16; i++) sum0 += q.v[i] * x[i];
    for (int i = 16; i < 32; i++) sum1 += q.v[i] * x[i];
    return acc + f * (float)(sum0 * s0 + sum1 * s1);
}
static inline qsum q_dot(qsum acc, float f, quants q, const int8_t *x) {
    return q_dot_two(acc, f, q, x, 1, 1);
}
static inline qsum q_dot_signed(qsum acc, float f, quants q, const int8_t *x) {
    int sum = 0;
    for (int i = 0; i < 32; i++) sum += (int8_t)q.v[i] * x[i];
    return acc + f * (float)sum;
}
static inline qsum q_zero(void) { return 0; }
static inline float q_total(qsum v) { return v; }
#endif

#if defined(__AVX2__)
/* Rounds 8 numbers, halves away from zero. */
static inline __m256i round_eight(__m256 v) {
    __m256 half = _mm256_or_ps(_mm256_and_ps(v, _mm256_set1_ps(-0.0f)), _mm256_set1_ps(0.5f));
    return _mm256_cvttps_epi32(_mm256_add_ps(v, half));
}
static inline int sum_eight(__m128i v) { /* sum of 8 numbers of 16 bits */
    __m128i s = _mm_madd_epi16(v, _mm_set1_epi16(1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
static void k_quantize(struct q8_rows *out, const float *x, int n) {
    for (int g = 0; g < n / 32; g++, x += 32) {
        __m256 v[4], most = _mm256_setzero_ps();
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            most = _mm256_max_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v[i]));
        }
        __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        float top = _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
        __m256 inverse = _mm256_set1_ps(top > 0 ? 127 / top : 0);
        __m256i q[4];
        for (int i = 0; i < 4; i++) q[i] = round_eight(_mm256_mul_ps(v[i], inverse));
        /* packs works within 128-bit halves, so the parts are reordered afterwards */
        __m256i low = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8),
                high = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2], q[3]), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(out->q + g * 32),
                            _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8));
        out->d[g] = top / 127;
        out->sums[2 * g] =
            (int16_t)sum_eight(_mm_add_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
        out->sums[2 * g + 1] = (int16_t)sum_eight(
            _mm_add_epi16(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
    }
}
#else
static void k_quantize(struct q8_rows *out, const float *x, int n) {
    for (int g = 0; g < n / 32; g++) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[g * 32 + i]));
        float d = most / 127, inverse = most > 0 ? 127 / most : 0;
        int sums[2] = { 0 };
        for (int i = 0; i < 32; i++) {
            int v = (int)(x[g * 32 + i] * inverse + (x[g * 32 + i] < 0 ? -0.5f : 0.5f));
            out->q[g * 32 + i] = (int8_t)v;
            sums[i / 16] += v;
        }
        out->d[g] = d;
        out->sums[2 * g] = (int16_t)sums[0];
        out->sums[2 * g + 1] = (int16_t)sums[1];
    }
}
#endif

/* ---- the integers q of group g of a block (32 numbers), with their a and b */
static inline quants group_q4_0(const uint8_t *b, int g, float *scale, float *offset) {
    (void)g;
    *scale = half_at(b);
    *offset = -8 * *scale;
    return q_nibbles(b + 2);
}
static inline quants group_q4_1(const uint8_t *b, int g, float *scale, float *offset) {
    (void)g;
    *scale = half_at(b);
    *offset = half_at(b + 2);
    return q_nibbles(b + 4);
}
static inline quants group_q5_0(const uint8_t *b, int g, float *scale, float *offset) {
    (void)g;
    *scale = half_at(b);
    *offset = -16 * *scale;
    return q_or(q_nibbles(b + 6), q_mask(b + 2));
}
static inline quants group_q5_1(const uint8_t *b, int g, float *scale, float *offset) {
    (void)g;
    *scale = half_at(b);
    *offset = half_at(b + 2);
    return q_or(q_nibbles(b + 8), q_mask(b + 4));
}
static inline quants group_mxfp4(const uint8_t *b, int g, float *scale, float *offset) {
    (void)g;
    *scale = mxfp4_scale(b[0]);
    *offset = -12 * *scale;
    return q_fp4(q_nibbles(b + 1));
}
/* Computes y[j*ldy + r] for r < rows, j < M. M is a constant in each expansion, at most 4. */
#define QDOTS_LOOP(M, NUMBERS, BYTES, BODY)                                           \
    for (int r = 0; r < rows; r++) {                                                  \
        qsum acc[M];                                                                  \
        float fix[M];                                                                 \
        UNROLL for (int j = 0; j < M; j++) {                                          \
            acc[j] = q_zero();                                                        \
            fix[j] = 0;                                                               \
        }                                                                             \
        for (int c = 0; c < cols; c += (NUMBERS), w += (BYTES))                       \
            for (int g = 0; g < (NUMBERS) / 32; g++) {                                \
                int at = c + g * 32;                                                  \
                BODY                                                                  \
            }                                                                         \
        UNROLL for (int j = 0; j < M; j++) y[j * ldy + r] = q_total(acc[j]) + fix[j]; \
    }
#define EACH_X(M, BODY)                                                       \
    UNROLL for (int j = 0; j < M; j++) {                                      \
        const int8_t *xq = x->q + (ptrdiff_t)j * x->stride + at;              \
        float d = x->d[((ptrdiff_t)j * x->stride + at) / 32];                 \
        const int16_t *sums = x->sums + ((ptrdiff_t)j * x->stride + at) / 16; \
        BODY                                                                  \
    }
#define AFFINE_BODY(M, GROUP)                              \
    float scale, offset;                                   \
    quants q = GROUP(w, g, &scale, &offset);               \
    EACH_X(M, {                                            \
        acc[j] = q_dot(acc[j], scale * d, q, xq);          \
        fix[j] += offset * d * (float)(sums[0] + sums[1]); \
    })
#define Q8_0_BODY(M)                                     \
    quants q = q_bytes(w + 2);                           \
    float scale = half_at(w);                            \
    EACH_X(M, {                                          \
        (void)sums;                                      \
        acc[j] = q_dot_signed(acc[j], scale * d, q, xq); \
    })
#define DEFINE_QDOTS(name, numbers, bytes, BODY, ...)                                                        \
    static void qdots_##name(const uint8_t *w, int rows, int cols, const struct q8_rows *x, int m, float *y, \
                             ptrdiff_t ldy) {                                                                \
        if (m == 1) {                                                                                        \
            QDOTS_LOOP(1, numbers, bytes, BODY(1, ##__VA_ARGS__))                                            \
        } else if (m == 2) {                                                                                 \
            QDOTS_LOOP(2, numbers, bytes, BODY(2, ##__VA_ARGS__))                                            \
        } else if (m == 3) {                                                                                 \
            QDOTS_LOOP(3, numbers, bytes, BODY(3, ##__VA_ARGS__))                                            \
        } else {                                                                                             \
            QDOTS_LOOP(4, numbers, bytes, BODY(4, ##__VA_ARGS__))                                            \
        }                                                                                                    \
    }
#define Q8_0_OF(M, unused) Q8_0_BODY(M)
DEFINE_QDOTS(q8_0, 32, 34, Q8_0_OF, none)
DEFINE_QDOTS(q4_0, 32, 18, AFFINE_BODY, group_q4_0)
DEFINE_QDOTS(q4_1, 32, 20, AFFINE_BODY, group_q4_1)
DEFINE_QDOTS(q5_0, 32, 22, AFFINE_BODY, group_q5_0)
DEFINE_QDOTS(q5_1, 32, 24, AFFINE_BODY, group_q5_1)
DEFINE_QDOTS(mxfp4, 32, 17, AFFINE_BODY, group_mxfp4)

#if defined(__AVX2__)
/* ---- types with blocks of 256 numbers: the scales of a block are computed together */

/* Returns the 8 bytes as floats. */
static inline __m256 block_floats(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)));
}
/* Returns a and b of the 8 groups of a Q4_K or Q5_K block. Bytes 4 to 15 have the scales and minimums in 6
 * bits each: the first four of both in the low bits of bytes 4 to 11, the last four in the nibbles of bytes
 * 12 to 15 and the high bits of bytes 4 to 11. */
static inline void block_scales(const uint8_t *b, __m256 *scale, __m256 *offset) {
    uint32_t s, m, both;
    memcpy(&s, b + 4, 4);
    memcpy(&m, b + 8, 4);
    memcpy(&both, b + 12, 4);
    uint64_t s_high = (both & 0x0f0f0f0f) | (s >> 2 & 0x30303030),
             m_high = (both >> 4 & 0x0f0f0f0f) | (m >> 2 & 0x30303030);
    *scale = _mm256_mul_ps(_mm256_set1_ps(half_at(b)), block_floats((s & 0x3f3f3f3f) | s_high << 32));
    *offset = _mm256_mul_ps(_mm256_set1_ps(-half_at(b + 2)), block_floats((m & 0x3f3f3f3f) | m_high << 32));
}
/* Returns one number per group of activations: the stored sums of its two halves, multiplied by `weights`
 * and added. */
static inline __m256 block_sums(const int16_t *sums, __m256i weights) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)sums);
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(v, weights));
}
/* Returns the scales of a Q6_K block as 16-bit numbers: first the scales of the first halves of all
 * groups, then the scales of the second halves. */
static inline __m256i block_halves(const uint8_t *scales) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)scales);
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(v, order));
}
/* Alternates between acc[0] and acc[1], so that an addition does not wait for the previous one. */
static inline void block_dot(qsum acc[2], const float *f, int g, quants q, const int8_t *x) {
    acc[g & 1] =
        _mm256_fmadd_ps(_mm256_broadcast_ss(f + g),
                        _mm256_cvtepi32_ps(dot_bytes(q, q_bytes((const uint8_t *)x + g * 32))), acc[g & 1]);
}
static inline void block_dot_two(qsum acc[2], const float *f, int g, quants q, const int8_t *x,
                                 __m256i halves) {
    __m256i pairs = _mm256_maddubs_epi16(q, q_bytes((const uint8_t *)x + g * 32));
    __m256i scales = _mm256_shuffle_epi8(halves, _mm256_set1_epi16((short)((2 * g + 1) << 8 | 2 * g)));
    acc[g & 1] = _mm256_fmadd_ps(_mm256_broadcast_ss(f + g),
                                 _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, scales)), acc[g & 1]);
}

/* Computes y[j*ldy + r] for r < rows, j < M. START computes the scales of a block and the sums in `fix`,
 * GROUP adds the products of one group. */
#define BLOCKS_LOOP(M, BYTES, START, GROUP)                                           \
    for (int r = 0; r < rows; r++) {                                                  \
        qsum acc[M][2], fix[M];                                                       \
        UNROLL for (int j = 0; j < M; j++) acc[j][0] = acc[j][1] = fix[j] = q_zero(); \
        for (int c = 0; c < cols; c += 256, w += (BYTES)) {                           \
            float f[M][8];                                                            \
            START(M)                                                                  \
            UNROLL for (int g = 0; g < 8; g++) { GROUP(M) }                           \
        }                                                                             \
        UNROLL for (int j = 0; j < M; j++) y[j * ldy + r] =                           \
            q_total(_mm256_add_ps(_mm256_add_ps(acc[j][0], acc[j][1]), fix[j]));      \
    }
#define BLOCK_X(j) (x->q + (ptrdiff_t)(j)*x->stride + c)
#define BLOCK_D(j) _mm256_loadu_ps(x->d + ((ptrdiff_t)(j)*x->stride + c) / 32)
#define BLOCK_SUMS(j) (x->sums + ((ptrdiff_t)(j)*x->stride + c) / 16)
#define AFFINE_START(M)                                                                \
    __m256 scale, offset;                                                              \
    block_scales(w, &scale, &offset);                                                  \
    UNROLL for (int j = 0; j < M; j++) {                                               \
        __m256 d = BLOCK_D(j), sums = block_sums(BLOCK_SUMS(j), _mm256_set1_epi16(1)); \
        _mm256_storeu_ps(f[j], _mm256_mul_ps(scale, d));                               \
        fix[j] = _mm256_fmadd_ps(_mm256_mul_ps(offset, d), sums, fix[j]);              \
    }
#define Q4_K_GROUP(M)                                \
    quants bytes = q_bytes(w + 16 + g / 2 * 32);     \
    quants q = g & 1 ? q_high(bytes) : q_low(bytes); \
    UNROLL for (int j = 0; j < M; j++) block_dot(acc[j], f[j], g, q, BLOCK_X(j));
#define Q5_K_GROUP(M)                                                                        \
    quants bytes = q_bytes(w + 48 + g / 2 * 32);                                             \
    quants q = q_or(g & 1 ? q_high(bytes) : q_low(bytes), q_shifted(q_bytes(w + 16), g, 1)); \
    UNROLL for (int j = 0; j < M; j++) block_dot(acc[j], f[j], g, q, BLOCK_X(j));
#define Q6_K_START(M)                                                                                \
    __m256 scale = _mm256_set1_ps(half_at(w + 208));                                                 \
    __m256i halves = block_halves(w + 192);                                                          \
    __m256i pairs = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + 192))); \
    UNROLL for (int j = 0; j < M; j++) {                                                             \
        __m256 d = _mm256_mul_ps(scale, BLOCK_D(j)), sums = block_sums(BLOCK_SUMS(j), pairs);        \
        _mm256_storeu_ps(f[j], d);                                                                   \
        fix[j] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(-32)), sums, fix[j]);               \
    }
#define Q6_K_GROUP(M)                                                                          \
    quants bytes = q_bytes(w + g / 4 * 64 + g % 2 * 32), high = q_bytes(w + 128 + g / 4 * 32); \
    quants q = q_or(g % 4 < 2 ? q_low(bytes) : q_high(bytes), q_shifted(high, g % 4 * 2, 3));  \
    UNROLL for (int j = 0; j < M; j++) block_dot_two(acc[j], f[j], g, q, BLOCK_X(j), halves);

#define DEFINE_BLOCKS(name, bytes, START, GROUP)                                                             \
    static void qdots_##name(const uint8_t *w, int rows, int cols, const struct q8_rows *x, int m, float *y, \
                             ptrdiff_t ldy) {                                                                \
        if (m == 1) {                                                                                        \
            BLOCKS_LOOP(1, bytes, START, GROUP)                                                              \
        } else if (m == 2) {                                                                                 \
            BLOCKS_LOOP(2, bytes, START, GROUP)                                                              \
        } else if (m == 3) {                                                                                 \
            BLOCKS_LOOP(3, bytes, START, GROUP)                                                              \
        } else {                                                                                             \
            BLOCKS_LOOP(4, bytes, START, GROUP)                                                              \
        }                                                                                                    \
    }
DEFINE_BLOCKS(q4_k, 144, AFFINE_START, Q4_K_GROUP)
DEFINE_BLOCKS(q5_k, 176, AFFINE_START, Q5_K_GROUP)
DEFINE_BLOCKS(q6_k, 210, Q6_K_START, Q6_K_GROUP)
#else
static inline void k_scales(const uint8_t *b, int g, float *scale, float *offset) {
    int s, m;
    group_scales(b + 4, g, &s, &m);
    *scale = half_at(b) * (float)s;
    *offset = -half_at(b + 2) * (float)m;
}
static inline quants group_q4_k(const uint8_t *b, int g, float *scale, float *offset) {
    k_scales(b, g, scale, offset);
    quants v = q_bytes(b + 16 + g / 2 * 32);
    return g & 1 ? q_high(v) : q_low(v);
}
static inline quants group_q5_k(const uint8_t *b, int g, float *scale, float *offset) {
    k_scales(b, g, scale, offset);
    quants v = q_bytes(b + 48 + g / 2 * 32);
    return q_or(g & 1 ? q_high(v) : q_low(v), q_shifted(q_bytes(b + 16), g, 1));
}

/* Group g of a Q6_K block is group g % 4 of its half g / 4. */
#define Q6_K_BODY(M)                                                                                   \
    const uint8_t *low = w + g / 4 * 64 + g % 2 * 32, *high = w + 128 + g / 4 * 32;                    \
    const int8_t *s = (const int8_t *)w + 192 + g * 2;                                                 \
    quants bytes = q_bytes(low);                                                                       \
    quants q = q_or(g % 4 < 2 ? q_low(bytes) : q_high(bytes), q_shifted(q_bytes(high), g % 4 * 2, 3)); \
    float scale = half_at(w + 208);                                                                    \
    EACH_X(M, {                                                                                        \
        acc[j] = q_dot_two(acc[j], scale * d, q, xq, s[0], s[1]);                                      \
        fix[j] -= scale * d * 32 * (float)(s[0] * sums[0] + s[1] * sums[1]);                           \
    })
#define Q6_K_OF(M, unused) Q6_K_BODY(M)
DEFINE_QDOTS(q4_k, 256, 144, AFFINE_BODY, group_q4_k)
DEFINE_QDOTS(q5_k, 256, 176, AFFINE_BODY, group_q5_k)
DEFINE_QDOTS(q6_k, 256, 210, Q6_K_OF, none)
#endif

static void qdots_of(const uint8_t *w, enum dtype t, int rows, int cols, const struct q8_rows *x, int m,
                     float *y, ptrdiff_t ldy) {
    switch (t) {
    case DTYPE_Q8_0: qdots_q8_0(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q4_0: qdots_q4_0(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q4_1: qdots_q4_1(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q5_0: qdots_q5_0(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q5_1: qdots_q5_1(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q4_K: qdots_q4_k(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q5_K: qdots_q5_k(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_Q6_K: qdots_q6_k(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_MXFP4: qdots_mxfp4(w, rows, cols, x, m, y, ldy); return;
    case DTYPE_F8_E4M3:
    case DTYPE_I8:
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPES_END: return;
    }
}
