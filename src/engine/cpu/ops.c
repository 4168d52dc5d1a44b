#include "engine/ops/ops.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

enum { FEW_ROWS = 8 }; /* up to here weights are read once and multiplied at once, with nothing packed */
/* Blocks of the large products, in bytes so that they fit whatever a tile's width is: a panel's columns
 * stay in the first cache while the weights of a block go by, which stay in the second, as do the sums of
 * the PART_TOKENS that a task takes. All features of those tokens come before the next ones, so that the
 * tokens stay in the last cache. */
enum { PANEL_BYTES = 24 << 10, BLOCK_BYTES = 144 << 10, PART_TOKENS = 512 };

struct ops *ops_open(int threads) {
    struct ops *o = xcalloc(1, sizeof *o);
    o->k = kernels_pick();
    o->threads = threads_open(threads);
    o->own = xcalloc((size_t)threads_count(o->threads), sizeof *o->own);
    return o;
}

void ops_close(struct ops *o) {
    if (!o) return;
    for (int i = 0; i < threads_count(o->threads); i++) free(o->own[i].v);
    threads_close(o->threads);
    free(o->shared.v);
    free(o->unfolded.v);
    free(o->own);
    free(o);
}

static void buffer_fit(struct ops_buffer *b, size_t floats) {
    if (floats <= b->cap) return;
    free(b->v); /* scratch: what it held is of no use any more */
    b->cap = floats + floats / 4;
    if (posix_memalign((void **)&b->v, 64, b->cap * sizeof(float)) != 0)
        die("out of memory: %zu bytes of scratch", b->cap * sizeof(float));
}

float *ops_shared(struct ops *o, size_t floats) {
    buffer_fit(&o->shared, floats);
    return o->shared.v;
}

float *ops_unfold(struct ops *o, size_t floats) {
    buffer_fit(&o->unfolded, floats);
    return o->unfolded.v;
}

void ops_reserve_own(struct ops *o, size_t floats) {
    for (int i = 0; i < threads_count(o->threads); i++) buffer_fit(&o->own[i], floats);
}

/* ---- rows of something in equal parts */
struct parts {
    size_t n, part; /* items, items a task */
};
static struct parts parts_of(struct ops *o, size_t n, size_t least) {
    size_t want = (size_t)threads_count(o->threads) * 4;
    return (struct parts){ n, MAX(least, (n + want - 1) / want) };
}
static int parts_tasks(const struct parts *p) { return (int)((p->n + p->part - 1) / p->part); }
static size_t parts_end(const struct parts *p, int task) { return MIN(p->n, ((size_t)task + 1) * p->part); }

/* ---- linear, few rows: dot products */
struct few_job {
    struct ops *o;
    const struct linear_out *v;
    int n, m;
    const float *x;
    ptrdiff_t ldx, ldy;
    enum ops_store store;
    struct parts parts; /* of all output rows, one layer after the other */
};

static void few_rows(const struct few_job *j, const struct linear_out *l, int r0, int r1) {
    const struct matrix *w = &l->l->w;
    const char *base = (const char *)w->data + (size_t)r0 * (size_t)w->cols * dtype_bytes(w->type);
    enum { BLOCK = 64 };
    float t[FEW_ROWS * BLOCK];
    for (int r = r0; r < r1; r += BLOCK) {
        int rows = MIN(BLOCK, r1 - r);
        for (int i = 0; i < j->m; i += 4)
            j->o->k->dots(base, w->type, rows, w->cols, j->x + i * j->ldx, j->ldx, MIN(4, j->m - i),
                          t + i * BLOCK, BLOCK);
        for (int i = 0; i < j->m; i++)
            for (int c = 0; c < rows; c++) {
                float *y = &l->y[i * j->ldy + r + c];
                float v = t[i * BLOCK + c] + (l->l->bias ? l->l->bias[r + c] : 0.0f);
                *y = j->store == OPS_ADD ? *y + v : v;
            }
        base += (size_t)rows * (size_t)w->cols * dtype_bytes(w->type);
    }
}

static void few_task(void *job, int task, int worker) {
    const struct few_job *j = job;
    (void)worker;
    size_t from = (size_t)task * j->parts.part, to = parts_end(&j->parts, task), first = 0;
    for (int i = 0; i < j->n; i++) {
        size_t rows = (size_t)j->v[i].l->w.rows, last = first + rows;
        if (from < last && to > first)
            few_rows(j, &j->v[i], (int)(MAX(from, first) - first), (int)(MIN(to, last) - first));
        first = last;
    }
}

static void run_few(struct few_job *j) {
    size_t rows = 0;
    for (int i = 0; i < j->n; i++) rows += (size_t)j->v[i].l->w.rows;
    j->parts = parts_of(j->o, rows, 32);
    threads_run(j->o->threads, few_task, j, parts_tasks(&j->parts));
}

/* ---- linear, many rows: x is packed into panels of nr tokens, [in][nr] each; a task takes a block of output
 * features, widens their weights once and multiplies them with every panel. Tokens are the vector lanes, so
 * weights need no transposing: they are only broadcast. */
struct gemm_job {
    struct ops *o;
    const struct linear *l;
    const float *x, *panels;
    ptrdiff_t ldx, ldy;
    int m, npanels, block, nblocks, split; /* block: features a task; split: parts of the panels */
    int columns, part;                     /* columns a step, panels of the largest part */
    float *y;
    enum ops_store store;
};

static void pack_task(void *job, int task, int worker) {
    struct gemm_job *j = job;
    (void)worker;
    int nr = j->o->k->nr, in = j->l->w.cols, row = task * nr;
    j->o->k->pack((float *)j->panels + (size_t)task * (size_t)in * (size_t)nr, j->x + row * j->ldx, j->ldx,
                  MIN(nr, j->m - row), in);
}

/* Asks for part f of the panel after b, so that it is there when its turn comes. */
static void fetch_ahead(const struct gemm_job *j, const float *b, int columns, int f, int features) {
    int nr = j->o->k->nr, floats = columns * nr;
    int from = (int)((long)floats * f / features) & ~15,
        to = (int)((long)floats * (f + j->o->k->mr) / features);
    const float *next = b + (size_t)j->l->w.cols * (size_t)nr;
    for (int i = from; i < MIN(to, floats); i += 16) __builtin_prefetch(next + i);
}

/* The weights of a block's columns as floats, dense: rows of a wide matrix lie pages apart, which costs
 * more than this copy. */
static void widen_block(const struct gemm_job *j, int f0, int features, int c, int columns, float *wide) {
    const struct matrix *w = &j->l->w;
    const char *data = w->data;
    for (int f = 0; f < features; f++, wide += columns) {
        size_t at = (size_t)(f0 + f) * (size_t)w->cols + (size_t)c;
        j->o->k->widen(wide, data + at * dtype_bytes(w->type), w->type, (size_t)columns);
    }
}

/* One panel's columns, b, times the weights `wide`, onto out[feature][nr]. */
static void gemm_panel(const struct gemm_job *j, const float *wide, int features, const float *b, int columns,
                       bool last, float *out, bool add) {
    const struct kernels *k = j->o->k;
    for (int f = 0; f < features; f += k->mr) {
        if (!last) fetch_ahead(j, b, columns, f, features);
        k->tile(columns, wide + f * columns, columns, 1, MIN(k->mr, features - f), b, k->nr, out + f * k->nr,
                k->nr, add);
    }
}

/* A block of features for a part of the panels. What is not finished waits in t[panel][feature][nr]. */
static void gemm_task(void *job, int task, int worker) {
    const struct gemm_job *j = job;
    const struct kernels *k = j->o->k;
    int f0 = task % j->nblocks * j->block, features = MIN(j->block, j->l->w.rows - f0), in = j->l->w.cols;
    int part = task / j->nblocks, p0 = j->npanels * part / j->split, p1 = j->npanels * (part + 1) / j->split;
    size_t stride = (size_t)(j->block + k->mr) * (size_t)k->nr;
    float *t = ops_own(j->o, worker), *wide = t + stride * (size_t)j->part;
    for (int c = 0; c < in; c += j->columns) {
        int columns = MIN(j->columns, in - c);
        widen_block(j, f0, features, c, columns, wide);
        for (int p = p0; p < p1; p++)
            gemm_panel(j, wide, features, j->panels + ((size_t)p * (size_t)in + (size_t)c) * (size_t)k->nr,
                       columns, p + 1 == p1, t + (size_t)(p - p0) * stride, c > 0);
    }
    for (int p = p0; p < p1; p++)
        k->unpack(j->y + p * k->nr * j->ldy + f0, j->ldy, t + (size_t)(p - p0) * stride,
                  MIN(k->nr, j->m - p * k->nr), features, j->l->bias ? j->l->bias + f0 : NULL,
                  j->store == OPS_ADD);
}

/* Features a task: as many as fit a block, or fewer so that there are tasks enough. */
static void plan_gemm(struct gemm_job *j) {
    const struct kernels *k = j->o->k;
    int threads = threads_count(j->o->threads), out = j->l->w.rows;
    j->columns = PANEL_BYTES / (int)sizeof(float) / k->nr;
    int block = BLOCK_BYTES / (int)sizeof(float) / j->columns / k->mr * k->mr;
    int fair = (out + threads * 2 - 1) / (threads * 2);
    block = MIN(block, (fair + k->mr - 1) / k->mr * k->mr);
    j->block = MAX(block, k->mr);
    j->nblocks = (out + j->block - 1) / j->block;
    j->split = (j->m + PART_TOKENS - 1) / PART_TOKENS;
    if (j->nblocks * j->split < threads * 2) j->split = MIN(j->npanels, threads * 2 / j->nblocks + 1);
    j->part = (j->npanels + j->split - 1) / j->split;
}

static void run_gemm(struct gemm_job *j) {
    const struct kernels *k = j->o->k;
    size_t in = (size_t)j->l->w.cols;
    j->npanels = (j->m + k->nr - 1) / k->nr;
    j->panels = ops_shared(j->o, (size_t)j->npanels * in * (size_t)k->nr);
    plan_gemm(j);
    ops_reserve_own(j->o, (size_t)(j->block + k->mr) * (size_t)k->nr * (size_t)j->part +
                              (size_t)j->block * (size_t)j->columns);
    threads_run(j->o->threads, pack_task, j, j->npanels);
    threads_run(j->o->threads, gemm_task, j, j->nblocks * j->split);
}

static void record_linear(struct ops *o, uint64_t start, const char *name, const char *kernel,
                          const struct linear_out *v, int n, int m) {
    double flops = 0, bytes = 0;
    long out = 0;
    if (!start) return;
    for (int i = 0; i < n; i++) {
        const struct matrix *w = &v[i].l->w;
        double cells = (double)w->rows * w->cols;
        flops += 2.0 * m * cells;
        bytes += cells * (double)dtype_bytes(w->type) + 4.0 * m * w->rows;
        out += w->rows;
    }
    const struct matrix *w = &v[0].l->w;
    bytes += 4.0 * m * w->cols;
    record_op_end(o->rec, start,
                  &(struct record_op){ .name = name,
                                       .kernel = kernel,
                                       .type = w->type,
                                       .m = m,
                                       .n = out,
                                       .k = w->cols,
                                       .flops = flops,
                                       .bytes = bytes });
}

void ops_linear(struct ops *o, const char *name, const struct linear *l, const float *x, ptrdiff_t ldx, int m,
                float *y, ptrdiff_t ldy, enum ops_store store) {
    if (m <= 0) return;
    uint64_t start = record_op_start(o->rec);
    struct linear_out one = { l, y };
    if (m <= FEW_ROWS) {
        struct few_job j = {
            .o = o, .v = &one, .n = 1, .m = m, .x = x, .ldx = ldx, .ldy = ldy, .store = store
        };
        run_few(&j);
    } else {
        struct gemm_job j = {
            .o = o, .l = l, .x = x, .ldx = ldx, .m = m, .y = y, .ldy = ldy, .store = store
        };
        run_gemm(&j);
    }
    record_linear(o, start, name, m <= FEW_ROWS ? "gemv" : "gemm", &one, 1, m);
}

void ops_linear_many(struct ops *o, const char *name, const struct linear_out *v, int n, const float *x) {
    uint64_t start = record_op_start(o->rec);
    struct few_job j = { .o = o, .v = v, .n = n, .m = 1, .x = x };
    run_few(&j);
    record_linear(o, start, name, "gemv", v, n, 1);
}

/* ---- experts of one token: all gate and up rows, then all down rows */
struct experts_job {
    struct ops *o;
    const struct expert *const *e;
    const float *weights, *x;
    float *h, *y; /* h: the experts' hidden rows, one behind the other */
    int n;
    struct parts parts;
};

static void experts_up_task(void *job, int task, int worker) {
    const struct experts_job *j = job;
    (void)worker;
    const struct kernels *k = j->o->k;
    size_t from = (size_t)task * j->parts.part, to = parts_end(&j->parts, task), first = 0;
    enum { BLOCK = 64 };
    float up[BLOCK];
    for (int e = 0; e < j->n; e++) {
        const struct matrix *g = &j->e[e]->gate.w, *u = &j->e[e]->up.w;
        size_t last = first + (size_t)g->rows, row_bytes = (size_t)g->cols * dtype_bytes(g->type);
        for (size_t r = MAX(from, first); r < MIN(to, last); r += BLOCK) {
            int rows = (int)MIN(MIN(to, last) - r, (size_t)BLOCK);
            size_t at = (r - first) * row_bytes;
            k->dots((const char *)g->data + at, g->type, rows, g->cols, j->x, 0, 1, j->h + r, 0);
            k->dots((const char *)u->data + at, u->type, rows, u->cols, j->x, 0, 1, up, 0);
            k->silu_mul(j->h + r, up, (size_t)rows);
        }
        first = last;
    }
}

static void experts_down_task(void *job, int task, int worker) {
    const struct experts_job *j = job;
    (void)worker;
    enum { BLOCK = 64 };
    float t[BLOCK];
    size_t to = parts_end(&j->parts, task);
    for (size_t r = (size_t)task * j->parts.part; r < to; r += BLOCK) {
        int rows = (int)MIN(to - r, (size_t)BLOCK);
        const float *h = j->h;
        for (int e = 0; e < j->n; e++) {
            const struct matrix *d = &j->e[e]->down.w;
            const char *w = (const char *)d->data + r * (size_t)d->cols * dtype_bytes(d->type);
            j->o->k->dots(w, d->type, rows, d->cols, h, 0, 1, t, 0);
            j->o->k->axpy(j->y + r, j->weights[e], t, (size_t)rows);
            h += d->cols;
        }
    }
}

void ops_experts_one(struct ops *o, const char *name, const struct expert *const *experts,
                     const float *weights, int n, const float *x, float *y) {
    uint64_t start = record_op_start(o->rec);
    struct experts_job j = { .o = o, .e = experts, .weights = weights, .x = x, .y = y, .n = n };
    size_t hidden = 0;
    double cells = 0, bytes = 0;
    for (int e = 0; e < n; e++) {
        const struct matrix *w = &experts[e]->gate.w;
        hidden += (size_t)w->rows;
        cells += 3.0 * w->rows * w->cols;
        bytes += 3.0 * w->rows * w->cols * (double)dtype_bytes(w->type);
    }
    j.h = ops_shared(o, hidden);
    j.parts = parts_of(o, hidden, 32);
    threads_run(o->threads, experts_up_task, &j, parts_tasks(&j.parts));
    j.parts = parts_of(o, (size_t)experts[0]->down.w.rows, 16);
    threads_run(o->threads, experts_down_task, &j, parts_tasks(&j.parts));
    if (start)
        record_op_end(o->rec, start,
                      &(struct record_op){ .name = name,
                                           .kernel = "swiglu_gemv",
                                           .type = experts[0]->gate.w.type,
                                           .m = 1,
                                           .n = (long)hidden,
                                           .k = experts[0]->gate.w.cols,
                                           .flops = 2 * cells,
                                           .bytes = bytes });
}

/* ---- element-wise and by rows */
struct rows_job {
    struct ops *o;
    const float *x, *w, *b;
    float *y;
    ptrdiff_t ldx, ldy;
    int n, what;
    float eps;
    const struct matrix *table;
    const uint32_t *ids;
    struct parts parts;
};
enum { ROWS_RMS, ROWS_LAYER, ROWS_GELU, ROWS_QUICK, ROWS_SILU, ROWS_ADD, ROWS_EMBED };

static void one_row(const struct rows_job *j, size_t i) {
    const struct kernels *k = j->o->k;
    const float *x = j->x + (ptrdiff_t)i * j->ldx;
    float *y = j->y + (ptrdiff_t)i * j->ldy;
    if (j->what == ROWS_RMS)
        k->rmsnorm(y, x, j->w, j->n, j->eps);
    else
        k->layernorm(y, x, j->w, j->b, j->n, j->eps);
}

static void embed_row(const struct rows_job *j, size_t i) {
    size_t cols = (size_t)j->table->cols, at = (size_t)j->ids[i] * cols * dtype_bytes(j->table->type);
    j->o->k->widen(j->y + i * cols, (const char *)j->table->data + at, j->table->type, cols);
}

static void rows_task(void *job, int task, int worker) {
    const struct rows_job *j = job;
    const struct kernels *k = j->o->k;
    (void)worker;
    size_t from = (size_t)task * j->parts.part, to = parts_end(&j->parts, task), n = to - from;
    switch (j->what) {
    case ROWS_GELU: k->gelu(j->y + from, n); break;
    case ROWS_QUICK: k->quick_gelu(j->y + from, n); break;
    case ROWS_SILU: k->silu_mul(j->y + from, j->x + from, n); break;
    case ROWS_ADD: k->add(j->y + from, j->x + from, n); break;
    case ROWS_EMBED:
        for (size_t i = from; i < to; i++) embed_row(j, i);
        break;
    default:
        for (size_t i = from; i < to; i++) one_row(j, i);
    }
}

static void run_rows(struct rows_job *j, const char *name, const char *kernel, size_t items, size_t least,
                     double floats) {
    uint64_t start = record_op_start(j->o->rec);
    j->parts = parts_of(j->o, items, least);
    threads_run(j->o->threads, rows_task, j, parts_tasks(&j->parts));
    if (start)
        record_op_end(j->o->rec, start,
                      &(struct record_op){ .name = name,
                                           .kernel = kernel,
                                           .type = DTYPE_F32,
                                           .m = (long)items,
                                           .n = j->n,
                                           .flops = 0,
                                           .bytes = 4 * floats });
}

void ops_rmsnorm(struct ops *o, const char *name, const float *x, ptrdiff_t ldx, const float *w, int rows,
                 int n, float eps, float *y, ptrdiff_t ldy) {
    struct rows_job j = {
        .o = o, .x = x, .w = w, .y = y, .ldx = ldx, .ldy = ldy, .n = n, .eps = eps, .what = ROWS_RMS
    };
    run_rows(&j, name, "rmsnorm", (size_t)rows, (size_t)MAX(1, 16384 / n), 2.0 * rows * n);
}

void ops_layernorm(struct ops *o, const char *name, const float *x, const float *w, const float *b, int rows,
                   int n, float eps, float *y) {
    struct rows_job j = {
        .o = o, .x = x, .w = w, .b = b, .y = y, .ldx = n, .ldy = n, .n = n, .eps = eps, .what = ROWS_LAYER
    };
    run_rows(&j, name, "layernorm", (size_t)rows, (size_t)MAX(1, 16384 / n), 2.0 * rows * n);
}

void ops_activate(struct ops *o, enum ops_activation a, float *x, size_t n) {
    struct rows_job j = { .o = o, .y = x, .what = a == OPS_GELU ? ROWS_GELU : ROWS_QUICK };
    run_rows(&j, a == OPS_GELU ? "gelu" : "quick_gelu", a == OPS_GELU ? "gelu" : "quick_gelu", n, 4096,
             2.0 * (double)n);
}

void ops_silu_mul(struct ops *o, float *gate, const float *up, size_t n) {
    struct rows_job j = { .o = o, .x = up, .y = gate, .what = ROWS_SILU };
    run_rows(&j, "silu_mul", "silu_mul", n, 4096, 3.0 * (double)n);
}

void ops_add(struct ops *o, const char *name, float *y, const float *x, size_t n) {
    struct rows_job j = { .o = o, .x = x, .y = y, .what = ROWS_ADD };
    run_rows(&j, name, "add", n, 16384, 3.0 * (double)n);
}

void ops_embed(struct ops *o, const struct matrix *table, const uint32_t *ids, int n, float *out) {
    struct rows_job j = {
        .o = o, .y = out, .table = table, .ids = ids, .n = table->cols, .what = ROWS_EMBED
    };
    run_rows(&j, "embed_tokens", "embed", (size_t)n, 16, 2.0 * n * table->cols);
}
