/* What each class of kernels does to the hardware counters, from samples that are longer than the kernels.
 *
 * A sample's value is the mean over its interval, so it is the sum over classes of (fraction of the
 * interval in which the class ran) x (the class's rate), plus the idle state's share. Many samples over
 * many repetitions give many such equations with the same few unknowns. Each repetition is sampled at a
 * different phase, so even kernels much shorter than the interval are resolved, as by a sampling
 * oscilloscope. Solved by least squares with rates >= 0; samples that no combination of kernels explains
 * get less weight.
 *     struct counter_fit fit;
 *     counter_fit_run(&input, &fit);          -- fit.rate[metric * nclasses + class]
 *     counter_fit_free(&fit);
 * While several kernels run, each counts for an even share of the time, as for owned GPU time. */
#ifndef ANALYZE_COUNTER_FIT_H
#define ANALYZE_COUNTER_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counter_fit_input {
    size_t nkernels; /* sorted by start */
    const uint64_t *start_ns, *end_ns;
    const uint32_t *class_of; /* [nkernels], under nclasses */
    uint32_t nclasses;
    size_t nsamples; /* sorted by start, not overlapping */
    const uint64_t *sample_start_ns, *sample_end_ns;
    size_t nmetrics;
    const float *values; /* [nsamples][nmetrics]; NaN: unknown, the sample is left out for this metric */
    int64_t lag_ns;      /* the samples' timestamps are this much too early, on the clock of the kernels */
};

struct counter_fit {
    uint32_t nclasses; /* idle is class nclasses: arrays hold nclasses + 1 */
    size_t nmetrics;
    double *exposure;      /* [nclasses + 1]: sum of fractions, in sample intervals */
    double *rate;          /* [nmetrics][nclasses + 1]; NaN: too little exposure */
    double *error;         /* standard error, same layout; NaN likewise */
    double *residual;      /* [nmetrics]: robust standard deviation of what the fit leaves unexplained */
    uint64_t used, unused; /* samples with at least a part inside the kernels' span, and others */
};

/* Estimates lag_ns: the lag of a few microseconds under which a metric is explained best; 0 if none is
 * better. */
int64_t counter_fit_lag(const struct counter_fit_input *in, size_t metric);
void counter_fit_run(const struct counter_fit_input *in, struct counter_fit *out);
void counter_fit_free(struct counter_fit *f);

#endif
