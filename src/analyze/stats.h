/* Statistics of a sample of numbers. What cannot be said of so few values is NaN. */
#ifndef ANALYZE_STATS_H
#define ANALYZE_STATS_H

#include <stddef.h>
#include <stdint.h>

struct stats {
    size_t n;
    double sum, mean;
    double std; /* sample standard deviation, n - 1; NaN for n < 2 */
    double min, median, max;
    double p90, p99;            /* linear interpolation between order statistics */
    double cv;                  /* std / mean */
    double ci95_low, ci95_high; /* of the mean, Student's t; NaN for n < 2 */
};

/* NaNs in v are left out. `stats_of` copies; `stats_of_sorting` sorts v in place. */
struct stats stats_of(const double *v, size_t n);
struct stats stats_of_sorting(double *v, size_t n);
struct stats stats_none(void);                                     /* n = 0, the rest NaN */
double stats_percentile(const double *sorted, size_t n, double p); /* p in 0..1; NaN for n = 0 */
double stats_student_t975(double degrees_of_freedom);              /* two-sided 95% */

/* Welch's confidence interval of mean(b) - mean(a) at 95%; NaNs when either has fewer than two values. */
struct stats_difference {
    double difference, low, high; /* b - a */
    double ratio;                 /* mean(b) / mean(a) */
};
struct stats_difference stats_welch(const struct stats *a, const struct stats *b);

#endif
