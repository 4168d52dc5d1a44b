/* Fp8 matrices: the layout of their scales for the kernels, and copies in a wider type for products of many
 * rows. */
#include "engine/cuda/fp8.h"

#include <stdlib.h>

#include "base/die.h"

/* A matrix that has one scale is read as one with a scale for all of its numbers. A table of blocks also
 * serves such a matrix, because its rows and columns are all in the first block. */
struct scale_table cuda_scales(const struct matrix *m) {
    struct scale_table s = { .rows = 1 << 30, .across = 1, .shift = 31 };
    if (m->type != DTYPE_F8_E4M3) return s;
    s.v = pointer_of(m->scale);
    if (m->scale->bytes > sizeof(float)) {
        s.rows = m->scale_rows;
        s.across = (m->cols + m->scale_cols - 1) / m->scale_cols;
        if (m->scale_rows > 1) /* blocks */
            for (s.shift = 0; 8 << s.shift < m->scale_cols;) s.shift++;
    }
    return s;
}

bool cuda_scales_serve(const struct scale_table *s, const struct matrix *m) {
    struct scale_table own = cuda_scales(m);
    if (m->type != DTYPE_F8_E4M3 || (own.rows == s->rows && own.shift == s->shift)) return true;
    return m->scale->bytes == sizeof(float) && m->rows <= s->rows && (m->cols / 8 - 1) >> s->shift == 0;
}

static struct widen_args widen_of(const struct matrix *m, void *out) {
    return (struct widen_args){
        .w = pointer_of(m->data), .scale = cuda_scales(m), .rows = m->rows, .cols = m->cols, .out = out
    };
}

static void launch_widen(struct cuda *c, enum dtype to, const struct widen_args *one, const void *list,
                         int n) {
    struct widen_args a = *one;
    size_t groups = (size_t)a.rows * (size_t)a.cols / 8, blocks = (groups + CUDA_THREADS - 1) / CUDA_THREADS;
    void *params[] = { &a, &list };
    cuda_launch(c, to == DTYPE_F32 ? KERNEL_widen_f32 : KERNEL_widen_bf16,
                GRID(MIN(blocks, (size_t)(16 * c->sms)), (size_t)n, .threads = CUDA_THREADS), params);
}

const struct linear *cuda_widened(struct cuda *c, const struct linear *l, int slot,
                                  struct wide_linear *copy) {
    if (l->w.type != DTYPE_F8_E4M3) return l;
    enum dtype to = c->exact ? DTYPE_F32 : DTYPE_BF16;
    size_t bytes = (size_t)l->w.rows * (size_t)l->w.cols * dtype_bytes(to);
    void *out = cuda_scratch(c, (enum scratch_id)(SCRATCH_WIDE + slot), bytes);
    struct widen_args a = widen_of(&l->w, out);
    launch_widen(c, to, &a, NULL, 1);
    copy->tensor = (struct tensor){ .data = (cu_ptr)(uintptr_t)out, .type = to, .bytes = bytes };
    copy->l = *l;
    copy->l.w = (struct matrix){ .data = &copy->tensor, .type = to, .rows = l->w.rows, .cols = l->w.cols };
    return &copy->l;
}

/* ---- experts. The copies of all layers share their memory. */
enum { MATRICES = 3 };

static const struct linear *matrix_of(const struct expert *e, int i) {
    return i == 0 ? &e->gate : i == 1 ? &e->up : &e->down;
}

struct wide_experts *cuda_wide_experts_make(struct cuda *c, const struct expert *experts, int n) {
    struct wide_experts *w = xcalloc(1, sizeof *w);
    size_t numbers = (size_t)experts[0].gate.w.rows * (size_t)experts[0].gate.w.cols,
           bytes = numbers * dtype_bytes(DTYPE_BF16), all = bytes * MATRICES * (size_t)n;
    if (all > c->wide_bytes) { /* graphs and descriptors may have the old address, so it is not freed */
        c->wide = cuda_memory(c, all);
        c->wide_bytes = c->wide ? all : 0;
    }
    struct widen_args *list = xcalloc((size_t)n * MATRICES, sizeof *list);
    w->n = n;
    w->experts = xcalloc((size_t)n, sizeof *w->experts);
    w->tensors = xcalloc((size_t)n * MATRICES, sizeof *w->tensors);
    for (int i = 0; i < n * MATRICES; i++) {
        const struct linear *from = matrix_of(&experts[i / MATRICES], i % MATRICES);
        struct linear *to = (struct linear *)matrix_of(&w->experts[i / MATRICES], i % MATRICES);
        w->tensors[i] = (struct tensor){ .data = c->wide + (size_t)i * bytes, .type = DTYPE_BF16 };
        to->w = (struct matrix){
            .data = &w->tensors[i], .type = DTYPE_BF16, .rows = from->w.rows, .cols = from->w.cols
        };
        list[i] = widen_of(&from->w, pointer_of(&w->tensors[i]));
    }
    w->first = list[0];
    w->list = cuda_upload(c, list, (size_t)n * MATRICES * sizeof *list);
    free(list);
    return w;
}

void cuda_wide_experts_fill(struct cuda *c, const struct wide_experts *w) {
    launch_widen(c, DTYPE_BF16, &w->first, w->list, w->n * MATRICES);
}

void cuda_wide_experts_free(struct wide_experts *w) {
    if (!w) return;
    free(w->experts);
    free(w->tensors);
    free(w);
}
