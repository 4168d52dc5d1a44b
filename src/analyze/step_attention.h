/* FLOPs and bytes of the attention operators of servers. One call computes all sequences of a step, and the
 * step's label has the sums over the sequences. */
#ifndef ANALYZE_STEP_ATTENTION_H
#define ANALYZE_STEP_ATTENTION_H

#include "analyze/internal.h"

/* Calls whose arguments do not include the sliding window. */
struct step_attention {
    struct step_attention_call {
        uint32_t range, step; /* the operator, and the labelled range around it */
        uint32_t detail;      /* text of its shapes */
        double ns;            /* kernel time, set by the caller before closing */
    } * v;
    size_t n, cap;
};

/* Sets range_flops, range_bytes and the type of a range; returns false if that is not possible. */
bool step_attention_add(struct step_attention *s, struct context *c, size_t range, uint8_t *type);
/* Calls `set_unknown` for each call that may have a sliding window, then frees the list. */
void step_attention_close(struct step_attention *s, struct context *c,
                          void (*set_unknown)(struct context *c, size_t range));

#endif
