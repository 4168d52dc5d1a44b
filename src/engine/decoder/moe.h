/* A routed feed-forward block: each token is processed by k of n experts, and by the shared expert if there
 * is one.
 *     p = softmax(router x);  S = the k largest p;  y += sum over S of w_e E_e(x) + Shared(x)
 * or p = sigmoid(router x). struct routing can restrict S to the best groups of experts and add a correction
 * to p for the choice. Shared(x) is multiplied by sigmoid(shared_gate x) if there is such a gate.
 * w_e is p_e, divided by the sum over S if `routing.normalise`, times `routing.scale`. */
#ifndef ENGINE_DECODER_MOE_H
#define ENGINE_DECODER_MOE_H

#include "engine/ops/ops.h"

struct moe {
    struct linear router;
    struct expert *experts;    /* [routing.n] */
    struct expert shared;      /* shared.gate.w.rows 0: none */
    struct linear shared_gate; /* [1, hidden]; w.rows 0: none */
    struct routing routing;    /* n 0: not a routed layer */
};

/* Scratch memory of moe_forward() for up to `tokens` tokens. */
struct moe_scratch {
    struct tensor *logits, *rows, *out, *gate, *up;
    struct routing_choice *choices; /* [tokens][k] */
    int *token;                     /* [tokens * k]: the tokens of all choices, ordered by expert */
    float *weight;                  /* [tokens * k]: the weights of the same choices */
    bool by_device;                 /* the last call routed on the device, so `choices` are not valid */
    float *opening;                 /* [tokens]: the factor of the shared expert */
    int *every;                     /* [tokens]: 0, 1, 2, ... */
};
/* Allocates scratch memory for layers with the same sizes as e. */
void moe_scratch_init(struct moe_scratch *s, struct ops *o, const struct moe *e, int hidden, int tokens);
void moe_scratch_free(struct moe_scratch *s, struct ops *o);

/* y[m, hidden] += experts(x[m, hidden]). Afterwards, s->choices contains the choices of all tokens, unless
 * the routing ran on the device. `gate` is scratch memory for [m, inner of the shared expert], of the type
 * of x. */
void moe_forward(struct ops *o, const struct moe *e, struct view x, int m, int hidden, struct view y,
                 struct moe_scratch *s, struct tensor *gate);

#endif
