#include "analyze/range_tree.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* Parents come before their children. */
uint32_t *range_tree_nearest(const struct timeline_ranges *r, range_test *passes, const void *arg) {
    uint32_t *nearest = xmalloc((r->n + 1) * sizeof *nearest);
    for (size_t i = 0; i < r->n; i++)
        nearest[i] = passes(arg, i)                  ? (uint32_t)i
                     : r->parent[i] != TIMELINE_NONE ? nearest[r->parent[i]]
                                                     : TIMELINE_NONE;
    return nearest;
}

uint32_t range_tree_around(const struct timeline_ranges *r, const uint32_t *nearest, size_t i) {
    uint32_t parent = r->parent[i];
    return parent == TIMELINE_NONE || !nearest ? parent : nearest[parent];
}

uint64_t *range_tree_inside_ns(const struct timeline_ranges *r, const uint32_t *nearest) {
    uint64_t *inside = xcalloc(r->n + 1, sizeof *inside);
    uint64_t *until = xcalloc(r->n + 1, sizeof *until); /* where the ranges inside so far end */
    for (size_t i = 0; i < r->n; i++) {                 /* sorted by start */
        uint32_t p = nearest && nearest[i] != i ? TIMELINE_NONE : range_tree_around(r, nearest, i);
        if (p == TIMELINE_NONE) continue;
        uint64_t from = MAX(r->start_ns[i], until[p]), to = MIN(r->end_ns[i], r->end_ns[p]);
        if (to <= from) continue;
        inside[p] += to - from;
        until[p] = to;
    }
    free(until);
    return inside;
}

uint64_t range_launch_ns(const struct timeline *tl, uint32_t launch, uint64_t start_ns) {
    return launch == TIMELINE_NONE ? start_ns : tl->launches.start_ns[launch];
}

/* Work that was launched when a range around it had ended. */
struct late_work {
    uint32_t range; /* innermost */
    uint64_t launched_ns;
    double value;
};

struct range_sums {
    const struct timeline_ranges *r;
    uint64_t *until_ns; /* [ranges.n]: until when the range and all ranges around it are open */
    double *through;    /* [ranges.n]: work that also counts in all ranges around this one */
    double *only;       /* [ranges.n]: work that does not */
    struct {
        struct late_work *v;
        size_t n, cap;
    } late;
};

struct range_sums *range_sums_open(const struct timeline_ranges *r) {
    struct range_sums *s = xmalloc(sizeof *s);
    *s = (struct range_sums){ .r = r,
                              .until_ns = xmalloc((r->n + 1) * sizeof *s->until_ns),
                              .through = xcalloc(r->n + 1, sizeof *s->through),
                              .only = xcalloc(r->n + 1, sizeof *s->only) };
    for (size_t i = 0; i < r->n; i++) {
        uint32_t p = r->parent[i];
        s->until_ns[i] = p == TIMELINE_NONE ? r->end_ns[i] : MIN(r->end_ns[i], s->until_ns[p]);
    }
    return s;
}

/* Nearly all work is launched before any of the ranges around it ends, and takes no step of the loop. */
void range_sums_add(struct range_sums *s, uint32_t range, uint64_t launched_ns, double value) {
    if (range != TIMELINE_NONE && s->until_ns[range] < launched_ns)
        vec_push(&s->late, ((struct late_work){ range, launched_ns, value }));
    while (range != TIMELINE_NONE && s->until_ns[range] < launched_ns) {
        if (s->r->end_ns[range] >= launched_ns) s->only[range] += value;
        range = s->r->parent[range];
    }
    if (range != TIMELINE_NONE) s->through[range] += value;
}

const double *range_sums_finish(struct range_sums *s) {
    for (size_t i = s->r->n; i-- > 0;) {
        uint32_t p = s->r->parent[i];
        if (p != TIMELINE_NONE) s->through[p] += s->through[i];
        s->through[i] += s->only[i];
    }
    return s->through;
}

void range_sums_close(struct range_sums *s) {
    if (!s) return;
    free(s->until_ns);
    free(s->through);
    free(s->only);
    free(s->late.v);
    free(s);
}

/* The tree of ranges as child lists, to walk it from parents to children. */
struct range_tree {
    uint32_t first_root, *first_child, *next_sibling; /* [ranges.n]; TIMELINE_NONE: none */
};

static void range_tree_build(struct range_tree *t, const struct timeline_ranges *r) {
    t->first_root = TIMELINE_NONE;
    t->first_child = xmalloc((r->n + 1) * sizeof *t->first_child);
    t->next_sibling = xmalloc((r->n + 1) * sizeof *t->next_sibling);
    for (size_t i = 0; i < r->n; i++) t->first_child[i] = TIMELINE_NONE;
    for (size_t i = r->n; i-- > 0;) {
        uint32_t *head = r->parent[i] == TIMELINE_NONE ? &t->first_root : &t->first_child[r->parent[i]];
        t->next_sibling[i] = *head;
        *head = (uint32_t)i;
    }
}

static void range_tree_free(struct range_tree *t) {
    free(t->first_child);
    free(t->next_sibling);
}

/* Walks over the tree once and remembers the innermost open range of each row. */
struct range_rows range_rows_open(const struct timeline_ranges *r, const uint32_t *row, size_t nrows) {
    struct range_rows rows = { r, row, nrows, xmalloc((r->n + 1) * sizeof *rows.within) };
    uint32_t *open = xmalloc((nrows + 1) * sizeof *open);
    struct range_tree tree;
    range_tree_build(&tree, r);
    for (size_t i = 0; i < r->n; i++) rows.within[i] = TIMELINE_NONE;
    for (size_t i = 0; i < nrows; i++) open[i] = TIMELINE_NONE;
    for (uint32_t at = tree.first_root; at != TIMELINE_NONE;) {
        if (row[at] != TIMELINE_NONE) {
            rows.within[at] = open[row[at]];
            open[row[at]] = at;
        }
        uint32_t next = tree.first_child[at];
        while (next == TIMELINE_NONE && at != TIMELINE_NONE) { /* up to the next sibling */
            if (row[at] != TIMELINE_NONE) open[row[at]] = rows.within[at];
            next = tree.next_sibling[at];
            at = r->parent[at];
        }
        at = next;
    }
    range_tree_free(&tree);
    free(open);
    return rows;
}

void range_rows_close(struct range_rows *rows) { free(rows->within); }

uint64_t *range_rows_open_ns(const struct range_rows *rows) {
    const struct timeline_ranges *r = rows->r;
    uint64_t *ns = xcalloc(rows->nrows + 1, sizeof *ns);
    uint64_t *until = xcalloc(r->n + 1, sizeof *until);    /* of an outermost call: end of the calls so far */
    uint32_t *outer = xmalloc((r->n + 1) * sizeof *outer); /* outermost call of the row around it */
    for (size_t i = 0; i < r->n; i++) {                    /* sorted by start, parents before children */
        if (rows->row[i] == TIMELINE_NONE) continue;
        uint32_t o = outer[i] = rows->within[i] == TIMELINE_NONE ? (uint32_t)i : outer[rows->within[i]];
        uint64_t from = MAX(r->start_ns[i], until[o]);
        if (r->end_ns[i] <= from) continue;
        ns[rows->row[i]] += r->end_ns[i] - from;
        until[o] = r->end_ns[i];
    }
    free(outer);
    free(until);
    return ns;
}

/* Returns true if all calls of the same row around the range had ended at that time, and there is one. */
static bool is_left_alone(const struct range_rows *rows, uint32_t range, uint64_t time_ns) {
    uint32_t p = rows->within[range];
    bool recursive = p != TIMELINE_NONE;
    while (p != TIMELINE_NONE && rows->r->end_ns[p] < time_ns) p = rows->within[p];
    return recursive && p == TIMELINE_NONE;
}

double *range_rows_work(const struct range_rows *rows, const struct range_sums *s) {
    double *work = xcalloc(rows->nrows + 1, sizeof *work);
    for (size_t i = 0; i < rows->r->n; i++)
        if (rows->row[i] != TIMELINE_NONE && rows->within[i] == TIMELINE_NONE)
            work[rows->row[i]] += s->through[i];
    for (size_t i = 0; i < s->late.n; i++) {
        const struct late_work *w = &s->late.v[i];
        for (uint32_t q = w->range; q != TIMELINE_NONE && s->until_ns[q] < w->launched_ns;
             q = rows->r->parent[q])
            if (rows->row[q] != TIMELINE_NONE && rows->r->end_ns[q] >= w->launched_ns &&
                is_left_alone(rows, q, w->launched_ns))
                work[rows->row[q]] += w->value;
    }
    return work;
}
