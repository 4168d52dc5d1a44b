/* Finds the softmax kernels of attention that runs in separate kernels: product, softmax, product, on one
 * stream and in one step, with only element-wise kernels and copies on the device between them (scale,
 * mask, casts, dropout). The softmax of a classifier or of sampling follows a linear layer, and no product
 * uses its result: the next one comes after a copy to or from the host, an embedding, a convolution or a
 * norm. A log-softmax is a part of a loss or of log-probabilities. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/stage_rules.h"
#include "analyze/work_walk.h"
#include "base/die.h"
#include "base/vec.h"

#define RANGES_AROUND 4 /* a product is at most this deep inside the call of its linear layer */

/* Softmax kernels since the last product of a stream. */
struct after_product {
    struct {
        size_t *v;
        size_t n, cap;
    } softmax;
    uint32_t occurrence; /* of the product */
    bool open;           /* a product can be the first one of attention */
};

/* Some of ATen's differ from softmax only in their template arguments: <..., is_log_softmax, is_masked>. */
static bool is_log_softmax(const char *name) {
    return strstr(name, "LogSoftMax") || strstr(name, "log_softmax") ||
           (stage_rules_glob("*softmax_warp_*, true*", name) &&
            !stage_rules_glob("*softmax_warp_*, false, true*", name));
}

/* Returns true if PyTorch launched the product for a linear layer. Scores of attention are products of two
 * activations. */
static bool is_linear(const struct timeline *tl, size_t kernel) {
    uint32_t range = tl->kernels.range[kernel];
    for (int i = 0; i < RANGES_AROUND && range != TIMELINE_NONE; i++, range = tl->ranges.parent[range]) {
        const char *name = timeline_text(tl, tl->ranges.name[range]);
        if (strcmp(name, "aten::linear") == 0 || strcmp(name, "aten::addmm") == 0) return true;
    }
    return false;
}

static void start_over(struct after_product *p, uint32_t occurrence, bool open) {
    p->softmax.n = 0;
    p->occurrence = occurrence;
    p->open = open;
}

static void add_softmax(const struct context *c, struct after_product *p, size_t kernel) {
    const char *name = timeline_text(c->tl, c->tl->shapes[c->tl->kernels.shape[kernel]].name);
    if (!is_log_softmax(name)) vec_push(&p->softmax, kernel);
}

static void add_kernel(struct context *c, struct after_product *p, size_t kernel) {
    uint32_t occurrence = c->kernel_occurrence[kernel];
    if (p->occurrence != occurrence) start_over(p, occurrence, false);
    switch (c->shape_category[c->tl->kernels.shape[kernel]]) {
    case KERNEL_CATEGORY_GEMM:
    case KERNEL_CATEGORY_GEMV:
        for (size_t i = 0; i < p->softmax.n; i++) c->attends[p->softmax.v[i]] = true;
        start_over(p, occurrence, !is_linear(c->tl, kernel));
        return;
    case KERNEL_CATEGORY_SOFTMAX:
        if (p->open) add_softmax(c, p, kernel);
        return;
    case KERNEL_CATEGORY_ELEMENTWISE:
    case KERNEL_CATEGORY_COPY:
    case KERNEL_CATEGORY_QUANT:
    case KERNEL_CATEGORY_OTHER: return;
    default: start_over(p, occurrence, false);
    }
}

void analyze_attention_softmax(struct context *c) {
    const struct timeline *tl = c->tl;
    struct after_product *lanes = xcalloc(tl->nlanes + 1, sizeof *lanes);
    c->attends = xcalloc(tl->kernels.n + 1, sizeof *c->attends);
    for (size_t d = 0; d < tl->ndevices; d++) {
        struct work_walk walk = work_walk_device(tl, d);
        for (struct work k; work_walk_next(&walk, &k);) {
            struct after_product *p = &lanes[k.lane];
            uint8_t kind = k.is_kernel ? TRACE_COPY_UNKNOWN : tl->copies.kind[k.index];
            if (k.is_kernel)
                add_kernel(c, p, k.index);
            else if (kind == TRACE_COPY_HTOD || kind == TRACE_COPY_DTOH)
                start_over(p, p->occurrence, false);
        }
    }
    for (size_t i = 0; i < tl->nlanes; i++) free(lanes[i].softmax.v);
    free(lanes);
}
