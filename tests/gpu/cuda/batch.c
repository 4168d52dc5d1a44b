/* Graphs of batches against operators. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "base/vec.h"

static void infer_batch(struct engine *e, const struct engine_request *r, struct engine_result *out) {
    struct err err;
    if (engine_infer(e, r, out, &err) < 0) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
}
static size_t equal_batch(const struct engine_result *a, const struct engine_result *b, size_t n) {
    size_t same = 0;
    for (size_t i = 0; i < n; i++) same += equal_tokens(&a[i], &b[i]);
    return same;
}
static size_t tokens_of(const struct engine_result *r, size_t n) {
    size_t all = 0;
    for (size_t i = 0; i < n; i++) all += r[i].ids.n;
    return all;
}
static double batch_rate(const struct engine_result *v, size_t n) {
    return (double)(tokens_of(v, n) - n) / v[0].decode_ms * 1e3;
}

/* Sequences of different lengths, greedy, in graphs and with operators. Both round activations to bf16, but
 * add in another order, so the answers can differ where two tokens have close logits. Half of the tokens must
 * come before the first differences, a quarter if the model has experts, which close router logits exchange
 * (27 layers: 32%). After a wrong step, none do. */
void check_batch(const char *config, int layers, int n, int prompt, int tokens, int context) {
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    struct token_ids prompts[MOST_BATCH] = { { 0 } };
    struct engine_result graph[MOST_BATCH], again[MOST_BATCH], operators[MOST_BATCH];
    n = MIN(n, MOST_BATCH);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < MAX(prompt - i, 1); k++)
            vec_push(&prompts[i], (uint32_t)((1000 + (i * 31 + k * 7) % 10000) % vocabulary(root)));
    if (!context) context = prompt + tokens + 1;
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, context);
    struct engine_request r = {
        .batch = prompts, .nbatch = (size_t)n, .max_new_tokens = (uint32_t)tokens, .ignore_eos = true
    };
    infer_batch(e, &r, graph);
    infer_batch(e, &r, again);
    r.sampling.temperature = 1e-4; /* the operators, one by one */
    r.sampling.top_k = 1;
    infer_batch(e, &r, operators);
    size_t all = tokens_of(operators, (size_t)n), same = equal_batch(graph, operators, (size_t)n);
    size_t part = e->decoder->c->experts ? 4 : 2;
    bool repeats = equal_batch(graph, again, (size_t)n) == all,
         good = repeats && same >= all / part && tokens_of(graph, (size_t)n) == all;
    failures += !good;
    printf("%s batch of %d, %d layers: %zu of %zu tokens equal to those of operators before the first "
           "difference; "
           "twice the same: %s; prompt %.1f ms; graph %.1f tokens/s, operators %.1f tokens/s\n",
           good ? "ok  " : "FAIL", n, layers, same, all, repeats ? "yes" : "NO", graph[0].prefill_ms,
           batch_rate(again, (size_t)n), batch_rate(operators, (size_t)n));
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        engine_result_free(&graph[i]);
        engine_result_free(&again[i]);
        engine_result_free(&operators[i]);
        free(prompts[i].v);
    }
    engine_close(e);
    model_folder_free(dir);
    json_decref(root);
}
