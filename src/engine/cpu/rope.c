/* Rotary positions. */
#include "engine/cpu/internal.h"

static void rotate_heads(const struct rope_table *t, float *x, int heads, int stride, int position) {
    int half = t->dims / 2, step = t->interleaved ? 2 : 1, apart = t->interleaved ? 1 : half;
    const float *c = tensor_floats(t->cosine) + (size_t)position * (size_t)half,
                *s = tensor_floats(t->sine) + (size_t)position * (size_t)half;
    for (int h = 0; h < heads; h++) {
        float *v = x + (ptrdiff_t)h * stride;
        for (int i = 0; i < half; i++) {
            float a = v[i * step], b = v[i * step + apart];
            v[i * step] = a * c[i] - b * s[i];
            v[i * step + apart] = b * c[i] + a * s[i];
        }
    }
}

struct rope_job {
    const struct rope_table *t;
    const struct rope_rows *r;
    struct parts parts;
};

static void rope_task(void *job, int task, int worker) {
    const struct rope_job *j = job;
    const struct rope_rows *r = j->r;
    (void)worker;
    for (int i = (int)parts_start(&j->parts, task); i < (int)parts_end(&j->parts, task); i++)
        rotate_heads(j->t, view_floats(r->x) + i * r->row + r->offset, r->heads, r->stride, r->position + i);
}

void cpu_rope(void *context, const struct rope_table *t, const struct rope_rows *r) {
    const struct cpu *c = context;
    struct rope_job j = { t, r, parts_of(c, (size_t)r->rows, 16) };
    threads_run(c->threads, rope_task, &j, parts_tasks(&j.parts));
}
