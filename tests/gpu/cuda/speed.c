/* Speed of single operators and of requests. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/util.h"

/* ---- speed of single operators on the GPU */
static double seconds_of(void (*f)(struct ops *, struct tensor *const *), struct tensor *const *t,
                         int times) {
    struct ops *o = both[GPU];
    for (int i = 0; i < 3; i++) f(o, t);
    ops_finish(o);
    uint64_t start = clock_mono_ns();
    for (int i = 0; i < times; i++) f(o, t);
    ops_finish(o);
    return (double)(clock_mono_ns() - start) / 1e9 / times;
}
static void do_gelu_product(struct ops *o, struct tensor *const *t) {
    struct linear l = { *of(&now.w, o), NULL };
    ops_linear_act(o, "x", &l, view_of(t[0]), now.m, view_of(t[1]), OPS_GELU);
}
enum product_kind { TO_F32, TO_BF16, TO_GELU, ADD_F32 };
static void time_linear(int m, int n, int k, enum product_kind kind) {
    static const char *const names[] = { "f32", "bf16", "gelu, bf16", "added to f32" };
    bool narrow_out = kind == TO_BF16 || kind == TO_GELU;
    struct ops *o = both[GPU];
    float *v = numbers((size_t)m * (size_t)k, 1);
    struct tensor *wide = ops_alloc(o, (size_t)m * (size_t)k, TENSOR_ANY),
                  *ones = ops_alloc(o, (size_t)k, TENSOR_ZERO);
    struct tensor *t[] = { ops_alloc_narrow(o, (size_t)m * (size_t)k),
                           narrow_out ? ops_alloc_narrow(o, (size_t)m * (size_t)n)
                                      : ops_alloc(o, (size_t)m * (size_t)n, TENSOR_ANY),
                           NULL };
    float *w = numbers((size_t)k, 1);
    ops_upload(o, view_of(wide), v, (size_t)m * (size_t)k);
    ops_upload(o, view_of(ones), w, (size_t)k);
    ops_rmsnorm(o, "x", view_of(wide), k, ones, m, k, 1e-6f, view_of(t[0]), k);
    now.w = weight_make(n, k, DTYPE_BF16);
    now.m = m, now.n = n, now.k = k, now.add = kind == ADD_F32;
    double s = seconds_of(kind == TO_GELU ? do_gelu_product : do_linear, t, 20);
    printf("product [%d,%d]x[%d,%d] -> %s: %.1f us, %.0f TFLOP/s\n", m, k, n, k, names[kind], s * 1e6,
           2.0 * m * n * k / s / 1e12);
    fflush(stdout);
    weight_free(&now.w);
    ops_free(o, wide), ops_free(o, ones), ops_free(o, t[0]), ops_free(o, t[1]);
    free(v), free(w);
}
static void time_qkv(int batch, int n, int heads, int dim, int side) {
    struct ops *o = both[GPU];
    size_t rows = (size_t)batch * (size_t)n, width = (size_t)heads * (size_t)dim,
           table = (size_t)(2 * MAX(side, 1) - 1) * (size_t)dim;
    struct tensor *t[] = { ops_alloc_narrow(o, rows * 3 * width), ops_alloc_narrow(o, rows * width),
                           ops_alloc(o, table, TENSOR_ZERO), ops_alloc(o, table, TENSOR_ZERO) };
    now.m = batch;
    now.nq = n;
    now.heads = heads;
    now.dim = dim;
    now.side = side;
    double s = seconds_of(do_qkv, t, 20), flops = 4.0 * (double)rows * n * (double)width;
    printf("attention %d x %d, %d heads of %d, side %d: %.1f us, %.0f TFLOP/s\n", batch, n, heads, dim, side,
           s * 1e6, flops / s / 1e12);
    fflush(stdout);
    for (int i = 0; i < 4; i++) ops_free(o, t[i]);
}
void time_operators(void) {
    time_linear(4096, 4096, 4096, TO_BF16);
    time_linear(10584, 2304, 768, TO_BF16); /* SAM, six tiles and the page */
    time_linear(4900, 2304, 768, TO_BF16);
    time_linear(13696, 3072, 768, TO_BF16);
    time_linear(13696, 3072, 768, TO_GELU);
    time_linear(13696, 768, 3072, ADD_F32);
    time_linear(9600, 768, 768, ADD_F32);
    time_linear(863, 3072, 1024, TO_BF16); /* CLIP */
    time_linear(863, 4096, 1024, TO_GELU);
    time_linear(863, 1024, 4096, ADD_F32);
    time_linear(863, 1024, 1024, ADD_F32);
    time_linear(922, 64, 1280, TO_F32); /* DeepSeek-OCR's decoder */
    time_linear(922, 1280, 1280, ADD_F32);
    time_linear(2048, 12288, 4096, TO_BF16); /* Qwen3-8B */
    time_linear(2048, 4096, 12288, TO_F32);
    time_linear(2048, 4096, 4096, TO_F32);
    time_linear(512, 4096, 4096, TO_F32);
    time_qkv(54, 196, 12, 64, 14);
    time_qkv(25, 196, 12, 64, 14);
    time_qkv(6, 1600, 12, 64, 40);
    time_qkv(1, 4096, 12, 64, 64);
    time_qkv(6, 101, 16, 64, 0);
    time_qkv(1, 257, 16, 64, 0);
}

/* ---- requests */
void speed(const char *config, int prompt, int tokens, const char *image) {
    json_t *root = config_load(config);
    char *dir = model_folder(root);
    uint64_t start = clock_mono_ns();
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, prompt + tokens + 1024);
    printf("load %.1f s\n", (double)(clock_mono_ns() - start) / 1e9);
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(root, ids, prompt, tokens, &image);
    const char *trace = getenv("CUDA_CHECK_TRACE"); /* a file for the operators of the last request */
    for (int i = 0; i < 4; i++) {
        r.trace = i == 3 ? trace : NULL;
        r.detail = r.trace ? RECORD_OPERATORS : RECORD_NONE;
        struct engine_result v = infer(e, &r);
        printf("%s: prompt %zu in %.2f ms (sam %.2f clip %.2f projector %.2f); %zu tokens, %.4f ms each, "
               "%.1f tokens/s; "
               "first %u %u %u\n",
               config, v.prompt_tokens, v.prefill_ms, v.stage_ms[0], v.stage_ms[1], v.stage_ms[2], v.ids.n,
               v.decode_ms / (double)(v.ids.n - 1), (double)(v.ids.n - 1) / v.decode_ms * 1e3, v.ids.v[0],
               v.ids.v[1], v.ids.v[2]);
        fflush(stdout);
        engine_result_free(&v);
    }
    engine_close(e);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}
