/* Long texts, many requests, and models that are too large. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "driver/cuda.h"

void check_long(const char *config, int prompt, int tokens, int layers) {
    json_t *root = config_load(config);
    if (layers) set_layers(root, layers);
    char *dir = model_folder(root);
    const char *image = NULL;
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, prompt + tokens - 1);
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(root, ids, prompt, tokens + 10, &image);
    struct engine_result a = infer(e, &r), b = infer(e, &r);
    bool good = a.ids.n == (size_t)tokens && a.stop == ENGINE_STOP_CONTEXT && equal_tokens(&a, &b) == a.ids.n;
    failures += !good;
    printf("%s %zu tokens after %d, to the end of the context; %zu equal in a second run; %.1f tokens/s\n",
           good ? "ok  " : "FAIL", a.ids.n, prompt, equal_tokens(&a, &b),
           (double)(a.ids.n - 1) / a.decode_ms * 1e3);
    engine_result_free(&a);
    engine_result_free(&b);
    engine_close(e);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}

static size_t gpu_free_bytes(void) {
    struct err err;
    size_t free_bytes = 0, total = 0;
    const struct driver *d = driver_load(&err);
    if (!d || d->mem_info(&free_bytes, &total) != 0) die("the driver does not tell the free memory");
    return free_bytes;
}
static long resident_kb(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) die("/proc/self/statm");
    fclose(f);
    return pages * 4;
}
void check_many(const char *name, int requests) {
    json_t *root = fixture_load(name);
    char *dir = model_folder(json_object_get(root, "config"));
    struct engine *e = open_model(dir, &kinds[BF16], GPU, 1, 0);
    uint32_t ids[] = { 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
    size_t gpu = 0;
    long host = 0;
    for (int i = 0; i < requests; i++) {
        struct engine_request r = { .ids = ids,
                                    .nids = (size_t)(1 + i % 12),
                                    .max_new_tokens = (uint32_t)(1 + i % 7),
                                    .ignore_eos = true };
        struct engine_result out = infer(e, &r);
        engine_result_free(&out);
        if (i == requests / 10) {
            gpu = gpu_free_bytes();
            host = resident_kb();
        }
    }
    size_t gpu_now = gpu_free_bytes();
    long host_now = resident_kb();
    bool good = gpu_now >= gpu && host_now - host < 4096;
    failures += !good;
    printf("%s %d requests: GPU memory grew by %.1f MB, host memory by %ld kB after the first tenth\n",
           good ? "ok  " : "FAIL", requests, ((double)gpu - (double)gpu_now) / 1e6, host_now - host);
    engine_close(e);
    model_folder_free(dir);
    json_decref(root);
}

void check_memory(const char *config, int layers) {
    struct err err;
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    uint64_t start = clock_mono_ns();
    struct engine *e = engine_open(&(struct engine_load){ .model = dir,
                                                          .weights = "synthetic:1",
                                                          .dtype = "bf16",
                                                          .device = "cuda:0",
                                                          .max_context = 1024 },
                                   &err);
    bool good = !e && strstr(err.msg, "GB") && strstr(err.msg, "device=cpu");
    failures += !good;
    printf("%s refused after %.1f s: %s\n", good ? "ok  " : "FAIL", (double)(clock_mono_ns() - start) / 1e9,
           e ? "it was loaded" : err.msg);
    engine_close(e);
    model_folder_free(dir);
    json_decref(root);
}

/* Tokens of one sequence, or of two. */
static struct engine_result some_tokens(struct engine *e, size_t n) {
    static uint32_t ids[] = { 5, 6, 7, 8, 9, 10, 11 };
    struct token_ids prompts[] = { { .v = ids, .n = 7 }, { .v = ids, .n = 5 } };
    struct engine_request r = { .batch = prompts, .nbatch = n, .max_new_tokens = 20, .ignore_eos = true };
    struct engine_result out[2];
    struct err err;
    if (engine_infer(e, &r, out, &err) < 0) die("%s", err.msg);
    if (n > 1) engine_result_free(&out[1]);
    return out[0];
}
/* Runs 32 sequences of 8,000 tokens. Returns false if they were served. */
static bool too_large(struct engine *e, struct err *err) {
    enum { N = 32 };
    static uint32_t ids[1] = { 5 };
    struct token_ids prompts[N];
    struct engine_result out[N];
    for (int i = 0; i < N; i++) prompts[i] = (struct token_ids){ .v = ids, .n = 1 };
    struct engine_request r = { .batch = prompts, .nbatch = N, .max_new_tokens = 8000, .ignore_eos = true };
    if (engine_infer(e, &r, out, err) < 0) return true;
    for (int i = 0; i < N; i++) engine_result_free(&out[i]);
    return false;
}
void check_recovery(const char *config, int layers) {
    enum { LEFT = 200 << 20 };
    struct err err;
    unsigned long long others = 0;
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, 8192);
    const struct driver *d = driver_load(&err);
    struct engine_result one = some_tokens(e, 1), two = some_tokens(e, 2);
    if (d->mem_alloc(&others, gpu_free_bytes() - LEFT) != 0) die("no memory for the other program");
    bool refused = too_large(e, &err) && strstr(err.msg, "out of memory");
    struct engine_result one_more = some_tokens(e, 1), two_more = some_tokens(e, 2);
    bool same = equal_tokens(&one, &one_more) == one.ids.n && equal_tokens(&two, &two_more) == two.ids.n;
    failures += !refused || !same;
    printf("%s a batch that does not fit: %s; then the same tokens as before: %s\n",
           refused && same ? "ok  " : "FAIL", refused ? err.msg : "NOT REFUSED", same ? "yes" : "NO");
    d->mem_free(others);
    struct engine_result *all[] = { &one, &two, &one_more, &two_more };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) engine_result_free(all[i]);
    engine_close(e);
    model_folder_free(dir);
    json_decref(root);
}
