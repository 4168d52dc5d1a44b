/* Products of few rows with large matrices on Hopper (skinny.cu). */
#ifndef ENGINE_CUDA_SKINNY_H
#define ENGINE_CUDA_SKINNY_H

#include "engine/cuda/internal.h"
#include "engine/cuda/skinny_layout.h"

struct skinny {
    const void *x; /* bf16 [batch][columns] */
    /* bf16 or fp8 matrices of the same type and number of columns; their rows are multiples of 16,
     * columns of 8, or of 16 if they are fp8. An fp8 scale belongs to at least 128 columns. */
    const struct linear *const *l;
    int n, batch;   /* n: matrices; batch: at most BATCH_MOST */
    float *y;       /* [parts][batch][rows of all matrices] */
    int parts;      /* y has room for so many, at most PARTS_MOST */
    void *narrow;   /* if not NULL: bf16 [batch][rows] = silu(x l[0]^T) (x l[1]^T), and y is not used */
    int ring_bytes; /* shared memory of a block for copies in flight; 0: as many as usual */
};
/* Loads the kernels if they are not loaded yet. They require `hopper`. */
bool cuda_skinny_load(struct cuda *c);
/* Returns the number of parts whose sum is the result. */
int cuda_skinny(struct cuda *c, const struct skinny *s);

/* How a product is divided: into tasks of `tiles` tiles of SKINNY_TILE rows and a slice of the columns. */
struct skinny_plan {
    int tiles, slices, tasks;
};
/* What a block reads in a step. */
struct skinny_step {
    int wide;    /* 8, 16 or 32: the sequences for which it multiplies */
    int x_tiles; /* of SKINNY_STEP columns of x: 1, with fp8 weights 2 */
};
/* all_tiles: of the matrices. */
struct skinny_plan skinny_plan_of(int all_tiles, int steps, struct skinny_step step, int most_slices,
                                  int sms);
/* Returns the number of stages of a ring of at most ring_bytes, and the shared memory that it needs. */
int skinny_stages(const struct skinny_plan *p, struct skinny_step step, int ring_bytes,
                  unsigned *shared_bytes);

#endif
