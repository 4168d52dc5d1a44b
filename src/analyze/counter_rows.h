/* The equations of counter_fit.h, one a sample: which classes ran in it, and for which fraction of it. */
#ifndef ANALYZE_COUNTER_ROWS_H
#define ANALYZE_COUNTER_ROWS_H

#include "analyze/counter_fit.h"

struct counter_term {
    uint32_t unknown; /* a class at first; counter_fit.c renames */
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

/* Samples are taken to lie shift_ns later than they say. Those that the kernels' span does not touch make no row. */
void counter_rows_make(const struct counter_fit_input *in, int64_t shift_ns, struct counter_rows *rows);
void counter_rows_free(struct counter_rows *rows);

#endif
