/* The tables of rotary positions: pairs of elements of a head rotate by position * frequency.
 *     half-split:   pair i is (x[i], x[i + dims/2])           Llama, Qwen, DeepSeek-OCR
 *     interleaved:  pair i is (x[2i], x[2i + 1])              DeepSeek-V2 */
#ifndef ENGINE_DECODER_ROPE_H
#define ENGINE_DECODER_ROPE_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/ops/ops.h"
#include "llm/model.h"

/* Frequency i is divided by factors[i], which some files hold as a tensor; NULL: none. */
int rope_init(struct rope_table *t, struct ops *o, const struct llm_rope *c, bool interleaved, int positions,
              const float *factors, struct err *err);
void rope_free(struct rope_table *t, struct ops *o);
/* The factor for the scores of latent attention in addition to 1/sqrt(head_dim): mscale with YaRN,
 * otherwise 1. */
double rope_score_scale(const struct llm_rope *c);

#endif
