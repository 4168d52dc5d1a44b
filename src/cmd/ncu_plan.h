/* Selects the launches that Nsight Compute profiles: those of the longest kernels. ncu filters launches by
 * name and NVTX range, then skips and counts them. There is one plan per stage, and ncu runs the program once
 * per plan. */
#ifndef CMD_NCU_PLAN_H
#define CMD_NCU_PLAN_H

#include "analyze/analyze.h"
#include "base/strbuf.h"

struct ncu_plan {
    const char *stage;          /* NULL: outside of stages */
    struct strbuf names;        /* regex over mangled names */
    char *range, *marked_range; /* alternatives for --nvtx-include; NULL: none */
    uint64_t skip, count;       /* of launches that pass the filters */
    struct {
        uint32_t *v; /* rows of the analysis */
        size_t n, cap;
    } kernels;
};

struct ncu_plans {
    struct ncu_plan *v;
    size_t n, cap;
};

/* Plans for the `top` kernels with the most time, in `stage` if it is not NULL. */
void ncu_plan_make(const struct analysis *a, size_t top, const char *stage, struct ncu_plans *out);
void ncu_plan_free(struct ncu_plans *p);

#endif
