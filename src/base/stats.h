/* Statistics of a sample. NaN in the input means "not measured" and is skipped. Results that need more values
 * are NaN. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* normal distribution: sigma / MAD */
#define STATS_MAD_TO_SIGMA 1.4826

/* with fewer values, p99 is unknown */
#define STATS_P99_LEAST 100

struct stats {
    size_t n; /* number of finite values */
    double sum, mean;
    double std; /* divides by n - 1 */
    double min, median, max;
    double p90;                 /* linear interpolation between order statistics */
    double p99;                 /* NaN for n < STATS_P99_LEAST */
    double cv;                  /* std / |mean| */
    double ci95_low, ci95_high; /* of the mean, Student's t */
};

/* stats_of_sorting() sorts v and drops values that are not finite. */
struct stats stats_of(const double *v, size_t n);
struct stats stats_of_sorting(double *v, size_t n);
double stats_median(const double *v, size_t n);   /* as stats_of(v, n).median */
double stats_median_sorting(double *v, size_t n); /* sorts v */
struct stats stats_none(void);                    /* n = 0, else NaN */
/* Pooled CV within the groups. Times of different inputs differ by their work, which is not noise. `group`
 * NULL: one group. Returns NaN if no group has two values. */
double stats_grouped_cv(const double *v, const uint32_t *group, size_t n);
void stats_sort(double *v, size_t n);                              /* ascending; no NaN */
double stats_percentile(const double *sorted, size_t n, double p); /* 0 <= p <= 1 */
double stats_t_quantile(double p, double df);                      /* P(T <= result) = p; df > 0 */
double stats_student_t975(double degrees_of_freedom);              /* two-sided 95% */

#endif
