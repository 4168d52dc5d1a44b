/* The source of all kernel tables, written with the compilers' vector extensions. Each kernels_<isa>.c
 * defines KERNELS_NAME, LANES (floats per vector) and MR and includes this file. A tile is MR x 2 LANES.
 * Its 2 MR accumulators leave registers for two loads and a broadcast. The Makefile allows the contraction
 * of a*b+c. */
#include "engine/compute/kernels.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define NR (2 * LANES)
#define UNROLL _Pragma("GCC unroll 16")

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));

/* memcpy compiles to an unaligned load. */
static inline vf load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf all(float x) { return x - (vf){ 0 }; }

static inline vf load_bf16(const uint16_t *p) {
    vh h;
    memcpy(&h, p, sizeof h);
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

#if defined(__F16C__) && LANES == 8
static inline vf load_f16(const uint16_t *p) {
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
#elif defined(__AVX512F__) && LANES == 16
static inline vf load_f16(const uint16_t *p) {
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
#else
/* Shifts the exponent to its place in a float and multiplies by 2^112, which is also correct for denormals.
 * For infinities and NaN, all exponent bits are set afterwards. */
static inline vf load_f16(const uint16_t *p) {
    vh h;
    memcpy(&h, p, sizeof h);
    vu u = __builtin_convertvector(h, vu), magnitude = (u & 0x7fff) << 13;
    vf f = (vf)magnitude * all(0x1p112f);
    vu special = (vu)(magnitude >= 0x0f800000u) & 0x7f800000u;
    return (vf)((vu)f | special | (u & 0x8000) << 16);
}
#endif

static inline float sum(vf v) {
    float s[LANES];
    memcpy(s, &v, sizeof v);
    for (int step = LANES / 2; step; step /= 2)
        for (int i = 0; i < step; i++) s[i] += s[i + step];
    return s[0];
}

static inline vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
static inline vf vmax(vf a, vf b) { return choose(a > b, a, b); }
static inline vf vmin(vf a, vf b) { return choose(a < b, a, b); }

/* e^x with an error of about 2 units in the last place: 2^n times a polynomial on [-ln2/2, ln2/2].
 * Denormal results become 0. */
static inline vf vexp(vf given) {
    vf x = vmax(vmin(given, all(88.3f)), all(-87.3f));
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vf n = (x * all(1.44269504f) + all(magic)) - all(magic);
    vf r = x - n * all(0.693359375f);
    r = r + n * all(2.12194440e-4f);
    vf p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(5.0000001201e-1f);
    p = p * (r * r) + r + all(1.0f);
    p = p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
    return (vf)((vi)p & (given > all(-87.3f)));
}

static inline vf vsigmoid(vf x) { return all(1.0f) / (all(1.0f) + vexp(-x)); }

/* erf with an error of 2e-7: Abramowitz and Stegun 7.1.26. */
static inline vf verf(vf x) {
    vf a = (vf)((vi)x & 0x7fffffff);
    vf t = all(1.0f) / (all(1.0f) + all(0.3275911f) * a);
    vf p = all(1.061405429f);
    p = p * t - all(1.453152027f);
    p = p * t + all(1.421413741f);
    p = p * t - all(0.284496736f);
    p = p * t + all(0.254829592f);
    vf y = all(1.0f) - p * t * vexp(-a * a);
    return (vf)((vi)y | ((vi)x & (vi)all(-0.0f)));
}

enum { ROW_GROUPS = (MR + 3) / 4 };
/* `whole`: all MR rows exist. Then each group of four rows of A shares one pointer, so that all pointers
 * stay in registers. Otherwise each row has its own pointer, and row 0 replaces the missing rows. */
static inline __attribute__((always_inline)) void tile_of(int k, const float *a, ptrdiff_t a_row,
                                                          ptrdiff_t a_col, int rows, const float *b,
                                                          ptrdiff_t ldb, float *c, ptrdiff_t ldc, bool add,
                                                          const bool whole) {
    vf acc[MR][2];
    const float *row[MR], *group[ROW_GROUPS];
    UNROLL for (int i = 0; i < ROW_GROUPS; i++) group[i] = a + 4 * i * a_row;
    UNROLL for (int i = 0; i < MR; i++) {
        row[i] = a + (i < rows ? i : 0) * a_row;
        acc[i][0] = add ? load(c + i * ldc) : (vf){ 0 };
        acc[i][1] = add ? load(c + i * ldc + LANES) : (vf){ 0 };
    }
    ptrdiff_t at = 0;
    for (int j = 0; j < k; j++, at += a_col, b += ldb) {
        vf b0 = load(b), b1 = load(b + LANES);
        UNROLL for (int i = 0; i < MR; i++) {
            vf x = all(whole ? group[i / 4][i % 4 * a_row] : row[i][at]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
        UNROLL for (int i = 0; i < ROW_GROUPS; i++) group[i] += a_col;
    }
    UNROLL for (int i = 0; i < MR; i++) {
        store(c + i * ldc, acc[i][0]);
        store(c + i * ldc + LANES, acc[i][1]);
    }
}

static void k_tile(int k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, int rows, const float *b,
                   ptrdiff_t ldb, float *c, ptrdiff_t ldc, bool add) {
    if (rows == MR)
        tile_of(k, a, a_row, a_col, rows, b, ldb, c, ldc, add, true);
    else
        tile_of(k, a, a_row, a_col, rows, b, ldb, c, ldc, add, false);
}

enum { AHEAD = 512 };
/* Prefetches `bytes` bytes of weights, AHEAD bytes after p. Prefetching beyond the end of the weights is
 * harmless. */
static inline void prefetch_weights(const void *p, int bytes) {
    const char *at = (const char *)p + AHEAD;
    UNROLL for (int i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 0);
}

#include "engine/compute/bf16_impl.h"
#include "engine/compute/quant_impl.h"
#include "engine/compute/qdots_impl.h"
#include "engine/compute/qrows_impl.h"

static void k_qdots(const void *w, enum dtype t, int rows, int cols, const struct q8_rows *x, int m, float *y,
                    ptrdiff_t ldy) {
    int r = m == 1 ? k_qrows(w, t, rows, cols, x, y) : 0;
    const uint8_t *rest = (const uint8_t *)w + (size_t)r * dtype_size(t, (size_t)cols);
    qdots_of(rest, t, rows - r, cols, x, m, y + r, ldy);
}

static void k_widen(float *out, const void *in, enum dtype t, size_t n) {
    const uint16_t *p = in;
    size_t i = 0;
    if (t == DTYPE_F32) {
        memcpy(out, in, n * 4);
        return;
    }
    if (!dtype_is_float(t)) {
        widen_blocks(out, in, t, n);
        return;
    }
    for (; i + LANES <= n; i += LANES) store(out + i, t == DTYPE_BF16 ? load_bf16(p + i) : load_f16(p + i));
    if (i == n) return;
    uint16_t tail[LANES] = { 0 };
    float wide[LANES];
    memcpy(tail, p + i, (n - i) * 2);
    store(wide, t == DTYPE_BF16 ? load_bf16(tail) : load_f16(tail));
    memcpy(out + i, wide, (n - i) * 4);
}

enum { STREAMS = 4 };
/* Dot products with weights of one type. With one right-hand side, name_streams() reads four rows at a
 * time that are far apart, because a core reads several streams faster than one: decode was 9% (bf16) to
 * 30% (f32, f16) faster on an AMD EPYC. Two to four right-hand sides share one read of the weights. */
#define DEFINE_DOTS(name, type, LOAD, TYPE)                                                             \
    static float name##_1(const type *w, const float *x, int n) {                                       \
        vf s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };                                              \
        int i = 0;                                                                                      \
        for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                    \
            prefetch_weights(w + i, 4 * LANES * (int)sizeof *w);                                        \
            s0 += LOAD(w + i) * load(x + i);                                                            \
            s1 += LOAD(w + i + LANES) * load(x + i + LANES);                                            \
            s2 += LOAD(w + i + 2 * LANES) * load(x + i + 2 * LANES);                                    \
            s3 += LOAD(w + i + 3 * LANES) * load(x + i + 3 * LANES);                                    \
        }                                                                                               \
        for (; i + LANES <= n; i += LANES) s0 += LOAD(w + i) * load(x + i);                             \
        float s = sum((s0 + s1) + (s2 + s3)), wide[LANES] = { 0 };                                      \
        if (i < n) k_widen(wide, w + i, TYPE, (size_t)(n - i));                                         \
        for (int j = i; j < n; j++) s += wide[j - i] * x[j];                                            \
        return s;                                                                                       \
    }                                                                                                   \
    /* n is a multiple of 2 LANES. Rows after the last multiple of STREAMS are not computed. */         \
    static void name##_streams(const type *w, int rows, const float *x, int n, float *y) {              \
        ptrdiff_t part = rows / STREAMS;                                                                \
        for (ptrdiff_t r = 0; r < part; r++) {                                                          \
            vf s[STREAMS][2] = { { { 0 } } };                                                           \
            for (int i = 0; i < n; i += 2 * LANES) UNROLL for (int k = 0; k < STREAMS; k++) {           \
                    const type *p = w + (r + k * part) * n + i;                                         \
                    prefetch_weights(p, 2 * LANES * (int)sizeof *w);                                    \
                    s[k][0] += LOAD(p) * load(x + i);                                                   \
                    s[k][1] += LOAD(p + LANES) * load(x + i + LANES);                                   \
                }                                                                                       \
            UNROLL for (int k = 0; k < STREAMS; k++) y[r + k * part] = sum(s[k][0] + s[k][1]);          \
        }                                                                                               \
    }                                                                                                   \
    static inline __attribute__((always_inline)) void name##_few(                                       \
        const int m, const type *w, const float *x, ptrdiff_t ldx, int n, float *y, ptrdiff_t ldy) {    \
        vf s[4] = { { 0 } };                                                                            \
        int i = 0;                                                                                      \
        for (; i + LANES <= n; i += LANES) {                                                            \
            prefetch_weights(w + i, LANES * (int)sizeof *w);                                            \
            vf v = LOAD(w + i);                                                                         \
            UNROLL for (int j = 0; j < m; j++) s[j] += v * load(x + j * ldx + i);                       \
        }                                                                                               \
        float wide[LANES] = { 0 };                                                                      \
        if (i < n) k_widen(wide, w + i, TYPE, (size_t)(n - i));                                         \
        for (int j = 0; j < m; j++) {                                                                   \
            float r = sum(s[j]);                                                                        \
            for (int c = i; c < n; c++) r += wide[c - i] * x[j * ldx + c];                              \
            y[j * ldy] = r;                                                                             \
        }                                                                                               \
    }                                                                                                   \
    static void name(const type *w, int rows, int cols, const float *x, ptrdiff_t ldx, int m, float *y, \
                     ptrdiff_t ldy) {                                                                   \
        int r = m == 1 && cols % (2 * LANES) == 0 ? rows / STREAMS * STREAMS : 0;                       \
        name##_streams(w, r, x, cols, y);                                                               \
        for (w += (ptrdiff_t)r * cols; r < rows; r++, w += cols) {                                      \
            if (m == 1)                                                                                 \
                y[r] = name##_1(w, x, cols);                                                            \
            else if (m == 2)                                                                            \
                name##_few(2, w, x, ldx, cols, y + r, ldy);                                             \
            else if (m == 3)                                                                            \
                name##_few(3, w, x, ldx, cols, y + r, ldy);                                             \
            else                                                                                        \
                name##_few(4, w, x, ldx, cols, y + r, ldy);                                             \
        }                                                                                               \
    }
DEFINE_DOTS(dots_f32, float, load, DTYPE_F32)
DEFINE_DOTS(dots_bf16, uint16_t, load_bf16, DTYPE_BF16)
DEFINE_DOTS(dots_f16, uint16_t, load_f16, DTYPE_F16)

/* Dot products with quantised weights: converts up to 256 weights at a time to floats. */
static void dots_blocks(const uint8_t *w, enum dtype t, int rows, int cols, const float *x, ptrdiff_t ldx,
                        int m, float *y, ptrdiff_t ldy) {
    enum { WIDE = 256 };
    float wide[WIDE];
    for (int r = 0; r < rows; r++) {
        float sums[4] = { 0 };
        for (int c = 0; c < cols; c += WIDE) {
            int n = cols - c < WIDE ? cols - c : WIDE;
            widen_blocks(wide, w, t, (size_t)n);
            for (int j = 0; j < m; j++) sums[j] += dots_f32_1(wide, x + j * ldx + c, n);
            w += dtype_size(t, (size_t)n);
        }
        for (int j = 0; j < m; j++) y[j * ldy + r] = sums[j];
    }
}

static void k_dots(const void *w, enum dtype t, int rows, int cols, const float *x, ptrdiff_t ldx, int m,
                   float *y, ptrdiff_t ldy) {
    if (t == DTYPE_F32)
        dots_f32(w, rows, cols, x, ldx, m, y, ldy);
    else if (t == DTYPE_BF16)
        dots_bf16(w, rows, cols, x, ldx, m, y, ldy);
    else if (!dtype_is_float(t))
        dots_blocks(w, t, rows, cols, x, ldx, m, y, ldy);
    else
        dots_f16(w, rows, cols, x, ldx, m, y, ldy);
}

enum { NEXT_VALUES = 32 };
/* Columns are processed in steps of `vectors` vectors, whose sums stay in registers. While a row of values
 * is used, the same part of the row NEXT_VALUES rows later is prefetched. */
#define DEFINE_VALUES(name, type, LOAD, TYPE)                                                        \
    static inline __attribute__((always_inline)) void name##_step(                                   \
        const int m, const int vectors, float *y, ptrdiff_t ldy, const float *s, ptrdiff_t lds,      \
        const type *v, ptrdiff_t v_row, int n) {                                                     \
        vf acc[4][8];                                                                                \
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int k = 0; k < vectors; k++) acc[i][k] =      \
            load(y + i * ldy + k * LANES);                                                           \
        for (int j = 0; j < n; j++, v += v_row) {                                                    \
            __builtin_prefetch(v + NEXT_VALUES * v_row);                                             \
            UNROLL for (int k = 0; k < vectors; k++) {                                               \
                vf x = LOAD(v + k * LANES);                                                          \
                UNROLL for (int i = 0; i < m; i++) acc[i][k] += x * all(s[i * lds + j]);             \
            }                                                                                        \
        }                                                                                            \
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int k = 0; k < vectors; k++)                  \
            store(y + i * ldy + k * LANES, acc[i][k]);                                               \
    }                                                                                                \
    static inline __attribute__((always_inline)) void name##_of(                                     \
        const int m, const int vectors, float *y, ptrdiff_t ldy, const float *s, ptrdiff_t lds,      \
        const type *v, ptrdiff_t v_row, int n, int dim) {                                            \
        int d = 0;                                                                                   \
        for (; d + vectors * LANES <= dim; d += vectors * LANES)                                     \
            name##_step(m, vectors, y + d, ldy, s, lds, v + d, v_row, n);                            \
        for (; d + LANES <= dim; d += LANES) name##_step(m, 1, y + d, ldy, s, lds, v + d, v_row, n); \
        for (int j = 0; d < dim && j < n; j++) {                                                     \
            float wide[LANES];                                                                       \
            k_widen(wide, v + j * v_row + d, TYPE, (size_t)(dim - d));                               \
            for (int i = 0; i < m; i++)                                                              \
                for (int c = d; c < dim; c++) y[i * ldy + c] += s[i * lds + j] * wide[c - d];        \
        }                                                                                            \
    }                                                                                                \
    static void name(float *y, ptrdiff_t ldy, const float *s, ptrdiff_t lds, int m, const type *v,   \
                     ptrdiff_t v_row, int n, int dim) {                                              \
        if (m == 1)                                                                                  \
            name##_of(1, 8, y, ldy, s, lds, v, v_row, n, dim);                                       \
        else if (m == 2)                                                                             \
            name##_of(2, 4, y, ldy, s, lds, v, v_row, n, dim);                                       \
        else if (m == 3)                                                                             \
            name##_of(3, 2, y, ldy, s, lds, v, v_row, n, dim);                                       \
        else                                                                                         \
            name##_of(4, 2, y, ldy, s, lds, v, v_row, n, dim);                                       \
    }
DEFINE_VALUES(values_f32, float, load, DTYPE_F32)
DEFINE_VALUES(values_bf16, uint16_t, load_bf16, DTYPE_BF16)
DEFINE_VALUES(values_f16, uint16_t, load_f16, DTYPE_F16)

static void k_values(float *y, ptrdiff_t ldy, const float *s, ptrdiff_t lds, int m, const void *v,
                     enum dtype t, ptrdiff_t v_row, int n, int dim) {
    if (t == DTYPE_F32)
        values_f32(y, ldy, s, lds, m, v, v_row, n, dim);
    else if (t == DTYPE_BF16)
        values_bf16(y, ldy, s, lds, m, v, v_row, n, dim);
    else
        values_f16(y, ldy, s, lds, m, v, v_row, n, dim);
}

typedef float v4 __attribute__((vector_size(16)));
static inline v4 load4(const float *p) {
    v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store4(float *p, v4 v) { memcpy(p, &v, sizeof v); }

static inline void transpose4(const float *in, ptrdiff_t ld, v4 out[4]) {
    v4 a = load4(in), b = load4(in + ld), c = load4(in + 2 * ld), d = load4(in + 3 * ld);
    v4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

/* pack() and unpack() work in blocks of columns, so that a line of the output is complete before it leaves
 * the L1 cache. Rows are often a multiple of 4096 bytes apart and then share few lines of that cache. */
enum { PACK_COLUMNS = 64, UNPACK_COLUMNS = 16 };

static void k_pack(float *out, const float *in, ptrdiff_t ld, int rows, int n) {
    int whole = n / 4 * 4;
    for (int j0 = 0; j0 < whole; j0 += PACK_COLUMNS) {
        int end = j0 + PACK_COLUMNS < whole ? j0 + PACK_COLUMNS : whole;
        for (int i = 0; i + 4 <= rows; i += 4)
            for (int j = j0; j < end; j += 4) {
                v4 t[4];
                transpose4(in + i * ld + j, ld, t);
                UNROLL for (int k = 0; k < 4; k++) store4(out + (ptrdiff_t)(j + k) * NR + i, t[k]);
            }
    }
    for (int i = 0; i < NR; i++) {
        const float *row = in + i * ld;
        for (int j = i < rows / 4 * 4 ? whole : 0; j < n; j++)
            out[(ptrdiff_t)j * NR + i] = i < rows ? row[j] : 0.0f;
    }
}

static void k_unpack(float *y, ptrdiff_t ldy, const float *t, int rows, int n, const float *bias, bool add) {
    int whole = n / 4 * 4;
    for (int f0 = 0; f0 < whole; f0 += UNPACK_COLUMNS) {
        int end = f0 + UNPACK_COLUMNS < whole ? f0 + UNPACK_COLUMNS : whole;
        for (int i = 0; i + 4 <= rows; i += 4)
            for (int f = f0; f < end; f += 4) {
                v4 c[4], b = bias ? load4(bias + f) : (v4){ 0 };
                transpose4(t + f * NR + i, NR, c);
                UNROLL for (int k = 0; k < 4; k++) {
                    float *at = y + (i + k) * ldy + f;
                    store4(at, (add ? load4(at) : (v4){ 0 }) + (c[k] + b));
                }
            }
    }
    for (int i = 0; i < rows; i++)
        for (int f = i < rows / 4 * 4 ? whole : 0; f < n; f++)
            y[i * ldy + f] = (add ? y[i * ldy + f] : 0.0f) + (t[f * NR + i] + (bias ? bias[f] : 0.0f));
}

static void k_add(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}
static void k_axpy(float *restrict y, float a, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* y[i] = expression for i < n, where v is x[i] and u is u_[i]. The remainder after whole vectors is
 * processed in a padded copy. */
#define MAP(y, x, u_, n, expression)                      \
    do {                                                  \
        size_t i_ = 0;                                    \
        for (; i_ + LANES <= (n); i_ += LANES) {          \
            vf v = load((x) + i_), u = load((u_) + i_);   \
            (void)u;                                      \
            store((y) + i_, (expression));                \
        }                                                 \
        if (i_ < (n)) {                                   \
            float tx_[LANES] = { 0 }, tu_[LANES] = { 0 }; \
            memcpy(tx_, (x) + i_, ((n)-i_) * 4);          \
            memcpy(tu_, (u_) + i_, ((n)-i_) * 4);         \
            vf v = load(tx_), u = load(tu_);              \
            (void)u;                                      \
            store(tx_, (expression));                     \
            memcpy((y) + i_, tx_, ((n)-i_) * 4);          \
        }                                                 \
    } while (0)

static void k_silu_mul(float *g, const float *u_, size_t n) { MAP(g, g, u_, n, v * vsigmoid(v) * u); }
static inline vf vgelu(vf v) { return all(0.5f) * v * (all(1.0f) + verf(v * all(0.70710678f))); }
static void k_gelu_mul(float *g, const float *u_, size_t n) { MAP(g, g, u_, n, vgelu(v) * u); }
/* (1 + tanh(y)) / 2 is sigmoid(2 y), with y = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline vf vgelu_tanh(vf v) {
    return v * vsigmoid(all(1.5957691216f) * (v + all(0.044715f) * v * v * v));
}
static void k_gelu_tanh_mul(float *g, const float *u_, size_t n) { MAP(g, g, u_, n, vgelu_tanh(v) * u); }
static inline vf vclamped(vf g, vf u) {
    vf gate = vmin(g, all(7.0f)), up = vmax(vmin(u, all(7.0f)), all(-7.0f));
    return gate * vsigmoid(all(1.702f) * gate) * (up + all(1.0f));
}
static void k_clamped_mul(float *g, const float *u_, size_t n) { MAP(g, g, u_, n, vclamped(v, u)); }
/* tanh(y) is 2 sigmoid(2 y) - 1. */
static void k_softcap(float *x, float cap, size_t n) {
    vf twice = all(2.0f / cap), c = all(cap);
    MAP(x, x, x, n, c * (all(2.0f) * vsigmoid(twice * v) - all(1.0f)));
}
static void k_gelu(float *x, size_t n) { MAP(x, x, x, n, vgelu(v)); }
static void k_quick_gelu(float *x, size_t n) { MAP(x, x, x, n, v * vsigmoid(all(1.702f) * v)); }

static float sum_of(const float *x, int n) {
    vf s = { 0 };
    int i = 0;
    for (; i + LANES <= n; i += LANES) s += load(x + i);
    float r = sum(s);
    for (; i < n; i++) r += x[i];
    return r;
}

static float sum_of_squares(const float *x, int n, float mean) {
    vf s = { 0 };
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf d = load(x + i) - all(mean);
        s += d * d;
    }
    float r = sum(s);
    for (; i < n; i++) r += (x[i] - mean) * (x[i] - mean);
    return r;
}

static void k_rmsnorm(float *y, const float *x, const float *w, int n, float eps) {
    float scale = 1.0f / sqrtf(sum_of_squares(x, n, 0.0f) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

static void k_layernorm(float *y, const float *x, const float *w, const float *b, int n, float eps) {
    float mean = sum_of(x, n) / (float)n;
    float scale = 1.0f / sqrtf(sum_of_squares(x, n, mean) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + b[i];
}

static void k_softmax(float *x, size_t n) {
    float max = x[0];
    for (size_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    MAP(x, x, x, n, vexp(v - all(max)));
    float total = sum_of(x, (int)n), inv = 1.0f / total;
    for (size_t i = 0; i < n; i++) x[i] *= inv;
}

static void k_scale_bias(float *s, int keys, float scale, const float *row_bias, const float *col_bias,
                         int side) {
    vf f = all(scale);
    if (!row_bias) {
        for (int i = 0; i < keys * 2; i++) store(s + i * LANES, load(s + i * LANES) * f);
        return;
    }
    for (int y = 0; y < side; y++) {
        vf r0 = load(row_bias + y * NR), r1 = load(row_bias + y * NR + LANES);
        for (int x = 0; x < side; x++, s += NR) {
            store(s, load(s) * f + (r0 + load(col_bias + x * NR)));
            store(s + LANES, load(s + LANES) * f + (r1 + load(col_bias + x * NR + LANES)));
        }
    }
}

static void k_softmax_lanes(float *s, int keys, float *inv) {
    vf m0 = load(s), m1 = load(s + LANES), t0 = { 0 }, t1 = { 0 };
    for (int i = 1; i < keys; i++) {
        m0 = vmax(m0, load(s + i * NR));
        m1 = vmax(m1, load(s + i * NR + LANES));
    }
    for (int i = 0; i < keys; i++) {
        vf e0 = vexp(load(s + i * NR) - m0), e1 = vexp(load(s + i * NR + LANES) - m1);
        store(s + i * NR, e0);
        store(s + i * NR + LANES, e1);
        t0 += e0;
        t1 += e1;
    }
    store(inv, all(1.0f) / t0);
    store(inv + LANES, all(1.0f) / t1);
}

static void k_softmax_block(float *s, int keys, float *max, float *total, float *factor) {
    for (int half = 0; half < NR; half += LANES) {
        vf old = load(max + half), m = old, t = { 0 };
        for (int i = 0; i < keys; i++) m = vmax(m, load(s + i * NR + half));
        for (int i = 0; i < keys; i++) {
            vf e = vexp(load(s + i * NR + half) - m);
            store(s + i * NR + half, e);
            t += e;
        }
        vf f = vexp(old - m);
        store(max + half, m);
        store(factor + half, f);
        store(total + half, load(total + half) * f + t);
    }
}

static void k_scale_lanes(float *x, int rows, const float *factor) {
    vf f0 = load(factor), f1 = load(factor + LANES);
    for (int i = 0; i < rows; i++, x += NR) {
        store(x, load(x) * f0);
        store(x + LANES, load(x + LANES) * f1);
    }
}

static void k_generate(void *out, enum dtype t, uint32_t a, uint32_t b, float scale, uint32_t first,
                       size_t n) {
    vu index = { 0 };
    for (uint32_t i = 0; i < LANES; i++) index[i] = first + i;
    for (size_t i = 0; i < n; i += LANES, index += LANES) {
        vu x = index * 0x9e3779b1u + a;
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x = (x ^ b) * 0x846ca68bu;
        x ^= x >> 16;
        vf f = __builtin_convertvector((vi)x, vf) * all(scale);
        vu r = ((vu)f + 0x7fff + ((vu)f >> 16 & 1)) >> 16; /* rounds to bf16, ties to even */
        vh h = __builtin_convertvector(r, vh);
        size_t rest = n - i < LANES ? n - i : LANES;
        if (t == DTYPE_F32)
            memcpy((float *)out + i, &f, rest * 4);
        else
            memcpy((uint16_t *)out + i, &h, rest * 2);
    }
}

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define STR_(x) #x
#define STR(x) STR_(x)
const struct kernels CAT(kernels_, KERNELS_NAME) = {
    .name = STR(KERNELS_NAME),
    .mr = MR,
    .nr = NR,
    .tile = k_tile,
    .tile_bf16 = k_tile_bf16,
    .tile_bf16_end = TILE_BF16_END,
    .mr_bf16 = MR_BF16,
    .fast_bf16 = FAST_BF16,
    .narrow = k_narrow,
    .dots = k_dots,
    .quantize = k_quantize,
    .qdots = k_qdots,
    .widen = k_widen,
    .pack = k_pack,
    .unpack = k_unpack,
    .add = k_add,
    .axpy = k_axpy,
    .silu_mul = k_silu_mul,
    .gelu_mul = k_gelu_mul,
    .gelu_tanh_mul = k_gelu_tanh_mul,
    .clamped_mul = k_clamped_mul,
    .softcap = k_softcap,
    .gelu = k_gelu,
    .quick_gelu = k_quick_gelu,
    .rmsnorm = k_rmsnorm,
    .layernorm = k_layernorm,
    .softmax = k_softmax,
    .generate = k_generate,
    .scale_bias = k_scale_bias,
    .softmax_lanes = k_softmax_lanes,
    .softmax_block = k_softmax_block,
    .scale_lanes = k_scale_lanes,
    .values = k_values,
};
