#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stats_sort(double *v, size_t n) {
    if (n) qsort(v, n, sizeof *v, by_value);
}

double stats_percentile(const double *sorted, size_t n, double p) {
    if (n == 0) return NAN;
    double at = p * (double)(n - 1);
    size_t i = (size_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

/* Two passes avoid cancellation. */
static void moments(const double *v, size_t n, struct stats *s) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    s->sum = sum;
    s->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (v[i] - s->mean) * (v[i] - s->mean);
    if (n < 2) return;
    s->std = sqrt(squares / (double)(n - 1));
    if (s->mean != 0) s->cv = s->std / fabs(s->mean);
    double half = stats_t_quantile(0.975, (double)(n - 1)) * s->std / sqrt((double)n);
    s->ci95_low = s->mean - half;
    s->ci95_high = s->mean + half;
}

struct stats stats_none(void) {
    return (struct stats){ 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

struct stats stats_of_sorting(double *v, size_t n) {
    struct stats s = stats_none();
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i])) v[s.n++] = v[i];
    if (s.n == 0) return s;
    stats_sort(v, s.n);
    s.min = v[0];
    s.max = v[s.n - 1];
    s.median = stats_percentile(v, s.n, 0.5);
    s.p90 = stats_percentile(v, s.n, 0.9);
    if (s.n >= STATS_P99_LEAST) s.p99 = stats_percentile(v, s.n, 0.99);
    moments(v, s.n, &s);
    return s;
}

static double *copy_of(const double *v, size_t n) {
    double *copy = xmalloc((n + 1) * sizeof *copy);
    for (size_t i = 0; i < n; i++) copy[i] = v[i];
    return copy;
}

double stats_median_sorting(double *v, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i])) v[kept++] = v[i];
    stats_sort(v, kept);
    return stats_percentile(v, kept, 0.5);
}

double stats_median(const double *v, size_t n) {
    double *copy = copy_of(v, n);
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(copy[i])) copy[known++] = copy[i];
    stats_sort(copy, known);
    double median = stats_percentile(copy, known, 0.5);
    free(copy);
    return median;
}

struct stats stats_of(const double *v, size_t n) {
    double *copy = copy_of(v, n);
    struct stats s = stats_of_sorting(copy, n);
    free(copy);
    return s;
}

/* Mean over the finite values in the group of v[at]. *count: their number. */
static double group_mean(const double *v, const uint32_t *group, size_t n, size_t at, size_t *count) {
    double sum = 0;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]) || (group && group[i] != group[at])) continue;
        sum += v[i];
        (*count)++;
    }
    return sum / (double)*count;
}

double stats_grouped_cv(const double *v, const uint32_t *group, size_t n) {
    double squares = 0, freedom = 0;
    for (size_t i = 0; i < n; i++) {
        size_t count;
        if (!isfinite(v[i])) continue;
        double mean = group_mean(v, group, n, i, &count);
        if (count < 2 || mean == 0) continue;
        squares += (v[i] / mean - 1) * (v[i] / mean - 1);
        freedom += 1 - 1 / (double)count;
    }
    return freedom > 0 ? sqrt(squares / freedom) : NAN;
}

/* Continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 500; m++) {
        for (int odd = 0; odd < 2; odd++) {
            double k = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                           : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + k * d;
            c = 1 + k / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            if (fabs(c) < tiny) c = tiny;
            h *= d * c;
        }
        if (fabs(d * c - 1) < 1e-14) break;
    }
    return h;
}

/* Regularised incomplete beta function I_x(a, b). */
static double beta_inc(double a, double b, double x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

static double t_upper_tail(double t, double df) { return 0.5 * beta_inc(df / 2, 0.5, df / (df + t * t)); }

double stats_t_quantile(double p, double df) {
    if (!(df > 0) || !(p > 0 && p < 1)) return NAN;
    if (p < 0.5) return -stats_t_quantile(1 - p, df);
    double low = 0, high = 1;
    while (t_upper_tail(high, df) > 1 - p && high < 1e12) high *= 2;
    for (int i = 0; i < 100; i++) {
        double mid = (low + high) / 2;
        if (t_upper_tail(mid, df) > 1 - p)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

double stats_student_t975(double degrees_of_freedom) { return stats_t_quantile(0.975, degrees_of_freedom); }
