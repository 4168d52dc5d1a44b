/* Latent attention (decoder/latent.h). For one token, the query and the sums are multiplied with parts of
 * kv_b. For many positions, rows are copied into keys and values. */
#include <string.h>

#include "engine/cpu/internal.h"

struct latent_job {
    const struct cpu *c;
    const struct latent *l;
    const float *in;
    float *out;
};

/* out[head] = [U^T q_nope | q_rope] */
static void query_task(void *job, int head, int worker) {
    const struct latent_job *j = job;
    const struct latent *l = j->l;
    const struct kernels *k = j->c->k;
    size_t rank = (size_t)l->rank;
    const float *q = j->in + head * (l->nope + l->rope);
    size_t u = (size_t)head * (size_t)(l->nope + l->value);
    float *out = j->out + head * (l->rank + l->rope), *row = cpu_own(j->c, worker);
    memset(out, 0, rank * sizeof *out);
    for (int i = 0; i < l->nope; i++, u++) {
        cpu_widen(j->c, &l->kv_b.w, u, 0, rank, row);
        k->axpy(out, q[i], row, rank);
    }
    memcpy(out + rank, q + l->nope, (size_t)l->rope * sizeof *out);
}

/* out[head] = V in[head] */
static void value_task(void *job, int head, int worker) {
    const struct latent_job *j = job;
    const struct latent *l = j->l;
    (void)worker;
    size_t first = (size_t)head * (size_t)(l->nope + l->value) + (size_t)l->nope;
    struct few_rows x = { .x = j->in + (ptrdiff_t)head * l->rank, .m = 1 };
    cpu_few(j->c, &l->kv_b.w, first, l->value, &x, 0, j->out + (ptrdiff_t)head * l->value, 0);
}

static const char *run_latent(struct cpu *c, const struct latent *l, struct view in, struct view out,
                              threads_fn *task) {
    struct latent_job j = { c, l, view_floats(in), view_floats(out) };
    cpu_reserve_own(c, (size_t)l->rank);
    threads_run(c->threads, task, &j, l->heads);
    return "gemv";
}

const char *cpu_latent_query(void *context, const struct latent *l, struct view q, struct view out) {
    return run_latent(context, l, q, out, query_task);
}

const char *cpu_latent_value(void *context, const struct latent *l, struct view sums, struct view out) {
    return run_latent(context, l, sums, out, value_task);
}

/* Copies the row [heads][nope + value] of one position, and its rotated part, into the keys and values of
 * all heads. */
static void expand_position(const struct latent *l, const struct latent_rows *r, const float *row,
                            const float *rotated, int position) {
    size_t nope = (size_t)l->nope, value = (size_t)l->value, dim = nope + (size_t)l->rope;
    for (int h = 0; h < l->heads; h++, row += nope + value) {
        size_t at = (size_t)h * (size_t)r->max_context + (size_t)position;
        float *key = view_floats(r->keys) + at * dim;
        memcpy(key, row, nope * sizeof(float));
        memcpy(key + nope, rotated, (size_t)l->rope * sizeof(float));
        memcpy(view_floats(r->values) + at * value, row + nope, value * sizeof(float));
    }
}

void cpu_latent_expand(void *context, const struct latent *l, const struct latent_rows *r) {
    (void)context;
    ptrdiff_t width = (ptrdiff_t)l->heads * (l->nope + l->value), kept = l->rank + l->rope;
    for (int i = 0; i < r->n; i++)
        expand_position(l, r, view_floats(r->rows) + i * width, view_floats(r->kept) + i * kept + l->rank,
                        r->position + i);
}
