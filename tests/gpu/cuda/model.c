/* Opens models of fixtures and of config files, and serves requests. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/util.h"

const char *decode_path;

struct engine *open_model(const char *dir, const char *dtype, const char *device, long long weights_seed,
                          int max_context) {
    struct err err;
    char source[64];
    snprintf(source, sizeof source, "synthetic:%lld", weights_seed);
    struct engine *e = engine_open(
        &(struct engine_load){
            .model = dir,
            .weights = source,
            .dtype = dtype,
            .device = device,
            .decode = decode_path,
            .max_context = max_context,
            /* the CPU is the reference; with f32 weights the GPU computes in float throughout */
            .exact = strncmp(device, "cuda", 4) != 0 || (dtype && strcmp(dtype, "f32") == 0),
        },
        &err);
    if (!e) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
    return e;
}

/* CUDA_CHECK_FP8=1: the models of config files have fp8 weights in blocks of 128 x 128; otherwise bf16.
 * Fixtures: see kinds[]. */
bool in_fp8(void) { return getenv("CUDA_CHECK_FP8") != NULL; }
const char *big_type(void) { return in_fp8() ? "auto" : "bf16"; }

/* Scales per block of `block` x `block` numbers, per row, or per matrix. */
enum { SCALES_BY_ROW = -1, SCALES_BY_MATRIX = 0 };
static void set_fp8(json_t *config, int block) {
    json_t *q = json_pack("{s:s}", "quant_method", block == SCALES_BY_ROW ? "fbgemm_fp8" : "fp8");
    if (block > 0) json_object_set_new(q, "weight_block_size", json_pack("[ii]", block, block));
    json_object_set_new(config, "quantization_config", q);
}

json_t *config_load(const char *path) {
    struct err err;
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    if (in_fp8()) set_fp8(root, 128);
    return root;
}

char *model_folder(const json_t *config) {
    char *dir = xstrdup("/tmp/cuda_check.XXXXXX");
    struct err err;
    if (!mkdtemp(dir)) die("no temporary folder");
    char *path = file_join(dir, "config.json"), *text = json_dumps(config, 0);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) die("%s", err.msg);
    free(path);
    free(text);
    return dir;
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

/* The weights of a fixture's model. */
const struct weights_kind kinds[KINDS] = { [F32] = { "f32", "f32", 0 },
                                           [BF16] = { "bf16", "bf16", 0 },
                                           [F16] = { "f16", "f16", 0 },
                                           [FP8_BLOCKS] = { "fp8 in blocks of 16 x 16", "auto", 16 },
                                           [FP8_ROWS] = { "fp8, scales of rows", "auto", SCALES_BY_ROW },
                                           [FP8_MATRICES] = { "fp8, scales of matrices", "auto",
                                                              SCALES_BY_MATRIX } };

char *fixture_folder(const json_t *root, const struct weights_kind *k) {
    json_t *config = json_deep_copy(json_object_get(root, "config"));
    if (strcmp(k->dtype, "auto") == 0) set_fp8(config, k->block);
    char *dir = model_folder(config);
    json_decref(config);
    return dir;
}

struct engine_request request_of(uint32_t *ids, int prompt, int tokens, const char **image) {
    for (int i = 0; i < prompt; i++) ids[i] = (uint32_t)(1000 + i * 7 % 10000);
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

void set_layers(json_t *root, int layers) {
    json_t *text = json_object_get(root, "language_config") ? json_object_get(root, "language_config") : root;
    json_object_set_new(text, "num_hidden_layers", json_integer(layers));
    if (json_object_get(root, "num_hidden_layers"))
        json_object_set_new(root, "num_hidden_layers", json_integer(layers));
}
