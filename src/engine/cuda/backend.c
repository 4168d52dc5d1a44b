/* The operators of ops.h as launches. All run on one stream, in order. */
#include "engine/cuda/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"

enum { THREADS = 256, FEW_ROWS = 8 };

static size_t blocks_for(size_t items) { return MIN((items + THREADS - 1) / THREADS, (size_t)1 << 16); }
/* Blocks in y are rows; the threads of the blocks in x are the n numbers of a row. */
static struct cuda_grid row_grid(size_t rows, size_t n) {
    return (struct cuda_grid){ MIN((n + THREADS - 1) / THREADS, (size_t)1 << 16), MIN(rows, (size_t)65535),
                               .threads = THREADS };
}
static enum kernel_id typed(enum kernel_id f32, enum dtype type) {
    return (enum kernel_id)((int)f32 + (int)type);
}

/* ---- device */
static void backend_close(void *context) {
    struct cuda *c = context;
    if (c->stream) c->d->stream_wait(c->stream);
    for (size_t i = 0; i < c->blocks.n; i++) c->d->mem_free(c->blocks.v[i].data);
    for (size_t i = 0; i < c->arenas.n; i++) c->d->mem_free(c->arenas.v[i]);
    for (int i = 0; i < SCRATCH_COUNT; i++) free(c->scratch[i]);
    for (int i = 0; i < MODULE_COUNT; i++)
        if (c->modules[i]) c->d->module_unload(c->modules[i]);
    if (c->stream) {
        c->d->stream_destroy(c->stream);
        c->d->context_release(c->device);
    }
    free(c->blocks.v);
    free(c->arenas.v);
    free(c->known.v);
    free(c);
}

static const char *backend_device(void *context) { return ((struct cuda *)context)->about; }
static const char *backend_name(void *context) { return ((struct cuda *)context)->name; }
static int backend_units(void *context) { return ((struct cuda *)context)->sms; }
static void backend_finish(void *context) {
    struct cuda *c = context;
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "a kernel");
}

static int backend_check(void *context, struct err *err) {
    struct cuda *c = context;
    size_t free_bytes = 0, total = 0;
    backend_finish(c);
    if (c->failed) {
        *err = c->err;
        return -1;
    }
    if (c->pending == 0) return 0;
    if (!cuda_ok(c, c->d->mem_info(&free_bytes, &total), "reading the amount of free memory"))
        return err_set(err, "%s", c->err.msg);
    if (c->pending <= free_bytes) return 0;
    return err_set(
        err,
        "%s: the weights need %.1f GB, but only %.1f of %.1f GB are free: choose a smaller model or "
        "max_context, end other programs on this GPU, or use device=cpu",
        c->name, (double)c->pending / 1e9, (double)free_bytes / 1e9, (double)total / 1e9);
}

/* ---- tensors */
static struct tensor *new_tensor(struct cuda *c, size_t bytes, enum dtype type, bool zero) {
    struct tensor *t = xcalloc(1, sizeof *t);
    t->bytes = bytes;
    t->type = type;
    t->data = cuda_memory(c, bytes);
    if (zero && t->data)
        cuda_ok(c, c->d->set_words(t->data, 0, (bytes + 3) / 4, c->stream), "clearing memory");
    return t;
}

static struct tensor *tensor_alloc(void *context, size_t floats, enum tensor_content content) {
    return new_tensor(context, floats * sizeof(float), DTYPE_F32, content == TENSOR_ZERO);
}

static struct tensor *tensor_alloc_cache(void *context, size_t numbers, enum dtype type) {
    if (((struct cuda *)context)->exact) type = DTYPE_F32;
    return new_tensor(context, numbers * dtype_bytes(type), type, true);
}

static struct tensor *tensor_wrap(void *context, const void *host, size_t bytes) {
    struct tensor *t = xcalloc(1, sizeof *t);
    t->host = host;
    t->bytes = (bytes + 255) / 256 * 256;
    ((struct cuda *)context)->pending += t->bytes;
    t->type = DTYPE_F32;
    t->data = 0;
    t->bytes = bytes;
    return t;
}

/* Allocates one block of memory for all tensors wrapped so far. */
static void tensor_commit(void *context, struct tensor *t) {
    struct cuda *c = context;
    size_t bytes = (t->bytes + 255) / 256 * 256;
    if (c->failed || t->data) return;
    if (bytes > c->arena_left) {
        cu_ptr fresh;
        if (!cuda_ok(c, c->d->mem_alloc(&fresh, MAX(c->pending, (size_t)1)), "allocating memory for weights"))
            return;
        vec_push(&c->arenas, fresh);
        c->arena = fresh;
        c->arena_left = c->pending;
    }
    t->data = c->arena;
    c->arena += bytes;
    c->arena_left -= bytes;
    c->pending -= bytes;
    cuda_ok(c, c->d->copy_in(t->data, t->host, t->bytes, c->stream), "copying weights");
}

static void tensor_free(void *context, struct tensor *t) {
    struct cuda *c = context;
    if (!t->host)
        cuda_memory_free(c, t->data);
    else if (!t->data)
        c->pending -= (t->bytes + 255) / 256 * 256;
    free(t);
}

static void copy_in(struct cuda *c, void *to, const void *from, size_t bytes) {
    if (!c->failed && bytes)
        cuda_ok(c, c->d->copy_in((cu_ptr)(uintptr_t)to, from, bytes, c->stream), "copying to the GPU");
}
static void copy_out(struct cuda *c, void *to, const void *from, size_t bytes) {
    if (c->failed) {
        memset(to, 0, bytes);
        return;
    }
    if (cuda_ok(c, c->d->copy_out(to, (cu_ptr)(uintptr_t)from, bytes, c->stream), "copying from the GPU"))
        backend_finish(c);
}

static void tensor_upload(void *context, struct view to, const float *from, size_t n) {
    copy_in(context, view_pointer(to), from, n * sizeof *from);
}
static void tensor_upload_planes(void *context, struct view to, const float *from, int channels,
                                 size_t area) {
    struct cuda *c = context;
    size_t n = (size_t)channels * area;
    float *out = view_pointer(to), *planes = cuda_scratch(c, SCRATCH_UNFOLDED, n * sizeof *planes);
    copy_in(c, planes, from, n * sizeof *from);
    LAUNCH(c, planes_last, GRID(blocks_for(n), .threads = THREADS), &out, &planes, &channels, &area);
}
static void tensor_download(void *context, float *to, struct view from, size_t n) {
    copy_out(context, to, view_pointer(from), n * sizeof *to);
}

/* ---- linear layers */
static void run_few(struct cuda *c, const struct linear *l, float *x, ptrdiff_t ldx, int m, float *y,
                    ptrdiff_t ldy, int add) {
    void *w = pointer_of(l->w.data), *bias = pointer_of(l->bias);
    int n = l->w.rows, k = l->w.cols;
    void *params[] = { &w, &bias, &x, &ldx, &m, &n, &k, &y, &ldy, &add };
    cuda_launch(c, typed(KERNEL_few_rows_f32, l->w.type),
                (struct cuda_grid){ ((size_t)n + 7) / 8, .threads = THREADS }, params);
}

static void run_any(struct cuda *c, const struct linear *l, float *x, ptrdiff_t ldx, int m, float *y,
                    ptrdiff_t ldy, int add) {
    void *w = pointer_of(l->w.data), *bias = pointer_of(l->bias);
    int n = l->w.rows, k = l->w.cols;
    void *params[] = { &x, &ldx, &w, &bias, &y, &ldy, &m, &n, &k, &add };
    cuda_launch(c, typed(KERNEL_gemm_any_f32, l->w.type),
                (struct cuda_grid){ ((size_t)m + 63) / 64, ((size_t)n + 63) / 64, .threads = THREADS },
                params);
}

/* Converts x to 16-bit numbers, [m][parts][k]. */
static void *converted(struct cuda *c, enum dtype type, float *x, ptrdiff_t ldx, int m, int k, int parts) {
    void *out = cuda_scratch(c, SCRATCH_CONVERTED, (size_t)m * (size_t)k * (size_t)parts * 2);
    int aligned = ldx % 4 == 0 && (uintptr_t)x % 16 == 0;
    void *params[] = { &x, &ldx, &m, &k, &aligned, &parts, &out };
    cuda_launch(c, type == DTYPE_F16 ? KERNEL_convert_f16 : KERNEL_convert_bf16,
                row_grid((size_t)m, (size_t)k / 8), params);
    return out;
}

static void run_tensor_cores(struct cuda *c, const struct linear *l, float *x, ptrdiff_t ldx, int m, float *y,
                             ptrdiff_t ldy, int add) {
    bool f16 = l->w.type == DTYPE_F16;
    struct gemm_args a = { .w = pointer_of(l->w.data),
                           .bias = pointer_of(l->bias),
                           .y = y,
                           .ldy = ldy,
                           .m = m,
                           .n = l->w.rows,
                           .k = l->w.cols,
                           .parts = c->exact && l->w.type == DTYPE_BF16 ? 2 : 1,
                           .accumulate = add };
    a.x = converted(c, l->w.type, x, ldx, m, a.k, a.parts);
    /* Tiles are 128 x 128, or 64 x 64 if the larger ones would leave multiprocessors idle. */
    bool small = ((size_t)m + 127) / 128 * (((size_t)a.n + 127) / 128) * 4 < (size_t)c->sms * 3;
    size_t tile = small ? 64 : 128;
    void *params[] = { &a };
    cuda_launch(c,
                small ? f16 ? KERNEL_gemm_small_f16 : KERNEL_gemm_small_bf16
                : f16 ? KERNEL_gemm_f16
                      : KERNEL_gemm_bf16,
                (struct cuda_grid){ ((size_t)m + tile - 1) / tile, ((size_t)a.n + tile - 1) / tile,
                                    .threads = THREADS, .shared_bytes = (unsigned)(3 * 2 * tile * 64 * 2) },
                params);
}

static const char *cuda_linear(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                               struct view y, ptrdiff_t ldy, enum ops_store store) {
    struct cuda *c = context;
    int add = store == OPS_ADD;
    c->last_type = l->w.type;
    if (m <= FEW_ROWS) {
        run_few(c, l, view_pointer(x), ldx, m, view_pointer(y), ldy, add);
        return "gemv";
    }
    if (l->w.type == DTYPE_F32 || l->w.cols % 8) {
        run_any(c, l, view_pointer(x), ldx, m, view_pointer(y), ldy, add);
        return "gemm_float";
    }
    run_tensor_cores(c, l, view_pointer(x), ldx, m, view_pointer(y), ldy, add);
    return l->w.type == DTYPE_F16 ? "gemm_f16" : "gemm_bf16";
}

static const char *cuda_linear_many(void *context, const struct linear_out *v, int n, struct view x) {
    for (int i = 0; i < n; i++) run_few(context, v[i].l, view_pointer(x), 0, 1, view_pointer(v[i].y), 0, 0);
    return "gemv";
}

static const char *cuda_experts_one(void *context, const struct expert *const *experts, const float *weights,
                                    int n, struct view x, struct view y) {
    struct cuda *c = context;
    struct expert_list e = { .n = n };
    int rows = experts[0]->down.w.rows, k = experts[0]->gate.w.cols;
    enum dtype type = experts[0]->gate.w.type;
    for (int i = 0; i < n; i++) {
        e.gate[i] = pointer_of(experts[i]->gate.w.data);
        e.up[i] = pointer_of(experts[i]->up.w.data);
        e.down[i] = pointer_of(experts[i]->down.w.data);
        e.weight[i] = weights[i];
        e.first[i + 1] = e.first[i] + experts[i]->gate.w.rows;
    }
    size_t hidden = (size_t)e.first[n];
    float *in = view_pointer(x), *out = view_pointer(y),
          *h = cuda_scratch(c, SCRATCH_HIDDEN, hidden * sizeof *h);
    void *up[] = { &e, &in, &k, &h }, *down[] = { &e, &h, &rows, &out };
    cuda_launch(c, typed(KERNEL_experts_up_f32, type),
                (struct cuda_grid){ (hidden + 7) / 8, .threads = THREADS }, up);
    cuda_launch(c, typed(KERNEL_experts_down_f32, type),
                (struct cuda_grid){ ((size_t)rows + 7) / 8, .threads = THREADS }, down);
    return "swiglu_gemv";
}

/* ---- rows and elements */
static const char *cuda_rmsnorm(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows,
                                int n, float eps, struct view y, ptrdiff_t ldy) {
    float *in = view_pointer(x), *out = view_pointer(y), *weights = pointer_of(w);
    LAUNCH(context, rmsnorm, GRID((size_t)rows, .threads = THREADS), &in, &ldx, &weights, &n, &eps, &out,
           &ldy);
    return "rmsnorm";
}
static const char *cuda_layernorm(void *context, struct view x, struct tensor *w, struct tensor *b, int rows,
                                  int n, float eps, struct view y) {
    float *in = view_pointer(x), *out = view_pointer(y), *weights = pointer_of(w), *bias = pointer_of(b);
    LAUNCH(context, layernorm, GRID((size_t)rows, .threads = THREADS), &in, &weights, &bias, &n, &eps, &out);
    return "layernorm";
}
static const char *cuda_activate(void *context, enum ops_activation a, struct view x, size_t n) {
    float *p = view_pointer(x);
    void *params[] = { &p, &n };
    cuda_launch(context, a == OPS_GELU ? KERNEL_gelu : KERNEL_quick_gelu,
                (struct cuda_grid){ blocks_for(n), .threads = THREADS }, params);
    return a == OPS_GELU ? "gelu" : "quick_gelu";
}
static const char *cuda_glu(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n) {
    (void)kind; /* silu: this backend has no OPS_EXTRA_GLU */
    float *g = view_pointer(gate), *u = view_pointer(up);
    LAUNCH(context, silu_mul, GRID(blocks_for(n), .threads = THREADS), &g, &u, &n);
    return "silu_mul";
}
static const char *cuda_add(void *context, struct view y, struct view x, size_t n) {
    float *to = view_pointer(y), *from = view_pointer(x);
    LAUNCH(context, add, GRID(blocks_for(n), .threads = THREADS), &to, &from, &n);
    return "add";
}
static const char *cuda_embed(void *context, const struct matrix *table, const uint32_t *ids, int n,
                              struct view out) {
    struct cuda *c = context;
    void *t = pointer_of(table->data), *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * sizeof *ids);
    float *to = view_pointer(out);
    int cols = table->cols;
    copy_in(c, list, ids, (size_t)n * sizeof *ids);
    void *params[] = { &t, &list, &cols, &to };
    cuda_launch(c, typed(KERNEL_embed_f32, table->type), (struct cuda_grid){ (size_t)n, .threads = THREADS },
                params);
    return "embed";
}

static const char *cuda_conv(void *context, const struct conv *v, struct view x, int h, int w,
                             struct view y) {
    struct cuda *c = context;
    struct linear l = { v->w, v->bias };
    int oh = (h + 2 * v->pad - v->side) / v->stride + 1, ow = (w + 2 * v->pad - v->side) / v->stride + 1;
    int c_in = v->c_in, side = v->side, stride = v->stride, pad = v->pad;
    if (side == 1 && stride == 1 && pad == 0)
        return cuda_linear(c, &l, x, c_in, h * w, y, v->w.rows, OPS_SET);
    size_t pixels = (size_t)oh * (size_t)ow, n = pixels * (size_t)v->w.cols;
    float *in = view_pointer(x), *rows = cuda_scratch(c, SCRATCH_UNFOLDED, n * sizeof *rows);
    LAUNCH(c, unfold, row_grid(pixels, (size_t)v->w.cols), &in, &h, &w, &c_in, &side, &stride, &pad, &ow,
           &pixels, &rows);
    return cuda_linear(c, &l, view_of(c->scratch[SCRATCH_UNFOLDED]), v->w.cols, (int)pixels, y, v->w.rows,
                       OPS_SET);
}

/* ---- attention */
static bool has_flash(const struct cuda *c, int dim_k, int dim_v, int nq) {
    return !c->exact && c->last_type != DTYPE_F32 && dim_k == dim_v && (dim_k == 64 || dim_k == 128) &&
           nq >= 16;
}

static void run_flash(struct cuda *c, const struct flash_args *a, int dim, int batch) {
    unsigned shared = (unsigned)(5 * 64 * dim * 2 + (a->bias ? 64 * 2 * a->side * 4 : 0));
    void *params[] = { (void *)a };
    cuda_launch(c, dim == 64 ? KERNEL_flash_64 : KERNEL_flash_128,
                (struct cuda_grid){ ((size_t)a->nq + 63) / 64, (size_t)a->heads, (size_t)batch, 128, shared },
                params);
}

static void run_attention(struct cuda *c, struct attention_args *a, enum dtype type, int batch) {
    size_t items = (size_t)a->nq * (size_t)a->heads;
    a->warps = items * (size_t)batch < 2048 ? 8 : 1;
    unsigned floats =
        8 * (unsigned)(a->dim_k + 2 * a->side) + (a->warps == 8 ? 8 * ((unsigned)a->dim_v + 2) : 0);
    void *params[] = { a };
    cuda_launch(c, type == DTYPE_BF16 ? KERNEL_attention_bf16 : KERNEL_attention_f32,
                (struct cuda_grid){ a->warps == 8 ? items : (items + 7) / 8, (size_t)batch,
                                    .threads = THREADS, .shared_bytes = floats * 4 },
                params);
}

static const char *flash_heads(struct cuda *c, const struct attention *a) {
    void *q = converted(c, DTYPE_BF16, view_pointer(a->q), a->q_row, a->nq, a->heads * a->dim_k, 1);
    struct flash_args f = { .q = q,
                            .k = (char *)pointer_of(a->k.tensor) + a->k.at * 2,
                            .v = (char *)pointer_of(a->v.tensor) + a->v.at * 2,
                            .out = view_pointer(a->out),
                            .q_row = (long)a->heads * a->dim_k,
                            .q_head = a->dim_k,
                            .k_row = a->dim_k,
                            .k_head = a->k_head,
                            .v_row = a->v_row ? a->v_row : a->dim_v,
                            .v_head = a->v_head,
                            .out_row = a->out_row,
                            .out_head = a->dim_v,
                            .group = a->heads / a->kv_heads,
                            .nq = a->nq,
                            .nk = a->nk,
                            .base = a->base,
                            .window = a->window,
                            .heads = a->heads,
                            .scale = a->scale };
    run_flash(c, &f, a->dim_k, 1);
    return "flash_attention";
}

static const char *cuda_attention(void *context, const struct attention *a) {
    struct cuda *c = context;
    enum dtype type = a->k.tensor->type;
    if (type == DTYPE_BF16 && has_flash(c, a->dim_k, a->dim_v, a->nq) && !a->rel_h.tensor)
        return flash_heads(c, a);
    size_t size = dtype_bytes(type);
    struct attention_args g = { .q = view_pointer(a->q),
                                .k = (char *)pointer_of(a->k.tensor) + a->k.at * size,
                                .v = (char *)pointer_of(a->v.tensor) + a->v.at * size,
                                .out = view_pointer(a->out),
                                .q_row = a->q_row,
                                .k_head = a->k_head,
                                .v_head = a->v_head,
                                .k_row = a->dim_k,
                                .v_row = a->v_row ? a->v_row : a->dim_v,
                                .out_row = a->out_row,
                                .heads = a->heads,
                                .group = a->heads / a->kv_heads,
                                .dim_k = a->dim_k,
                                .dim_v = a->dim_v,
                                .nq = a->nq,
                                .nk = a->nk,
                                .base = a->base,
                                .window = a->window,
                                .scale = a->scale,
                                .rel_h = view_pointer(a->rel_h),
                                .rel_w = view_pointer(a->rel_w),
                                .side = a->rel_h.tensor ? a->side : 0 };
    run_attention(c, &g, type, 1);
    return a->nq == 1 ? "attention_decode" : "attention";
}

static const char *flash_qkv(struct cuda *c, const struct qkv_attention *a) {
    int width = a->heads * a->dim, rows = a->batch * a->n, n = a->n, side = a->side, heads = a->heads,
        dim = a->dim;
    uint16_t *qkv = converted(c, DTYPE_BF16, view_pointer(a->qkv), 3L * width, rows, 3 * width, 1);
    long row = 3L * width, batch = row * a->n;
    float *bias = NULL;
    if (a->rel_h.tensor) {
        float *q = view_pointer(a->qkv), *rel_h = view_pointer(a->rel_h), *rel_w = view_pointer(a->rel_w);
        bias = cuda_scratch(c, SCRATCH_BIAS, (size_t)rows * (size_t)heads * 2 * (size_t)side * sizeof *bias);
        LAUNCH(c, rel_bias,
               GRID(((size_t)n + 63) / 64, (size_t)heads, (size_t)a->batch, THREADS,
                    (unsigned)(2 * (2 * side - 1) * (dim + 1) + 8 * dim) * 4),
               &q, &row, &batch, &heads, &dim, &n, &side, &rel_h, &rel_w, &bias);
    }
    struct flash_args f = { .q = qkv,
                            .k = qkv + width,
                            .v = qkv + 2L * width,
                            .out = view_pointer(a->out),
                            .bias = bias,
                            .q_row = row,
                            .q_head = a->dim,
                            .q_batch = batch,
                            .k_row = row,
                            .k_head = a->dim,
                            .k_batch = batch,
                            .v_row = row,
                            .v_head = a->dim,
                            .v_batch = batch,
                            .out_row = width,
                            .out_head = a->dim,
                            .out_batch = (long)width * a->n,
                            .group = 1,
                            .nq = a->n,
                            .nk = a->n,
                            .base = -1,
                            .side = a->side,
                            .heads = a->heads,
                            .scale = 1.0f / sqrtf((float)a->dim) };
    run_flash(c, &f, a->dim, a->batch);
    return a->rel_h.tensor ? "flash_attention_relpos" : "flash_attention";
}

static const char *cuda_qkv_attention(void *context, const struct qkv_attention *a) {
    struct cuda *c = context;
    int width = a->heads * a->dim;
    if (has_flash(c, a->dim, a->dim, a->n)) return flash_qkv(c, a);
    float *qkv = view_pointer(a->qkv);
    long row = 3L * width, batch = row * a->n;
    struct attention_args g = { .q = qkv,
                                .k = qkv + width,
                                .v = qkv + 2L * width,
                                .out = view_pointer(a->out),
                                .q_row = row,
                                .q_batch = batch,
                                .k_head = a->dim,
                                .k_row = row,
                                .k_batch = batch,
                                .v_head = a->dim,
                                .v_row = row,
                                .v_batch = batch,
                                .out_row = width,
                                .out_batch = (long)width * a->n,
                                .heads = a->heads,
                                .group = 1,
                                .dim_k = a->dim,
                                .dim_v = a->dim,
                                .nq = a->n,
                                .nk = a->n,
                                .base = -1,
                                .scale = 1.0f / sqrtf((float)a->dim),
                                .rel_h = view_pointer(a->rel_h),
                                .rel_w = view_pointer(a->rel_w),
                                .side = a->rel_h.tensor ? a->side : 0 };
    run_attention(c, &g, DTYPE_F32, a->batch);
    return a->rel_h.tensor ? "attention_relpos" : "attention";
}

static const char *cuda_latent_query(void *context, const struct latent *l, struct view q, struct view out) {
    void *w = pointer_of(l->kv_b.w.data);
    int nope = l->nope, value = l->value, rank = l->rank, rope = l->rope;
    float *in = view_pointer(q), *to = view_pointer(out);
    void *params[] = { &w, &nope, &value, &rank, &rope, &in, &to };
    cuda_launch(context, typed(KERNEL_latent_query_f32, l->kv_b.w.type),
                (struct cuda_grid){ (size_t)l->heads, .threads = THREADS }, params);
    return "gemv";
}
static const char *cuda_latent_value(void *context, const struct latent *l, struct view sums,
                                     struct view out) {
    void *w = pointer_of(l->kv_b.w.data);
    int nope = l->nope, value = l->value, rank = l->rank;
    float *in = view_pointer(sums), *to = view_pointer(out);
    void *params[] = { &w, &nope, &value, &rank, &in, &to };
    cuda_launch(context, typed(KERNEL_latent_value_f32, l->kv_b.w.type),
                (struct cuda_grid){ (size_t)l->heads, .threads = THREADS }, params);
    return "gemv";
}
static void cuda_latent_expand(void *context, const struct latent *l, const struct latent_rows *r) {
    float *rows = view_pointer(r->rows), *kept = view_pointer(r->kept), *keys = view_pointer(r->keys),
          *values = view_pointer(r->values);
    int n = r->n, heads = l->heads, nope = l->nope, value = l->value, rank = l->rank, rope = l->rope,
        most = r->max_context, at = r->position;
    size_t all = (size_t)n * (size_t)heads * (size_t)(nope + rope + value);
    LAUNCH(context, latent_expand, GRID(blocks_for(all), .threads = THREADS), &rows, &kept, &keys, &values,
           &n, &heads, &nope, &value, &rank, &rope, &most, &at);
}

/* ---- moves */
static void run_windows(struct cuda *c, const struct windows *s, struct view grid, struct view rows,
                        int merge) {
    float *g = view_pointer(grid), *r = view_pointer(rows);
    int side = s->grid, padded = s->padded, window = s->window, width = s->width;
    LAUNCH(c, window_copy, row_grid((size_t)(padded * padded), (size_t)width), &g, &r, &side, &padded,
           &window, &width, &merge);
}
static const char *cuda_window_partition(void *context, const struct windows *s, struct view grid,
                                         struct view rows) {
    run_windows(context, s, grid, rows, 0);
    return "window_copy";
}
static const char *cuda_window_merge(void *context, const struct windows *s, struct view rows,
                                     struct view grid) {
    run_windows(context, s, grid, rows, 1);
    return "window_copy";
}

static void cuda_route(void *context, const struct routing *r, struct view logits, int m,
                       struct routing_choice *out) {
    struct cuda *c = context;
    size_t bytes = (size_t)m * (size_t)r->k * sizeof *out;
    float *p = view_pointer(logits), scale = r->scale;
    void *choices = cuda_scratch(c, SCRATCH_INDEX, bytes);
    int n = r->n, k = r->k, groups = r->groups, kept = r->groups_kept, normalise = r->normalise;
    LAUNCH(c, route, GRID((size_t)m, .threads = 32), &p, &n, &k, &groups, &kept, &normalise, &scale,
           &choices);
    copy_out(c, out, choices, bytes);
}

static void cuda_rope(void *context, const struct rope_table *t, const struct rope_rows *r) {
    float *x = view_pointer(r->x), *cosine = pointer_of(t->cosine), *sine = pointer_of(t->sine);
    ptrdiff_t row = r->row;
    int heads = r->heads, stride = r->stride, offset = r->offset, position = r->position, dims = t->dims,
        interleaved = t->interleaved;
    LAUNCH(context, rope, GRID((size_t)r->rows, .threads = THREADS), &x, &row, &heads, &stride, &offset,
           &position, &dims, &interleaved, &cosine, &sine);
}

static void cuda_cache_store(void *context, const struct cache_rows *s) {
    enum dtype type = s->cache.tensor->type;
    void *cache = (char *)pointer_of(s->cache.tensor) + s->cache.at * dtype_bytes(type);
    float *rows = view_pointer(s->rows);
    int n = s->n, heads = s->heads, dim = s->dim, most = s->max_context, at = s->position;
    void *params[] = { &cache, &rows, &n, &heads, &dim, &most, &at };
    cuda_launch(context, type == DTYPE_BF16 ? KERNEL_cache_store_bf16 : KERNEL_cache_store_f32,
                (struct cuda_grid){ blocks_for((size_t)n * (size_t)heads * (size_t)dim), .threads = THREADS },
                params);
}

static void cuda_copy_rows(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf,
                           int rows, size_t n) {
    float *out = view_pointer(to), *in = view_pointer(from);
    LAUNCH(context, copy_rows, row_grid((size_t)rows, n), &out, &ldt, &in, &ldf, &rows, &n);
}
static void cuda_gather_rows(void *context, struct view to, struct view from, const int *index, int n,
                             size_t width) {
    struct cuda *c = context;
    float *out = view_pointer(to), *in = view_pointer(from);
    int *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * sizeof *list);
    copy_in(c, list, index, (size_t)n * sizeof *list);
    LAUNCH(c, gather_rows, row_grid((size_t)n, width), &out, &in, &list, &n, &width);
}
static void cuda_scatter_add(void *context, struct view to, struct view from, const int *index,
                             const float *weights, int n, size_t width) {
    struct cuda *c = context;
    float *out = view_pointer(to), *in = view_pointer(from);
    int *list = cuda_scratch(c, SCRATCH_INDEX, (size_t)n * 2 * sizeof *list);
    float *factors = (void *)(list + n);
    copy_in(c, list, index, (size_t)n * sizeof *list);
    copy_in(c, factors, weights, (size_t)n * sizeof *factors);
    LAUNCH(c, scatter_add, row_grid((size_t)n, width), &out, &in, &list, &factors, &n, &width);
}
static void cuda_resample_grid(void *context, struct view in, int from, int to, int channels,
                               struct view out) {
    float *x = view_pointer(in), *y = view_pointer(out);
    LAUNCH(context, resample_grid, GRID((size_t)to * (size_t)to, .threads = THREADS), &x, &from, &to,
           &channels, &y);
}
static void cuda_resample_rows(void *context, struct view in, int from, int to, int channels,
                               struct view out) {
    float *x = view_pointer(in), *y = view_pointer(out);
    LAUNCH(context, resample_rows, GRID(blocks_for((size_t)to * (size_t)channels), .threads = THREADS), &x,
           &from, &to, &channels, &y);
}

const struct ops_backend cuda_backend = {
    .bf16_cache = true,
    .close = backend_close,
    .device = backend_device,
    .name = backend_name,
    .units = backend_units,
    .finish = backend_finish,
    .check = backend_check,
    .alloc = tensor_alloc,
    .alloc_cache = tensor_alloc_cache,
    .wrap = tensor_wrap,
    .commit = tensor_commit,
    .free = tensor_free,
    .upload = tensor_upload,
    .upload_planes = tensor_upload_planes,
    .download = tensor_download,
    .linear = cuda_linear,
    .linear_many = cuda_linear_many,
    .experts_one = cuda_experts_one,
    .experts_many = cuda_experts_many,
    .rmsnorm = cuda_rmsnorm,
    .layernorm = cuda_layernorm,
    .activate = cuda_activate,
    .glu = cuda_glu,
    .add = cuda_add,
    .embed = cuda_embed,
    .conv = cuda_conv,
    .attention = cuda_attention,
    .qkv_attention = cuda_qkv_attention,
    .latent_query = cuda_latent_query,
    .latent_value = cuda_latent_value,
    .window_partition = cuda_window_partition,
    .window_merge = cuda_window_merge,
    .route = cuda_route,
    .rope = cuda_rope,
    .cache_store = cuda_cache_store,
    .latent_expand = cuda_latent_expand,
    .copy_rows = cuda_copy_rows,
    .gather_rows = cuda_gather_rows,
    .scatter_add = cuda_scatter_add,
    .resample_grid = cuda_resample_grid,
    .resample_rows = cuda_resample_rows,
    .decode = &cuda_decode_calls,
};
