/* Operators and annotations by name: their time on the host, and the device work launched inside them.
 * Uses the nesting of the timeline. Operators nest only in operators and annotations only in annotations:
 * other ranges between two of them (such as Python functions) do not reduce the outer one's self time. */
#include <stdlib.h>
#include <string.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/intern.h"
#include "base/util.h"
#include "base/vec.h"

/* Returns true for ranges that users mark (torch's user_annotation, NVTX), false for ranges of the Python
 * stack and of the profiler itself. */
static bool marked_by_people(const char *domain) {
    static const char *const others[] = { "python_function", "overhead", "Trace", "gpu_user_annotation" };
    for (size_t i = 0; i < COUNTOF(others); i++)
        if (strcmp(domain, others[i]) == 0) return false;
    return true;
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
    struct totals_ranges *rows;
    uint32_t *row; /* [ranges.n]: row of the range; ANALYSIS_NONE: range of another kind */
    /* [ranges.n]: the range itself if it is of this kind, else its nearest ancestor of this kind;
     * TIMELINE_NONE: none */
    uint32_t *nearest;
    uint64_t *counted; /* [rows.n]: value of `works` when the row was last counted */
    uint64_t works;
};

/* Returns the length of the name. The step number of an annotation is not included, so that all steps of a
 * loop are one annotation: "ProfilerStep#12" becomes "ProfilerStep". */
static size_t name_length(const char *name, enum totals_range_kind kind) {
    const char *hash = kind == TOTALS_RANGE_ANNOTATION ? strrchr(name, '#') : NULL;
    if (!hash || hash == name || !hash[1] || hash[1 + strspn(hash + 1, "0123456789")]) return strlen(name);
    return (size_t)(hash - name);
}

static void find_ranges(struct range_set *s, enum totals_range_kind kind, struct intern *names) {
    const struct timeline_ranges *r = &s->tl->ranges;
    s->row = xmalloc((r->n + 1) * sizeof *s->row);
    s->nearest = xmalloc((r->n + 1) * sizeof *s->nearest);
    for (size_t i = 0; i < r->n; i++) { /* parents come before their children */
        s->row[i] = ANALYSIS_NONE;
        s->nearest[i] = r->parent[i] == TIMELINE_NONE ? TIMELINE_NONE : s->nearest[r->parent[i]];
        if (totals_range_kind(s->tl, i) != kind) continue;
        const char *name = timeline_text(s->tl, r->name[i]);
        if (!*name) name = "(name lost)";
        s->nearest[i] = (uint32_t)i;
        s->row[i] = intern_id(names, name, name_length(name, kind));
        if (s->row[i] == s->rows->n)
            vec_push(s->rows, ((struct totals_range){ .name = intern_text(names, s->row[i]) }));
    }
}

/* Returns the first range of this kind, from `range` upwards, that had not ended at the given time;
 * TIMELINE_NONE: none. A child may end after its parent. */
static uint32_t open_at(const struct range_set *s, uint32_t range, uint64_t time_ns) {
    const struct timeline_ranges *r = &s->tl->ranges;
    while (range != TIMELINE_NONE) {
        range = s->nearest[range];
        if (range == TIMELINE_NONE || r->end_ns[range] > time_ns) return range;
        range = r->parent[range];
    }
    return TIMELINE_NONE;
}

/* If a child ends after its parent, only the common part is subtracted from the parent's self time. */
static void sum_host_time(struct range_set *s) {
    const struct timeline_ranges *r = &s->tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (s->row[i] == ANALYSIS_NONE) continue;
        struct totals_range *row = &s->rows->v[s->row[i]];
        row->calls++;
        row->total_ns += r->end_ns[i] - r->start_ns[i];
        row->self_ns += r->end_ns[i] - r->start_ns[i];
        uint32_t parent = open_at(s, r->parent[i], r->start_ns[i]);
        if (parent == TIMELINE_NONE) continue;
        s->rows->v[s->row[parent]].self_ns -= MIN(r->end_ns[i], r->end_ns[parent]) - r->start_ns[i];
    }
}

static void add_work(struct range_set *s, uint32_t range, uint64_t launched_ns, uint64_t device_ns) {
    const uint32_t *parent = s->tl->ranges.parent;
    uint32_t r = open_at(s, range, launched_ns);
    s->works++;
    if (r != TIMELINE_NONE) s->rows->v[s->row[r]].self_device_ns += device_ns;
    for (; r != TIMELINE_NONE; r = open_at(s, parent[r], launched_ns)) {
        if (s->counted[s->row[r]] == s->works) continue;
        s->counted[s->row[r]] = s->works;
        s->rows->v[s->row[r]].device_ns += device_ns;
    }
}

/* Returns the start of the launch call, or the start of the work if its launch was not recorded. */
static uint64_t launched_ns(const struct timeline *tl, uint32_t launch, uint64_t start_ns) {
    return launch == TIMELINE_NONE ? start_ns : tl->launches.start_ns[launch];
}

static void sum_device_time(struct range_set *s) {
    const struct timeline *tl = s->tl;
    const struct timeline_kernels *k = &tl->kernels;
    const struct timeline_copies *c = &tl->copies;
    s->counted = xcalloc(s->rows->n + 1, sizeof *s->counted);
    for (size_t i = 0; i < k->n; i++)
        add_work(s, k->range[i], launched_ns(tl, k->launch[i], k->start_ns[i]),
                 k->end_ns[i] - k->start_ns[i]);
    for (size_t i = 0; i < c->n; i++)
        add_work(s, c->range[i], launched_ns(tl, c->launch[i], c->start_ns[i]),
                 c->end_ns[i] - c->start_ns[i]);
    free(s->counted);
}

static int range_order(const void *pa, const void *pb) {
    const struct totals_range *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void sum_kind(const struct timeline *tl, enum totals_range_kind kind, struct intern *names,
                     struct totals_ranges *rows) {
    struct range_set s = { .tl = tl, .rows = rows };
    find_ranges(&s, kind, names);
    if (rows->n) {
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
