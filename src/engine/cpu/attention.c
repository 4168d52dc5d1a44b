/* Attention of one query (decoding), and of image encoders, which need the scores of all keys at once.
 * Prompts use attention_blocks.c. Image encoders process tiles of nr queries. The queries of a tile are
 * the vector lanes, so that the softmax over keys needs no sums across lanes. */
#include <math.h>
#include <string.h>

#include "engine/cpu/internal.h"

/* keys per step: their values fit in the L2 cache (KEY_BLOCK) or in the L1 cache (VALUE_BLOCK) */
enum { KEY_BLOCK = 256, VALUE_BLOCK = 64 };

/* One head of one sequence. */
struct head {
    const struct kernels *k;
    int dim_k, dim_v, nq, nk, base, window, side;
    float scale, softcap;
    const float *sink; /* NULL: none */
    const float *q, *key, *value, *rel_h, *rel_w;
    float *out;
    ptrdiff_t q_row, v_row, out_row;
};

static const float *view_or_null(struct view v) { return v.tensor ? view_floats(v) : NULL; }
static size_t round_up(int n, int to) { return (size_t)((n + to - 1) / to * to); }

static size_t tile_floats(const struct kernels *k, const struct head *h) {
    size_t nr = (size_t)k->nr, rows = round_up(h->nk + 1, k->mr) + round_up(h->dim_k, k->mr);
    size_t lanes = round_up(k->nr, k->mr);
    if (h->rel_h) rows += (size_t)(h->side * 2) + round_up(2 * h->side - 1, k->mr);
    return nr * rows + lanes * round_up(h->dim_v, k->nr) + nr;
}

/* bias[i][lane] = q[lane] . table[at(lane) - i + side - 1] for i < side. at(lane) is the query's row or
 * column on the grid. */
static void rel_bias(const struct head *h, const float *table, const float *q, int q0, int lanes, bool row,
                     float *product, float *bias) {
    const struct kernels *k = h->k;
    int rows = 2 * h->side - 1, nr = k->nr;
    for (int r = 0; r < rows; r += k->mr)
        k->tile(h->dim_k, table + (ptrdiff_t)r * h->dim_k, h->dim_k, 1, MIN(k->mr, rows - r), q, nr,
                product + (ptrdiff_t)r * nr, nr, false);
    for (int l = 0; l < nr; l++) {
        int query = q0 + MIN(l, lanes - 1), at = row ? query / h->side : query % h->side;
        for (int i = 0; i < h->side; i++) bias[i * nr + l] = product[(at - i + h->side - 1) * nr + l];
    }
}

/* Sets the scores of masked keys to -inf, so that the softmax makes them 0. */
static void mask_scores(const struct head *h, float *s, int q0, int k0, int keys) {
    int nr = h->k->nr;
    for (int l = 0; l < nr; l++) {
        int last = h->base + q0 + l, first = h->window ? last - h->window + 1 : 0;
        for (int i = keys - 1; i >= 0 && k0 + i > last; i--) s[i * nr + l] = -INFINITY;
        for (int i = 0; i < keys && k0 + i < first; i++) s[i * nr + l] = -INFINITY;
    }
}

/* Computes s[key][lane] for the keys [k0, k0 + keys). */
static void compute_scores(const struct head *h, const float *q, int k0, int keys, float *s) {
    const struct kernels *k = h->k;
    for (int i = 0; i < keys; i += k->mr)
        k->tile(h->dim_k, h->key + (ptrdiff_t)(k0 + i) * h->dim_k, h->dim_k, 1, MIN(k->mr, keys - i), q,
                k->nr, s + (ptrdiff_t)i * k->nr, k->nr, false);
}

/* o[lane][dim_v] = sum_key s[key][lane] v[key]. The last dim_v % nr columns are computed one by one. */
static void sum_values(const struct head *h, const float *s, int k0, int keys, int lanes, float *o,
                       ptrdiff_t ldo) {
    const struct kernels *k = h->k;
    int full = h->dim_v / k->nr * k->nr;
    for (int b = 0; b < keys; b += KEY_BLOCK) {
        int n = MIN(KEY_BLOCK, keys - b);
        const float *sb = s + (ptrdiff_t)b * k->nr, *v = h->value + (k0 + b) * h->v_row;
        for (int l = 0; l < lanes; l += k->mr)
            for (int d = 0; d < full; d += k->nr)
                k->tile(n, sb + l, 1, k->nr, MIN(k->mr, lanes - l), v + d, h->v_row, o + l * ldo + d, ldo,
                        b > 0);
        for (int l = 0; l < lanes; l++)
            for (int d = full; d < h->dim_v; d++) {
                float t = b > 0 ? o[l * ldo + d] : 0.0f;
                for (int i = 0; i < n; i++) t += sb[i * k->nr + l] * v[i * h->v_row + d];
                o[l * ldo + d] = t;
            }
    }
}

static void head_tile(const struct head *h, int q0, float *own) {
    const struct kernels *k = h->k;
    int nr = k->nr, lanes = MIN(nr, h->nq - q0), k0 = 0, k1 = h->nk;
    if (h->base >= 0) k1 = MIN(h->nk, h->base + q0 + lanes);
    if (h->base >= 0 && h->window) k0 = MAX(0, h->base + q0 - h->window + 1);
    int keys = k1 - k0;
    ptrdiff_t ldo = (ptrdiff_t)round_up(h->dim_v, nr);
    float *q = own, *s = q + round_up(h->dim_k, k->mr) * (size_t)nr;
    float *o = s + round_up(h->nk + 1, k->mr) * (size_t)nr, *inv = o + round_up(nr, k->mr) * (size_t)ldo;
    float *rows = NULL, *cols = NULL;
    k->pack(q, h->q + q0 * h->q_row, h->q_row, lanes, h->dim_k);
    if (h->rel_h) {
        rows = inv + nr;
        cols = rows + h->side * nr;
        rel_bias(h, h->rel_h, q, q0, lanes, true, cols + h->side * nr, rows);
        rel_bias(h, h->rel_w, q, q0, lanes, false, cols + h->side * nr, cols);
    }
    compute_scores(h, q, k0, keys, s);
    k->scale_bias(s, keys, h->scale, rows, cols, h->side);
    if (h->softcap > 0) k->softcap(s, h->softcap, (size_t)keys * (size_t)nr);
    if (h->base >= 0) mask_scores(h, s, q0, k0, keys);
    /* the sink's score comes after the scores of the keys */
    for (int l = 0; h->sink && l < nr; l++) s[keys * nr + l] = *h->sink;
    k->softmax_lanes(s, keys + (h->sink != NULL), inv);
    sum_values(h, s, k0, keys, lanes, o, ldo);
    for (int l = 0; l < lanes; l++)
        for (int d = 0; d < h->dim_v; d++) h->out[(q0 + l) * h->out_row + d] = o[l * ldo + d] * inv[l];
}

/* ---- one query. Heads that share a key-value head are computed together, so that its keys and values are
 * read only once. Scores are [head][keys], or [head][keys + 1] with sinks. */
struct group {
    const struct kernels *k;
    int heads, dim_k, dim_v, first, keys; /* keys [first, first + keys) */
    enum dtype type;
    const float *q; /* [heads][dim_k] */
    const char *key, *value;
    ptrdiff_t v_row; /* in numbers */
    float *out;      /* [heads][dim_v] */
    float scale, softcap;
    const float *sinks; /* [heads]; NULL: none */
    int row;            /* scores per head */
};

/* Scratch in floats: per head, one score per key and one of the sink. */
static size_t group_floats(int heads, int keys) { return (size_t)heads * (size_t)(keys + 1); }

static void group_softmax(const struct group *g, float *s, int head) {
    for (int i = 0; i < g->keys; i++) s[i] *= g->scale;
    if (g->softcap > 0) g->k->softcap(s, g->softcap, (size_t)g->keys);
    if (g->sinks) s[g->keys] = g->sinks[head];
    g->k->softmax(s, (size_t)g->row);
}

static void run_group(const struct group *g, float *own) {
    const struct kernels *k = g->k;
    size_t size = dtype_bytes(g->type);
    const char *keys = g->key + (size_t)g->first * (size_t)g->dim_k * size;
    const char *values = g->value + (size_t)g->first * (size_t)g->v_row * size;
    for (int h = 0; h < g->heads; h += 4)
        k->dots(keys, g->type, g->keys, g->dim_k, g->q + (ptrdiff_t)h * g->dim_k, g->dim_k,
                MIN(4, g->heads - h), own + (ptrdiff_t)h * g->row, g->row);
    for (int h = 0; h < g->heads; h++) group_softmax(g, own + (ptrdiff_t)h * g->row, h);
    memset(g->out, 0, sizeof(float) * (size_t)g->heads * (size_t)g->dim_v);
    /* a block of values stays in the cache while all heads use it */
    for (int b = 0; b < g->keys; b += VALUE_BLOCK)
        for (int h = 0; h < g->heads; h += 4)
            k->values(g->out + (ptrdiff_t)h * g->dim_v, g->dim_v, own + (ptrdiff_t)h * g->row + b, g->row,
                      MIN(4, g->heads - h), values + (size_t)b * (size_t)g->v_row * size, g->type, g->v_row,
                      MIN(VALUE_BLOCK, g->keys - b), g->dim_v);
}

static struct group group_of(const struct cpu *c, const struct attention *a, int first, int heads) {
    int kv = first / (a->heads / a->kv_heads), seen = a->base >= 0 ? MIN(a->nk, a->base + 1) : a->nk;
    int from = a->base >= 0 && a->window ? MAX(0, a->base - a->window + 1) : 0;
    size_t size = dtype_bytes(a->kv);
    return (struct group){ .k = c->k,
                           .heads = heads,
                           .dim_k = a->dim_k,
                           .dim_v = a->dim_v,
                           .first = from,
                           .keys = seen - from,
                           .type = a->kv,
                           .q = view_floats(a->q) + (ptrdiff_t)first * a->dim_k,
                           .key = cache_bytes(a->k, a->kv) + (size_t)(kv * a->k_head) * size,
                           .value = cache_bytes(a->v, a->kv) + (size_t)(kv * a->v_head) * size,
                           .v_row = a->v_row ? a->v_row : a->dim_v,
                           .out = view_floats(a->out) + (ptrdiff_t)first * a->dim_v,
                           .scale = a->scale,
                           .softcap = a->softcap,
                           .sinks = a->sinks ? tensor_floats(a->sinks) + first : NULL,
                           .row = seen - from + (a->sinks != NULL) };
}

struct attention_job {
    const struct cpu *c;
    const struct attention *a; /* [n] */
    const int *first;          /* [n + 1]: index of the first task of each attention */
    int n;
    int group; /* heads per task if there is a single query */
};

static struct head head_of(const struct cpu *c, const struct attention *a, int head) {
    int kv = head / (a->heads / a->kv_heads);
    return (struct head){ .k = c->k,
                          .dim_k = a->dim_k,
                          .dim_v = a->dim_v,
                          .nq = a->nq,
                          .nk = a->nk,
                          .base = a->base,
                          .window = a->window,
                          .side = a->side,
                          .scale = a->scale,
                          .softcap = a->softcap,
                          .sink = a->sinks ? tensor_floats(a->sinks) + head : NULL,
                          .q = view_floats(a->q) + head * a->dim_k,
                          .q_row = a->q_row,
                          .key = view_floats(a->k) + kv * a->k_head,
                          .value = view_floats(a->v) + kv * a->v_head,
                          .v_row = a->v_row ? a->v_row : a->dim_v,
                          .rel_h = view_or_null(a->rel_h),
                          .rel_w = view_or_null(a->rel_w),
                          .out = view_floats(a->out) + head * a->dim_v,
                          .out_row = a->out_row };
}

static int attention_of_task(const struct attention_job *j, int task) {
    int lo = 0, hi = j->n;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (j->first[mid] <= task)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static bool is_single(const struct attention *a) { return a->nq == 1 && !a->rel_h.tensor; }

static void single_task(void *job, int task, int worker) {
    const struct attention_job *j = job;
    int at = attention_of_task(j, task), own = task - j->first[at];
    struct group g = group_of(j->c, &j->a[at], own * j->group, j->group);
    run_group(&g, cpu_own(j->c, worker));
}

static void positions_task(void *job, int task, int worker) {
    const struct attention_job *j = job;
    int nr = j->c->k->nr, tiles = (j->a->nq + nr - 1) / nr;
    struct head h = head_of(j->c, j->a, task / tiles);
    head_tile(&h, task % tiles * nr, cpu_own(j->c, worker));
}

/* Returns the heads per task for a single query: all heads that share keys, or fewer heads if there would
 * be too few tasks. */
static int group_heads(const struct cpu *c, const struct attention *a, int n) {
    int group = a->heads / a->kv_heads;
    while (group > 1 && n * a->heads / group < threads_count(c->threads)) group = group % 2 ? 1 : group / 2;
    return group;
}

/* Single queries of several sequences run together. */
static void attend_singles(struct cpu *c, const struct attention *a, int n) {
    int *first = cpu_indices(c, (size_t)n + 1), tasks = 0;
    struct attention_job j = { .c = c, .a = a, .first = first, .n = n, .group = group_heads(c, a, n) };
    size_t floats = 0;
    for (int i = 0; i < n; i++) {
        first[i] = tasks;
        floats = MAX(floats, group_floats(j.group, MAX(a[i].nk, a[i].room)));
        tasks += a[i].heads / j.group;
    }
    first[n] = tasks;
    cpu_reserve_own(c, floats);
    threads_run(c->threads, single_task, &j, tasks);
}

/* SAM's bias needs the scores of all keys at once. The keys are floats. */
static void attend_with_positions(struct cpu *c, const struct attention *a) {
    struct attention_job j = { .c = c, .a = a };
    struct head h = head_of(c, a, 0);
    cpu_reserve_own(c, tile_floats(c->k, &h));
    threads_run(c->threads, positions_task, &j, a->heads * ((a->nq + c->k->nr - 1) / c->k->nr));
}

const char *cpu_attention_many(void *context, const struct attention *a, int n) {
    int single = 0;
    while (single < n && is_single(&a[single])) single++;
    if (single == n) {
        attend_singles(context, a, n);
        return "attention_decode";
    }
    for (int i = 0; i < n; i++)
        if (is_single(&a[i]))
            attend_singles(context, &a[i], 1);
        else if (a[i].rel_h.tensor)
            attend_with_positions(context, &a[i]);
        else
            cpu_attend_blocks(context, &a[i]);
    return "attention";
}

const char *cpu_attention(void *context, const struct attention *a) {
    return cpu_attention_many(context, a, 1);
}

/* ---- attention over the qkv rows of a fused projection (ViT) */
struct qkv_job {
    const struct cpu *c;
    const struct qkv_attention *a;
    float *keys, *values; /* [batch][heads][n][dim] */
    int tiles;
};

static void split_task(void *job, int task, int worker) {
    struct qkv_job *j = job;
    const struct qkv_attention *a = j->a;
    (void)worker;
    int width = a->heads * a->dim, b = task / a->heads, head = task % a->heads;
    size_t at = (size_t)task * (size_t)a->n * (size_t)a->dim;
    for (int i = 0; i < a->n; i++, at += (size_t)a->dim) {
        const float *row =
            view_floats(a->qkv) + ((size_t)b * (size_t)a->n + (size_t)i) * 3 * (size_t)width + head * a->dim;
        memcpy(j->keys + at, row + width, sizeof(float) * (size_t)a->dim);
        memcpy(j->values + at, row + 2 * width, sizeof(float) * (size_t)a->dim);
    }
}

static struct head qkv_head(const struct qkv_job *j, int sequence) {
    const struct qkv_attention *a = j->a;
    int width = a->heads * a->dim, b = sequence / a->heads, head = sequence % a->heads;
    size_t at = (size_t)sequence * (size_t)a->n * (size_t)a->dim;
    return (
        struct head){ .k = j->c->k,
                      .dim_k = a->dim,
                      .dim_v = a->dim,
                      .nq = a->n,
                      .nk = a->n,
                      .base = -1,
                      .side = a->side,
                      .scale = 1.0f / sqrtf((float)a->dim),
                      .q = view_floats(a->qkv) + (size_t)b * (size_t)a->n * 3 * (size_t)width + head * a->dim,
                      .q_row = 3 * width,
                      .key = j->keys + at,
                      .value = j->values + at,
                      .v_row = a->dim,
                      .rel_h = view_or_null(a->rel_h),
                      .rel_w = view_or_null(a->rel_w),
                      .out = view_floats(a->out) + (size_t)b * (size_t)a->n * (size_t)width + head * a->dim,
                      .out_row = width };
}

static void qkv_task(void *job, int task, int worker) {
    struct qkv_job *j = job;
    struct head h = qkv_head(j, task / j->tiles);
    head_tile(&h, task % j->tiles * j->c->k->nr, cpu_own(j->c, worker));
}

const char *cpu_qkv_attention(void *context, const struct qkv_attention *a) {
    struct cpu *c = context;
    size_t floats = (size_t)a->batch * (size_t)a->heads * (size_t)a->n * (size_t)a->dim;
    struct qkv_job j = { .c = c, .a = a, .tiles = (a->n + c->k->nr - 1) / c->k->nr };
    j.keys = cpu_shared(c, 2 * floats);
    j.values = j.keys + floats;
    threads_run(c->threads, split_task, &j, a->batch * a->heads);
    struct head h = qkv_head(&j, 0);
    cpu_reserve_own(c, tile_floats(c->k, &h));
    threads_run(c->threads, qkv_task, &j, a->batch * a->heads * j.tiles);
    return a->rel_h.tensor ? "attention_relpos" : "attention";
}
