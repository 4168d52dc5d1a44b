#include "session/cpu_peak_kernels.h"

#include "base/amx.h"
#include "base/cpu_features.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Vector types of the loops below. The 6 x 32 accumulators of a panel are 12 registers of 16 floats
 * (AVX-512), two passes of 6 x 16 with registers of 8 floats (AVX2), or four passes of 6 x 8 (portable). */
typedef float vec8 __attribute__((vector_size(32), aligned(4)));
typedef float vec16 __attribute__((vector_size(64), aligned(4)));
typedef uint64_t words2 __attribute__((vector_size(16), aligned(8)));
typedef uint64_t words4 __attribute__((vector_size(32), aligned(8)));
typedef uint64_t words8 __attribute__((vector_size(64), aligned(8)));

#define PANEL_BODY(vec, width, half)                                                                      \
    for (unsigned h = 0; h < PANEL_N; h += (half)) {                                                      \
        vec acc[PANEL_M][(half) / (width)];                                                               \
        for (int i = 0; i < PANEL_M; i++)                                                                 \
            for (unsigned j = 0; j < (half) / (width); j++)                                               \
                acc[i][j] = *(const vec *)(c + i * PANEL_N + h + j * (width));                            \
        for (unsigned p = 0; p < k; p++) {                                                                \
            for (int i = 0; i < PANEL_M; i++)                                                             \
                for (unsigned j = 0; j < (half) / (width); j++)                                           \
                    acc[i][j] +=                                                                          \
                        a[p * PANEL_M + (unsigned)i] * *(const vec *)(b + p * PANEL_N + h + j * (width)); \
        }                                                                                                 \
        for (int i = 0; i < PANEL_M; i++)                                                                 \
            for (unsigned j = 0; j < (half) / (width); j++)                                               \
                *(vec *)(c + i * PANEL_N + h + j * (width)) = acc[i][j];                                  \
    }

/* Eight accumulators hide the latency of the operation. `vec` must not be wider than the registers: otherwise
 * the accumulators are stored on the stack. */
#define READ_BODY(vec)                                                                                  \
    const vec *q = (const vec *)p;                                                                      \
    const size_t each = sizeof(vec) / sizeof *p;                                                        \
    vec s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 }, s4 = { 0 }, s5 = { 0 }, s6 = { 0 }, s7 = { 0 }; \
    for (size_t i = 0; i + 8 <= n / each; i += 8) {                                                     \
        s0 ^= q[i], s1 ^= q[i + 1], s2 ^= q[i + 2], s3 ^= q[i + 3];                                     \
        s4 ^= q[i + 4], s5 ^= q[i + 5], s6 ^= q[i + 6], s7 ^= q[i + 7];                                 \
    }                                                                                                   \
    s0 ^= s1 ^ s2 ^ s3 ^ s4 ^ s5 ^ s6 ^ s7;                                                             \
    uint64_t sum = 0;                                                                                   \
    for (size_t i = 0; i < each; i++) sum ^= s0[i];                                                     \
    return sum;

/* With -std=c11 gcc does not fuse multiplication and addition by default, but the peak requires fused
 * operations. */
#define FAST __attribute__((optimize("O3", "unroll-loops", "fp-contract=fast")))
#ifdef __clang__
#undef FAST
#define FAST
#endif

FAST static void panel_portable(const float *a, const float *b, float *c, unsigned k) {
    PANEL_BODY(vec8, 8, 8)
}
static uint64_t read_portable(const uint64_t *p, size_t n) { READ_BODY(words2) }

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) FAST static void panel_avx2(const float *a, const float *b, float *c,
                                                                unsigned k) {
    PANEL_BODY(vec8, 8, 16)
}
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint64_t *p, size_t n) { READ_BODY(words4) }

__attribute__((target("avx512f,fma"))) FAST static void panel_avx512(const float *a, const float *b, float *c,
                                                                     unsigned k) {
    PANEL_BODY(vec16, 16, 32)
}
__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint64_t *p, size_t n) {
    READ_BODY(words8)
}
#endif

const struct cpu_kernels *cpu_kernels_pick(void) {
    static const struct cpu_kernels portable = { "portable", panel_portable, read_portable };
#ifdef __x86_64__
    static const struct cpu_kernels avx2 = { "avx2", panel_avx2, read_avx2 };
    static const struct cpu_kernels avx512 = { "avx512", panel_avx512, read_avx512 };
    if (__builtin_cpu_supports("avx512f")) return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2;
#endif
    return &portable;
}

#ifdef __x86_64__
/* Panels of 6 x 32 sums, as for floats. */
__attribute__((target("avx512f,avx512bf16"))) static void panel_bf16(const uint32_t *a, const uint32_t *b,
                                                                     float *c) {
    __m512 sum[PANEL_M][2];
    for (int i = 0; i < PANEL_M; i++)
        for (int j = 0; j < 2; j++) sum[i][j] = _mm512_loadu_ps(c + i * PANEL_N + j * 16);
    for (int k = 0; k < GEMM_K / 2; k++, a += PANEL_M, b += PANEL_N) {
        __m512i left = _mm512_loadu_si512(b), right = _mm512_loadu_si512(b + 16);
#pragma GCC unroll 6
        for (int i = 0; i < PANEL_M; i++) {
            __m512i x = _mm512_set1_epi32((int)a[i]);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], (__m512bh)x, (__m512bh)left);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], (__m512bh)x, (__m512bh)right);
        }
    }
    for (int i = 0; i < PANEL_M; i++)
        for (int j = 0; j < 2; j++) _mm512_storeu_ps(c + i * PANEL_N + j * 16, sum[i][j]);
}

static void product_avx512bf16(const uint32_t *a, const uint32_t *b, float *c) {
    for (unsigned n = 0; n < GEMM_N / PANEL_N; n++)
        for (unsigned m = 0; m < GEMM_M / PANEL_M; m++)
            panel_bf16(a + m * PANEL_M * GEMM_K / 2, b + n * PANEL_N * GEMM_K / 2,
                       c + (m * (GEMM_N / PANEL_N) + n) * PANEL_M * PANEL_N);
}

/* Blocks of 32 x 32 sums in four tiles; a step multiplies 32 numbers of each row. */
enum { TILE = AMX_SIDE, BLOCK = 2 * TILE };
__attribute__((target("amx-tile,amx-bf16"))) static void block_amx(const uint32_t *a, const uint32_t *b,
                                                                   float *c) {
    _tile_loadd(0, c, BLOCK * 4);
    _tile_loadd(1, c + TILE, BLOCK * 4);
    _tile_loadd(2, c + TILE * BLOCK, BLOCK * 4);
    _tile_loadd(3, c + TILE * BLOCK + TILE, BLOCK * 4);
    for (int k = 0; k < GEMM_K / 2; k += TILE) { /* a[BLOCK][K / 2], b[K / 2][BLOCK] */
        _tile_loadd(4, a + k, GEMM_K / 2 * 4);
        _tile_loadd(5, a + TILE * (GEMM_K / 2) + k, GEMM_K / 2 * 4);
        _tile_loadd(6, b + k * BLOCK, BLOCK * 4);
        _tile_loadd(7, b + k * BLOCK + TILE, BLOCK * 4);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, BLOCK * 4);
    _tile_stored(1, c + TILE, BLOCK * 4);
    _tile_stored(2, c + TILE * BLOCK, BLOCK * 4);
    _tile_stored(3, c + TILE * BLOCK + TILE, BLOCK * 4);
}

__attribute__((target("amx-tile,amx-bf16"))) static void product_amx(const uint32_t *a, const uint32_t *b,
                                                                     float *c) {
    amx_configure();
    for (unsigned n = 0; n < GEMM_N / BLOCK; n++)
        for (unsigned m = 0; m < GEMM_M / BLOCK; m++) {
            block_amx(a + m * BLOCK * GEMM_K / 2, b + n * BLOCK * GEMM_K / 2,
                      c + (m * (GEMM_N / BLOCK) + n) * BLOCK * BLOCK);
            amx_memory();
        }
    _tile_release();
}
#endif

const struct cpu_bf16 *cpu_bf16_pick(void) {
#ifdef __x86_64__
    static const struct cpu_bf16 amx = { "amx", product_amx };
    static const struct cpu_bf16 avx512bf16 = { "avx512bf16", product_avx512bf16 };
    if (cpu_has_amx()) return &amx;
    if (cpu_has_avx512bf16()) return &avx512bf16;
#endif
    return NULL;
}
