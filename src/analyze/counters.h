/* Hardware counters of a run: time-weighted means per stage, and estimates per kernel class and stage
 * (counter_fit.h). Percentages are of the hardware peak. Definitions: docs/metrics.md. */
#ifndef ANALYZE_COUNTERS_H
#define ANALYZE_COUNTERS_H

#include "analyze/analyze.h"

enum counter_slot {
    COUNTER_SM,         /* cycles in which an SM had work, % */
    COUNTER_TENSOR,     /* cycles in which the tensor pipe was active, % */
    COUNTER_DRAM_READ,  /* % of the peak memory bandwidth */
    COUNTER_DRAM_WRITE, /* % of the peak memory bandwidth */
    COUNTER_OCCUPANCY,  /* resident warps, % of the maximum */
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

/* Measurements of a kernel class in one stage. Values of a quality below "fair" are NaN. The clock is NaN
 * unless `quality` is "good". */
struct counter_row {
    uint32_t kernel, stage; /* rows of the analysis; stage ANALYSIS_NONE: outside of stages */
    uint64_t calls;         /* calls in this stage */
    double mean_ns;         /* mean duration of a call */
    double exposure;        /* time attributed to this row, in sample intervals */
    double exposure_ns;
    double value[COUNTER_SLOTS], error[COUNTER_SLOTS]; /* error: standard error */
    double dram_pct, dram_bytes_per_s; /* reads plus writes; NaN: not measured, or the peak is unknown */
    double tensor_at_peak_pct;         /* tensor activity in percent of the peak that MFU uses */
    /* The larger of two percentages: DRAM traffic and tensor activity, each relative to its roofline peak.
     * NaN: one of them is unknown. */
    double roof_pct;
    enum counter_quality quality;
    enum counter_bound bound;
};

/* Time-weighted means over the samples inside a stage. */
struct counter_means {
    uint32_t stage;    /* row of the analysis */
    double covered_ns; /* wall time that samples cover, summed over occurrences and sampled GPUs */
    double covered;    /* covered_ns / wall time of the occurrences, summed over the sampled GPUs, 0..1 */
    double mean[COUNTER_SLOTS];
    double dram_pct, dram_bytes_per_s; /* as in struct counter_row */
    /* tensor activity in percent of the peak that MFU uses */
    double tensor_at_peak_pct;
};

struct analysis_counters {
    struct counter_row *rows;    /* sorted by exposure_ns */
    struct counter_means *means; /* in stage order */
    size_t nrows, nmeans;
    uint64_t samples, unused;
    double interval_ns; /* mean length of a sample; several GPUs: of the last one */
    double lag_ns;      /* time shift of the samples with the best fit; several GPUs: of the last one */
    double clock_hz;    /* mean SM clock over all samples */
    /* share of the busy time with several kernels, 0..1 */
    double concurrent;
};

void counters_free(struct analysis_counters *c); /* accepts NULL */
/* Returns the row of a kernel class with the most exposure, or NULL. A kernel class has one row per stage. */
const struct counter_row *counters_of_kernel(const struct analysis_counters *c, uint32_t kernel);

#endif
