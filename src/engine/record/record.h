/* Records the work of the engine: stages, modules and operators as nested ranges, one kernel record per
 * operator (all on device 0), tokens, and totals of memory. Writes to a trace file and, if an NVTX tool is
 * attached, to the tool as NVTX ranges. With a NULL recorder, all calls except record_ticks(),
 * record_set_device() and record_op_ns() do nothing; these need a recorder.
 *     struct recorder *r = record_open(path, RECORD_OPERATORS, &info, &err);
 *     record_push(r, RECORD_STAGES, "prefill", -1);
 *     record_pop(r, RECORD_STAGES);
 *     record_close(r, &err);
 * Must be called only from the thread that runs the model. */
#ifndef ENGINE_RECORD_RECORD_H
#define ENGINE_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/compute/dtype.h"
#include "trace/format.h"

enum record_detail { RECORD_NONE, RECORD_STAGES, RECORD_MODULES, RECORD_OPERATORS };

struct record_info {
    const char *model;
    const char *device; /* "cpu", "NVIDIA H200" */
    const char *uuid;   /* of a GPU; NULL or "": none */
    const char *isa;    /* such as "avx2" */
    int units;          /* threads of a CPU, multiprocessors of a GPU */
    bool memory;        /* record totals of memory, see record_memory() */
    bool no_shapes;     /* do not record the shapes of operators */
};

/* A device that runs operators after their calls have returned and stores the time of each kernel. The
 * recorder then does not wait after operators. It notes how many kernels were launched before and after each
 * operator, module and inner stage, and reads their times at the end of the outermost stage. The trace has no
 * launches, because the host does not measure them, and an operator ends where the next kernel starts. */
struct record_device {
    void *context;
    size_t (*mark)(void *context); /* returns the number of kernels launched since the last take() */
    /* Waits for the device. *ns receives the times since the last take(), in ns of clock_wall_ns(): the start
     * of each kernel, and the end of the last kernel. Returns their number; 0: unknown. */
    size_t (*take)(void *context, const uint64_t **ns);
};

struct recorder;
/* path NULL: writes only to NVTX. */
struct recorder *record_open(const char *path, enum record_detail detail, const struct record_info *info,
                             struct err *err);
int record_close(struct recorder *r, struct err *err); /* -1: the file is incomplete */
/* For recorders that record operators. From now on the device measures operators, modules and stages within
 * a stage. */
void record_set_device(struct recorder *r, const struct record_device *device);
/* Returns true if the host must wait for the device before it ends a stage within a stage. Accepts NULL. */
bool record_needs_wait(const struct recorder *r);
/* Reads the device's times and records what it measured since the last call. Called at the end of the
 * outermost stage. Accepts NULL. */
void record_resolve(struct recorder *r);

/* Opens a range of that level if the recorder's detail includes the level. `index` replaces %d in the name
 * ("layer.%d.attn"); -1: no index. */
void record_push(struct recorder *r, enum record_detail level, const char *name, int index);
void record_pop(struct recorder *r, enum record_detail level);

/* An operator. A linear layer multiplies [m, k] by [n, k]^T; most others process m rows of n numbers. */
struct record_op {
    const char *name;   /* "q_proj" */
    const char *kernel; /* "gemm" */
    enum dtype type;    /* type of the weights */
    enum dtype kv_type; /* attention: type of keys and values */
    long m, n, k;       /* 0: none */
    double flops, bytes;
};
uint64_t record_ticks(const struct recorder *r);
/* Returns the start for record_op_end(); 0 if operators are not recorded. */
static inline uint64_t record_op_start(const struct recorder *r) { return r ? record_ticks(r) : 0; }
void record_op_end(struct recorder *r, uint64_t start, const struct record_op *op);

/* An operator of the stage that ended last. Its times were measured by the device, in ns of
 * clock_wall_ns(). */
void record_op_ns(struct recorder *r, uint64_t start_ns, uint64_t end_ns, const struct record_op *op);
/* Counts n operators whose times the device could not store. */
void record_lost_ops(struct recorder *r, size_t n);

/* Records that the total memory of this kind is now `bytes`. Does nothing unless record_info.memory is
 * set. */
void record_memory(struct recorder *r, enum trace_memory_kind kind, uint64_t bytes);
void record_tokens(struct recorder *r, uint64_t request, uint32_t count, int made); /* made 0: consumed */

#endif
