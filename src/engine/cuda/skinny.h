/* Products of few rows with large matrices on Hopper (skinny.cu). */
#ifndef ENGINE_CUDA_SKINNY_H
#define ENGINE_CUDA_SKINNY_H

#include "engine/cuda/internal.h"

struct skinny {
    const void *x; /* bf16 [batch][columns] */
    const struct linear *const *l;
    int n, batch; /* matrices with the same number of columns; at most BATCH_MOST rows of x */
    float *y;     /* [parts][batch][rows of all matrices] */
    int parts;    /* y has room for so many */
    void *narrow; /* if not NULL: bf16 [batch][rows] = silu(x l[0]^T) (x l[1]^T), and y is not used */
};
bool cuda_skinny_fits(const struct linear *l); /* Hopper is required, too */
/* Returns the number of parts whose sum is the result. */
int cuda_skinny(struct cuda *c, const struct skinny *s);

/* How a product is divided: into tasks of `tiles` tiles of SKINNY_TILE rows and a slice of the columns. */
struct skinny_plan {
    int tiles, slices, tasks;
};
/* all_tiles: of the matrices; steps: groups of 64 columns; batch: 8, 16 or 32. */
struct skinny_plan skinny_plan_of(int all_tiles, int steps, int batch, int most_slices, int sms);

#endif
