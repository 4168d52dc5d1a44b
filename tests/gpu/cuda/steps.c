/* Decoding steps of one sequence: the graph and the operators against the CPU, and the persistent kernel
 * against the graph. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/decoder/steps.h"

/* ---- against the CPU */
struct steps_check {
    const char *name;
    struct engine *cpu, *gpu;
    struct engine_request r;
    size_t vocab;
    float *expected, *got; /* logits of the last step */
};

/* Attention to `window` positions: the config of a Llama model becomes one of a Mistral model. */
static void set_window(json_t *root, int window) {
    json_object_set_new(root, "model_type", json_string("mistral"));
    json_object_set_new(root, "architectures", json_pack("[s]", "MistralForCausalLM"));
    json_object_set_new(root, "use_sliding_window", json_true());
    json_object_set_new(root, "sliding_window", json_integer(window));
}

/* Logits of the CPU for the last token of an answer: those after the prompt and the tokens before it. */
static void compute_expected(struct steps_check *s, const struct engine_result *answer) {
    struct engine_request whole = s->r;
    size_t before = answer->ids.n - 1;
    uint32_t *ids = xcalloc(s->r.nids + before, sizeof *ids);
    memcpy(ids, s->r.ids, s->r.nids * sizeof *ids);
    memcpy(ids + s->r.nids, answer->ids.v, before * sizeof *ids);
    whole.ids = ids;
    whole.nids = s->r.nids + before;
    whole.max_new_tokens = 1;
    struct engine_result out = infer(s->cpu, &whole);
    memcpy(s->expected, s->cpu->logits, s->vocab * sizeof *s->expected);
    engine_result_free(&out);
    free(ids);
}

/* Logits of the last step that the second device computed, in the graph or with operators. */
static void read_logits(struct steps_check *s, bool graph) {
    if (graph)
        decoder_steps_read(s->gpu->steps, DECODE_LOGITS, s->got, s->vocab);
    else
        ops_download(s->gpu->ops, s->got, view_of(s->gpu->device_logits), s->vocab);
}

/* Compares the last of `tokens` tokens. */
static double last_difference(struct steps_check *s, bool graph, int tokens) {
    struct engine_request r = s->r;
    r.max_new_tokens = (uint32_t)tokens;
    if (!graph) { /* the operators, one by one */
        r.sampling.temperature = 1e-4;
        r.sampling.top_k = 1;
    }
    struct engine_result answer = infer(s->gpu, &r);
    read_logits(s, graph && s->gpu->steps);
    if (answer.ids.n != (size_t)tokens) die("%s: %zu instead of %d tokens", s->name, answer.ids.n, tokens);
    for (size_t i = 0; i < s->vocab; i++)
        if (!(s->got[i] <= s->got[answer.ids.v[tokens - 1]])) {
            printf("FAIL %s: token %u has not the largest logit\n", s->name, answer.ids.v[tokens - 1]);
            failures++;
            break;
        }
    compute_expected(s, &answer);
    engine_result_free(&answer);
    return difference(s->expected, s->got, s->vocab);
}

/* Rounding can exchange two experts whose router logits are close, which changes the logits of that step. So
 * of a model with experts, unless its numbers are exact, the first step within the tolerance counts. */
static void check_path(struct steps_check *s, bool graph, int tokens, double most) {
    enum { TRIES = 5 };
    double best = INFINITY;
    const char *path = !graph ? "operators" : s->gpu->steps ? "graph" : "greedy, no graph";
    bool again = s->gpu->decoder->c->experts > 0 && most > 1e-3;
    for (int i = 0; i < (again ? TRIES : 1) && !(best <= most) && tokens - i > 1; i++) {
        double d = last_difference(s, graph, tokens - i);
        best = fmin(best, d);
        printf("     %s, %s, token %d: %.2e\n", s->name, path, tokens - i, d);
    }
    failures += !(best <= most);
    printf("%s %s, %s: %.2e (most %.0e)\n", best <= most ? "ok  " : "FAIL", s->name, path, best, most);
    fflush(stdout);
}

void check_steps(const char *config, int layers, int prompt, int tokens, int window) {
    const struct weights_kind *kind = chosen_weights();
    json_t *root = config_load(config);
    set_layers(root, layers);
    if (window) set_window(root, window);
    char *dir = model_folder(root), name[160];
    const char *image = NULL;
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct steps_check s = { .name = name, .vocab = (size_t)vocabulary(root) };
    snprintf(name, sizeof name, "steps %s, %s, %d layers, window %d, %d + %d tokens", short_name(config),
             kind->name, layers, window, prompt, tokens);
    s.r = request_of(root, ids, prompt, tokens, &image);
    s.cpu = open_model(dir, kind, CPU, 1, prompt + tokens);
    decode_path = "graph";
    s.gpu = open_model(dir, kind, GPU, 1, prompt + tokens);
    decode_path = NULL;
    if (s.gpu->decoder->layer[0].window != window) die("%s: the model has another window", name);
    if (!s.gpu->steps && !self_check()) {
        printf("FAIL %s: no graph for this model\n", name);
        failures++;
    }
    s.expected = xcalloc(s.vocab, sizeof *s.expected);
    s.got = xcalloc(s.vocab, sizeof *s.got);
    check_path(&s, true, tokens, logits_tolerance(kind));
    check_path(&s, false, tokens, logits_tolerance(kind));
    engine_close(s.cpu);
    engine_close(s.gpu);
    free(s.expected);
    free(s.got);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}

/* ---- the persistent kernel against the graph */
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
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, context);
    decode_path = NULL;
    if (!e->steps) die("the model has no decoding steps");
    struct engine_request one = *r;
    one.max_new_tokens = 2; /* the first token comes from the prompt */
    struct engine_result first = infer(e, &one);
    /* the persistent kernel accepts several steps at once; otherwise the engine fell back to the graph */
    if ((decoder_steps_portion(e->steps) > 1) != (strcmp(path, "persistent") == 0)) {
        printf("FAIL %s: the steps ran another way\n", path);
        failures++;
    }
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

/* What `check_persistent` compares. */
struct persistent_check {
    const char *dir;
    const struct engine_request *r;
    int layers, context, vocab;
};

/* How far apart the logits of the two tokens are on the graph after the equal tokens: logits_apart(). */
static double apart_on_graph(const struct persistent_check *p, size_t same, uint32_t a, uint32_t b) {
    size_t n = (size_t)p->vocab;
    float *logits = xcalloc(n, sizeof *logits);
    struct engine_request r = *p->r;
    r.max_new_tokens = (uint32_t)same + 1;
    decode_path = "graph";
    struct engine *e = open_model(p->dir, chosen_weights(), GPU, 1, p->context);
    decode_path = NULL;
    struct engine_result out = infer(e, &r);
    decoder_steps_read(e->steps, DECODE_LOGITS, logits, n);
    double d = logits_apart(logits, n, a, b);
    engine_result_free(&out);
    engine_close(e);
    free(logits);
    return d;
}

/* The logits of the two differ by about 1e-5, so a token may differ if the next one is as close as that. On
 * H200s the tokens were equal (300 of 300, and 60 of 60 with delays), except with one layer. */
static void compare_persistent(const struct persistent_check *p, const struct decoded *graph,
                               const struct decoded *kernel) {
    const double most = 1e-4;
    size_t same = equal_tokens(&graph->out, &kernel->out), n = graph->out.ids.n;
    bool good = same == n && same == kernel->out.ids.n;
    if (!good && same < n && same < kernel->out.ids.n) {
        uint32_t a = graph->out.ids.v[same], b = kernel->out.ids.v[same];
        double d = apart_on_graph(p, same, a, b);
        printf("     token %zu is %u or %u, whose logits are %.3g standard deviations apart (most %g)\n",
               same, a, b, d, most);
        good = d <= most;
    }
    failures += !good;
    printf(
        "%s persistent, %d layers: %zu of %zu tokens equal; graph %.1f tokens/s, persistent %.1f tokens/s\n",
        good ? "ok  " : "FAIL", p->layers, same, n, graph->tokens_per_s, kernel->tokens_per_s);
    fflush(stdout);
}

void check_persistent(const char *config, int layers, int prompt, int tokens, int vocab) {
    static const char *const names[VECTORS] = { "qkv", "hidden", "x", "logits" };
    json_t *root = config_load(config);
    set_layers(root, layers);
    set_vocabulary(root, vocab);
    char *dir = model_folder(root);
    const char *image = NULL;
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(root, ids, prompt, tokens, &image);
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
    compare_persistent(&(struct persistent_check){ dir, &r, layers, prompt + tokens, vocab }, &a, &b);
    engine_result_free(&a.out);
    engine_result_free(&b.out);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}
