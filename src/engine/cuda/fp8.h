/* Fp8 matrices on the device. Decoding steps and products of few rows read them as they are. Products of more
 * rows read a copy in a wider type, which a kernel makes right before:
 *     struct wide_linear copy;
 *     l = cuda_widened(c, l, 0, &copy);          -- l itself if it is not fp8 */
#ifndef ENGINE_CUDA_FP8_H
#define ENGINE_CUDA_FP8_H

#include "engine/cuda/internal.h"

struct wide_linear {
    struct linear l;
    struct tensor tensor;
};

/* The scales of an fp8 matrix; of another one, a table that kernels do not read. */
struct scale_table cuda_scales(const struct matrix *m);
/* Returns true if the scales of this matrix can be read with the layout of that table, or there are none. */
bool cuda_scales_serve(const struct scale_table *s, const struct matrix *m);
/* Returns a copy as bf16, or as float in exact mode. It is valid until the next call with the same slot, of
 * MOST_MATRICES slots. */
const struct linear *cuda_widened(struct cuda *c, const struct linear *l, int slot, struct wide_linear *copy);

/* A copy of a layer's experts as bf16. */
struct wide_experts {
    struct expert *experts; /* [n] */
    struct tensor *tensors;
    int n;
    struct widen_args first;
    void *list; /* struct widen_args [n][3] in device memory */
};
struct wide_experts *cuda_wide_experts_make(struct cuda *c, const struct expert *experts, int n);
/* Writes the copy. It is valid until the copy of another layer is written. */
void cuda_wide_experts_fill(struct cuda *c, const struct wide_experts *w);
void cuda_wide_experts_free(struct wide_experts *w); /* accepts NULL */

#endif
