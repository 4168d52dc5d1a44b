/* Opens models of fixtures and of config files, and serves requests. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/compute/kernels.h"

const char *decode_path;

const struct weights_kind kinds[KINDS] = { [F32] = { "f32", "f32" },
                                           [BF16] = { "bf16", "bf16" },
                                           [F16] = { "f16", "f16" },
                                           [FP8] = { "fp8", "auto", "fp8", .blocks = true },
                                           [FP8_ROWS] = { "fp8-rows", "auto", "fbgemm_fp8" },
                                           [FP8_MATRICES] = { "fp8-matrices", "auto", "fp8" } };

const struct weights_kind *chosen_weights(void) {
    const char *name = getenv("CUDA_CHECK_WEIGHTS");
    if (!name) return &kinds[BF16];
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i].name) == 0) return &kinds[i];
    die("CUDA_CHECK_WEIGHTS=%s: expected bf16, f16, f32, fp8, fp8-rows or fp8-matrices", name);
}

bool self_check(void) { return getenv("CUDA_CHECK_SELF") != NULL; }

bool exact_math(void) {
    const char *math = getenv("INFERPROF_CUDA_MATH");
    return math && strcmp(math, "exact") == 0;
}

/* The generator gives all rows of a matrix the same scale. Changes them, so that a kernel that reads the
 * scale of another row computes something else. kv_b is left out: the GPU has no scales of it. */
static void vary_matrix(struct ops *o, const struct matrix *m) {
    if (m->type != DTYPE_F8_E4M3 || m->scale_rows != 1) return;
    size_t n = (size_t)(m->first_row + m->rows); /* first_row: of a part of a larger matrix */
    float *scales = xcalloc(n, sizeof *scales);
    ops_download(o, scales, view_of(m->scale), n);
    for (size_t i = 0; i < n; i++) scales[i] *= 1 + (float)(i * 5 % 7) / 8;
    ops_upload(o, view_of(m->scale), scales, n);
    ops_finish(o);
    free(scales);
}
static void vary_expert(struct ops *o, const struct expert *e) {
    vary_matrix(o, &e->gate.w);
    vary_matrix(o, &e->up.w);
    vary_matrix(o, &e->down.w);
}
static void vary_row_scales(struct engine *e) {
    for (int i = 0; i < e->decoder->layers; i++) {
        const struct decoder_layer *l = &e->decoder->layer[i];
        const struct linear *const all[] = { &l->q, &l->k, &l->v, &l->o, &l->q_a, &l->q_b, &l->kv_a };
        for (size_t j = 0; j < COUNTOF(all); j++) vary_matrix(e->ops, &all[j]->w);
        vary_expert(e->ops, &l->mlp);
        vary_expert(e->ops, &l->moe.shared);
        for (int j = 0; j < l->moe.routing.n; j++) vary_expert(e->ops, &l->moe.experts[j]);
    }
}

/* The numbers of an fp8 matrix on the CPU as bf16. */
static uint16_t *widen_matrix(struct ops *o, const struct matrix *m) {
    size_t cols = (size_t)m->cols, high = (size_t)m->scale_rows, wide = (size_t)m->scale_cols,
           n = (size_t)m->rows * cols, across = (cols + wide - 1) / wide,
           scales = ((size_t)m->rows + high - 1) / high * across;
    float *f = xcalloc(n, sizeof *f), *codes = xcalloc(n / 4, sizeof *codes),
          *scale = xcalloc(scales, sizeof *scale);
    uint16_t *out = xcalloc(n, sizeof *out);
    ops_download(o, codes, view_of(m->data), n / 4); /* four codes have the size of a float */
    ops_download(o, scale, view_of(m->scale), scales);
    kernels_portable.widen(f, codes, m->type, n);
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_float(f[i] * scale[i / cols / high * across + i % cols / wide]);
    free(f);
    free(codes);
    free(scale);
    return out;
}

/* The GPU has expanded kv_b of fp8 models to bf16. Does the same on the CPU, so that exact numbers are equal.
 * The copies stay until the program ends. */
static void expand_kv_b(struct engine *e) {
    static struct {
        void **v;
        size_t n, cap;
    } kept;
    for (int i = 0; i < e->decoder->layers; i++) {
        struct matrix *m = &e->decoder->layer[i].kv_b.w;
        if (m->type != DTYPE_F8_E4M3) continue;
        uint16_t *wide = widen_matrix(e->ops, m);
        m->data = ops_wrap(e->ops, wide, (size_t)m->rows * (size_t)m->cols * sizeof *wide);
        m->scale = NULL;
        m->type = DTYPE_BF16;
        vec_push(&kept, wide);
        vec_push(&kept, m->data);
    }
}

struct engine *open_model(const char *dir, const struct weights_kind *k, int device, long long weights_seed,
                          int max_context) {
    struct err err;
    char source[64];
    snprintf(source, sizeof source, "synthetic:%lld", weights_seed);
    struct engine *e = engine_open(
        &(struct engine_load){
            .model = dir,
            .weights = source,
            .dtype = k->dtype,
            .device = device == CPU || self_check() ? "cpu" : "cuda:0",
            .decode = decode_path,
            .max_context = max_context,
            /* the CPU is the reference; with f32 weights the GPU computes in float throughout */
            .exact = device == CPU || k == &kinds[F32] || (self_check() && exact_math()),
        },
        &err);
    if (!e) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
    if (k == &kinds[FP8_ROWS]) vary_row_scales(e);
    if (device == CPU || self_check()) expand_kv_b(e);
    return e;
}

/* On H200s, logits with rounding to bf16 differed by up to 1.5%. Exact products of bf16 weights have inputs
 * with 16 bits of mantissa. Activations beside f16 weights are f16 nevertheless. */
double logits_tolerance(const struct weights_kind *k) {
    if (k != &kinds[F32] && !exact_math()) return 5e-2;
    return k == &kinds[F16] ? 1e-2 : 1e-3;
}

static void set_weights(json_t *config, const struct weights_kind *k, int block) {
    if (!k->method) return;
    json_t *q = json_pack("{s:s}", "quant_method", k->method);
    if (k->blocks) json_object_set_new(q, "weight_block_size", json_pack("[ii]", block, block));
    json_object_set_new(config, "quantization_config", q);
}

const char *short_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int setting(const char *name, int otherwise) {
    const char *v = getenv(name);
    return v && *v ? atoi(v) : otherwise;
}

json_t *config_load(const char *path) {
    enum { BLOCK = 128 };
    struct err err;
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    set_weights(root, chosen_weights(), BLOCK);
    int vocab = setting("CUDA_CHECK_VOCABULARY", 0);
    if (vocab) set_vocabulary(root, vocab);
    return root;
}

char *model_folder(const json_t *config) {
    const char *tmp = getenv("TMPDIR");
    char *dir = xasprintf("%s/cuda_check.XXXXXX", tmp ? tmp : "/tmp");
    struct err err;
    if (!mkdtemp(dir)) die("no temporary folder");
    char *path = file_join(dir, "config.json"), *text = json_dumps(config, 0);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) die("%s", err.msg);
    free(path);
    free(text);
    return dir;
}

void model_folder_free(char *dir) {
    char *path = file_join(dir, "config.json");
    unlink(path);
    rmdir(dir);
    free(path);
    free(dir);
}

struct engine_result infer(struct engine *e, const struct engine_request *r) {
    struct engine_result out;
    struct err err;
    if (engine_infer(e, r, &out, &err) < 0) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
    return out;
}

size_t equal_tokens(const struct engine_result *a, const struct engine_result *b) {
    size_t i = 0;
    while (i < a->ids.n && i < b->ids.n && a->ids.v[i] == b->ids.v[i]) i++;
    return i;
}

json_t *fixture_load(const char *name) {
    char path[256];
    struct err err;
    snprintf(path, sizeof path, "tests/data/engine/%s.json", name);
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    return root;
}

struct engine_request fixture_request(const json_t *root, uint32_t *ids, uint32_t tokens) {
    static const char *page = "tests/data/engine/dsocr_page.png";
    const json_t *prompt = json_object_get(root, "prompt_ids");
    uint32_t n = 0;
    for (; n < json_array_size(prompt) && n < MOST_IDS; n++)
        ids[n] = (uint32_t)json_integer_value(json_array_get(prompt, n));
    struct engine_request r = { .ids = ids,
                                .nids = n,
                                .max_new_tokens = tokens,
                                .ignore_eos = true,
                                .no_repeat_ngram = ENGINE_MODEL_NGRAM };
    if (n > 0) return r;
    r.ids = NULL;
    r.prompt = "<image>";
    r.prompt_len = strlen(r.prompt);
    r.images = &page;
    r.nimages = 1;
    return r;
}

char *fixture_folder(const json_t *root, const struct weights_kind *k) {
    enum { BLOCK = 16 };
    json_t *config = json_deep_copy(json_object_get(root, "config"));
    set_weights(config, k, BLOCK);
    char *dir = model_folder(config);
    json_decref(config);
    return dir;
}

/* Sets a number of the language model, which can be a section of the config. */
static void set_number(json_t *root, const char *key, int number) {
    json_t *text = json_object_get(root, "language_config");
    if (text) json_object_set_new(text, key, json_integer(number));
    if (!text || json_object_get(root, key)) json_object_set_new(root, key, json_integer(number));
}
void set_layers(json_t *root, int layers) { set_number(root, "num_hidden_layers", layers); }
void set_vocabulary(json_t *root, int vocab) { set_number(root, "vocab_size", vocab); }
int vocabulary(const json_t *root) {
    const json_t *text = json_object_get(root, "language_config");
    int vocab = (int)json_integer_value(json_object_get(text ? text : root, "vocab_size"));
    if (vocab <= 0) die("the config has no vocab_size");
    return vocab;
}

struct engine_request request_of(const json_t *config, uint32_t *ids, int prompt, int tokens,
                                 const char **image) {
    int vocab = vocabulary(config);
    for (int i = 0; i < prompt; i++) ids[i] = (uint32_t)((1000 + i * 7 % 10000) % vocab);
    if (*image)
        return (struct engine_request){ .images = image,
                                        .nimages = 1,
                                        .max_new_tokens = (uint32_t)tokens,
                                        .ignore_eos = true,
                                        .no_repeat_ngram = ENGINE_MODEL_NGRAM };
    return (struct engine_request){
        .ids = ids, .nids = (size_t)prompt, .max_new_tokens = (uint32_t)tokens, .ignore_eos = true
    };
}
