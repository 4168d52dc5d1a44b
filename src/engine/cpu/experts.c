/* Routing of tokens to experts, and the experts of one token: all gate and up rows, then all down rows. */
#include "engine/cpu/internal.h"

enum { BLOCK = 64 }; /* rows per step */

struct experts_job {
    struct cpu *c;
    const struct expert *const *e;
    const float *weights;
    struct few_rows x, hidden; /* the token, and the hidden rows of all experts, concatenated */
    float *h, *y;              /* h: `hidden` as floats */
    int n;
    struct parts parts;
};

static void experts_up_task(void *job, int task, int worker) {
    const struct experts_job *j = job;
    (void)worker;
    size_t from = parts_start(&j->parts, task), to = parts_end(&j->parts, task), first = 0;
    float up[BLOCK];
    for (int e = 0; e < j->n; e++) {
        const struct matrix *g = &j->e[e]->gate.w, *u = &j->e[e]->up.w;
        size_t last = first + (size_t)g->rows;
        for (size_t r = MAX(from, first); r < MIN(to, last); r += BLOCK) {
            int rows = (int)MIN(MIN(to, last) - r, (size_t)BLOCK);
            cpu_few(j->c, g, r - first, rows, &j->x, 0, j->h + r, 0);
            cpu_few(j->c, u, r - first, rows, &j->x, 0, up, 0);
            j->c->k->silu_mul(j->h + r, up, (size_t)rows);
        }
        first = last;
    }
}

static void experts_down_task(void *job, int task, int worker) {
    const struct experts_job *j = job;
    (void)worker;
    float t[BLOCK];
    size_t to = parts_end(&j->parts, task);
    for (size_t r = parts_start(&j->parts, task); r < to; r += BLOCK) {
        int rows = (int)MIN(to - r, (size_t)BLOCK);
        size_t at = 0;
        for (int e = 0; e < j->n; e++) {
            const struct matrix *d = &j->e[e]->down.w;
            cpu_few(j->c, d, r, rows, &j->hidden, at, t, 0);
            j->c->k->axpy(j->y + r, j->weights[e], t, (size_t)rows);
            at += (size_t)d->cols;
        }
    }
}

const char *cpu_experts_one(void *context, const struct expert *const *experts, const float *weights, int n,
                            struct view x, struct view y) {
    struct cpu *c = context;
    size_t hidden = 0;
    bool round_x = false, round_h = false;
    for (int e = 0; e < n; e++) {
        hidden += (size_t)experts[e]->gate.w.rows;
        round_x = round_x || cpu_rounds(c, &experts[e]->gate.w) || cpu_rounds(c, &experts[e]->up.w);
        round_h = round_h || cpu_rounds(c, &experts[e]->down.w);
    }
    struct experts_job j = { .c = c, .e = experts, .weights = weights, .y = view_floats(y), .n = n };
    j.h = cpu_shared(c, hidden);
    j.x = (struct few_rows){ .x = view_floats(x), .m = 1 };
    j.hidden = (struct few_rows){ .x = j.h, .m = 1 };
    if (round_x) j.x.q8 = cpu_round(c, j.x.x, 0, 1, experts[0]->gate.w.cols);
    j.parts = parts_of(c, hidden, 32);
    threads_run(c->threads, experts_up_task, &j, parts_tasks(&j.parts));
    if (round_h) j.hidden.q8 = cpu_round(c, j.h, 0, 1, (int)hidden);
    j.parts = parts_of(c, (size_t)experts[0]->down.w.rows, 16);
    threads_run(c->threads, experts_down_task, &j, parts_tasks(&j.parts));
    return "swiglu_gemv";
}

/* ---- routing */

/* Sets scores outside of the best groups to 0. The score of a group is that of its best expert. */
static void keep_best_groups(const struct routing *r, float *p) {
    int size = r->n / r->groups;
    bool kept[ROUTING_MAX_EXPERTS] = { false };
    for (int round = 0; round < r->groups_kept; round++) {
        int best = -1;
        float best_score = -1.0f;
        for (int i = 0; i < r->n; i++)
            if (!kept[i / size] && p[i] > best_score) {
                best = i / size;
                best_score = p[i];
            }
        if (best >= 0) kept[best] = true;
    }
    for (int i = 0; i < r->n; i++)
        if (!kept[i / size]) p[i] = 0.0f;
}

static void route_token(const struct kernels *k, const struct routing *r, float *p,
                        struct routing_choice *out) {
    float total = 0.0f;
    k->softmax(p, (size_t)r->n);
    if (r->groups > 1) keep_best_groups(r, p);
    for (int c = 0; c < r->k; c++) {
        int best = 0;
        for (int i = 1; i < r->n; i++)
            if (p[i] > p[best]) best = i;
        out[c] = (struct routing_choice){ best, p[best] };
        total += p[best];
        p[best] = -1.0f;
    }
    float scale = r->scale / (r->normalise ? total : 1.0f);
    for (int c = 0; c < r->k; c++) out[c].weight *= scale;
}

void cpu_route(void *context, const struct routing *r, struct view logits, int m,
               struct routing_choice *out) {
    const struct cpu *c = context;
    for (int i = 0; i < m; i++)
        route_token(c->k, r, view_floats(logits) + (ptrdiff_t)i * r->n, out + (ptrdiff_t)i * r->k);
}
