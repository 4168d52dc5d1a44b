/* The anatomy of a token: the median decode step of a language model, split into layers. Each kernel gets
 * a role by its category, its size and its position in the layer (docs/understanding.md). */
#ifndef ANALYZE_ANATOMY_H
#define ANALYZE_ANATOMY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

#define KERNEL_ROLES(X)                 \
    X(EMBEDDING, "embedding")           \
    X(NORM, "norm")                     \
    X(QKV, "QKV")                       \
    X(ROTARY, "rotary")                 \
    X(KV_WRITE, "KV write")             \
    X(ATTENTION, "attention")           \
    X(OUTPUT, "output projection")      \
    X(ROUTER, "router")                 \
    X(EXPERTS, "experts")               \
    X(SHARED_EXPERTS, "shared experts") \
    X(MLP, "MLP")                       \
    X(LM_HEAD, "LM head")               \
    X(SAMPLING, "sampling")             \
    X(COMMUNICATION, "communication")   \
    X(COPY, "copy")                     \
    X(OTHER, "other")
enum kernel_role {
#define X(id, name) ROLE_##id,
    KERNEL_ROLES(X)
#undef X
        ROLE_END
};
const char *kernel_role_name(enum kernel_role role);

/* A kernel or copy of the median step. */
struct anatomy_part {
    double start_ns, ns; /* start_ns is relative to the start of the first part */
    uint32_t layer;      /* ANATOMY_NO_LAYER: before the first or after the last layer */
    uint8_t role;        /* enum kernel_role */
    bool is_kernel;
    uint32_t index; /* index into timeline.kernels or timeline.copies */
};
#define ANATOMY_NO_LAYER UINT32_MAX

/* One row per role, and one for idle time. Means over the decode steps with the same kernels. */
struct anatomy_role {
    const char *name;
    double ns;                 /* time per step, which is the time per token of each request */
    double share;              /* of the step, 0..1 */
    double calls;              /* per step */
    double single_block_calls; /* with a grid of one block */
    double bytes;              /* minimum number of bytes per step, from the model; NaN: unknown */
    double bytes_per_s, roof;  /* bytes / ns, and its ratio to the peak; NaN: unknown */
    /* floor_ns: roofline time of its operators in the model. distance: ns / floor_ns. NaN: unknown */
    double floor_ns, distance;
    /* DRAM activity in percent of the peak, measured by counters: mean over the time of its kernels; NaN:
     * known for half of that time or less */
    double dram_pct;
    bool idle;
};

struct anatomy {
    struct anatomy_part *parts; /* parts of the median step */
    size_t nparts;
    struct anatomy_role roles[ROLE_END + 1]; /* sorted by ns, largest first; includes idle time */
    size_t nroles;
    double step_ns;    /* mean over `steps`; of the unrecorded steps if there are any */
    size_t unrecorded; /* unrecorded decode steps */
    double requests;   /* in the median step */
    size_t steps;      /* with the kernels of the median step */
    size_t of;         /* decode steps without warm-up */
    uint32_t layers;
    double span_ns; /* time from the start of the first part to the end of the last */
    /* Bytes per step: the minimum by the model, and the number measured by counters. NaN: unknown. */
    double model_bytes, dram_bytes;
};

#endif
