/* Cutting a finished timeline to a window, in place: rows are dropped and what depends on them is counted
 * and nested again. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "timeline/build.h"

struct window {
    uint64_t from_ns, to_ns;
};

/* Rows that begin in the window; with end_ns, rows that reach into it. Returns how many, in `kept`. */
static size_t select_rows(struct window w, const uint64_t *start_ns, const uint64_t *end_ns, size_t n,
                          uint32_t *kept) {
    size_t nkept = 0;
    for (size_t i = 0; i < n; i++) {
        bool inside = end_ns ? end_ns[i] > w.from_ns : start_ns[i] >= w.from_ns;
        if (inside && start_ns[i] < w.to_ns) kept[nkept++] = (uint32_t)i;
    }
    return nkept;
}

/* The rows to keep of `n`, in order; the caller frees. Sets *n to their number. */
static uint32_t *rows_to_keep(struct window w, const uint64_t *start_ns, const uint64_t *end_ns, size_t *n) {
    uint32_t *kept = xmalloc((*n + 1) * sizeof *kept);
    *n = select_rows(w, start_ns, end_ns, *n, kept);
    return kept;
}

static void cut_ranges(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    uint32_t *kept = rows_to_keep(w, b->ranges.start_ns, b->ranges.end_ns, &b->ranges.n);
    columns_permute(list, range_columns_list(&b->ranges, list), kept, b->ranges.n);
    free(kept);
}

static void cut_syncs(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    uint32_t *kept = rows_to_keep(w, b->syncs.start_ns, NULL, &b->syncs.n);
    columns_permute(list, sync_columns_list(&b->syncs, list), kept, b->syncs.n);
    free(kept);
}

static void cut_gemms(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    uint64_t *start_ns = xmalloc((b->gemms.n + 1) * sizeof *start_ns);
    for (size_t i = 0; i < b->gemms.n; i++) start_ns[i] = b->gemms.v[i].start_ns;
    uint32_t *kept = rows_to_keep(w, start_ns, NULL, &b->gemms.n);
    columns_permute(list, gemm_columns_list(&b->gemms, list), kept, b->gemms.n);
    free(kept);
    free(start_ns);
}

static void cut_copies(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    uint32_t *kept = rows_to_keep(w, b->copies.start_ns, NULL, &b->copies.n);
    columns_permute(list, copy_columns_list(&b->copies, list), kept, b->copies.n);
    free(kept);
}

/* Counts what is cut: the analysis reports it. */
static void cut_kernels(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    struct kernel_columns *k = &b->kernels;
    for (size_t i = 0; i < k->n; i++) {
        if (k->start_ns[i] >= w.from_ns && k->start_ns[i] < w.to_ns) continue;
        b->tl.cut_kernels++;
        b->tl.cut_ns += (double)(k->end_ns[i] - k->start_ns[i]);
    }
    uint32_t *kept = rows_to_keep(w, k->start_ns, NULL, &k->n);
    columns_permute(list, kernel_columns_list(k, list), kept, k->n);
    free(kept);
}

static void renumber_launches(uint32_t *launch, uint32_t *range, size_t n, const uint32_t *now) {
    for (size_t i = 0; i < n; i++) {
        if (launch[i] != TIMELINE_NONE) launch[i] = now[launch[i]];
        if (range) range[i] = TIMELINE_NONE; /* build_nest() finds it again */
    }
}

/* Work whose launch is cut has none. */
static void cut_launches(struct timeline_builder *b, struct window w) {
    struct column list[BUILD_MAX_COLUMNS];
    struct launch_columns *l = &b->launches;
    uint32_t *now = xmalloc((l->n + 1) * sizeof *now);
    memset(now, 0xff, (l->n + 1) * sizeof *now); /* TIMELINE_NONE */
    uint32_t *kept = rows_to_keep(w, l->start_ns, NULL, &l->n);
    for (size_t i = 0; i < l->n; i++) now[kept[i]] = (uint32_t)i;
    columns_permute(list, launch_columns_list(l, list), kept, l->n);
    renumber_launches(b->kernels.launch, b->kernels.range, b->kernels.n, now);
    renumber_launches(b->copies.launch, b->copies.range, b->copies.n, now);
    renumber_launches(b->gemms.launch, NULL, b->gemms.n, now);
    for (size_t i = 0; i < l->n; i++) l->kernels[i] = 0;
    for (size_t i = 0; i < b->kernels.n; i++)
        if (b->kernels.launch[i] != TIMELINE_NONE) l->kernels[b->kernels.launch[i]]++;
    free(kept);
    free(now);
}

/* The others keep their order. */
static void drop_unused_shapes(struct timeline_builder *b) {
    uint32_t *now = xcalloc(b->shapes.n + 1, sizeof *now); /* first: is it used? */
    size_t n = 0;
    for (size_t i = 0; i < b->kernels.n; i++) now[b->kernels.shape[i]] = 1;
    for (size_t i = 0; i < b->shapes.n; i++) {
        if (!now[i]) continue;
        b->shapes.v[n] = b->shapes.v[i];
        now[i] = (uint32_t)n++;
    }
    for (size_t i = 0; i < b->kernels.n; i++) b->kernels.shape[i] = now[b->kernels.shape[i]];
    b->shapes.n = n;
    free(now);
}

/* Launches stay those of the whole file: whether it has any decides how its kernels meet ranges. */
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
    cut_ranges(b, w);
    cut_syncs(b, w);
    cut_gemms(b, w);
    cut_copies(b, w);
    cut_kernels(b, w);
    cut_launches(b, w);
    drop_unused_shapes(b);
    count_kernels_again(b);
    build_slice_devices(b);
    build_nest(b);
    build_lay_out(b);
}
