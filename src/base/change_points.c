#include "base/change_points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"

#define LEAST_CHANGE 0.002 /* smaller changes are never reported, as in difference.c */

/* Distances from the median are limited to this many standard deviations of the noise. */
#define CLIP 3.0
/* Lower limit of the variance within the parts, in units of the noise. */
#define LEAST_VARIANCE 0.25

/* Critical values of the largest statistic over all divisions of n values, for a false positive rate of 0.08%
 * per test. From 20,000 simulated series of normal values. A series of 30 runs that is tested after every run
 * then has a false change point in about 0.7% of cases. */
static const struct {
    size_t n;
    double value;
} critical_values[] = {
    { 9, 7.71 },  { 11, 6.59 }, { 13, 6.13 },
    { 15, 5.58 }, { 18, 5.20 }, { 20, 5.13 },
    { 25, 4.95 }, { 30, 4.78 }, { CHANGE_WINDOW, 4.78 },
};

static double critical_value(size_t n) {
    if (n < critical_values[0].n) return INFINITY;
    size_t i = 1;
    while (i + 1 < COUNTOF(critical_values) && critical_values[i].n < n) i++;
    double low = (double)critical_values[i - 1].n, high = (double)critical_values[i].n;
    double share = MIN(1, ((double)n - low) / (high - low));
    return critical_values[i - 1].value + share * (critical_values[i].value - critical_values[i - 1].value);
}

/* Returns the standard deviation of the noise, estimated from the median of the absolute differences of
 * neighbours. A change of level hardly affects this median, which is 0.9539 for normal values with a
 * deviation of 1. */
static double noise_of(const double *v, size_t n) {
    double *differences = xcalloc(n, sizeof *differences);
    for (size_t i = 1; i < n; i++) differences[i - 1] = fabs(v[i] - v[i - 1]);
    double noise = stats_of(differences, n - 1).median / 0.9539;
    free(differences);
    return noise;
}

/* Converts the values to units of the noise, relative to the median and limited to CLIP. */
static void scale_values(const double *v, size_t n, double *out) {
    double noise = noise_of(v, n), median = stats_of(v, n).median;
    /* If most neighbours are equal, the noise cannot be measured: use a tiny share of the level. */
    noise = fmax(noise, fabs(median) * 1e-6);
    for (size_t i = 0; i < n; i++) out[i] = noise > 0 ? fmax(-CLIP, fmin(CLIP, (v[i] - median) / noise)) : 0;
}

/* Finds the division with the largest t statistic of two samples with equal variance. Returns k, the length
 * of the first part; *score: the statistic. */
static size_t best_division(const double *v, size_t n, double *score) {
    double *scaled = xcalloc(n, sizeof *scaled), sum = 0, total = 0, squares = 0;
    size_t best = 0;
    *score = 0;
    scale_values(v, n, scaled);
    for (size_t i = 0; i < n; i++) {
        total += scaled[i];
        squares += scaled[i] * scaled[i];
    }
    for (size_t k = 1; k + CHANGE_LEAST_RUNS <= n; k++) {
        sum += scaled[k - 1];
        if (k < CHANGE_LEAST_RUNS) continue;
        double a = sum / (double)k, b = (total - sum) / (double)(n - k);
        double variance = (squares - (double)k * a * a - (double)(n - k) * b * b) / (double)(n - 2);
        double t =
            fabs(b - a) / sqrt(fmax(variance, LEAST_VARIANCE) * (1.0 / (double)k + 1.0 / (double)(n - k)));
        if (t > *score) {
            *score = t;
            best = k;
        }
    }
    free(scaled);
    return best;
}

struct found {
    size_t *v, n, cap;
    double *scores;
};

/* Divides v[from, to) and then both parts, as long as a change is significant. */
static void divide(const double *v, size_t from, size_t to, struct found *found) {
    double score;
    if (to - from < critical_values[0].n) return;
    size_t k = best_division(v + from, to - from, &score);
    if (k == 0 || score <= critical_value(to - from)) return;
    divide(v, from, from + k, found);
    if (found->n < found->cap) {
        found->scores[found->n] = score;
        found->v[found->n++] = from + k;
    }
    divide(v, from + k, to, found);
}

/* Windows overlap by half. A change point of the next window is dropped if it is near the last change
 * point. */
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

static double level(const double *v, size_t from, size_t to) { return stats_of(v + from, to - from).median; }

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
