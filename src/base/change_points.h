/* Finds the points at which a series of measurements changed its level, for example the run from which on a
 * stage is slower.
 *
 * Method: hierarchical division, as in E-divisive (Matteson and James, "A nonparametric approach for
 * multiple change point analysis of multivariate data", JASA 109, 2014) and in Hunter (Fleming et al.,
 * "Hunter: using change point detection to hunt for performance regressions", ICPE 2023). As in Hunter,
 * the statistic is a t statistic, so the result is deterministic. The noise is estimated from successive
 * differences. A new level at the end of the series, which users look for, is tested with a lower critical
 * value than the other divisions. A run more than 4 standard deviations of the noise away from the median of
 * its part is an outlier and does not count. */
#ifndef BASE_CHANGE_POINTS_H
#define BASE_CHANGE_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#define CHANGE_LEAST_RUNS 3 /* shortest part of a division */
/* longer series are searched in overlapping windows */
#define CHANGE_WINDOW 60

struct change_point {
    size_t at;            /* index where the level changes */
    double before, after; /* medians of the levels */
    double change;        /* after / before - 1 */
    double score;         /* t statistic of the division */
    bool drift;           /* The values rise or fall slowly: a straight line fits better than two levels. */
};

/* Returns the number of change points, at most `cap`, in the order of `at`. NaN values (no measurement) are
 * skipped. */
size_t change_points(const double *v, size_t n, struct change_point *out, size_t cap);

/* The newest value of a series, and the values before it that it is compared with. */
struct baseline {
    size_t runs;   /* number of values of the baseline */
    double median; /* NaN: fewer than CHANGE_LEAST_RUNS values */
    double newest; /* NaN: the series has no value */
    double change; /* newest / median - 1; NaN: unknown */
};
/* The baseline has the last `runs` values before the newest one, but none from before the last change point.
 * NaN values are skipped. */
struct baseline baseline_of(const double *v, size_t n, const struct change_point *changes, size_t nchanges,
                            size_t runs);

#endif
