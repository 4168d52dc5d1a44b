/* The result of `inferprof static`: all figures for a model, a workload and a device.
 *     struct llm_static r;
 *     if (llm_static_eval(m, &workload, &device, &r, &err) < 0) ...
 *     llm_static_json_fields(&r, &j);             -- or llm_static_text()
 *     llm_static_free(&r);
 * The result borrows the model, the device and the texts of the workload. */
#ifndef LLM_STATIC_H
#define LLM_STATIC_H

#include "base/jsonw.h"
#include "base/strbuf.h"
#include "llm/cost.h"
#include "llm/gguf.h"
#include "llm/gpus.h"
#include "llm/safetensors.h"

#define LLM_IMAGES_MAX 64

struct llm_workload {
    uint64_t batch;
    uint64_t prompt_tokens; /* whole prompt with image tokens; 0: image tokens + text_tokens */
    uint64_t text_tokens;   /* prompt tokens that are not image tokens */
    uint64_t new_tokens;
    uint64_t context; /* keys of the reported decode step; 0: prompt + 1 */
    struct {
        uint64_t width, height;
    } images[LLM_IMAGES_MAX]; /* per sequence */
    size_t nimages;
    struct llm_image_opts image_opts;
    enum llm_dtype kv;
    bool head_all;
};

/* The peaks of a device, from a row of the GPU table or given by the user. */
struct llm_device {
    const struct llm_gpu *gpu; /* NULL: not given */
    struct llm_peak peak;
    const char *peak_source,
        *bandwidth_source;         /* "table", the name of an option or variable; NULL: unknown */
    struct llm_gpu_peak quantized; /* for quantised weights, from the table; reason NULL: not used */
};

/* Peaks of `gpu` (may be NULL) for the compute type of `m`; arguments above 0 override them. */
struct llm_device llm_device_of(const struct llm_gpu *gpu, const struct llm_model *m, double tflops,
                                const char *tflops_source, double gbps);

struct llm_static {
    const struct llm_model *model;
    const struct llm_device *device;
    struct llm_workload work; /* with defaults filled in */
    struct llm_setup setup;
    struct llm_image_plan *plans; /* [work.nimages] */
    uint64_t image_tokens;        /* per sequence */
    struct llm_counts counts;     /* image work of the whole batch */
    struct llm_pass prefill_pass, decode_pass;

    struct llm_cost vision[LLM_STAGES_MAX]; /* by stage; [0] unused */
    struct llm_cost decoder;                /* decoder part of prefill */
    struct llm_cost prefill;                /* vision and decoder */
    struct llm_cost decode;                 /* one step of the whole batch at work.context */
    struct llm_cost generation;             /* all decode steps */
    /* new_tokens - 1, because prefill generates the first token; at least 0 */
    uint64_t decode_steps;

    /* KV cache bytes per token of one sequence; KV cache bytes of the whole batch at the end */
    double kv_bytes_per_token, kv_bytes_at_end;
    double weight_bytes, activation_bytes, memory_bytes;

    struct { /* the weight files, if found */
        bool found;
        uint64_t tensors, params;
        uint64_t by_dtype[LLM_DTYPES];
        double bytes;
        /* GGUF only: numbers by type, and bytes by layer and type. The first row is for tensors outside of
         * layers. */
        uint64_t by_ggml[GGML_TYPES_END];
        double (*layer_bytes)[GGML_TYPES_END];
        uint32_t layers;
    } files;
    char **assumptions, **warnings;
    size_t nassumptions, nwarnings;
};

int llm_static_eval(const struct llm_model *m, const struct llm_workload *w, const struct llm_device *d,
                    struct llm_static *r, struct err *err);
/* Evaluates the same model, images and device with another batch, prompt or context. Computes costs and
 * memory only, no notes. `r` owns nothing. For sweeps: takes microseconds per point. */
void llm_static_vary(const struct llm_static *base, uint64_t batch, uint64_t prompt_tokens, uint64_t context,
                     struct llm_static *r);
/* Adds the data of the weight files' headers. llm_static_add_files() also adds a warning for every
 * mismatch with the config. */
void llm_static_add_files(struct llm_static *r, const struct safetensors *st);
void llm_static_add_gguf(struct llm_static *r, const struct gguf *g);
void llm_static_free(struct llm_static *r);

/* Returns 1 if the model fits in memory, 0 if it does not, -1 if the memory size is unknown. */
int llm_static_fits(const struct llm_static *r);
double llm_static_tokens_per_s(const struct llm_static *r); /* decode at the roofline; NAN: unknown */

/* writes the fields into an open object */
void llm_static_json_fields(const struct llm_static *r, struct jsonw *j);
struct llm_print {
    bool markdown; /* else text for a terminal */
    size_t width;  /* columns of the terminal; 0: no limit */
};
void llm_static_text(const struct llm_static *r, struct llm_print how, bool operators, struct strbuf *out);

#endif
