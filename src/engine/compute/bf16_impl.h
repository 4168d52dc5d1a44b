/* Products of bf16 numbers, part of kernels_impl.h. A 32-bit word contains two neighbouring numbers of a
 * row. Therefore weights are used as they are stored, and only activations must be packed into pairs. */

static void k_narrow(uint16_t *out, const float *in, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf f = load(in + i);
        vu r = ((vu)f + 0x7fff + ((vu)f >> 16 & 1)) >> 16;
        vh h = __builtin_convertvector(r, vh);
        memcpy(out + i, &h, sizeof h);
    }
    for (; i < n; i++) out[i] = bf16_from_float(in[i]);
}

static inline vu load_words(const uint32_t *p) {
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}

#if defined(__AVX512BF16__) && LANES == 16
static inline vf dot_pairs(vf sum, vu a, vu b) {
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#define FAST_BF16 true
#else
static inline vf dot_pairs(vf sum, vu a, vu b) {
    sum += (vf)(a << 16) * (vf)(b << 16);
    return sum + (vf)(a & 0xffff0000u) * (vf)(b & 0xffff0000u);
}
#define FAST_BF16 false
#endif

#if (defined(__AMX_BF16__) || defined(__AMXBF16__)) && LANES == 16
#include "engine/compute/amx_impl.h"
#define MR_BF16 AMX_ROWS
#define TILE_BF16_END amx_end
#else
#define MR_BF16 MR
#define TILE_BF16_END NULL
static void k_tile_bf16(int k, const uint32_t *a, ptrdiff_t a_row, int rows, const uint32_t *b, ptrdiff_t ldb,
                        float *c, ptrdiff_t ldc, bool add) {
    vf acc[MR][2];
    (void)rows;
    UNROLL for (int i = 0; i < MR; i++) {
        acc[i][0] = add ? load(c + i * ldc) : (vf){ 0 };
        acc[i][1] = add ? load(c + i * ldc + LANES) : (vf){ 0 };
    }
    for (int j = 0; j < k; j++, b += ldb) {
        vu b0 = load_words(b), b1 = load_words(b + LANES);
        UNROLL for (int i = 0; i < MR; i++) {
            vu x = a[i * a_row + j] - (vu){ 0 };
            acc[i][0] = dot_pairs(acc[i][0], x, b0);
            acc[i][1] = dot_pairs(acc[i][1], x, b1);
        }
    }
    UNROLL for (int i = 0; i < MR; i++) {
        store(c + i * ldc, acc[i][0]);
        store(c + i * ldc + LANES, acc[i][1]);
    }
}
#endif
