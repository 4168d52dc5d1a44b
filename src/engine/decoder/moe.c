#include "engine/decoder/moe.h"

#include <string.h>

#include "base/util.h"

/* Scores outside the best groups become 0; a group is as good as its best expert. */
static void keep_best_groups(const struct moe *e, float *p) {
    int size = e->n / e->groups;
    bool kept[MOE_MAX_EXPERTS] = { false };
    for (int round = 0; round < e->groups_kept; round++) {
        int best = -1;
        float best_score = -1.0f;
        for (int i = 0; i < e->n; i++)
            if (!kept[i / size] && p[i] > best_score) {
                best = i / size;
                best_score = p[i];
            }
        if (best >= 0) kept[best] = true;
    }
    for (int i = 0; i < e->n; i++)
        if (!kept[i / size]) p[i] = 0.0f;
}

void moe_choose(const struct kernels *k, const struct moe *e, float *p, struct moe_choice *out) {
    float total = 0.0f;
    k->softmax(p, (size_t)e->n);
    if (e->groups > 1) keep_best_groups(e, p);
    for (int c = 0; c < e->k; c++) {
        int best = 0;
        for (int i = 1; i < e->n; i++)
            if (p[i] > p[best]) best = i;
        out[c] = (struct moe_choice){ best, p[best] };
        total += p[best];
        p[best] = -1.0f;
    }
    float scale = e->scale / (e->normalise ? total : 1.0f);
    for (int c = 0; c < e->k; c++) out[c].weight *= scale;
}

size_t moe_scratch_floats(const struct moe *e, int hidden, int m) {
    int inner = MAX(e->experts[0].gate.w.rows, e->shared.gate.w.rows);
    return (size_t)m * (size_t)(2 * hidden + 2 * inner + e->n);
}

static void one_token(struct ops *o, const struct moe *e, const float *x, float *y,
                      const struct moe_choice *chosen) {
    const struct expert *v[MOE_MAX_CHOSEN + 1];
    float weights[MOE_MAX_CHOSEN + 1];
    int n = e->k;
    for (int i = 0; i < n; i++) {
        v[i] = &e->experts[chosen[i].expert];
        weights[i] = chosen[i].weight;
    }
    if (e->shared.gate.w.rows) {
        v[n] = &e->shared;
        weights[n] = 1.0f;
        n++;
    }
    ops_experts_one(o, "experts", v, weights, n, x, y);
}

static void swiglu(struct ops *o, const struct expert *e, const char *const names[3], const float *x,
                   int hidden, int m, float *gate, float *up, float *y, enum ops_store store) {
    int inner = e->gate.w.rows;
    ops_linear(o, names[0], &e->gate, x, hidden, m, gate, inner, OPS_SET);
    ops_linear(o, names[1], &e->up, x, hidden, m, up, inner, OPS_SET);
    ops_silu_mul(o, gate, up, (size_t)m * (size_t)inner);
    ops_linear(o, names[2], &e->down, gate, inner, m, y, hidden, store);
}

/* order: positions in `choices`, expert by expert; first[e] .. first[e + 1] are those of expert e. */
static void sort_by_expert(const struct moe *e, const struct moe_choice *choices, int n, int *order,
                           int *first) {
    memset(first, 0, sizeof *first * (size_t)(e->n + 1));
    for (int i = 0; i < n; i++) first[choices[i].expert + 1]++;
    for (int i = 0; i < e->n; i++) first[i + 1] += first[i];
    int next[MOE_MAX_EXPERTS];
    memcpy(next, first, sizeof *first * (size_t)e->n);
    for (int i = 0; i < n; i++) order[next[choices[i].expert]++] = i;
}

void moe_forward(struct ops *o, const struct moe *e, const float *x, int m, int hidden, float *y,
                 struct moe_choice *choices, int *order, float *scratch) {
    static const char *const expert_names[3] = { "expert.gate_proj", "expert.up_proj", "expert.down_proj" };
    static const char *const shared_names[3] = { "shared.gate_proj", "shared.up_proj", "shared.down_proj" };
    int first[MOE_MAX_EXPERTS + 1], inner = MAX(e->experts[0].gate.w.rows, e->shared.gate.w.rows);
    float *logits = scratch, *rows = logits + (size_t)m * (size_t)e->n,
          *out = rows + (size_t)m * (size_t)hidden;
    float *gate = out + (size_t)m * (size_t)hidden, *up = gate + (size_t)m * (size_t)inner;
    ops_linear(o, "router", &e->router, x, hidden, m, logits, e->n, OPS_SET);
    for (int i = 0; i < m; i++)
        moe_choose(o->k, e, logits + (ptrdiff_t)i * e->n, choices + (ptrdiff_t)i * e->k);
    if (m == 1) {
        one_token(o, e, x, y, choices);
        return;
    }
    sort_by_expert(e, choices, m * e->k, order, first);
    for (int x_ = 0; x_ < e->n; x_++) {
        int n = first[x_ + 1] - first[x_];
        const int *mine = order + first[x_];
        if (n == 0) continue;
        for (int i = 0; i < n; i++)
            memcpy(rows + (ptrdiff_t)i * hidden, x + (ptrdiff_t)(mine[i] / e->k) * hidden,
                   sizeof(float) * (size_t)hidden);
        swiglu(o, &e->experts[x_], expert_names, rows, hidden, n, gate, up, out, OPS_SET);
        for (int i = 0; i < n; i++)
            o->k->axpy(y + (ptrdiff_t)(mine[i] / e->k) * hidden, choices[mine[i]].weight,
                       out + (ptrdiff_t)i * hidden, (size_t)hidden);
    }
    if (e->shared.gate.w.rows) swiglu(o, &e->shared, shared_names, x, hidden, m, gate, up, y, OPS_ADD);
}
