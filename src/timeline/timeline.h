/* One or more traces as one timeline of sorted and linked records.
 *     struct timeline *tl = timeline_load(paths, n, &err);        -- NULL: no file could be read, see err
 *     for (size_t i = 0; i < tl->kernels.n; i++) use(tl->kernels.start_ns[i], ...);
 *     timeline_close(tl);
 * Records are stored as columns. Kernels and copies are sorted by (device, start), all others by start. A
 * reference to another record is an index into its columns; TIMELINE_NONE means none. Texts are numbers for
 * timeline_text(); 0 is the empty text. Times are ns on the clock of the files. A timeline does not change
 * after it is loaded and cut, so any number of threads may read it. It takes 32 bytes per kernel, 41 per
 * launch and 42 per range, plus the optional columns. */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

#define TIMELINE_NONE UINT32_MAX
/* Number of ranges around a range that are searched for one with a property. Real nesting is far below that
 * (Python stops at 1,000 levels); 180,000 levels in a hostile trace would take minutes. */
#define TIMELINE_MAX_AROUND 4000

/* Launch parameters of a kernel. Kernels with equal parameters share one shape. */
struct timeline_shape {
    uint32_t name; /* text number; as recorded, usually mangled */
    uint32_t device;
    uint32_t grid[3], block[3]; /* 0: unknown */
    uint32_t registers;         /* per thread */
    uint32_t static_smem_bytes, dynamic_smem_bytes;
};
enum timeline_api { TIMELINE_API_OTHER, TIMELINE_API_KERNEL, TIMELINE_API_GRAPH, TIMELINE_API_COPY };
struct timeline_metric_set {
    uint32_t names[TRACE_SAMPLE_VALUES]; /* texts */
    uint32_t n;
};

/* The columns of each record kind, defined once. The structs below, the builder's growing columns, sorting,
 * renumbering and freeing are generated from these lists.
 *     C(type, name)  a column
 *     O(type, name)  a column that is NULL if it is unknown (0, NaN) for all records
 *     B(type, name)  a column that only exists while the timeline is built
 * The first column is a time, the sort key. Columns named thread, device, shape, launch or kernel
 * contain indices into the table of that name; merging, sorting and cutting renumber them by name. */

/* Sorted by device, then start. All kernels of one graph launch have the same `launch`. `range` is the
 * innermost range open on the launching thread at the launch (see timeline.containment). A kernel with a
 * graph but without a graph_node represents a whole graph. */
#define TIMELINE_KERNEL_COLUMNS(C, O, B)                       \
    C(uint64_t, start_ns)                                      \
    C(uint64_t, end_ns)                                        \
    C(uint32_t, shape)                                         \
    C(uint32_t, lane)                                          \
    C(uint32_t, launch)                                        \
    C(uint32_t, range)                                         \
    O(uint32_t, graph) /* id of the executed graph; 0: none */ \
    O(uint64_t, graph_node)                                    \
    B(uint64_t, correlation)
/* Memcpy and memset. Sorted by device, then start. */
#define TIMELINE_COPY_COLUMNS(C, O, B)          \
    C(uint64_t, start_ns)                       \
    C(uint64_t, end_ns)                         \
    C(uint64_t, bytes)                          \
    C(uint32_t, lane)                           \
    C(uint32_t, launch)                         \
    C(uint32_t, range)                          \
    C(uint8_t, kind) /* enum trace_copy_kind */ \
    B(uint64_t, correlation)
#define TIMELINE_LAUNCH_COLUMNS(C, O, B)                       \
    C(uint64_t, start_ns)                                      \
    C(uint64_t, end_ns)                                        \
    C(uint64_t, correlation) /* ids repeat across processes */ \
    C(uint32_t, thread)                                        \
    C(uint32_t, range)                                         \
    C(uint32_t, api)     /* text */                            \
    C(uint8_t, api_kind) /* enum timeline_api */               \
    C(uint32_t, kernels) /* kernels with this launch */
/* Of ranges with equal starts, the longer one comes first, so a parent has a lower index than its
 * children. */
#define TIMELINE_RANGE_COLUMNS(C, O, B)                                                           \
    C(uint64_t, start_ns)                                                                         \
    C(uint64_t, end_ns)                                                                           \
    C(uint32_t, thread)                                                                           \
    C(uint32_t, parent) /* innermost range open at the start that contains at least half of it */ \
    C(uint32_t, name)   /* this column and the next two are texts */                              \
    C(uint32_t, domain)                                                                           \
    C(uint32_t, detail)                                                                           \
    C(uint32_t, stack)   /* text: call path, outermost first */                                   \
    C(uint8_t, category) /* enum trace_range_category */                                          \
    C(uint8_t, flags)    /* enum trace_range_flags */                                             \
    O(double, flops)                                                                              \
    O(double, bytes)                                                                              \
    O(double, payload)                                                                            \
    B(uint16_t, depth)
#define TIMELINE_SYNC_COLUMNS(C, O, B) \
    C(uint64_t, start_ns)              \
    C(uint64_t, end_ns)                \
    C(uint32_t, thread)                \
    C(uint32_t, range)                 \
    C(uint32_t, context)               \
    C(uint32_t, stream)                \
    C(uint8_t, kind) /* enum trace_sync_kind */
/* Hardware counters. The values of a sample are sample_values[first .. first + metric_sets[set].n). */
#define TIMELINE_SAMPLE_COLUMNS(C, O, B) \
    C(uint64_t, start_ns)                \
    C(uint64_t, end_ns)                  \
    C(uint32_t, device)                  \
    C(uint32_t, set)                     \
    C(uint64_t, first)
#define TIMELINE_POWER_COLUMNS(C, O, B)                                                    \
    C(uint64_t, time_ns)                                                                   \
    C(uint64_t, energy_mj) /* since the driver was loaded; 0: unknown */                   \
    C(uint64_t, throttle_reasons)                                                          \
    C(uint32_t, device)                                                                    \
    C(uint32_t, sm_mhz) /* TRACE_UNKNOWN_U32 if unknown, also in the next three columns */ \
    C(uint32_t, memory_mhz)                                                                \
    C(uint32_t, temperature_c)                                                             \
    C(uint32_t, power_mw)
/* The texts of `v` are timeline texts; v.thread is an index into threads. */
#define TIMELINE_GEMM_COLUMNS(C, O, B) \
    C(uint64_t, start_ns)              \
    C(struct trace_gemm, v)            \
    C(uint32_t, launch)
#define TIMELINE_TOKEN_COLUMNS(C, O, B) \
    C(uint64_t, time_ns)                \
    C(uint64_t, request)                \
    C(uint32_t, count)                  \
    C(uint32_t, thread)                 \
    C(uint8_t, kind) /* enum trace_token_kind */

/* Launches of CUDA graphs outside of capture windows; their kernels were not recorded. */
#define TIMELINE_REPLAY_COLUMNS(C, O, B)                        \
    C(uint64_t, start_ns) /* start of the launch call */        \
    C(uint64_t, end_ns)                                         \
    C(uint32_t, graph) /* id as in kernels.graph; 0: unknown */ \
    C(uint32_t, thread)                                         \
    C(uint32_t, detach) /* see trace_replay */
#define TIMELINE_MODEL_FILE_COLUMNS(C, O, B)                         \
    C(uint64_t, time_ns)                                             \
    C(struct trace_model_file, v) /* its texts are timeline texts */ \
    C(uint32_t, process)
#define TIMELINE_MEMORY_COLUMNS(C, O, B)                 \
    C(uint64_t, time_ns)                                 \
    C(uint64_t, address)                                 \
    C(uint64_t, bytes)                                   \
    C(uint32_t, device) /* TIMELINE_NONE: host memory */ \
    C(uint32_t, process)                                 \
    C(uint8_t, kind)   /* enum trace_memory_kind */      \
    C(uint8_t, action) /* enum trace_memory_action */
/* Collectives, sends and receives from all sources: NCCL's profiler interface, PyTorch, names of kernels and
 * NVTX ranges. `v` is the record, with unknown values as in trace/format.h. Its texts are timeline texts. A
 * collective without its own kernel times has those of `kernel`. */
#define TIMELINE_COLLECTIVE_COLUMNS(C, O, B)         \
    C(uint64_t, start_ns)                            \
    C(uint64_t, end_ns)                              \
    C(struct trace_collective, v)                    \
    C(uint32_t, process)                             \
    C(uint32_t, thread) /* TIMELINE_NONE: unknown */ \
    C(uint32_t, launch) /* launch of `kernel` */     \
    C(uint32_t, range)                               \
    C(uint32_t, kernel) /* index of its kernel, the first one of several; TIMELINE_NONE: unknown */

/* X(record kind, its name, name of its columns in struct timeline) */
#define TIMELINE_KINDS(X)                  \
    X(KERNEL, kernel, kernels)             \
    X(COPY, copy, copies)                  \
    X(LAUNCH, launch, launches)            \
    X(RANGE, range, ranges)                \
    X(SYNC, sync, syncs)                   \
    X(SAMPLE, sample, samples)             \
    X(POWER, power, powers)                \
    X(GEMM, gemm, gemms)                   \
    X(TOKEN, token, tokens)                \
    X(REPLAY, replay, replays)             \
    X(MODEL_FILE, model_file, model_files) \
    X(MEMORY, memory, memories)            \
    X(COLLECTIVE, collective, collectives)

/* Declares struct timeline_kernels { size_t n; const uint64_t *start_ns; ... }; and so on. */
#define TIMELINE_DECLARE(type, name) const type *name;
#define TIMELINE_SKIP(type, name)
#define X(KIND, record, columns)                                                     \
    struct timeline_##columns {                                                      \
        size_t n;                                                                    \
        TIMELINE_##KIND##_COLUMNS(TIMELINE_DECLARE, TIMELINE_DECLARE, TIMELINE_SKIP) \
    };
TIMELINE_KINDS(X)
#undef X
#undef TIMELINE_DECLARE

/* Two devices are the same if their uuids are equal or, without uuids, if host, rank, index and name are
 * equal. Devices are sorted by rank, file and index. Unknown members are 0. */
struct timeline_device {
    uint32_t name, uuid;
    uint32_t index;   /* its number in the first file that contains it */
    uint32_t process; /* that file */
    uint32_t label;   /* text: see timeline_device_label() */
    bool is_cpu;      /* the native engine's CPU device, with operators as kernels */
    bool joined;      /* kernels were recorded up to the start of the next one: gaps count as work */
    uint32_t cc_major, cc_minor;
    uint32_t sms, max_threads_per_sm, max_blocks_per_sm, regs_per_sm, smem_per_sm_bytes, warp_size;
    uint64_t memory_bytes, l2_bytes, sm_clock_khz;
    double peak_bytes_per_s;                                   /* NaN: not in the trace */
    size_t first_kernel, kernel_count, first_copy, copy_count; /* parts of the sorted columns */
};
struct timeline_lane { /* one stream */
    uint32_t process, device, context, stream;
    uint32_t name; /* text */
    uint32_t pid;  /* set if the file names the process of the context; TIMELINE_NONE: unknown */
};
struct timeline_thread {
    uint32_t process, tid;
    uint32_t name; /* text */
    /* pid: set if the file has several processes. device: row; the thread is a track of a device, with copies
     * of annotations. TIMELINE_NONE: unknown */
    uint32_t pid, device;
};
struct timeline_process {
    uint32_t path;                  /* text: the file */
    uint32_t pid, rank, world_size; /* TIMELINE_NONE: unknown, also in the next line */
    uint32_t local_rank, local_size, node_rank;
    uint32_t host, command, source; /* texts */
    uint32_t node, launcher;        /* texts: name of the node in the job; "torchrun", "slurm"; 0: unknown */
    bool finished;                  /* the writer closed the file */
    bool relative_clock;            /* its times cannot be compared with other files */
    /* the file contains launches of kernels; if not, kernels are matched to ranges by time */
    bool has_launches;
    /* Period in which capture windows could be open. from 0: since the start of the trace; to 0: until its
     * end. */
    uint64_t capture_from_ns, capture_to_ns;
    uint64_t kernels, unmatched_kernels;
    /* The following counts are of the whole file, even after a cut. */
    uint64_t launches, unmatched_launches; /* calls that launch kernels or graphs */
    uint64_t lost[TRACE_KIND_END];         /* dropped records, all reasons */
    uint64_t records[TRACE_KIND_END];      /* records read from the file, including invalid ones */
    uint64_t repeated_correlations;        /* launches with the correlation id of an earlier launch */
    uint64_t damaged_places;               /* contiguous regions outside of intact chunks */
    uint64_t damaged_chunks;               /* intact chunks that cannot be decoded */
};
struct timeline_meta {
    uint32_t process, key, value; /* key and value are texts */
};
/* Capture windows. A process with windows recorded kernels and launches only inside them. The windows of a
 * process do not overlap. A window that a crash left open ends with the trace. */
struct timeline_window {
    uint64_t start_ns, end_ns;
    uint32_t process;
};

struct timeline {
#define X(KIND, record, columns) struct timeline_##columns columns;
    TIMELINE_KINDS(X)
#undef X
    const float *sample_values; /* NaN: unknown */

    const struct timeline_shape *shapes;
    const struct timeline_device *devices;
    const struct timeline_lane *lanes;
    const struct timeline_thread *threads;
    const struct timeline_process *processes;
    const struct timeline_metric_set *metric_sets;
    const struct timeline_meta *meta;
    const struct timeline_window *windows; /* sorted by process, then start */
    size_t nshapes, ndevices, nlanes, nthreads, nprocesses, nmetric_sets, nmeta, nwindows;

    /* first start and last end of all ranges, launches, kernels, copies and replays */
    uint64_t start_ns, end_ns;
    uint64_t lost[TRACE_KIND_END];   /* lost records, over all files */
    uint64_t unmatched_kernels;      /* kernels without a launch, in processes that have launches */
    uint64_t bad_records;            /* excluded records, which end before they start */
    uint64_t stray_records;          /* excluded records, which are far away from all others */
    uint64_t cut_kernels;            /* kernels excluded by timeline_cut() */
    double cut_ns;                   /* sum of the durations of these kernels */
    uint64_t cut_from_ns, cut_to_ns; /* the window passed to timeline_cut(); both 0: not cut */
    /* Some kernels were matched to ranges by time, because their file has no launches. */
    bool containment;
    const uint32_t *warnings; /* texts for the user about data that could not be collected or read */
    size_t nwarnings;
    void *owner; /* private */
};

struct timeline *timeline_load(const char *const *paths, size_t n, struct err *err);
/* Functions that convert the times of files to one clock while they are loaded. `open` returns the state for
 * one file, which `close` frees; NULL: its times are not converted. `convert` changes all times of a batch in
 * place; batches come in the order of the file. */
struct trace_batch;
struct timeline_clocks {
    const void *arg;
    void *(*open)(const void *arg, const char *path);
    void (*convert)(void *state, const struct trace_batch *batch);
    uint64_t (*convert_time)(void *state, uint64_t own_ns);
    void (*close)(void *state);
};
struct trace_set;
/* All members may be NULL. */
struct timeline_options {
    const struct timeline_clocks *clocks;
    struct trace_set *traces; /* readers that are already open */
};
struct timeline *timeline_load_with(const char *const *paths, size_t n, const struct timeline_options *o,
                                    struct err *err);
/* Keeps the ranges that overlap [from_ns, to_ns), and the launches, kernels, copies, synchronisations, GEMMs
 * and collectives that start in it. Dropped kernels are counted (cut_kernels). Records of other kinds are
 * kept. Must be called while no other code points into the timeline. */
void timeline_cut(struct timeline *tl, uint64_t from_ns, uint64_t to_ns);
void timeline_close(struct timeline *tl);                            /* accepts NULL */
const char *timeline_text(const struct timeline *tl, uint32_t text); /* never NULL; valid until close */
bool timeline_has_ranks(const struct timeline *tl); /* several ranks of a job; false for NULL */
/* Returns the device number that the trace contains, for people: "2". If several devices with work have the
 * same number, the rank or the file precedes it: "rank1:0", "file1:0". */
const char *timeline_device_label(const struct timeline *tl, size_t device);
/* Returns the value of the first meta record with the key, of any process; NULL if there is none. */
const char *timeline_meta_value(const struct timeline *tl, const char *key);

/* ---- Building a timeline in memory. Used by the loader, file by file, and by tests.
 *     struct timeline_builder *b = timeline_builder_open();
 *     timeline_builder_process(b, "a.ipt");                       -- following records belong to it
 *     timeline_builder_meta(b, "device.0.sms", "132");
 *     timeline_builder_kernel(b, &(struct trace_kernel){ .name = timeline_builder_text(b, "gemm"), ... }, 1);
 *     struct timeline *tl = timeline_builder_finish(b);            -- timeline_close() frees b
 * Records are those of trace/format.h with texts from timeline_builder_text(). A device that appears in a
 * record but in no meta record exists with unknown limits. */
struct timeline_builder;
struct timeline_builder *timeline_builder_open(void);
void timeline_builder_process(struct timeline_builder *b, const char *path);
uint32_t timeline_builder_text(struct timeline_builder *b, const char *text);
uint32_t timeline_builder_textn(struct timeline_builder *b, const char *text, size_t len);
void timeline_builder_meta(struct timeline_builder *b, const char *key, const char *value);
void timeline_builder_warning(struct timeline_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Declares timeline_builder_kernel(b, kernels, n) and so on. */
#define X(KIND, record, columns) \
    void timeline_builder_##record(struct timeline_builder *b, const struct trace_##record *r, size_t n);
TIMELINE_KINDS(X)
#undef X
void timeline_builder_lost(struct timeline_builder *b, enum trace_kind kind, uint64_t count);
struct timeline *timeline_builder_finish(struct timeline_builder *b);
void timeline_builder_close(struct timeline_builder *b); /* discards the builder; accepts NULL */

#endif
