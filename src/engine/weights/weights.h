/* The weights of a model. They come from safetensors or GGUF files, which are mapped (only tensors with
 * another layout are copied), or from a generator of synthetic numbers. A loader requests every tensor by
 * name without checking for errors, and checks once at the end:
 *     struct weights *w = weights_open_synthetic(ops, seed, DTYPE_BF16);   -- or weights_open_files()
 *     layer->q.w = weights_matrix(w, rows, cols, "model.layers.%d.self_attn.q_proj.weight", i);
 *     if (weights_finish(w, threads, NULL, NULL, &err) < 0) ...
 * The tensors may be used from weights_finish() until weights_close(). */
#ifndef ENGINE_WEIGHTS_WEIGHTS_H
#define ENGINE_WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

struct weights;
/* Opens the .safetensors files of a folder, or a .gguf file with its parts. If the folder has an index,
 * only the files in the index are opened. NULL: see err. */
struct weights *weights_open_files(struct ops *o, const char *path, struct err *err);
/* type: DTYPE_F8_E4M3: matrices for which weights_allow_fp8() is in effect are fp8, the others bf16.
 * Generates reproducible random numbers: element i of a tensor depends only on the seed, the tensor's name
 * and i. They are uniform; matrices have variance 1/columns, so that activations keep their magnitude.
 * tests/oracle/synthetic.py is the same generator. */
struct weights *weights_open_synthetic(struct ops *o, uint64_t seed, enum dtype type);
/* Synthetic fp8 matrices have one scale per rows x cols numbers; 0: as many as the matrix has. The
 * default is 128 x 128. */
void weights_fp8_blocks(struct weights *w, int rows, int cols);

/* Which matrices can be fp8 on the device. Backends that read all quantised types
 * (ops_backend.quantised) also keep the others as they are in a file. */
enum weights_fp8 {
    WEIGHTS_NOT_FP8,  /* expanded to bf16; synthetic ones are bf16 */
    WEIGHTS_FROM_FP8, /* expanded to bf16; synthetic ones are fp8 before that */
    WEIGHTS_FP8       /* kept if the backend has fp8 products */
};
/* Applies to the matrices requested from now on. The default is WEIGHTS_NOT_FP8. */
void weights_allow_fp8(struct weights *w, enum weights_fp8 allow);
void weights_close(struct weights *w); /* NULL is ignored */

/* Contents of a vector. The ranges apply to synthetic vectors only. */
enum weights_fill {
    WEIGHTS_NORM,           /* 1 +- 0.1 */
    WEIGHTS_NORM_MINUS_ONE, /* like WEIGHTS_NORM; safetensors files contain the numbers minus 1 (gemma) */
    WEIGHTS_BIAS,           /* +- 0.1 */
    WEIGHTS_ROWS            /* +- 1 */
};

/* Requests a matrix [rows][cols] in its stored type. In a file, any shape with rows * cols elements is
 * accepted if its first dimension is `rows` or its last is `cols`. */
struct matrix weights_matrix(struct weights *w, int rows, int cols, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Requests the rows [first, first + rows) of a matrix of all_rows rows, for files that store several
 * matrices as one. */
struct matrix weights_rows(struct weights *w, int all_rows, int first, int rows, int cols, const char *fmt,
                           ...) __attribute__((format(printf, 6, 7)));
struct tensor *weights_vector(struct weights *w, int n, enum weights_fill fill, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Copies a small tensor that is optional in files. Returns false if the tensor is missing, has another size
 * or an unsupported type, or if the weights are synthetic. */
bool weights_optional(const struct weights *w, const char *name, float *out, int n);

typedef void weights_progress(void *context, uint64_t done_bytes, uint64_t total_bytes);
/* Generates the synthetic tensors and commits all tensors to the device. Returns -1 if any call since the
 * weights were opened failed; err is the first error. */
int weights_finish(struct weights *w, struct threads *threads, weights_progress *progress, void *context,
                   struct err *err);
uint64_t weights_parameters(const struct weights *w); /* total of the requested tensors */
uint64_t weights_bytes(const struct weights *w);
const char *weights_types(const struct weights *w); /* type of all matrices: "bf16"; "mixed": several */

/* The generator of one synthetic tensor. */
struct weights_stream {
    uint32_t a, b;
    float scale, offset;
};
struct weights_stream weights_stream_make(uint64_t seed, const char *name, float scale, float offset);
float weights_stream_at(const struct weights_stream *s, uint32_t i);

#endif
