/* Latent attention of decoding steps (decode_latent.cu), of one sequence (decode.c) or a batch
 * (decode_batch.c). */
#ifndef ENGINE_CUDA_LATENT_H
#define ENGINE_CUDA_LATENT_H

#include "engine/cuda/internal.h"
#include "engine/ops/decode.h"

/* Returns true if the kernels support the sizes of the plan, which has latent attention. */
bool cuda_latent_fits(const struct decode_plan *p);
/* Returns the number of blocks among which the positions of a sequence are divided, for `sequences`
 * sequences and a cache of this type. */
int cuda_latent_splits(const struct cuda *c, const struct decode_plan *p, enum dtype cache, int sequences);
/* The arguments that follow from the plan, and `splits`. The caller sets state, q, kept, absorbed, sums, and
 * parts or narrow. */
struct latent_args cuda_latent_args(const struct cuda *c, const struct decode_plan *p,
                                    const struct decode_layer *l, int sequences);
/* Launches the three kernels. weights: the type of kv_b. */
void cuda_launch_latent(struct cuda *c, struct latent_args *a, enum dtype weights);

#endif
