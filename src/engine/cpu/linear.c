/* Linear layers, y = x W^T + bias. Up to FEW_ROWS rows use dot products with the weights in place; more
 * rows use a blocked matrix product. */
#include <string.h>

#include "engine/cpu/internal.h"

enum { BLOCK_NUMBERS = 256 }; /* the largest block of a quantised type */
/* Block sizes of large products. A panel's columns stay in the L1 cache while the weights of a block are
 * read. The weights of a task and the sums of its PART_TOKENS tokens stay in the L2 cache. All features of
 * these tokens are computed before the next tokens, so that the tokens stay in the last-level cache. */
enum { PANEL_BYTES = 24 << 10, BLOCK_BYTES = 144 << 10, PART_TOKENS = 512 };

/* ---- few rows */
struct few_job {
    struct cpu *c;
    const struct linear_out *v;
    int n;
    struct few_rows x;
    ptrdiff_t ldy;
    enum ops_store store;
    struct parts parts; /* splits the output rows of all layers, in order, into tasks */
};

static void few_layer(const struct few_job *j, const struct linear_out *l, int r0, int r1) {
    const float *bias = tensor_floats(l->l->bias);
    float *out = view_floats(l->y);
    enum { BLOCK = 64 };
    float t[FEW_ROWS * BLOCK];
    for (int r = r0; r < r1; r += BLOCK) {
        int rows = MIN(BLOCK, r1 - r);
        cpu_few(j->c, &l->l->w, (size_t)r, rows, &j->x, 0, t, BLOCK);
        for (int i = 0; i < j->x.m; i++)
            for (int c = 0; c < rows; c++) {
                float *y = &out[i * j->ldy + r + c];
                float v = t[i * BLOCK + c] + (bias ? bias[r + c] : 0.0f);
                *y = j->store == OPS_ADD ? *y + v : v;
            }
    }
}

static void few_task(void *job, int task, int worker) {
    const struct few_job *j = job;
    (void)worker;
    size_t from = parts_start(&j->parts, task), to = parts_end(&j->parts, task), first = 0;
    for (int i = 0; i < j->n; i++) {
        size_t rows = (size_t)j->v[i].l->w.rows, last = first + rows;
        if (from < last && to > first)
            few_layer(j, &j->v[i], (int)(MAX(from, first) - first), (int)(MIN(to, last) - first));
        first = last;
    }
}

static void run_few(struct cpu *c, struct few_job *j) {
    size_t rows = 0;
    bool round = false;
    for (int i = 0; i < j->n; i++) {
        rows += (size_t)j->v[i].l->w.rows;
        round = round || cpu_rounds(c, &j->v[i].l->w);
    }
    j->c = c;
    if (round) j->x.q8 = cpu_round(c, j->x.x, j->x.ldx, j->x.m, j->v[0].l->w.cols);
    j->parts = parts_of(c, rows, 32);
    threads_run(c->threads, few_task, j, parts_tasks(&j->parts));
}

/* ---- many rows. x is packed into panels of nr tokens, [in][nr] each. A task converts the weights of a
 * block of output features to float once and multiplies them with its panels. Tokens are the vector lanes,
 * so weights are only broadcast. If uses_pairs() is true, weights and activations are pairs of bf16
 * numbers: panels are [in / 2][nr] words, and "columns" below means these words. */
struct gemm_job {
    const struct cpu *c;
    const struct linear *l;
    const float *x, *bias;
    float *panels, *y;
    ptrdiff_t ldx, ldy;
    int m, npanels;
    int block, nblocks; /* features per block, number of blocks */
    int split, part;    /* number of parts of the panels; panels in the largest part */
    int columns;        /* per step */
    bool pairs;         /* columns are pairs of bf16 numbers */
    int in, mr;         /* number of columns; rows of a tile */
    enum ops_store store;
};

/* f16 weights have more fraction bits than bf16, so they are multiplied as floats. */
static bool uses_pairs(const struct cpu *c, const struct matrix *w) {
    return !c->exact && (c->k->fast_bf16 || c->test_bf16) && w->cols % 2 == 0 && w->type != DTYPE_F32 &&
           w->type != DTYPE_F16;
}

static void pack_task(void *job, int task, int worker) {
    const struct gemm_job *j = job;
    const struct kernels *k = j->c->k;
    int nr = k->nr, row = task * nr, rows = MIN(nr, j->m - row);
    float *panel = j->panels + (size_t)task * (size_t)j->in * (size_t)nr, *words = cpu_own(j->c, worker);
    if (!j->pairs) {
        k->pack(panel, j->x + row * j->ldx, j->ldx, rows, j->in);
        return;
    }
    for (int i = 0; i < rows; i++) /* pack() copies 32-bit words, whatever they contain */
        k->narrow((uint16_t *)(void *)(words + (ptrdiff_t)i * j->in), j->x + (row + i) * j->ldx,
                  2 * (size_t)j->in);
    k->pack(panel, words, j->in, rows, j->in);
}

/* Prefetches a part of the next panel (after b). The calls for all features together prefetch the whole
 * panel. */
static void prefetch_next_panel(const struct gemm_job *j, const float *b, int columns, int f, int features) {
    int nr = j->c->k->nr, floats = columns * nr;
    int from = (int)((long)floats * f / features) & ~15, to = (int)((long)floats * (f + j->mr) / features);
    const float *next = b + (size_t)j->in * (size_t)nr;
    for (int i = from; i < MIN(to, floats); i += 16) __builtin_prefetch(next + i);
}

/* Like widen_block(), but writes pairs of bf16 numbers. Quantised weights become floats first. */
static void pair_block(const struct gemm_job *j, int f0, int features, int column, int columns, float *wide) {
    const struct matrix *w = &j->l->w;
    size_t n = 2 * (size_t)columns;
    float *floats = wide + (ptrdiff_t)(j->block + j->mr) * j->columns; /* one row */
    for (int f = 0; f < features; f++, wide += columns) {
        if (w->type == DTYPE_BF16) {
            memcpy(wide, matrix_row(w, (size_t)(f0 + f)) + 4 * (size_t)column, 2 * n);
            continue;
        }
        cpu_widen(j->c, w, (size_t)(f0 + f), 2 * (size_t)column, n, floats);
        j->c->k->narrow((uint16_t *)(void *)wide, floats, n);
    }
}

/* Copies the weights of a block of columns as contiguous floats. The rows of a wide matrix are several
 * pages apart, so reading them in place costs more than this copy. */
static void widen_block(const struct gemm_job *j, int f0, int features, int column, int columns,
                        float *wide) {
    const struct matrix *w = &j->l->w;
    for (int f = 0; f < features; f++, wide += columns)
        cpu_widen(j->c, w, (size_t)(f0 + f), (size_t)column, (size_t)columns, wide);
}

/* out[feature][nr] (+)= weights `wide` times the columns b of one panel. */
static void gemm_panel(const struct gemm_job *j, const float *wide, int features, const float *b, int columns,
                       bool last, float *out, bool add) {
    const struct kernels *k = j->c->k;
    for (int f = 0; f < features; f += j->mr) {
        if (!last) prefetch_next_panel(j, b, columns, f, features);
        if (j->pairs) {
            k->tile_bf16(columns, (const uint32_t *)(const void *)(wide + f * columns), columns,
                         MIN(j->mr, features - f), (const uint32_t *)(const void *)b, k->nr, out + f * k->nr,
                         k->nr, add);
            continue;
        }
        k->tile(columns, wide + f * columns, columns, 1, MIN(k->mr, features - f), b, k->nr, out + f * k->nr,
                k->nr, add);
    }
}

/* Prefetches a part of the weights that are converted next: the next columns of the block, or the first
 * columns of the block that this thread probably gets next. The rows are too short for the hardware
 * prefetchers. The calls for all panels together prefetch the whole block. */
static void prefetch_next_block(const struct gemm_job *j, int f0, int features, int column, int part,
                                int parts) {
    const struct matrix *w = &j->l->w;
    int width = j->pairs ? 2 : 1, next = column + j->columns;
    if (next >= j->in) {
        f0 += j->block * threads_count(j->c->threads);
        features = MIN(features, w->rows - f0);
        next = 0;
    }
    size_t from = dtype_size(w->type, (size_t)(next * width));
    size_t bytes = dtype_size(w->type, (size_t)(MIN(j->columns, j->in - next) * width));
    for (int f = features * part / parts; f < features * (part + 1) / parts; f++) {
        const char *row = matrix_row(w, (size_t)(f0 + f)) + from;
        for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
    }
}

/* Processes a block of features for a part of the panels. Partial sums are in t[panel][feature][nr]. */
static void gemm_task(void *job, int task, int worker) {
    const struct gemm_job *j = job;
    const struct kernels *k = j->c->k;
    int f0 = task % j->nblocks * j->block, features = MIN(j->block, j->l->w.rows - f0), in = j->in;
    int part = task / j->nblocks, p0 = j->npanels * part / j->split, p1 = j->npanels * (part + 1) / j->split;
    size_t stride = (size_t)(j->block + j->mr) * (size_t)k->nr;
    float *sums = cpu_own(j->c, worker), *wide = sums + stride * (size_t)j->part;
    for (int c = 0; c < in; c += j->columns) {
        int columns = MIN(j->columns, in - c);
        if (j->pairs)
            pair_block(j, f0, features, c, columns, wide);
        else
            widen_block(j, f0, features, c, columns, wide);
        for (int p = p0; p < p1; p++) {
            float *t = sums + (size_t)(p - p0) * stride;
            prefetch_next_block(j, f0, features, c, p - p0, p1 - p0);
            gemm_panel(j, wide, features, j->panels + ((size_t)p * (size_t)in + (size_t)c) * (size_t)k->nr,
                       columns, p + 1 == p1, t, c > 0);
            if (c + columns == in) /* the sums of this panel are complete, and still in the cache */
                k->unpack(j->y + p * k->nr * j->ldy + f0, j->ldy, t, MIN(k->nr, j->m - p * k->nr), features,
                          j->bias ? j->bias + f0 : NULL, j->store == OPS_ADD);
        }
    }
    if (j->pairs && k->tile_bf16_end) k->tile_bf16_end();
}

/* Chooses the size of a task: as many features as fit in a block, and PART_TOKENS tokens. Both are smaller if
 * there would be too few tasks. */
static void plan_gemm(struct gemm_job *j) {
    const struct kernels *k = j->c->k;
    int threads = threads_count(j->c->threads), out = j->l->w.rows;
    j->columns = PANEL_BYTES / (int)sizeof(float) / k->nr;
    if (dtype_is_blocks(j->l->w.type)) j->columns = MAX(j->columns / BLOCK_NUMBERS, 1) * BLOCK_NUMBERS;
    int block = BLOCK_BYTES / (int)sizeof(float) / j->columns / j->mr * j->mr;
    int fair = (out + threads * 2 - 1) / (threads * 2);
    block = MIN(block, (fair + j->mr - 1) / j->mr * j->mr);
    j->block = MAX(block, j->mr);
    j->nblocks = (out + j->block - 1) / j->block;
    j->split = (j->m + PART_TOKENS - 1) / PART_TOKENS;
    if (j->nblocks * j->split < threads * 2) j->split = MIN(j->npanels, threads * 2 / j->nblocks + 1);
    j->part = (j->npanels + j->split - 1) / j->split;
}

static void run_gemm(struct cpu *c, struct gemm_job *j) {
    const struct kernels *k = c->k;
    j->c = c;
    j->pairs = uses_pairs(c, &j->l->w);
    j->in = j->pairs ? j->l->w.cols / 2 : j->l->w.cols;
    j->mr = j->pairs ? k->mr_bf16 : k->mr;
    j->bias = tensor_floats(j->l->bias);
    j->npanels = (j->m + k->nr - 1) / k->nr;
    j->panels = cpu_shared(c, (size_t)j->npanels * (size_t)j->in * (size_t)k->nr);
    plan_gemm(j);
    size_t rows = (size_t)(j->block + j->mr), task = rows * (size_t)k->nr * (size_t)j->part;
    task += rows * (size_t)j->columns + 2 * (size_t)j->columns;
    cpu_reserve_own(c, MAX(task, j->pairs ? (size_t)k->nr * (size_t)j->in : 0));
    threads_run(c->threads, pack_task, j, j->npanels);
    threads_run(c->threads, gemm_task, j, j->nblocks * j->split);
}

const char *cpu_linear(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                       struct view y, ptrdiff_t ldy, enum ops_store store) {
    if (m <= FEW_ROWS) {
        struct linear_out one = { l, y };
        struct few_job j = {
            .v = &one, .n = 1, .x = { .x = view_floats(x), .ldx = ldx, .m = m }, .ldy = ldy, .store = store
        };
        run_few(context, &j);
        return "gemv";
    }
    struct gemm_job j = {
        .l = l, .x = view_floats(x), .ldx = ldx, .m = m, .y = view_floats(y), .ldy = ldy, .store = store
    };
    run_gemm(context, &j);
    return "gemm";
}

const char *cpu_linear_many(void *context, const struct linear_out *v, int n, struct view x) {
    struct few_job j = { .v = v, .n = n, .x = { .x = view_floats(x), .m = 1 } };
    run_few(context, &j);
    return "gemv";
}
