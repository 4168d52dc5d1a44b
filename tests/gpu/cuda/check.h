/* Shared by the files of cuda_check. */
#ifndef TESTS_GPU_CUDA_CHECK_H
#define TESTS_GPU_CUDA_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/internal.h"
#include "engine/ops/ops.h"

/* The devices: the reference, and the one that is checked (in a self-check the CPU too). */
enum { CPU, GPU };
bool self_check(void);
bool exact_math(void); /* INFERPROF_CUDA_MATH=exact */

/* ---- numbers.c */
extern struct ops *both[2]; /* of CPU and GPU */
extern int failures;

float uniform(void); /* between -1 and 1 */
/* n numbers between -size and size; every 997th is a hundred times as large. */
float *random_numbers(size_t n, float size);
/* The same, or while `extreme` is not 0: zeros, denormals, numbers of that size, and others between -1 and 1
 * in turn. */
float *numbers(size_t n, float size);
extern float extreme;
/* The root mean square of a - b, divided by that of a. */
double difference(const float *a, const float *b, size_t n);
/* Prints the difference, which is a failure if it is larger than `most`. */
void report(const char *name, const float *cpu, const float *gpu, size_t n, double most);
/* An operator on both backends: f(ops, tensors) with t[i] holding the numbers v[i][n[i]]; compares tensor
 * `out`. At most 8 tensors. */
typedef void operator_fn(struct ops *o, struct tensor *const *t);
void compare(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, int out,
             double most);
/* Compares rows of `row` numbers of tensor 0, of which the one that differs most counts. */
void compare_rows(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, size_t row,
                  double most);

struct weight {
    void *data;
    float *scales; /* fp8 */
    struct matrix m[2];
};
/* Numbers of an fp8 matrix that share a scale; 0: all rows, or columns. */
extern struct fp8_block { int rows, cols; } fp8_block;
extern const struct fp8_block fp8_blocks, fp8_rows, fp8_matrices;
struct weight weight_make(int rows, int cols, enum dtype type);
void weight_free(struct weight *w);
const struct matrix *of(const struct weight *w, const struct ops *o);

/* ---- operators.c */
/* The arguments of the operator that is being compared or timed. */
extern struct sizes {
    struct weight w, w2, w3;
    int m, n, k, add;
    int heads, kv, dim, nq, nk, base, window, side;
    enum dtype cache; /* type of keys and values; zero is DTYPE_F32 */
} now;
operator_fn do_linear, do_qkv;
void check_operators(void);

/* ---- fused.c */
void check_fused(void);

/* ---- narrow.c */
/* Returns a 16-bit copy of n floats; `t` itself if the device has no 16-bit activations beside such
 * weights. */
struct tensor *narrow_copy(struct ops *o, enum dtype weights, struct tensor *t, size_t n);
/* Copies the numbers back to the floats at `to` and frees the copy. */
void narrow_back(struct ops *o, struct view to, struct tensor *copy, size_t n);

/* ---- few_rows.c */
void check_skinny_only(void);
void check_and_time_skinny(void);

/* ---- model.c */
extern const char *decode_path; /* of the next model */
/* Kinds of synthetic weights. `fp8` has scales of blocks: 128 x 128 numbers, in fixtures 16 x 16. */
enum { F32, BF16, F16, FP8, FP8_ROWS, FP8_MATRICES, KINDS };
extern const struct weights_kind {
    const char *name;   /* as in CUDA_CHECK_WEIGHTS */
    const char *dtype;  /* as in struct engine_load */
    const char *method; /* quant_method of the config; NULL: not quantised */
    bool blocks;
} kinds[KINDS];
const struct weights_kind *chosen_weights(void); /* CUDA_CHECK_WEIGHTS; the default is bf16 */
/* device: CPU or GPU */
struct engine *open_model(const char *dir, const struct weights_kind *k, int device, long long weights_seed,
                          int max_context);
/* The most that the logits of a model with these weights may differ from the CPU's (difference()). */
double logits_tolerance(const struct weights_kind *k);
const char *short_name(const char *path);     /* of a file */
int setting(const char *name, int otherwise); /* the number in an environment variable */
json_t *config_load(const char *path);        /* with the chosen weights */
char *model_folder(const json_t *config);     /* a folder with config.json */
void model_folder_free(char *dir);            /* deletes it */
void set_layers(json_t *root, int layers);
int vocabulary(const json_t *root); /* number of ids */
void set_vocabulary(json_t *root, int vocab);

json_t *fixture_load(const char *name);
char *fixture_folder(const json_t *root, const struct weights_kind *k);
enum { MOST_IDS = 1024 }; /* of a prompt and its answer */
/* The request of a fixture: its prompt, which is copied to ids[MOST_IDS], or a page. */
struct engine_request fixture_request(const json_t *root, uint32_t *ids, uint32_t tokens);
/* A request to the model of a config: `prompt` ids, or an image. */
struct engine_request request_of(const json_t *config, uint32_t *ids, int prompt, int tokens,
                                 const char **image);
struct engine_result infer(struct engine *e, const struct engine_request *r);
/* Returns the number of equal tokens before the first difference. */
size_t equal_tokens(const struct engine_result *a, const struct engine_result *b);
/* ---- tokens.c */
/* How much larger the logit of token a is than the one of b, in standard deviations of all n logits. */
double logits_apart(const float *v, size_t n, uint32_t a, uint32_t b);

/* ---- jobs; main.c describes them */
enum { MOST_BATCH = 32 };
void check_few(const char *name, int tokens, int side);
void check_tokens(const char *name);
void check_logits(const char *config, int layers, int prompt, const char *image);
void check_steps(const char *config, int layers, int prompt, int tokens, int window);
void check_persistent(const char *config, int layers, int prompt, int tokens, int vocab);
/* context 0: enough for all tokens */
void check_batch(const char *config, int layers, int n, int prompt, int tokens, int context);
void check_long(const char *config, int prompt, int tokens, int layers);
void check_many(const char *name, int requests);
/* A batch that does not fit beside other programs, and the requests after it. */
void check_recovery(const char *config, int layers);
void check_memory(const char *config, int layers);
void time_operators(void);
void check_recording(const char *config, int prompt, int tokens, int rounds, const char *image, int n);
void speed(const char *config, int prompt, int tokens, const char *image);

#endif
