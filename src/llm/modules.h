/* The cost of each operator and module of a model, for one request: prefill with its images, and the next
 * decode step.
 *     struct llm_modules r;
 *     llm_modules_find(&r, model, &peak, &request);
 *     llm_modules_free(&r); */
#ifndef LLM_MODULES_H
#define LLM_MODULES_H

#include "llm/cost.h"

struct llm_request {
    double prompt_tokens, batch;    /* tokens of one sequence; number of sequences */
    const struct llm_counts *image; /* of one sequence; NULL: no image */
};

/* An operator, or the sum of a module's operators. For a module, `layers` and activation_bytes are the
 * largest of its operators. */
struct llm_module {
    const char *stage, *module, *op; /* op: NULL for a module */
    uint64_t layers;                 /* layers that contain it */
    double params;
    double prefill_flops, prefill_bytes; /* all layers */
    double prefill_layer_flops;          /* per layer */
    double prefill_share;                /* of the FLOPs of prefill */
    double step_flops, step_bytes;       /* all layers, next decode step */
    double step_layer_bytes;             /* per layer */
    double activation_bytes;             /* output of one layer in prefill */
};

/* Both lists are sorted by prefill_flops, the largest first. */
struct llm_modules {
    struct llm_module *ops, *modules;
    size_t nops, nmodules;
    double activation_bytes[LLM_STAGES_MAX]; /* largest activations at one time, by stage */
};

void llm_modules_find(struct llm_modules *out, const struct llm_model *m, const struct llm_peak *peak,
                      const struct llm_request *request);
void llm_modules_free(struct llm_modules *r);

#endif
