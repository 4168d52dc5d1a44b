/* Experts of many tokens, without the host: routing, sorting by expert, products of all experts at once. */
#include <stdlib.h>

#include "base/die.h"
#include "base/vec.h"
#include "engine/cuda/internal.h"

enum { THREADS = 256, TILE = 128, GEMM_SHARED = 3 * 2 * TILE * 64 * 2 };

static const void *pointers_of(struct cuda *c, const struct expert *experts, int n) {
    for (size_t i = 0; i < c->known.n; i++)
        if (c->known.v[i].experts == experts) return c->known.v[i].there;
    size_t bytes = (size_t)n * sizeof(struct expert_pointers);
    struct expert_pointers *list = xcalloc((size_t)n, sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] =
            (struct expert_pointers){ pointer_of(experts[i].gate.w.data), pointer_of(experts[i].up.w.data),
                                      pointer_of(experts[i].down.w.data) };
    struct known_experts k = { experts, (void *)(uintptr_t)cuda_memory(c, bytes) };
    if (!c->failed &&
        cuda_ok(c, c->d->copy_in((cu_ptr)(uintptr_t)k.there, list, bytes, c->stream), "copying to the GPU"))
        cuda_ok(c, c->d->stream_wait(c->stream), "copying to the GPU");
    vec_push(&c->known, k);
    free(list);
    return k.there;
}

/* Data shared by the launches of one call. */
struct call {
    struct cuda *c;
    enum dtype type;
    int m, k, rows, hidden, inner, parts, experts;
    void *choices;
    int *first, *token, *row_of, *tiles;
    const void *pointers;
};

static struct cuda_grid rows_of(int rows, int width) {
    return (struct cuda_grid){ ((size_t)width + THREADS - 1) / THREADS, MIN((size_t)rows, (size_t)65535),
                               .threads = THREADS };
}

static void order_choices(struct call *a, const struct routing *r, float *logits) {
    size_t rows = (size_t)a->rows, tiles = rows / TILE + (size_t)a->experts + 1;
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
    LAUNCH(a->c, group_choices, GRID(1, .threads = 1024), &a->choices, &a->rows, &a->k, &a->experts,
           &a->first, &a->token, &a->row_of, &a->tiles);
}

static void product(struct call *a, int which, const void *x, int n, int k, float *y) {
    struct grouped_args g = {
        .g = { .x = x, .y = y, .ldy = n, .m = a->rows, .n = n, .k = k, .parts = a->parts },
        .pointers = a->pointers,
        .which = which,
        .first = a->first,
        .tiles = a->tiles
    };
    void *params[] = { &g };
    cuda_launch(a->c, a->type == DTYPE_F16 ? KERNEL_gemm_grouped_f16 : KERNEL_gemm_grouped_bf16,
                (struct cuda_grid){ (size_t)(a->rows / TILE + MIN(a->experts, a->rows)),
                                    ((size_t)n + TILE - 1) / TILE, .threads = THREADS,
                                    .shared_bytes = GEMM_SHARED },
                params);
}

const char *cuda_experts_many(void *context, const struct expert *experts, const struct routing *r,
                              struct view logits, struct view x, int m, int hidden, struct view y) {
    struct cuda *c = context;
    enum dtype type = experts[0].gate.w.type;
    struct call a = { .c = c,
                      .type = type,
                      .m = m,
                      .k = r->k,
                      .rows = m * r->k,
                      .hidden = hidden,
                      .inner = experts[0].gate.w.rows,
                      .parts = c->exact && type == DTYPE_BF16 ? 2 : 1,
                      .experts = r->n };
    if (type == DTYPE_F32 || hidden % 8 || a.inner % 8 || experts[0].gate.bias || experts[0].down.bias)
        return NULL;
    for (int i = 0; i < r->n; i++)
        if (experts[i].gate.w.type != type || experts[i].up.w.type != type || experts[i].down.w.type != type)
            return NULL;
    a.pointers = pointers_of(c, experts, r->n);
    order_choices(&a, r, view_pointer(logits));
    size_t rows = (size_t)a.rows, wide = (size_t)MAX(hidden, a.inner);
    float *in = view_pointer(x), *out = view_pointer(y);
    void *narrow = cuda_scratch(c, SCRATCH_CONVERTED, rows * wide * (size_t)a.parts * 2);
    float *gate = cuda_scratch(c, SCRATCH_GATE, rows * wide * sizeof *gate),
          *up = cuda_scratch(c, SCRATCH_UP, rows * (size_t)a.inner * sizeof *up);
    void *gathered[] = { &in, &a.token, &a.rows, &a.hidden, &a.parts, &narrow };
    void *activated[] = { &gate, &up, &a.rows, &a.inner, &a.parts, &narrow };
    cuda_launch(c, type == DTYPE_F16 ? KERNEL_gather_f16 : KERNEL_gather_bf16, rows_of(a.rows, hidden),
                gathered);
    product(&a, 0, narrow, a.inner, hidden, gate);
    product(&a, 1, narrow, a.inner, hidden, up);
    cuda_launch(c, type == DTYPE_F16 ? KERNEL_silu_convert_f16 : KERNEL_silu_convert_bf16,
                rows_of(a.rows, a.inner), activated);
    product(&a, 2, narrow, hidden, a.inner, gate);
    LAUNCH(c, combine, rows_of(m, hidden), &gate, &a.choices, &a.row_of, &a.m, &a.k, &a.hidden, &out);
    return "experts_grouped";
}
