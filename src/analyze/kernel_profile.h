/* Measurements of single kernels by Nsight Compute, matched with the kernel classes of a run by name, grid
 * and block. Percentages are 0..100; NaN, NULL or 0: not measured. */
#ifndef ANALYZE_KERNEL_PROFILE_H
#define ANALYZE_KERNEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/analyze.h"

/* id, key in ncu.json, metrics.json and (behind "ncu_") kernels.csv */
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

struct kernel_profile { /* launches that look the same, averaged */
    const char *name;
    uint32_t grid[3], block[3]; /* [0] 0: unknown; [1] 0: only their product is known, in [0] */
    uint64_t launches;
    double value[KERNEL_PROFILE_METRIC_END];
    const char *stall; /* what its warps waited for most: "long_scoreboard" */
    const char *bound; /* "memory" */
};

enum kernel_profile_match {
    KERNEL_PROFILE_NO_MATCH,
    /* the function agrees and no other has it at this geometry: template arguments are printed differently */
    KERNEL_PROFILE_FUNCTION,
    /* the name agrees except for namespaces and the like; the geometry too if the profile has it */
    KERNEL_PROFILE_NAME,
};
const char *kernel_profile_match_name(enum kernel_profile_match m); /* "name" */

struct analysis_profiles {
    const struct kernel_profile *profiles; /* the input's */
    enum kernel_profile_match *matches;    /* [n] best match of each profile */
    uint32_t *of_kernel;                   /* [nkernels] profile, or ANALYSIS_NONE */
    size_t n, unmatched;
    double covered_share; /* of the run's busy time, 0..1: what the matched classes own */
};

/* NULL: there are no profiles. */
struct analysis_profiles *kernel_profiles_match(const struct analysis *a, const struct kernel_profile *v,
                                                size_t n);
void kernel_profiles_free(struct analysis_profiles *p);                                    /* NULL is fine */
const struct kernel_profile *kernel_profile_of(const struct analysis *a, uint32_t kernel); /* NULL: none */

#endif
