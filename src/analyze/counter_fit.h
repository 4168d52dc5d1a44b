/* Estimates the hardware counter values of each kernel class from samples that are longer than the kernels.
 * A sample's value is the mean over its interval: the sum over classes of (fraction of the interval in which
 * the class ran) x (rate of the class), plus the share of the idle state. Many repetitions of the same
 * kernels, each sampled at a different phase, give many such equations with few unknowns. They are solved by
 * least squares with rates >= 0. Outliers get less weight.
 *     struct counter_fit fit;
 *     counter_fit_run(&input, &fit);          -- fit.rate[metric * (nclasses + 1) + class]
 *     counter_fit_free(&fit);
 * While several kernels run, the time is split evenly between them, as for owned GPU time. */
#ifndef ANALYZE_COUNTER_FIT_H
#define ANALYZE_COUNTER_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counter_fit_input {
    size_t nkernels; /* sorted by start */
    const uint64_t *start_ns, *end_ns;
    const uint32_t *class_of; /* [nkernels]: below nclasses */
    uint32_t nclasses;
    size_t nsamples; /* samples are sorted by start and do not overlap */
    const uint64_t *sample_start_ns, *sample_end_ns;
    size_t nmetrics;
    const float *values; /* [nsamples][nmetrics]; NaN: unknown, the sample is ignored for this metric */
    int64_t lag_ns;      /* add this to the samples' timestamps to get times on the kernels' clock */
};

struct counter_fit {
    uint32_t nclasses; /* class nclasses is idle, so arrays have nclasses + 1 elements */
    size_t nmetrics;
    double *exposure; /* [nclasses + 1]: sum over samples of the fraction in which the class ran */
    /* [nmetrics][nclasses + 1]; NaN: exposure too small, too many classes, or no values of the metric */
    double *rate;
    double *error;         /* standard error, same layout and NaN rule as `rate` */
    double *residual;      /* [nmetrics]: robust standard deviation of the residuals */
    uint64_t used, unused; /* samples that overlap the kernels' span, and other samples */
};

/* Estimates lag_ns: the lag of a few microseconds with the best fit of the metric. Returns 0 if no lag
 * clearly improves the fit, or if the best lag is at the end of the searched range. */
int64_t counter_fit_lag(const struct counter_fit_input *in, size_t metric);
void counter_fit_run(const struct counter_fit_input *in, struct counter_fit *out);
void counter_fit_free(struct counter_fit *f);

#endif
