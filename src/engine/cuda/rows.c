/* Operators on rows and single numbers, moves, routing. */
#include "engine/cuda/calls.h"

/* ---- rows and elements */
/* Returns true if the norm kernels support the rows: a row fits into registers and is aligned. */
static bool has_norm(const struct norm_args *a) {
    return a->n <= 8192 && a->n % 4 == 0 && a->ldx % 4 == 0 && a->ldy % 4 == 0 && (uintptr_t)a->x % 16 == 0 &&
           (uintptr_t)a->y % 16 == 0;
}
static void run_norm(struct cuda *c, struct norm_args *a) {
    void *params[] = { a };
    size_t rows = a->n <= 1024 ? 8 : a->n <= 2048 ? 4 : 1; /* per block */
    cuda_launch(c,
                rows == 8   ? KERNEL_norm_1024
                : rows == 4 ? KERNEL_norm_2048
                            : KERNEL_norm_8192,
                GRID(((size_t)a->rows + rows - 1) / rows, .threads = CUDA_THREADS), params);
}

const char *cuda_rmsnorm(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n,
                         float eps, struct view y, ptrdiff_t ldy) {
    float *in = view_pointer(x), *weights = pointer_of(w);
    void *out = view_address(y);
    int narrow = is_narrow(y);
    struct norm_args a = { .x = in,
                           .w = weights,
                           .y = out,
                           .ldx = ldx,
                           .ldy = ldy,
                           .rows = rows,
                           .n = n,
                           .type = (int)y.tensor->type,
                           .eps = eps };
    if (has_norm(&a))
        run_norm(context, &a);
    else
        LAUNCH(context, rmsnorm, GRID((size_t)rows, .threads = CUDA_THREADS), &in, &ldx, &weights, &n, &eps,
               &out, &ldy, &narrow);
    return "rmsnorm";
}

static struct norm_args layernorm_args(struct view x, struct tensor *w, struct tensor *b, int rows, int n,
                                       float eps, struct view y) {
    return (struct norm_args){ .x = view_pointer(x),
                               .w = pointer_of(w),
                               .b = pointer_of(b),
                               .y = view_address(y),
                               .ldx = n,
                               .ldy = n,
                               .rows = rows,
                               .n = n,
                               .type = (int)y.tensor->type,
                               .eps = eps };
}

const char *cuda_layernorm(void *context, struct view x, struct tensor *w, struct tensor *b, int rows, int n,
                           float eps, struct view y) {
    float *in = view_pointer(x), *out = view_pointer(y), *weights = pointer_of(w), *bias = pointer_of(b);
    struct norm_args a = layernorm_args(x, w, b, rows, n, eps, y);
    if (has_norm(&a))
        run_norm(context, &a);
    else
        LAUNCH(context, layernorm, GRID((size_t)rows, .threads = CUDA_THREADS), &in, &weights, &bias, &n,
               &eps, &out);
    return "layernorm";
}

const char *cuda_layernorm_windows(void *context, struct view x, struct tensor *w, struct tensor *b,
                                   float eps, const struct windows *s, struct view rows) {
    struct norm_args a =
        layernorm_args(x, w, b, MAX(s->views, 1) * s->padded * s->padded, s->width, eps, rows);
    if (!has_norm(&a)) return NULL;
    a.grid = s->grid;
    a.padded = s->padded;
    a.window = s->window;
    run_norm(context, &a);
    return "layernorm_windows";
}

void cuda_place_heads(void *context, const struct place_heads *p) {
    struct place_args a = { .q = view_pointer(p->q),
                            .k = view_pointer(p->k),
                            .v = view_pointer(p->v),
                            .q_norm = pointer_of(p->q_norm),
                            .k_norm = pointer_of(p->k_norm),
                            .cosine = pointer_of(p->rope->cosine),
                            .sine = pointer_of(p->rope->sine),
                            .eps = p->eps,
                            .dims = p->rope->dims,
                            .interleaved = p->rope->interleaved,
                            .n = p->n,
                            .position = p->position,
                            .heads = p->heads,
                            .kv_heads = p->kv_heads,
                            .dim = p->dim,
                            .max_context = p->max_context,
                            .queries = view_address(p->queries),
                            .keys = view_address(p->keys),
                            .values = view_address(p->values) };
    LAUNCH(context, place_heads,
           GRID((size_t)p->n, ((size_t)(p->heads + 2 * p->kv_heads) + 7) / 8, .threads = CUDA_THREADS), &a);
}

const char *cuda_activate(void *context, enum ops_activation a, struct view x, size_t n) {
    float *p = view_pointer(x);
    void *params[] = { &p, &n };
    cuda_launch(context, a == OPS_GELU ? KERNEL_gelu : KERNEL_quick_gelu,
                (struct cuda_grid){ cuda_blocks(n), .threads = CUDA_THREADS }, params);
    return a == OPS_GELU ? "gelu" : "quick_gelu";
}
const char *cuda_glu(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n) {
    (void)kind; /* silu: this backend has no OPS_EXTRA_GLU */
    float *g = view_pointer(gate), *u = view_pointer(up);
    LAUNCH(context, silu_mul, GRID(cuda_blocks(n), .threads = CUDA_THREADS), &g, &u, &n);
    return "silu_mul";
}
const char *cuda_add(void *context, struct view y, struct view x, size_t n) {
    float *to = view_pointer(y), *from = view_pointer(x);
    LAUNCH(context, add, GRID(cuda_blocks(n), .threads = CUDA_THREADS), &to, &from, &n);
    return "add";
}
const char *cuda_embed(void *context, const struct matrix *table, const uint32_t *ids, int n,
                       struct view out) {
    struct cuda *c = context;
    void *t = pointer_of(table->data), *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * sizeof *ids);
    float *to = view_pointer(out);
    int cols = table->cols;
    cuda_copy_in(c, list, ids, (size_t)n * sizeof *ids);
    void *params[] = { &t, &list, &cols, &to };
    cuda_launch(c, cuda_typed(KERNEL_embed_f32, table->type),
                (struct cuda_grid){ (size_t)n, .threads = CUDA_THREADS }, params);
    return "embed";
}

/* ---- moves */
static void run_windows(struct cuda *c, const struct windows *s, struct view grid, struct view rows,
                        int merge) {
    float *g = view_pointer(grid), *r = view_pointer(rows);
    int side = s->grid, padded = s->padded, window = s->window, width = s->width, views = MAX(s->views, 1);
    LAUNCH(c, window_copy, cuda_rows_grid((size_t)(views * padded * padded), (size_t)width), &g, &r, &side,
           &padded, &window, &width, &views, &merge);
}
const char *cuda_window_partition(void *context, const struct windows *s, struct view grid,
                                  struct view rows) {
    run_windows(context, s, grid, rows, 0);
    return "window_copy";
}
const char *cuda_window_merge(void *context, const struct windows *s, struct view rows, struct view grid) {
    run_windows(context, s, grid, rows, 1);
    return "window_copy";
}

void cuda_route(void *context, const struct routing *r, struct view logits, int m,
                struct routing_choice *out) {
    struct cuda *c = context;
    size_t bytes = (size_t)m * (size_t)r->k * sizeof *out;
    float *p = view_pointer(logits), scale = r->scale;
    void *choices = cuda_scratch(c, SCRATCH_INDEX, bytes);
    int n = r->n, k = r->k, groups = r->groups, kept = r->groups_kept, normalise = r->normalise;
    LAUNCH(c, route, GRID((size_t)m, .threads = 32), &p, &n, &k, &groups, &kept, &normalise, &scale,
           &choices);
    cuda_copy_out(c, out, choices, bytes);
}

void cuda_rope(void *context, const struct rope_table *t, const struct rope_rows *r) {
    float *x = view_pointer(r->x), *cosine = pointer_of(t->cosine), *sine = pointer_of(t->sine);
    ptrdiff_t row = r->row;
    int heads = r->heads, stride = r->stride, offset = r->offset, position = r->position, dims = t->dims,
        interleaved = t->interleaved;
    LAUNCH(context, rope, GRID((size_t)r->rows, .threads = CUDA_THREADS), &x, &row, &heads, &stride, &offset,
           &position, &dims, &interleaved, &cosine, &sine);
}

static void run_cache(struct cuda *c, const struct cache_rows *s, enum kernel_id f32, enum kernel_id bf16) {
    enum dtype type = s->cache.tensor->type;
    void *cache = view_address(s->cache);
    float *rows = view_pointer(s->rows);
    int n = s->n, heads = s->heads, dim = s->dim, most = s->max_context, at = s->position;
    void *params[] = { &cache, &rows, &n, &heads, &dim, &most, &at };
    cuda_launch(
        c, type == DTYPE_BF16 ? bf16 : f32,
        (struct cuda_grid){ cuda_blocks((size_t)n * (size_t)heads * (size_t)dim), .threads = CUDA_THREADS },
        params);
}
void cuda_cache_store(void *context, const struct cache_rows *s) {
    run_cache(context, s, KERNEL_cache_store_f32, KERNEL_cache_store_bf16);
}
void cuda_cache_load(void *context, const struct cache_rows *s) {
    run_cache(context, s, KERNEL_cache_load_f32, KERNEL_cache_load_bf16);
}

void cuda_copy_rows(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                    size_t n) {
    float *out = view_pointer(to), *in = view_pointer(from);
    LAUNCH(context, copy_rows, cuda_rows_grid((size_t)rows, n), &out, &ldt, &in, &ldf, &rows, &n);
}
void cuda_gather_rows(void *context, struct view to, struct view from, const int *index, int n,
                      size_t width) {
    struct cuda *c = context;
    float *out = view_pointer(to), *in = view_pointer(from);
    int *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * sizeof *list);
    cuda_copy_in(c, list, index, (size_t)n * sizeof *list);
    LAUNCH(c, gather_rows, cuda_rows_grid((size_t)n, width), &out, &in, &list, &n, &width);
}
void cuda_scatter_add(void *context, struct view to, struct view from, const int *index, const float *weights,
                      int n, size_t width) {
    struct cuda *c = context;
    float *out = view_pointer(to), *in = view_pointer(from);
    int *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * 2 * sizeof *list);
    float *factors = (void *)(list + n);
    cuda_copy_in(c, list, index, (size_t)n * sizeof *list);
    cuda_copy_in(c, factors, weights, (size_t)n * sizeof *factors);
    LAUNCH(c, scatter_add, cuda_rows_grid((size_t)n, width), &out, &in, &list, &factors, &n, &width);
}
void cuda_resample_grid(void *context, struct view in, int from, int to, int channels, struct view out) {
    float *x = view_pointer(in), *y = view_pointer(out);
    LAUNCH(context, resample_grid, GRID((size_t)to * (size_t)to, .threads = CUDA_THREADS), &x, &from, &to,
           &channels, &y);
}
void cuda_resample_rows(void *context, struct view in, int from, int to, int channels, struct view out) {
    float *x = view_pointer(in), *y = view_pointer(out);
    LAUNCH(context, resample_rows, GRID(cuda_blocks((size_t)to * (size_t)channels), .threads = CUDA_THREADS),
           &x, &from, &to, &channels, &y);
}
