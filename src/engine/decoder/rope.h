/* The tables of rotary positions: pairs of elements of a head rotate by position * frequency.
 *     half-split:   pair i is (x[i], x[i + dims/2])           Llama, Qwen, DeepSeek-OCR
 *     interleaved:  pair i is (x[2i], x[2i + 1])              DeepSeek-V2 and V3 */
#ifndef ENGINE_DECODER_ROPE_H
#define ENGINE_DECODER_ROPE_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/ops/ops.h"
#include "llm/model.h"

/* Frequency i is divided by factors[i], which some files contain as a tensor; NULL: no factors. */
int rope_init(struct rope_table *t, struct ops *o, const struct llm_rope *c, bool interleaved, int positions,
              const float *factors, struct err *err);
void rope_free(struct rope_table *t, struct ops *o);
/* Returns the parameters for the sliding-window layers of the same model: local_theta, no scaling. */
struct llm_rope rope_local(const struct llm_rope *c);

/* Positions of a text with images (mrope): token i is at v[i], with time, row and column. Generated tokens
 * follow at i + shift. */
struct rope_places {
    int (*v)[3]; /* [n]; owned by the caller */
    int n, shift;
};

/* The part of a table that was computed last. With the types dynamic and longrope, the frequencies depend
 * on the length of the text. With mrope, the positions depend on the images. */
struct rope_filled {
    int position, n;
    double scale;
    const struct rope_places *places;
    bool moved; /* a part of the table was computed for a text with images */
};
/* Computes the rows [position, position + n) of the table for a text of `length` tokens, unless these rows
 * were computed last with the same parameters. Does nothing if the frequencies are fixed and no text had
 * images so far. places: NULL for a text without images. */
void rope_fit(struct rope_table *t, struct ops *o, const struct llm_rope *c, struct rope_filled *filled,
              int position, int n, int length, const struct rope_places *places);
bool rope_fits_length(const struct llm_rope *c); /* true for the types dynamic and longrope */
/* Returns the number of positions that the model supports: `trained`; for the type dynamic, times `factor`
 * if that is above 1. */
uint64_t rope_positions(const struct llm_rope *c, uint64_t trained);
/* Returns the factor for the scores of latent attention in addition to 1/sqrt(head_dim): with YaRN and
 * mscale_all_dim, the square of YaRN's mscale; otherwise 1. */
double rope_score_scale(const struct llm_rope *c);

#endif
