/* Products of matrices: dot products in float for few rows, tensor cores for 16-bit weights (gemm_wgmma.cu on
 * Hopper, gemm.cu elsewhere and for exact products), float arithmetic for the rest. */
#include "engine/cuda/calls.h"
#include "engine/cuda/cublaslt.h"
#include "engine/cuda/fp8.h"

static void run_few(struct cuda *c, const struct linear *l, float *x, ptrdiff_t ldx, int m, float *y,
                    ptrdiff_t ldy, int add) {
    void *w = pointer_of(l->w.data), *bias = pointer_of(l->bias);
    int n = l->w.rows, k = l->w.cols;
    struct scale_table scale = cuda_scales(&l->w);
    void *params[] = { &w, &scale, &bias, &x, &ldx, &m, &n, &k, &y, &ldy, &add };
    cuda_launch(c, cuda_typed(KERNEL_few_rows_f32, l->w.type),
                (struct cuda_grid){ ((size_t)n + 7) / 8, .threads = CUDA_THREADS }, params);
}

/* Multiplies one row with a matrix of many rows, such as the head. Returns false without doing anything if
 * the matrix has too few rows or an unsupported number of columns. */
static bool run_one(struct cuda *c, const struct linear *l, float *x, float *y, int add) {
    enum { MOST_COLUMNS = 10 << 10, LEAST_ROWS = 4096 };
    void *w = pointer_of(l->w.data), *bias = pointer_of(l->bias);
    int n = l->w.rows, k = l->w.cols;
    if (k % 8 || k > MOST_COLUMNS || n < LEAST_ROWS || l->w.type == DTYPE_F8_E4M3) return false;
    void *params[] = { &w, &bias, &x, &n, &k, &y, &add };
    cuda_launch(c, cuda_typed(KERNEL_one_row_f32, l->w.type),
                GRID((size_t)(2 * c->sms), .threads = CUDA_THREADS, .shared_bytes = (unsigned)k * 4), params);
    return true;
}

static void run_any(struct cuda *c, const struct linear *l, float *x, ptrdiff_t ldx, int m, float *y,
                    ptrdiff_t ldy, int add) {
    void *w = pointer_of(l->w.data), *bias = pointer_of(l->bias);
    int n = l->w.rows, k = l->w.cols;
    void *params[] = { &x, &ldx, &w, &bias, &y, &ldy, &m, &n, &k, &add };
    cuda_launch(c, cuda_typed(KERNEL_gemm_any_f32, l->w.type),
                (struct cuda_grid){ ((size_t)m + 63) / 64, ((size_t)n + 63) / 64, .threads = CUDA_THREADS },
                params);
}

void *cuda_converted(struct cuda *c, enum dtype type, struct view x, ptrdiff_t ldx, int m, int k, int parts) {
    void *out = cuda_scratch(c, SCRATCH_CONVERTED, (size_t)m * (size_t)k * (size_t)parts * 2);
    float *from = view_pointer(x);
    int aligned = ldx % 4 == 0 && (uintptr_t)from % 16 == 0;
    void *params[] = { &from, &ldx, &m, &k, &aligned, &parts, &out };
    cuda_launch(c, type == DTYPE_F16 ? KERNEL_convert_f16 : KERNEL_convert_bf16,
                cuda_rows_grid((size_t)m, (size_t)k / 8), params);
    return out;
}

/* ---- Hopper's tensor cores */
bool cuda_has_wgmma(const struct cuda *c, enum dtype type) {
    return c->wgmma && !c->exact && type != DTYPE_F32;
}

void cuda_tensor_map(struct cuda *c, struct tensor_map *map, enum dtype type, const void *data, int rows,
                     int cols) {
    const uint64_t sizes[] = { (uint64_t)cols, (uint64_t)rows }, strides[] = { (uint64_t)cols * 2 };
    const uint32_t box[] = { 64, GEMM_TILE }, steps[] = { 1, 1 };
    if (c->failed) return;
    cuda_ok(c,
            c->d->tensor_map(map, type == DTYPE_F16 ? CU_MAP_F16 : CU_MAP_BF16, 2, (void *)(uintptr_t)data,
                             sizes, strides, box, steps, 0, CU_MAP_SWIZZLE_128, CU_MAP_PROMOTE_128, 0),
            "describing a matrix");
}

/* Counts the tiles of all matrices if a tile has `width` columns. */
static size_t count_tiles(const struct wgmma_args *a, int width) {
    size_t rows = ((size_t)a->m + GEMM_TILE - 1) / GEMM_TILE, columns = 0;
    for (int i = 0; i < (a->paired ? 1 : a->matrices); i++)
        columns += ((size_t)a->out[i].n + (size_t)width - 1) / (size_t)width;
    return rows * columns;
}

/* Wide tiles may leave more multiprocessors idle in the last round. But a tile of 128 columns takes three
 * quarters of the time of a tile of 256, because both read as many rows of x from the L2 cache. */
static bool prefers_wide(const struct cuda *c, const struct wgmma_args *a) {
    size_t sms = (size_t)c->sms, wide = (count_tiles(a, 256) + sms - 1) / sms,
           slim = (count_tiles(a, 128) + sms - 1) / sms;
    return a->paired || (a->experts ? a->out[0].n >= 512 : 4 * wide <= 3 * slim);
}

enum { STAGES_BYTES = 192 << 10, MOST_STAGES = 6, WGMMA_SHARED = STAGES_BYTES + 1024 + 2 * MOST_STAGES * 8 };

/* Two blocks share each tile if half of the multiprocessors would have no work. */
static bool prefers_split(const struct cuda *c, const struct wgmma_args *a) {
    enum { LEAST_COLUMNS = 512 };
    return !a->paired && !a->experts && a->k >= LEAST_COLUMNS && 2 * count_tiles(a, 128) <= (size_t)c->sms;
}

void cuda_run_wgmma(struct cuda *c, enum dtype type, struct wgmma_args *a) {
    if (prefers_split(c, a)) {
        cuda_launch_named(c, MODULE_gemm_wgmma, type == DTYPE_F16 ? "wgmma_split_f16" : "wgmma_split_bf16",
                          GRID(2 * count_tiles(a, 128), .threads = 384, .shared_bytes = WGMMA_SHARED), 2, a);
        return;
    }
    bool wide = prefers_wide(c, a), f16 = type == DTYPE_F16;
    size_t tiles = a->experts ? (size_t)c->sms : count_tiles(a, a->paired ? 128 : wide ? 256 : 128);
    void *params[] = { a };
    cuda_launch(c,
                wide  ? f16 ? KERNEL_wgmma_f16_256 : KERNEL_wgmma_bf16_256
                : f16 ? KERNEL_wgmma_f16_128
                      : KERNEL_wgmma_bf16_128,
                GRID(MIN(tiles, (size_t)c->sms), .threads = 384, .shared_bytes = WGMMA_SHARED), params);
}

/* Linear layers that are applied to the same rows. */
struct product {
    const struct linear *l[MOST_MATRICES];
    struct gemm_out out[MOST_MATRICES];
    int n, m;
    bool paired;
    struct view x;
    ptrdiff_t ldx;
};

static struct gemm_out out_of(const struct linear *l, struct view y, ptrdiff_t ldy) {
    return (struct gemm_out){ .bias = pointer_of(l->bias),
                              .y = view_address(y),
                              .ldy = ldy,
                              .n = l->w.rows,
                              .type = (int)y.tensor->type };
}

static const void *input_of(struct cuda *c, const struct product *p, int parts) {
    const struct matrix *w = &p->l[0]->w;
    return is_narrow(p->x) ? view_address(p->x)
                           : cuda_converted(c, w->type, p->x, p->ldx, p->m, w->cols, parts);
}

static void run_wgmma(struct cuda *c, const struct product *p) {
    enum dtype type = p->l[0]->w.type;
    struct wgmma_args a = { .m = p->m, .k = p->l[0]->w.cols, .matrices = p->n, .paired = p->paired };
    int rows = 0;
    cuda_tensor_map(c, &a.x, type, input_of(c, p, 1), p->m, a.k);
    for (int i = 0; i < p->n; i++) {
        cuda_tensor_map(c, &a.w[i], type, pointer_of(p->l[i]->w.data), p->l[i]->w.rows, a.k);
        a.out[i] = p->out[i];
        rows += p->l[i]->w.rows;
    }
    a.by_columns = p->m > rows; /* x has more numbers than the weights */
    cuda_run_wgmma(c, type, &a);
}

/* ---- other tensor cores */
static void run_mma(struct cuda *c, const struct product *p) {
    const struct linear *l = p->l[0];
    bool f16 = l->w.type == DTYPE_F16;
    struct gemm_args a = { .w = pointer_of(l->w.data),
                           .out = p->out[0],
                           .m = p->m,
                           .k = l->w.cols,
                           .parts = c->exact && l->w.type == DTYPE_BF16 ? 2 : 1 };
    a.x = input_of(c, p, a.parts);
    /* Tiles are 128 x 128, or 64 x 64 if large tiles would leave multiprocessors without work. */
    size_t m = (size_t)p->m, n = (size_t)l->w.rows;
    bool small = (m + 127) / 128 * ((n + 127) / 128) * 4 < (size_t)c->sms * 3;
    size_t tile = small ? 64 : 128;
    void *params[] = { &a };
    cuda_launch(c,
                small ? f16 ? KERNEL_gemm_small_f16 : KERNEL_gemm_small_bf16
                : f16 ? KERNEL_gemm_f16
                      : KERNEL_gemm_bf16,
                (struct cuda_grid){ (m + tile - 1) / tile, (n + tile - 1) / tile, .threads = CUDA_THREADS,
                                    .shared_bytes = (unsigned)(3 * 2 * tile * 64 * 2) },
                params);
}

/* Returns false without doing anything if cuBLASLt does not run the product. */
static bool run_library(struct cuda *c, const struct product *p) {
    const struct matrix *w = &p->l[0]->w;
    if (!c->lt || c->exact || p->n > 1 || w->cols % 8) return false;
    return cublaslt_run(c, w->type, input_of(c, p, 1), pointer_of(w->data), &p->out[0], p->m, w->cols);
}

/* Replaces fp8 matrices by copies as bf16. */
static void widen_product(struct cuda *c, struct product *p, struct wide_linear copies[MOST_MATRICES]) {
    for (int i = 0; i < p->n; i++) p->l[i] = cuda_widened(c, p->l[i], i, &copies[i]);
}

static const char *run_product(struct cuda *c, struct product *p) {
    struct wide_linear copies[MOST_MATRICES];
    widen_product(c, p, copies);
    bool f16 = p->l[0]->w.type == DTYPE_F16;
    if (run_library(c, p)) return f16 ? "cublaslt_f16" : "cublaslt_bf16";
    if (cuda_has_wgmma(c, p->l[0]->w.type)) {
        run_wgmma(c, p);
        return f16 ? "wgmma_f16" : "wgmma_bf16";
    }
    run_mma(c, p);
    return f16 ? "gemm_f16" : "gemm_bf16";
}

/* Exact products of fp8 weights are float products: with their scales, bf16 would round them. */
static bool on_tensor_cores(const struct cuda *c, const struct linear *l, struct view x, int m) {
    return l->w.type != DTYPE_F32 && !(c->exact && l->w.type == DTYPE_F8_E4M3) && l->w.cols % 8 == 0 &&
           (is_narrow(x) || m > CUDA_FEW_ROWS);
}

/* ---- operators */
const char *cuda_linear(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                        struct view y, ptrdiff_t ldy, enum ops_store store) {
    struct cuda *c = context;
    int add = store == OPS_ADD;
    c->last_type = l->w.type;
    if (on_tensor_cores(c, l, x, m)) {
        struct product p = { .l = { l }, .out = { out_of(l, y, ldy) }, .n = 1, .m = m, .x = x, .ldx = ldx };
        p.out[0].accumulate = add;
        return run_product(c, &p);
    }
    if (m == 1 && run_one(c, l, view_pointer(x), view_pointer(y), add)) return "gemv";
    if (m <= CUDA_FEW_ROWS) {
        run_few(c, l, view_pointer(x), ldx, m, view_pointer(y), ldy, add);
        return "gemv";
    }
    struct wide_linear copy;
    run_any(c, cuda_widened(c, l, 0, &copy), view_pointer(x), ldx, m, view_pointer(y), ldy, add);
    return "gemm_float";
}

const char *cuda_linear_act(void *context, const struct linear *l, struct view x, int m, struct view y,
                            enum ops_activation a) {
    struct cuda *c = context;
    if (!on_tensor_cores(c, l, x, m)) return NULL;
    struct product p = {
        .l = { l }, .out = { out_of(l, y, l->w.rows) }, .n = 1, .m = m, .x = x, .ldx = l->w.cols
    };
    p.out[0].activation = a == OPS_GELU ? ACTIVATE_GELU : ACTIVATE_QUICK_GELU;
    return run_product(c, &p);
}

const char *cuda_linear_merge(void *context, const struct linear *l, struct view x, const struct windows *s,
                              struct view grid) {
    struct cuda *c = context;
    int m = MAX(s->views, 1) * s->padded * s->padded;
    if (!on_tensor_cores(c, l, x, m)) return NULL;
    struct product p = {
        .l = { l }, .out = { out_of(l, grid, l->w.rows) }, .n = 1, .m = m, .x = x, .ldx = l->w.cols
    };
    p.out[0].accumulate = 1;
    p.out[0].grid = s->grid;
    p.out[0].padded = s->padded;
    p.out[0].window = s->window;
    return run_product(c, &p);
}

const char *cuda_linear_rows(void *context, const struct linear_out *v, int n, struct view x, int m) {
    struct cuda *c = context;
    struct product p = { .n = n, .m = m, .x = x, .ldx = v[0].l->w.cols };
    if (n > MOST_MATRICES || !cuda_has_wgmma(c, v[0].l->w.type) || !on_tensor_cores(c, v[0].l, x, m))
        return NULL;
    for (int i = 0; i < n; i++) {
        if (v[i].l->w.type != v[0].l->w.type || v[i].l->w.cols != v[0].l->w.cols) return NULL;
        p.l[i] = v[i].l;
        p.out[i] = out_of(v[i].l, v[i].y, v[i].l->w.rows);
    }
    c->last_type = v[0].l->w.type;
    return run_product(c, &p);
}

/* Used without wgmma: computes gate and up as two products, then combines them with silu. */
static void swiglu_in_steps(struct cuda *c, struct product *p, struct view y) {
    size_t n = (size_t)p->m * (size_t)p->l[0]->w.rows;
    void *gate = view_address(y), *up = cuda_scratch(c, SCRATCH_UP, n * 2);
    struct product second = *p;
    p->n = second.n = 1;
    second.l[0] = p->l[1];
    second.out[0] = p->out[0];
    second.out[0].y = up;
    if (!run_library(c, p)) run_mma(c, p);
    if (!run_library(c, &second)) run_mma(c, &second);
    LAUNCH(c, silu_mul_bf16, GRID((n / 8 + CUDA_THREADS - 1) / CUDA_THREADS, .threads = CUDA_THREADS), &gate,
           &up, &n);
}

const char *cuda_swiglu(void *context, const struct expert *e, struct view x, int m, struct view y) {
    struct cuda *c = context;
    if (!is_narrow(y) || !is_narrow(x)) return NULL;
    struct product p = { .l = { &e->gate, &e->up },
                         .out = { out_of(&e->gate, y, e->gate.w.rows) },
                         .n = 2,
                         .m = m,
                         .paired = true,
                         .x = x,
                         .ldx = e->gate.w.cols };
    struct wide_linear copies[MOST_MATRICES];
    widen_product(c, &p, copies);
    c->last_type = e->gate.w.type;
    if (cuda_has_wgmma(c, e->gate.w.type)) {
        run_wgmma(c, &p);
        return "wgmma_swiglu";
    }
    swiglu_in_steps(c, &p, y);
    return "mma_swiglu";
}

const char *cuda_linear_many(void *context, const struct linear_out *v, int n, struct view x) {
    for (int i = 0; i < n; i++) run_few(context, v[i].l, view_pointer(x), 0, 1, view_pointer(v[i].y), 0, 0);
    return "gemv";
}

/* The kernels read all matrices as one type, with one layout of the scales. */
static bool are_alike(const struct expert *const *experts, int n, const struct expert_list *e) {
    for (int i = 0; i < n; i++) {
        const struct matrix *gate = &experts[i]->gate.w, *up = &experts[i]->up.w, *down = &experts[i]->down.w;
        enum dtype type = experts[0]->gate.w.type;
        if (gate->type != type || up->type != type || down->type != type) return false;
        if (!cuda_scales_serve(&e->up_scale, gate) || !cuda_scales_serve(&e->up_scale, up) ||
            !cuda_scales_serve(&e->down_scale, down))
            return false;
    }
    return true;
}

const char *cuda_experts_one(void *context, const struct expert *const *experts, const float *weights, int n,
                             struct view x, struct view y) {
    struct cuda *c = context;
    struct expert_list e = { .n = n };
    int largest = 0; /* the layout of its scales serves all */
    int rows = experts[0]->down.w.rows, k = experts[0]->gate.w.cols;
    enum dtype type = experts[0]->gate.w.type;
    for (int i = 0; i < n; i++) {
        e.gate[i] = pointer_of(experts[i]->gate.w.data);
        e.up[i] = pointer_of(experts[i]->up.w.data);
        e.down[i] = pointer_of(experts[i]->down.w.data);
        e.gate_scales[i] = pointer_of(experts[i]->gate.w.scale);
        e.up_scales[i] = pointer_of(experts[i]->up.w.scale);
        e.down_scales[i] = pointer_of(experts[i]->down.w.scale);
        e.weight[i] = weights[i];
        e.first[i + 1] = e.first[i] + experts[i]->gate.w.rows;
        if (experts[i]->gate.w.rows > experts[largest]->gate.w.rows) largest = i;
    }
    e.up_scale = cuda_scales(&experts[largest]->gate.w);
    e.down_scale = cuda_scales(&experts[largest]->down.w);
    if (!are_alike(experts, n, &e)) return NULL;
    size_t hidden = (size_t)e.first[n];
    float *in = view_pointer(x), *out = view_pointer(y),
          *h = cuda_scratch(c, SCRATCH_HIDDEN, hidden * sizeof *h);
    void *up[] = { &e, &in, &k, &h }, *down[] = { &e, &h, &rows, &out };
    cuda_launch(c, cuda_typed(KERNEL_experts_up_f32, type),
                (struct cuda_grid){ (hidden + 7) / 8, .threads = CUDA_THREADS }, up);
    cuda_launch(c, cuda_typed(KERNEL_experts_down_f32, type),
                (struct cuda_grid){ ((size_t)rows + 7) / 8, .threads = CUDA_THREADS }, down);
    return "swiglu_gemv";
}

const char *cuda_conv(void *context, const struct conv *v, struct view x, int views, int h, int w,
                      struct view y) {
    struct cuda *c = context;
    struct linear l = { v->w, v->bias };
    int oh = (h + 2 * v->pad - v->side) / v->stride + 1, ow = (w + 2 * v->pad - v->side) / v->stride + 1;
    int c_in = v->c_in, side = v->side, stride = v->stride, pad = v->pad, area = oh * ow,
        pixels = views * area;
    if (side == 1 && stride == 1 && pad == 0)
        return cuda_linear(c, &l, x, c_in, views * h * w, y, v->w.rows, OPS_SET);
    bool narrow = is_narrow(x) || (!c->exact && v->w.type == DTYPE_BF16 && v->w.cols % 8 == 0);
    size_t bytes = (size_t)pixels * (size_t)v->w.cols * (narrow ? 2 : sizeof(float));
    void *in = view_address(x), *rows = cuda_scratch(c, SCRATCH_UNFOLDED, bytes);
    void *params[] = { &in, &h, &w, &c_in, &side, &stride, &pad, &ow, &area, &pixels, &rows };
    if (is_narrow(x) && c_in % 8 == 0 && v->w.cols < 16 << 10)
        cuda_launch(c, KERNEL_unfold_channels,
                    GRID((size_t)pixels, .threads = CUDA_THREADS, .shared_bytes = (unsigned)v->w.cols * 2),
                    params);
    else
        cuda_launch(c,
                    is_narrow(x) ? KERNEL_unfold_bf16
                    : narrow     ? KERNEL_unfold_f32_bf16
                                 : KERNEL_unfold_f32,
                    cuda_rows_grid((size_t)pixels, (size_t)v->w.cols), params);
    struct tensor unfolded = *c->scratch[SCRATCH_UNFOLDED];
    unfolded.type = narrow ? DTYPE_BF16 : DTYPE_F32;
    return cuda_linear(c, &l, view_of(&unfolded), v->w.cols, pixels, y, v->w.rows, OPS_SET);
}
