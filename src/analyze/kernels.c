/* Kernel classes: one row per shape (name, geometry, registers, shared memory, device). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

/* Sets names, library and category of a row; `by_name` caches them. */
static void name_row(struct context *c, struct analysis_kernel *row, uint32_t name,
                     struct analysis_kernel *by_name) {
    if (!by_name->name) {
        struct kernel_name kn;
        kernel_name_parse(&kn, timeline_text(c->tl, name));
        by_name->name = analysis_text(c, "%s", kn.demangled);
        by_name->short_name = analysis_text(c, "%s", kn.short_name);
        by_name->library = kn.library;
        by_name->category = kn.category;
        kernel_name_free(&kn);
    }
    row->name = by_name->name;
    row->short_name = by_name->short_name;
    row->library = by_name->library;
    row->category = by_name->category;
}

static uint64_t blocks_of(const struct timeline_shape *s) {
    double blocks = (double)s->grid[0] * s->grid[1] * s->grid[2];
    return blocks < 1e18 ? (uint64_t)s->grid[0] * s->grid[1] * s->grid[2] : 0;
}

static void set_geometry(const struct context *c, struct analysis_kernel *row) {
    const struct timeline_shape *s = &c->tl->shapes[row->shape];
    const struct timeline_device *d = &c->tl->devices[s->device];
    uint32_t blocks_per_sm;
    row->blocks = blocks_of(s);
    row->occupancy = occupancy_theoretical(c->tl, s, &row->limiter, &blocks_per_sm);
    row->waves =
        row->blocks && blocks_per_sm && d->sms ? (double)row->blocks / ((double)blocks_per_sm * d->sms) : NAN;
}

static void mark_whole_graphs(struct context *c) {
    const struct timeline_kernels *k = &c->tl->kernels;
    for (size_t i = 0; k->graph && i < k->n; i++) {
        if (!k->graph[i] || (k->graph_node && k->graph_node[i]) || c->tl->shapes[k->shape[i]].grid[0])
            continue;
        c->a->kernels[k->shape[i]].whole_graph = true; /* rows are still in the order of shapes */
        c->a->kernels[k->shape[i]].category = KERNEL_CATEGORY_GRAPH;
        c->shape_category[k->shape[i]] = KERNEL_CATEGORY_GRAPH;
    }
}

void analyze_kernel_names(struct context *c) {
    const struct timeline *tl = c->tl;
    uint32_t names = 0;
    for (size_t i = 0; i < tl->nshapes; i++) names = MAX(names, tl->shapes[i].name + 1);
    struct analysis_kernel *by_name = xcalloc((size_t)names + 1, sizeof *by_name);
    struct analysis_kernel *rows = analysis_alloc(c, tl->nshapes, sizeof *rows);
    c->shape_category = xcalloc(tl->nshapes + 1, 1);
    c->shape_owned_ns = xcalloc(tl->nshapes + 1, sizeof *c->shape_owned_ns);
    c->shape_alone_ns = xcalloc(tl->nshapes + 1, sizeof *c->shape_alone_ns);
    for (size_t i = 0; i < tl->nshapes; i++) {
        rows[i] = (struct analysis_kernel){ .shape = (uint32_t)i, .stage = ANALYSIS_NONE };
        FIGURES_UNKNOWN(&rows[i], flops);
        name_row(c, &rows[i], tl->shapes[i].name, &by_name[tl->shapes[i].name]);
        const struct timeline_device *d = &tl->devices[tl->shapes[i].device];
        bool native = d->is_cpu || (d->joined && rows[i].library != KERNEL_LIBRARY_CUBLAS);
        if (native) rows[i].library = KERNEL_LIBRARY_NATIVE;
        set_geometry(c, &rows[i]);
        c->shape_category[i] = (uint8_t)rows[i].category;
    }
    free(by_name);
    c->a->kernels = rows;
    c->a->nkernels = tl->nshapes;
    mark_whole_graphs(c);
}

/* ---- after the walk */

static int ascending_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_u64(const uint64_t *sorted, size_t n, double p) {
    double at = p * (double)(n - 1);
    size_t below = (size_t)at, above = MIN(below + 1, n - 1);
    return (double)sorted[below] + (at - (double)below) * ((double)sorted[above] - (double)sorted[below]);
}

static void distribution(struct analysis_kernel *row, uint64_t *ns, size_t n) {
    row->calls = n;
    row->mean_ns = row->min_ns = row->p50_ns = row->p99_ns = row->max_ns = NAN;
    if (!n) return;
    qsort(ns, n, sizeof *ns, ascending_u64);
    for (size_t i = 0; i < n; i++) row->total_ns += (double)ns[i];
    row->mean_ns = row->total_ns / (double)n;
    row->min_ns = (double)ns[0];
    row->max_ns = (double)ns[n - 1];
    row->p50_ns = percentile_u64(ns, n, 0.5);
    if (n >= STATS_P99_LEAST) row->p99_ns = percentile_u64(ns, n, 0.99);
}

/* Groups durations by class (counting sort), then sorts within each class. */
static void distributions(struct context *c, struct analysis_kernel *rows) {
    const struct timeline_kernels *k = &c->tl->kernels;
    size_t *first = xcalloc(c->tl->nshapes + 2, sizeof *first);
    uint64_t *ns = xmalloc((k->n + 1) * sizeof *ns);
    for (size_t i = 0; i < k->n; i++) first[k->shape[i] + 2]++;
    for (size_t s = 2; s < c->tl->nshapes + 2; s++) first[s] += first[s - 1];
    for (size_t i = 0; i < k->n; i++) ns[first[k->shape[i] + 1]++] = k->end_ns[i] - k->start_ns[i];
    for (size_t s = 0; s < c->tl->nshapes; s++)
        distribution(&rows[s], ns + first[s], first[s + 1] - first[s]);
    free(ns);
    free(first);
}

static uint32_t main_stage(const struct context *c, size_t shape) {
    uint32_t best = ANALYSIS_NONE;
    for (uint32_t s = 0; c->shape_stage_ns && s < c->a->nstages; s++) {
        const double *ns = &c->shape_stage_ns[shape * c->a->nstages];
        if (s != c->outside && ns[s] > 0 && (best == ANALYSIS_NONE || ns[s] > ns[best])) best = s;
    }
    return best;
}

static int by_owned(const void *a, const void *b) {
    const struct analysis_kernel *x = a, *y = b;
    if (x->owned_ns != y->owned_ns) return x->owned_ns < y->owned_ns ? 1 : -1;
    return (x->shape > y->shape) - (x->shape < y->shape);
}

static int group_by_owned(const void *a, const void *b) {
    const struct analysis_group *x = a, *y = b;
    if (x->owned_ns != y->owned_ns) return x->owned_ns < y->owned_ns ? 1 : -1;
    return x->id - y->id;
}

/* Sums the rows of each category (or library); groups without rows are omitted. */
static struct analysis_group *group(struct context *c, size_t count, bool by_library, size_t *n) {
    struct analysis_group *all = analysis_alloc(c, count, sizeof *all);
    for (size_t i = 0; i < c->a->nkernels; i++) {
        const struct analysis_kernel *k = &c->a->kernels[i];
        struct analysis_group *g = &all[by_library ? (int)k->library : (int)k->category];
        g->calls += k->calls;
        g->owned_ns += k->owned_ns;
        g->share += k->share;
        g->classes++;
    }
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!all[i].classes) continue;
        all[i].id = (int)i;
        all[i].name = by_library ? kernel_library_name((enum kernel_library)i)
                                 : kernel_category_name((enum kernel_category)i);
        all[(*n)++] = all[i];
    }
    qsort(all, *n, sizeof *all, group_by_owned);
    return all;
}

void analyze_kernels_finish(struct context *c) {
    struct analysis *a = c->a;
    double busy = 0;
    for (size_t i = 0; i < a->ndevices; i++) busy += a->devices[i].busy_ns;
    distributions(c, a->kernels);
    for (size_t i = 0; i < a->nkernels; i++) {
        struct analysis_kernel *row = &a->kernels[i];
        row->owned_ns = c->shape_owned_ns[i];
        row->share = busy > 0 ? row->owned_ns / busy : 0;
        row->stage = main_stage(c, i);
    }
    if (a->nkernels) qsort(a->kernels, a->nkernels, sizeof *a->kernels, by_owned);
    uint32_t *row_of = analysis_alloc(c, c->tl->nshapes, sizeof *row_of);
    for (size_t i = 0; i < a->nkernels; i++) row_of[a->kernels[i].shape] = (uint32_t)i;
    a->shape_kernel = row_of;
    a->categories = group(c, KERNEL_CATEGORY_END, false, &a->ncategories);
    a->libraries = group(c, KERNEL_LIBRARY_END, true, &a->nlibraries);
}
