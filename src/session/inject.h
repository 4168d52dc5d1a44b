/* The environment that makes a program load the collector: what CUDA and NVTX look for, and the
 * collector's own settings. Children of the program inherit it.
 *     struct inject_env env;
 *     if (inject_env_make(&env, &options, &err) < 0) ...
 *     spawn_options.set = env.set;
 *     inject_env_free(&env); */
#ifndef SESSION_INJECT_H
#define SESSION_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What is recorded; each bit is a word of INFERPROF_COLLECT_WHAT. */
enum inject_what {
    INJECT_KERNELS = 1,
    INJECT_COPIES = 2,
    INJECT_LAUNCHES = 4,
    INJECT_SYNCS = 8,
    INJECT_NVTX = 16,
    INJECT_GEMMS = 32,
    INJECT_WHOLE_GRAPHS = 64, /* a CUDA graph's launch is one record instead of one a kernel */
    INJECT_MIN = INJECT_NVTX,
    INJECT_DEFAULT = INJECT_KERNELS | INJECT_COPIES | INJECT_LAUNCHES | INJECT_SYNCS | INJECT_NVTX,
    INJECT_MAX = INJECT_DEFAULT | INJECT_GEMMS,
};

struct inject_options {
    const char *trace_dir; /* must exist; made absolute here */
    const char *collector; /* path of libinferprof-collector.so; NULL: looked for beside this program */
    unsigned what;         /* enum inject_what */
    const char *range; /* capture kernels only inside NVTX ranges that match this glob; NULL: everywhere */
    double delay_s, duration_s, budget_pct; /* 0: none */
    uint64_t max_file_bytes, memory_bytes;  /* 0: no limit, the collector's default */
};

struct inject_env {
    char **set;                /* "NAME=VALUE", ends with NULL */
    char *kept[2];             /* injection variables the user had set to something else; NULL: none */
    bool cuda_kept, nvtx_kept; /* true: the collector will not be loaded through this one */
};

int inject_env_make(struct inject_env *env, const struct inject_options *o, struct err *err);
void inject_env_free(struct inject_env *env);
/* Where the collector is: $INFERPROF_COLLECTOR, beside the program, or ../lib/inferprof. Caller frees; NULL:
 * nowhere, err says where it was looked for. */
char *inject_find_collector(struct err *err);

#endif
