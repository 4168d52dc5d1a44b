/* One or many traces as one timeline: sorted, linked, then const. Says what happened and what belongs to
 * what; has no opinion about it.
 *     struct timeline *tl = timeline_load(paths, n, &err);        -- NULL: no file could be read, see err
 *     for (size_t i = 0; i < tl->kernels.n; i++) use(tl->kernels.start_ns[i], ...);
 *     timeline_close(tl);
 * Records are columns. Kernels and copies are sorted by (device, start), everything else by start. Numbers
 * of other records are indices into their columns; TIMELINE_NONE means none. Texts are numbers for
 * timeline_text(); 0 is the empty text. Times are ns on the clock of the files. A timeline is never
 * changed once it is loaded and cut: any number of threads may read it. Memory is about 40 bytes per kernel,
 * 36 per launch, 40 per range. */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

#define TIMELINE_NONE UINT32_MAX

/* What a kernel looked like when it was launched; kernels that look the same share one. */
struct timeline_shape {
    uint32_t name; /* text as the source gave it, usually mangled */
    uint32_t device;
    uint32_t grid[3], block[3]; /* 0: not known */
    uint32_t registers;         /* a thread */
    uint32_t static_smem_bytes, dynamic_smem_bytes;
};
struct timeline_kernels { /* sorted by device, then start */
    size_t n;
    const uint64_t *start_ns, *end_ns;
    const uint32_t *shape;
    const uint32_t *lane;
    const uint32_t *launch; /* that asked for it; all nodes of a graph share one */
    const uint32_t *range;  /* innermost open on the launching thread at launch (see timeline.containment) */
    const uint32_t *graph;  /* executed graph's id, 0: none. NULL: no kernel of the timeline has one */
    const uint64_t *graph_node; /* NULL likewise. A kernel with graph but no node stands for a whole graph */
};
struct timeline_copies { /* memcpy and memset; sorted by device, then start */
    size_t n;
    const uint64_t *start_ns, *end_ns, *bytes;
    const uint32_t *lane, *launch, *range;
    const uint8_t *kind; /* enum trace_copy_kind */
};
enum timeline_api { TIMELINE_API_OTHER, TIMELINE_API_KERNEL, TIMELINE_API_GRAPH, TIMELINE_API_COPY };
struct timeline_launches { /* sorted by start */
    size_t n;
    const uint64_t *start_ns, *end_ns, *correlation; /* correlation ids repeat across processes */
    const uint32_t *thread, *range;
    const uint32_t *api;     /* text */
    const uint8_t *api_kind; /* enum timeline_api */
    const uint32_t *kernels; /* how many kernels met this launch */
};
struct timeline_ranges { /* sorted by start, longer first: a parent has a lower index than its children */
    size_t n;
    const uint64_t *start_ns, *end_ns;
    const uint32_t *thread, *parent; /* parent: innermost other range open on the thread at start */
    const uint32_t *name, *domain, *detail;
    const uint8_t *category, *flags;       /* enum trace_range_category, trace_range_flags */
    const double *flops, *bytes, *payload; /* NaN: unknown; NULL: no range has one */
};
struct timeline_syncs { /* sorted by start */
    size_t n;
    const uint64_t *start_ns, *end_ns;
    const uint32_t *thread, *range, *context, *stream;
    const uint8_t *kind; /* enum trace_sync_kind */
};
struct timeline_samples { /* hardware counters; sorted by start */
    size_t n;
    const uint64_t *start_ns, *end_ns;
    const uint32_t *device, *set; /* set: index into timeline.metric_sets */
    const uint64_t *first;        /* values[first[i] .. first[i] + metric_sets[set[i]].n) */
    const float *values;          /* NaN: unknown */
};
struct timeline_metric_set {
    uint32_t names[TRACE_SAMPLE_VALUES]; /* texts */
    uint32_t n;
};
struct timeline_powers { /* sorted by time */
    size_t n;
    const uint64_t *time_ns;
    const uint64_t *energy_mj; /* since the driver was loaded; 0: unknown */
    const uint64_t *throttle_reasons;
    const uint32_t *device;
    const uint32_t *sm_mhz, *memory_mhz, *temperature_c, *power_mw; /* TRACE_UNKNOWN_U32 */
};
struct timeline_gemms { /* sorted by start */
    size_t n;
    const struct trace_gemm *v; /* its texts are timeline texts; its thread is an index into threads */
    const uint32_t *launch;
};
struct timeline_tokens { /* sorted by time */
    size_t n;
    const uint64_t *time_ns, *request;
    const uint32_t *count, *thread;
    const uint8_t *kind; /* enum trace_token_kind */
};

/* Devices are the same when their uuid is; without uuids, when host, rank, number and name agree. 0:
 * unknown. */
struct timeline_device {
    uint32_t name, uuid;
    uint32_t index; /* its number in the first file that named it */
    bool is_cpu;    /* the native engine's "kernels" */
    uint32_t cc_major, cc_minor;
    uint32_t sms, max_threads_per_sm, max_blocks_per_sm, regs_per_sm, smem_per_sm_bytes, warp_size;
    uint64_t memory_bytes, l2_bytes, sm_clock_khz;
    double peak_bytes_per_s;                                   /* NaN: not in the trace */
    size_t first_kernel, kernel_count, first_copy, copy_count; /* its slices of the sorted columns */
};
struct timeline_lane { /* one stream */
    uint32_t process, device, context, stream;
    uint32_t name; /* text */
};
struct timeline_thread {
    uint32_t process, tid;
    uint32_t name; /* text */
};
struct timeline_process {
    uint32_t path;                  /* text: the file */
    uint32_t pid, rank, world_size; /* TIMELINE_NONE: unknown */
    uint32_t host, command, source; /* texts */
    bool finished;                  /* the writer closed the file */
    bool relative_clock;            /* cannot be laid beside other files */
    uint64_t capture_from_ns,
        capture_to_ns; /* while windows could have been open; 0: the trace's own start and end */
    bool has_launches; /* false: its kernels meet ranges by time alone */
    uint64_t kernels, unmatched_kernels;
    /* Of the whole file, also after a cut: */
    uint64_t launches, unmatched_launches; /* kernel and graph calls */
    uint64_t lost[TRACE_KIND_END];         /* records dropped, all reasons */
    uint64_t records[TRACE_KIND_END];      /* read from the file, bad records included */
    uint64_t repeated_correlations;        /* launches whose correlation id an earlier launch has */
    uint64_t damaged_places,
        damaged_chunks; /* bytes that belong to no sound chunk; chunks that do not decode */
};
struct timeline_meta {
    uint32_t process, key, value; /* texts */
};
struct timeline_window {       /* a process that has any recorded kernels and launches only inside them */
    uint64_t start_ns, end_ns; /* disjoint within a process; one that a crash left open ends with the trace */
    uint32_t process;
};

struct timeline {
    struct timeline_kernels kernels;
    struct timeline_copies copies;
    struct timeline_launches launches;
    struct timeline_ranges ranges;
    struct timeline_syncs syncs;
    struct timeline_samples samples;
    struct timeline_powers powers;
    struct timeline_gemms gemms;
    struct timeline_tokens tokens;

    const struct timeline_shape *shapes;
    const struct timeline_device *devices;
    const struct timeline_lane *lanes;
    const struct timeline_thread *threads;
    const struct timeline_process *processes;
    const struct timeline_metric_set *metric_sets;
    const struct timeline_meta *meta;
    const struct timeline_window *windows; /* sorted by process, then start */
    size_t nshapes, ndevices, nlanes, nthreads, nprocesses, nmetric_sets, nmeta, nwindows;

    uint64_t start_ns, end_ns;     /* first start and last end of all ranges, launches, kernels and copies */
    uint64_t lost[TRACE_KIND_END]; /* over all files */
    uint64_t unmatched_kernels;    /* have a correlation id, or launches around them, but no launch */
    uint64_t bad_records;          /* end before start, or pointing nowhere: left out */
    uint64_t cut_kernels;          /* dropped by timeline_cut() */
    double cut_ns;                 /* sum of their durations */
    bool containment;              /* some kernels met their range by time: their file has no launches */
    const uint32_t *problems;      /* texts: what could not be collected or read, for the user */
    size_t nproblems;
    void *owner; /* private */
};

struct timeline *timeline_load(const char *const *paths, size_t n, struct err *err);
/* Keeps the ranges that reach into [from, to) and the launches, kernels, copies, synchronisations and GEMMs
 * that begin in it. Kernels outside are counted (cut_kernels) and dropped. Samples, power and tokens stay.
 * Must be called before anything borrows from the timeline. */
void timeline_cut(struct timeline *tl, uint64_t from_ns, uint64_t to_ns);
void timeline_close(struct timeline *tl);                            /* NULL is fine */
const char *timeline_text(const struct timeline *tl, uint32_t text); /* never NULL; lives as long as tl */
const char *timeline_meta_value(const struct timeline *tl, const char *key); /* first of any process; NULL */

/* ---- Building one in memory: what the loader does file by file, and tests by hand.
 *     struct timeline_builder *b = timeline_builder_open();
 *     timeline_builder_process(b, "a.ipt");                       -- records that follow belong to it
 *     timeline_builder_meta(b, "device.0.sms", "132");
 *     timeline_builder_kernel(b, &(struct trace_kernel){ .name = timeline_builder_text(b, "gemm"), ... }, 1);
 *     struct timeline *tl = timeline_builder_finish(b);            -- frees b
 * Records are those of trace/format.h with texts from timeline_builder_text(). Devices that are named by a
 * record but by no meta exist without limits. */
struct timeline_builder;
struct timeline_builder *timeline_builder_open(void);
void timeline_builder_process(struct timeline_builder *b, const char *path);
uint32_t timeline_builder_text(struct timeline_builder *b, const char *text);
uint32_t timeline_builder_textn(struct timeline_builder *b, const char *text, size_t len);
void timeline_builder_meta(struct timeline_builder *b, const char *key, const char *value);
void timeline_builder_problem(struct timeline_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void timeline_builder_range(struct timeline_builder *b, const struct trace_range *r, size_t n);
void timeline_builder_launch(struct timeline_builder *b, const struct trace_launch *r, size_t n);
void timeline_builder_kernel(struct timeline_builder *b, const struct trace_kernel *r, size_t n);
void timeline_builder_copy(struct timeline_builder *b, const struct trace_copy *r, size_t n);
void timeline_builder_sync(struct timeline_builder *b, const struct trace_sync *r, size_t n);
void timeline_builder_sample(struct timeline_builder *b, const struct trace_sample *r, size_t n);
void timeline_builder_power(struct timeline_builder *b, const struct trace_power *r, size_t n);
void timeline_builder_gemm(struct timeline_builder *b, const struct trace_gemm *r, size_t n);
void timeline_builder_token(struct timeline_builder *b, const struct trace_token *r, size_t n);
void timeline_builder_lost(struct timeline_builder *b, enum trace_kind kind, uint64_t count);
struct timeline *timeline_builder_finish(struct timeline_builder *b);
void timeline_builder_close(struct timeline_builder *b); /* gives up; NULL is fine */

#endif
