/* The persistent kernel against the graph. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "engine/decoder/steps.h"

enum { VECTORS = 4 };
struct decoded {
    float *v[VECTORS]; /* as in enum decode_vector, after one step */
    struct engine_result out;
    double tokens_per_s;
};

static struct decoded decode_with(const char *path, const char *dir, const struct engine_request *r,
                                  int context, const size_t *sizes) {
    struct decoded d = { 0 };
    decode_path = path;
    struct engine *e = open_model(dir, "bf16", "cuda:0", 1, context);
    decode_path = NULL;
    if (!e->steps) die("the model has no decoding steps");
    struct engine_request one = *r;
    one.max_new_tokens = 2; /* the first token comes from the prompt */
    struct engine_result first = infer(e, &one);
    for (int i = 0; i < VECTORS; i++) {
        d.v[i] = xcalloc(sizes[i], sizeof **d.v);
        decoder_steps_read(e->steps, (enum decode_vector)i, d.v[i], sizes[i]);
    }
    engine_result_free(&first);
    first = infer(e, r);
    d.out = infer(e, r);
    if (equal_tokens(&first, &d.out) != first.ids.n) {
        printf("FAIL %s: the second run differs at token %zu\n", path, equal_tokens(&first, &d.out));
        failures++;
    }
    d.tokens_per_s = (double)(d.out.ids.n - 1) / d.out.decode_ms * 1e3;
    engine_result_free(&first);
    engine_close(e);
    return d;
}

void check_persistent(const char *config, int layers, int prompt, int tokens, int vocab) {
    static const char *const names[VECTORS] = { "qkv", "hidden", "x", "logits" };
    json_t *root = config_load(config);
    set_layers(root, layers);
    json_object_set_new(root, "vocab_size", json_integer(vocab));
    json_object_set_new(json_object_get(root, "language_config"), "vocab_size", json_integer(vocab));
    char *dir = model_folder(root);
    const char *image = NULL;
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(ids, prompt, tokens, &image);
    for (int i = 0; i < prompt; i++) ids[i] %= (uint32_t)vocab;
    if (layers < 12) r.no_repeat_ngram = 2; /* bans ids in most steps; with all layers, the speed counts */
    /* one layer: the dense one */
    size_t sizes[VECTORS] = { 3840, layers == 1 ? 6848 : 7168, 1280, (size_t)vocab };
    struct decoded a = decode_with("graph", dir, &r, prompt + tokens, sizes),
                   b = decode_with("persistent", dir, &r, prompt + tokens, sizes);
    for (int i = 0; i < VECTORS; i++) {
        char name[64];
        snprintf(name, sizeof name, "persistent, %d layers: %s", layers, names[i]);
        report(name, a.v[i], b.v[i], sizes[i], 1e-2);
        free(a.v[i]);
        free(b.v[i]);
    }
    size_t same = equal_tokens(&a.out, &b.out);
    printf("persistent, %d layers: %zu of %zu tokens equal; graph %.1f tokens/s, persistent %.1f tokens/s\n",
           layers, same, a.out.ids.n, a.tokens_per_s, b.tokens_per_s);
    fflush(stdout);
    engine_result_free(&a.out);
    engine_result_free(&b.out);
    free(ids);
    free(dir);
    json_decref(root);
}
