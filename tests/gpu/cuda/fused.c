/* Operators that the GPU fuses or runs on other types, against plain operators on the CPU. In each, t[0] is
 * the output and t[1] the input. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

enum { MATRICES = 3, GRID = 6, PADDED = 8, VIEWS = 2, WINDOW = 4 };
enum { ROWS = VIEWS * GRID * GRID, PADDED_ROWS = VIEWS * PADDED * PADDED };

/* The case that is being compared. Products have m rows, n columns and k inputs. */
static const struct fused_case *at;
static struct weight weights[MATRICES];

struct fused_case {
    const char *name;
    operator_fn *f;
    int m, n, k, matrices; /* matrices: [n][k] */
    size_t sizes[5];       /* of the tensors */
    bool squares;          /* the operator multiplies its input with itself */
    bool float_only;       /* no 16-bit activations; otherwise as many as the device supports */
    int option;
};

static enum dtype type_of(void) { return weights[0].m[CPU].type; }
static struct linear linear_of(const struct ops *o, int i, struct tensor *bias) {
    return (struct linear){ *of(&weights[i], o), bias };
}
/* A tensor as 16-bit numbers, if the device supports them. */
static struct tensor *narrow_of(struct ops *o, struct tensor *t, size_t n) {
    return at->float_only ? t : narrow_copy(o, type_of(), t, n);
}
static void drop(struct ops *o, struct tensor *copy, const struct tensor *t) {
    if (copy != t) ops_free(o, copy);
}

static void do_rows(struct ops *o, struct tensor *const *t) {
    static const char *const names[] = { "a", "b", "c" };
    size_t y = (size_t)at->m * (size_t)at->n;
    struct tensor *x = narrow_of(o, t[1], at->sizes[1]);
    struct linear l[] = { linear_of(o, 0, t[2]), linear_of(o, 1, NULL), linear_of(o, 2, t[2]) };
    struct linear_out out[MATRICES];
    for (size_t i = 0; i < MATRICES; i++)
        out[i] = (struct linear_out){ &l[i], view_at(view_of(t[0]), i * y) };
    ops_linear_rows(o, "x", names, out, MATRICES, view_of(x), at->m);
    drop(o, x, t[1]);
}
static void do_activated(struct ops *o, struct tensor *const *t) {
    struct tensor *x = narrow_of(o, t[1], at->sizes[1]), *y = narrow_of(o, t[0], at->sizes[0]);
    struct linear l = linear_of(o, 0, t[2]);
    ops_linear_act(o, "x", &l, view_of(x), at->m, view_of(y), at->option ? OPS_QUICK_GELU : OPS_GELU);
    narrow_back(o, view_of(t[0]), y, at->sizes[0]);
    drop(o, x, t[1]);
}
static void do_swiglu(struct ops *o, struct tensor *const *t) {
    static const char *const names[] = { "gate", "up" };
    struct tensor *x = narrow_of(o, t[1], at->sizes[1]), *y = narrow_of(o, t[0], at->sizes[0]);
    struct expert e = { .gate = linear_of(o, 0, NULL), .up = linear_of(o, 1, NULL) };
    ops_swiglu(o, "x", names, &e, view_of(x), at->m, view_of(y), view_of(t[2]));
    narrow_back(o, view_of(t[0]), y, at->sizes[0]);
    drop(o, x, t[1]);
}
static struct windows windows_of(int width) {
    return (
        struct windows){ .grid = GRID, .padded = PADDED, .window = WINDOW, .width = width, .views = VIEWS };
}
static void do_merge(struct ops *o, struct tensor *const *t) {
    struct tensor *x = narrow_of(o, t[1], at->sizes[1]);
    struct linear l = linear_of(o, 0, t[2]);
    struct windows s = windows_of(at->n);
    ops_linear_merge(o, "x", &l, view_of(x), &s, view_of(t[3]), view_of(t[0]));
    drop(o, x, t[1]);
}
static void do_norm_windows(struct ops *o, struct tensor *const *t) {
    struct tensor *rows = narrow_of(o, t[0], at->sizes[0]);
    struct windows s = windows_of(at->n);
    ops_layernorm_windows(o, "x", view_of(t[1]), t[2], t[3], 1e-6f, &s, view_of(t[4]), view_of(rows));
    narrow_back(o, view_of(t[0]), rows, at->sizes[0]);
}
static void do_embed(struct ops *o, struct tensor *const *t) {
    static const uint32_t ids[] = { 39, 0, 7, 7, 1 };
    ops_embed(o, of(&weights[0], o), ids, COUNTOF(ids), view_of(t[0]));
}
static void do_convolution(struct ops *o, struct tensor *const *t) {
    struct tensor *x = narrow_of(o, t[1], at->sizes[1]);
    struct conv c = { .w = *of(&weights[0], o), .bias = t[2], .c_in = 16, .side = 3, .stride = 2, .pad = 1 };
    if (at->option) c = (struct conv){ .w = c.w, .bias = t[2], .c_in = 16, .side = 1, .stride = 1 };
    ops_conv(o, "x", &c, view_of(x), VIEWS, 20, 20, view_of(t[0]));
    drop(o, x, t[1]);
}

/* ---- latent attention */
enum { HEADS = 4, NOPE = 32, VALUE = 24, RANK = 64, ROPE = 16, MOST = 9, POSITIONS = 5 };
static struct latent latent_of(const struct ops *o) {
    return (struct latent){ .kv_b = linear_of(o, 0, NULL),
                            .heads = HEADS,
                            .nope = NOPE,
                            .value = VALUE,
                            .rank = RANK,
                            .rope = ROPE };
}
static void do_latent_query(struct ops *o, struct tensor *const *t) {
    struct latent l = latent_of(o);
    ops_latent_query(o, &l, view_of(t[1]), view_of(t[0]));
}
static void do_latent_value(struct ops *o, struct tensor *const *t) {
    struct latent l = latent_of(o);
    ops_latent_value(o, &l, view_of(t[1]), view_of(t[0]));
}
static void do_latent_expand(struct ops *o, struct tensor *const *t) {
    struct latent l = latent_of(o);
    size_t keys = (size_t)HEADS * MOST * (NOPE + ROPE);
    ops_latent_expand(o, &l,
                      &(struct latent_rows){ .rows = view_of(t[1]),
                                             .kept = view_of(t[2]),
                                             .keys = view_of(t[0]),
                                             .values = view_at(view_of(t[0]), keys),
                                             .n = POSITIONS,
                                             .max_context = MOST,
                                             .position = 3 });
}

/* ---- heads: queries, keys and values of n rows; t[0] receives the queries and the rows of both caches */
enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_ROWS = 11, CONTEXT = 17, FIRST = 5 };
static struct cache_rows cache_rows_of(const struct ops *o, struct tensor *cache, struct view rows, int dim) {
    return (struct cache_rows){ .cache = view_of(cache),
                                .rows = rows,
                                .type = o == both[CPU] ? DTYPE_F32 : DTYPE_BF16,
                                .n = HEAD_ROWS,
                                .heads = KV_HEADS,
                                .dim = dim,
                                .max_context = CONTEXT,
                                .position = FIRST };
}
static void load_cache(struct ops *o, struct tensor *cache, int dim, struct view to) {
    struct cache_rows rows = cache_rows_of(o, cache, to, dim);
    ops_cache_load(o, &rows);
}
static void store_cache(struct ops *o, struct view from, int dim, struct tensor *cache) {
    struct cache_rows rows = cache_rows_of(o, cache, from, dim);
    ops_cache_store(o, &rows);
}
/* One operator after the other, as the decoder does without 16-bit activations. */
static void place_in_steps(struct ops *o, const struct place_heads *p, struct tensor *const *caches) {
    const struct view x[] = { p->q, p->k };
    const int heads[] = { p->heads, p->kv_heads };
    struct tensor *const norms[] = { p->q_norm, p->k_norm };
    for (int i = 0; i < 2; i++) {
        if (norms[i])
            ops_rmsnorm(o, "x", x[i], p->dim, norms[i], p->n * heads[i], p->dim, p->eps, x[i], p->dim);
        ops_rope(o, p->rope,
                 &(struct rope_rows){ .x = x[i],
                                      .row = (ptrdiff_t)heads[i] * p->dim,
                                      .rows = p->n,
                                      .heads = heads[i],
                                      .stride = p->dim,
                                      .position = p->position });
    }
    store_cache(o, p->k, p->dim, caches[0]);
    store_cache(o, p->v, p->dim, caches[1]);
}
enum { PLAIN, NORMS = 1, INTERLEAVED = 2, PARTIAL = 4 };
static void do_place(struct ops *o, struct tensor *const *t) {
    int dim = at->n;
    enum dtype cache = o == both[CPU] ? DTYPE_F32 : DTYPE_BF16;
    size_t q = (size_t)HEAD_ROWS * Q_HEADS * (size_t)dim, kv = (size_t)HEAD_ROWS * KV_HEADS * (size_t)dim,
           all = (size_t)KV_HEADS * CONTEXT * (size_t)dim;
    struct tensor *caches[] = { ops_alloc_cache(o, all, cache), ops_alloc_cache(o, all, cache) };
    struct rope_table rope = { .dims = at->option & PARTIAL ? dim / 2 : dim,
                               .interleaved = at->option & INTERLEAVED,
                               .cosine = t[2],
                               .sine = t[3] };
    struct place_heads p = { .q = view_of(t[1]),
                             .k = view_at(view_of(t[1]), q),
                             .v = view_at(view_of(t[1]), q + kv),
                             .q_norm = at->option & NORMS ? t[4] : NULL,
                             .k_norm = at->option & NORMS ? t[4] : NULL,
                             .eps = 1e-6f,
                             .rope = &rope,
                             .n = HEAD_ROWS,
                             .position = FIRST,
                             .heads = Q_HEADS,
                             .kv_heads = KV_HEADS,
                             .dim = dim,
                             .max_context = CONTEXT,
                             .keys = view_of(caches[0]),
                             .values = view_of(caches[1]) };
    if (ops_has_narrow(o, DTYPE_BF16)) {
        struct tensor *queries = ops_alloc_narrow(o, q);
        p.queries = view_of(queries);
        ops_place_heads(o, &p);
        narrow_back(o, view_of(t[0]), queries, q);
    } else {
        place_in_steps(o, &p, caches);
        ops_copy(o, view_of(t[0]), p.q, q);
    }
    for (size_t i = 0; i < COUNTOF(caches); i++) {
        load_cache(o, caches[i], dim, view_at(view_of(t[0]), q + i * kv));
        ops_free(o, caches[i]);
    }
}

/* ---- experts of many tokens */
enum { EXPERTS = 16, CHOSEN = 3, INNER = 96, HIDDEN = 160, MOST_TOKENS = 300 };
/* The CUDA backend keeps tables by the address of the experts, so each case has its own. */
static struct expert_set {
    struct weight w[EXPERTS][MATRICES];
    struct expert e[2][EXPERTS]; /* of CPU and GPU */
} * experts;
static struct routing routing_of(void) {
    struct routing r = { .n = EXPERTS, .k = CHOSEN, .groups = 1, .groups_kept = 1, .scale = 1.5f };
    r.normalise = at->option & 1;
    if (at->option & 2) {
        r.groups = 4;
        r.groups_kept = 2;
    }
    return r;
}
static void add_chosen(struct ops *o, const struct expert *list, struct view logits, struct view x,
                       struct view y) {
    struct routing r = routing_of();
    static struct routing_choice chosen[MOST_TOKENS * CHOSEN];
    ops_route(o, &r, logits, at->m, chosen);
    for (int i = 0; i < at->m; i++) {
        const struct expert *e[CHOSEN];
        float w[CHOSEN];
        for (int c = 0; c < CHOSEN; c++) {
            e[c] = &list[chosen[i * CHOSEN + c].expert];
            w[c] = chosen[i * CHOSEN + c].weight;
        }
        size_t row = (size_t)i * HIDDEN;
        ops_experts_one(o, "x", e, w, CHOSEN, view_at(x, row), view_at(y, row));
    }
}
static void do_many(struct ops *o, struct tensor *const *t) {
    struct routing r = routing_of();
    const struct expert *list = experts->e[o == both[GPU]];
    struct tensor *x =
        at->float_only ? t[1] : narrow_copy(o, list[0].gate.w.type, t[1], (size_t)at->m * HIDDEN);
    if (!ops_experts_many(o, "x", list, &r, view_of(t[2]), view_of(x), at->m, HIDDEN, view_of(t[0])))
        add_chosen(o, list, view_of(t[2]), view_of(t[1]), view_of(t[0]));
    drop(o, x, t[1]);
}
static void make_experts(enum dtype type) {
    experts = xcalloc(1, sizeof *experts);
    for (int i = 0; i < EXPERTS; i++) {
        struct weight *w = experts->w[i];
        w[0] = weight_make(INNER, HIDDEN, type);
        w[1] = weight_make(INNER, HIDDEN, type);
        w[2] = weight_make(HIDDEN, INNER, type);
        for (int d = CPU; d <= GPU; d++)
            experts->e[d][i] = (struct expert){ .gate = { .w = w[0].m[d] },
                                                .up = { .w = w[1].m[d] },
                                                .down = { .w = w[2].m[d] } };
    }
}
static void free_experts(void) {
    for (int i = 0; i < EXPERTS; i++)
        for (int j = 0; j < MATRICES; j++) weight_free(&experts->w[i][j]);
    experts = NULL; /* not freed: the next ones need another address */
}

/* ---- tables of cases */
#define PRODUCT(rows, out, in) .m = (rows), .n = (out), .k = (in)
static const struct fused_case products[] = {
    { "linear_rows", do_rows, PRODUCT(100, 96, 256), 3, { 3 * 100 * 96, 100 * 256, 96 } },
    { "linear_rows, float",
      do_rows,
      PRODUCT(30, 40, 64),
      3,
      { 3 * 30 * 40, 30 * 64, 40 },
      .float_only = true },
    { "linear_act gelu", do_activated, PRODUCT(70, 136, 256), 1, { 70 * 136, 70 * 256, 136 } },
    { "linear_act quick_gelu", do_activated, PRODUCT(9, 64, 64), 1, { 9 * 64, 9 * 64, 64 }, .option = 1 },
    { "swiglu", do_swiglu, PRODUCT(9, 64, 128), 2, { 9 * 64, 9 * 128, 9 * 64 }, .squares = true },
    { "swiglu", do_swiglu, PRODUCT(200, 328, 256), 2, { 200 * 328, 200 * 256, 200 * 328 }, .squares = true },
    { "linear_merge",
      do_merge,
      PRODUCT(0, 72, 64),
      1,
      { ROWS * 72, PADDED_ROWS * 64, 72, PADDED_ROWS * 72 } },
    { "conv 3 x 3", do_convolution, PRODUCT(0, 24, 16 * 9), 1, { VIEWS * 100 * 24, VIEWS * 400 * 16, 24 } },
    { "conv 3 x 3, float",
      do_convolution,
      PRODUCT(0, 24, 16 * 9),
      1,
      { VIEWS * 100 * 24, VIEWS * 400 * 16, 24 },
      .float_only = true },
    { "conv 1 x 1",
      do_convolution,
      PRODUCT(0, 24, 16),
      1,
      { VIEWS * 400 * 24, VIEWS * 400 * 16, 24 },
      .option = 1 },
};
/* These read f32, bf16 and f16. */
static const struct fused_case reads[] = {
    { "embed", do_embed, PRODUCT(0, 40, 72), 1, { 5 * 72, 1 } },
    { "latent_query",
      do_latent_query,
      PRODUCT(0, HEADS *(NOPE + VALUE), RANK),
      1,
      { HEADS * (RANK + ROPE), HEADS *(NOPE + ROPE) } },
    { "latent_value",
      do_latent_value,
      PRODUCT(0, HEADS *(NOPE + VALUE), RANK),
      1,
      { HEADS * VALUE, HEADS *RANK } },
};
#define PLACED(dim)                                                                               \
    {                                                                                             \
        HEAD_ROWS *(Q_HEADS + 2 * KV_HEADS) * (dim), HEAD_ROWS *(Q_HEADS + 2 * KV_HEADS) * (dim), \
            CONTEXT *(dim) / 2, CONTEXT *(dim) / 2, (dim)                                         \
    }
static const struct fused_case rest[] = {
    { "layernorm_windows", do_norm_windows, .n = 80, .squares = true,
      .sizes = { PADDED_ROWS * 80, ROWS * 80, 80, 80, ROWS * 80 } },
    { "layernorm_windows, float", do_norm_windows, .n = 80, .squares = true,
      .sizes = { PADDED_ROWS * 80, ROWS * 80, 80, 80, ROWS * 80 }, .float_only = true },
    { "latent_expand", do_latent_expand,
      .sizes = { HEADS * MOST * (NOPE + ROPE + VALUE), POSITIONS *HEADS *(NOPE + VALUE),
                 POSITIONS *(RANK + ROPE) } },
    { "place_heads of 128", do_place, .n = 128, .squares = true, .sizes = PLACED(128), .option = NORMS },
    { "place_heads of 64, pairs", do_place, .n = 64, .squares = true, .sizes = PLACED(64),
      .option = NORMS | INTERLEAVED },
    { "place_heads of 64, no norm", do_place, .n = 64, .squares = true, .sizes = PLACED(64) },
    { "place_heads of 96, partial", do_place, .n = 96, .squares = true, .sizes = PLACED(96),
      .option = PARTIAL },
};

/* Numbers close to the largest one for which results stay finite. `squares`: in norms, swiglu and experts.
 * Beside f16 weights, activations are f16 on the GPU; fp8 numbers are multiplied before their scales. */
static float largest(enum dtype type, bool squares) {
    if (type == DTYPE_F16) return squares ? 30.0f : 6e4f;
    return squares ? 1e15f : type == DTYPE_F8_E4M3 ? 1e33f : 1e35f;
}

/* Of a row: activations are rounded up to three times, and fp8 weights with their scales to bf16. On a CPU
 * with bf16 products, the rows that differ most have half of these. */
static double tolerance(enum dtype type, bool squares) {
    return type == DTYPE_F32 ? 1e-5 : squares ? 2e-2 : 1e-2;
}

static void check_case(const struct fused_case *c, enum dtype kind, const char *type, double most) {
    char name[80];
    float *v[COUNTOF(c->sizes)];
    int n = 0;
    at = c;
    if (extreme != 0) extreme = largest(kind, c->squares);
    for (; n < (int)COUNTOF(c->sizes) && c->sizes[n]; n++)
        v[n] = n == 1 ? numbers(c->sizes[n], 1) : random_numbers(c->sizes[n], n ? 1 : 0.01f);
    snprintf(name, sizeof name, "%s%s%s", c->name, *type ? ", " : "", type);
    size_t row = (size_t)c->n;
    /* of extreme numbers, a row can be the small difference of large ones */
    if (extreme != 0 || row == 0 || c->sizes[0] % row) row = c->sizes[0];
    compare_rows(name, c->f, n, v, c->sizes, row, most);
    for (int i = 0; i < n; i++) free(v[i]);
}

static void check_typed(const struct fused_case *c, enum dtype type, double most) {
    for (int i = 0; i < c->matrices; i++) weights[i] = weight_make(c->n, c->k, type);
    check_case(c, type, dtype_name(type), most);
    for (int i = 0; i < c->matrices; i++) weight_free(&weights[i]);
}

static void check_all(void) {
    static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F8_E4M3 };
    for (size_t t = 0; t < COUNTOF(types); t++) {
        for (size_t i = 0; i < COUNTOF(products); i++) {
            bool conv = products[i].f == do_convolution;
            if (conv && types[t] == DTYPE_F8_E4M3) continue; /* no file has them */
            check_typed(&products[i], types[t], tolerance(types[t], products[i].squares));
        }
        for (int option = 0; option < 4; option++) {
            static const int tokens[] = { 2, 50, MOST_TOKENS, 50 };
            size_t m = (size_t)tokens[option];
            struct fused_case c = { "experts_many",
                                    do_many,
                                    .m = tokens[option],
                                    .n = HIDDEN,
                                    .sizes = { m * HIDDEN, m * HIDDEN, m * EXPERTS },
                                    .option = option,
                                    .squares = true,
                                    .float_only = option == 1 };
            make_experts(types[t]);
            check_case(&c, types[t], dtype_name(types[t]), tolerance(types[t], true));
            free_experts();
        }
    }
    for (int type = DTYPE_F32; type <= DTYPE_F16; type++)
        for (size_t i = 0; i < COUNTOF(reads); i++) check_typed(&reads[i], (enum dtype)type, 1e-5);
    weights[0] = weight_make(8, 8, DTYPE_BF16); /* 16-bit activations are those beside bf16 weights */
    for (size_t i = 0; i < COUNTOF(rest); i++)
        check_case(&rest[i], DTYPE_BF16, "", tolerance(DTYPE_BF16, false));
    weight_free(&weights[0]);
}

void check_fused(void) {
    check_all();
    extreme = 1;
    check_all();
    extreme = 0;
}
