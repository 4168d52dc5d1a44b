/* The equations of counter_fit.h, one a sample: which classes ran in it, and for which fraction of it.
 *
 * A kernel is not the same from end to end: its first blocks are still being placed when its time begins,
 * its last leave the GPU half empty. Whole kernels in a sample do not care. Of one that the sample's edge
 * cuts, the sample got more or less of the head and the tail than an even share: two more unknowns for
 * each class take that up, or its neighbours would. Their terms are signed and are zero for a whole
 * kernel, so that the class's rate remains its mean. */
#ifndef ANALYZE_COUNTER_ROWS_H
#define ANALYZE_COUNTER_ROWS_H

#include "analyze/counter_fit.h"

/* Numbers before they are unknowns: classes, idle, then head and tail of each class. */
static inline uint32_t counter_rows_head(uint32_t nclasses, uint32_t class) {
    return nclasses + 1 + 2 * class;
}
static inline size_t counter_rows_width(uint32_t nclasses) { return 3 * (size_t)nclasses + 1; }

struct counter_term {
    uint32_t unknown; /* one of these numbers at first; counter_fit.c renames */
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

/* Samples are taken to lie shift_ns later than they say. Those that the kernels' span does not touch make
 * no row. Heads and tails are edge_ns long, or two fifths of the kernel; 0: none. */
void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, uint64_t edge_ns,
                       struct counter_rows *rows);
void counter_rows_free(struct counter_rows *rows);

#endif
