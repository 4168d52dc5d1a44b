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
                                              c->tl->threads[r->thread[i]].process, ANALYSIS_NONE }));
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

static void find_marked(const struct context *c, struct intervals *out) {
    for (uint32_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (o->range == TIMELINE_NONE) continue;
        uint32_t process = c->tl->threads[c->tl->ranges.thread[o->range]].process;
        vec_push(out,
                 ((struct interval){ o->start_ns, o->end_ns, c->tl->ranges.name[o->range], process, i }));
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_name_and_start);
}

static size_t run_of(const struct intervals *list, size_t from) {
    size_t n = 1;
    while (from + n < list->n && same_name(&list->v[from], &list->v[from + n])) n++;
    return n;
}

/* The n-th mirror of a name belongs to the n-th range with this name, if there are equally many of both. */
static void pair_mirrors(struct intervals *mirrors, const struct intervals *marked) {
    for (size_t m = 0, o = 0; m < mirrors->n && o < marked->n;) {
        const struct interval *x = &mirrors->v[m], *y = &marked->v[o];
        size_t nm = run_of(mirrors, m), no = run_of(marked, o);
        if (same_name(x, y)) {
            for (size_t i = 0; nm == no && i < nm; i++)
                mirrors->v[m + i].occurrence = marked->v[o + i].occurrence;
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
    if (best->occurrence == ANALYSIS_NONE || depth_of(c, occurrence) > depth_of(c, best->occurrence))
        *best = (struct choice){ occurrence, false };
    else if (depth_of(c, occurrence) == depth_of(c, best->occurrence))
        best->ambiguous = true;
}

static size_t first_kernel_from(const struct timeline *tl, const struct timeline_device *d,
                                uint64_t time_ns) {
    size_t lo = d->first_kernel, hi = d->first_kernel + d->kernel_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (tl->kernels.start_ns[mid] < time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void cover_kernels(const struct context *c, const struct interval *m, struct choice *best) {
    const struct timeline *tl = c->tl;
    for (size_t d = 0; d < tl->ndevices; d++) {
        size_t end = tl->devices[d].first_kernel + tl->devices[d].kernel_count;
        for (size_t k = first_kernel_from(tl, &tl->devices[d], m->start_ns);
             k < end && tl->kernels.start_ns[k] < m->end_ns; k++)
            if (tl->kernels.launch[k] == TIMELINE_NONE && c->kernel_occurrence[k] == ANALYSIS_NONE &&
                tl->lanes[tl->kernels.lane[k]].process == m->process)
                offer(c, &best[k], m->occurrence);
    }
}

void analysis_use_mirrors(struct context *c) {
    size_t n = c->tl->kernels.n;
    struct intervals mirrors = { 0 }, marked = { 0 };
    find_mirrors(c, &mirrors);
    if (mirrors.n && n) {
        struct choice *best = xmalloc(n * sizeof *best);
        for (size_t i = 0; i < n; i++) best[i] = (struct choice){ ANALYSIS_NONE, false };
        find_marked(c, &marked);
        pair_mirrors(&mirrors, &marked);
        for (size_t i = 0; i < mirrors.n; i++)
            if (mirrors.v[i].occurrence != ANALYSIS_NONE) cover_kernels(c, &mirrors.v[i], best);
        for (size_t i = 0; i < n; i++) {
            if (best[i].occurrence == ANALYSIS_NONE || best[i].ambiguous) continue;
            c->kernel_occurrence[i] = best[i].occurrence;
            c->mirrored_kernels++;
        }
        free(best);
    }
    free(mirrors.v);
    free(marked.v);
}
