/* Where a model's numbers come from: safetensors files, mapped and never copied where matrices are concerned,
 * or a generator. A loader asks for every tensor by name, straight through, and asks once at the end whether
 * all went well:
 *     struct weights *w = weights_open_synthetic(seed, DTYPE_BF16);      -- or weights_open_files(dir, &err)
 *     layer->q.w = weights_matrix(w, rows, cols, "model.layers.%d.self_attn.q_proj.weight", i);
 *     if (weights_finish(w, threads, NULL, NULL, &err) < 0) ...
 * What it returned lives until weights_close(). */
#ifndef ENGINE_WEIGHTS_WEIGHTS_H
#define ENGINE_WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/ops/ops.h"

struct weights;
/* All .safetensors files of the folder (the index, when there is one, says which). NULL: see err. */
struct weights *weights_open_files(const char *dir, struct err *err);
/* Reproducible random numbers: element i of a tensor depends on the seed, the tensor's name and i alone.
 * Uniform; matrices with variance 1/columns, so that activations keep their size. tests/oracle/synthetic.py
 * is the same generator. */
struct weights *weights_open_synthetic(uint64_t seed, enum dtype type);
void weights_close(struct weights *w);

/* What a synthetic vector is filled with; files ignore it. */
enum weights_fill { WEIGHTS_NORM /* 1 +- 0.1 */, WEIGHTS_BIAS /* +- 0.1 */, WEIGHTS_ROWS /* +- 1 */ };

/* [rows][cols], in the type it is stored in. Files may have it in any shape of as many numbers whose first
 * side is `rows` or whose last is `cols`. */
struct matrix weights_matrix(struct weights *w, int rows, int cols, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Small tensors as floats. */
const float *weights_vector(struct weights *w, int n, enum weights_fill fill, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

typedef void weights_progress(void *context, uint64_t done_bytes, uint64_t total_bytes);
/* Makes what is to be made. -1: the first thing that went wrong since open. */
int weights_finish(struct weights *w, struct threads *threads, weights_progress *progress, void *context,
                   struct err *err);
uint64_t weights_parameters(const struct weights *w); /* of what was asked for */
uint64_t weights_bytes(const struct weights *w);
const char *weights_types(const struct weights *w); /* "bf16"; "mixed" */

/* The generator itself, for tests: n numbers of a tensor from element `first` on. */
struct weights_stream {
    uint32_t a, b;
    float scale, offset;
};
struct weights_stream weights_stream_make(uint64_t seed, const char *name, float scale, float offset);
float weights_stream_at(const struct weights_stream *s, uint32_t i);

#endif
