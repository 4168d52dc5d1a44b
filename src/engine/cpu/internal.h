/* Internal to the files of the CPU backend. */
#ifndef ENGINE_CPU_INTERNAL_H
#define ENGINE_CPU_INTERNAL_H

#include "base/util.h"
#include "engine/compute/kernels.h"
#include "engine/compute/threads.h"
#include "engine/ops/ops.h"

struct tensor {
    void *data;
    bool owned;
};

struct scratch {
    float *v;
    size_t cap; /* floats */
};

struct cpu {
    const struct kernels *k;
    struct threads *threads; /* borrowed */
    struct scratch shared;   /* used by one operator at a time, shared by all threads */
    struct scratch unfolded; /* unfolded patches of a convolution, whose matrix product uses `shared` */
    struct scratch rounded;  /* activations of one operator, rounded to 8 bits */
    bool exact;              /* use float arithmetic even for quantised and bf16 weights */
    bool test_bf16;          /* see cpu_test_bf16() */
    struct scratch indices;  /* integers of one operator */
    struct scratch *own;     /* one per thread */
};

static inline float *view_floats(struct view v) { return (float *)v.tensor->data + v.at; }
/* Returns the address of a position in a cache of keys or values. */
static inline char *cache_bytes(struct view v, enum dtype type) {
    return (char *)v.tensor->data + v.at * dtype_bytes(type);
}
static inline float *tensor_floats(const struct tensor *t) { return t ? (float *)t->data : NULL; }
static inline const char *matrix_row(const struct matrix *w, size_t row) {
    return (const char *)w->data->data + row * dtype_size(w->type, (size_t)w->cols);
}

/* ---- products with few rows */
static inline bool cpu_rounds(const struct cpu *c, const struct matrix *w) {
    return !c->exact && dtype_is_blocks(w->type);
}
/* Converts the columns [column, column + n) of a row to floats; for block types, they are whole blocks. */
void cpu_widen(const struct cpu *c, const struct matrix *w, size_t row, size_t column, size_t n, float *out);
/* Rounds m rows of x, ldx apart, to 8 bits. cols is a multiple of 32. The result is valid until the next
 * call. */
struct q8_rows cpu_round(struct cpu *c, const float *x, ptrdiff_t ldx, int m, int cols);
/* Activations of a product as floats, and rounded to 8 bits in q8. q8.q NULL: not rounded. */
struct few_rows {
    const float *x;
    ptrdiff_t ldx;
    struct q8_rows q8;
    int m; /* at most FEW_ROWS */
};
enum { FEW_ROWS = 8 };
/* y[i*ldy + r] = w[row + r] . x[i][at .. at + w->cols - 1] for r < rows. */
void cpu_few(const struct cpu *c, const struct matrix *w, size_t row, int rows, const struct few_rows *x,
             size_t at, float *y, ptrdiff_t ldy);

float *cpu_shared(struct cpu *c, size_t floats); /* valid until the next operator */
int *cpu_indices(struct cpu *c, size_t n);       /* valid until the next operator */
float *cpu_rounded(struct cpu *c, size_t floats);
float *cpu_unfolded(struct cpu *c, size_t floats);  /* valid until the next convolution */
void cpu_reserve_own(struct cpu *c, size_t floats); /* call before threads_run() */
static inline float *cpu_own(const struct cpu *c, int worker) { return c->own[worker].v; }

/* n items in parts of equal size, one per task. The last part may be smaller. */
struct parts {
    size_t n, part;
};
static inline struct parts parts_of(const struct cpu *c, size_t n, size_t least) {
    size_t tasks = (size_t)threads_count(c->threads) * 8;
    return (struct parts){ n, MAX(least, (n + tasks - 1) / tasks) };
}
static inline int parts_tasks(const struct parts *p) { return (int)((p->n + p->part - 1) / p->part); }
static inline size_t parts_start(const struct parts *p, int task) { return (size_t)task * p->part; }
static inline size_t parts_end(const struct parts *p, int task) {
    return MIN(p->n, ((size_t)task + 1) * p->part);
}

/* Operators of struct ops_backend and functions that they share. `context` is a struct cpu. */
const char *cpu_linear(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                       struct view y, ptrdiff_t ldy, enum ops_store store);
const char *cpu_linear_many(void *context, const struct linear_out *v, int n, struct view x);
const char *cpu_experts_one(void *context, const struct expert *const *experts, const float *weights, int n,
                            struct view x, struct view y);
void cpu_route(void *context, const struct routing *r, struct view logits, int m, struct routing_choice *out);
const char *cpu_rmsnorm(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n,
                        float eps, struct view y, ptrdiff_t ldy);
const char *cpu_layernorm(void *context, struct view x, struct tensor *w, struct tensor *b, int rows, int n,
                          float eps, struct view y);
const char *cpu_activate(void *context, enum ops_activation a, struct view x, size_t n);
const char *cpu_glu(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n);
void cpu_glu_numbers(const struct kernels *k, enum ops_glu kind, float *gate, const float *up, size_t n);
const char *cpu_adjust(void *context, enum ops_adjust kind, float by, struct view x, size_t n);
const char *cpu_add(void *context, struct view y, struct view x, size_t n);
const char *cpu_embed(void *context, const struct matrix *table, const uint32_t *ids, int n, struct view out);
const char *cpu_conv(void *context, const struct conv *c, struct view x, int views, int h, int w,
                     struct view y);
const char *cpu_attention(void *context, const struct attention *a);
void cpu_attend_blocks(struct cpu *c, const struct attention *a); /* many queries, no relative positions */
const char *cpu_attention_many(void *context, const struct attention *a, int n);
const char *cpu_qkv_attention(void *context, const struct qkv_attention *a);
const char *cpu_latent_query(void *context, const struct latent *l, struct view q, struct view out);
const char *cpu_latent_value(void *context, const struct latent *l, struct view sums, struct view out);
void cpu_latent_expand(void *context, const struct latent *l, const struct latent_rows *r);
const char *cpu_window_partition(void *context, const struct windows *s, struct view grid, struct view rows);
const char *cpu_window_merge(void *context, const struct windows *s, struct view rows, struct view grid);
void cpu_rope(void *context, const struct rope_table *t, const struct rope_rows *r);
void cpu_cache_store(void *context, const struct cache_rows *c);
void cpu_cache_load(void *context, const struct cache_rows *c);
void cpu_copy_rows(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                   size_t n);
void cpu_gather_rows(void *context, struct view to, struct view from, const int *index, int n, size_t width);
void cpu_scatter_add(void *context, struct view to, struct view from, const int *index, const float *weights,
                     int n, size_t width);

#endif
