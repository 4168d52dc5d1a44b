/* The distance of two arrays of floats: largest |got - want| divided by the largest |want|. */
#ifndef TESTS_UNIT_RELATIVE_ERROR_H
#define TESTS_UNIT_RELATIVE_ERROR_H

#include <math.h>
#include <stddef.h>

static inline double relative_error(const float *got, const float *want, size_t n) {
    double worst = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        if (!(d <= worst)) worst = d; /* also true when d is NaN: the result is NaN then */
        size = fmax(size, fabs(want[i]));
    }
    return worst / size;
}

#endif
