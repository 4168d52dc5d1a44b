/* Internal to analyze/: the working state of one analysis. */
#ifndef ANALYZE_INTERNAL_H
#define ANALYZE_INTERNAL_H

#include <math.h>
#include <stddef.h>

#include "analyze/analyze.h"
#include "analyze/stream_stats.h"
#include "base/intern.h"
#include "llm/dtype.h"

struct range_sums;
struct memory { /* freed with the analysis */
    void **v;
    size_t n, cap;
};

/* Working data per stage. */
struct stage_scratch {
    struct stream_stats gaps, launch_delay, launch_cost, launch_interval;
    double queue_depth_sum;
    uint64_t queue_seen, queue_empty;
    double kernel_sum_ns; /* sum of durations, not of owned time */
    /* graph_nodes: kernels of graphs that were recorded kernel by kernel */
    uint64_t unmatched_launches, graph_nodes;
    double tokens_out_each; /* tokens generated per request; NaN: unknown */
};
struct quiet_period { /* a device had no work, and the host launched nothing */
    uint64_t from_ns, to_ns;
    uint32_t thread, occurrence; /* occurrence ANALYSIS_NONE: outside of all stages */
    uint32_t call;               /* text: call of the CUDA API; 0: none */
    uint32_t range;              /* innermost range around it, without steps; TIMELINE_NONE: none */
};
/* Unrecorded time of a device (docs/analysis.md). */
struct unrecorded_period {
    uint32_t device;
    uint64_t from_ns, to_ns;
};
/* A device had no work while no step was open: time of the row between steps. */
struct outside_period {
    uint32_t device, process; /* process: which launched the next work */
    uint64_t from_ns, to_ns;
};
/* An occurrence on the current device. */
struct occurrence_scratch {
    uint64_t first_ns, last_ns; /* start of its first and end of its last kernel */
    uint32_t first_kernel;
    uint32_t device; /* ANALYSIS_NONE: no kernel yet */
};

/* Accumulated energy of a device over time. */
struct power_index {
    uint64_t *time_ns;
    double *joules; /* since the first sample */
    size_t n;
};

struct context {
    const struct timeline *tl;      /* NULL: no trace */
    const struct analyze_input *in; /* never NULL */
    struct analysis *a;
    struct memory *memory;
    struct intern *texts;
    struct stage_scratch *stage_scratch;    /* [nstages] */
    struct occurrence_scratch *occ_scratch; /* [noccurrences] */
    uint32_t *kernel_occurrence, *range_occurrence;
    bool *dropped_range; /* [ranges.n]: of steps in which nothing happened (empty_steps.c); NULL: none */
    uint32_t *launch_occurrence; /* [launches.n] */
    /* [copies.n]: occurrence of each copy, if steps were recognised or a process has no launches; NULL: use
     * launch and range instead */
    uint32_t *copy_occurrence;
    uint64_t captured_launches; /* captured into graphs, not run */
    /* kernels launched by threads without stages and assigned to the stage that is open in their process */
    uint64_t lent_kernels;
    /* kernels without launch that were assigned to a stage by its mirror on the GPU (mirrors.c) */
    uint64_t mirrored_kernels;
    uint8_t *shape_category; /* [nshapes] */
    bool *attends; /* [kernels.n]: it is the softmax of attention in separate kernels; NULL: unknown */
    double *stage_softmax_ns; /* [nstages]: time owned by these kernels, including sub-stages */
    uint32_t outside;         /* index of the outside row in the stage table */
    /* [ranges.n + 1]: GPU time owned by kernels with this innermost range; last element: no range */
    double *range_gpu_ns;
    struct range_sums *range_owned;     /* sums of that time; set by walk.c, finished by operators.c */
    struct range_sums *range_durations; /* sums of the durations of kernels; set by operators.c */
    double *shape_owned_ns;             /* [nshapes] */
    /* [nshapes]: the part of shape_owned_ns in which no other kernel ran on the device */
    double *shape_alone_ns;
    /* [nshapes x nstages]: owned time by innermost stage; NULL: the table would be too large */
    double *shape_stage_ns;
    /* [ranges.n]: GPU time of work launched while the range was open, including nested ranges; of
     * range_owned */
    const double *range_total_ns;
    /* [ranges.n]: sum of the durations of kernels, including nested ranges; of range_durations. Rates use it:
     * in range_total_ns, kernels that run at the same time share the time. */
    const double *range_kernel_ns;
    double *range_flops, *range_bytes; /* [ranges.n]: set by operator_work.c; NaN: unknown */
    /* [ranges.n]: time that the FLOPs take at the peak of their type; NaN: unknown */
    double *range_compute_ns;
    uint8_t *range_counted;    /* [ranges.n]: 1 if FLOPs and bytes come from the operator's shapes */
    uint32_t *previous_launch; /* [launches.n]: previous call of the same thread; TIMELINE_NONE: none */
    /* [nprocesses]: first launch that was still queued when recording ended; TIMELINE_NONE: none */
    uint32_t *queued_launch;
    struct power_index *power; /* [ndevices]; set by power.c */
    struct {
        struct quiet_period *v;
        size_t n, cap;
    } quiet; /* set by stage_time.c, used by host_work.c */
    struct {
        struct unrecorded_period *v;
        size_t n, cap;
    } unrecorded; /* by device, then by time; set by stage_time.c, used by step_kinds.c */
    struct {
        struct outside_period *v;
        size_t n, cap;
    } outside_idle;         /* by device, then by time; set by stage_time.c, used by finding_idle.c */
    double *stage_chain_ns; /* possible saving; see chains.c */
    uint64_t *stage_chain_kernels;
};

/* Sets every double from member `first` to the end of the struct to NaN. */
#define FIGURES_UNKNOWN(row, first)                            \
    do {                                                       \
        size_t from_ = offsetof(__typeof__(*(row)), first);    \
        for (; from_ < sizeof *(row); from_ += sizeof(double)) \
            *(double *)(void *)((char *)(row) + from_) = NAN;  \
    } while (0)

/* analyze.c */
void *analysis_keep(struct context *c, void *block);                  /* freed with the analysis */
void *analysis_alloc(struct context *c, size_t n, size_t elem_bytes); /* zeroed; n + 1 elements */
const char *analysis_text(struct context *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *analysis_count(struct context *c, uint64_t n); /* "1,219" */
void analysis_note(struct context *c, enum analysis_severity severity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The passes. The table in analyze.c lists their order, inputs and outputs. */
void analyze_kernel_names(struct context *c); /* kernels.c */
void analyze_stages(struct context *c);       /* stages.c */
void analyze_calls(struct context *c);        /* calls.c */
/* attention_softmax.c */
void analyze_attention_softmax(struct context *c);
void analyze_devices(struct context *c);          /* walk.c */
void analyze_stage_time(struct context *c);       /* stage_time.c */
void analyze_queue(struct context *c);            /* queue.c */
void analyze_kernels_finish(struct context *c);   /* kernels.c */
void analyze_gemms(struct context *c);            /* gemm.c */
void analyze_operator_work(struct context *c);    /* operator_work.c */
void analyze_operators_finish(struct context *c); /* operators.c */
void analyze_gemm_table(struct context *c);       /* gemm_table.c */
void analyze_chains(struct context *c);           /* chains.c */
void analyze_tokens(struct context *c);           /* tokens.c */
void analyze_stages_finish(struct context *c);    /* stages.c */
void analyze_contained(struct context *c);        /* contained.c */
void analyze_captured(struct context *c);         /* captured.c */
void analyze_replays(struct context *c);          /* replays.c */
void analyze_unrecorded(struct context *c);       /* unrecorded.c */
void analyze_power(struct context *c);            /* power.c */
void analyze_call_tree(struct context *c);        /* call_tree.c */
void analyze_memory(struct context *c);           /* memory.c */
void analyze_provenance(struct context *c);       /* provenance.c */
void analyze_times(struct context *c);            /* utilization.c */
void analyze_busy(struct context *c);             /* utilization.c */
void analyze_costs(struct context *c);            /* model_costs.c */
void analyze_utilization(struct context *c);      /* utilization.c */
void analyze_stability(struct context *c);        /* stability.c */
void analyze_counters(struct context *c);         /* counters.c */
void analyze_profiles(struct context *c);         /* kernel_profile.c */
void analyze_ratios(struct context *c);           /* ratios.c */
void analyze_step_kinds(struct context *c);       /* step_kinds.c */
void analyze_anatomy(struct context *c);          /* anatomy.c */
void analyze_roofline(struct context *c);         /* roofline.c */
void analyze_over_peak(struct context *c);        /* over_peak.c */
void analyze_findings(struct context *c);         /* findings.c */

/* stages.c: returns the occurrence of the recognised step that is open in the process at that time;
 * ANALYSIS_NONE: none. */
uint32_t analysis_step_at(const struct context *c, uint32_t process, uint64_t time_ns);
/* Returns true if `text` is the name or the path of the stage. */
bool analysis_names_stage(const char *text, const struct analysis_stage *s);
bool analysis_timing_is_of(const struct analyze_timing *t, const struct analysis_stage *s);
/* stability.c: returns the coefficient of variation over repeats of the same input; NaN: no input was
 * repeated */
double analysis_timing_cv(struct context *c, const struct analyze_timing *t);

/* idle.c: classifies why a device waited. One walk per device. */
struct idle_walk;
#define IDLE_PARTS 3
/* A longer time without calls means no work: a host that launches needs 2 to 50 us per call. Shorter periods
 * are not named by host_work.c. */
#define IDLE_QUIET_NS 200000
struct idle_verdict {
    struct idle_part {
        enum analysis_idle_cause cause;
        uint64_t until_ns;
    } parts[IDLE_PARTS]; /* consecutive; the last one ends at UINT64_MAX */
    uint32_t call;       /* text: the call that the host was in during the part without work; 0: none */
    /* launched as a kernel, not as a graph: a CUDA graph would remove launch gaps and latency before this
     * work */
    bool graph_removes;
};
struct idle_walk *idle_open(const struct context *c, uint32_t device);
/* Returns true if the launching thread waited for a stream or the device, up to a time between `since` and
 * the launch. */
bool idle_synchronised(const struct idle_walk *w, uint32_t launch, uint64_t since);
/* Classifies a gap: the device had no work in [from, to), then the work of `launch` (TIMELINE_NONE:
 * unknown) began. same_lane: that work runs on the stream whose work ended last. */
struct idle_verdict idle_classify(struct idle_walk *w, uint64_t from_ns, uint64_t to_ns, uint32_t launch,
                                  bool same_lane);
/* Marks the launch as started. Call this after the gap before its work was classified. */
void idle_started(struct idle_walk *w, uint32_t launch);
void idle_close(struct idle_walk *w);

/* host_work.c: adds a period in which a device had no work because the host launched nothing. */
void host_work_add(struct context *c, const struct quiet_period *period);
/* Sets `range` of all periods; call it after the last one was added. */
void host_work_find_ranges(struct context *c);
/* The call or the range of the program in which the host spent most of these periods of a stage. */
struct host_work {
    const char *name; /* NULL: unknown */
    double ns;        /* sum of the periods that this name covers for the most part */
    bool is_call;     /* a call of the CUDA API */
    bool loads_data;  /* the range is a data loader, or inside one */
};
struct host_work host_work_longest(struct context *c, uint32_t stage);

/* stream_capture.c: returns one flag per launch: true if it was captured into a graph and did not run. The
 * caller frees the flags. */
bool *stream_captures(const struct timeline *tl);
/* provenance.c: true if no kernel ran while the stage was open, and no launches were recorded that tell which
 * kernels are its own. */
bool analysis_has_unknown_kernels(const struct context *c, const struct analysis_stage *s);

/* gemm.c: returns [launches.n]: the GEMM record of each launch; TIMELINE_NONE: none. The caller frees it. */
uint32_t *gemm_of_launch(const struct context *c);
/* Returns the time in ns that the record's FLOPs take at the peak of its type; NaN: the peak is unknown. */
double gemm_compute_ns(const struct context *c, const struct trace_gemm *g, const char *kernel_name);
double gemm_flops(const struct trace_gemm *g);

/* captured.c: returns true if kernels launched at that time were recorded. */
bool captured_at(const struct timeline *tl, uint32_t process, uint64_t time_ns);
/* Does the same as captured_at(). The result is valid until *until_ns. */
bool captured_until(const struct timeline *tl, uint32_t process, uint64_t time_ns, uint64_t *until_ns);
/* Returns true if an imported file ended early or was damaged. The missing events can be of any time. */
bool analysis_is_truncated(const struct context *c);

/* model_costs.c: model_peak() returns the peaks of the model's own types, recognised_context() the context
 * of a decode step (NaN: unknown). */
struct llm_peak model_peak(const struct context *c, const struct llm_model *m);
double recognised_context(const struct analysis *a, const struct recognised_step *s);

/* type_peak.c: returns the peak for products of a type, or the main peak if the type or the GPU is
 * unknown. */
double type_peak(const struct context *c, enum llm_dtype type);
/* Returns the type that the kernel computes with: TF32 instead of F32 if its name shows this. */
enum llm_dtype type_in_kernel(enum llm_dtype type, const char *kernel_name);

/* counters.c: returns the clock for which the peak FLOP/s are specified; NaN: unknown. */
double analysis_peak_clock_hz(const struct analysis *a, uint32_t device);

/* occupancy.c */
double occupancy_theoretical(const struct timeline *tl, const struct timeline_shape *s,
                             enum analysis_limiter *limiter, uint32_t *blocks_per_sm);

/* stages.c: returns true if ranges of this domain are Kineto's copies of annotations on the device's track.
 * Such a copy is not a second occurrence of its range. */
bool analysis_is_mirror(const char *domain);
/* stage_time.c: returns true if ranges of this domain come from the profiler, not from the program: its own
 * overhead, its passes over counters, or mirrors. */
bool analysis_is_recorders(const char *domain);
/* annotation_ops.c: returns one flag per range: it is recorded as an operator, but may be an annotation of
 * the program. The caller frees the flags. */
bool *annotation_ops(const struct timeline *tl);
/* mirrors.c: sets c.kernel_occurrence and c.copy_occurrence of work without launch that a mirror covers;
 * MIRRORS_DISAGREE: two of them do. Sets occurrence.mirrored. */
#define MIRRORS_DISAGREE (ANALYSIS_NONE - 1)
void analysis_use_mirrors(struct context *c);
/* empty_steps.c: removes the first and the last step of a thread if nothing happened in it. */
void analysis_drop_empty_steps(struct context *c);

static inline bool analysis_is_gpu(const struct context *c, uint32_t device) {
    return !c->tl->devices[device].is_cpu;
}

#endif
