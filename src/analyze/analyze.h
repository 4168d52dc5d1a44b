/* The analysis of a timeline: all results in one struct.
 *     struct analysis a;
 *     analyze_run(tl, &input, &a);          -- input NULL: the trace alone; tl NULL: the timed stages alone
 *     ...
 *     analysis_free(&a);
 * No I/O, no printing. The analysis points into the timeline and the input, so free the analysis first.
 * Unknown values are NaN, ANALYSIS_NONE or NULL; 0 only where a member says so. Definitions of all numbers:
 * docs/analysis.md.
 *
 * Conservation: while several kernels run on a device, its time is split evenly between them. The part of a
 * kernel is its `owned` time. The owned times of all stages add up to the devices' busy time, and so do those
 * of all operators, kernel classes, categories and libraries. Stages and operators each have a row for work
 * outside of them. A sub-stage is part of its parent: add `gpu_owned_self_ns` of all rows, or `gpu_owned_ns`
 * of the rows without parent. */
#ifndef ANALYZE_ANALYZE_H
#define ANALYZE_ANALYZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/anatomy.h"
#include "analyze/kernel_name.h"
#include "analyze/recognise.h"
#include "base/stats.h"
#include "timeline/timeline.h"

#define ANALYSIS_NONE UINT32_MAX

/* ---- Inputs in addition to the trace. All are optional and must stay valid until analysis_free(). */

/* Minimum work of a stage, by the model. */
struct analyze_cost {
    const char *stage;   /* name ("decode") or path ("prefill/sam") */
    bool per_token;      /* true: numbers are per output token (decode); false: per request (see one_run) */
    double flops, bytes; /* NaN: unknown */
    /* roofline time: sum over operators of max(compute time, memory time); NaN: unknown */
    double floor_ns;
    /* Peaks that apply to this work; 0 or NaN: the peaks of the device. peak_flops_per_s is a mean if the
     * operators have different types. */
    double peak_flops_per_s, peak_bytes_per_s;
    /* memory level to which peak_bytes_per_s belongs, such as "L3, 32 MiB"; NULL: the device has only one
     * level */
    const char *level;
    double step_bytes; /* bytes that one pass over the weights reads; 0 or NaN: unknown */
    /* experts read per routed layer and pass, counted by the engine; 0 or NaN: unknown */
    double experts_read;
    bool experts_assumed; /* `bytes` assumes that tokens are routed evenly to the experts of a layer */
};
/* Work of a stage per timed repeat: medians over the repeats. NaN: unknown. */
struct analyze_work {
    double tokens; /* read (prefill) or generated (decode) */
    double flops, bytes, floor_ms;
    double recorded_ms; /* duration in the recorded request */
};
/* Times of a stage in the timed repeats, without recording. */
struct analyze_timing {
    const char *stage;  /* name ("sam") or path ("prefill/sam") */
    const char *parent; /* name of the enclosing stage; NULL: top level, or given by the path */
    size_t n;           /* number of repeats */
    const double *ms;   /* [n]; NaN: no time for this repeat */
    const double *tokens_in, *tokens_out; /* [n] each, input and output tokens; NULL: unknown */
    const bool *failed;      /* [n]; NULL: none failed. Failed repeats are counted but not used */
    const uint32_t *input;   /* [n]: number of the repeat's input; NULL: one input */
    uint32_t recorded_input; /* valid only with `input` */
    /* [n] each: model's cost of each repeat; NULL: unknown, `work` is used instead */
    const double *flops, *bytes, *floor_ms;
    /* recorded time / timed time; 0 or NaN: unknown, computed from the trace instead */
    double recording_cost;
    /* NULL: struct analyze_cost is used instead */
    const struct analyze_work *work;
};
/* Tokens of a stage in the recorded run, for traces without token records. */
struct analyze_tokens {
    const char *stage;
    double in, out; /* over all occurrences; NaN: unknown */
};
struct analyze_rule { /* maps ranges to a stage */
    const char *stage, *glob;
};
struct kernel_profile;
struct llm_gpu;
struct llm_model;
struct analyze_input {
    const struct analyze_cost *costs;
    size_t ncosts;
    const struct analyze_timing *timings;
    size_t ntimings;
    const struct analyze_tokens *tokens;
    size_t ntokens;
    const struct analyze_rule *rules; /* tried first; the first match wins */
    size_t nrules;
    /* The trace contains one run of the model. Costs and timings then apply to the sum of a stage's
     * occurrences. */
    bool one_run;
    /* find stages only by `rules` and by ranges that the program marks as stages */
    bool no_presets;
    bool no_steps;                             /* do not look for steps */
    double peak_flops_per_s, peak_bytes_per_s; /* per device; NaN or 0: unknown */
    double read_bytes_per_s;                   /* measured by `calibrate`; NaN or 0: unknown */
    const char *peak_source;                   /* such as "datasheet of H200 SXM, dense bf16" */
    /* row of the table of GPUs; NULL: unknown */
    const struct llm_gpu *gpu;
    const char *model; /* for texts; NULL: unknown */
    /* If set, costs computed from this model and the trace's token counts replace `costs` and the work of
     * `timings`. analysis.no_model_costs is set if they cannot be computed. */
    const struct llm_model *llm;
    /* Where `llm` comes from if the program's own files describe it: "/models/a.gguf, mapped". The
     * model is then used only if the trace agrees with it. NULL: the user gave it. */
    const char *llm_from;
    /* Degrees of tensor, pipeline, expert and data parallelism with which GPUs share `llm` (llm/shard.h). 0:
     * not given. */
    uint64_t tp, pp, ep, dp;
    const struct kernel_profile *profiles; /* see kernel_profile.h */
    size_t nprofiles;
    /* `failure`: first error message; NULL: no request failed */
    size_t nfailed, nrequests;
    const char *failure;
    /* why the machine was busy while the stages were timed, which makes findings less certain; NULL: not
     * busy */
    const char *busy;
    const struct recognised_phases *phases; /* of analyze_steady_window(); NULL: none */
    /* Compute only stages, occurrences, devices, kernels, tokens and power. Used for the digest of a rank
     * (src/ranks). */
    bool brief;
    bool totals; /* Also fill analysis.totals. Costs about 40 ns per kernel; reports do not need it. */
};

/* ---- Results. */

/* Explains ratios beyond their limit: a distance under 1, or MFU, MBU or a share of a roof over 100%. Both
 * texts are NULL if all ratios are within their limits. */
struct analysis_over {
    const char *brief; /* short form for charts: "data in the L2 cache" */
    const char *text;  /* such as "MBU 203.0%: the bandwidth is that of reading DRAM, ..." */
};

/* Why a device had no work:
 *     LAUNCH      the launch queue was empty while the host was still launching
 *     SYNC        the host was in a synchronisation, or in another call that launches nothing
 *     DEPENDENCY  work was queued, but it waited for another stream
 *     DEVICE      work was queued on the same stream: kernel-to-kernel latency
 *     NO_WORK     the host was busy elsewhere (no launch for a while)
 *     UNKNOWN     the launch of the work is unknown, or the device is the CPU */
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
    uint64_t gaps;       /* periods without work */
    struct stats gap_ns; /* all but count, sum and mean use at most 65,536 evenly chosen gaps */
    /* idle time that a CUDA graph could remove: launch gaps and kernel-to-kernel latency before kernels
     * that no graph launched */
    double graph_removable_ns;
    double queue_depth_mean; /* mean depth of the launch queue (queue.c); NaN: no launches */
    /* share of launches whose first kernel starts with an empty queue; NaN: no launches */
    double queue_empty_share;
    /* median time from the end of the launch call to the start of the kernel, including the wait for earlier
     * work in the queue; NaN: unknown */
    double launch_delay_ns;
    double launch_cost_ns; /* median duration; NaN: unknown */
    /* median time between the starts of launch calls of a thread; NaN: unknown */
    double launch_interval_ns;
};

/* If a larger share of a stage's time is outside of capture windows, the stage counts as partly recorded. */
#define MISSED_LIMIT 0.001
#define AT_ONCE_LEAST 1.05 /* more steps than this are open at once if the steps of a stage overlap */
/* If a larger share of launches has no kernel, kernels are missing: idle time and busy share are unknown. */
#define UNMATCHED_LIMIT 0.05

/* The part of one device's timeline that belongs to a stage (docs/analysis.md). */
struct analysis_stage_device {
    double busy_ns, idle_ns; /* includes sub-stages */
    double copy_alone_ns;    /* busy time with only copies */
    /* the parts of copy_alone_ns with copies from or to the host, and on the device */
    double host_copy_alone_ns, device_copy_alone_ns;
    double exposed_ns; /* busy time with only communication kernels */
    double cause_ns[ANALYSIS_IDLE_CAUSES], graph_removable_ns;
    uint64_t kernels, copies;
    uint64_t host_copies; /* the part of `copies` from or to the host */
    uint64_t steps;       /* occurrences of the stage that count on the device (step_devices.h) */
    /* any_open_ns: time in which any of their ranges is open. open_ns: the number of open ranges of this and
     * other stages of its depth that have work on the device, integrated over that time */
    double open_ns, any_open_ns;
};

/* A stage in the trace, in the timed repeats and by the model. Sums are over all occurrences in the trace. */
struct analysis_stage {
    const char *name;        /* "sam"; "between steps"; "whole trace" */
    const char *path;        /* "prefill/sam" */
    const char *parent_name; /* NULL: top level */
    uint32_t parent;         /* ANALYSIS_NONE: top level */
    uint32_t depth;
    bool implicit; /* this row is the whole trace */
    /* the row "between steps": work that no stage launched, and idle time outside of stages */
    bool outside;
    bool warm_up; /* recognised warm-up steps: no findings */
    bool on_cpu;  /* ran on the native engine's CPU */
    bool joined;  /* its kernels were recorded up to the start of the next one: busy and idle are unknown */

    /* ---- from the trace */
    uint64_t occurrences; /* 0: only timed */
    /* Occurrences that ended before the recording did. Means and tokens are over these. Equals `occurrences`
     * if recording ended in all of them, with one_run, and for recognised steps. */
    uint64_t finished;
    /* Why the trace does not give the stage's time and work (contained.c); NULL: it does. If it does not,
     * kernels, copies, copied_bytes and the owned times are those of the moments in which its ranges are
     * open. */
    const char *time_refused;
    /* Statistics over occurrences. wall_ns: analysis_occurrence_time(). busy_ns: mean over the devices with
     * work. */
    struct stats wall_ns, busy_ns;
    /* host_each_ns: duration of the range. queue_ns: time from the launch call of the first kernel to its
     * start. span_ns: time from the start of the first kernel to the end of the last. */
    struct stats host_each_ns, queue_ns, span_ns;
    double host_ns;                                          /* sum of range durations */
    double wall_total_ns;                                    /* sum of the times of all occurrences */
    double gpu_busy_ns, idle_ns, copy_alone_ns, gpu_span_ns; /* sums over occurrences and over `devices` */
    /* includes sub-stages; the rows without parent add up to the busy time */
    double gpu_owned_ns;
    double gpu_owned_self_ns; /* excludes sub-stages; all rows add up to the busy time */
    /* number of devices that run its kernels, or its copies if it has no kernels; at least 1 */
    uint32_t devices;
    /* mean number of ranges of stages of its depth that are open at once on a device, while any of its own
     * is; NaN: unknown, or no range */
    double at_once;
    double device_steps; /* sum of analysis_stage_device.steps over these devices; at least 1 */
    uint64_t kernels, launches, graph_launches, copies, syncs;
    double copied_bytes, htod_bytes, dtoh_bytes, copy_ns, sync_ns;
    double category_ns[KERNEL_CATEGORY_END]; /* owned time, includes sub-stages */
    double missed;                           /* share outside of capture windows, 0..1 */
    bool idle_known;                         /* false: see idle_refused */
    const char *idle_refused;                /* NULL: idle_known is true */
    struct analysis_idle idle;

    /* ---- tokens, timed repeats and requests */
    /* "token records", "range labels", "recognised steps", "engine's answer", "timing phase"; NULL:
     * unknown */
    const char *token_source;
    /* time per token in the trace: the time between two tokens, or the duration of a step */
    struct stats token_ns;
    const struct analyze_timing *timing; /* NULL: not timed */
    /* Steps of a recognised stage whose kernels were not recorded, used like timed repeats (unrecorded.c).
     * NULL: none. left_out: further steps, with other work or a pause. */
    const struct analyze_timing *unrecorded;
    size_t left_out_steps;
    double left_out_ns;
    double watched_ms; /* mean over recorded and unrecorded steps, with the detach */
    /* Why the time is that of recorded steps of CUDA graphs, which take longer than other steps. NULL: it is
     * not. */
    const char *recorded_only;
    /* Over the repeats that have a time and did not fail; n == 0: none. The cv is computed within each
     * input. */
    struct stats timing_ms;
    /* "median of 10 timed repeats", "mean of 3 occurrences in the trace"; NULL: no time */
    const char *time_source;
    /* 1 with one_run, else the number of occurrences, at least 1. An occurrence in which recording ended
     * counts as the fraction (its time / mean time of the finished ones). */
    double requests;
    /* Divide sums over devices and occurrences by this number to get the value per request and device. */
    double device_requests;
    const struct counter_means *counters; /* NULL: no samples */
    /* as in struct analyze_cost */
    const char *level;
    bool experts_assumed; /* as in struct analyze_cost */
    struct analysis_over over;

    /* ---- Figures, all double. They extend to the end of the struct and are NaN until a pass sets them. */
    double tokens_in, tokens_out; /* of the recorded run */
    double kernels_per_token;
    /* NaN on a CPU, and for stages that read more tokens than they generate: prefill launches its kernels
     * once for all tokens */
    double launches_per_token;
    double kernel_mean_ns; /* mean duration of its kernels */

    /* median over the repeats with the recorded input; over all repeats if no repeat has that input */
    double same_input_ms;
    double same_input_floor_ms;
    double overhead_ratio; /* time in the trace / same_input_ms */
    /* Slowdown by recording: timing->recording_cost, else timing->work->recorded_ms / same_input_ms, else
     * overhead_ratio. */
    double recording_cost;

    /* Up to hard_bound_ms: per request if the input has `one_run`, else per occurrence. */
    double time_ms; /* median of the timed repeats, else the mean in the trace */
    /* busy_share: mean over the devices. With timed repeats of one_run on a GPU: recorded busy time /
     * same_input_ms; else the share in the recorded run. busy_ms: busy_share * time_ms. The busy time of the
     * recorded run is gpu_busy_ns / device_requests. */
    double busy_ms, busy_share;
    double kernels_each; /* number of kernels */
    /* tokens read or generated: median of the timed repeats, else the mean per occurrence */
    double tokens;
    /* tokens / time_ms in seconds; the tokens read or generated, whichever are more. With token counts of
     * timed repeats: the inverse of their median time per token. */
    double tokens_per_s;
    double flops, bytes, floor_ms; /* cost by the model (per_token costs are multiplied by the token count) */
    /* the larger of two times: all FLOPs at the peak, all bytes at the bandwidth */
    double hard_bound_ms;
    /* peaks that apply to the stage: the peaks of its cost, else of the device */
    double peak_flops_per_s, peak_bytes_per_s;
    double step_bytes;   /* as in struct analyze_cost */
    double experts_read; /* as in struct analyze_cost */
    /* mfu and mbu are fractions; distance is time / roofline time. If the stage was timed and each repeat has
     * the cost of its own input, they are medians over the repeats; else they are computed from time_ms. */
    double mfu, mbu, distance;
    double mbu_read; /* mbu with the bandwidth that `calibrate` measured */
    /* MFU and MBU of the recorded request, comparable with counters */
    double recorded_mfu, recorded_mbu;

    /* ratios.c. Per request, and per device if they are times of devices. */
    double idle_share;       /* 1 - busy_share */
    double recorded_busy_ms; /* of the recorded run; without timed repeats, this is busy_ms */
    double recorded_ms;      /* time of the recorded run */
    double idle_ms;          /* of the recorded run, and by cause: */
    double idle_cause_ms[ANALYSIS_IDLE_CAUSES];
    double removable_ms, removable_share; /* idle.graph_removable_ns; the share is of busy and idle time */
    /* Standard deviation of repeats of the same input: inputs with different work do not increase it. */
    double spread_ms;
    double total_ms; /* of all timed repeats */

    /* power.c. Energy of the recorded run, over all occurrences and all GPUs on which the stage has kernels.
     * Occurrences that overlap share the energy evenly. Other work of these GPUs at the same time is
     * included. The tokens are those read or generated, whichever are more. */
    double joules, joules_per_token, tokens_per_joule, watts;
};

struct analysis_occurrence { /* sorted by start */
    /* parent: index of the enclosing occurrence; range: TIMELINE_NONE for the implicit stage and for
     * recognised steps */
    uint32_t stage, range, parent;
    uint32_t thread, process;  /* rows of the timeline; TIMELINE_NONE: unknown */
    uint32_t device;           /* of a recognised step; TIMELINE_NONE: any */
    uint64_t start_ns, end_ns; /* bounds of the range, of the recognised step, or of the trace */
    uint64_t wall_end_ns;      /* end_ns or the end of its last kernel, whichever is later */
    /* start of its first and end of its last kernel; first == 0: no kernel */
    uint64_t gpu_first_ns, gpu_last_ns;
    uint64_t gpu_launched_ns;   /* 0: unknown */
    double busy_ns, idle_ns;    /* mean over its devices */
    double copy_ns, exposed_ns; /* the parts of busy_ns with copies alone, and with exposed communication */
    uint32_t kernels;
    uint32_t launches; /* launches of kernels and graphs */
    /* Recording ended during this occurrence: its range was open, or some of its kernels had not run. It
     * is not used for figures per token. */
    bool unfinished;
    bool mirrored;        /* the trace has its copy on the GPU, which contains its kernels (mirrors.c) */
    uint64_t device_bits; /* bit d: kernels on device d, up to 63 */
    /* number of devices on which it has work; 0: its time is the duration of its range, unless it has idle
     * time */
    uint32_t devices;
    double tokens_in, tokens_out; /* NaN: unknown */
    double keys;                  /* keys that its sequences attend to, from the label; NaN: unknown */
    const char *doubt;            /* of a recognised step; NULL: certain */
};

/* One row per name and category, in operators_by_shape also per detail (shapes). Sorted by gpu_self_ns, then
 * self_ns */
struct analysis_operator {
    const char *name;
    const char *detail; /* NULL in `operators` */
    enum trace_range_category category;
    bool outside; /* kernels launched outside of operators */
    uint64_t calls, kernels;
    /* Time on the host. total_ns counts the time of recursive calls once; mean_ns is the mean duration over
     * all calls. */
    double total_ns, self_ns, mean_ns;
    /* GPU time owned by kernels that this operator or its children launched */
    double gpu_ns;
    /* GPU time owned by kernels that this operator launched itself; all rows add up to the busy time */
    double gpu_self_ns;
    /* time of the calls whose FLOPs or bytes are known: on the GPU if there are kernels, else on the host.
     * 0, and flops and bytes unknown, if this is less than 90% of the time of all calls */
    double work_ns;
    const char *work_source; /* source of FLOPs and bytes: "engine", "operator shapes"; NULL: unknown */
    uint32_t stage;          /* main stage; ANALYSIS_NONE: none, or unknown */
    /* Figures, all double. They extend to the end of the struct and are NaN until a pass sets them. */
    double flops, bytes; /* sums over the calls in which they are known */
    double compute_ns;   /* time that these FLOPs take, each call at the peak of its type */
    double flop_per_s, byte_per_s;
    double device_share; /* gpu_self_ns / busy time */
};

enum analysis_limiter { /* what limits the theoretical occupancy */
                        ANALYSIS_LIMIT_UNKNOWN,
                        ANALYSIS_LIMIT_WARPS,
                        ANALYSIS_LIMIT_BLOCKS,
                        ANALYSIS_LIMIT_REGISTERS,
                        ANALYSIS_LIMIT_SMEM
};
/* A class of kernels: same name, grid, block, registers, shared memory, device. Sorted by owned_ns */
struct analysis_kernel {
    uint32_t shape;   /* row of timeline.shapes */
    const char *name; /* demangled */
    const char *short_name;
    enum kernel_library library;
    enum kernel_category category;
    bool whole_graph; /* a CUDA graph recorded as one kernel */
    uint64_t calls;
    double total_ns, owned_ns, share; /* share of busy time, 0..1 */
    double mean_ns, min_ns, p50_ns, max_ns;
    double p99_ns;    /* NaN: fewer than STATS_P99_LEAST calls */
    double occupancy; /* theoretical occupancy, 0..1; NaN: unknown */
    enum analysis_limiter limiter;
    double waves;            /* blocks / blocks that the device can run at once; NaN: unknown */
    uint64_t blocks;         /* blocks of the grid; 0: unknown */
    uint32_t stage;          /* main stage; ANALYSIS_NONE: none, or unknown */
    const char *work_source; /* source of FLOPs and bytes: "gemm records", "operator shapes"; NULL: unknown */
    /* Figures, all double. They extend to the end of the struct and are NaN until a pass sets them. */
    double flops, bytes; /* per call */
    double work_ns;      /* mean duration of calls with FLOPs */
    double compute_ns;   /* time of the FLOPs of one call at the peak of its type */
    double flop_per_s, byte_per_s;
};
/* Matrix products of the same sizes, types, algorithm and stage. Sorted by total_ns */
struct analysis_gemm {
    uint64_t m, n, k, batch;
    const char *types;     /* "bf16,bf16->bf16 compute f32", "bf16,bf16"; NULL: not recorded */
    const char *algorithm; /* as logged, else the kernel's short name; NULL: unknown */
    const char *source;    /* source of the sizes: "gemm records", "operator shapes", "engine" */
    uint32_t stage;        /* ANALYSIS_NONE: outside of stages */
    uint64_t calls;
    double total_ns; /* time of their kernels; on a CPU: time of the operators */
    double owned_ns; /* the same, but kernels that run at the same time share it */
    double flops;    /* of all calls */
    /* time that the FLOPs of all calls take at the peak of their type; NaN: the peak is unknown */
    double compute_ns;
    double mean_ns, flop_per_s;
    double share;      /* owned_ns / busy time */
    double peak_share; /* flop_per_s / peak of their type; NaN: the peak is unknown */
};
struct analysis_group { /* kernels of a category or a library; sorted by owned_ns */
    int id;             /* enum kernel_category or enum kernel_library */
    const char *name;
    uint64_t calls, classes;
    double owned_ns, share;
};
struct analysis_device {
    uint32_t device;
    uint32_t process; /* first process with work on the device; ANALYSIS_NONE: none */
    uint64_t kernels;
    /* From the first to the last record of the processes with work on the device. Equals the sum of the
     * top-level stages, the row between steps and the unrecorded time. 0: no work */
    double timeline_ns;
    double work_ns; /* union of its kernels, copies and memsets */
    /* idle time outside of capture windows, and waits of launched work longer than unrecorded_limit_ns */
    double unrecorded_ns;
    /* unrecorded_limit_ns: a longer wait after the launch call counts as unrecorded time. It is derived from
     * launch_delay_ns, the median launch delay (NaN: no kernel was launched while the device was idle). */
    double unrecorded_limit_ns, launch_delay_ns;
    /* busy_ns: union of the kernels. span_ns: from the first start to the last end of a kernel. copy_ns:
     * union of the copies. */
    double busy_ns, span_ns, copy_ns;
    /* Union of communication kernels, and the part of it that overlaps other kernels. */
    double communication_ns, communication_hidden_ns;
    double communication_exposed_ns;             /* the part that does not */
    double communication_overlap, exposed_share; /* hidden / communication, exposed / busy_ns */
};
/* A part of the timeline of a device: a top-level stage, the time between steps, or unrecorded time. */
struct analysis_part {
    uint32_t device;
    const char *name;
    uint64_t steps; /* 0: the part has no steps */
    double time_ns, busy_ns;
    double share, busy_share; /* time_ns / timeline of the device, busy_ns / time_ns */
};

/* Unrecorded time of all devices. */
struct analysis_unrecorded {
    size_t devices;                       /* number of devices with unrecorded time */
    double ns;                            /* sum over these devices */
    double least_limit_ns, most_limit_ns; /* smallest and largest unrecorded_limit_ns of these devices */
};

struct analysis_point { /* a point of the roofline */
    const char *label;
    uint32_t stage, kernel; /* row of the stage or of the kernel; else ANALYSIS_NONE */
    double flops, bytes, time_ns;
    double intensity; /* FLOP per byte */
    double flop_per_s, byte_per_s;
    double roof_flop_per_s; /* roof at this intensity */
    double attained;        /* flop_per_s / roof; without FLOPs: byte_per_s / bandwidth */
    bool memory_bound;      /* true: left of the ridge */
    /* source of FLOPs and bytes: "model", "engine", "gemm records", "operator shapes", "counters" */
    const char *source;
    double peak_flop_per_s;
    struct analysis_over over;
};

struct analysis_power_point {
    uint64_t time_ns;
    float watts, sm_mhz, memory_mhz, temperature_c; /* NaN: unknown */
    /* bits as defined by NVML, from all samples merged into this point */
    uint64_t throttle_reasons;
};
struct analysis_power { /* one per device */
    uint32_t device;
    struct analysis_power_point *series; /* at most 2,000 points */
    size_t n;
    double joules, watts_mean, watts_max, sm_mhz_max, sm_mhz_busy_mean;
    double covered_ns; /* from the first to the last sample */
    /* Time with reduced clocks (power, thermal or hardware limits) while the device was busy. Idle and
     * application clocks do not count. */
    double throttled_ns;
    const char *throttled_by; /* "power cap, thermal slowdown"; NULL: not throttled */
    double idle_joules;       /* while no kernel ran */
};

/* A call path: a range, a Python frame or a kernel below its caller. Row 0 is the root. Callers come before
 * the rows they call. */
struct analysis_call {
    const char *name;
    uint32_t parent, depth; /* 0 for the root */
    bool kernel;
    uint64_t calls;
    /* Time of this row without the rows below it. host_ns of a kernel is 0. device_ns of other rows is 0
     * unless the tree reached its maximum size or depth. */
    double host_ns, device_ns;
    double host_total_ns, device_total_ns; /* including the rows below */
};

/* Memory at one moment. */
struct analysis_memory_point {
    uint64_t time_ns;
    double total; /* bytes */
    double bytes[TRACE_MEMORY_KIND_END];
};
struct analysis_memory { /* one per device, and one for the host */
    uint32_t device;     /* ANALYSIS_NONE: host memory */
    size_t records;
    const struct analysis_memory_point *series; /* at most 2,000 points */
    size_t n;
    struct analysis_memory_point peak;
    /* [nstages]: the peak while the stage was open; total NaN: no record before its end */
    struct analysis_memory_point *stages;
};

struct analysis_stability {
    const char *stage;
    struct stats ms;
    size_t failed;
    double cv; /* spread within each input; NaN: no input was repeated */
    /* change along the fitted line from the first to the last repeat, as a percentage of the mean; NaN: too
     * few repeats (fewer than 4 with one input) */
    double drift_percent;
    bool drift_shown; /* 95% interval of the slope excludes 0 */
    size_t outliers;  /* repeats far from their input's median */
    bool unstable;    /* CV over 5% */
};

enum analysis_confidence { ANALYSIS_LOW, ANALYSIS_MEDIUM, ANALYSIS_HIGH };
const char *analysis_confidence_name(enum analysis_confidence c);
/* Sorted: failed requests first, then by saving_ms, largest first; informative findings (NaN) last. */
struct analysis_finding {
    const char *rule;     /* "launch-bound": a stable id for scripts */
    const char *title;    /* "Decode is launch-bound: the GPU waits 451 ms of 630 ms" */
    const char *evidence; /* the numbers */
    const char *advice;   /* recommendation */
    uint32_t stage;       /* row of the stage; ANALYSIS_NONE: the whole run */
    /* Upper bound of the saving per request, or in the whole run if `stage` is ANALYSIS_NONE; NaN:
     * informative only. */
    double saving_ms;
    double saving_percent;  /* of the time of the stage or run, and outside_ms */
    double outside_ms;      /* idle time between steps, if it can be saved too; else 0 */
    double total_saving_ms; /* over all occurrences of the stage; orders the findings */
    enum analysis_confidence confidence;
};

enum analysis_severity { ANALYSIS_INFO, ANALYSIS_WARNING };
struct analysis_note { /* how a number was determined, or which data is missing */
    enum analysis_severity severity;
    const char *text;
};

struct analysis_step_kind { /* recognised steps of one kind */
    enum step_kind kind;
    const char *name;
    uint64_t steps, certain;
    struct stats ns, tokens, requests; /* per step */
    double slow_ns;                    /* p99; few steps: the maximum */
    /* tokens generated (decode) or read, per second of these steps; NaN: the labels have other tokens
     * or kinds, so that the labelled stages have another rate */
    double tokens_per_s;
    const char *labelled; /* "mixed": other kinds that the labels name; NULL: none */
    uint64_t stage_times; /* number of steps whose time is that of their labelled stage */
    size_t worst;         /* index into recognition.steps */
    double worst_ns;
    const char *worst_why; /* NULL: no visible difference */
    /* The times above are those of recorded steps. Unrecorded steps, if there are any (n > 0), are faster. */
    struct stats unrecorded_ns;
    double unrecorded_tokens_per_s;
    const char *recorded_only; /* see analysis_stage */
};

struct analysis_graph { /* a CUDA graph; listed only if the trace has replays without recorded kernels */
    uint32_t process, graph;
    uint64_t recorded; /* replays with recorded kernels */
    uint64_t counted;  /* replays without recorded kernels */
    double period_ns;  /* median time from one replay without kernels to the next; NaN: unknown */
};

struct analysis_conservation { /* ns */
    /* sum over devices of the union of their kernels */
    double busy;
    /* busy time minus the sum of the owned times */
    double kernel_residual, stage_residual, operator_residual;
    /* GPU time owned by work outside of stages, and outside of operators */
    double outside_stages, outside_operators;
    double unmatched; /* GPU time owned by kernels without launch and range, in files that contain launches */
    uint64_t unmatched_kernels;
};

struct analysis_counters; /* counters.h */
struct analysis_profiles; /* kernel_profile.h */
struct analysis_totals;   /* totals.h */

struct analysis {
    const struct timeline *timeline;   /* NULL: no trace, only timed stages */
    const struct analyze_input *input; /* NULL: none */
    double wall_ns;                    /* time from the first to the last record */
    double lost_share;                 /* lost kernel records, 0..1 */
    double missed;                     /* share outside of capture windows, 0..1 */
    uint64_t kernels_total, launches_total;
    double peak_flops_per_s, peak_bytes_per_s; /* NaN: unknown */
    const char *peak_source;                   /* NULL: unknown */
    /* mean MFU of the stages without parent, weighted by time; NaN: unknown */
    double model_mfu;
    /* mean MBU of the timed stages without parent, weighted by time; NaN: unknown */
    double model_mbu;
    struct analysis_over model_over;
    bool cpu_only; /* no kernel ran on a GPU */
    /* given in the input, or computed from its model */
    const struct analyze_cost *costs;
    size_t ncosts;
    bool costs_replaced; /* input.llm replaced the input's costs */
    const char *model;   /* name of the model; NULL: unknown */
    /* why no costs could be computed from the input's `llm`; NULL: computed, or no `llm` */
    const char *no_model_costs;

    /* Parents before their children, in order of first occurrence; the row between steps is last. */
    struct analysis_stage *stages;
    struct analysis_occurrence *occurrences;
    struct analysis_operator *operators, *operators_by_shape;
    struct analysis_kernel *kernels;
    struct analysis_gemm *gemms; /* calls with recorded sizes */
    struct analysis_group *categories, *libraries;
    struct analysis_device *devices;             /* same order as timeline.devices */
    struct analysis_stage_device *stage_devices; /* [nstages x ndevices] */
    struct analysis_part *parts;                 /* by device */
    struct analysis_unrecorded unrecorded;
    struct analysis_point *roofline;
    struct analysis_power *powers;
    struct analysis_memory *memories;
    struct analysis_call *calls;
    bool calls_have_frames; /* operators have recorded Python frames */
    struct analysis_stability *stability;
    struct analysis_finding *findings;
    struct analysis_note *notes;
    size_t nstages, noccurrences, noperators, noperators_by_shape, nkernels, ngemms, nmemories, ncalls,
        ncategories, nlibraries, ndevices, nparts, nroofline, npowers, nstability, nfindings, nnotes;
    struct analysis_conservation conservation;
    struct analysis_graph *graphs; /* empty if the kernels of all replays were recorded */
    size_t ngraphs;
    /* Steps found without annotations. They are the stages if `recognised`; else they are only compared
     * with the labels. */
    struct recognition recognition;
    bool recognised;
    struct analysis_step_kind *step_kinds;
    size_t nstep_kinds;
    /* anatomy of a decode step; NULL: no decode step with attention was recognised */
    struct anatomy *anatomy;
    struct recognised_phases phases;    /* copy of input.phases; all 0: not given */
    struct analysis_counters *counters; /* hardware counters per stage and kernel; NULL: no samples */
    struct analysis_profiles *profiles; /* Nsight Compute's measurements per kernel; NULL: none */
    struct analysis_totals *totals;     /* plain sums for `inferprof stats`; NULL: not requested */

    const uint32_t *kernel_occurrence; /* [timeline.kernels.n]: innermost occurrence; ANALYSIS_NONE: none */
    const uint32_t *shape_kernel;      /* [timeline.nshapes]: row of `kernels` */
    /* [timeline.ranges.n]: the innermost occurrence that contains the range or is the range */
    const uint32_t *range_occurrence;
    void *owner; /* private */
};

/* Returns true if the occurrence counts in the means and tokens of its stage. */
static inline bool analysis_counts(const struct analysis *a, const struct analysis_occurrence *o) {
    return !o->unfinished || a->stages[o->stage].finished == a->stages[o->stage].occurrences;
}

/* Time of an occurrence in ns: busy plus idle time; without either, the duration of the range. NaN: the stage
 * has time_refused. */
static inline double analysis_occurrence_time(const struct analysis_occurrence *o) {
    return o->devices || o->idle_ns > 0 ? o->busy_ns + o->idle_ns : (double)(o->end_ns - o->start_ns);
}

static inline const struct analysis_stage_device *analysis_stage_on(const struct analysis *a, size_t stage,
                                                                    size_t device) {
    return &a->stage_devices[stage * a->ndevices + device];
}

/* Returns the number of tokens that the stage processes: tokens read if it reads more than it generates
 * (prefill), else tokens generated. */
static inline double analysis_stage_tokens(const struct analysis_stage *s) {
    return s->tokens_in > s->tokens_out || s->tokens_out != s->tokens_out ? s->tokens_in : s->tokens_out;
}

/* Returns true if several steps are open at once on a device, so that the time of a step, which comes from
 * the trace, is only its part of the device's time. */
static inline bool analysis_runs_at_once(const struct analysis_stage *s) {
    return !s->timing_ms.n && s->at_once > AT_ONCE_LEAST;
}

/* Returns true if the distance, which is a median over the repeats, is not the ratio of the median time and
 * the median roofline time: the inputs of the repeats differ in size. */
static inline bool analysis_inputs_differ(const struct analysis_stage *s) {
    double ratio = s->time_ms / s->floor_ms / s->distance;
    return ratio < 0.98 || ratio > 1.02;
}

void analyze_run(const struct timeline *tl, const struct analyze_input *input, struct analysis *a);
void analysis_free(struct analysis *a); /* also accepts a zeroed struct; `a` may be reused afterwards */

/* Means over the devices that ran kernels; NaN: no device ran kernels. */
struct analysis_timeline {
    size_t devices;
    double timeline_ns, between_ns, between_busy_ns, unrecorded_ns;
};
struct analysis_timeline analysis_timeline(const struct analysis *a);

/* Computes the window from the start of the first stage to the end of the last stage, or to the end of the
 * last kernel of a stage if that is later. Returns false if the trace marks no stage or all kernels belong to
 * stages. Called before the analysis, for timeline_cut(). */
bool analyze_request_window(const struct timeline *tl, const struct analyze_input *input, uint64_t *from_ns,
                            uint64_t *to_ns);

/* Finds the steady work of a program that marks no stages, and the phases around it. Returns false if the
 * trace marks stages or no steps were recognised. Called before the analysis, for timeline_cut(); `phases` is
 * an input of the analysis. */
bool analyze_steady_window(const struct timeline *tl, const struct analyze_input *input,
                           struct recognised_phases *phases);

/* A representative window for drawing: the occurrence of the stage with the wall time closest to the
 * median, cut to at most max_kernels kernels. Returns false if the stage has no occurrence. */
bool analysis_window(const struct analysis *a, uint32_t stage, size_t max_kernels, uint64_t *start_ns,
                     uint64_t *end_ns);

#endif
