/* torch.profiler repeats an annotation on the GPU's track (gpu_user_annotation), from the first to the last
 * kernel that the range launched. This copy is called a mirror. It is the only evidence of the stage of a
 * kernel whose launch is not in the trace. Such a kernel counts in the innermost occurrence whose mirror
 * covers its start, unless two of these occurrences have the same depth. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* A mirror, or a range that may have mirrors. */
struct interval {
    uint64_t start_ns, end_ns;
    uint32_t name, process;
    uint32_t occurrence; /* ANALYSIS_NONE: not known yet */
    bool whole;          /* of the occurrence's own range, not of a range inside it */
};
struct intervals {
    struct interval *v;
    size_t n, cap;
};

static int by_name_and_start(const void *pa, const void *pb) {
    const struct interval *a = pa, *b = pb;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    if (a->name != b->name) return a->name < b->name ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static bool same_name(const struct interval *a, const struct interval *b) {
    return a->process == b->process && a->name == b->name;
}

/* Collects the mirrors. A range that launches on several streams has a mirror on each of them, so overlapping
 * mirrors of the same name and process are merged. */
static void find_mirrors(const struct context *c, struct intervals *out) {
    const struct timeline_ranges *r = &c->tl->ranges;
    for (size_t i = 0; i < r->n; i++)
        if (analysis_is_mirror(timeline_text(c->tl, r->domain[i])))
            vec_push(out, ((struct interval){ r->start_ns[i], r->end_ns[i], r->name[i],
                                              c->tl->threads[r->thread[i]].process, ANALYSIS_NONE, false }));
    if (!out->n) return;
    qsort(out->v, out->n, sizeof *out->v, by_name_and_start);
    size_t n = 1;
    for (size_t i = 1; i < out->n; i++) {
        struct interval *last = &out->v[n - 1];
        if (same_name(last, &out->v[i]) && out->v[i].start_ns < last->end_ns)
            last->end_ns = MAX(last->end_ns, out->v[i].end_ns);
        else
            out->v[n++] = out->v[i];
    }
    out->n = n;
}

/* Collects the annotations of the program: stages, and annotations inside them. The kernels of an annotation
 * inside a stage, such as a collective, can be outside of the stage's mirror. */
static void find_marked(const struct context *c, struct intervals *out) {
    const struct timeline_ranges *r = &c->tl->ranges;
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t o = c->range_occurrence[i];
        bool annotates = r->category[i] == TRACE_CATEGORY_USER || r->category[i] == TRACE_CATEGORY_STAGE;
        if (!annotates || strcmp(timeline_text(c->tl, r->domain[i]), "python_function") == 0 ||
            r->flags[i] & TRACE_RANGE_MARK || analysis_is_recorders(timeline_text(c->tl, r->domain[i])))
            continue;
        vec_push(out, ((struct interval){ r->start_ns[i], r->end_ns[i], r->name[i],
                                          c->tl->threads[r->thread[i]].process, o,
                                          o != ANALYSIS_NONE && c->a->occurrences[o].range == i }));
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_name_and_start);
}

static size_t run_of(const struct intervals *list, size_t from) {
    size_t n = 1;
    while (from + n < list->n && same_name(&list->v[from], &list->v[from + n])) n++;
    return n;
}

static void take_occurrence(struct interval *mirror, const struct interval *marked) {
    mirror->occurrence = marked->occurrence;
    mirror->whole = marked->whole;
}

/* The n-th mirror of a name belongs to the n-th range with this name, if there are equally many of both. */
static void pair_mirrors(struct intervals *mirrors, const struct intervals *marked) {
    for (size_t m = 0, o = 0; m < mirrors->n && o < marked->n;) {
        const struct interval *x = &mirrors->v[m], *y = &marked->v[o];
        size_t nm = run_of(mirrors, m), no = run_of(marked, o);
        if (same_name(x, y)) {
            for (size_t i = 0; nm == no && i < nm; i++)
                take_occurrence(&mirrors->v[m + i], &marked->v[o + i]);
            m += nm;
            o += no;
        } else if (x->process != y->process ? x->process < y->process : x->name < y->name) {
            m += nm;
        } else {
            o += no;
        }
    }
}

static uint32_t depth_of(const struct context *c, uint32_t occurrence) {
    return c->a->stages[c->a->occurrences[occurrence].stage].depth;
}

/* The innermost of the occurrences whose mirrors cover a kernel. */
struct choice {
    uint32_t occurrence; /* ANALYSIS_NONE: no mirror */
    bool ambiguous;      /* same depth as another one */
};

static void offer(const struct context *c, struct choice *best, uint32_t occurrence) {
    if (best->occurrence == occurrence) return;
    if (best->occurrence == ANALYSIS_NONE || depth_of(c, occurrence) > depth_of(c, best->occurrence))
        *best = (struct choice){ occurrence, false };
    else if (depth_of(c, occurrence) == depth_of(c, best->occurrence))
        best->ambiguous = true;
}

/* Kernels or copies. */
struct work_list {
    const uint64_t *start_ns;
    const uint32_t *launch, *lane;
    size_t n;
    uint32_t *occurrence; /* [n] */
    struct choice *best;  /* [n] */
};

static size_t first_from(const struct work_list *w, size_t lo, size_t hi, uint64_t time_ns) {
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (w->start_ns[mid] < time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Covers the work [first, end) of a device. */
static void cover(const struct context *c, const struct interval *m, const struct work_list *w, size_t first,
                  size_t end) {
    const struct timeline *tl = c->tl;
    for (size_t i = first_from(w, first, end, m->start_ns); i < end && w->start_ns[i] < m->end_ns; i++)
        if (w->launch[i] == TIMELINE_NONE && w->occurrence[i] == ANALYSIS_NONE &&
            tl->lanes[w->lane[i]].process == m->process)
            offer(c, &w->best[i], m->occurrence);
}

static struct work_list work_list(const uint64_t *start_ns, const uint32_t *launch, const uint32_t *lane,
                                  uint32_t *occurrence, size_t n) {
    struct work_list w = { start_ns, launch, lane, occurrence ? n : 0, occurrence, NULL };
    w.best = xmalloc((w.n + 1) * sizeof *w.best);
    for (size_t i = 0; i < w.n; i++) w.best[i] = (struct choice){ ANALYSIS_NONE, false };
    return w;
}

/* Returns the number of pieces of work that belong to an occurrence now. */
static size_t take_best(struct work_list *w) {
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->best[i].occurrence == ANALYSIS_NONE) continue;
        w->occurrence[i] = w->best[i].ambiguous ? MIRRORS_DISAGREE : w->best[i].occurrence;
        n += !w->best[i].ambiguous;
    }
    free(w->best);
    return n;
}

static void cover_all(struct context *c, const struct intervals *mirrors) {
    const struct timeline *tl = c->tl;
    struct work_list kernels = work_list(tl->kernels.start_ns, tl->kernels.launch, tl->kernels.lane,
                                         c->kernel_occurrence, tl->kernels.n),
                     copies = work_list(tl->copies.start_ns, tl->copies.launch, tl->copies.lane,
                                        c->copy_occurrence, tl->copies.n);
    for (size_t i = 0; i < mirrors->n; i++) {
        const struct interval *m = &mirrors->v[i];
        if (m->occurrence == ANALYSIS_NONE) continue;
        c->a->occurrences[m->occurrence].mirrored |= m->whole;
        for (size_t d = 0; d < tl->ndevices; d++) {
            const struct timeline_device *v = &tl->devices[d];
            cover(c, m, &kernels, v->first_kernel, v->first_kernel + v->kernel_count);
            if (copies.n) cover(c, m, &copies, v->first_copy, v->first_copy + v->copy_count);
        }
    }
    c->mirrored_kernels = take_best(&kernels);
    take_best(&copies);
}

void analysis_use_mirrors(struct context *c) {
    struct intervals mirrors = { 0 }, marked = { 0 };
    find_mirrors(c, &mirrors);
    if (mirrors.n && c->tl->kernels.n) {
        find_marked(c, &marked);
        pair_mirrors(&mirrors, &marked);
        cover_all(c, &mirrors);
    }
    free(mirrors.v);
    free(marked.v);
}
