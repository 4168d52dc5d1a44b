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

/* A new level of up to this many runs at the end of the series, after at least NEW_BEFORE runs, has a
 * critical value of its own. It is lower, because there are only a few such divisions. */
#define NEW_MOST 6
#define NEW_BEFORE 8

/* Critical values of the largest statistic over the divisions of n values: for a new level at the end of the
 * series, and for the other divisions. In simulated series of normal values, each is exceeded by 0.03% to
 * 0.1% of the tests. */
static const struct critical {
    size_t n;
    double other, at_end;
} critical_values[] = {
    { 9, 12.5, 12.5 },  { 11, 10.7, 7.00 }, { 13, 9.00, 7.00 }, { 15, 7.80, 6.60 },
    { 18, 6.80, 6.30 }, { 20, 6.40, 5.80 }, { 23, 6.20, 5.35 }, { 25, 6.00, 4.95 },
    { 27, 5.80, 4.85 }, { 30, 5.70, 4.72 }, { 40, 5.20, 4.50 }, { CHANGE_WINDOW, 4.90, 4.30 },
};

static struct critical critical_value(size_t n) {
    if (n < critical_values[0].n) return (struct critical){ n, INFINITY, INFINITY };
    size_t i = 1;
    while (i + 1 < COUNTOF(critical_values) && critical_values[i].n < n) i++;
    const struct critical *a = &critical_values[i - 1], *b = &critical_values[i];
    double share = MIN(1, (double)(n - a->n) / (double)(b->n - a->n));
    return (struct critical){ n, a->other + share * (b->other - a->other),
                              a->at_end + share * (b->at_end - a->at_end) };
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

/* The cost of a straight line through the values: the sum of the squared distances, at most OUTLIER squared
 * each. The slope is the median of the slopes of all pairs (Theil and Sen), so outliers do not move it. */
static double cost_of_line(const double *scaled, size_t n) {
    double *slopes = xcalloc(n * n / 2 + 1, sizeof *slopes), rest[CHANGE_WINDOW], cost = 0;
    size_t pairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) slopes[pairs++] = (scaled[k] - scaled[i]) / (double)(k - i);
    double slope = stats_median(slopes, pairs);
    for (size_t i = 0; i < n; i++) rest[i] = scaled[i] - slope * (double)i;
    double start = stats_median(rest, n);
    for (size_t i = 0; i < n; i++) cost += fmin((rest[i] - start) * (rest[i] - start), OUTLIER * OUTLIER);
    free(slopes);
    return cost;
}

struct division {
    size_t at; /* length of the first part; 0: none */
    double score;
    bool drift; /* a straight line fits better than two levels */
};

/* The best division has the smallest cost among those with a statistic above their critical value. The
 * largest statistic is not used, because runs on the wrong side of a division look like outliers. `at_end`:
 * the values are the newest of the series. n <= CHANGE_WINDOW. */
static struct division best_division(const double *v, size_t n, bool at_end) {
    double scaled[CHANGE_WINDOW], sorted[CHANGE_WINDOW], least_cost = INFINITY;
    struct part after[CHANGE_WINDOW];
    struct division best = { 0 };
    struct critical critical = critical_value(n);
    scale_values(v, n, scaled);
    for (size_t k = n; k-- > 0;) {
        insert_sorted(sorted, n - 1 - k, scaled[k]);
        after[k] = part_of(sorted, n - k);
    }
    for (size_t k = 1; k + CHANGE_LEAST_RUNS <= n; k++) {
        insert_sorted(sorted, k - 1, scaled[k - 1]);
        struct part before = part_of(sorted, k);
        double t = difference_of(&before, &after[k]), cost = cost_of(&before, &after[k], n);
        bool is_new = at_end && n - k <= NEW_MOST && k >= NEW_BEFORE;
        if (t <= (is_new ? critical.at_end : critical.other) || cost >= least_cost) continue;
        least_cost = cost;
        best = (struct division){ k, t, false };
    }
    best.drift = best.at && cost_of_line(scaled, n) < least_cost;
    return best;
}

struct found {
    struct division *v;
    size_t n, cap;
};

/* Divides v[from, to), then both parts, while changes are significant. A drift is not divided further: its
 * parts would drift, too. */
static void divide(const double *v, size_t from, size_t to, size_t all, struct found *found) {
    if (to - from < critical_values[0].n) return;
    struct division d = best_division(v + from, to - from, to == all);
    if (d.at == 0) return;
    if (!d.drift) divide(v, from, from + d.at, all, found);
    size_t at = d.at += from;
    if (found->n < found->cap) found->v[found->n++] = d;
    if (!d.drift) divide(v, at, to, all, found);
}

/* The windows overlap by half. A change point is dropped if it is near or before the last one that was
 * kept. */
static void search_windows(const double *v, size_t n, struct found *out) {
    size_t last_end = 0;
    for (size_t from = 0; from == 0 || from + CHANGE_WINDOW / 2 < n; from += CHANGE_WINDOW / 2) {
        struct division divisions[CHANGE_WINDOW];
        struct found window = { divisions, 0, CHANGE_WINDOW };
        divide(v, from, MIN(n, from + CHANGE_WINDOW), n, &window);
        for (size_t i = 0; i < window.n; i++) {
            if (out->n && divisions[i].at < out->v[out->n - 1].at + CHANGE_LEAST_RUNS + 2) continue;
            if (out->n < out->cap && divisions[i].at >= last_end) out->v[out->n++] = divisions[i];
        }
        if (out->n) last_end = out->v[out->n - 1].at;
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
    struct found found = { xcalloc(m + 1, sizeof(struct division)), 0, m };
    search_windows(known, m, &found);
    for (size_t i = 0; i < found.n && filled < cap; i++) {
        size_t at = found.v[i].at, from = i ? found.v[i - 1].at : 0,
               to = i + 1 < found.n ? found.v[i + 1].at : m;
        struct change_point p = { .at = index[at],
                                  .before = level(known, from, at),
                                  .after = level(known, at, to),
                                  .score = found.v[i].score,
                                  .drift = found.v[i].drift };
        p.change = p.after / p.before - 1;
        if (isfinite(p.change) && fabs(p.change) >= LEAST_CHANGE) out[filled++] = p;
    }
    free(found.v);
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
