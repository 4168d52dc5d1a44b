/* The image encoders that the engine supports. */
#ifndef ENGINE_ENCODERS_H
#define ENGINE_ENCODERS_H

#include "engine/vision/vision.h"

/* Returns -1 if the engine or the backend does not support the images of this model. */
int vision_check(const struct llm_model *m, const struct ops *o, struct err *err);
struct vision *vision_open(const struct llm_model *m, int hidden, struct weights *w, struct err *err);
void vision_close(struct vision *v); /* accepts NULL */
/* Writes the names of the encoder's stages in order, and returns their number; v NULL: 0. */
size_t vision_stages(const struct vision *v, const char *out[VISION_STAGES_MAX]);

#endif
