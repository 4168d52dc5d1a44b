/* Copies of tensors as 16-bit activations, which only some devices have. */
#include "gpu/cuda/check.h"

#include <stdlib.h>

#include "base/die.h"
#include "engine/cuda/internal.h"

struct tensor *narrow_copy(struct ops *o, enum dtype weights, struct tensor *t, size_t n) {
    if (!ops_has_narrow(o, weights)) return t;
    float *v = xmalloc(n * sizeof *v);
    uint16_t *h = xmalloc(n * sizeof *h);
    struct tensor *copy = ops_alloc_narrow(o, n);
    ops_download(o, v, view_of(t), n);
    for (size_t i = 0; i < n; i++) h[i] = bf16_from_float(v[i]);
    cuda_copy_in(o->context, pointer_of(copy), h, n * sizeof *h);
    ops_finish(o);
    free(h);
    free(v);
    return copy;
}

void narrow_back(struct ops *o, struct view to, struct tensor *copy, size_t n) {
    if (copy == to.tensor) return;
    float *v = xmalloc(n * sizeof *v);
    uint16_t *h = xmalloc(n * sizeof *h);
    cuda_copy_out(o->context, h, pointer_of(copy), n * sizeof *h);
    for (size_t i = 0; i < n; i++) v[i] = bf16_to_float(h[i]);
    ops_upload(o, to, v, n);
    ops_finish(o);
    ops_free(o, copy);
    free(h);
    free(v);
}
