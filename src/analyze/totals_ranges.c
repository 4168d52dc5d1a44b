/* Operators and annotations by name: their time on the host, and the device work launched inside them.
 * Uses the nesting of the timeline. Operators nest only in operators and annotations only in annotations:
 * other ranges between two of them (such as Python functions) do not reduce the outer one's self time. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/range_tree.h"
#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/intern.h"
#include "base/util.h"
#include "base/vec.h"

/* Returns true for ranges that users mark (torch's user_annotation, NVTX), false for ranges of the Python
 * stack and of the profiler itself. */
static bool marked_by_people(const char *domain) {
    return strcmp(domain, "python_function") != 0 && !analysis_is_recorders(domain);
}

enum totals_range_kind totals_range_kind(const struct timeline *tl, size_t range) {
    const struct timeline_ranges *r = &tl->ranges;
    if (r->flags[range] & TRACE_RANGE_MARK) return TOTALS_RANGE_MARK;
    if (r->category[range] == TRACE_CATEGORY_OP) return TOTALS_RANGE_OPERATOR;
    if (r->category[range] == TRACE_CATEGORY_STAGE) return TOTALS_RANGE_ANNOTATION;
    if (r->category[range] == TRACE_CATEGORY_USER && !(r->flags[range] & TRACE_RANGE_FREE) &&
        marked_by_people(timeline_text(tl, r->domain[range])))
        return TOTALS_RANGE_ANNOTATION;
    return TOTALS_RANGE_OTHER;
}

/* The ranges of one kind. */
struct range_set {
    const struct timeline *tl;
    enum totals_range_kind kind;
    struct totals_ranges *rows;
    uint32_t *row;     /* [ranges.n]: row of the range; TIMELINE_NONE: range of another kind */
    uint32_t *nearest; /* [ranges.n]: innermost range of this kind, which can be the range itself */
};

/* Returns the length of the name. The step number of an annotation is not included, so that all steps of a
 * loop are one annotation: "ProfilerStep#12" becomes "ProfilerStep". */
static size_t name_length(const char *name, enum totals_range_kind kind) {
    const char *hash = kind == TOTALS_RANGE_ANNOTATION ? strrchr(name, '#') : NULL;
    if (!hash || hash == name || !hash[1] || hash[1 + strspn(hash + 1, "0123456789")]) return strlen(name);
    return (size_t)(hash - name);
}

static void find_ranges(struct range_set *s, struct intern *names) {
    const struct timeline_ranges *r = &s->tl->ranges;
    s->row = xmalloc((r->n + 1) * sizeof *s->row);
    for (size_t i = 0; i < r->n; i++) {
        s->row[i] = TIMELINE_NONE;
        if (totals_range_kind(s->tl, i) != s->kind) continue;
        const char *name = timeline_text(s->tl, r->name[i]);
        if (!*name) name = "(name lost)";
        s->row[i] = intern_id(names, name, name_length(name, s->kind));
        if (s->row[i] == s->rows->n)
            vec_push(s->rows, ((struct totals_range){ .name = intern_text(names, s->row[i]) }));
    }
}

static bool has_row(const void *rows, size_t range) {
    return ((const uint32_t *)rows)[range] != TIMELINE_NONE;
}

static void sum_host_time(struct range_set *s) {
    const struct timeline_ranges *r = &s->tl->ranges;
    uint64_t *inside_ns = range_tree_inside_ns(r, s->nearest);
    for (size_t i = 0; i < r->n; i++) {
        if (s->row[i] == TIMELINE_NONE) continue;
        struct totals_range *row = &s->rows->v[s->row[i]];
        row->calls++;
        row->total_ns += r->end_ns[i] - r->start_ns[i];
        row->self_ns += r->end_ns[i] - r->start_ns[i] - inside_ns[i];
    }
    free(inside_ns);
}

/* Adds work to the innermost range of this kind that was open at its launch, and to `sums`. */
static void add_work(struct range_set *s, struct range_sums *sums, uint32_t range, uint64_t launched_ns,
                     uint64_t ns) {
    const struct timeline_ranges *r = &s->tl->ranges;
    if (range == TIMELINE_NONE) return;
    range_sums_add(sums, range, launched_ns, (double)ns);
    uint32_t own = s->nearest[range];
    while (own != TIMELINE_NONE && r->end_ns[own] < launched_ns) own = range_tree_around(r, s->nearest, own);
    if (own != TIMELINE_NONE) s->rows->v[s->row[own]].self_device_ns += ns;
}

static void sum_device_time(struct range_set *s) {
    const struct timeline_kernels *k = &s->tl->kernels;
    const struct timeline_copies *c = &s->tl->copies;
    struct range_sums *sums = range_sums_open(&s->tl->ranges);
    for (size_t i = 0; i < k->n; i++)
        add_work(s, sums, k->range[i], range_launch_ns(s->tl, k->launch[i], k->start_ns[i]),
                 k->end_ns[i] - k->start_ns[i]);
    for (size_t i = 0; i < c->n; i++)
        add_work(s, sums, c->range[i], range_launch_ns(s->tl, c->launch[i], c->start_ns[i]),
                 c->end_ns[i] - c->start_ns[i]);
    range_sums_finish(sums);
    struct range_rows rows = range_rows_open(&s->tl->ranges, s->row, s->rows->n);
    double *ns = range_rows_work(&rows, sums);
    for (size_t i = 0; i < s->rows->n; i++) s->rows->v[i].device_ns = (uint64_t)ns[i];
    free(ns);
    range_rows_close(&rows);
    range_sums_close(sums);
}

/* Marks rows with a range that is a stage with unknown kernels, or is inside of one. */
static void mark_unknown(const struct range_set *s, const struct analysis *a) {
    for (size_t i = 0; i < s->tl->ranges.n; i++) {
        uint32_t o = a->range_occurrence[i];
        if (s->row[i] != TIMELINE_NONE && o != ANALYSIS_NONE &&
            a->stages[a->occurrences[o].stage].time_refused)
            s->rows->v[s->row[i]].device_unknown = true;
    }
}

static int range_order(const void *pa, const void *pb) {
    const struct totals_range *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void sum_kind(const struct analysis *a, enum totals_range_kind kind, struct intern *names,
                     struct totals_ranges *rows) {
    const struct timeline *tl = a->timeline;
    struct range_set s = { .tl = tl, .kind = kind, .rows = rows };
    find_ranges(&s, names);
    if (rows->n) {
        s.nearest = range_tree_nearest(&tl->ranges, has_row, s.row);
        sum_host_time(&s);
        sum_device_time(&s);
        if (kind == TOTALS_RANGE_ANNOTATION) mark_unknown(&s, a);
        qsort(rows->v, rows->n, sizeof *rows->v, range_order);
    }
    free(s.row);
    free(s.nearest);
}

void totals_ranges(struct analysis_totals *t, const struct analysis *a) {
    t->operator_names = intern_open();
    t->annotation_names = intern_open();
    sum_kind(a, TOTALS_RANGE_OPERATOR, t->operator_names, &t->operators);
    sum_kind(a, TOTALS_RANGE_ANNOTATION, t->annotation_names, &t->annotations);
}
