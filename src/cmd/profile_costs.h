/* What the model had to do in each stage of a run, for the counts that really were, and the peaks it is held
 * against. */
#ifndef CMD_PROFILE_COSTS_H
#define CMD_PROFILE_COSTS_H

#include "cmd/profile_plan.h"
#include "llm/cost.h"
#include "session/session.h"

struct profile_peak {
    struct llm_peak peak;
    char device[160]; /* "NVIDIA H200"; the CPU's name */
    char type[64];    /* "bf16 dense"; "f32" */
    char source[320]; /* where both numbers come from */
    char detail[160]; /* more of that, for those who ask; "" */
};

/* Settings, environment, GPU table or measurement, in this order. Says on the log what it could not find. */
void profile_peak_find(const struct profile_plan *p, struct profile_peak *out);

struct profile_image { /* what an input is to the image side of the model */
    int width, height; /* 0: not an image, or unreadable */
    struct llm_image_plan plan;
    bool planned;
};

/* [dataset.n], caller frees. Only inputs in use are looked at. */
struct profile_image *profile_images(const struct profile_plan *p);

/* The cost of a stage in one inference. False: the model or the stage is not known. "prefill" includes the
 * image stages, as its time does. */
bool profile_cost(const struct profile_plan *p, const struct profile_peak *peak,
                  const struct profile_image *image, const char *stage, const struct engine_answer *a,
                  struct llm_cost *out);

#endif
