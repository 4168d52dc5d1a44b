/* Products of one row of activations, rounded to 8 bits, with four rows of quantised weights at a time.
 * Included by kernels_impl.h after qdots_impl.h, for AVX2 and newer. The sums of the four rows do not wait
 * for each other, a load of activations serves all of them, and the scales of 256 columns are computed
 * together. */
#if defined(__AVX2__)
enum { QROWS = 4, QCOLS = 256, QGROUPS = QCOLS / 32, QAHEAD = 12 << 10 };

/* The activations of 256 columns: scales, and sums of the groups of 32 and of their halves. */
struct qx {
    __m256 d, sums;
    const int16_t *half_sums;
};
static inline struct qx qx_of(const struct q8_rows *x, int c) {
    const int16_t *sums = x->sums + c / 16;
    return (struct qx){ _mm256_loadu_ps(x->d + c / 32), block_sums(sums, _mm256_set1_epi16(1)), sums };
}
/* One row of weights: its sums so far, and the factors a d of 256 columns. */
struct qrow {
    qsum acc, fix;
    float f[16];    /* one per group; Q6_K with VNNI: one per half */
    __m256i halves; /* Q6_K without VNNI: see block_halves() */
};

/* Returns eight f16 numbers, `step` bytes apart, as floats. */
static inline __m256 halves_at(const uint8_t *p, ptrdiff_t step) {
    uint64_t v[2] = { 0 };
    UNROLL for (int i = 0; i < 8; i++) {
        uint16_t h;
        memcpy(&h, p + i * step, 2);
        v[i / 4] |= (uint64_t)h << (i % 4 * 16);
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)v[1], (long long)v[0]));
}
/* Returns mxfp4_scale() of eight bytes, `step` bytes apart. */
static inline __m256 exponents_at(const uint8_t *p, ptrdiff_t step) {
    uint64_t v = 0;
    UNROLL for (int i = 0; i < 8; i++) v |= (uint64_t)p[i * step] << (i * 8);
    __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)v)), one = _mm256_set1_epi32(1);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
}

/* ---- start_<type>(): computes the factors of 256 columns and adds their b d sum(x8) */
static inline void start_affine(struct qrow *r, const struct qx *x, __m256 scale, __m256 offset) {
    _mm256_storeu_ps(r->f, _mm256_mul_ps(scale, x->d));
    r->fix = _mm256_fmadd_ps(_mm256_mul_ps(offset, x->d), x->sums, r->fix);
}
static inline void start_shifted(struct qrow *r, const struct qx *x, __m256 scale, float by) {
    start_affine(r, x, scale, _mm256_mul_ps(scale, _mm256_set1_ps(by)));
}
static inline void start_q8_0(struct qrow *r, const struct qx *x, const uint8_t *w) {
    _mm256_storeu_ps(r->f, _mm256_mul_ps(halves_at(w, 34), x->d));
}
static inline void start_q4_0(struct qrow *r, const struct qx *x, const uint8_t *w) {
    start_shifted(r, x, halves_at(w, 18), -8);
}
static inline void start_q4_1(struct qrow *r, const struct qx *x, const uint8_t *w) {
    start_affine(r, x, halves_at(w, 20), halves_at(w + 2, 20));
}
static inline void start_q5_0(struct qrow *r, const struct qx *x, const uint8_t *w) {
    start_shifted(r, x, halves_at(w, 22), -16);
}
static inline void start_q5_1(struct qrow *r, const struct qx *x, const uint8_t *w) {
    start_affine(r, x, halves_at(w, 24), halves_at(w + 2, 24));
}
static inline void start_mxfp4(struct qrow *r, const struct qx *x, const uint8_t *w) {
    start_shifted(r, x, exponents_at(w, 17), -12);
}
static inline void start_k(struct qrow *r, const struct qx *x, const uint8_t *w) {
    __m256 scale, offset;
    block_scales(w, &scale, &offset);
    start_affine(r, x, scale, offset);
}
static inline void start_q6_k(struct qrow *r, const struct qx *x, const uint8_t *w) {
    __m128i scales = _mm_loadu_si128((const __m128i *)(const void *)(w + 192));
    __m256 d = _mm256_mul_ps(_mm256_set1_ps(half_at(w + 208)), x->d);
    __m256 sums = block_sums(x->half_sums, _mm256_cvtepi8_epi16(scales));
    r->fix = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(-32)), sums, r->fix);
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    __m256 low = _mm256_unpacklo_ps(d, d), high = _mm256_unpackhi_ps(d, d); /* 0011 4455, 2233 6677 */
    __m256 first = _mm256_permute2f128_ps(low, high, 0x20), last = _mm256_permute2f128_ps(low, high, 0x31);
    __m256 s0 = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(scales));
    __m256 s1 = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(scales, 8)));
    _mm256_storeu_ps(r->f, _mm256_mul_ps(first, s0));
    _mm256_storeu_ps(r->f + 8, _mm256_mul_ps(last, s1));
#else
    _mm256_storeu_ps(r->f, d);
    r->halves = block_halves(w + 192);
#endif
}

/* ---- add_<type>(): adds the products of group g. w: the block of the group; v: its activations; minus:
 * see minus_128() */
static inline void add_group(struct qrow *r, int g, __m256i sums) {
    r->acc = _mm256_fmadd_ps(_mm256_broadcast_ss(r->f + g), _mm256_cvtepi32_ps(sums), r->acc);
}
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
/* The instruction multiplies unsigned with signed bytes. So it gets the weights plus 128, and its sums start
 * at -128 times the activations. */
static inline __m256i minus_128(quants v) {
    __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8((char)128), v);
    return _mm256_sub_epi32(_mm256_setzero_si256(), sums);
}
static inline void add_q8_0(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants q = _mm256_xor_si256(q_bytes(w + 2), _mm256_set1_epi8((char)128));
    add_group(r, g, _mm256_dpbusd_epi32(minus, q, v));
}
/* (bits of the group << 4) + nibbles, in four instructions */
static inline void add_q6_k(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants bytes = q_bytes(w + g / 4 * 64 + g % 2 * 32), high = q_bytes(w + 128 + g / 4 * 32);
    quants low = g % 4 < 2 ? q_low(bytes) : q_high(bytes);
    quants bits = g % 4 == 0   ? _mm256_slli_epi16(high, 4)
                  : g % 4 == 1 ? _mm256_slli_epi16(high, 2)
                  : g % 4 == 2 ? high
                               : _mm256_srli_epi16(high, 2);
    quants q = _mm256_ternarylogic_epi32(low, bits, _mm256_set1_epi8(0x30), 0xf8); /* a | (b & c) */
    __m256 f = _mm256_castpd_ps(_mm256_broadcast_sd((const double *)(const void *)(r->f + 2 * g)));
    f = _mm256_permutevar_ps(f, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    (void)minus;
    r->acc = _mm256_fmadd_ps(f, _mm256_cvtepi32_ps(dot_bytes(q, v)), r->acc);
}
#else
static inline __m256i minus_128(quants v) { return v; }
static inline void add_q8_0(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants q = q_bytes(w + 2);
    (void)minus;
    add_group(r, g, dot_bytes(_mm256_sign_epi8(q, q), _mm256_sign_epi8(v, q)));
}
static inline void add_q6_k(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants bytes = q_bytes(w + g / 4 * 64 + g % 2 * 32), high = q_bytes(w + 128 + g / 4 * 32);
    quants q = q_or(g % 4 < 2 ? q_low(bytes) : q_high(bytes), q_shifted(high, g % 4 * 2, 3));
    __m256i scales = _mm256_shuffle_epi8(r->halves, _mm256_set1_epi16((short)((2 * g + 1) << 8 | 2 * g)));
    (void)minus;
    add_group(r, g, _mm256_madd_epi16(_mm256_maddubs_epi16(q, v), scales));
}
#endif
#define DEFINE_ADD(name)                                                                              \
    static inline void add_##name(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) { \
        float scale, offset;                                                                          \
        (void)minus;                                                                                  \
        add_group(r, g, dot_bytes(group_##name(w, g, &scale, &offset), v));                           \
    }
DEFINE_ADD(q4_0)
DEFINE_ADD(q4_1)
DEFINE_ADD(q5_0)
DEFINE_ADD(q5_1)
DEFINE_ADD(mxfp4)
static inline void add_q4_k(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants bytes = q_bytes(w + 16 + g / 2 * 32);
    (void)minus;
    add_group(r, g, dot_bytes(g & 1 ? q_high(bytes) : q_low(bytes), v));
}
static inline void add_q5_k(struct qrow *r, const uint8_t *w, int g, quants v, __m256i minus) {
    quants bytes = q_bytes(w + 48 + g / 2 * 32);
    quants q = q_or(g & 1 ? q_high(bytes) : q_low(bytes), q_shifted(q_bytes(w + 16), g, 1));
    (void)minus;
    add_group(r, g, dot_bytes(q, v));
}

/* The rows of one step are neighbours, and the next ones are prefetched in the order of their addresses: the
 * hardware prefetchers follow one stream, but not four that are a row apart. The lines go to the L2 cache;
 * prefetched to the L1 cache, Q8_0 was three times slower on an AMD EPYC (Zen 4). */
static inline void prefetch_rows(const uint8_t *p, int bytes) {
    UNROLL for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + QAHEAD + i, 0, 2);
}

/* rows is a multiple of QROWS, cols of QCOLS. BYTES: of 256 columns; GROUP: from a group to the next one, 0
 * if 256 columns are one block. */
#define DEFINE_QROWS(name, BYTES, GROUP, START)                                                           \
    static void qrows_##name(const uint8_t *w, int rows, int cols, const struct q8_rows *x, float *y) {   \
        ptrdiff_t size = (ptrdiff_t)(BYTES) * (cols / QCOLS);                                             \
        const uint8_t *ahead = w;                                                                         \
        for (int i = 0; i < rows; i += QROWS, w += QROWS * size) {                                        \
            struct qrow r[QROWS];                                                                         \
            UNROLL for (int k = 0; k < QROWS; k++) r[k].acc = r[k].fix = q_zero();                        \
            const uint8_t *p = w;                                                                         \
            for (int c = 0; c < cols; c += QCOLS, p += (BYTES)) {                                         \
                const struct qx a = qx_of(x, c);                                                          \
                UNROLL for (int k = 0; k < QROWS; k++, ahead += (BYTES)) {                                \
                    prefetch_rows(ahead, (BYTES));                                                        \
                    START(&r[k], &a, p + k * size);                                                       \
                }                                                                                         \
                UNROLL for (int g = 0; g < QGROUPS; g++) {                                                \
                    quants v = q_bytes((const uint8_t *)x->q + c + g * 32);                               \
                    __m256i minus = minus_128(v);                                                         \
                    UNROLL for (int k = 0; k < QROWS; k++)                                                \
                        add_##name(&r[k], p + k * size + g * (GROUP), g, v, minus);                       \
                }                                                                                         \
            }                                                                                             \
            UNROLL for (int k = 0; k < QROWS; k++) y[i + k] = q_total(_mm256_add_ps(r[k].acc, r[k].fix)); \
        }                                                                                                 \
    }
DEFINE_QROWS(q8_0, 272, 34, start_q8_0)
DEFINE_QROWS(q4_0, 144, 18, start_q4_0)
DEFINE_QROWS(q4_1, 160, 20, start_q4_1)
DEFINE_QROWS(q5_0, 176, 22, start_q5_0)
DEFINE_QROWS(q5_1, 192, 24, start_q5_1)
DEFINE_QROWS(mxfp4, 136, 17, start_mxfp4)
DEFINE_QROWS(q5_k, 176, 0, start_k)
DEFINE_QROWS(q6_k, 210, 0, start_q6_k)

#if defined(__AVX512VNNI__) && LANES == 16
/* Q4_K with whole registers. A register of 64 bytes has the nibbles of four groups: the low ones are
 * groups 0 and 2, the high ones groups 1 and 3. */
static inline __m512 q4_k_factors(const uint8_t *w) { /* d s of the 8 groups, then m t */
    const __m128i mask = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i raw = _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i top = _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11);
    const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)w);
    __m128i low = _mm_srlv_epi32(_mm_shuffle_epi8(b, raw), _mm_setr_epi32(0, 0, 0, 4));
    __m128i high = _mm_srli_epi32(_mm_shuffle_epi8(b, top), 2);
    __m128i six = _mm_ternarylogic_epi32(_mm_and_si128(low, mask), high, _mm_set1_epi8(0x30), 0xf8);
    __m512 d = _mm512_permutexvar_ps(order, _mm512_castps128_ps512(_mm_cvtph_ps(b)));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six)));
}
struct q4_k_x {
    __m512i q[4];   /* groups 0 and 2, 1 and 3, 4 and 6, 5 and 7 */
    __m512 d, sums; /* d twice; eight zeros, and sum(x8) with the sign of the offset */
};
static inline struct q4_k_x q4_k_x_of(const struct q8_rows *x, int c) {
    struct q4_k_x out;
    const struct qx a = qx_of(x, c);
    UNROLL for (int h = 0; h < 2; h++) {
        const int8_t *p = x->q + c + h * 128;
        __m512i low = _mm512_loadu_si512(p), high = _mm512_loadu_si512(p + 64);
        out.q[2 * h] = _mm512_shuffle_i64x2(low, high, 0x44);
        out.q[2 * h + 1] = _mm512_shuffle_i64x2(low, high, 0xee);
    }
    out.d = _mm512_broadcast_f32x8(a.d);
    out.sums = _mm512_insertf32x8(_mm512_setzero_ps(), _mm256_sub_ps(_mm256_setzero_ps(), a.sums), 1);
    return out;
}
static inline __m512 q4_k_block(__m512 acc, const uint8_t *w, const struct q4_k_x *x) {
    const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512 f = _mm512_mul_ps(q4_k_factors(w), x->d);
    acc = _mm512_fmadd_ps(f, x->sums, acc);
    UNROLL for (int i = 0; i < 4; i++) {
        __m512i bytes = _mm512_loadu_si512(w + 16 + i / 2 * 64);
        __m512i q = _mm512_and_si512(i % 2 ? _mm512_srli_epi16(bytes, 4) : bytes, nibble);
        __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), q, x->q[i]);
        __m512i order = _mm512_add_epi32(first, _mm512_set1_epi32(i / 2 * 4 + i % 2));
        acc = _mm512_fmadd_ps(_mm512_permutexvar_ps(order, f), _mm512_cvtepi32_ps(sums), acc);
    }
    return acc;
}
static void qrows_q4_k(const uint8_t *w, int rows, int cols, const struct q8_rows *x, float *y) {
    enum { BYTES = 144 };
    ptrdiff_t size = (ptrdiff_t)BYTES * (cols / QCOLS);
    const uint8_t *ahead = w;
    for (int i = 0; i < rows; i += QROWS, w += QROWS * size) {
        __m512 acc[QROWS];
        UNROLL for (int k = 0; k < QROWS; k++) acc[k] = _mm512_setzero_ps();
        const uint8_t *p = w;
        for (int c = 0; c < cols; c += QCOLS, p += BYTES) {
            const struct q4_k_x a = q4_k_x_of(x, c);
            UNROLL for (int k = 0; k < QROWS; k++, ahead += BYTES) {
                prefetch_rows(ahead, BYTES);
                acc[k] = q4_k_block(acc[k], p + k * size, &a);
            }
        }
        UNROLL for (int k = 0; k < QROWS; k++) y[i + k] = _mm512_reduce_add_ps(acc[k]);
    }
}
#else
DEFINE_QROWS(q4_k, 144, 0, start_k)
#endif

/* Computes the first rows and returns their number; the caller computes the others. */
static int k_qrows(const void *w, enum dtype t, int rows, int cols, const struct q8_rows *x, float *y) {
    int n = cols % QCOLS ? 0 : rows / QROWS * QROWS;
    switch (t) {
    case DTYPE_Q8_0: qrows_q8_0(w, n, cols, x, y); return n;
    case DTYPE_Q4_0: qrows_q4_0(w, n, cols, x, y); return n;
    case DTYPE_Q4_1: qrows_q4_1(w, n, cols, x, y); return n;
    case DTYPE_Q5_0: qrows_q5_0(w, n, cols, x, y); return n;
    case DTYPE_Q5_1: qrows_q5_1(w, n, cols, x, y); return n;
    case DTYPE_Q4_K: qrows_q4_k(w, n, cols, x, y); return n;
    case DTYPE_Q5_K: qrows_q5_k(w, n, cols, x, y); return n;
    case DTYPE_Q6_K: qrows_q6_k(w, n, cols, x, y); return n;
    case DTYPE_MXFP4: qrows_mxfp4(w, n, cols, x, y); return n;
    case DTYPE_F8_E4M3:
    case DTYPE_I8:
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPES_END: break;
    }
    return 0;
}
#else
static int k_qrows(const void *w, enum dtype t, int rows, int cols, const struct q8_rows *x, float *y) {
    (void)w, (void)t, (void)rows, (void)cols, (void)x, (void)y;
    return 0;
}
#endif
