/* Statistics of a sample of numbers; base/difference.h compares two samples. NaN in the input means "not
 * measured" and is skipped. Results that require more values (the deviation of a single value) are NaN. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* standard deviation / median absolute deviation of a normal distribution */
#define STATS_MAD_TO_SIGMA 1.4826

/* fewest values for p99; with fewer, it would be close to the maximum */
#define STATS_P99_LEAST 100

struct stats {
    size_t n; /* number of finite values */
    double sum, mean;
    double std; /* sample standard deviation (divides by n - 1) */
    double min, median, max;
    double p90;                 /* linear interpolation between order statistics */
    double p99;                 /* interpolated like p90; NaN for n < STATS_P99_LEAST */
    double cv;                  /* std / |mean| */
    double ci95_low, ci95_high; /* 95% interval of the mean, Student's t */
};

/* stats_of() copies v; stats_of_sorting() sorts v in place and drops values that are not finite. */
struct stats stats_of(const double *v, size_t n);
struct stats stats_of_sorting(double *v, size_t n);
double stats_median(const double *v, size_t n);   /* as stats_of(v, n).median */
double stats_median_sorting(double *v, size_t n); /* sorts v in place, like stats_of_sorting() */
struct stats stats_none(void);                    /* n = 0, the rest NaN */
/* Returns the pooled CV within groups. Repeats of different inputs differ because of their work, which is
 * not noise. `group` NULL: one group. NaN if no group has two values. */
double stats_grouped_cv(const double *v, const uint32_t *group, size_t n);
double stats_percentile(const double *sorted, size_t n, double p); /* p in 0..1; NaN for n = 0 */
double stats_t_quantile(double p, double df); /* Student's t: P(T <= result) = p; df > 0, may be fractional */
double stats_student_t975(double degrees_of_freedom); /* two-sided 95% */

#endif
