/* The minimum work of the model in each stage of a request, for its actual counts of tokens and image
 * tiles. */
#ifndef RUN_REQUEST_COST_H
#define RUN_REQUEST_COST_H

#include "llm/cost.h"
#include "session/engine_reply.h"
#include "session/profile_plan.h"

/* The image of an input, and how the model divides it. */
struct request_image {
    int width, height; /* 0: no readable image */
    struct llm_image_plan plan;
    bool planned;
};

/* Returns [dataset.n]; caller frees. Reads only the inputs that are used. */
struct request_image *request_images(const struct profile_plan *p);

/* Context length for decode FLOPs (infer.context_len_mode), in tokens of one sequence. With `auto`, the FLOPs
 * use the context of every step, and this is its mean. NaN: decode generated no token. */
double request_context(const struct settings *s, const struct llm_model *m, const struct engine_info *info,
                       const struct engine_answer *a);

/* Returns false if the cost is unknown: no model with a decoder (m may be NULL), an unknown stage, no tokens,
 * or an image that could not be planned. "prefill" includes the image stages. `context`: context length for
 * the FLOPs of decode; NaN: the actual context of every step. Bytes and roofline times always use the actual
 * context. */
bool request_cost(const struct llm_model *m, const struct llm_peak *peak, const struct request_image *image,
                  const char *stage, const struct engine_answer *a, double context, struct llm_cost *out);
/* How often the stage reads the weights: once per decode step, otherwise once. NaN: no decode step. */
double request_passes(const char *stage, const struct engine_answer *a);
/* Different experts per routed layer and pass, counted by the engine; NaN: not reported. */
double request_experts(const char *stage, const struct engine_answer *a);

#endif
