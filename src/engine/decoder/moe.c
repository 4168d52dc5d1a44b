#include "engine/decoder/moe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

void moe_scratch_init(struct moe_scratch *s, struct ops *o, const struct moe *e, int hidden, int tokens) {
    size_t m = (size_t)tokens, choices = m * (size_t)e->routing.k;
    size_t inner = (size_t)MAX(e->experts[0].gate.w.rows, e->shared.gate.w.rows);
    *s = (struct moe_scratch){ .logits = ops_alloc(o, m * (size_t)e->routing.n, TENSOR_ZERO),
                               .rows = ops_alloc(o, m * (size_t)hidden, TENSOR_ZERO),
                               .out = ops_alloc(o, m * (size_t)hidden, TENSOR_ZERO),
                               .gate = ops_alloc(o, m * inner, TENSOR_ZERO),
                               .up = ops_alloc(o, m * inner, TENSOR_ZERO),
                               .choices = xcalloc(choices, sizeof *s->choices),
                               .token = xcalloc(choices, sizeof *s->token),
                               .weight = xcalloc(choices, sizeof *s->weight),
                               .opening = xcalloc(m, sizeof *s->opening),
                               .every = xcalloc(m, sizeof *s->every) };
    for (int i = 0; i < tokens; i++) s->every[i] = i;
}

void moe_scratch_free(struct moe_scratch *s, struct ops *o) {
    struct tensor *const tensors[] = { s->logits, s->rows, s->out, s->gate, s->up };
    for (size_t i = 0; i < COUNTOF(tensors); i++) ops_free(o, tensors[i]);
    free(s->choices);
    free(s->token);
    free(s->weight);
    free(s->opening);
    free(s->every);
}

static bool forward_one(struct ops *o, const struct moe *e, struct view x, struct view y,
                        const struct moe_scratch *s) {
    const struct routing_choice *chosen = s->choices;
    const struct expert *v[ROUTING_MAX_CHOSEN + 1];
    float weights[ROUTING_MAX_CHOSEN + 1];
    int n = e->routing.k;
    for (int i = 0; i < n; i++) {
        v[i] = &e->experts[chosen[i].expert];
        weights[i] = chosen[i].weight;
    }
    if (e->shared.gate.w.rows) {
        v[n] = &e->shared;
        weights[n] = e->shared_gate.w.rows ? s->opening[0] : 1.0f;
        n++;
    }
    return ops_experts_one(o, "experts", v, weights, n, x, y);
}

/* `names`: gate, up, down, and fused gate and up. `gate` and `up` are scratch. */
static void run_expert(struct ops *o, const struct expert *e, const char *const names[4], struct view x,
                       int hidden, int m, struct tensor *gate, struct tensor *up, struct view y,
                       enum ops_store store) {
    ops_swiglu(o, names[3], names, e, x, m, view_of(gate), view_of(up));
    ops_linear(o, names[2], &e->down, view_of(gate), e->gate.w.rows, m, y, hidden, store);
}

/* Sorts s->token and s->weight by expert; the entries of expert e are first[e] .. first[e + 1] - 1. */
static void sort_by_expert(const struct routing *r, struct moe_scratch *s, int m, int *first) {
    memset(first, 0, sizeof *first * (size_t)(r->n + 1));
    for (int i = 0; i < m * r->k; i++) first[s->choices[i].expert + 1]++;
    for (int i = 0; i < r->n; i++) first[i + 1] += first[i];
    int next[ROUTING_MAX_EXPERTS];
    memcpy(next, first, sizeof *first * (size_t)r->n);
    for (int i = 0; i < m * r->k; i++) {
        int at = next[s->choices[i].expert]++;
        s->token[at] = i / r->k;
        s->weight[at] = s->choices[i].weight;
    }
}

/* Computes the factor of the shared expert for each token on the host, if the shared expert has a gate. */
static void open_shared(struct ops *o, const struct moe *e, struct view x, int m, int hidden,
                        struct moe_scratch *s) {
    if (!e->shared_gate.w.rows) return;
    struct view to = view_of(s->out);
    ops_linear(o, "shared_expert_gate", &e->shared_gate, x, hidden, m, to, 1, OPS_SET);
    ops_download(o, s->opening, to, (size_t)m);
    for (int i = 0; i < m; i++) s->opening[i] = 1.0f / (1.0f + expf(-s->opening[i]));
}

static void add_shared(struct ops *o, const struct moe *e, struct view x, int m, int hidden, struct view y,
                       struct moe_scratch *s, struct tensor *gate) {
    static const char *const names[] = { "shared.gate_proj", "shared.up_proj", "shared.down_proj",
                                         "shared.gate_up_proj" };
    if (!e->shared.gate.w.rows) return;
    if (!e->shared_gate.w.rows) {
        run_expert(o, &e->shared, names, x, hidden, m, gate, s->up, y, OPS_ADD);
        return;
    }
    run_expert(o, &e->shared, names, x, hidden, m, gate, s->up, view_of(s->out), OPS_SET);
    ops_scatter_add(o, y, view_of(s->out), s->every, s->opening, m, (size_t)hidden);
}

void moe_forward(struct ops *o, const struct moe *e, struct view x, int m, int hidden, struct view y,
                 struct moe_scratch *s, struct tensor *gate) {
    static const char *const expert_names[] = { "expert.gate_proj", "expert.up_proj", "expert.down_proj",
                                                "expert.gate_up_proj" };
    const struct routing *r = &e->routing;
    int first[ROUTING_MAX_EXPERTS + 1];
    ops_linear(o, "router", &e->router, x, hidden, m, view_of(s->logits), r->n, OPS_SET);
    open_shared(o, e, x, m, hidden, s);
    s->by_device =
        m > 1 && ops_experts_many(o, "experts", e->experts, r, view_of(s->logits), x, m, hidden, y);
    if (s->by_device) {
        add_shared(o, e, x, m, hidden, y, s, gate);
        return;
    }
    ops_route(o, r, view_of(s->logits), m, s->choices);
    if (m == 1 && forward_one(o, e, x, y, s)) return;
    sort_by_expert(r, s, m, first);
    for (int i = 0; i < r->n; i++) {
        int at = first[i], n = first[i + 1] - at;
        if (n == 0) continue;
        ops_gather_rows(o, view_of(s->rows), x, s->token + at, n, (size_t)hidden);
        run_expert(o, &e->experts[i], expert_names, view_of(s->rows), hidden, n, s->gate, s->up,
                   view_of(s->out), OPS_SET);
        ops_scatter_add(o, y, view_of(s->out), s->token + at, s->weight + at, n, (size_t)hidden);
    }
    add_shared(o, e, x, m, hidden, y, s, gate);
}
