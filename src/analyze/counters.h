/* Hardware counters of a run: per stage as plain time-weighted means, per class of kernels (and stage) by
 * the fit of counter_fit.h. Percentages are of the hardware's peak; docs/metrics.md has the definitions. */
#ifndef ANALYZE_COUNTERS_H
#define ANALYZE_COUNTERS_H

#include "analyze/analyze.h"

enum counter_slot {
    COUNTER_SM,         /* cycles in which an SM had work, % */
    COUNTER_TENSOR,     /* cycles of the tensor pipe, % */
    COUNTER_DRAM_READ,  /* of the memory's peak, % */
    COUNTER_DRAM_WRITE, /* likewise */
    COUNTER_OCCUPANCY,  /* warps, % of what fits */
    COUNTER_CLOCK,      /* SM clock, Hz */
    COUNTER_SLOTS
};
const char *counter_slot_name(enum counter_slot s); /* "sm_pct": stable, for scripts */

enum counter_quality { COUNTER_UNKNOWN, COUNTER_FAIR, COUNTER_GOOD };
const char *counter_quality_name(enum counter_quality q);

enum counter_bound {
    COUNTER_BOUND_UNKNOWN,
    COUNTER_BOUND_COMPUTE,
    COUNTER_BOUND_MEMORY,
    COUNTER_BOUND_LATENCY
};
const char *counter_bound_name(enum counter_bound b);

/* Measurements of a kernel class within one stage. Values of a quality below "fair" are NaN. */
struct counter_row {
    uint32_t kernel, stage; /* rows of the analysis; stage ANALYSIS_NONE: outside stages */
    uint64_t calls;         /* in this stage */
    double mean_ns;         /* of a call */
    double exposure;        /* time attributed to this row, in sample intervals */
    double exposure_ns;
    double value[COUNTER_SLOTS], error[COUNTER_SLOTS]; /* error: standard error */
    double dram_pct, dram_bytes_per_s; /* read and write; NaN: not measured, or the peak is unknown */
    double tensor_at_peak_pct;         /* tensor activity as percent of the peak, at the clock it ran at */
    /* the larger of DRAM and tensor pipes, in percent of their roofline peaks */
    double roof_pct;
    enum counter_quality quality;
    enum counter_bound bound;
};

/* Means over the samples inside a stage, weighted by time. */
struct counter_means {
    uint32_t stage;    /* row of the analysis */
    double covered_ns; /* part of its wall time that samples cover */
    double covered;    /* the same as a fraction of it, 0..1 */
    double mean[COUNTER_SLOTS];
    double dram_pct, dram_bytes_per_s; /* as above */
    /* tensor activity in percent of the peak that MFU uses, which is stated at another clock */
    double tensor_at_peak_pct;
};

struct analysis_counters {
    struct counter_row *rows;    /* by exposure_ns */
    struct counter_means *means; /* of the stages that samples cover, in their order */
    size_t nrows, nmeans;
    uint64_t samples, unused;
    double interval_ns; /* mean */
    double lag_ns;      /* shift of the samples that fits the kernels best */
    double clock_hz;    /* mean SM clock of all samples */
    /* fraction of the busy time in which several kernels run, 0..1; it is split evenly between them */
    double concurrent;
};

void counters_free(struct analysis_counters *c); /* NULL is fine */
/* Of the rows of this kernel class (one per stage), the one with the most exposure; NULL: none. */
const struct counter_row *counters_of_kernel(const struct analysis_counters *c, uint32_t kernel);

#endif
