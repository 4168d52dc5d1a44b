/* Environment variables that make a program load the collector: the variables that CUDA, NVTX and NCCL read,
 * and the collector's settings. Children of the program inherit them.
 *     struct inject_env env;
 *     if (inject_env_make(&env, &options, &err) < 0) ...
 *     spawn_options.set = env.set;
 *     inject_env_free(&env); */
#ifndef SESSION_INJECT_H
#define SESSION_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/launcher.h"
#include "base/strlist.h"

/* Activities to record; each bit is a word of INFERPROF_COLLECT_WHAT. */
enum inject_what {
    INJECT_KERNELS = 1,
    INJECT_COPIES = 2,
    INJECT_LAUNCHES = 4,
    INJECT_SYNCS = 8,
    INJECT_NVTX = 16,
    INJECT_GEMMS = 32,
    INJECT_WHOLE_GRAPHS = 64, /* one record per CUDA graph launch instead of one per kernel */
    INJECT_ALLOCATIONS = 128, /* of device memory */
    INJECT_MIN = INJECT_NVTX,
    INJECT_DEFAULT = INJECT_KERNELS | INJECT_COPIES | INJECT_LAUNCHES | INJECT_SYNCS | INJECT_NVTX,
    INJECT_MAX = INJECT_DEFAULT | INJECT_GEMMS,
};

struct inject_options {
    const char *trace_dir; /* must exist; converted to an absolute path */
    const char *collector; /* path of libinferprof-collector.so; NULL: inject_find_collector() */
    unsigned what;         /* enum inject_what */
    const char *range;     /* record kernels only inside NVTX ranges that match this glob; NULL: always */
    double delay_s, duration_s, budget_pct; /* 0: none */
    uint64_t graph_replays; /* record the kernels of this many replays of each CUDA graph; 0: of all */
    /* max_file_bytes 0: no limit; memory_bytes 0: default of the collector */
    uint64_t max_file_bytes, memory_bytes;
};

struct inject_env {
    char **set;    /* "NAME=VALUE", NULL-terminated */
    char *kept[3]; /* variables of CUDA, NVTX and NCCL that the user had already set; NULL: none */
    bool cuda_kept, nvtx_kept, nccl_kept; /* true: the collector is not loaded through CUDA, NVTX or NCCL */
};

int inject_env_make(struct inject_env *env, const struct inject_options *o, struct err *err);
void inject_env_free(struct inject_env *env);
/* Returns the process id in the name of a collector's file: <host>-<pid>.ipt, <node>-rank<N>-<pid>.ipt in a
 * job, or with .<n>.ipt at the end (after exec). The host name may contain dashes. Returns 0 for other
 * files. */
long inject_trace_pid(const char *file_name);
/* Returns true if the name of a trace begins with "<node>-rank<rank>-". If `rank` is LAUNCHER_UNKNOWN,
 * "<node>-rank" or "<host>-" of this machine is enough. The process id of a trace is valid only on the
 * machine that wrote it. */
bool inject_trace_is_local(const char *file_name, const struct launcher *l, uint32_t rank);
/* Adds the reasons why processes have no trace. The collector writes a file <host>-<pid>.problem for each
 * process that it cannot record, or sends a message if it cannot start a thread. A reason shared by
 * several processes is added once, for the first of them. A last line counts the other processes. */
void inject_add_warnings(const char *trace_dir, struct strlist *warnings);
/* Finds the collector: $INFERPROF_COLLECTOR, next to the program, or in ../lib/inferprof. The caller frees
 * the path. NULL: not found; err has the searched folders, or $INFERPROF_COLLECTOR if that is set. */
char *inject_find_collector(struct err *err);

#endif
