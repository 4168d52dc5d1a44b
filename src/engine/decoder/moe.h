/* A routed feed-forward: each token goes to `k` of `experts`, and through the shared expert if there is one.
 *     p = softmax(router x);  S = the k largest p;  y += sum over S of w_e E_e(x) + Shared(x)
 * w_e is p_e, divided by the sum over S if `normalise`, times `scale`. */
#ifndef ENGINE_DECODER_MOE_H
#define ENGINE_DECODER_MOE_H

#include <stdbool.h>

#include "engine/ops/ops.h"

enum { MOE_MAX_EXPERTS = 1024, MOE_MAX_CHOSEN = 64 };

struct moe {
    struct linear router;
    struct expert *experts;
    struct expert shared; /* shared.gate.w.rows 0: none */
    int n, k;
    int groups, groups_kept; /* only experts of the best groups may be chosen; 0 or 1: no groups */
    bool normalise;
    float scale;
};

struct moe_choice {
    int expert;
    float weight;
};

/* Floats of scratch that moe_forward needs for m tokens. */
size_t moe_scratch_floats(const struct moe *e, int hidden, int m);
/* y[m, hidden] += experts(x[m, hidden]). `choices` holds m * k, `order` as many ints. */
void moe_forward(struct ops *o, const struct moe *e, const float *x, int m, int hidden, float *y,
                 struct moe_choice *choices, int *order, float *scratch);

/* The choice for one token; logits are overwritten. Equal scores: the lower expert first. */
void moe_choose(const struct kernels *k, const struct moe *e, float *logits, struct moe_choice *out);

#endif
