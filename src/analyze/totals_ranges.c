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

/* Returns the device time of the work that each range of this kind launched itself. */
static uint64_t *launched_ns(const struct range_set *s) {
    const struct timeline_kernels *k = &s->tl->kernels;
    const struct timeline_copies *c = &s->tl->copies;
    uint64_t *ns = xcalloc(s->tl->ranges.n + 1, sizeof *ns);
    for (size_t i = 0; i < k->n; i++)
        if (k->range[i] != TIMELINE_NONE && s->nearest[k->range[i]] != TIMELINE_NONE)
            ns[s->nearest[k->range[i]]] += k->end_ns[i] - k->start_ns[i];
    for (size_t i = 0; i < c->n; i++)
        if (c->range[i] != TIMELINE_NONE && s->nearest[c->range[i]] != TIMELINE_NONE)
            ns[s->nearest[c->range[i]]] += c->end_ns[i] - c->start_ns[i];
    return ns;
}

/* Parents come before their children, so the second loop runs backwards. */
static void sum_device_time(struct range_set *s) {
    size_t n = s->tl->ranges.n;
    uint64_t *ns = launched_ns(s);
    bool *outermost = range_tree_outermost(&s->tl->ranges, s->row, s->rows->n);
    for (size_t i = 0; i < n; i++)
        if (s->row[i] != TIMELINE_NONE) s->rows->v[s->row[i]].self_device_ns += ns[i];
    for (size_t i = n; i-- > 0;) {
        if (s->row[i] == TIMELINE_NONE) continue;
        if (outermost[i]) s->rows->v[s->row[i]].device_ns += ns[i];
        uint32_t parent = range_tree_around(&s->tl->ranges, s->nearest, i);
        if (parent != TIMELINE_NONE) ns[parent] += ns[i]; /* from here on with the work of ranges inside */
    }
    free(outermost);
    free(ns);
}

static int range_order(const void *pa, const void *pb) {
    const struct totals_range *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void sum_kind(const struct timeline *tl, enum totals_range_kind kind, struct intern *names,
                     struct totals_ranges *rows) {
    struct range_set s = { .tl = tl, .kind = kind, .rows = rows };
    find_ranges(&s, names);
    if (rows->n) {
        s.nearest = range_tree_nearest(&tl->ranges, has_row, s.row);
        sum_host_time(&s);
        sum_device_time(&s);
        qsort(rows->v, rows->n, sizeof *rows->v, range_order);
    }
    free(s.row);
    free(s.nearest);
}

void totals_ranges(struct analysis_totals *t, const struct analysis *a) {
    t->operator_names = intern_open();
    t->annotation_names = intern_open();
    sum_kind(a->timeline, TOTALS_RANGE_OPERATOR, t->operator_names, &t->operators);
    sum_kind(a->timeline, TOTALS_RANGE_ANNOTATION, t->annotation_names, &t->annotations);
}
