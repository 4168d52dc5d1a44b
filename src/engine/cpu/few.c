/* Products of a few rows of activations with weights in their stored type. Quantised weights are
 * multiplied with activations rounded to 8 bits, unless the backend is exact. */
#include "engine/cpu/internal.h"

struct q8_rows cpu_round(struct cpu *c, const float *x, ptrdiff_t ldx, int m, int cols) {
    size_t n = (size_t)m * (size_t)cols;
    /* scales, then 2-byte sums, then 1-byte numbers */
    float *d = cpu_rounded(c, n / 32 + n / 32 + n / 4 + 16);
    struct q8_rows out = { .d = d, .sums = (int16_t *)(void *)(d + n / 32), .stride = cols };
    out.q = (int8_t *)(void *)(d + n / 16);
    for (int i = 0; i < m; i++) {
        ptrdiff_t at = (ptrdiff_t)i * cols;
        struct q8_rows row = { out.q + at, out.d + at / 32, out.sums + at / 16, cols };
        c->k->quantize(&row, x + i * ldx, cols);
    }
    return out;
}

void cpu_few(const struct cpu *c, const struct matrix *w, size_t row, int rows, const struct few_rows *x,
             size_t at, float *y, ptrdiff_t ldy) {
    const char *weights = matrix_row(w, row);
    for (int i = 0; i < x->m; i += 4) {
        int m = MIN(4, x->m - i);
        if (cpu_rounds(c, w)) {
            ptrdiff_t first = i * x->q8.stride + (ptrdiff_t)at;
            struct q8_rows part = { x->q8.q + first, x->q8.d + first / 32, x->q8.sums + first / 16,
                                    x->q8.stride };
            c->k->qdots(weights, w->type, rows, w->cols, &part, m, y + i * ldy, ldy);
        } else {
            c->k->dots(weights, w->type, rows, w->cols, x->x + i * x->ldx + at, x->ldx, m, y + i * ldy, ldy);
        }
    }
}
