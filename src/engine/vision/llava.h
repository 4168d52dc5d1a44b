/* LLaVA's encoder (vision.h). */
#ifndef ENGINE_VISION_LLAVA_H
#define ENGINE_VISION_LLAVA_H

#include "engine/vision/vision.h"

extern const struct vision_encoder llava_encoder;

/* Makes the view of an image as CLIP's processor does: the shorter side is scaled to `side`, and the
 * square in the middle becomes planes[3][side][side]. */
int llava_view(const struct llm_vision *c, int side, const struct image *im, float *planes, struct err *err);

#endif
