/* Routes tokens to experts, and runs the experts of one token: first all gate and up rows, then all down
 * rows. */
#include <math.h>

#include "engine/cpu/internal.h"

enum { BLOCK = 64 }; /* rows per step */

struct experts_job {
    struct cpu *c;
    const struct expert *const *e;
    const float *weights;
    struct few_rows x, hidden; /* the token; the hidden rows of all experts */
    float *h, *y;              /* h: `hidden` as floats */
    int n;
    struct parts parts;
};

/* y[i] += bias[i]; does nothing if bias is NULL */
static void add_bias(const struct cpu *c, float *y, const struct tensor *bias, size_t from, int n) {
    if (bias) c->k->add(y, tensor_floats(bias) + from, (size_t)n);
}

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
            add_bias(j->c, j->h + r, j->e[e]->gate.bias, r - first, rows);
            add_bias(j->c, up, j->e[e]->up.bias, r - first, rows);
            cpu_glu_numbers(j->c->k, j->e[e]->glu, j->h + r, up, (size_t)rows);
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
            add_bias(j->c, t, j->e[e]->down.bias, r, rows);
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

/* Returns the score of a group: the score of its best expert, or the sum of its two best scores if the
 * router has a correction. */
static float group_score(const struct routing *r, const float *p, int size) {
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < size; i++) {
        second = MAX(second, MIN(first, p[i]));
        first = MAX(first, p[i]);
    }
    return r->correction && size > 1 ? first + second : first;
}

/* Excludes the experts outside of the best groups. */
static void keep_best_groups(const struct routing *r, float *p) {
    int size = r->n / r->groups;
    float score[ROUTING_MAX_EXPERTS];
    bool kept[ROUTING_MAX_EXPERTS] = { false };
    for (int g = 0; g < r->groups; g++) score[g] = group_score(r, p + g * size, size);
    for (int round = 0; round < MIN(r->groups_kept, r->groups); round++) {
        int best = -1;
        for (int g = 0; g < r->groups; g++)
            if (!kept[g] && (best < 0 || score[g] > score[best])) best = g;
        if (best >= 0) kept[best] = true;
    }
    for (int i = 0; i < r->n; i++)
        if (!kept[MIN(i / size, r->groups - 1)]) p[i] = -INFINITY;
}

/* Replaces the logits p by probabilities. Sets `choice` to the scores by which experts are chosen. */
static void route_scores(const struct kernels *k, const struct routing *r, float *p, float *choice) {
    const float *correction = tensor_floats(r->correction);
    if (r->sigmoid)
        for (int i = 0; i < r->n; i++) p[i] = 1.0f / (1.0f + expf(-p[i]));
    else
        k->softmax(p, (size_t)r->n);
    for (int i = 0; i < r->n; i++) choice[i] = p[i] + (correction ? correction[i] : 0.0f);
}

static void route_token(const struct kernels *k, const struct routing *r, float *p,
                        struct routing_choice *out) {
    float total = 0.0f, choice[ROUTING_MAX_EXPERTS];
    route_scores(k, r, p, choice);
    if (r->groups > 1) keep_best_groups(r, choice);
    for (int c = 0; c < r->k; c++) {
        int best = 0;
        for (int i = 1; i < r->n; i++)
            if (choice[i] > choice[best]) best = i;
        out[c] = (struct routing_choice){ best, p[best] };
        total += p[best];
        choice[best] = -INFINITY;
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
