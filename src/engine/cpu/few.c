/* Products of a few rows of activations with weights in their stored type. Weights in blocks (dtype.h) are
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

/* one scale per scale_cols columns */
static const float *row_scales(const struct matrix *w, size_t row) {
    size_t across = (size_t)(w->cols + w->scale_cols - 1) / (size_t)w->scale_cols;
    return tensor_floats(w->scale) + (row + (size_t)w->first_row) / (size_t)w->scale_rows * across;
}

void cpu_widen(const struct cpu *c, const struct matrix *w, size_t row, size_t column, size_t n, float *out) {
    c->k->widen(out, matrix_row(w, row) + dtype_size(w->type, column), w->type, n);
    if (!w->scale) return;
    const float *scales = row_scales(w, row);
    size_t across = (size_t)w->scale_cols;
    for (size_t i = 0, end; i < n; i = end) { /* one scale at a time */
        size_t block = (column + i) / across;
        end = MIN(n, (block + 1) * across - column);
        for (; i < end; i++) out[i] *= scales[block];
    }
}

/* Multiplies rows that have separate scales: one partial sum per block of scale_cols columns. */
static void scaled_dots(const struct cpu *c, const struct matrix *w, size_t row, int rows, const float *x,
                        ptrdiff_t ldx, int m, float *y, ptrdiff_t ldy) {
    float part[4];
    for (int r = 0; r < rows; r++) {
        const float *scales = row_scales(w, row + (size_t)r);
        const char *numbers = matrix_row(w, row + (size_t)r);
        for (int i = 0; i < m; i++) y[i * ldy + r] = 0;
        for (int at = 0; at < w->cols; at += w->scale_cols) {
            c->k->dots(numbers + at, w->type, 1, MIN(w->scale_cols, w->cols - at), x + at, ldx, m, part, 1);
            for (int i = 0; i < m; i++) y[i * ldy + r] += part[i] * scales[at / w->scale_cols];
        }
    }
}

void cpu_few(const struct cpu *c, const struct matrix *w, size_t row, int rows, const struct few_rows *x,
             size_t at, float *y, ptrdiff_t ldy) {
    const char *weights = matrix_row(w, row);
    for (int i = 0; i < x->m; i += 4) {
        int m = MIN(4, x->m - i);
        if (x->q8.q && cpu_rounds(c, w)) {
            ptrdiff_t first = i * x->q8.stride + (ptrdiff_t)at;
            struct q8_rows part = { x->q8.q + first, x->q8.d + first / 32, x->q8.sums + first / 16,
                                    x->q8.stride };
            c->k->qdots(weights, w->type, rows, w->cols, &part, m, y + i * ldy, ldy);
        } else if (w->scale) {
            scaled_dots(c, w, row, rows, x->x + i * x->ldx + at, x->ldx, m, y + i * ldy, ldy);
        } else {
            c->k->dots(weights, w->type, rows, w->cols, x->x + i * x->ldx + at, x->ldx, m, y + i * ldy, ldy);
        }
    }
}
