/* Analyses a program without annotations: finds its repeating step, and determines the number of tokens and
 * requests of each step (docs/understanding.md).
 *     struct recognition r;
 *     recognise(tl, shape_category, NULL, &r);
 *     ...
 *     recognise_free(&r);
 * Uses kernels, copies and launches of the timeline but no ranges, so that the labels of servers can be
 * checked against the result. Steps of one process on one device do not overlap. */
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
    bool certain;
    const char *doubt;       /* NULL: certain */
    double tokens, requests; /* tokens: rows of the forward pass; requests: sampled rows; NaN: unknown */
    /* Keys per query of a decode step: the number, known only for one request, and limits derived from
     * kernels and copies. NaN: unknown */
    double context, context_least, context_most;
    uint32_t device, process; /* rows of the timeline */
    uint32_t thread;          /* TIMELINE_NONE: unknown */
    /* host time; ends at the first call of the next step, or with the step's own work if the step is the last
     * one or a pause follows */
    uint64_t start_ns, end_ns;
    uint64_t gpu_start_ns, gpu_end_ns;
    size_t first, count; /* its part of recognition.work */
    uint32_t layers;     /* number of layers; 0: none found */
    bool graph;          /* its layers ran in a CUDA graph */
    bool warm_up;
    /* Set by step_kinds.c. time_ns: time of the step without unrecorded time. label: name of the labelled
     * stage that most of its kernels belong to; NULL: none. */
    double time_ns;
    const char *label;
};

/* A kernel or copy of a step. */
struct recognised_work {
    uint32_t index; /* index into timeline.kernels or timeline.copies */
    bool is_kernel;
};

struct recognised_phases {
    uint64_t steady_from_ns, steady_to_ns; /* both 0: no steps */
    /* load_ns: time from the first to the last large copy to the device before the steps. load_bytes: all
     * copies to the device before the steps. Both are 0 without large copies. */
    double load_ns, load_bytes;
    double load_bytes_per_s; /* load_bytes / load_ns; NaN: load_ns is 0 */
    double start_ns;         /* start-up: from the first record to the first step, without load_ns */
    /* warm-up steps between steady ones are part of warm_up_ns, not of steady_ns */
    double warm_up_ns, steady_ns, shutdown_ns;
    size_t warm_up_steps;
    uint32_t later_kinds; /* bit k: the first step of kind k from steady_from_ns on is warm-up */
};

struct recognition {
    struct recognised_step *steps; /* by start_ns */
    size_t nsteps;
    struct recognised_work *work;
    size_t nwork;
    bool llm;              /* the program generates text */
    uint32_t layers;       /* layers of the usual step, the largest value of all devices; 0: unknown */
    uint32_t other_layers; /* layers of the steps of a second model on the same device; 0: there is none */
    /* event that separates the steps, such as "copies to the host"; NULL: no steps */
    const char *boundary;
    struct recognised_phases phases;
    /* Numbers of steps that are not warm-up, set by step_kinds.c: all, those that are certain, those with the
     * time of their labelled stage, and those of each kind. */
    size_t steady_steps, certain_steps, stage_time_steps, kind_steps[STEP_KINDS];
};

/* shape_category[tl->nshapes] contains values of enum kernel_category. `whole`: phases of the whole timeline
 * if `tl` is cut to its steady part, else NULL. */
void recognise(const struct timeline *tl, const uint8_t *shape_category,
               const struct recognised_phases *whole, struct recognition *r);
void recognise_free(struct recognition *r);

#endif
