/* Attention, and the projections of latent attention. Attention uses tensor cores (flash.cu) if they
 * support its types and sizes, otherwise float arithmetic (attention.cu). */
#include <math.h>

#include "base/util.h"
#include "engine/cuda/calls.h"

static bool has_flash(const struct cuda *c, int dim_k, int dim_v, int nq) {
    return !c->exact && c->last_type != DTYPE_F32 && dim_k == dim_v && (dim_k == 64 || dim_k == 128) &&
           nq >= 16;
}

enum { FLASH_MOST_SIDE = 80, QUERIES = 64 };
/* Kernels with SAM's relative position bias: largest side of the grid, keys per tile. */
static const struct {
    int side, keys;
    enum kernel_id kernel;
} flash_grids[] = { { 16, 64, KERNEL_flash_grid_16 },
                    { 32, 64, KERNEL_flash_grid_32 },
                    { 40, 80, KERNEL_flash_grid_40 },
                    { 64, 64, KERNEL_flash_grid_64 },
                    { FLASH_MOST_SIDE, 80, KERNEL_flash_grid_80 } };

static void run_flash(struct cuda *c, const struct flash_args *a, int dim, int batch) {
    int keys = 64, floats = 0;
    enum kernel_id kernel = dim == 64 ? KERNEL_flash_64 : KERNEL_flash_128;
    for (size_t i = 0; a->rel_h && i < COUNTOF(flash_grids); i++) {
        if (a->side > flash_grids[i].side) continue;
        kernel = flash_grids[i].kernel;
        keys = flash_grids[i].keys;
        floats = QUERIES * ((2 * a->side - 1 + 15) / 16 * 16 + 1); /* `products` in flash.cu */
        break;
    }
    unsigned shared = (unsigned)((QUERIES + 4 * keys) * dim * 2 + floats * 4 + 1024);
    void *params[] = { (void *)a };
    cuda_launch(c, kernel,
                (struct cuda_grid){ ((size_t)a->nq + QUERIES - 1) / QUERIES, (size_t)a->heads, (size_t)batch,
                                    128, shared },
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
                                    .threads = CUDA_THREADS, .shared_bytes = floats * 4 },
                params);
}

static const char *flash_heads(struct cuda *c, const struct attention *a) {
    bool narrow = is_narrow(a->q);
    int width = a->heads * a->dim_k;
    void *q = narrow ? view_address(a->q) : cuda_converted(c, DTYPE_BF16, a->q, a->q_row, a->nq, width, 1);
    struct flash_args f = { .q = q,
                            .k = view_address(a->k),
                            .v = view_address(a->v),
                            .out = view_address(a->out),
                            .narrow = is_narrow(a->out),
                            .q_row = narrow ? a->q_row : width,
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

const char *cuda_attention(void *context, const struct attention *a) {
    struct cuda *c = context;
    enum dtype type = a->k.tensor->type;
    if (is_narrow(a->q) ||
        (type == DTYPE_BF16 && has_flash(c, a->dim_k, a->dim_v, a->nq) && !a->rel_h.tensor))
        return flash_heads(c, a);
    struct attention_args g = { .q = view_pointer(a->q),
                                .k = view_address(a->k),
                                .v = view_address(a->v),
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
    int width = a->heads * a->dim;
    uint16_t *qkv = is_narrow(a->qkv)
                        ? view_address(a->qkv)
                        : cuda_converted(c, DTYPE_BF16, a->qkv, 3L * width, a->batch * a->n, 3 * width, 1);
    long row = 3L * width, batch = row * a->n;
    struct flash_args f = { .q = qkv,
                            .k = qkv + width,
                            .v = qkv + 2L * width,
                            .out = view_address(a->out),
                            .narrow = is_narrow(a->out),
                            .rel_h = view_pointer(a->rel_h),
                            .rel_w = view_pointer(a->rel_w),
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

const char *cuda_qkv_attention(void *context, const struct qkv_attention *a) {
    struct cuda *c = context;
    int width = a->heads * a->dim;
    bool bias_fits = !a->rel_h.tensor || (a->dim == 64 && a->side <= FLASH_MOST_SIDE);
    if (is_narrow(a->qkv) || (bias_fits && has_flash(c, a->dim, a->dim, a->n))) return flash_qkv(c, a);
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

const char *cuda_latent_query(void *context, const struct latent *l, struct view q, struct view out) {
    void *w = pointer_of(l->kv_b.w.data);
    int nope = l->nope, value = l->value, rank = l->rank, rope = l->rope;
    float *in = view_pointer(q), *to = view_pointer(out);
    void *params[] = { &w, &nope, &value, &rank, &rope, &in, &to };
    cuda_launch(context, cuda_typed(KERNEL_latent_query_f32, l->kv_b.w.type),
                (struct cuda_grid){ (size_t)l->heads, .threads = CUDA_THREADS }, params);
    return "gemv";
}
const char *cuda_latent_value(void *context, const struct latent *l, struct view sums, struct view out) {
    void *w = pointer_of(l->kv_b.w.data);
    int nope = l->nope, value = l->value, rank = l->rank;
    float *in = view_pointer(sums), *to = view_pointer(out);
    void *params[] = { &w, &nope, &value, &rank, &in, &to };
    cuda_launch(context, cuda_typed(KERNEL_latent_value_f32, l->kv_b.w.type),
                (struct cuda_grid){ (size_t)l->heads, .threads = CUDA_THREADS }, params);
    return "gemv";
}
void cuda_latent_expand(void *context, const struct latent *l, const struct latent_rows *r) {
    float *rows = view_pointer(r->rows), *kept = view_pointer(r->kept), *keys = view_pointer(r->keys),
          *values = view_pointer(r->values);
    int n = r->n, heads = l->heads, nope = l->nope, value = l->value, rank = l->rank, rope = l->rope,
        most = r->max_context, at = r->position;
    size_t all = (size_t)n * (size_t)heads * (size_t)(nope + rope + value);
    LAUNCH(context, latent_expand, GRID(cuda_blocks(all), .threads = CUDA_THREADS), &rows, &kept, &keys,
           &values, &n, &heads, &nope, &value, &rank, &rope, &most, &at);
}
