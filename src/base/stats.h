/* Statistics of repeated measurements, and of the difference of two series. NaN in the input is "not
 * measured" and is left out; what cannot be said (a deviation of one value) is NaN. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>

struct stats {
    size_t n;                     /* values that were measured */
    double mean, std;             /* std: of a sample, n - 1 */
    double median, min, max, p90; /* quantiles are linear between the neighbours */
    double cv;                    /* std / mean */
    double ci95_low, ci95_high;   /* of the mean, Student's t */
};

struct stats stats_of(const double *values, size_t n);
double stats_quantile_sorted(const double *sorted, size_t n, double q); /* NaN when empty; 0 <= q <= 1 */
double stats_t_quantile(double p, double df); /* Student's t: P(T <= result) = p; df > 0, may be a fraction */

/* Welch: b against a, variances not assumed equal. `shown`: the interval leaves 0 out. With fewer than two
 * values on a side there is no interval, and nothing is shown. */
struct stats_diff {
    double diff, ci95_low, ci95_high; /* mean b - mean a */
    double ratio;                     /* diff / mean a */
    bool shown;
};
struct stats_diff stats_welch(const struct stats *a, const struct stats *b);

#endif
