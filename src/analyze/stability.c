/* Spread, drift and outliers over the timed repeats. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"

#define UNSTABLE_CV 0.05
#define OUTLIER_REPEATS 5      /* with fewer repeats, one always looks like an outlier */
#define OUTLIER_DEVIATIONS 3.5 /* times 1.4826 median absolute deviations: the rule of Iglewicz and Hoaglin */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t count_outliers(const double *v, size_t n, double median) {
    double *off = xmalloc((n + 1) * sizeof *off);
    size_t outliers = 0;
    for (size_t i = 0; i < n; i++) off[i] = fabs(v[i] - median);
    if (n) qsort(off, n, sizeof *off, ascending);
    double deviation = 1.4826 * stats_percentile(off, n, 0.5);
    for (size_t i = 0; i < n && n >= OUTLIER_REPEATS && deviation > 0; i++)
        outliers += off[i] > OUTLIER_DEVIATIONS * deviation;
    free(off);
    return outliers;
}

/* Least squares over the index of the repeat. */
static void fit_drift(struct analysis_stability *s, const double *v, size_t n) {
    double mean_x = ((double)n - 1) / 2, sxx = 0, sxy = 0, residual = 0;
    s->drift_percent = NAN;
    if (n < 4 || !(s->ms.mean > 0)) return;
    for (size_t i = 0; i < n; i++) {
        sxx += ((double)i - mean_x) * ((double)i - mean_x);
        sxy += ((double)i - mean_x) * (v[i] - s->ms.mean);
    }
    double slope = sxy / sxx;
    for (size_t i = 0; i < n; i++) {
        double off = v[i] - s->ms.mean - slope * ((double)i - mean_x);
        residual += off * off;
    }
    double error = sqrt(residual / (double)(n - 2) / sxx);
    s->drift_percent = 100 * slope * (double)(n - 1) / s->ms.mean;
    s->drift_shown = fabs(slope) > stats_student_t975((double)(n - 2)) * error;
}

static void fill_stability(struct analysis_stability *s, const struct analyze_timing *t) {
    double *v = xmalloc((t->n + 1) * sizeof *v);
    size_t n = 0;
    s->stage = t->stage;
    for (size_t i = 0; i < t->n; i++) {
        s->failed += t->failed && t->failed[i];
        if (!(t->failed && t->failed[i]) && !isnan(t->ms[i])) v[n++] = t->ms[i];
    }
    s->ms = stats_of(v, n);
    s->unstable = s->ms.cv > UNSTABLE_CV;
    s->outliers = count_outliers(v, n, s->ms.median);
    fit_drift(s, v, n);
    free(v);
}

void analyze_stability(struct context *c) {
    c->a->stability = analysis_alloc(c, c->in->ntimings, sizeof *c->a->stability);
    for (size_t i = 0; i < c->in->ntimings; i++) {
        struct analysis_stability *s = &c->a->stability[c->a->nstability];
        fill_stability(s, &c->in->timings[i]);
        if (s->ms.n || s->failed)
            c->a->nstability++; /* else the stage did not occur */
        else
            *s = (struct analysis_stability){ 0 };
    }
}
