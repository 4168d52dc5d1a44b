/* Operators on single rows or elements: norms, activations, sums, embeddings. */
#include "engine/cpu/internal.h"

struct rows_job {
    const struct cpu *c;
    const struct kernels *k;
    const float *x, *w, *b;
    float *y;
    ptrdiff_t ldx, ldy;
    int n;
    float eps, by;
    enum ops_glu glu;
    const struct matrix *table;
    const uint32_t *ids;
    void (*run)(const struct rows_job *j, size_t from, size_t to);
    struct parts parts;
};

static void rows_task(void *job, int task, int worker) {
    const struct rows_job *j = job;
    (void)worker;
    j->run(j, parts_start(&j->parts, task), parts_end(&j->parts, task));
}

/* `least`: the smallest number of items per task. */
static void run_rows(struct cpu *c, struct rows_job *j, size_t items, size_t least) {
    j->c = c;
    j->k = c->k;
    j->parts = parts_of(c, items, least);
    threads_run(c->threads, rows_task, j, parts_tasks(&j->parts));
}

static void rmsnorm_rows(const struct rows_job *j, size_t from, size_t to) {
    for (ptrdiff_t i = (ptrdiff_t)from; i < (ptrdiff_t)to; i++)
        j->k->rmsnorm(j->y + i * j->ldy, j->x + i * j->ldx, j->w, j->n, j->eps);
}

static void layernorm_rows(const struct rows_job *j, size_t from, size_t to) {
    for (ptrdiff_t i = (ptrdiff_t)from; i < (ptrdiff_t)to; i++)
        j->k->layernorm(j->y + i * j->ldy, j->x + i * j->ldx, j->w, j->b, j->n, j->eps);
}

static void embed_rows(const struct rows_job *j, size_t from, size_t to) {
    size_t cols = (size_t)j->table->cols;
    for (size_t i = from; i < to; i++) cpu_widen(j->c, j->table, j->ids[i], 0, cols, j->y + i * cols);
}

static void gelu_part(const struct rows_job *j, size_t from, size_t to) {
    j->k->gelu(j->y + from, to - from);
}
static void quick_gelu_part(const struct rows_job *j, size_t from, size_t to) {
    j->k->quick_gelu(j->y + from, to - from);
}
static void glu_part(const struct rows_job *j, size_t from, size_t to) {
    cpu_glu_numbers(j->k, j->glu, j->y + from, j->x + from, to - from);
}
static void scale_part(const struct rows_job *j, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) j->y[i] *= j->by;
}
static void softcap_part(const struct rows_job *j, size_t from, size_t to) {
    j->k->softcap(j->y + from, j->by, to - from);
}
static void add_part(const struct rows_job *j, size_t from, size_t to) {
    j->k->add(j->y + from, j->x + from, to - from);
}

const char *cpu_rmsnorm(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n,
                        float eps, struct view y, ptrdiff_t ldy) {
    struct rows_job j = { .x = view_floats(x),
                          .w = tensor_floats(w),
                          .y = view_floats(y),
                          .ldx = ldx,
                          .ldy = ldy,
                          .n = n,
                          .eps = eps,
                          .run = rmsnorm_rows };
    run_rows(context, &j, (size_t)rows, (size_t)MAX(1, 16384 / n));
    return "rmsnorm";
}

const char *cpu_layernorm(void *context, struct view x, struct tensor *w, struct tensor *b, int rows, int n,
                          float eps, struct view y) {
    struct rows_job j = { .x = view_floats(x),
                          .w = tensor_floats(w),
                          .b = tensor_floats(b),
                          .y = view_floats(y),
                          .ldx = n,
                          .ldy = n,
                          .n = n,
                          .eps = eps,
                          .run = layernorm_rows };
    run_rows(context, &j, (size_t)rows, (size_t)MAX(1, 16384 / n));
    return "layernorm";
}

const char *cpu_activate(void *context, enum ops_activation a, struct view x, size_t n) {
    struct rows_job j = { .y = view_floats(x), .run = a == OPS_GELU ? gelu_part : quick_gelu_part };
    run_rows(context, &j, n, 4096);
    return a == OPS_GELU ? "gelu" : "quick_gelu";
}

void cpu_glu_numbers(const struct kernels *k, enum ops_glu kind, float *gate, const float *up, size_t n) {
    switch (kind) {
    case OPS_GLU_SILU: k->silu_mul(gate, up, n); break;
    case OPS_GLU_GELU: k->gelu_mul(gate, up, n); break;
    case OPS_GLU_GELU_TANH: k->gelu_tanh_mul(gate, up, n); break;
    case OPS_GLU_CLAMPED: k->clamped_mul(gate, up, n); break;
    }
}

const char *cpu_glu(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n) {
    static const char *const names[] = { "silu_mul", "gelu_mul", "gelu_tanh_mul", "clamped_mul" };
    struct rows_job j = { .x = view_floats(up), .y = view_floats(gate), .glu = kind, .run = glu_part };
    run_rows(context, &j, n, 4096);
    return names[kind];
}

const char *cpu_adjust(void *context, enum ops_adjust kind, float by, struct view x, size_t n) {
    struct rows_job j = { .y = view_floats(x),
                          .by = by,
                          .run = kind == OPS_SCALE ? scale_part : softcap_part };
    run_rows(context, &j, n, 4096);
    return kind == OPS_SCALE ? "scale" : "softcap";
}

const char *cpu_add(void *context, struct view y, struct view x, size_t n) {
    struct rows_job j = { .x = view_floats(x), .y = view_floats(y), .run = add_part };
    run_rows(context, &j, n, 16384);
    return "add";
}

const char *cpu_embed(void *context, const struct matrix *table, const uint32_t *ids, int n,
                      struct view out) {
    struct rows_job j = { .y = view_floats(out), .table = table, .ids = ids, .run = embed_rows };
    run_rows(context, &j, (size_t)n, 16);
    return "embed";
}
