/* Cuts a finished timeline to a window, in place: drops rows, then recomputes counts and nesting. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "timeline/build.h"

struct window {
    uint64_t from_ns, to_ns;
};

/* Returns the indices of the rows to keep, in order, and sets the number of rows to their count. The caller
 * frees the result. */
static uint32_t *rows_to_keep(const struct columns *c, struct window w, bool by_overlap) {
    const uint64_t *start_ns = *c->list[0].data, *end_ns = *c->list[1].data;
    uint32_t *kept = xmalloc((*c->n + 1) * sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; i < *c->n; i++) {
        bool inside = by_overlap ? end_ns[i] > w.from_ns : start_ns[i] >= w.from_ns;
        if (inside && start_ns[i] < w.to_ns) kept[n++] = (uint32_t)i;
    }
    *c->n = n;
    return kept;
}

/* Keeps the records that start in the window or, if by_overlap is set, that overlap it. */
static void cut_kind(struct timeline_builder *b, enum trace_kind kind, struct window w, bool by_overlap) {
    struct columns c = build_columns(b, kind);
    uint32_t *kept = rows_to_keep(&c, w, by_overlap);
    columns_permute(&c, kept);
    free(kept);
}

/* Drops kernels that do not start in the window. Counts them, because the analysis reports them. */
static void cut_kernels(struct timeline_builder *b, struct window w) {
    struct kernel_columns *k = &b->kernels;
    uint32_t *now = xmalloc((k->n + 1) * sizeof *now), kept = 0;
    for (size_t i = 0; i < k->n; i++) {
        bool inside = k->start_ns[i] >= w.from_ns && k->start_ns[i] < w.to_ns;
        now[i] = inside ? kept++ : TIMELINE_NONE;
        if (inside) continue;
        b->tl.cut_kernels++;
        b->tl.cut_ns += (double)(k->end_ns[i] - k->start_ns[i]);
    }
    cut_kind(b, TRACE_KERNEL, w, false);
    build_renumber(b, "kernel", now);
    free(now);
}

/* Clears the ranges; build_nest() will set them again. */
static void forget_ranges(uint32_t *range, size_t n) {
    for (size_t i = 0; i < n; i++) range[i] = TIMELINE_NONE;
}

/* Drops launches that do not start in the window. Work of a dropped launch has no launch afterwards. Clears
 * the ranges of device work, and counts the kernels of each launch again. */
static void cut_launches(struct timeline_builder *b, struct window w) {
    struct launch_columns *l = &b->launches;
    struct columns c = build_columns(b, TRACE_LAUNCH);
    uint32_t *now = xmalloc((l->n + 1) * sizeof *now);
    memset(now, 0xff, (l->n + 1) * sizeof *now); /* TIMELINE_NONE */
    uint32_t *kept = rows_to_keep(&c, w, false);
    for (size_t i = 0; i < l->n; i++) now[kept[i]] = (uint32_t)i;
    columns_permute(&c, kept);
    build_renumber(b, "launch", now);
    forget_ranges(b->kernels.range, b->kernels.n);
    forget_ranges(b->copies.range, b->copies.n);
    forget_ranges(b->collectives.range, b->collectives.n);
    for (size_t i = 0; i < l->n; i++) l->kernels[i] = 0;
    for (size_t i = 0; i < b->kernels.n; i++)
        if (b->kernels.launch[i] != TIMELINE_NONE) l->kernels[b->kernels.launch[i]]++;
    free(kept);
    free(now);
}

/* Drops shapes without kernels. The remaining shapes keep their order. */
static void drop_unused_shapes(struct timeline_builder *b) {
    uint32_t *now = xcalloc(b->shapes.n + 1, sizeof *now); /* 1 for used shapes, later their new index */
    size_t n = 0;
    for (size_t i = 0; i < b->kernels.n; i++) now[b->kernels.shape[i]] = 1;
    for (size_t i = 0; i < b->shapes.n; i++) {
        if (!now[i]) continue;
        b->shapes.v[n] = b->shapes.v[i];
        now[i] = (uint32_t)n++;
    }
    build_renumber(b, "shape", now);
    b->shapes.n = n;
    free(now);
}

/* Counts kernels per process again. Launch counts remain those of the whole file, because they determine how
 * its kernels are matched to ranges. */
static void count_kernels_again(struct timeline_builder *b) {
    b->tl.unmatched_kernels = 0;
    for (size_t i = 0; i < b->processes.n; i++)
        b->processes.v[i].kernels = b->processes.v[i].unmatched_kernels = 0;
    for (size_t i = 0; i < b->kernels.n; i++) {
        struct timeline_process *p = &b->processes.v[b->lanes.v[b->kernels.lane[i]].process];
        bool unmatched = p->has_launches && b->kernels.launch[i] == TIMELINE_NONE;
        p->kernels++;
        p->unmatched_kernels += unmatched;
        b->tl.unmatched_kernels += unmatched;
    }
}

void timeline_cut(struct timeline *tl, uint64_t from_ns, uint64_t to_ns) {
    struct timeline_builder *b = tl->owner;
    struct window w = { from_ns, to_ns };
    b->tl.cut_from_ns = from_ns;
    b->tl.cut_to_ns = to_ns;
    cut_kind(b, TRACE_RANGE, w, true);
    cut_kind(b, TRACE_SYNC, w, false);
    cut_kind(b, TRACE_GEMM, w, false);
    cut_kind(b, TRACE_COPY, w, false);
    cut_kind(b, TRACE_COLLECTIVE, w, false);
    cut_kernels(b, w);
    cut_launches(b, w);
    drop_unused_shapes(b);
    count_kernels_again(b);
    build_slice_devices(b);
    build_label_devices(b);
    build_nest(b);
    build_publish(b);
}
