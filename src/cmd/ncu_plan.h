/* Which launches Nsight Compute should look at: those of our own table's first kernels, in their stage.
 * ncu filters by name and by NVTX range and then counts; what it must skip to be in the right place is
 * known from the trace. One plan a stage: ncu runs the program once for each. */
#ifndef CMD_NCU_PLAN_H
#define CMD_NCU_PLAN_H

#include "analyze/analyze.h"
#include "base/strbuf.h"

struct ncu_plan {
    const char *stage;          /* name; NULL: outside of stages */
    struct strbuf names;        /* regex over mangled names */
    char *range, *marked_range; /* for --nvtx-include, either; NULL: none */
    uint64_t skip, count;       /* of the launches that pass both */
    struct {
        uint32_t *v; /* rows of the analysis */
        size_t n, cap;
    } kernels;
};

struct ncu_plans {
    struct ncu_plan *v;
    size_t n, cap;
};

/* For the `top` kernels with the most time; of one stage alone if named. Empty: there is none. */
void ncu_plan_make(const struct analysis *a, size_t top, const char *stage, struct ncu_plans *out);
void ncu_plan_free(struct ncu_plans *p);

#endif
