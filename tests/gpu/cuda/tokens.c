/* Greedy tokens of the fixtures, and logits of layers of full size. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

/* The difference of the CPU's logits of the two tokens at which the answers to a request part, after the same
 * `same` tokens. */
static void print_margin(struct engine *cpu, struct engine_request r, const struct engine_result *a,
                         const struct engine_result *b, size_t same) {
    if (same >= a->ids.n || same >= b->ids.n) return;
    r.max_new_tokens = (uint32_t)same + 1; /* the engine keeps the logits of the last token */
    struct engine_result out = infer(cpu, &r);
    double sum = 0, squares = 0, count = 0;
    for (int i = 0; i < cpu->decoder->vocab; i++) {
        if (!isfinite(cpu->logits[i])) continue; /* the n-gram rule */
        sum += cpu->logits[i];
        squares += (double)cpu->logits[i] * cpu->logits[i];
        count++;
    }
    printf(
        "     token %zu: the CPU's logits of the two differ by %.2g; standard deviation of its logits %.3f\n",
        same, (double)(cpu->logits[a->ids.v[same]] - cpu->logits[b->ids.v[same]]),
        sqrt(squares / count - sum / count * (sum / count)));
    engine_result_free(&out);
}

void check_few(const char *name, int tokens, int side) {
    const struct weights_kind *kind = &kinds[in_fp8() ? FP8_BLOCKS : BF16];
    json_t *root = fixture_load(name);
    char *dir = fixture_folder(root, kind);
    uint32_t ids[MOST_IDS];
    struct engine_request r = fixture_request(root, ids, (uint32_t)tokens);
    if (side) {
        r.image_size = r.base_size = side;
        r.crop = -1;
    }
    struct engine *e =
        open_model(dir, kind->dtype, "cuda:0", json_integer_value(json_object_get(root, "seed")), 0);
    struct engine_result out = infer(e, &r);
    printf("ok   %s: %zu tokens, first %u\n", name, out.ids.n, out.ids.v[0]);
    engine_result_free(&out);
    engine_close(e);
    free(dir);
    json_decref(root);
}

void check_tokens(const char *name) {
    json_t *root = fixture_load(name);
    uint32_t ids[MOST_IDS];
    struct engine_request r = fixture_request(root, ids, 64);
    long long weights_seed = json_integer_value(json_object_get(root, "seed"));
    for (size_t t = 0; t < KINDS; t++) {
        char *dir = fixture_folder(root, &kinds[t]);
        struct engine *cpu = open_model(dir, kinds[t].dtype, "cpu", weights_seed, 0),
                      *gpu = open_model(dir, kinds[t].dtype, "cuda:0", weights_seed, 0);
        struct engine_result a = infer(cpu, &r), b = infer(gpu, &r), again = infer(gpu, &r);
        struct engine_request sampled = r;
        sampled.sampling.temperature = 1e-4; /* the operators, one by one */
        sampled.sampling.top_k = 1;
        struct engine_result c = infer(gpu, &sampled);
        size_t same = equal_tokens(&a, &b), by_operators = equal_tokens(&a, &c);
        bool repeat = equal_tokens(&b, &again) == b.ids.n;
        /* f16 activations have the precision of f16 on the GPU; bf16 ones too unless the products are
         * exact. */
        const char *math = getenv("INFERPROF_CUDA_MATH");
        bool must = t == F32 || (t != F16 && math && strcmp(math, "exact") == 0);
        bool good = repeat && (!must || (same == a.ids.n && by_operators == a.ids.n));
        failures += !good;
        printf("%s tokens %-18s %-4s equal to the CPU: graph %zu, operators %zu of %zu; twice the same: %s\n",
               good ? "ok  " : "FAIL", name, kinds[t].name, same, by_operators, a.ids.n,
               repeat ? "yes" : "NO");
        print_margin(cpu, r, &a, &b, same);
        fflush(stdout);
        engine_result_free(&a);
        engine_result_free(&b);
        engine_result_free(&again);
        engine_result_free(&c);
        engine_close(cpu);
        engine_close(gpu);
        free(dir);
    }
    json_decref(root);
}

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

/* Logits after a prompt on both devices. Weights are bf16, so activations are rounded on the GPU. */
void check_logits(const char *config, int layers, int prompt, const char *image) {
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    float *v[2];
    size_t n = 0, best[2] = { 0, 0 };
    float margins[2];
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(ids, prompt, 1, &image);
    for (int b = 0; b < 2; b++) {
        struct engine *e = open_model(dir, big_type(), b ? "cuda:0" : "cpu", 1, prompt + 2048);
        struct engine_result out = infer(e, &r);
        n = (size_t)e->decoder->vocab;
        v[b] = xmalloc(n * sizeof *v[b]);
        memcpy(v[b], e->logits, n * sizeof *v[b]);
        margins[b] = margin(v[b], n, &best[b]);
        engine_result_free(&out);
        engine_close(e);
    }
    char name[160];
    snprintf(name, sizeof name, "logits %s, %d layers%s", strrchr(config, '/') + 1, layers,
             image ? ", image" : "");
    report(name, v[0], v[1], n, 5e-2);
    printf("     token %zu (margin %.4f) on the CPU, %zu (margin %.4f) on the GPU\n", best[0],
           (double)margins[0], best[1], (double)margins[1]);
    free(v[0]);
    free(v[1]);
    free(ids);
    free(dir);
    json_decref(root);
}
