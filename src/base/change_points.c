#include "base/change_points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define LEAST_CHANGE 0.002 /* smallest reported change */

/* Distance of an outlier from the median of its part, in standard deviations of the noise. */
#define OUTLIER 4.0
/* Lower limit of the variance within the parts, relative to the variance of the noise. A smaller variance is
 * due to chance. */
#define LEAST_VARIANCE 0.25

/* Critical values of the largest statistic over all divisions of n values. In simulated series of normal
 * values, 0.03% (n = 9) to 0.1% (n = 20 to 25) of the tests exceed them. If a series of 30 runs is tested
 * after every run, about 0.5% of such series have a false change point. */
static const struct {
    size_t n;
    double value;
} critical_values[] = {
    { 9, 12.5 },  { 11, 10.5 }, { 13, 9.00 }, { 15, 7.80 }, { 18, 6.50 }, { 20, 5.80 },
    { 23, 5.40 }, { 25, 5.35 }, { 27, 5.30 }, { 30, 5.30 }, { 40, 4.95 }, { CHANGE_WINDOW, 4.75 },
};

static double critical_value(size_t n) {
    if (n < critical_values[0].n) return INFINITY;
    size_t i = 1;
    while (i + 1 < COUNTOF(critical_values) && critical_values[i].n < n) i++;
    double low = (double)critical_values[i - 1].n, high = (double)critical_values[i].n;
    double share = MIN(1, ((double)n - low) / (high - low));
    return critical_values[i - 1].value + share * (critical_values[i].value - critical_values[i - 1].value);
}

/* Standard deviation of the noise, from the median of the absolute differences of neighbours, because a
 * change of level hardly affects it. For normal values with standard deviation 1, this median is 0.9539. */
static double noise_of(const double *v, size_t n) {
    double *differences = xcalloc(n, sizeof *differences);
    for (size_t i = 1; i < n; i++) differences[i - 1] = fabs(v[i] - v[i - 1]);
    double noise = stats_median(differences, n - 1) / 0.9539;
    free(differences);
    return noise;
}

/* Scales the values to units of the noise, relative to the median. */
static void scale_values(const double *v, size_t n, double *out) {
    double noise = noise_of(v, n), median = stats_median(v, n);
    /* If most neighbours are equal, the noise cannot be measured. A tiny share of the level is used then. */
    noise = fmax(noise, fabs(median) * 1e-6);
    for (size_t i = 0; i < n; i++) out[i] = noise > 0 ? (v[i] - median) / noise : 0;
}

/* A part without its outliers. */
struct part {
    size_t n;
    double mean, squares; /* squares: sum of squared distances */
};

/* `sorted`: the values in ascending order. */
static struct part part_of(const double *sorted, size_t n) {
    struct part p = { 0 };
    double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sum = 0;
    size_t from = 0, to = n;
    while (from < to && sorted[from] < median - OUTLIER) from++;
    while (to > from && sorted[to - 1] > median + OUTLIER) to--;
    p.n = to - from;
    for (size_t i = from; i < to; i++) sum += sorted[i];
    p.mean = p.n ? sum / (double)p.n : 0;
    for (size_t i = from; i < to; i++) p.squares += (sorted[i] - p.mean) * (sorted[i] - p.mean);
    return p;
}

static void insert_sorted(double *sorted, size_t n, double value) {
    for (; n > 0 && sorted[n - 1] > value; n--) sorted[n] = sorted[n - 1];
    sorted[n] = value;
}

/* t statistic of two samples with equal variance; 0: a part is too short. */
static double difference_of(const struct part *a, const struct part *b) {
    if (a->n < CHANGE_LEAST_RUNS || b->n < CHANGE_LEAST_RUNS) return 0;
    double variance = (a->squares + b->squares) / (double)(a->n + b->n - 2);
    return fabs(b->mean - a->mean) /
           sqrt(fmax(variance, LEAST_VARIANCE) * (1.0 / (double)a->n + 1.0 / (double)b->n));
}

/* Sum of the squared distances from the means. Each outlier counts as OUTLIER squared. */
static double cost_of(const struct part *a, const struct part *b, size_t n) {
    return a->squares + b->squares + (double)(n - a->n - b->n) * OUTLIER * OUTLIER;
}

/* Returns the length of the first part of the best division; 0: none. The best division has the smallest cost
 * among those with a statistic above `limit`. The largest statistic is not used, because runs on the wrong
 * side of a division look like outliers. n <= CHANGE_WINDOW. */
static size_t best_division(const double *v, size_t n, double limit, double *score) {
    double scaled[CHANGE_WINDOW], sorted[CHANGE_WINDOW], least_cost = INFINITY;
    struct part after[CHANGE_WINDOW];
    size_t best = 0;
    scale_values(v, n, scaled);
    for (size_t k = n; k-- > 0;) {
        insert_sorted(sorted, n - 1 - k, scaled[k]);
        after[k] = part_of(sorted, n - k);
    }
    for (size_t k = 1; k + CHANGE_LEAST_RUNS <= n; k++) {
        insert_sorted(sorted, k - 1, scaled[k - 1]);
        struct part before = part_of(sorted, k);
        double t = difference_of(&before, &after[k]), cost = cost_of(&before, &after[k], n);
        if (t <= limit || cost >= least_cost) continue;
        least_cost = cost;
        *score = t;
        best = k;
    }
    return best;
}

struct found {
    size_t *v, n, cap;
    double *scores;
};

/* Divides v[from, to), then both parts, while changes are significant. */
static void divide(const double *v, size_t from, size_t to, struct found *found) {
    double score;
    if (to - from < critical_values[0].n) return;
    size_t k = best_division(v + from, to - from, critical_value(to - from), &score);
    if (k == 0) return;
    divide(v, from, from + k, found);
    if (found->n < found->cap) {
        found->scores[found->n] = score;
        found->v[found->n++] = from + k;
    }
    divide(v, from + k, to, found);
}

/* The windows overlap by half. A change point is dropped if it is near or before the last one that was
 * kept. */
static void search_windows(const double *v, size_t n, struct found *out) {
    size_t last_end = 0;
    for (size_t from = 0; from == 0 || from + CHANGE_WINDOW / 2 < n; from += CHANGE_WINDOW / 2) {
        size_t places[CHANGE_WINDOW];
        double scores[CHANGE_WINDOW];
        struct found window = { places, 0, CHANGE_WINDOW, scores };
        divide(v, from, MIN(n, from + CHANGE_WINDOW), &window);
        for (size_t i = 0; i < window.n; i++) {
            if (out->n && window.v[i] < out->v[out->n - 1] + CHANGE_LEAST_RUNS + 2) continue;
            if (out->n < out->cap && window.v[i] >= last_end) {
                out->scores[out->n] = window.scores[i];
                out->v[out->n++] = window.v[i];
            }
        }
        if (out->n) last_end = out->v[out->n - 1];
    }
}

static double level(const double *v, size_t from, size_t to) { return stats_median(v + from, to - from); }

size_t change_points(const double *v, size_t n, struct change_point *out, size_t cap) {
    double *known = xcalloc(n + 1, sizeof *known);
    size_t *index = xcalloc(n + 1, sizeof *index), m = 0, filled = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i])) {
            known[m] = v[i];
            index[m++] = i;
        }
    struct found found = { xcalloc(m + 1, sizeof(size_t)), 0, m, xcalloc(m + 1, sizeof(double)) };
    search_windows(known, m, &found);
    for (size_t i = 0; i < found.n && filled < cap; i++) {
        size_t from = i ? found.v[i - 1] : 0, to = i + 1 < found.n ? found.v[i + 1] : m;
        struct change_point p = { .at = index[found.v[i]],
                                  .before = level(known, from, found.v[i]),
                                  .after = level(known, found.v[i], to),
                                  .score = found.scores[i] };
        p.change = p.after / p.before - 1;
        if (isfinite(p.change) && fabs(p.change) >= LEAST_CHANGE) out[filled++] = p;
    }
    free(found.v);
    free(found.scores);
    free(known);
    free(index);
    return filled;
}

struct baseline baseline_of(const double *v, size_t n, const struct change_point *changes, size_t nchanges,
                            size_t runs) {
    struct baseline b = { .median = NAN, .newest = NAN, .change = NAN };
    size_t first = nchanges ? changes[nchanges - 1].at : 0, i = n;
    double *values = xcalloc(runs + 1, sizeof *values);
    while (i > first && isnan(b.newest)) b.newest = v[--i];
    while (i > first && b.runs < runs)
        if (isfinite(v[--i])) values[b.runs++] = v[i];
    if (b.runs >= CHANGE_LEAST_RUNS) b.median = stats_median(values, b.runs);
    if (b.median > 0) b.change = b.newest / b.median - 1;
    free(values);
    return b;
}
