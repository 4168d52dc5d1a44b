/* FLOPs and bytes of one call of an attention operator. Formulas: docs/metrics.md. */
#ifndef ANALYZE_OPERATOR_ATTENTION_H
#define ANALYZE_OPERATOR_ATTENTION_H

#include <stdbool.h>

#include "analyze/operator_call.h"

struct attention_work {
    double flops, bytes;
};

/* Returns false if the operator is not one of attention, or if its arguments do not determine its work: the
 * lengths of the sequences, the mask or the window are missing. */
bool operator_attention_work(const char *name, const struct operator_call *c, struct attention_work *out);

/* Sums over the sequences of a server's step, from its label. */
struct attention_step {
    double queries, keys; /* number of query tokens, and of keys that the sequences attend to */
    double pairs;         /* pairs of query and key under a causal mask */
};

/* As operator_attention_work, for the operators of servers (vllm::unified_attention), whose shapes are
 * those of all sequences together. *window_known becomes false if the arguments do not include the window. */
bool operator_attention_of_step(const char *name, const struct operator_call *c,
                                const struct attention_step *step, bool *window_known,
                                struct attention_work *out);
/* Returns true if operator_attention_of_step supports the operator. */
bool operator_attention_is_of_server(const char *name);

#endif
