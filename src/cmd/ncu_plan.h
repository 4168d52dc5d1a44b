/* Selects the launches that Nsight Compute profiles: those of the kernels with the most time, in their stage.
 * ncu filters launches by name and NVTX range, then skips and counts them. The number to skip is computed
 * from the trace. There is one plan per stage, and ncu runs the program once per plan. */
#ifndef CMD_NCU_PLAN_H
#define CMD_NCU_PLAN_H

#include "analyze/analyze.h"
#include "base/strbuf.h"

struct ncu_plan {
    const char *stage;          /* name of the stage; NULL: outside of stages */
    struct strbuf names;        /* regex over mangled names */
    char *range, *marked_range; /* two alternatives for --nvtx-include; NULL: none */
    uint64_t skip, count;       /* counted over the launches that match name and range */
    struct {
        uint32_t *v; /* rows of the analysis */
        size_t n, cap;
    } kernels;
};

struct ncu_plans {
    struct ncu_plan *v;
    size_t n, cap;
};

/* Makes plans for the `top` kernels with the most time, of one stage if given. Empty if there are no
 * kernels. */
void ncu_plan_make(const struct analysis *a, size_t top, const char *stage, struct ncu_plans *out);
void ncu_plan_free(struct ncu_plans *p);

#endif
