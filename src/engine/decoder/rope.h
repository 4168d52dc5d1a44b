/* Rotary positions: pairs of numbers of a head turn by position * frequency.
 *     half-split:   pair i is (x[i], x[i + dims/2])           Llama, Qwen, DeepSeek-OCR
 *     interleaved:  pair i is (x[2i], x[2i + 1])              DeepSeek-V2
 *     (a, b) -> (a cos - b sin, b cos + a sin) */
#ifndef ENGINE_DECODER_ROPE_H
#define ENGINE_DECODER_ROPE_H

#include <stdbool.h>

#include "base/err.h"
#include "llm/model.h"

struct rope {
    int dims; /* numbers that turn, even */
    bool interleaved;
    float *cosine, *sine; /* [positions][dims / 2] */
};

int rope_init(struct rope *r, const struct llm_rope *c, bool interleaved, int positions, struct err *err);
void rope_free(struct rope *r);
/* Turns x[heads][stride] in place, each head's first dims numbers from `offset` on. */
void rope_apply(const struct rope *r, float *x, int heads, int stride, int offset, int position);
/* What the scores of latent attention are multiplied by beside 1/sqrt(head_dim): mscale under YaRN, else
 * 1. */
double rope_score_scale(const struct llm_rope *c);

#endif
