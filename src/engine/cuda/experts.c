/* The experts of many tokens, entirely on the device: routing, ordering by expert, and grouped products. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"
#include "engine/cuda/fp8.h"

void *cuda_upload(struct cuda *c, const void *from, size_t bytes) {
    cu_ptr there = cuda_memory(c, bytes);
    cuda_copy_in(c, (void *)(uintptr_t)there, from, bytes);
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "copying to the GPU");
    if (!c->failed) return (void *)(uintptr_t)there;
    cuda_memory_free(c, there);
    return NULL;
}

static struct known_experts *known(struct cuda *c, const struct expert *experts, int n) {
    for (size_t i = 0; i < c->known.n; i++)
        if (c->known.v[i].experts == experts) return &c->known.v[i];
    struct known_experts k = { .experts = experts };
    if (experts[0].gate.w.type == DTYPE_F8_E4M3) {
        k.wide = cuda_wide_experts_make(c, experts, n);
        experts = k.wide->experts;
    }
    struct expert_pointers *list = xcalloc((size_t)n, sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] =
            (struct expert_pointers){ pointer_of(experts[i].gate.w.data), pointer_of(experts[i].up.w.data),
                                      pointer_of(experts[i].down.w.data) };
    k.there = cuda_upload(c, list, (size_t)n * sizeof *list);
    if (c->failed) k.experts = NULL; /* the next request makes them again */
    vec_push(&c->known, k);
    free(list);
    return &c->known.v[c->known.n - 1];
}

/* Returns TMA descriptors of the experts' matrices, in device memory: struct tensor_map [n][3]. */
static const void *maps_of(struct cuda *c, struct known_experts *k, int n) {
    const struct expert *experts = k->wide ? k->wide->experts : k->experts;
    if (k->maps || !experts) return k->maps;
    struct tensor_map map;
    char *list = xcalloc((size_t)n * 3, sizeof map);
    for (int i = 0; i < n * 3; i++) {
        const struct expert *e = &experts[i / 3];
        const struct matrix *w = i % 3 == 0 ? &e->gate.w : i % 3 == 1 ? &e->up.w : &e->down.w;
        cuda_tensor_map(c, &map, w->type, pointer_of(w->data), w->rows, w->cols);
        memcpy(list + (size_t)i * sizeof map, &map, sizeof map);
    }
    k->maps = cuda_upload(c, list, (size_t)n * 3 * sizeof map);
    free(list);
    return k->maps;
}

/* Parameters of one call of cuda_experts_many(). */
struct call {
    struct cuda *c;
    enum dtype type;
    int m, k, rows, hidden, inner, parts, experts;
    void *choices;
    int *first, *token, *row_of, *tiles;
    const void *pointers;
};

static struct cuda_grid rows_of(int rows, int width) { return cuda_rows_grid((size_t)rows, (size_t)width); }

static void order_choices(struct call *a, const struct routing *r, float *logits) {
    size_t rows = (size_t)a->rows, tiles = rows / GEMM_TILE + (size_t)a->experts + 1;
    int *memory = cuda_scratch(a->c, SCRATCH_GROUPS,
                               (4 * rows + (size_t)a->experts + 1 + 2 * tiles + 1) * sizeof *memory);
    int n = r->n, k = r->k, groups = r->groups, kept = r->groups_kept, normalise = r->normalise;
    float scale = r->scale;
    a->choices = memory;
    a->token = memory + 2 * rows;
    a->row_of = memory + 3 * rows;
    a->first = memory + 4 * rows;
    a->tiles = a->first + a->experts + 1;
    LAUNCH(a->c, route, GRID((size_t)a->m, .threads = 32), &logits, &n, &k, &groups, &kept, &normalise,
           &scale, &a->choices);
    LAUNCH(a->c, group_choices, GRID((size_t)a->experts, .threads = 1024), &a->choices, &a->rows, &a->k,
           &a->experts, &a->first, &a->token, &a->row_of, &a->tiles);
}

static void product(struct call *a, int which, const void *x, int n, int k, float *y) {
    struct grouped_args g = {
        .g = { .x = x, .out = { .y = y, .ldy = n, .n = n }, .m = a->rows, .k = k, .parts = a->parts },
        .pointers = a->pointers,
        .which = which,
        .first = a->first,
        .tiles = a->tiles
    };
    void *params[] = { &g };
    cuda_launch(a->c, a->type == DTYPE_F16 ? KERNEL_gemm_grouped_f16 : KERNEL_gemm_grouped_bf16,
                (struct cuda_grid){ (size_t)(a->rows / GEMM_TILE + MIN(a->experts, a->rows)),
                                    ((size_t)n + GEMM_TILE - 1) / GEMM_TILE, .threads = CUDA_THREADS,
                                    .shared_bytes = GEMM_SHARED },
                params);
}

/* Returns the rows of x in the order of the experts, as 16-bit numbers [rows][parts][hidden]. */
static void *gather(struct call *a, struct view x) {
    size_t wide = (size_t)MAX(a->hidden, a->inner);
    void *narrow = cuda_scratch(a->c, SCRATCH_CONVERTED, (size_t)a->rows * wide * (size_t)a->parts * 2),
         *in = view_address(x);
    if (is_narrow(x)) {
        void *copied[] = { &in, &a->token, &a->rows, &a->hidden, &narrow };
        cuda_launch(a->c, KERNEL_gather_narrow, rows_of(a->rows, a->hidden / 8), copied);
        return narrow;
    }
    void *converted[] = { &in, &a->token, &a->rows, &a->hidden, &a->parts, &narrow };
    cuda_launch(a->c, a->type == DTYPE_F16 ? KERNEL_gather_f16 : KERNEL_gather_bf16,
                rows_of(a->rows, a->hidden), converted);
    return narrow;
}

/* Computes gate, up, the activation and down. `out` receives the result. */
static void run_products(struct call *a, void *narrow, float *out) {
    float *up = cuda_scratch(a->c, SCRATCH_UP, (size_t)a->rows * (size_t)a->inner * sizeof *up);
    void *activated[] = { &out, &up, &a->rows, &a->inner, &a->parts, &narrow };
    product(a, 0, narrow, a->inner, a->hidden, out);
    product(a, 1, narrow, a->inner, a->hidden, up);
    cuda_launch(a->c, a->type == DTYPE_F16 ? KERNEL_silu_convert_f16 : KERNEL_silu_convert_bf16,
                rows_of(a->rows, a->inner), activated);
    product(a, 2, narrow, a->hidden, a->inner, out);
}

/* Like run_products(), on Hopper in two launches: gate, up and activation; then down. */
static void run_wgmma_products(struct call *a, const void *maps, void *narrow, float *out) {
    void *h = cuda_scratch(a->c, SCRATCH_UP, (size_t)a->rows * (size_t)a->inner * 2);
    struct wgmma_args g = { .m = a->rows, .experts = maps, .first = a->first, .tiles = a->tiles };
    g.k = a->hidden;
    g.matrices = 2;
    g.paired = 1;
    g.out[0] = (struct gemm_out){ .y = h, .ldy = a->inner, .n = a->inner, .type = DTYPE_BF16 };
    cuda_tensor_map(a->c, &g.x, a->type, narrow, a->rows, a->hidden);
    cuda_run_wgmma(a->c, a->type, &g);
    g.k = a->inner;
    g.which = 2;
    g.matrices = 1;
    g.paired = 0;
    g.out[0] = (struct gemm_out){ .y = out, .ldy = a->hidden, .n = a->hidden };
    cuda_tensor_map(a->c, &g.x, a->type, h, a->rows, a->inner);
    cuda_run_wgmma(a->c, a->type, &g);
}

bool cuda_experts_alike(const struct expert *experts, int n, int hidden) {
    enum dtype type = experts[0].gate.w.type;
    if (type == DTYPE_F32 || hidden % 8 || experts[0].gate.w.rows % 8 || experts[0].gate.bias ||
        experts[0].down.bias)
        return false;
    for (int i = 0; i < n; i++)
        if (experts[i].gate.w.type != type || experts[i].up.w.type != type || experts[i].down.w.type != type)
            return false;
    return true;
}

const char *cuda_experts_many(void *context, const struct expert *experts, const struct routing *r,
                              struct view logits, struct view x, int m, int hidden, struct view y) {
    struct cuda *c = context;
    bool fp8 = experts[0].gate.w.type == DTYPE_F8_E4M3;
    enum dtype type = fp8 ? DTYPE_BF16 : experts[0].gate.w.type;
    struct call a = { .c = c,
                      .type = type,
                      .m = m,
                      .k = r->k,
                      .rows = m * r->k,
                      .hidden = hidden,
                      .inner = experts[0].gate.w.rows,
                      .parts = c->exact && type == DTYPE_BF16 ? 2 : 1,
                      .experts = r->n };
    if (!cuda_experts_alike(experts, r->n, hidden) || (fp8 && c->exact)) return NULL;
    struct known_experts *k = known(c, experts, r->n);
    a.pointers = k->there;
    if (k->wide) cuda_wide_experts_fill(c, k->wide);
    order_choices(&a, r, view_pointer(logits));
    float *to = view_pointer(y),
          *out = cuda_scratch(c, SCRATCH_GATE, (size_t)a.rows * (size_t)MAX(hidden, a.inner) * sizeof *out);
    void *narrow = gather(&a, x);
    if (cuda_has_wgmma(c, type) && type == DTYPE_BF16)
        run_wgmma_products(&a, maps_of(c, k, r->n), narrow, out);
    else
        run_products(&a, narrow, out);
    LAUNCH(c, combine, rows_of(m, hidden), &out, &a.choices, &a.row_of, &a.m, &a.k, &a.hidden, &to);
    return "experts_grouped";
}
