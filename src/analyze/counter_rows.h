/* The equations of counter_fit.h, one per sample: the classes that ran in it, each with its fraction of the
 * sample.
 *
 * A kernel is not uniform: at its start the GPU is still being filled with blocks, and its last blocks leave
 * the GPU half empty. If a sample boundary cuts a kernel, the sample contains more or less of the head and
 * the tail than an even share. Two more unknowns per class (head and tail) absorb this difference. Their
 * terms are signed and are zero for a whole kernel, so the rate of a class is still its mean. */
#ifndef ANALYZE_COUNTER_ROWS_H
#define ANALYZE_COUNTER_ROWS_H

#include "analyze/counter_fit.h"

/* Indices of terms before counter_fit.c assigns unknowns: classes, idle, then head and tail of each class. */
static inline uint32_t counter_rows_head(uint32_t nclasses, uint32_t class) {
    return nclasses + 1 + 2 * class;
}
static inline size_t counter_rows_width(uint32_t nclasses) { return 3 * (size_t)nclasses + 1; }

struct counter_term {
    uint32_t unknown; /* index of a term; counter_fit.c replaces it by the index of the unknown */
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
    } first; /* first[i]: first term of row i; one extra entry at the end */
    struct {
        size_t *v;
        size_t n, cap;
    } sample; /* index in the input */
};

/* Samples are shifted by shift_ns. Samples outside of the kernels' span produce no row. Heads and tails are
 * edge_ns long, but at most two fifths of the kernel. edge_ns 0: no heads and tails. */
void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, uint64_t edge_ns,
                       struct counter_rows *rows);
void counter_rows_free(struct counter_rows *rows);

#endif
