/* Writes a timeline in the formats of other tools: Perfetto, Chrome trace events (as PyTorch's profiler
 * writes them), CSV, SQLite as exported by Nsight Systems, and call paths for flame graphs.
 *     struct export_job x;
 *     export_open(&x, timeline, analysis);
 *     if (export_window(&x, "decode:0..3", &err) < 0) ...           -- without this call: the whole timeline
 *     export_write(&x, "perfetto", path, &err);
 *     export_close(&x);
 * Correlation ids are renumbered, so that they are unique across processes. */
#ifndef REPORT_EXPORT_H
#define REPORT_EXPORT_H

#include "analyze/analyze.h"
#include "base/err.h"

struct export_job {
    const struct timeline *tl;
    const struct analysis *a;
    struct trace_set *readers; /* readers that are already open; NULL: none */
    uint64_t from_ns, to_ns;   /* only overlapping records are written */
    unsigned char *has_launch; /* [launches.n]: 1: is written; NULL: all are */
    uint64_t written;          /* number of records */
    uint64_t omitted;          /* slices that need more than MAX_TRACKS tracks of Perfetto */
    bool number_pids;          /* the recorded process ids repeat */
    bool number_sqlite_pids;   /* or do not fit into the 24 bits of an SQLite file */
    bool number_devices;       /* the recorded device numbers repeat, or are too large for a byte */
};

#define EXPORT_FORMATS "perfetto|chrome|csv|sqlite|speedscope|collapsed|pprof"
/* Formats with sums over the whole trace cannot have a window. */
bool export_is_stacks(const char *format);

void export_open(struct export_job *x, const struct timeline *tl, const struct analysis *a);
void export_close(struct export_job *x);

/* Sets the window. "STAGE": typical occurrence. "STAGE:2": occurrence 2, counted from 0. "STAGE:2..5":
 * occurrences 2 to 5. "STAGE:10ms..25ms": times relative to the start of the first occurrence. */
int export_window(struct export_job *x, const char *text, struct err *err);

/* A parsed window. */
struct export_stretch {
    size_t stage_len; /* the name starts the text */
    bool bounded, is_time;
    double from, to; /* occurrences, or nanoseconds */
};
/* Only parses. Returns -1 if the text is not valid. */
int export_window_parse(const char *text, struct export_stretch *out, struct err *err);

/* `path` is a file that is written completely or not at all. For csv, it is a folder that is created. */
int export_write(struct export_job *x, const char *format, const char *path, struct err *err);

int export_perfetto(struct export_job *x, const char *path, struct err *err);
int export_chrome(struct export_job *x, const char *path, struct err *err);
int export_csv(struct export_job *x, const char *dir, struct err *err);
int export_sqlite(struct export_job *x, const char *path, struct err *err);
int export_speedscope(struct export_job *x, const char *path, struct err *err);
int export_collapsed(struct export_job *x, const char *path, struct err *err);
int export_pprof(struct export_job *x, const char *path, struct err *err);

/* ---- for the writers */
static inline bool export_has(const struct export_job *x, uint64_t start_ns, uint64_t end_ns) {
    return end_ns >= x->from_ns && start_ns <= x->to_ns;
}
static inline bool export_has_launch(const struct export_job *x, size_t i) {
    return !x->has_launch || x->has_launch[i];
}
/* Returns the recorded id, or index + 1 if it is unknown. If ids repeat, returns 1000000 + index for all
 * processes. */
uint32_t export_pid(const struct export_job *x, uint32_t process);
/* The same, if all ids fit into a globalPid; otherwise 1000000 + index for all processes. */
uint32_t export_sqlite_pid(const struct export_job *x, uint32_t process);
/* Returns the command, or the file name without a command; for a rank, "rank 3 on node1: command" in buf. */
const char *export_process_name(const struct export_job *x, uint32_t process, char *buf, size_t cap);
/* Returns the only process that uses the device, in a trace of several ranks. TIMELINE_NONE: there is
 * none. */
uint32_t export_device_process(const struct export_job *x, uint32_t device);
/* Writes "GPU 2 NVIDIA H200" into buf. The caller names the rank if export_device_process() knows it. */
const char *export_device_name(const struct export_job *x, uint32_t device, char *buf, size_t cap);
/* Returns the device number in the trace, or its row in the timeline if the numbers repeat. */
uint32_t export_device_number(const struct export_job *x, uint32_t device);
/* "HtoD", "Memset", ... */
const char *export_copy_name(unsigned copy_kind);
/* demangled, if there is an analysis */
const char *export_kernel_name(const struct export_job *x, size_t kernel);

#endif
