/* A loaded model that serves requests: the native engine without its protocol.
 *     struct engine *e = engine_open(&(struct engine_load){ .model = "embedded" }, &err);
 *     engine_infer(e, &(struct engine_request){ .prompt = "Hello", .max_new_tokens = 16 }, &result, &err);
 *     engine_result_free(&result);
 *     engine_close(e);
 * Must be called from one thread; the engine starts its own threads. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jsonw.h"
#include "base/strbuf.h"
#include "engine/backends.h"
#include "engine/ops/ops.h"
#include "engine/record/record.h"
#include "engine/sampling/sampler.h"
#include "engine/tokenizer/tokenizer.h"

/* Reports progress: "weights" in bytes, "vision" in pixels, "prompt" and "tokens" in tokens. */
typedef void engine_progress(void *context, const char *what, uint64_t done, uint64_t total);

struct engine_load {
    const char *model;   /* a folder or a .gguf file; "embedded" or NULL: the built-in model */
    const char *weights; /* "synthetic:SEED"; "auto" or NULL: the model's files, or synthetic:0 if built-in */
    const char *assume;  /* family to use for the config; NULL: reject unknown architectures */
    /* type of synthetic weights: "bf16", "f16", "f32"; "auto" or NULL: the type in the config */
    const char *dtype;
    int threads; /* 0: one per usable core */
    /* float arithmetic for quantised and bf16 weights (ops_set_exact), and an f32 cache */
    bool exact;
    const char *kv_dtype; /* type of the cache: "bf16" (the default) or "f32" */
    /* how decoding steps run on a GPU: "graph", "persistent"; "auto" or NULL: the backend chooses */
    const char *decode;
    int max_context;    /* 0: the model's maximum, at most 8192 */
    const char *device; /* "cpu", "cuda:0"; "auto" or NULL: the default (backends.h) */
    /* for tests: replaces the backend that `device` selects; otherwise NULL */
    const struct engine_backend *backend;
    engine_progress *progress;
    void *context;
};

struct engine;
struct engine *engine_open(const struct engine_load *load, struct err *err); /* NULL: see err */
void engine_close(struct engine *e);                                         /* accepts NULL */

const char *engine_device(const struct engine *e); /* "cpu", "cuda:0"; for e NULL, the default device */
/* Returns free text about the device, such as "avx2". If e is NULL, the text is about the CPU. */
const char *engine_isa(const struct engine *e);
int engine_threads(const struct engine *e);
/* lists the stages in order; returns their number */
size_t engine_stages(const struct engine *e, const char *out[8]);
/* writes the object "model" of the protocol */
void engine_describe(const struct engine *e, struct jsonw *j);

enum { ENGINE_MODEL_NGRAM = -1, ENGINE_MAX_BATCH = 256, ENGINE_MAX_STAGES = 4 };

struct engine_request {
    const char *prompt; /* NULL: a default prompt; ignored if `ids` or `batch` is given */
    size_t prompt_len;
    const uint32_t *ids;
    size_t nids;
    const struct token_ids *batch; /* several sequences at once, used instead of ids; NULL: one sequence */
    size_t nbatch;
    const char *const *images;
    size_t nimages;
    uint32_t max_new_tokens;
    bool ignore_eos;
    struct sampler_settings sampling;
    /* length of n-grams that must not repeat; 0: off; ENGINE_MODEL_NGRAM: default of the model */
    int no_repeat_ngram;
    uint32_t ngram_window;
    const char *image_mode;    /* NULL: gundam */
    int max_tiles;             /* 0: default of the mode */
    int base_size, image_size; /* sides in pixels, multiples of 64; 0: the sides of the mode */
    int crop;                  /* cut the page into tiles: 1 yes, -1 no, 0 as in the mode */
    enum record_detail detail;
    const char *trace; /* file for the records; NULL: no file */
    bool memory;       /* record totals of memory by kind */
    bool no_shapes;    /* record operators without their shapes */
    /* Called with new text that consists of whole characters; may be NULL. */
    void (*on_text)(void *context, const char *text, size_t n);
    /* Called before each image view and each part of the prompt, and after each token. Returns false to
     * cancel the request. NULL: never cancel. */
    bool (*wanted)(void *context);
    engine_progress *progress;
    void *context;
};

enum engine_stop { ENGINE_STOP_EOS, ENGINE_STOP_LENGTH, ENGINE_STOP_CONTEXT };
const char *engine_stop_name(enum engine_stop s);

/* The result of one sequence. In a batch, preprocess_ms, prefill_ms, decode_ms and ttft_ms are times of the
 * whole batch, and token_ms are times of the batch's steps. */
struct engine_result {
    double preprocess_ms, prefill_ms, decode_ms, ttft_ms;
    /* Number of different experts used per routed layer: by the whole prompt, and by a decode step (mean).
     * NaN: the model has no experts, or the number is unknown. */
    double prefill_experts, decode_experts;
    /* sub-stages of prefill, summed over images and views; none if the request had no image */
    const char *stage[ENGINE_MAX_STAGES];
    double stage_ms[ENGINE_MAX_STAGES];
    size_t nstages;
    size_t prompt_tokens;
    struct token_ids ids;
    double *token_ms; /* [ids.n] */
    struct strbuf text;
    enum engine_stop stop;
};
/* Fills out[max(1, nbatch)]. */
int engine_infer(struct engine *e, const struct engine_request *r, struct engine_result *out,
                 struct err *err);
void engine_result_free(struct engine_result *r);

#endif
