/* Measurements of single kernels by Nsight Compute, matched with the kernel classes of a run by name, grid
 * and block. Percentages are 0..100. NaN and NULL mean not measured. */
#ifndef ANALYZE_KERNEL_PROFILE_H
#define ANALYZE_KERNEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/analyze.h"

/* X(id, key in ncu.json and metrics.json); kernels.csv adds the prefix "ncu_" to the key */
#define KERNEL_PROFILE_METRICS(X)             \
    X(DURATION, "duration_ns")                \
    X(SM, "sm_pct")                           \
    X(MEMORY, "memory_pct")                   \
    X(DRAM, "dram_pct")                       \
    X(DRAM_RATE, "dram_bytes_per_s")          \
    X(TENSOR, "tensor_pct")                   \
    X(OCCUPANCY, "occupancy_pct")             \
    X(OCCUPANCY_LIMIT, "occupancy_limit_pct") \
    X(L1_HIT, "l1_hit_pct")                   \
    X(L2_HIT, "l2_hit_pct")                   \
    X(IPC, "ipc")                             \
    X(STALL, "stall_pct")
enum kernel_profile_metric {
#define X(id, key) KERNEL_PROFILE_##id,
    KERNEL_PROFILE_METRICS(X)
#undef X
        KERNEL_PROFILE_METRIC_END
};
const char *kernel_profile_key(enum kernel_profile_metric m);

struct kernel_profile { /* mean over identical launches */
    const char *name;
    uint32_t grid[3], block[3]; /* [0] is 0: unknown; [1] is 0: only the product is known, stored in [0] */
    uint64_t launches;
    double value[KERNEL_PROFILE_METRIC_END];
    const char *stall; /* most frequent stall reason of the warps: "long_scoreboard" */
    const char *bound; /* resource that bounds the kernel: "memory" */
};

enum kernel_profile_match {
    KERNEL_PROFILE_NO_MATCH,
    /* Geometry and function name match, but not the template arguments, which tools print differently. The
     * match is unambiguous: all kernels with this geometry and function have one name, and so do all
     * profiles. */
    KERNEL_PROFILE_FUNCTION,
    /* The normalised name matches, and the geometry if the profile has one. */
    KERNEL_PROFILE_NAME,
};
const char *kernel_profile_match_name(enum kernel_profile_match m); /* "name" */

struct analysis_profiles {
    const struct kernel_profile *profiles; /* the profiles of the input */
    enum kernel_profile_match *matches;    /* [n]: best match of each profile */
    uint32_t *of_kernel;                   /* [nkernels]: index of the profile, or ANALYSIS_NONE */
    size_t n, unmatched;
    double covered_share; /* share of the run's busy time owned by matched classes, 0..1 */
};

/* Returns NULL if there are no profiles. */
struct analysis_profiles *kernel_profiles_match(const struct analysis *a, const struct kernel_profile *v,
                                                size_t n);
/* Sets or replaces a->profiles. No other result of the analysis depends on profiles. */
void analysis_set_profiles(struct analysis *a, const struct kernel_profile *v, size_t n);
void kernel_profiles_free(struct analysis_profiles *p);                                    /* accepts NULL */
const struct kernel_profile *kernel_profile_of(const struct analysis *a, uint32_t kernel); /* NULL: none */

#endif
