/* Single operators on both devices. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

struct sizes now;

void do_linear(struct ops *o, struct tensor *const *t) {
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
    if (self_check()) most = fmax(most, 1e-2); /* the CPU rounds in more products than the GPU */
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

/* The GPU's kernels read the matrices of experts as one type. */
static void check_mixed_experts(void) {
    struct weight w[] = { weight_make(64, 128, DTYPE_BF16), weight_make(64, 128, DTYPE_F16),
                          weight_make(128, 64, DTYPE_BF16) };
    struct ops *o = both[GPU];
    struct expert e = { .gate = { *of(&w[0], o), NULL },
                        .up = { *of(&w[1], o), NULL },
                        .down = { *of(&w[2], o), NULL } };
    struct tensor *x = ops_alloc(o, 128, TENSOR_ZERO), *y = ops_alloc(o, 128, TENSOR_ZERO);
    const struct expert *one = &e;
    bool refused = !ops_experts_one(o, "x", &one, &(float){ 1 }, 1, view_of(x), view_of(y));
    failures += refused == self_check();
    printf("%s experts with matrices of two types are refused\n", refused == self_check() ? "FAIL" : "ok  ");
    ops_free(o, x);
    ops_free(o, y);
    for (size_t i = 0; i < COUNTOF(w); i++) weight_free(&w[i]);
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
    now.cache = o == both[CPU] ? DTYPE_F32 : DTYPE_BF16;
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
    enum dtype type = o == both[CPU] ? DTYPE_F32 : DTYPE_BF16;
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

void do_qkv(struct ops *o, struct tensor *const *t) {
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

static void check_activations(void) {
    size_t n = 37 * 1280;
    float *v = numbers(n, 1);
    compare("gelu", do_gelu, 1, &v, &n, 0, 1e-5);
    compare("quick_gelu", do_quick, 1, &v, &n, 0, 1e-5);
    free(v);
}

static void check_rest(void) {
    size_t sizes[] = { 37 * 1280, 1280, 1280, 37 * 1280 };
    float *v[] = { numbers(sizes[0], 1), random_numbers(1280, 1), random_numbers(1280, 1),
                   numbers(sizes[3], 1) };
    compare("rmsnorm, layernorm", do_norms, 4, v, sizes, 3, 1e-5);
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

static void check_fp8(const struct fp8_block *block) {
    printf("     fp8, a scale per %d x %d numbers (0: all)\n", block->rows, block->cols);
    fp8_block = *block;
    check_linear(1, 1280, 1280, DTYPE_F8_E4M3, 0, 1e-5);
    check_linear(1, 5000, 896, DTYPE_F8_E4M3, 0, 1e-5);
    check_linear(7, 100, 40, DTYPE_F8_E4M3, 1, 1e-5);
    check_linear(100, 200, 1280, DTYPE_F8_E4M3, 1, 5e-3);
    check_linear(300, 896, 1288, DTYPE_F8_E4M3, 0, 5e-3);
    check_experts(DTYPE_F8_E4M3);
}

void check_operators(void) {
    check_activations();
    check_rest();
    extreme = 1e15f; /* the squares in norms stay finite */
    check_rest();
    extreme = 1e38f;
    check_activations();
    extreme = 0;
    check_fused();
    for (int type = DTYPE_F32; type <= DTYPE_F16; type++) {
        double most = type == DTYPE_F32 ? 1e-5 : 5e-3;
        check_linear(1, 1280, 1280, (enum dtype)type, 0, 1e-5);
        check_linear(7, 100, 36, (enum dtype)type, 1, 1e-5);
        check_linear(100, 200, 1280, (enum dtype)type, 1, most);
        check_linear(37, 70, 36, (enum dtype)type, 0, 1e-5);
        check_linear(300, 896, 1288, (enum dtype)type, 0, most);
        check_experts((enum dtype)type);
        check_mixed_experts();
    }
    check_fp8(&fp8_rows);
    check_fp8(&fp8_matrices);
    check_fp8(&fp8_blocks);
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
