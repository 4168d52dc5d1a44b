/* Greedy tokens of the fixtures, and logits of layers of full size. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

void check_few(const char *name, int tokens, int side) {
    const struct weights_kind *kind = chosen_weights();
    json_t *root = fixture_load(name);
    char *dir = fixture_folder(root, kind);
    uint32_t ids[MOST_IDS];
    struct engine_request r = fixture_request(root, ids, (uint32_t)tokens);
    if (side) {
        r.image_size = r.base_size = side;
        r.crop = -1;
    }
    struct engine *e = open_model(dir, kind, GPU, json_integer_value(json_object_get(root, "seed")), 0);
    struct engine_result out = infer(e, &r);
    printf("ok   %s: %zu tokens, first %u\n", name, out.ids.n, out.ids.v[0]);
    engine_result_free(&out);
    engine_close(e);
    model_folder_free(dir);
    json_decref(root);
}

/* ---- tokens */
double logits_apart(const float *v, size_t n, uint32_t a, uint32_t b) {
    double sum = 0, squares = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) continue; /* the n-gram rule */
        sum += v[i];
        squares += (double)v[i] * v[i];
        count++;
    }
    return (double)(v[a] - v[b]) / sqrt(squares / count - sum / count * (sum / count));
}

/* The same for the CPU's logits where an answer leaves the one of the CPU. */
static double apart(struct engine *cpu, struct engine_request r, uint32_t expected, uint32_t got,
                    size_t same) {
    r.max_new_tokens = (uint32_t)same + 1; /* the engine keeps the logits of the last token */
    struct engine_result out = infer(cpu, &r);
    engine_result_free(&out);
    return logits_apart(cpu->logits, (size_t)cpu->decoder->vocab, expected, got);
}

/* How far apart the logits may be. With rounding they were at most 0.23 on H200s, and 0.31 where rounding
 * exchanged two experts on a CPU; tokens of a wrong kernel are 2 to 3 apart. Exact numbers choose the tokens
 * of the CPU, except that activations beside f16 weights are still f16, which is eight times as fine as
 * bf16. */
static double most_apart(const struct weights_kind *k, const struct engine *e) {
    double rounded = e->decoder->c->experts ? 0.6 : 0.3;
    if (k == &kinds[F32]) return 0;
    if (!exact_math()) return rounded;
    return k == &kinds[F16] ? rounded / 8 : 0;
}

/* Compares the tokens of `path` with those of the CPU. */
static bool same_answer(const char *path, struct engine *cpu, const struct engine_request *r,
                        const struct engine_result *a, const struct engine_result *b, double most) {
    size_t same = equal_tokens(a, b);
    printf("     %s: %zu of %zu tokens equal to those of the CPU", path, same, a->ids.n);
    if (same == a->ids.n || same == b->ids.n) {
        printf("\n");
        return a->ids.n == b->ids.n;
    }
    double d = apart(cpu, *r, a->ids.v[same], b->ids.v[same], same);
    printf("; then two whose logits on the CPU are %.3g standard deviations apart (most %g)\n", d, most);
    return d <= most; /* NaN is not; infinity: the n-gram rule excludes the token */
}

static void check_fixture(const char *name, const json_t *root, const struct weights_kind *k) {
    uint32_t ids[MOST_IDS];
    struct engine_request r = fixture_request(root, ids, (uint32_t)setting("CUDA_CHECK_TOKENS", 64)),
                          sampled = r;
    long long weights_seed = json_integer_value(json_object_get(root, "seed"));
    char *dir = fixture_folder(root, k);
    struct engine *cpu = open_model(dir, k, CPU, weights_seed, 0),
                  *gpu = open_model(dir, k, GPU, weights_seed, 0);
    sampled.sampling.temperature = 1e-4; /* the operators, one by one */
    sampled.sampling.top_k = 1;
    struct engine_result a = infer(cpu, &r), b = infer(gpu, &r), again = infer(gpu, &r),
                         c = infer(gpu, &sampled);
    double most = most_apart(k, cpu);
    bool repeats = equal_tokens(&b, &again) == b.ids.n;
    printf("     %s, %s\n", name, k->name);
    bool greedy = same_answer(gpu->steps ? "graph" : "operators, no graph", cpu, &r, &a, &b, most),
         good = same_answer("operators", cpu, &r, &a, &c, most) && greedy && repeats;
    failures += !good;
    printf("%s tokens %s, %s: %s; twice the same: %s\n", good ? "ok  " : "FAIL", name, k->name,
           gpu->steps ? "graph and operators" : "operators only", repeats ? "yes" : "NO");
    fflush(stdout);
    struct engine_result *const all[] = { &a, &b, &again, &c };
    for (size_t i = 0; i < COUNTOF(all); i++) engine_result_free(all[i]);
    engine_close(cpu);
    engine_close(gpu);
    model_folder_free(dir);
}

void check_tokens(const char *name) {
    json_t *root = fixture_load(name);
    for (size_t i = 0; i < KINDS; i++) check_fixture(name, root, &kinds[i]);
    json_decref(root);
}

/* ---- logits */
static float margin(const float *v, size_t n, size_t *best) {
    float first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (v[i] > first) {
            second = first;
            first = v[i];
            *best = i;
        } else if (v[i] > second) {
            second = v[i];
        }
    }
    return first - second;
}

/* Logits after a prompt on both devices. */
void check_logits(const char *config, int layers, int prompt, const char *image) {
    const struct weights_kind *kind = chosen_weights();
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    float *v[2];
    size_t n = 0, best[2] = { 0, 0 };
    float margins[2] = { 0, 0 };
    double most = 0;
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(root, ids, prompt, 1, &image);
    for (int device = CPU; device <= GPU; device++) {
        struct engine *e = open_model(dir, kind, device, 1, prompt + (image ? 2048 : 1));
        struct engine_result out = infer(e, &r);
        n = (size_t)e->decoder->vocab;
        most = logits_tolerance(kind);
        v[device] = xmalloc(n * sizeof **v);
        memcpy(v[device], e->logits, n * sizeof **v);
        margins[device] = margin(v[device], n, &best[device]);
        engine_result_free(&out);
        engine_close(e);
    }
    char name[160];
    snprintf(name, sizeof name, "logits %s, %s, %d layers%s", short_name(config), kind->name, layers,
             image ? ", image" : "");
    report(name, v[CPU], v[GPU], n, most);
    printf("     token %zu (margin %.4f) on the CPU, %zu (margin %.4f) on the GPU\n", best[CPU],
           (double)margins[CPU], best[GPU], (double)margins[GPU]);
    free(v[CPU]);
    free(v[GPU]);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}
