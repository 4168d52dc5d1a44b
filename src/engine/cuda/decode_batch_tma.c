/* The second implementation of the products of a batch: weights are copied by the TMA unit and multiplied by
 * wgmma (skinny.cu). Only for $INFERPROF_CUDA_BATCH=tma: it has not been run on a GPU yet. */
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/decode_batch.h"
#include "engine/cuda/skinny.h"

enum { NORM_THREADS = 512 };

/* x += the parts of the last product; h = norm(x) */
static void tma_norm(struct cuda_batch *b, const struct decode_plan *p, const struct tensor *w) {
    struct skinny_norm_args a = { .x = b->x,
                                  .parts = b->parts,
                                  .nparts = b->nparts,
                                  .n = p->hidden,
                                  .part_stride = (long)b->n * p->hidden,
                                  .w = pointer_of(w),
                                  .eps = p->eps,
                                  .y = b->h };
    cuda_launch_named(b->c, MODULE_skinny, "skinny_norm", GRID((size_t)b->n, .threads = NORM_THREADS), 1, &a);
    b->nparts = 0;
}

static int tma_rows(struct cuda_batch *b, const void *x, const struct linear *const *l, int n, int parts,
                    float *y) {
    return cuda_skinny(b->c,
                       &(struct skinny){ .x = x, .l = l, .n = n, .batch = b->n, .y = y, .parts = parts });
}

static void tma_add(struct cuda_batch *b, const void *x, const struct linear *l) {
    b->nparts = tma_rows(b, x, &l, 1, PARTS_MOST, b->parts);
}

static void tma_pair(struct cuda_batch *b, const struct linear *const *l) {
    cuda_skinny(b->c, &(struct skinny){ .x = b->h, .l = l, .n = 2, .batch = b->n, .narrow = b->inner });
}

const struct batch_products *cuda_batch_tma(struct cuda *c) {
    static const struct batch_products products = {
        .parts = PARTS_MOST, .norm = tma_norm, .rows = tma_rows, .add = tma_add, .pair = tma_pair
    };
    const char *wanted = getenv("INFERPROF_CUDA_BATCH");
    return wanted && strcmp(wanted, "tma") == 0 && cuda_skinny_load(c) ? &products : NULL;
}
