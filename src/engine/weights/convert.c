#include "engine/weights/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "engine/compute/kernels.h"

/* Reorders 16 bytes. Before, byte b contains the numbers 2 b and 2 b + 1. Afterwards, it contains the
 * numbers b and b + 16. */
static void reorder_nibbles(uint8_t *out, const uint8_t *in) {
    for (int b = 0; b < 16; b++) {
        int low = in[b / 2] >> (b % 2 * 4) & 15, high = in[8 + b / 2] >> (b % 2 * 4) & 15;
        out[b] = (uint8_t)(low | high << 4);
    }
}

void convert_mxfp4(const struct weight_source *s, void *out) {
    size_t groups = (size_t)s->cols / 32;
    uint8_t *to = out;
    for (int r = 0; r < s->rows; r++) {
        size_t row = ((size_t)s->first + (size_t)r * (size_t)s->step) * groups;
        for (size_t g = 0; g < groups; g++, to += 17) {
            to[0] = ((const uint8_t *)s->more)[row + g];
            reorder_nibbles(to + 1, (const uint8_t *)s->data + (row + g) * 16);
        }
    }
}

void convert_transposed(const struct weight_source *s, void *out) {
    size_t size = dtype_bytes(s->type);
    char *to = out;
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->cols; c++, to += size) {
            size_t at = (size_t)c * s->width + (size_t)s->first + (size_t)r * (size_t)s->step;
            memcpy(to, (const char *)s->data + at * size, size);
        }
}

void convert_every(const struct weight_source *s, void *out) {
    size_t size = dtype_bytes(s->type);
    for (int c = 0; c < s->cols; c++)
        memcpy((char *)out + (size_t)c * size,
               (const char *)s->data + ((size_t)s->first + (size_t)c * (size_t)s->step) * size, size);
}

void convert_latent(const struct weight_source *s, void *out) {
    size_t rank = (size_t)s->cols, nope = (size_t)s->nope, value = (size_t)(s->rows / s->heads) - nope;
    float *to = out, *row = xcalloc(nope, sizeof *row);
    for (size_t h = 0; h < (size_t)s->heads; h++, to += (nope + value) * rank) {
        for (size_t c = 0; c < rank; c++) {
            kernels_portable.widen(row, (const char *)s->data + dtype_size(s->type, (h * rank + c) * nope),
                                   s->type, nope);
            for (size_t i = 0; i < nope; i++) to[i * rank + c] = row[i];
        }
        kernels_portable.widen(to + nope * rank,
                               (const char *)s->more + dtype_size(s->more_type, h * value * rank),
                               s->more_type, value * rank);
    }
    free(row);
}
