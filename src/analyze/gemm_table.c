/* The table of matrix products: sizes from GEMM records (as passed to the library) if the trace has them,
 * else from the shapes of operators. A product with a record is not counted again for its operator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/operator_shapes.h"
#include "analyze/range_tree.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* Maximum relative difference between the FLOPs of a range and the FLOPs of its sizes. A range with a larger
 * difference is not listed. */
#define FLOPS_TOLERANCE 0.01

struct product_shape {
    struct operator_gemm sizes; /* m 0: no product */
    const char *types;          /* NULL: not recorded */
};

struct gemm_builder {
    struct context *c;
    struct intern *row_ids, *shape_ids;
    struct {
        struct analysis_gemm *v;
        size_t n, cap;
    } rows;
    struct {
        struct product_shape *v;
        size_t n, cap;
    } shapes;
    uint32_t *range_shape;    /* [ranges.n]: index into shapes; TIMELINE_NONE: no product */
    uint32_t *longest_kernel; /* [ranges.n]: longest kernel of a product; TIMELINE_NONE: no kernel */
    uint32_t *product;        /* [ranges.n]: innermost product that contains the range; TIMELINE_NONE: none */
    uint8_t *recorded;        /* [ranges.n]: 1 if a kernel of the product has a GEMM record */
};

/* Returns the row with the sizes, types, algorithm, source and stage of `like`. The sums of a new row are
 * 0. */
static struct analysis_gemm *find_row(struct gemm_builder *b, const struct analysis_gemm *like) {
    struct {
        uint64_t m, n, k, batch;
        const char *types, *algorithm, *source; /* equal texts have equal addresses */
        uint64_t stage;
    } key = {
        like->m, like->n, like->k, like->batch, like->types, like->algorithm, like->source, like->stage
    };
    uint32_t id = intern_id(b->row_ids, (const char *)&key, sizeof key);
    if (id == b->rows.n) vec_push(&b->rows, *like);
    return &b->rows.v[id];
}

struct product_call {
    double ns, owned_ns, flops, compute_ns;
};

static void add_call(struct gemm_builder *b, const struct analysis_gemm *like, struct product_call call) {
    struct analysis_gemm *row = find_row(b, like);
    row->calls++;
    row->total_ns += call.ns;
    row->owned_ns += call.owned_ns;
    row->flops += call.flops;
    row->compute_ns += call.compute_ns;
}

/* Returns the part of the durations of a kernel class that it owns. */
static double owned_share(const struct context *c, uint32_t shape) {
    const struct analysis_kernel *k = &c->a->kernels[c->a->shape_kernel[shape]];
    return k->total_ns > 0 ? k->owned_ns / k->total_ns : 1;
}

static const char *kernel_short_name(const struct context *c, uint32_t kernel) {
    if (kernel == TIMELINE_NONE) return NULL;
    return c->a->kernels[c->a->shape_kernel[c->tl->kernels.shape[kernel]]].short_name;
}

static uint32_t stage_of(const struct analysis *a, uint32_t occurrence) {
    return occurrence == ANALYSIS_NONE ? ANALYSIS_NONE : a->occurrences[occurrence].stage;
}

static const char *text_or_null(const struct timeline *tl, uint32_t text) {
    return text ? timeline_text(tl, text) : NULL;
}

/* Returns the index of the range's product in b->shapes; TIMELINE_NONE if the range is not a product, its
 * FLOPs are unknown, or they do not agree with its sizes. */
static uint32_t shape_of_range(struct gemm_builder *b, size_t i) {
    const struct timeline_ranges *r = &b->c->tl->ranges;
    if (!r->detail[i] || !isfinite(b->c->range_flops[i])) return TIMELINE_NONE;
    uint32_t key[2] = { r->name[i], r->detail[i] };
    uint32_t id = intern_id(b->shape_ids, (const char *)key, sizeof key);
    if (id == b->shapes.n) {
        struct product_shape s = { .types = NULL };
        if (!operator_shapes_gemm(timeline_text(b->c->tl, key[0]), timeline_text(b->c->tl, key[1]), &s.sizes))
            s.sizes = (struct operator_gemm){ 0 };
        if (*s.sizes.types) s.types = analysis_text(b->c, "%s", s.sizes.types);
        vec_push(&b->shapes, s);
    }
    const struct operator_gemm *g = &b->shapes.v[id].sizes;
    double flops = 2 * g->m * g->n * g->k * g->batch;
    if (!(flops > 0) || fabs(b->c->range_flops[i] / flops - 1) > FLOPS_TOLERANCE) return TIMELINE_NONE;
    return id;
}

static bool is_product(const void *range_shape, size_t range) {
    return ((const uint32_t *)range_shape)[range] != TIMELINE_NONE;
}

/* Returns the innermost product that launched the kernel; TIMELINE_NONE: none. */
static uint32_t product_of(const struct gemm_builder *b, size_t kernel) {
    uint32_t range = b->c->tl->kernels.range[kernel];
    return range == TIMELINE_NONE ? TIMELINE_NONE : b->product[range];
}

/* Finds the longest kernel of each product. */
static void assign_kernels(struct gemm_builder *b) {
    const struct timeline *tl = b->c->tl;
    b->product = range_tree_nearest(&tl->ranges, is_product, b->range_shape);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t at = product_of(b, i);
        if (at == TIMELINE_NONE) continue;
        uint32_t best = b->longest_kernel[at];
        if (best == TIMELINE_NONE || tl->kernels.end_ns[i] - tl->kernels.start_ns[i] >
                                         tl->kernels.end_ns[best] - tl->kernels.start_ns[best])
            b->longest_kernel[at] = (uint32_t)i;
    }
}

static void add_records(struct gemm_builder *b) {
    const struct timeline *tl = b->c->tl;
    if (!tl->gemms.n || !tl->launches.n) return;
    uint32_t *of = gemm_of_launch(b->c);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t launch = tl->kernels.launch[i];
        if (launch == TIMELINE_NONE || of[launch] == TIMELINE_NONE || tl->launches.kernels[launch] > 1)
            continue;
        const struct trace_gemm *g = &tl->gemms.v[of[launch]];
        const char *algorithm = text_or_null(tl, g->algorithm),
                   *kernel = kernel_short_name(b->c, (uint32_t)i);
        struct analysis_gemm like = { .m = g->m,
                                      .n = g->n,
                                      .k = g->k,
                                      .batch = MAX(g->batch, 1),
                                      .types = text_or_null(tl, g->types),
                                      .algorithm = algorithm ? algorithm : kernel,
                                      .source = "gemm records",
                                      .stage = stage_of(b->c->a, b->c->a->kernel_occurrence[i]) };
        uint32_t shape = tl->kernels.shape[i];
        double ns = (double)(tl->kernels.end_ns[i] - tl->kernels.start_ns[i]);
        add_call(
            b, &like,
            (struct product_call){ ns, ns * owned_share(b->c, shape), gemm_flops(g),
                                   gemm_compute_ns(b->c, g, timeline_text(tl, tl->shapes[shape].name)) });
        uint32_t product = product_of(b, i);
        if (product != TIMELINE_NONE) b->recorded[product] = 1;
    }
    free(of);
}

static void add_operators(struct gemm_builder *b) {
    struct context *c = b->c;
    const struct timeline_ranges *r = &c->tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (b->range_shape[i] == TIMELINE_NONE || b->recorded[i]) continue;
        double ns = c->range_kernel_ns[i], owned_ns = c->range_total_ns[i];
        if (!(ns > 0) && c->a->cpu_only) owned_ns = ns = (double)(r->end_ns[i] - r->start_ns[i]);
        if (!(ns > 0)) continue; /* no kernels in the trace */
        const struct product_shape *s = &b->shapes.v[b->range_shape[i]];
        struct analysis_gemm like = { .m = (uint64_t)s->sizes.m,
                                      .n = (uint64_t)s->sizes.n,
                                      .k = (uint64_t)s->sizes.k,
                                      .batch = (uint64_t)s->sizes.batch,
                                      .types = s->types,
                                      .algorithm = kernel_short_name(c, b->longest_kernel[i]),
                                      .source = c->range_counted[i] ? "operator shapes" : "engine",
                                      .stage = stage_of(c->a, c->a->range_occurrence[i]) };
        add_call(b, &like, (struct product_call){ ns, owned_ns, c->range_flops[i], c->range_compute_ns[i] });
    }
}

static int by_time(const void *a, const void *b) {
    const struct analysis_gemm *x = a, *y = b;
    if (x->total_ns != y->total_ns) return x->total_ns < y->total_ns ? 1 : -1;
    if (x->m != y->m) return x->m < y->m ? 1 : -1;
    return x->n < y->n ? 1 : x->n > y->n ? -1 : 0;
}

void analyze_gemm_table(struct context *c) {
    size_t n = c->tl->ranges.n;
    struct gemm_builder b = { .c = c, .row_ids = intern_open(), .shape_ids = intern_open() };
    b.range_shape = xmalloc((n + 1) * sizeof *b.range_shape);
    b.longest_kernel = xmalloc((n + 1) * sizeof *b.longest_kernel);
    b.recorded = xcalloc(n + 1, 1);
    memset(b.longest_kernel, 0xff, (n + 1) * sizeof *b.longest_kernel);
    for (size_t i = 0; i < n; i++) b.range_shape[i] = shape_of_range(&b, i);
    assign_kernels(&b);
    add_records(&b);
    add_operators(&b);
    if (b.rows.n) qsort(b.rows.v, b.rows.n, sizeof *b.rows.v, by_time);
    c->a->gemms = analysis_keep(c, b.rows.v);
    c->a->ngemms = b.rows.n;
    free(b.range_shape);
    free(b.product);
    free(b.longest_kernel);
    free(b.recorded);
    free(b.shapes.v);
    intern_close(b.row_ids);
    intern_close(b.shape_ids);
}
