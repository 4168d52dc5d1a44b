/* Checks the CUDA backend against the CPU backend on a machine with a GPU, and times it (cuda.sh runs it).
 *     cuda_check ops                          every operator on random and extreme numbers
 *     cuda_check tokens NAME...               64 greedy tokens of the fixtures tests/data/engine/NAME.json
 *     cuda_check few NAME TOKENS [SIDE]       some tokens on the GPU, bf16 weights, for slow tools; SIDE:
 *                                             a page is one view of that many pixels
 *     cuda_check logits CONFIG LAYERS PROMPT [IMAGE]   logits after a prompt, with the first LAYERS layers
 *     cuda_check speed CONFIG PROMPT NEW [IMAGE]     decoding after a prompt of PROMPT ids, synthetic weights
 *     cuda_check products                     speed of products and attention of the models
 *     cuda_check long CONFIG PROMPT NEW       the same tokens twice, up to the end of the context
 *     cuda_check many NAME REQUESTS           requests to a fixture's model: memory must not grow
 *     cuda_check persistent CONFIG LAYERS PROMPT NEW [VOCABULARY]   the persistent kernel against the graph
 *     cuda_check batch CONFIG LAYERS N PROMPT NEW    graphs of N sequences against operators
 *     cuda_check skinny [few]                 products of batches against the CPU; without `few`, their speed
 *     cuda_check memory CONFIG LAYERS         a model that is too large is refused before it is loaded
 * With CUDA_CHECK_FP8=1, the weights of few, logits, speed, long and batch are fp8 instead of bf16.
 * Run from the root of the source tree. Exit status 1: something differs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/compute/dtype.h"
#include "engine/compute/kernels.h"
#include "engine/compute/threads.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/skinny.h"
#include "engine/decoder/steps.h"
#include "driver/cuda.h"
#include "engine/engine.h"
#include "engine/internal.h"
#include "engine/ops/ops.h"

static struct ops *both[2]; /* CPU, CUDA */
static int failures;
static uint64_t seed = 88172645463325252u;

static float uniform(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (float)((double)(seed >> 11) / 9007199254740992.0 * 2 - 1);
}

/* n numbers between -size and size; every 997th is a hundred times as large. */
static float *numbers(size_t n, float size) {
    float *v = xmalloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = uniform() * size * (i % 997 == 996 ? 100.0f : 1.0f);
    return v;
}

static double difference(const float *a, const float *b, size_t n) {
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i] - b[i];
        d += x * x;
        s += (double)a[i] * a[i];
    }
    return sqrt(d) / (sqrt(s) + 1e-30);
}

static void report(const char *name, const float *cpu, const float *gpu, size_t n, double most) {
    double d = difference(cpu, gpu, n);
    bool good = d <= most; /* NaN is not */
    failures += !good;
    printf("%s %-44s %.2e (most %.0e)\n", good ? "ok  " : "FAIL", name, d, most);
    fflush(stdout);
}

/* An operator on both backends: f(ops, tensors) with t[i] holding the numbers v[i][n[i]]; compares tensor
 * `out`. */
typedef void operator_fn(struct ops *o, struct tensor *const *t);
static void compare(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, int out,
                    double most) {
    float *got[2];
    for (int b = 0; b < 2; b++) {
        struct tensor *t[8] = { NULL };
        for (int i = 0; i < tensors; i++) {
            t[i] = ops_alloc(both[b], n[i], TENSOR_ANY);
            ops_upload(both[b], view_of(t[i]), v[i], n[i]);
        }
        f(both[b], t);
        got[b] = xcalloc(n[out], sizeof **got);
        ops_download(both[b], got[b], view_of(t[out]), n[out]);
        for (int i = 0; i < tensors; i++) ops_free(both[b], t[i]);
    }
    struct err err;
    if (ops_check(both[1], &err) < 0) {
        printf("FAIL %s: %s\n", name, err.msg);
        exit(1);
    }
    report(name, got[0], got[1], n[out], most);
    free(got[0]);
    free(got[1]);
}

/* ---- linear layers */
struct weight {
    void *data;
    float *scales; /* fp8 */
    struct matrix m[2];
};
static struct tensor *commit(struct ops *o, const void *data, size_t bytes) {
    struct tensor *t = ops_wrap(o, data, bytes);
    ops_commit(o, t);
    return t;
}
static void put_number(void *data, enum dtype type, size_t i, float f) {
    if (type == DTYPE_F32)
        ((float *)data)[i] = f;
    else if (type == DTYPE_F8_E4M3)
        ((uint8_t *)data)[i] = f8_from_float(f);
    else
        ((uint16_t *)data)[i] = type == DTYPE_BF16 ? bf16_from_float(f) : f16_from_float(f);
}
static struct weight weight_make(int rows, int cols, enum dtype type) {
    enum { BLOCK = 128 };
    size_t n = (size_t)rows * (size_t)cols,
           blocks = (size_t)((rows + BLOCK - 1) / BLOCK) * (size_t)((cols + BLOCK - 1) / BLOCK);
    struct weight w = { .data = xmalloc(n * dtype_bytes(type)) };
    float scale = sqrtf(3.0f / (float)cols);
    bool fp8 = type == DTYPE_F8_E4M3;
    for (size_t i = 0; i < n; i++) put_number(w.data, type, i, uniform() * (fp8 ? 448 : scale));
    if (fp8) w.scales = xmalloc(blocks * sizeof *w.scales);
    for (size_t i = 0; fp8 && i < blocks; i++) w.scales[i] = scale / 448 * (1 + uniform() / 2);
    for (int b = 0; b < 2; b++) {
        w.m[b] = (struct matrix){ commit(both[b], w.data, n * dtype_bytes(type)), type, rows, cols };
        if (!fp8) continue;
        w.m[b].scale = commit(both[b], w.scales, blocks * sizeof *w.scales);
        w.m[b].scale_rows = w.m[b].scale_cols = BLOCK;
    }
    return w;
}
static void weight_free(struct weight *w) {
    for (int b = 0; b < 2; b++) {
        ops_finish(both[b]);
        ops_free(both[b], w->m[b].data);
        if (w->scales) ops_free(both[b], w->m[b].scale);
    }
    free(w->data);
    free(w->scales);
}
static const struct matrix *of(const struct weight *w, const struct ops *o) { return &w->m[o == both[1]]; }

static struct {
    struct weight w, w2, w3;
    int m, n, k, add;
    int heads, kv, dim, nq, nk, base, window, side;
    enum dtype cache; /* type of keys and values; zero is DTYPE_F32 */
} now;

static void do_linear(struct ops *o, struct tensor *const *t) {
    struct linear l = { *of(&now.w, o), t[2] };
    ops_linear(o, "x", &l, view_of(t[0]), now.k, now.m, view_of(t[1]), now.n, now.add ? OPS_ADD : OPS_SET);
}
static void check_linear(int m, int n, int k, enum dtype type, int add, double most) {
    char name[80];
    snprintf(name, sizeof name, "linear %s [%d,%d]x[%d,%d]%s", dtype_name(type), m, k, n, k,
             add ? " add" : "");
    size_t sizes[] = { (size_t)m * (size_t)k, (size_t)m * (size_t)n, (size_t)n };
    float *v[] = { numbers(sizes[0], 1), numbers(sizes[1], 1), numbers(sizes[2], 1) };
    now.w = weight_make(n, k, type);
    now.m = m, now.n = n, now.k = k, now.add = add;
    compare(name, do_linear, 3, v, sizes, 1, most);
    weight_free(&now.w);
    for (int i = 0; i < 3; i++) free(v[i]);
}

static void do_experts(struct ops *o, struct tensor *const *t) {
    struct expert e = { .gate = { *of(&now.w, o), NULL },
                        .up = { *of(&now.w2, o), NULL },
                        .down = { *of(&now.w3, o), NULL } };
    const struct expert *list[] = { &e, &e, &e };
    const float weights[] = { 0.5f, 0.25f, 1.0f };
    ops_experts_one(o, "x", list, weights, 3, view_of(t[0]), view_of(t[1]));
}
static void check_experts(enum dtype type) {
    size_t sizes[] = { 1280, 1280 };
    float *v[] = { numbers(1280, 1), numbers(1280, 1) };
    now.w = weight_make(896, 1280, type), now.w2 = weight_make(896, 1280, type),
    now.w3 = weight_make(1280, 896, type);
    compare("experts_one", do_experts, 2, v, sizes, 1, 1e-5);
    weight_free(&now.w), weight_free(&now.w2), weight_free(&now.w3);
    free(v[0]), free(v[1]);
}

/* ---- attention */
static void do_attention(struct ops *o, struct tensor *const *t) {
    ops_attention(o, "x",
                  &(struct attention){ .heads = now.heads,
                                       .kv_heads = now.kv,
                                       .dim_k = now.dim,
                                       .dim_v = now.dim,
                                       .scale = 1 / sqrtf((float)now.dim),
                                       .q = view_of(t[0]),
                                       .q_row = (ptrdiff_t)now.heads * now.dim,
                                       .k = view_of(t[1]),
                                       .v = view_of(t[2]),
                                       .k_head = (ptrdiff_t)now.nk * now.dim,
                                       .v_head = (ptrdiff_t)now.nk * now.dim,
                                       .out = view_of(t[3]),
                                       .out_row = (ptrdiff_t)now.heads * now.dim,
                                       .nq = now.nq,
                                       .nk = now.nk,
                                       .kv = now.cache,
                                       .base = now.base,
                                       .window = now.window });
}
/* The same through a cache, which is bf16 on the GPU. */
static void do_cached(struct ops *o, struct tensor *const *t) {
    size_t n = (size_t)now.kv * (size_t)now.nk * (size_t)now.dim;
    now.cache = strcmp(o->backend->name(o->context), "cpu") == 0 ? DTYPE_F32 : DTYPE_BF16;
    struct tensor *k = ops_alloc_cache(o, n, now.cache), *v = ops_alloc_cache(o, n, now.cache);
    struct cache_rows rows = { .rows = view_of(t[1]),
                               .type = now.cache,
                               .cache = view_of(k),
                               .n = now.nk,
                               .heads = now.kv,
                               .dim = now.dim,
                               .max_context = now.nk };
    ops_cache_store(o, &rows);
    rows.rows = view_of(t[2]);
    rows.cache = view_of(v);
    ops_cache_store(o, &rows);
    struct tensor *with[] = { t[0], k, v, t[3] };
    do_attention(o, with);
    now.cache = DTYPE_F32;
    ops_free(o, k);
    ops_free(o, v);
}
static void check_attention(int heads, int kv, int dim, int nq, int nk, int base, int window, bool cached,
                            double most) {
    char name[96];
    size_t q = (size_t)nq * (size_t)heads * (size_t)dim, k = (size_t)nk * (size_t)kv * (size_t)dim;
    size_t sizes[] = { q, k, k, q };
    float *v[] = { numbers(q, 1), numbers(k, 1), numbers(k, 1), numbers(q, 1) };
    now.heads = heads;
    now.kv = kv;
    now.dim = dim;
    now.nq = nq;
    now.nk = nk;
    now.base = base;
    now.window = window;
    snprintf(name, sizeof name, "attention%s %d/%d heads of %d, %d x %d, base %d, window %d",
             cached ? " (cache)" : "", heads, kv, dim, nq, nk, base, window);
    compare(name, cached ? do_cached : do_attention, 4, v, sizes, 3, most);
    for (int i = 0; i < 4; i++) free(v[i]);
}

/* Attention of one token to latents in a cache, which is bf16 on the GPU. The second half of the positions is
 * also loaded as floats. */
enum { LATENT_RANK = 512, LATENT_ROW = 576 };
static void do_latents(struct ops *o, struct tensor *const *t) {
    enum dtype type = strcmp(o->backend->name(o->context), "cpu") == 0 ? DTYPE_F32 : DTYPE_BF16;
    struct tensor *cache = ops_alloc_cache(o, (size_t)now.nk * LATENT_ROW, type);
    struct cache_rows rows = { .rows = view_of(t[1]),
                               .type = type,
                               .cache = view_of(cache),
                               .n = now.nk,
                               .heads = 1,
                               .dim = LATENT_ROW,
                               .max_context = now.nk };
    ops_cache_store(o, &rows);
    rows.rows = view_of(t[3]);
    rows.position = now.nk / 2;
    rows.n = now.nk - now.nk / 2;
    ops_cache_load(o, &rows);
    ops_attention(o, "x",
                  &(struct attention){ .heads = now.heads,
                                       .kv_heads = 1,
                                       .dim_k = LATENT_ROW,
                                       .dim_v = LATENT_RANK,
                                       .scale = 1 / sqrtf(LATENT_ROW),
                                       .q = view_of(t[0]),
                                       .q_row = (ptrdiff_t)now.heads * LATENT_ROW,
                                       .k = view_of(cache),
                                       .v = view_of(cache),
                                       .v_row = LATENT_ROW,
                                       .kv = type,
                                       .out = view_of(t[2]),
                                       .out_row = (ptrdiff_t)now.heads * LATENT_RANK,
                                       .nq = 1,
                                       .nk = now.nk,
                                       .base = now.nk - 1 });
    ops_free(o, cache);
}
static void check_latents(int heads, int nk) {
    char name[96];
    size_t sizes[] = { (size_t)heads * LATENT_ROW, (size_t)nk * LATENT_ROW, (size_t)heads * LATENT_RANK,
                       (size_t)(nk - nk / 2) * LATENT_ROW };
    float *v[4];
    for (int i = 0; i < 4; i++) v[i] = numbers(sizes[i], 1);
    now.heads = heads;
    now.nk = nk;
    snprintf(name, sizeof name, "latents of %d positions, %d heads", nk, heads);
    compare(name, do_latents, 4, v, sizes, 2, 1e-2);
    snprintf(name, sizeof name, "latents of %d positions, loaded", nk);
    compare(name, do_latents, 4, v, sizes, 3, 1e-2);
    for (int i = 0; i < 4; i++) free(v[i]);
}

static void do_qkv(struct ops *o, struct tensor *const *t) {
    ops_qkv_attention(o, "x",
                      &(struct qkv_attention){ .qkv = view_of(t[0]),
                                               .out = view_of(t[1]),
                                               .batch = now.m,
                                               .n = now.nq,
                                               .heads = now.heads,
                                               .dim = now.dim,
                                               .rel_h = now.side ? view_of(t[2]) : (struct view){ 0 },
                                               .rel_w = now.side ? view_of(t[3]) : (struct view){ 0 },
                                               .side = now.side });
}
static void check_qkv(int batch, int n, int heads, int dim, int side, double most) {
    char name[96];
    size_t rows = (size_t)batch * (size_t)n, width = (size_t)heads * (size_t)dim,
           table = (size_t)(2 * MAX(side, 1) - 1) * (size_t)dim;
    size_t sizes[] = { rows * 3 * width, rows * width, table, table };
    float *v[] = { numbers(sizes[0], 1), numbers(sizes[1], 1), numbers(table, 0.3f), numbers(table, 0.3f) };
    now.m = batch;
    now.nq = n;
    now.heads = heads;
    now.dim = dim;
    now.side = side;
    snprintf(name, sizeof name, "qkv attention %d x %d, %d heads of %d, side %d", batch, n, heads, dim, side);
    compare(name, do_qkv, 4, v, sizes, 1, most);
    for (int i = 0; i < 4; i++) free(v[i]);
}

/* ---- the rest */
static void do_norms(struct ops *o, struct tensor *const *t) {
    ops_rmsnorm(o, "x", view_of(t[0]), 1280, t[1], 37, 1280, 1e-6f, view_of(t[3]), 1280);
    ops_layernorm(o, "x", view_of(t[3]), t[1], t[2], 37, 1280, 1e-6f, view_of(t[3]));
}
static void do_gelu(struct ops *o, struct tensor *const *t) {
    ops_activate(o, OPS_GELU, view_of(t[0]), 37 * 1280);
}
static void do_quick(struct ops *o, struct tensor *const *t) {
    ops_activate(o, OPS_QUICK_GELU, view_of(t[0]), 37 * 1280);
}
static void do_silu(struct ops *o, struct tensor *const *t) {
    ops_glu(o, OPS_GLU_SILU, view_of(t[0]), view_of(t[3]), 37 * 1280);
}
static void do_moves(struct ops *o, struct tensor *const *t) {
    const int index[] = { 5, 0, 36, 7 };
    const float weights[] = { 1, -2, 0.5f, 3 };
    ops_add(o, "x", view_of(t[0]), view_of(t[3]), 37 * 1280);
    ops_gather_rows(o, view_of(t[3]), view_of(t[0]), index, 4, 1280);
    ops_scatter_add(o, view_of(t[0]), view_of(t[3]), index, weights, 4, 1280);
    ops_copy_rows(o, view_at(view_of(t[0]), 20), 1280, view_at(view_of(t[3]), 7), 2560, 3, 100);
}
static void do_windows(struct ops *o, struct tensor *const *t) {
    struct windows s = { .grid = 6, .padded = 8, .window = 4, .width = 20 };
    ops_window_partition(o, &s, view_of(t[0]), view_of(t[3]));
    ops_window_merge(o, &s, view_of(t[3]), view_of(t[0]));
}
static void do_resample(struct ops *o, struct tensor *const *t) {
    ops_resample_grid(o, view_of(t[0]), 24, 15, 40, view_of(t[3]));
    ops_resample_rows(o, view_of(t[0]), 127, 79, 64, view_at(view_of(t[3]), 15 * 15 * 40));
    ops_resample_grid(o, view_of(t[0]), 10, 16, 40, view_at(view_of(t[3]), 20000));
}
static void do_rope(struct ops *o, struct tensor *const *t) {
    for (int inter = 0; inter < 2; inter++) {
        struct rope_table table = { .dims = 64, .interleaved = inter, .cosine = t[1], .sine = t[2] };
        ops_rope(o, &table,
                 &(struct rope_rows){ .x = view_of(t[0]),
                                      .row = 1280,
                                      .rows = 20,
                                      .heads = 10,
                                      .stride = 128,
                                      .offset = 16,
                                      .position = 3 });
    }
}
static float planes[3 * 400];
static void do_planes(struct ops *o, struct tensor *const *t) {
    ops_upload_planes(o, view_of(t[0]), planes, 3, 400);
}
static void do_conv(struct ops *o, struct tensor *const *t) {
    struct conv c = { .w = *of(&now.w, o), .bias = t[1], .c_in = 16, .side = 3, .stride = 2, .pad = 1 };
    ops_conv(o, "x", &c, view_of(t[0]), 2, 20, 20, view_of(t[3]));
}
static void check_route(int n, int k, int groups, int kept, bool normalise) {
    enum { M = 50 };
    struct routing r = {
        .n = n, .k = k, .groups = groups, .groups_kept = kept, .normalise = normalise, .scale = 1.5f
    };
    float *v = numbers((size_t)(M * n), 2);
    struct routing_choice *out[2];
    float *w[2];
    int wrong = 0;
    for (int b = 0; b < 2; b++) {
        struct tensor *t = ops_alloc(both[b], (size_t)(M * n), TENSOR_ANY);
        ops_upload(both[b], view_of(t), v, (size_t)(M * n));
        out[b] = xcalloc((size_t)(M * k), sizeof **out);
        w[b] = xcalloc((size_t)(M * k), sizeof **w);
        ops_route(both[b], &r, view_of(t), M, out[b]);
        for (int i = 0; i < M * k; i++) w[b][i] = out[b][i].weight;
        ops_free(both[b], t);
    }
    for (int i = 0; i < M * k; i++) /* weights that underflow are equal, so their order is open */
        wrong += out[0][i].expert != out[1][i].expert && out[0][i].weight > 1e-30f;
    failures += wrong > 0;
    printf("%s route %d of %d: %d different experts\n", wrong ? "FAIL" : "ok  ", k, n, wrong);
    report("route weights", w[0], w[1], (size_t)(M * k), 1e-5);
    for (int b = 0; b < 2; b++) {
        free(out[b]);
        free(w[b]);
    }
    free(v);
}

static void check_rest(void) {
    size_t sizes[] = { 37 * 1280, 1280, 1280, 37 * 1280 };
    float *v[] = { numbers(sizes[0], 1), numbers(1280, 1), numbers(1280, 1), numbers(sizes[3], 1) };
    compare("rmsnorm, layernorm", do_norms, 4, v, sizes, 3, 1e-5);
    compare("gelu", do_gelu, 4, v, sizes, 0, 1e-5);
    compare("quick_gelu", do_quick, 4, v, sizes, 0, 1e-5);
    compare("silu_mul", do_silu, 4, v, sizes, 0, 1e-5);
    compare("add, gather, scatter, copy", do_moves, 4, v, sizes, 0, 1e-6);
    compare("windows", do_windows, 4, v, sizes, 0, 1e-6);
    compare("resample", do_resample, 4, v, sizes, 3, 1e-5);
    for (size_t i = 0; i < COUNTOF(planes); i++) planes[i] = uniform();
    compare("planes", do_planes, 4, v, sizes, 0, 1e-6);
    compare("rope", do_rope, 4, v, sizes, 0, 1e-6);
    now.w = weight_make(24, 16 * 9, DTYPE_F32);
    compare("conv f32", do_conv, 4, v, sizes, 3, 1e-5);
    weight_free(&now.w);
    for (int i = 0; i < 4; i++) free(v[i]);
    check_route(64, 6, 1, 1, false);
    check_route(128, 8, 1, 1, true);
    check_route(12, 3, 4, 2, false);
}

enum { MOST_BATCH = 32 };

/* ---- products of few rows (skinny.cu) */
static uint16_t *narrow_numbers(size_t n, float size) {
    float *v = numbers(n, size);
    uint16_t *out = xmalloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = bf16_from_float(v[i]);
    free(v);
    return out;
}

enum { SKINNY_MATRICES = 3 };
struct skinny_case {
    int batch, k, n, rows[SKINNY_MATRICES];
    bool paired, bias, fp8;
};

static double number_of(const struct weight *w, int row, int column) {
    const struct matrix *m = &w->m[0];
    size_t at = (size_t)row * (size_t)m->cols + (size_t)column;
    if (m->type == DTYPE_BF16) return (double)bf16_to_float(((const uint16_t *)w->data)[at]);
    float f;
    int across = (m->cols + m->scale_cols - 1) / m->scale_cols;
    kernels_portable.widen(&f, (const uint8_t *)w->data + at, m->type, 1);
    return (double)f * (double)w->scales[row / m->scale_rows * across + column / m->scale_cols];
}

/* The rows of all matrices, computed on the CPU. */
static float *skinny_expected(const struct skinny_case *t, const uint16_t *x, const struct weight *w,
                              float *const *bias) {
    int all = 0, first = 0;
    for (int m = 0; m < t->n; m++) all += t->rows[m];
    float *out = xcalloc((size_t)t->batch * (size_t)all, sizeof *out);
    for (int m = 0; m < t->n; first += t->rows[m++])
        for (int b = 0; b < t->batch; b++)
            for (int r = 0; r < t->rows[m]; r++) {
                const uint16_t *in = x + (size_t)b * (size_t)t->k;
                double sum = t->bias ? (double)bias[m][r] : 0;
                for (int i = 0; i < t->k; i++) sum += number_of(&w[m], r, i) * (double)bf16_to_float(in[i]);
                out[(size_t)b * (size_t)all + (size_t)(first + r)] = (float)sum;
            }
    if (!t->paired) return out;
    for (int b = 0; b < t->batch; b++)
        for (int r = 0; r < t->rows[0]; r++) {
            const float *at = out + (size_t)b * (size_t)all + r;
            float gate = at[0], up = at[t->rows[0]];
            out[(size_t)b * (size_t)t->rows[0] + (size_t)r] = gate / (1 + expf(-gate)) * up;
        }
    return out;
}

static void check_skinny(struct skinny_case t) {
    struct cuda *c = both[1]->context;
    struct weight w[SKINNY_MATRICES];
    struct linear l[SKINNY_MATRICES];
    const struct linear *list[SKINNY_MATRICES];
    float *bias[SKINNY_MATRICES];
    size_t all = 0, batch = (size_t)t.batch, xn = batch * (size_t)t.k;
    for (int m = 0; m < t.n; m++) {
        bias[m] = numbers((size_t)t.rows[m], 1);
        w[m] = weight_make(t.rows[m], t.k, t.fp8 ? DTYPE_F8_E4M3 : DTYPE_BF16);
        l[m] =
            (struct linear){ w[m].m[1], t.bias ? ops_alloc(both[1], (size_t)t.rows[m], TENSOR_ANY) : NULL };
        if (t.bias) ops_upload(both[1], view_of(l[m].bias), bias[m], (size_t)t.rows[m]);
        list[m] = &l[m];
        all += (size_t)t.rows[m];
    }
    size_t n = t.paired ? batch * (size_t)t.rows[0] : batch * all, room = batch * all * PARTS_MOST;
    uint16_t *x = narrow_numbers(xn, 1), *narrow = xcalloc(n, sizeof *narrow);
    struct tensor *there = ops_alloc_narrow(both[1], xn), *y = ops_alloc(both[1], room, TENSOR_ZERO);
    float *got[2], *parts = xcalloc(room, sizeof *parts);
    cuda_copy_in(c, pointer_of(there), x, xn * 2);
    for (int round = 0; round < 2; round++) {
        got[round] = xcalloc(n, sizeof **got);
        cuda_ok(c, c->d->set_words(y->data, 0xffffffffu, room, c->stream), "clearing memory"); /* NaN */
        int sums = cuda_skinny(c, &(struct skinny){ .x = pointer_of(there),
                                                    .l = list,
                                                    .n = t.n,
                                                    .batch = t.batch,
                                                    .y = pointer_of(y),
                                                    .parts = PARTS_MOST,
                                                    .narrow = t.paired ? pointer_of(y) : NULL });
        if (t.paired) {
            cuda_copy_out(c, narrow, pointer_of(y), n * sizeof *narrow);
            for (size_t i = 0; i < n; i++) got[round][i] = bf16_to_float(narrow[i]);
        } else {
            cuda_copy_out(c, parts, pointer_of(y), (size_t)sums * n * sizeof *parts);
            for (size_t i = 0; i < n; i++)
                for (int p = 0; p < sums; p++) got[round][i] += parts[(size_t)p * n + i];
        }
    }
    float *expected = skinny_expected(&t, x, w, bias);
    char name[96];
    snprintf(name, sizeof name, "few rows%s [%d,%d]x[%zu,%d]%s%s", t.fp8 ? ", fp8" : "", t.batch, t.k, all,
             t.k, t.bias ? " bias" : "", t.paired ? " silu" : "");
    report(name, expected, got[0], n, t.paired ? 5e-3 : 1e-5);
    bool same = memcmp(got[0], got[1], n * sizeof **got) == 0;
    if (!same) printf("FAIL %s: a second run gives other bits\n", name);
    failures += !same;
    struct err err;
    if (ops_check(both[1], &err) < 0) die("%s", err.msg);
    for (int m = 0; m < t.n; m++) {
        weight_free(&w[m]);
        if (t.bias) ops_free(both[1], l[m].bias);
        free(bias[m]);
    }
    ops_free(both[1], there);
    ops_free(both[1], y);
    void *all_memory[] = { x, narrow, parts, expected, got[0], got[1] };
    for (size_t i = 0; i < COUNTOF(all_memory); i++) free(all_memory[i]);
}

static void check_few_rows(void) {
    static const int batches[] = { 2, 8, 9, 17, 32 };
    for (size_t i = 0; i < COUNTOF(batches); i++) {
        int b = batches[i];
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true });
        check_skinny((struct skinny_case){ b, 1288, 1, { 1280 } });
        check_skinny((struct skinny_case){ b, 72, 1, { 16 } });
        check_skinny((struct skinny_case){ b, 512, 2, { 336, 336 }, .paired = true });
        check_skinny((struct skinny_case){ b, 256, 1, { 40000 } }); /* several tasks per block */
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true, .fp8 = true });
        check_skinny((struct skinny_case){ b, 1344, 1, { 1280 }, .fp8 = true });
        check_skinny((struct skinny_case){ b, 80, 1, { 16 }, .fp8 = true });
        check_skinny((struct skinny_case){ b, 512, 2, { 336, 336 }, .paired = true, .fp8 = true });
        check_skinny((struct skinny_case){ b, 256, 1, { 40000 }, .fp8 = true });
    }
}

/* Reads of weights as in a step: each matrix follows others, so that the L2 cache does not have it. */
enum { MOST_COPIES = 8 };
struct skinny_time {
    struct linear l[MOST_COPIES][2];
    int copies, n, batch, ring_kb;
    struct tensor *x, *y;
    bool paired;
};
static double seconds_of_skinny(const struct skinny_time *t) {
    enum { FIRST = 4, TIMES = 40 };
    uint64_t start = 0;
    for (int i = 0; i < FIRST + TIMES; i++) {
        const struct linear *const list[] = { &t->l[i % t->copies][0], &t->l[i % t->copies][1] };
        if (i == FIRST) {
            ops_finish(both[1]);
            start = clock_mono_ns();
        }
        cuda_skinny(both[1]->context, &(struct skinny){ .x = pointer_of(t->x),
                                                        .l = list,
                                                        .n = t->n,
                                                        .batch = t->batch,
                                                        .y = pointer_of(t->y),
                                                        .parts = t->paired ? 1 : PARTS_MOST,
                                                        .narrow = t->paired ? pointer_of(t->y) : NULL,
                                                        .ring_bytes = t->ring_kb << 10 });
    }
    ops_finish(both[1]);
    return (double)(clock_mono_ns() - start) / 1e9 / TIMES;
}

static void time_skinny(const char *name, int k, int n, int rows, bool paired) {
    static const int batches[] = { 8, 32 }, rings_kb[] = { 56, 84, 112, 168, 220 };
    double bytes = (double)n * rows * k * 2;
    size_t xn = (size_t)MOST_BATCH * (size_t)k, yn = (size_t)MOST_BATCH * (size_t)(n * rows) * PARTS_MOST;
    struct weight w[MOST_COPIES][2];
    struct skinny_time t = { .copies = MIN(MAX((int)(250e6 / bytes), 1), (int)MOST_COPIES),
                             .n = n,
                             .x = ops_alloc_narrow(both[1], xn),
                             .y = ops_alloc(both[1], yn, TENSOR_ANY),
                             .paired = paired };
    uint16_t *x = narrow_numbers(xn, 1);
    cuda_copy_in(both[1]->context, pointer_of(t.x), x, xn * sizeof *x);
    for (int i = 0; i < t.copies; i++)
        for (int m = 0; m < n; m++) {
            w[i][m] = weight_make(rows, k, DTYPE_BF16);
            t.l[i][m] = (struct linear){ w[i][m].m[1], NULL };
        }
    for (size_t b = 0; b < COUNTOF(batches); b++) {
        t.batch = batches[b];
        printf("%-5s batch %2d, %6.1f MB, us (TB/s) with rings of", name, t.batch, bytes / 1e6);
        for (size_t i = 0; i < COUNTOF(rings_kb); i++) {
            t.ring_kb = rings_kb[i];
            double s = seconds_of_skinny(&t);
            printf("  %d kB %.1f (%.2f)", rings_kb[i], s * 1e6, bytes / s / 1e12);
        }
        printf("\n");
        fflush(stdout);
    }
    for (int i = 0; i < t.copies; i++)
        for (int m = 0; m < n; m++) weight_free(&w[i][m]);
    ops_free(both[1], t.x);
    ops_free(both[1], t.y);
    free(x);
}
/* Qwen3-8B. */
static void time_few_rows(void) {
    time_skinny("qkv", 4096, 1, 6144, false);
    time_skinny("out", 4096, 1, 4096, false);
    time_skinny("up", 4096, 2, 12288, true);
    time_skinny("down", 12288, 1, 4096, false);
}

/* Correct results first: a wrong product needs no time. */
static void check_and_time_skinny(bool few) {
    struct err err;
    if (!((struct cuda *)both[1]->context)->hopper) die("skinny: this needs a Hopper GPU");
    if (!cuda_skinny_load(both[1]->context)) die("%s", ops_check(both[1], &err) < 0 ? err.msg : "skinny");
    check_few_rows();
    if (!failures && !few) time_few_rows();
}

static void check_operators(void) {
    check_rest();
    for (int type = DTYPE_F32; type <= DTYPE_F16; type++) {
        double most = type == DTYPE_F32 ? 1e-5 : 5e-3;
        check_linear(1, 1280, 1280, (enum dtype)type, 0, 1e-5);
        check_linear(7, 100, 36, (enum dtype)type, 1, 1e-5);
        check_linear(100, 200, 1280, (enum dtype)type, 1, most);
        check_linear(37, 70, 36, (enum dtype)type, 0, 1e-5);
        check_linear(300, 896, 1288, (enum dtype)type, 0, most);
        check_experts((enum dtype)type);
    }
    check_linear(1, 1280, 1280, DTYPE_F8_E4M3, 0, 1e-5);
    check_linear(1, 5000, 896, DTYPE_F8_E4M3, 0, 1e-5);
    check_linear(7, 100, 40, DTYPE_F8_E4M3, 1, 1e-5);
    check_linear(100, 200, 1280, DTYPE_F8_E4M3, 1, 5e-3);
    check_linear(300, 896, 1288, DTYPE_F8_E4M3, 0, 5e-3);
    check_experts(DTYPE_F8_E4M3);
    check_linear(9, 16, 8, DTYPE_BF16, 0, 5e-3);
    check_linear(1000, 3072, 768, DTYPE_BF16, 1, 5e-3);
    check_attention(4, 2, 24, 1, 100, 99, 20, false, 1e-5);
    check_attention(4, 4, 40, 50, 70, 20, 0, false, 1e-5);
    check_attention(10, 10, 128, 1, 900, 899, 0, true, 1e-2);
    check_attention(10, 10, 128, 300, 500, 200, 0, true, 1e-2);
    check_attention(8, 2, 128, 130, 200, 70, 50, true, 1e-2);
    check_attention(8, 2, 64, 77, 77, 0, 0, true, 1e-2);
    check_latents(16, 1);
    check_latents(16, 700);
    check_qkv(4, 49, 3, 20, 7, 1e-5);
    check_qkv(1, 257, 16, 64, 0, 1e-2);
    check_qkv(4, 196, 12, 64, 14, 1e-2);
    check_qkv(1, 1600, 12, 64, 40, 1e-2);
}

/* ---- whole models */
static const char *decode_path; /* of the next model */
static struct engine *open_model(const char *dir, const char *dtype, const char *device,
                                 long long weights_seed, int max_context) {
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
static bool in_fp8(void) { return getenv("CUDA_CHECK_FP8") != NULL; }
static const char *big_type(void) { return in_fp8() ? "auto" : "bf16"; }

/* Scales per block of `block` x `block` numbers, per row, or per matrix. */
enum { SCALES_BY_ROW = -1, SCALES_BY_MATRIX = 0 };
static void set_fp8(json_t *config, int block) {
    json_t *q = json_pack("{s:s}", "quant_method", block == SCALES_BY_ROW ? "fbgemm_fp8" : "fp8");
    if (block > 0) json_object_set_new(q, "weight_block_size", json_pack("[ii]", block, block));
    json_object_set_new(config, "quantization_config", q);
}

static json_t *config_load(const char *path) {
    struct err err;
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    if (in_fp8()) set_fp8(root, 128);
    return root;
}

/* A folder with config.json. */
static char *model_folder(const json_t *config) {
    char *dir = xstrdup("/tmp/cuda_check.XXXXXX");
    struct err err;
    if (!mkdtemp(dir)) die("no temporary folder");
    char *path = file_join(dir, "config.json"), *text = json_dumps(config, 0);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) die("%s", err.msg);
    free(path);
    free(text);
    return dir;
}

static struct engine_result infer(struct engine *e, const struct engine_request *r) {
    struct engine_result out;
    struct err err;
    if (engine_infer(e, r, &out, &err) < 0) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
    return out;
}

static size_t equal_tokens(const struct engine_result *a, const struct engine_result *b) {
    size_t i = 0;
    while (i < a->ids.n && i < b->ids.n && a->ids.v[i] == b->ids.v[i]) i++;
    return i;
}

enum { MOST_IDS = 1024 }; /* of a prompt and its answer */

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

static json_t *fixture_load(const char *name) {
    char path[256];
    struct err err;
    snprintf(path, sizeof path, "tests/data/engine/%s.json", name);
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    return root;
}

/* The request of a fixture: its prompt, which is copied to ids[MOST_IDS], or a page. */
static struct engine_request fixture_request(const json_t *root, uint32_t *ids, uint32_t tokens) {
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
enum { F32, BF16, F16, FP8_BLOCKS, FP8_ROWS, FP8_MATRICES };
static const struct weights_kind {
    const char *name, *dtype;
    int block; /* fp8: as in set_fp8() */
} kinds[] = { [F32] = { "f32", "f32", 0 },
              [BF16] = { "bf16", "bf16", 0 },
              [F16] = { "f16", "f16", 0 },
              [FP8_BLOCKS] = { "fp8 in blocks of 16 x 16", "auto", 16 },
              [FP8_ROWS] = { "fp8, scales of rows", "auto", SCALES_BY_ROW },
              [FP8_MATRICES] = { "fp8, scales of matrices", "auto", SCALES_BY_MATRIX } };

static char *fixture_folder(const json_t *root, const struct weights_kind *k) {
    json_t *config = json_deep_copy(json_object_get(root, "config"));
    if (strcmp(k->dtype, "auto") == 0) set_fp8(config, k->block);
    char *dir = model_folder(config);
    json_decref(config);
    return dir;
}

static void check_few(const char *name, int tokens, int side) {
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

static void check_tokens(const char *name) {
    json_t *root = fixture_load(name);
    uint32_t ids[MOST_IDS];
    struct engine_request r = fixture_request(root, ids, 64);
    long long weights_seed = json_integer_value(json_object_get(root, "seed"));
    for (size_t t = 0; t < COUNTOF(kinds); t++) {
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

/* A request of `prompt` ids, or with an image. */
static struct engine_request request_of(uint32_t *ids, int prompt, int tokens, const char **image) {
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
static void check_logits(const char *config, int layers, int prompt, const char *image) {
    json_t *root = config_load(config);
    json_t *text = json_object_get(root, "language_config") ? json_object_get(root, "language_config") : root;
    json_object_set_new(text, "num_hidden_layers", json_integer(layers));
    if (json_object_get(root, "num_hidden_layers"))
        json_object_set_new(root, "num_hidden_layers", json_integer(layers));
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

/* ---- speed of single operators on the GPU */
static double seconds_of(void (*f)(struct ops *, struct tensor *const *), struct tensor *const *t,
                         int times) {
    struct ops *o = both[1];
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
    struct ops *o = both[1];
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
    struct ops *o = both[1];
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
static void time_operators(void) {
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

/* ---- long texts, many requests, too large models */
static void check_long(const char *config, int prompt, int tokens) {
    json_t *root = config_load(config);
    char *dir = model_folder(root);
    const char *image = NULL;
    struct engine *e = open_model(dir, big_type(), "cuda:0", 1, prompt + tokens - 1);
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(ids, prompt, tokens + 10, &image);
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
    free(dir);
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
static void check_many(const char *name, int requests) {
    char path[256];
    struct err err;
    snprintf(path, sizeof path, "tests/data/engine/%s.json", name);
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) die("%s", err.msg);
    char *dir = model_folder(json_object_get(root, "config"));
    struct engine *e = open_model(dir, "bf16", "cuda:0", 1, 0);
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
    free(dir);
    json_decref(root);
}

static void check_memory(const char *config, int layers) {
    struct err err;
    json_t *root = config_load(config);
    json_object_set_new(root, "num_hidden_layers", json_integer(layers));
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
    free(dir);
    json_decref(root);
}

/* ---- the persistent kernel */
static void set_layers(json_t *root, int layers) {
    json_t *text = json_object_get(root, "language_config") ? json_object_get(root, "language_config") : root;
    json_object_set_new(text, "num_hidden_layers", json_integer(layers));
    if (json_object_get(root, "num_hidden_layers"))
        json_object_set_new(root, "num_hidden_layers", json_integer(layers));
}

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

static void check_persistent(const char *config, int layers, int prompt, int tokens, int vocab) {
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

/* ---- batches */
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
static double batch_rate(const struct engine_result *v, size_t n) {
    return (double)(n * (v[0].ids.n - 1)) / v[0].decode_ms * 1e3;
}

/* Sequences of different lengths, greedy, in graphs and with operators. Both round activations to bf16, but
 * add in another order, so the answers can differ where two tokens have close logits. Half of the tokens must
 * come before the first differences, a quarter if the model has experts, which close router logits exchange
 * (27 layers: 32%). After a wrong step, none do. */
static void check_batch(const char *config, int layers, int n, int prompt, int tokens) {
    json_t *root = config_load(config);
    set_layers(root, layers);
    char *dir = model_folder(root);
    struct token_ids prompts[MOST_BATCH] = { { 0 } };
    struct engine_result graph[MOST_BATCH], again[MOST_BATCH], operators[MOST_BATCH];
    n = MIN(n, MOST_BATCH);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < MAX(prompt - i, 1); k++)
            vec_push(&prompts[i], (uint32_t)(1000 + (i * 31 + k * 7) % 10000));
    struct engine *e = open_model(dir, big_type(), "cuda:0", 1, prompt + tokens + 1);
    struct engine_request r = {
        .batch = prompts, .nbatch = (size_t)n, .max_new_tokens = (uint32_t)tokens, .ignore_eos = true
    };
    infer_batch(e, &r, graph);
    infer_batch(e, &r, again);
    r.sampling.temperature = 1e-4; /* the operators, one by one */
    r.sampling.top_k = 1;
    infer_batch(e, &r, operators);
    size_t all = (size_t)n * (size_t)tokens, same = equal_batch(graph, operators, (size_t)n);
    size_t part = e->decoder->c->experts ? 4 : 2;
    bool repeats = equal_batch(graph, again, (size_t)n) == all, good = repeats && same >= all / part;
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
    free(dir);
    json_decref(root);
}

static void speed(const char *config, int prompt, int tokens, const char *image) {
    json_t *root = config_load(config);
    char *dir = model_folder(root);
    uint64_t start = clock_mono_ns();
    struct engine *e = open_model(dir, big_type(), "cuda:0", 1, prompt + tokens + 1024);
    printf("load %.1f s\n", (double)(clock_mono_ns() - start) / 1e9);
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct engine_request r = request_of(ids, prompt, tokens, &image);
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
    free(dir);
    json_decref(root);
}

int main(int argc, char **argv) {
    struct err err;
    if (argc < 2)
        die("usage: cuda_check ops | products | skinny [few] | tokens NAME... | few NAME TOKENS [SIDE] | "
            "logits CONFIG LAYERS PROMPT [IMAGE] | speed CONFIG PROMPT NEW [IMAGE] | "
            "persistent CONFIG LAYERS PROMPT NEW [VOCABULARY] | long CONFIG PROMPT NEW | "
            "many NAME REQUESTS | batch CONFIG LAYERS N PROMPT NEW | memory CONFIG LAYERS");
    if (strcmp(argv[1], "ops") == 0 || strcmp(argv[1], "products") == 0 || strcmp(argv[1], "skinny") == 0) {
        struct threads *threads = threads_open(0);
        both[0] = cpu_open(threads, NULL);
        ops_set_exact(both[0], true);
        both[1] = cuda_open(threads, 0, &err);
        if (!both[1]) die("%s", err.msg);
        printf("%s (%s)\n", ops_name(both[1]), ops_device(both[1]));
        if (strcmp(argv[1], "ops") == 0)
            check_operators();
        else if (strcmp(argv[1], "skinny") == 0)
            check_and_time_skinny(argc > 2 && strcmp(argv[2], "few") == 0);
        else
            time_operators();
        ops_close(both[0]);
        ops_close(both[1]);
        threads_close(threads);
    } else if (strcmp(argv[1], "tokens") == 0) {
        for (int i = 2; i < argc; i++) check_tokens(argv[i]);
    } else if (strcmp(argv[1], "few") == 0 && argc >= 4) {
        check_few(argv[2], atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
    } else if (strcmp(argv[1], "logits") == 0 && argc >= 5) {
        check_logits(argv[2], atoi(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL);
    } else if (strcmp(argv[1], "long") == 0 && argc == 5) {
        check_long(argv[2], atoi(argv[3]), atoi(argv[4]));
    } else if (strcmp(argv[1], "many") == 0 && argc == 4) {
        check_many(argv[2], atoi(argv[3]));
    } else if (strcmp(argv[1], "memory") == 0 && argc == 4) {
        check_memory(argv[2], atoi(argv[3]));
    } else if (strcmp(argv[1], "persistent") == 0 && argc >= 6) {
        check_persistent(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
                         argc > 6 ? atoi(argv[6]) : 129280);
    } else if (strcmp(argv[1], "batch") == 0 && argc == 7) {
        check_batch(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
    } else if (strcmp(argv[1], "speed") == 0 && argc >= 5) {
        decode_path = getenv("CUDA_CHECK_DECODE");
        speed(argv[2], atoi(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL);
    }
    printf("%d failures\n", failures);
    return failures > 0;
}
