/* The equations of counter_fit.h, one per sample: which classes ran in it, and for which fraction of it.
 *
 * A kernel is not uniform: its first blocks are still being placed when it begins, and its last blocks
 * leave the GPU half empty. For kernels that lie entirely inside a sample this does not matter. If the edge
 * of a sample cuts a kernel, the sample holds more or less of the head and the tail than an even share. Two
 * more unknowns per class (head and tail) absorb that; otherwise its neighbours would. Their terms are
 * signed, and zero for a whole kernel, so that the rate of the class remains its mean. */
#ifndef ANALYZE_COUNTER_ROWS_H
#define ANALYZE_COUNTER_ROWS_H

#include "analyze/counter_fit.h"

/* Numbers before they are unknowns: classes, idle, then head and tail of each class. */
static inline uint32_t counter_rows_head(uint32_t nclasses, uint32_t class) {
    return nclasses + 1 + 2 * class;
}
static inline size_t counter_rows_width(uint32_t nclasses) { return 3 * (size_t)nclasses + 1; }

struct counter_term {
    uint32_t unknown; /* at first a number as above; counter_fit.c replaces it by the number of the unknown */
    float fraction;
};

struct counter_rows {
    struct {
        struct counter_term *v;
        size_t n, cap;
    } terms;
    struct {
        size_t *v;
        size_t n, cap;
    } first; /* of the row's terms; one more at the end */
    struct {
        size_t *v;
        size_t n, cap;
    } sample; /* of the input */
};

/* Samples are shifted by shift_ns. Samples outside of the span of the kernels give no row. Heads and tails
 * are edge_ns long, at most two fifths of the kernel; 0: none. */
void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, uint64_t edge_ns,
                       struct counter_rows *rows);
void counter_rows_free(struct counter_rows *rows);

#endif
