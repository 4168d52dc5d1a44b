/* Spread, drift and outliers over the timed repeats. Different inputs cause different work, so all three
 * are computed within each input. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

#define UNSTABLE_CV 0.05
#define OUTLIER_REPEATS 5 /* with fewer repeats of an input, its outliers are not counted */

/* The repeats that have a time and did not fail. */
struct repeats {
    double *ms;       /* [n] */
    uint32_t *input;  /* [n]; all 0 if unknown */
    double *relative; /* [n]: ms / mean of the repeat's input */
    size_t n, inputs;
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Limit for the distance of a value from the median of n values, in units of 1.4826 median absolute
 * deviations. It is the 99% quantile of the largest distance in normal samples (100,000 samples per n), so
 * at most 1% of normal samples contain an outlier. The usual limit of 3.5 (Iglewicz and Hoaglin) flags 10
 * to 21% of normal samples of 5 to 20 values. */
static double outlier_limit(size_t n) {
    static const double limits[] = { 18.6, 10.0, 10.9, 8.2, 8.3, 6.9, 7.1, 6.4,
                                     6.5,  5.9,  6.1,  5.7, 5.8, 5.4, 5.5, 5.3 };
    return n - OUTLIER_REPEATS < COUNTOF(limits) ? limits[n - OUTLIER_REPEATS] : 5.2;
}

/* Returns the number of outliers. Overwrites v. */
static size_t count_outliers(double *v, size_t n) {
    if (n < OUTLIER_REPEATS) return 0;
    qsort(v, n, sizeof *v, ascending);
    double median = stats_percentile(v, n, 0.5);
    size_t outliers = 0;
    for (size_t i = 0; i < n; i++) v[i] = fabs(v[i] - median);
    qsort(v, n, sizeof *v, ascending);
    double deviation = STATS_MAD_TO_SIGMA * stats_percentile(v, n, 0.5);
    for (size_t i = 0; i < n && deviation > 0; i++) outliers += v[i] > outlier_limit(n) * deviation;
    return outliers;
}

static bool is_first_of_input(const struct repeats *r, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (r->input[k] == r->input[i]) return false;
    return true;
}

static size_t outliers_by_input(struct context *c, const struct repeats *r) {
    double *v = analysis_alloc(c, r->n, sizeof *v);
    size_t outliers = 0;
    for (size_t i = 0; i < r->n; i++) {
        size_t n = 0;
        if (!is_first_of_input(r, i)) continue;
        for (size_t k = i; k < r->n; k++)
            if (r->input[k] == r->input[i]) v[n++] = r->ms[k];
        outliers += count_outliers(v, n);
    }
    return outliers;
}

/* Fits a line to the relative times over the index of the repeat. */
static void fit_drift(struct analysis_stability *s, const struct repeats *r) {
    double mean_x = ((double)r->n - 1) / 2, sxx = 0, sxy = 0, residual = 0;
    s->drift_percent = NAN;
    if (r->n < r->inputs + 3 || !(s->ms.mean > 0)) return;
    for (size_t i = 0; i < r->n; i++) {
        sxx += ((double)i - mean_x) * ((double)i - mean_x);
        sxy += ((double)i - mean_x) * (r->relative[i] - 1);
    }
    double slope = sxy / sxx;
    for (size_t i = 0; i < r->n; i++) {
        double off = r->relative[i] - 1 - slope * ((double)i - mean_x);
        residual += off * off;
    }
    double freedom = (double)(r->n - r->inputs - 1), error = sqrt(residual / freedom / sxx);
    s->drift_percent = 100 * slope * (double)(r->n - 1);
    s->drift_shown = fabs(slope) > stats_student_t975(freedom) * error;
}

static double mean_of_input(const struct repeats *r, uint32_t input) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->input[i] != input) continue;
        sum += r->ms[i];
        n++;
    }
    return sum / n;
}

static struct repeats repeats_of(struct context *c, const struct analyze_timing *t) {
    struct repeats r = { .ms = analysis_alloc(c, t->n, sizeof *r.ms),
                         .input = analysis_alloc(c, t->n, sizeof *r.input),
                         .relative = analysis_alloc(c, t->n, sizeof *r.relative) };
    for (size_t i = 0; i < t->n; i++) {
        if ((t->failed && t->failed[i]) || isnan(t->ms[i])) continue;
        r.input[r.n] = t->input ? t->input[i] : 0;
        r.ms[r.n++] = t->ms[i];
    }
    for (size_t i = 0; i < r.n; i++) {
        r.relative[i] = r.ms[i] / mean_of_input(&r, r.input[i]);
        r.inputs += is_first_of_input(&r, i);
    }
    return r;
}

double analysis_timing_cv(struct context *c, const struct analyze_timing *t) {
    struct repeats r = repeats_of(c, t);
    return stats_grouped_cv(r.ms, r.input, r.n);
}

static void fill_stability(struct context *c, struct analysis_stability *s, const struct analyze_timing *t) {
    struct repeats r = repeats_of(c, t);
    s->stage = t->stage;
    for (size_t i = 0; i < t->n; i++) s->failed += t->failed && t->failed[i];
    s->ms = stats_of(r.ms, r.n);
    s->cv = stats_grouped_cv(r.ms, r.input, r.n);
    s->unstable = s->cv > UNSTABLE_CV;
    s->outliers = outliers_by_input(c, &r);
    fit_drift(s, &r);
}

void analyze_stability(struct context *c) {
    c->a->stability = analysis_alloc(c, c->in->ntimings, sizeof *c->a->stability);
    for (size_t i = 0; i < c->in->ntimings; i++) {
        struct analysis_stability *s = &c->a->stability[c->a->nstability];
        fill_stability(c, s, &c->in->timings[i]);
        if (s->ms.n || s->failed)
            c->a->nstability++; /* a stage with neither times nor failures did not occur */
        else
            *s = (struct analysis_stability){ 0 };
    }
}
