/* Chains of element-wise and copy kernels that follow one another on a stream, in the same occurrence. A
 * fused chain takes about as long as its longest kernel, because the data is read and written once. The other
 * kernels' time is the possible saving. While n pieces of work run on the device, each counts 1/n of the
 * time: work of other streams would still take it. A copy or a memset on the stream ends a chain. One
 * operation of PyTorch or apex on a list of tensors is one kernel, although it is launched in several
 * parts. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/sharing.h"
#include "analyze/work_walk.h"
#include "base/die.h"
#include "base/util.h"

struct chain {
    double sum_ns, longest_ns;
    double last_ns;     /* the last operation */
    uint32_t last_name; /* text */
    uint64_t kernels, operations;
    uint32_t occurrence;
};

struct chain_walk {
    struct context *c;
    struct chain *chains; /* [nlanes] */
    struct sharing sharing;
};

static bool fusible(uint8_t category) {
    return category == KERNEL_CATEGORY_ELEMENTWISE || category == KERNEL_CATEGORY_COPY;
}

static void end_chain(struct context *c, struct chain *ch) {
    if (ch->operations > 1) {
        uint32_t row = ch->occurrence == ANALYSIS_NONE ? c->outside : c->a->occurrences[ch->occurrence].stage;
        for (; row != ANALYSIS_NONE; row = c->a->stages[row].parent) {
            c->stage_chain_ns[row] += ch->sum_ns - ch->longest_ns;
            c->stage_chain_kernels[row] += ch->kernels;
        }
    }
    *ch = (struct chain){ .occurrence = ANALYSIS_NONE };
}

/* Returns true if the kernel is a further part of the chain's last operation. */
static bool continues(const struct timeline *tl, const struct chain *ch, uint32_t name) {
    return ch->kernels && ch->last_name == name && strstr(timeline_text(tl, name), "multi_tensor_apply");
}

static void add_kernel(struct chain_walk *w, size_t kernel, double owned_ns) {
    struct context *c = w->c;
    const struct timeline_kernels *k = &c->tl->kernels;
    struct chain *ch = &w->chains[k->lane[kernel]];
    bool fits = fusible(c->shape_category[k->shape[kernel]]);
    if (!fits || ch->occurrence != c->kernel_occurrence[kernel]) end_chain(c, ch);
    if (!fits) return;
    uint32_t name = c->tl->shapes[k->shape[kernel]].name;
    bool same = continues(c->tl, ch, name);
    ch->last_ns = same ? ch->last_ns + owned_ns : owned_ns;
    ch->last_name = name;
    ch->sum_ns += owned_ns;
    ch->longest_ns = MAX(ch->longest_ns, ch->last_ns);
    ch->kernels++;
    ch->operations += !same;
    ch->occurrence = c->kernel_occurrence[kernel];
}

static void end_work_until(struct chain_walk *w, uint64_t time_ns) {
    struct running r;
    struct shares owned;
    while (sharing_end(&w->sharing, time_ns, &r, &owned))
        if (r.is_kernel)
            add_kernel(w, r.id, owned.ns);
        else
            end_chain(w->c, &w->chains[w->c->tl->copies.lane[r.id]]);
}

static void walk_device(struct chain_walk *w, size_t device) {
    struct work_walk walk = work_walk_device(w->c->tl, device);
    for (struct work k; work_walk_next(&walk, &k);) {
        end_work_until(w, k.start_ns);
        sharing_start(
            &w->sharing, k.start_ns,
            (struct running){ .end_ns = k.end_ns, .id = (uint32_t)k.index, .is_kernel = k.is_kernel });
    }
    end_work_until(w, UINT64_MAX);
}

void analyze_chains(struct context *c) {
    struct chain_walk w = { .c = c, .chains = xcalloc(c->tl->nlanes + 1, sizeof(struct chain)) };
    c->stage_chain_ns = xcalloc(c->a->nstages, sizeof *c->stage_chain_ns);
    c->stage_chain_kernels = xcalloc(c->a->nstages, sizeof *c->stage_chain_kernels);
    for (size_t d = 0; d < c->tl->ndevices; d++) walk_device(&w, d);
    for (size_t i = 0; i < c->tl->nlanes; i++) end_chain(c, &w.chains[i]);
    sharing_free(&w.sharing);
    free(w.chains);
}
