/* The analysis of a timeline: all results in one struct.
 *     struct analysis a;
 *     analyze_run(tl, &input, &a);          -- input NULL: the trace alone; tl NULL: the timed stages alone
 *     ...
 *     analysis_free(&a);
 * No I/O, no printing. The analysis borrows from the timeline and from the input: free it first. Unknown
 * values are NaN, ANALYSIS_NONE or NULL, never 0. Definitions of all numbers: docs/analysis.md.
 *
 * Conservation: at every moment a device's time is split evenly between the kernels running on it (an
 * `owned` time; without overlap it is the duration). Owned times of stages (with the row outside), of
 * operators (likewise), of kernel classes, of categories and of libraries each add up to the devices' busy
 * time; `conservation` has the residuals. Sub-stages are inside their parents: add `gpu_owned_self_ns`, or
 * the rows without parent. */
#ifndef ANALYZE_ANALYZE_H
#define ANALYZE_ANALYZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/kernel_name.h"
#include "base/stats.h"
#include "timeline/timeline.h"

#define ANALYSIS_NONE UINT32_MAX

/* ---- Inputs beside the trace. All optional, all borrowed until analysis_free(). */

/* Work that the model requires in a stage: the minimum, from its configuration. */
struct analyze_cost {
    const char *stage;   /* name ("decode") or path ("prefill/sam") */
    bool per_token;      /* numbers are per output token (decode), else per occurrence of the stage */
    double flops, bytes; /* NaN: unknown */
    double floor_ns;     /* no implementation on this device is faster; NaN: unknown */
};
/* The work of one timed repeat in a stage: medians over the repeats. NaN: unknown. */
struct analyze_work {
    double tokens; /* read (prefill) or made (decode) */
    double flops, bytes, floor_ms;
    double recorded_ms; /* of the recorded request itself */
};
/* Times of a stage over the timed repeats, which run without recording. */
struct analyze_timing {
    const char *stage;  /* name ("sam") or path ("prefill/sam") */
    const char *parent; /* name of the stage it is part of; NULL: top level, or see the path */
    size_t n;           /* repeats */
    const double *ms;   /* [n]; NaN: this repeat has none */
    const double *tokens_in, *tokens_out; /* [n] each, input and output tokens; NULL: unknown */
    const bool *failed;      /* [n]; NULL: none failed. Failed repeats are counted and otherwise ignored */
    const uint32_t *input;   /* [n]: which input the repeat had; NULL: all had the same */
    uint32_t recorded_input; /* of the recorded request; with `input` */
    /* [n] each: what the model costs in that repeat, with its own input; NULL: unknown, then `work` */
    const double *flops, *bytes, *floor_ms;
    /* recorded time over timed time of the same input; 0 or NaN: unknown, then taken from the trace */
    double recording_cost;
    /* NULL: unknown; then the cost of the recorded request is used (struct analyze_cost) */
    const struct analyze_work *work;
};
/* Tokens that the recorded run read and made in a stage, as the engine answered. For traces without token
 * records. */
struct analyze_tokens {
    const char *stage;
    double in, out; /* over all its occurrences; NaN: unknown */
};
struct analyze_rule { /* ranges whose name matches the glob become occurrences of the stage */
    const char *stage, *glob;
};
struct kernel_profile;
struct llm_model;
struct analyze_input {
    const struct analyze_cost *costs;
    size_t ncosts;
    const struct analyze_timing *timings;
    size_t ntimings;
    const struct analyze_tokens *tokens;
    size_t ntokens;
    const struct analyze_rule *rules; /* before the presets, first match wins */
    size_t nrules;
    /* the trace holds one run of the model; costs and timings are for all occurrences of a stage in it */
    bool one_run;
    bool no_presets;                           /* only the rules, and ranges that are stages already */
    double peak_flops_per_s, peak_bytes_per_s; /* of one device; NaN or 0: unknown */
    const char *peak_source;                   /* "datasheet, dense bf16", "calibrated", "user" */
    const char *model;                         /* name, for texts; NULL */
    /* replaces `costs`, and the work of `timings`, by its own at the token counts of the trace, if it has
     * any */
    const struct llm_model *llm;
    /* How many GPUs share `llm`: layers split (tp), layers spread (pp), experts spread (ep). 0: not given.
     * Each GPU is charged its own share. */
    uint64_t tp, pp, ep;
    const struct kernel_profile *profiles; /* kernel_profile.h: what Nsight Compute measured */
    size_t nprofiles;
    bool totals; /* fill analysis.totals: about 40 ns per kernel for numbers that a report does not print */
};

/* ---- Results. */

/* Why a device had no work.
 * LAUNCH: the launch queue was empty while the host was still launching
 * SYNC: the host was inside a synchronisation, or just after one
 * DEPENDENCY: work was queued, but waited for another stream
 * DEVICE: work was queued on the same stream: latency from kernel to kernel
 * NO_WORK: the host did something else (no launch for a while)
 * UNKNOWN: the trace has no launches */
#define ANALYSIS_IDLE(X)                        \
    X(LAUNCH, "launch gap")                     \
    X(SYNC, "host synchronisation")             \
    X(DEPENDENCY, "dependency between streams") \
    X(DEVICE, "kernel-to-kernel latency")       \
    X(NO_WORK, "no work")                       \
    X(UNKNOWN, "unknown")
enum analysis_idle_cause {
#define X(id, name) ANALYSIS_IDLE_##id,
    ANALYSIS_IDLE(X)
#undef X
        ANALYSIS_IDLE_CAUSES
};
const char *analysis_idle_cause_name(enum analysis_idle_cause cause); /* "launch gap" */

/* Idle time of a stage; the causes add up to idle_ns. */
struct analysis_idle {
    double ns[ANALYSIS_IDLE_CAUSES];
    uint64_t gaps;       /* periods in which the device had nothing to do */
    struct stats gap_ns; /* percentiles are over at most 100,000 gaps, evenly chosen */
    /* launch gaps and kernel-to-kernel latency of kernels not launched by a graph */
    double graph_removable_ns;
    double queue_depth_mean; /* launches waiting when a kernel starts; NaN: no launches */
    double
        queue_empty_share;  /* share of kernels with no other launch queued behind them: the host is behind */
    double launch_delay_ns; /* median, end of the launch call to start of the kernel; NaN */
    double launch_cost_ns;  /* median duration of a launch call; NaN */
    double launch_interval_ns; /* median from one launch call to the next on its thread; NaN */
};

/* A stage with a larger share of its time outside of capture windows was recorded only in part. */
#define MISSED_LIMIT 0.001

/* The time of a stage on one device: its part of the device's timeline (docs/analysis.md). */
struct analysis_stage_device {
    double busy_ns, idle_ns; /* with sub-stages */
    double copy_alone_ns;    /* the part of busy_ns in which copies ran and no kernel */
    double cause_ns[ANALYSIS_IDLE_CAUSES], graph_removable_ns;
    uint64_t kernels, copies;
    uint64_t steps; /* occurrences of the stage in processes with work on the device */
};

/* A stage: what the trace, the timed repeats and the model say about it. Sums are over all its occurrences
 * in the trace, 0 if it has none. */
struct analysis_stage {
    const char *name;        /* "sam"; "between steps"; "whole trace" */
    const char *path;        /* "prefill/sam" */
    const char *parent_name; /* NULL: top level */
    uint32_t parent;         /* row; ANALYSIS_NONE */
    uint32_t depth;
    bool implicit; /* the trace marks no stage: this row is all of it */
    bool outside;  /* the row "between steps": work launched in no stage, idle time with none open */
    bool on_cpu;   /* its kernels ran on the native engine's cpu device */

    /* ---- the trace: stages.c, calls.c, walk.c, queue.c */
    uint64_t occurrences; /* 0: only timed */
    /* Over occurrences. Time: busy and idle, mean over the devices it has work on; without work, of the
     * range. */
    struct stats wall_ns, busy_ns;
    /* The range; launch call of its first kernel to the start of that; its first kernel to its last. */
    struct stats host_each_ns, queue_ns, span_ns;
    double host_ns;                                          /* sum of range durations */
    double wall_total_ns;                                    /* time of all occurrences */
    double gpu_busy_ns, idle_ns, copy_alone_ns, gpu_span_ns; /* sums over occurrences and `devices` */
    double gpu_owned_ns;      /* with sub-stages; rows without parent and the outside row add up */
    double gpu_owned_self_ns; /* without sub-stages; all rows add up */
    uint32_t devices;         /* on which it runs, at least 1: those with its kernels, else with its copies */
    double device_steps;      /* steps, summed over these devices; at least 1 */
    uint64_t kernels, launches, graph_launches, copies, syncs;
    double copied_bytes, htod_bytes, dtoh_bytes, copy_ns, sync_ns;
    double category_ns[KERNEL_CATEGORY_END]; /* owned, with sub-stages */
    double missed;   /* share of its time in which neither kernels nor launches were recorded, 0..1 */
    bool idle_known; /* false: the data cannot support idle verdicts */
    const char *idle_refused; /* why not; NULL */
    struct analysis_idle idle;

    /* ---- tokens, timed repeats and requests: tokens.c, utilization.c */
    const char *token_source; /* "token records", "range labels", "engine's answer", "timing phase"; NULL */
    struct stats token_ns;    /* time from token to token (or step to step) in the trace */
    const struct analyze_timing *timing; /* NULL: not timed */
    struct stats timing_ms;  /* over the repeats that did not fail; n == 0: none. cv: within an input */
    const char *time_source; /* "median of 10 timed repeats", "mean of 3 occurrences in the trace"; NULL */
    double requests;         /* how many the trace holds, at least 1 */
    double device_requests;  /* sums over devices and occurrences divided by it are per request and device */
    const struct counter_means *counters; /* counters.h; NULL: no sample covers it */

    /* ---- figures, all double, to the end of the struct: NaN until a pass sets them */
    double tokens_in, tokens_out; /* of the recorded run */
    double kernels_per_token;
    double launches_per_token; /* none if more tokens are read than made: prefill launches once for all */
    double kernel_mean_ns;     /* mean duration of a kernel */

    double same_input_ms; /* median of the repeats that had the recorded input; all, if one had */
    double same_input_floor_ms;
    double overhead_ratio; /* trace wall over timing median */
    double recording_cost; /* the same for one input if the timing has it: what recording cost */

    /* one request (the input says that the trace holds one), else one occurrence */
    double time_ms; /* median of the timed repeats, else the mean in the trace */
    /* device busy in time_ms, mean over devices: a GPU's kernels as recorded. Recording slows a CPU's
     * kernels like everything else, so their share is used, not their time */
    double busy_ms, busy_share;
    double kernels_each;           /* kernels */
    double tokens;                 /* read or made */
    double tokens_per_s;           /* read or made, whichever is more, in time_ms */
    double flops, bytes, floor_ms; /* the model's (per_token costs times its tokens) */
    /* fractions; distance = time / floor. Medians of the ratios of the repeats, each with its own cost */
    double mfu, mbu, distance;
    /* work of the recorded request over its recorded time, comparable with counters */
    double recorded_mfu, recorded_mbu;

    /* power.c. Of the recorded run, over all occurrences and all GPUs on which it has kernels, with
     * everything else that these did meanwhile. Tokens are those the stage works on: read if it reads more
     * than it makes (prefill), else made. */
    double joules, joules_per_token, tokens_per_joule, watts;
};

struct analysis_occurrence {            /* sorted by start */
    uint32_t stage, range, parent;      /* parent: occurrence; range: TIMELINE_NONE for the implicit stage */
    uint64_t start_ns, end_ns;          /* of the range */
    uint64_t wall_end_ns;               /* end_ns, or the end of its last kernel */
    uint64_t gpu_first_ns, gpu_last_ns; /* of its kernels; first == 0: no kernel */
    uint64_t gpu_launched_ns;           /* launch call of its first kernel; 0: unknown */
    double busy_ns, idle_ns;            /* mean over the devices it has work on */
    uint32_t kernels;
    uint32_t launches; /* of kernels and graphs */
    /* Recording ended in it: its range was open, or kernels of it had not run. Not in figures per token. */
    bool unfinished;
    uint64_t device_bits; /* bit d: it has kernels on device d; those past 63 do not count */
    uint32_t devices;     /* with its work; 0: its time is that of the range, unless it has idle time */
    double tokens_in, tokens_out; /* NaN: unknown */
};

/* One row per name; in operators_by_shape per name and detail (shapes). Sorted by gpu_self_ns, then
 * self_ns */
struct analysis_operator {
    const char *name;
    const char *detail; /* NULL in `operators` */
    enum trace_range_category category;
    bool outside; /* the row for kernels launched outside of ranges other than stages */
    uint64_t calls, kernels;
    double total_ns, self_ns, mean_ns; /* on the host; a recursive call counts once in total */
    double gpu_ns;                     /* owned by kernels that it or its children launched */
    double gpu_self_ns;      /* owned by kernels that it launched itself; all rows add up to busy time */
    double work_ns;          /* of the calls whose FLOPs or bytes are known: on the GPU, else on the host */
    const char *work_source; /* of FLOPs and bytes: "engine", "operator shapes"; NULL */
    uint32_t stage;          /* where most of its time is; ANALYSIS_NONE */
    /* figures, all double, to the end of the struct: NaN until a pass sets them */
    double flops, bytes; /* summed */
};

enum analysis_limiter { /* of theoretical occupancy */
                        ANALYSIS_LIMIT_UNKNOWN,
                        ANALYSIS_LIMIT_WARPS,
                        ANALYSIS_LIMIT_BLOCKS,
                        ANALYSIS_LIMIT_REGISTERS,
                        ANALYSIS_LIMIT_SMEM
};
/* A class of kernels: same name, grid, block, registers, shared memory, device. Sorted by owned_ns */
struct analysis_kernel {
    uint32_t shape;   /* of the timeline: geometry, registers, shared memory */
    const char *name; /* demangled */
    const char *short_name;
    enum kernel_library library;
    enum kernel_category category;
    bool whole_graph; /* a graph recorded as one kernel */
    uint64_t calls;
    double total_ns, owned_ns, share; /* share of busy time, 0..1 */
    double mean_ns, min_ns, p50_ns, max_ns;
    double p99_ns;    /* NaN: fewer than STATS_P99_LEAST calls */
    double occupancy; /* theoretical, 0..1; NaN */
    enum analysis_limiter limiter;
    double waves;            /* blocks over what the device holds at once; NaN */
    uint64_t blocks;         /* of the grid; 0: unknown */
    uint32_t stage;          /* where most of its time is; ANALYSIS_NONE: outside */
    const char *work_source; /* of FLOPs and bytes: "gemm records", "operator shapes"; NULL */
    /* figures, all double, to the end of the struct: NaN until a pass sets them */
    double flops, bytes; /* of one call */
    double work_ns;      /* mean duration of the calls whose FLOPs are known */
};
struct analysis_group { /* kernels by category or by library; sorted by owned_ns */
    int id;             /* enum kernel_category or kernel_library */
    const char *name;
    uint64_t calls, classes;
    double owned_ns, share;
};
struct analysis_device {
    uint32_t device;
    uint32_t process; /* the first with work on it; ANALYSIS_NONE: none */
    uint64_t kernels;
    /* First to last record of the processes with work on the device. Top-level stages, the row between steps
     * and the unrecorded time add up to it. 0: no work */
    double timeline_ns;
    double work_ns;       /* union of kernels, copies and memsets */
    double unrecorded_ns; /* launched work waited, and nothing that was recorded ran */
    /* Longer waits after the launch call are unrecorded time; the median delay it was derived from, NaN: no
     * kernel was launched while the device was idle. */
    double unrecorded_limit_ns, launch_delay_ns;
    double busy_ns, span_ns, copy_ns; /* union of kernels; first start to last end; union of copies */
    /* union of communication kernels; the part of it that overlaps other kernels */
    double communication_ns, communication_hidden_ns;
};

struct analysis_point { /* of the roofline */
    const char *label;
    uint32_t stage, kernel; /* row; the other is ANALYSIS_NONE */
    double flops, bytes, time_ns;
    double intensity; /* FLOP per byte */
    double flop_per_s, byte_per_s;
    double roof_flop_per_s; /* at this intensity */
    double attained;        /* flop_per_s / roof (without FLOPs: byte_per_s / peak) */
    bool memory_bound;      /* left of the ridge */
    const char
        *source; /* of FLOPs and bytes: "model", "engine", "gemm records", "operator shapes", "counters" */
};

struct analysis_power_point {
    uint64_t time_ns;
    float watts, sm_mhz, memory_mhz, temperature_c; /* NaN: unknown */
    uint64_t throttle_reasons;                      /* NVML's bits, of any sample in this point */
};
struct analysis_power { /* one per device */
    uint32_t device;
    struct analysis_power_point *series; /* at most 2,000 points */
    size_t n;
    double joules, watts_mean, watts_max, sm_mhz_max, sm_mhz_busy_mean;
    double covered_ns; /* between first and last sample */
    /* by power, heat or hardware while the device was busy; idle and application clocks do not count */
    double throttled_ns;
    const char *throttled_by; /* "power cap, thermal"; NULL */
    double idle_joules;       /* energy used while no kernel ran */
};

struct analysis_stability {
    const char *stage;
    struct stats ms;
    size_t failed;
    double cv;            /* within an input; NaN: no input was repeated */
    double drift_percent; /* first to last repeat along the fitted line, of the mean; NaN for n < 4 */
    bool drift_shown;     /* the 95% interval of the slope excludes 0 */
    size_t outliers;      /* too far from the median of their input */
    bool unstable;        /* CV over 5% */
};

enum analysis_confidence { ANALYSIS_LOW, ANALYSIS_MEDIUM, ANALYSIS_HIGH };
const char *analysis_confidence_name(enum analysis_confidence c);
struct analysis_finding { /* sorted by saving_ms, largest first; informative ones (NaN) last */
    const char *rule;     /* "launch-bound": stable, for scripts */
    const char *title;    /* "Decode is launch-bound: the GPU waits 451 ms of 630 ms" */
    const char *evidence; /* the numbers */
    const char *advice;   /* what to do */
    uint32_t stage;       /* row; ANALYSIS_NONE: the whole run */
    /* upper bound, over all occurrences of the stage in one run; NaN: informative only */
    double saving_ms;
    double saving_percent; /* of the stage's time */
    enum analysis_confidence confidence;
};

enum analysis_severity { ANALYSIS_INFO, ANALYSIS_WARNING };
struct analysis_note { /* where numbers come from and what is missing: "no launches: time containment used" */
    enum analysis_severity severity;
    const char *text;
};

struct analysis_conservation {                                 /* ns */
    double busy;                                               /* sum over devices of the union of kernels */
    double kernel_residual, stage_residual, operator_residual; /* busy minus the sum of owned times */
    double outside_stages, outside_operators; /* owned by work outside of stages, outside of other ranges */
    double unmatched; /* owned by kernels without a launch in files that have launches */
    uint64_t unmatched_kernels;
};

struct analysis_counters; /* counters.h */
struct analysis_profiles; /* kernel_profile.h */
struct analysis_totals;   /* totals.h */

struct analysis {
    const struct timeline *timeline;   /* NULL: no trace, only timed stages */
    const struct analyze_input *input; /* NULL: none */
    double wall_ns;                    /* first to last record */
    double lost_share;                 /* kernels lost, of all; 0..1 */
    double missed;                     /* share of the time in which no kernels were recorded, 0..1 */
    uint64_t kernels_total, launches_total;
    double peak_flops_per_s, peak_bytes_per_s; /* NaN */
    const char *peak_source;                   /* NULL */
    /* (F_prefill + F_decode) / ((t_prefill + t_decode) P) over stages without parent; NaN */
    double model_mfu;
    /* the same for bytes, over timed stages: a trace does not contain the number of sequences per pass */
    double model_mbu;
    bool cpu_only; /* every kernel ran on a cpu device, or there is none */
    /* the costs in use: those of the input, or computed from its model */
    const struct analyze_cost *costs;
    size_t ncosts;
    bool costs_replaced;        /* the input's `llm` replaced its costs */
    const char *model;          /* name of the model that the costs are for; NULL: unknown */
    const char *no_model_costs; /* why the input's `llm` gave none; NULL */

    /* a parent before its children, in order of first occurrence; outside last */
    struct analysis_stage *stages;
    struct analysis_occurrence *occurrences;
    struct analysis_operator *operators, *operators_by_shape;
    struct analysis_kernel *kernels;
    struct analysis_group *categories, *libraries;
    struct analysis_device *devices;             /* as timeline.devices */
    struct analysis_stage_device *stage_devices; /* [nstages x ndevices] */
    struct analysis_point *roofline;
    struct analysis_power *powers;
    struct analysis_stability *stability;
    struct analysis_finding *findings;
    struct analysis_note *notes;
    size_t nstages, noccurrences, noperators, noperators_by_shape, nkernels, ncategories, nlibraries,
        ndevices, nroofline, npowers, nstability, nfindings, nnotes;
    struct analysis_conservation conservation;
    struct analysis_counters *counters; /* hardware counters of stages and kernels; NULL: no samples */
    struct analysis_profiles *profiles; /* Nsight Compute's measurements of kernels; NULL: none */
    struct analysis_totals *totals;     /* plain sums, for `inferprof stats`; NULL: input did not ask */

    /* For drawing and export: owner of each timeline record. */
    const uint32_t *kernel_occurrence; /* [timeline.kernels.n]: innermost occurrence; ANALYSIS_NONE */
    const uint32_t *shape_kernel;      /* [timeline.nshapes]: row of `kernels` */
    const uint32_t *range_occurrence;  /* [timeline.ranges.n]: innermost occurrence around or at it */
    void *owner;                       /* private */
};

/* Time of an occurrence, ns. */
static inline double analysis_occurrence_time(const struct analysis_occurrence *o) {
    return o->devices || o->idle_ns > 0 ? o->busy_ns + o->idle_ns : (double)(o->end_ns - o->start_ns);
}

static inline const struct analysis_stage_device *analysis_stage_on(const struct analysis *a, size_t stage,
                                                                    size_t device) {
    return &a->stage_devices[stage * a->ndevices + device];
}

/* Tokens that the stage works on: those it reads if it reads more than it makes (prefill), else those it
 * makes. */
static inline double analysis_stage_tokens(const struct analysis_stage *s) {
    return s->tokens_in > s->tokens_out || s->tokens_out != s->tokens_out ? s->tokens_in : s->tokens_out;
}

void analyze_run(const struct timeline *tl, const struct analyze_input *input, struct analysis *a);
void analysis_free(struct analysis *a); /* and ready for reuse; zeroed is fine */

/* Means over the devices that ran kernels; NaN: none did. */
struct analysis_timeline {
    size_t devices;
    double timeline_ns, between_ns, between_busy_ns, unrecorded_ns;
};
struct analysis_timeline analysis_timeline(const struct analysis *a);

/* From the start of the first stage to the end of the last one or of its last kernel. False: the trace marks
 * no stage, or no kernel ran outside of them. For timeline_cut(), before the analysis. */
bool analyze_request_window(const struct timeline *tl, const struct analyze_input *input, uint64_t *from_ns,
                            uint64_t *to_ns);

/* A representative window for drawing: the occurrence of the stage whose wall time is nearest to the median,
 * cut to at most max_kernels kernels. False: the stage has no occurrence. */
bool analysis_window(const struct analysis *a, uint32_t stage, size_t max_kernels, uint64_t *start_ns,
                     uint64_t *end_ns);

#endif
