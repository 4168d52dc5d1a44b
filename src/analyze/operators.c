/* Operators: ranges of the program that are not stages, by name, and by name and shapes. A kernel belongs to
 * the innermost range that is open at its launch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/range_tree.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* Smallest share of a row's time in calls with known FLOPs or bytes for which the row has rates. */
#define LEAST_WORK 0.9

static bool is_stage_range(const struct context *c, size_t range) {
    uint32_t o = c->range_occurrence[range];
    if (c->dropped_range && c->dropped_range[range]) return true;
    return o != ANALYSIS_NONE && c->a->occurrences[o].range == range;
}

/* The name is empty if the recorder had no memory left for it. */
static const char *shown_name(const char *name) { return *name ? name : "(name lost)"; }

/* Rows by (name, category) or (name, category, detail). */
struct row_set {
    struct intern *ids;
    struct {
        struct analysis_operator *v;
        size_t n, cap;
    } rows;
    uint32_t *of_range; /* [ranges.n] */
    bool by_detail;
};

static struct analysis_operator new_row(const char *name, const char *detail,
                                        enum trace_range_category category) {
    struct analysis_operator o = {
        .name = name, .detail = detail, .category = category, .stage = ANALYSIS_NONE
    };
    FIGURES_UNKNOWN(&o, flops);
    return o;
}

static uint32_t row_of(struct context *c, struct row_set *set, size_t range) {
    const struct timeline_ranges *r = &c->tl->ranges;
    uint32_t key[3] = { r->name[range], r->category[range], set->by_detail ? r->detail[range] : 0 };
    uint32_t id = intern_id(set->ids, (const char *)key, sizeof key);
    if (id == set->rows.n)
        vec_push(&set->rows, new_row(shown_name(timeline_text(c->tl, key[0])),
                                     key[2] ? timeline_text(c->tl, key[2]) : NULL, key[1]));
    return id;
}

static void find_rows(struct context *c, struct row_set *set) {
    const struct timeline_ranges *r = &c->tl->ranges;
    set->ids = intern_open();
    set->of_range = xmalloc((r->n + 1) * sizeof *set->of_range);
    for (size_t i = 0; i < r->n; i++) {
        bool counts = !(r->flags[i] & TRACE_RANGE_MARK) && !is_stage_range(c, i) &&
                      (!set->by_detail || r->detail[i]) &&
                      !analysis_is_recorders(timeline_text(c->tl, r->domain[i]));
        set->of_range[i] = counts ? row_of(c, set, i) : ANALYSIS_NONE;
    }
}

static void add_known(double *sum, double value) {
    if (!isnan(value)) *sum = isnan(*sum) ? value : *sum + value;
}

/* Adds the FLOPs and bytes of range i, which took `ns`. */
static void add_work(const struct context *c, struct analysis_operator *o, size_t i, double ns) {
    if (isnan(c->range_flops[i]) && isnan(c->range_bytes[i])) return;
    add_known(&o->flops, c->range_flops[i]);
    add_known(&o->bytes, c->range_bytes[i]);
    add_known(&o->compute_ns, c->range_compute_ns[i]);
    o->work_ns += ns;
    o->work_source = c->range_counted[i] ? "operator shapes" : "engine";
}

/* If the FLOPs and bytes of too few calls are known, their rates would be read as those of the row. */
static void drop_partial_work(struct analysis_operator *o, double all_calls_ns) {
    if (!o->work_source || o->work_ns >= LEAST_WORK * all_calls_ns) return;
    FIGURES_UNKNOWN(o, flops);
    o->work_ns = 0;
    o->work_source = NULL;
}

static void sum_rows(struct context *c, struct row_set *set, const uint64_t *inside_ns) {
    const struct timeline_ranges *r = &c->tl->ranges;
    struct range_rows rows = range_rows_open(r, set->of_range, set->rows.n);
    uint64_t *open_ns = range_rows_open_ns(&rows);
    double *gpu_ns = range_rows_work(&rows, c->range_owned),
           *kernel_ns = range_rows_work(&rows, c->range_durations);
    for (size_t i = 0; i < r->n; i++) {
        if (set->of_range[i] == ANALYSIS_NONE) continue;
        struct analysis_operator *o = &set->rows.v[set->of_range[i]];
        double ns = (double)(r->end_ns[i] - r->start_ns[i]);
        o->calls++;
        o->mean_ns += ns; /* the sum; divided below */
        o->self_ns += ns - (double)inside_ns[i];
        o->gpu_self_ns += c->range_gpu_ns[i];
        add_work(c, o, i, c->range_kernel_ns[i] > 0 ? c->range_kernel_ns[i] : ns);
    }
    for (size_t i = 0; i < set->rows.n; i++) {
        struct analysis_operator *o = &set->rows.v[i];
        o->mean_ns /= (double)o->calls;
        /* not less than the self time, which is the sum of calls that can cross within one call */
        o->total_ns = fmax((double)open_ns[i], o->self_ns);
        o->gpu_ns = fmax(gpu_ns[i], o->gpu_self_ns); /* the same sum in another order: rounding */
        drop_partial_work(o, kernel_ns[i] > 0 ? kernel_ns[i] : o->total_ns);
    }
    range_rows_close(&rows);
    free(open_ns);
    free(gpu_ns);
    free(kernel_ns);
}

/* Counts kernels per row. Returns the number of kernels outside of operators. */
static uint64_t count_kernels(struct context *c, struct row_set *set) {
    const struct timeline_kernels *k = &c->tl->kernels;
    uint64_t outside = 0;
    for (size_t i = 0; i < k->n; i++) {
        uint32_t row = k->range[i] == TIMELINE_NONE ? ANALYSIS_NONE : set->of_range[k->range[i]];
        if (row == ANALYSIS_NONE)
            outside++;
        else
            set->rows.v[row].kernels++;
    }
    return outside;
}

/* Finds the stage with most of the time of each row: GPU time if there is any, else host time. The stages
 * stay unknown if the table of rows and stages would be too large. */
static void main_stages(struct context *c, struct row_set *set) {
    size_t nstages = c->a->nstages;
    if (!set->rows.n || nstages > ((size_t)16 << 20) / set->rows.n) return;
    double *ns = xcalloc(set->rows.n * nstages, sizeof *ns);
    for (size_t i = 0; i < c->tl->ranges.n; i++) {
        uint32_t row = set->of_range[i], o = c->range_occurrence[i];
        if (row == ANALYSIS_NONE || o == ANALYSIS_NONE) continue;
        bool on_gpu = set->rows.v[row].gpu_self_ns > 0;
        ns[row * nstages + c->a->occurrences[o].stage] +=
            on_gpu ? c->range_gpu_ns[i] : (double)(c->tl->ranges.end_ns[i] - c->tl->ranges.start_ns[i]);
    }
    for (size_t i = 0; i < set->rows.n; i++)
        for (uint32_t s = 0; s < nstages; s++) {
            uint32_t best = set->rows.v[i].stage;
            if (ns[i * nstages + s] > (best == ANALYSIS_NONE ? 0 : ns[i * nstages + best]))
                set->rows.v[i].stage = s;
        }
    free(ns);
}

static int by_time(const void *a, const void *b) {
    const struct analysis_operator *x = a, *y = b;
    if (x->gpu_self_ns != y->gpu_self_ns) return x->gpu_self_ns < y->gpu_self_ns ? 1 : -1;
    if (x->self_ns != y->self_ns) return x->self_ns < y->self_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Sets c.range_total_ns and c.range_kernel_ns: the GPU time and the durations of the kernels that a range and
 * its children launched while it was open. */
static void sum_gpu_time(struct context *c) {
    const struct timeline_kernels *k = &c->tl->kernels;
    c->range_durations = range_sums_open(&c->tl->ranges);
    for (size_t i = 0; i < k->n; i++)
        range_sums_add(c->range_durations, k->range[i], range_launch_ns(c->tl, k->launch[i], k->start_ns[i]),
                       (double)(k->end_ns[i] - k->start_ns[i]));
    c->range_kernel_ns = range_sums_finish(c->range_durations);
    c->range_total_ns = range_sums_finish(c->range_owned);
}

static struct analysis_operator outside_row(struct context *c, const struct row_set *set, uint64_t kernels) {
    struct analysis_operator o = new_row("(no operator)", NULL, 0);
    o.outside = true;
    o.kernels = kernels;
    o.total_ns = o.self_ns = o.mean_ns = NAN;
    o.gpu_self_ns = c->range_gpu_ns[c->tl->ranges.n];
    for (size_t i = 0; i < c->tl->ranges.n; i++)
        if (set->of_range[i] == ANALYSIS_NONE) o.gpu_self_ns += c->range_gpu_ns[i];
    o.gpu_ns = o.gpu_self_ns;
    return o;
}

static void finish_rows(struct context *c, struct row_set *set, const uint64_t *inside_ns) {
    sum_rows(c, set, inside_ns);
    uint64_t outside = count_kernels(c, set);
    main_stages(c, set);
    if (!set->by_detail && outside) vec_push(&set->rows, outside_row(c, set, outside));
    if (set->rows.n) qsort(set->rows.v, set->rows.n, sizeof *set->rows.v, by_time);
    if (set->rows.v) analysis_keep(c, set->rows.v);
    intern_close(set->ids);
    free(set->of_range);
}

void analyze_operators_finish(struct context *c) {
    struct row_set all = { 0 }, shapes = { .by_detail = true };
    uint64_t *inside_ns = range_tree_inside_ns(&c->tl->ranges, NULL);
    sum_gpu_time(c);
    find_rows(c, &all);
    finish_rows(c, &all, inside_ns);
    c->a->operators = all.rows.v;
    c->a->noperators = all.rows.n;
    find_rows(c, &shapes);
    finish_rows(c, &shapes, inside_ns);
    c->a->operators_by_shape = shapes.rows.v;
    c->a->noperators_by_shape = shapes.rows.n;
    free(inside_ns);
}
