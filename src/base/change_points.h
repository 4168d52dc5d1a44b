/* Finds the places where a series of measurements moved to another level, for example the run at which a
 * stage became slower. base/stats.h describes one sample, base/difference.h compares two, this file divides
 * one series.
 *
 * Method: hierarchical division, as in E-divisive (Matteson and James, "A nonparametric approach for multiple
 * change point analysis of multivariate data", JASA 109, 2014), which Hunter and Apache Otava apply to
 * performance data (Fleming et al., "Hunter: using change point detection to hunt for performance
 * regressions", ICPE 2023). As in Hunter, a t statistic replaces the energy distance and its permutations, so
 * the result is deterministic. The noise is estimated from successive differences. A run that is more than 4
 * standard deviations of the noise away from the median of its part is an outlier: the statistic of that
 * division is computed without it. */
#ifndef BASE_CHANGE_POINTS_H
#define BASE_CHANGE_POINTS_H

#include <stddef.h>

#define CHANGE_LEAST_RUNS 3 /* shortest part of a division */
/* longest piece that is searched at once; longer series are searched in overlapping windows */
#define CHANGE_WINDOW 60

struct change_point {
    size_t at;            /* index of the first value of the new level */
    double before, after; /* medians of the levels */
    double change;        /* after / before - 1 */
    double score;         /* t statistic of the division */
};

/* Fills at most `cap` change points in order of `at`; returns their number. NaN values are skipped: they are
 * runs without this measurement. */
size_t change_points(const double *v, size_t n, struct change_point *out, size_t cap);

#endif
