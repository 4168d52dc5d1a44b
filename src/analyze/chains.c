/* Chains of element-wise and copy kernels that follow one another on a stream, in the same occurrence. A
 * fused chain takes about as long as its longest kernel, because the data is read and written once. The other
 * kernels' time is the possible saving. */
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

struct chain {
    double sum_ns, longest_ns;
    uint64_t kernels;
    uint32_t occurrence;
};

static bool fusible(uint8_t category) {
    return category == KERNEL_CATEGORY_ELEMENTWISE || category == KERNEL_CATEGORY_COPY;
}

static void end_chain(struct context *c, struct chain *ch) {
    if (ch->kernels > 1) {
        uint32_t row = ch->occurrence == ANALYSIS_NONE ? c->outside : c->a->occurrences[ch->occurrence].stage;
        for (; row != ANALYSIS_NONE; row = c->a->stages[row].parent) {
            c->stage_chain_ns[row] += ch->sum_ns - ch->longest_ns;
            c->stage_chain_kernels[row] += ch->kernels;
        }
    }
    *ch = (struct chain){ .occurrence = ANALYSIS_NONE };
}

void analyze_chains(struct context *c) {
    const struct timeline_kernels *k = &c->tl->kernels;
    struct chain *chains = xcalloc(c->tl->nlanes + 1, sizeof *chains);
    c->stage_chain_ns = xcalloc(c->a->nstages, sizeof *c->stage_chain_ns);
    c->stage_chain_kernels = xcalloc(c->a->nstages, sizeof *c->stage_chain_kernels);
    for (size_t i = 0; i < k->n; i++) {
        struct chain *ch = &chains[k->lane[i]];
        bool fits = fusible(c->shape_category[k->shape[i]]);
        if (ch->kernels && (!fits || ch->occurrence != c->kernel_occurrence[i])) end_chain(c, ch);
        if (!fits) continue;
        double ns = (double)(k->end_ns[i] - k->start_ns[i]);
        ch->sum_ns += ns;
        ch->longest_ns = MAX(ch->longest_ns, ns);
        ch->kernels++;
        ch->occurrence = c->kernel_occurrence[i];
    }
    for (size_t i = 0; i < c->tl->nlanes; i++) end_chain(c, &chains[i]);
    free(chains);
}
