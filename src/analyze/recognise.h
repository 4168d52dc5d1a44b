/* Understands a program without annotations: finds its repeating step, and reads from each step how many
 * tokens and requests it had (docs/understanding.md).
 *     struct recognition r;
 *     recognise(tl, shape_category, &r);
 *     ...
 *     recognise_free(&r);
 * Reads kernels, copies and launches of the timeline; never ranges, so labels of servers can be checked
 * against it. Steps of a device do not overlap. */
#ifndef ANALYZE_RECOGNISE_H
#define ANALYZE_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

enum step_kind { STEP_OTHER, STEP_PREFILL, STEP_DECODE, STEP_MIXED, STEP_ENCODE, STEP_KINDS };
const char *step_kind_name(enum step_kind kind); /* "step", "prefill", ... */

struct recognised_step {
    enum step_kind kind;
    bool certain;              /* kind, tokens and requests follow from agreeing evidence */
    const char *doubt;         /* why it is not certain; NULL */
    double tokens, requests;   /* rows of the forward pass; rows that were sampled. NaN: unknown */
    uint32_t device, process;  /* of the timeline */
    uint32_t thread;           /* that launched it; TIMELINE_NONE: unknown */
    uint64_t start_ns, end_ns; /* on the host: first call to the first call of the next step */
    uint64_t gpu_start_ns, gpu_end_ns;
    size_t first, count; /* its part of recognition.work */
    uint32_t layers;     /* attention kernels in sequence; 0: none found */
    bool graph;          /* its layers ran in a CUDA graph */
    bool warm_up;
};

/* A kernel or copy of a device, in order of start. */
struct recognised_work {
    uint32_t index; /* of timeline.kernels or timeline.copies */
    bool is_kernel;
};

/* What happened before and after the steady work. Times are of the first device. */
struct recognised_phases {
    uint64_t steady_from_ns, steady_to_ns; /* both 0: no steps */
    double load_ns, load_bytes;            /* start to the last large copy to the device before the steps */
    double start_ns; /* start-up: first record to the first warm-up step, without load */
    double warm_up_ns, steady_ns, shutdown_ns;
    size_t warm_up_steps;
};

struct recognition {
    struct recognised_step *steps; /* by start_ns */
    size_t nsteps;
    struct recognised_work *work;
    size_t nwork;
    bool llm;             /* the program generates text: its steps have kinds and tokens */
    uint32_t layers;      /* of most steps; 0: unknown */
    const char *boundary; /* what the steps were cut at: "token ids copied to the host"; NULL: no steps */
    struct recognised_phases phases;
};

/* shape_category: [tl->nshapes] enum kernel_category */
void recognise(const struct timeline *tl, const uint8_t *shape_category, struct recognition *r);
void recognise_free(struct recognition *r);

#endif
