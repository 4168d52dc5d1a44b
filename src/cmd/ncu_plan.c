#include "cmd/ncu_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define MAX_LAUNCHES 400 /* ncu replays each launch */

static uint32_t occurrence_of(const struct analysis *a, size_t kernel) {
    return a->kernel_occurrence[kernel];
}

/* ---- kernels to stages */

static const char *stage_name(const struct analysis *a, uint32_t stage) {
    return stage == ANALYSIS_NONE || a->stages[stage].outside ? NULL : a->stages[stage].name;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static struct ncu_plan *plan_of(struct ncu_plans *p, const char *stage) {
    for (size_t i = 0; i < p->n; i++)
        if (same_text(p->v[i].stage, stage)) return &p->v[i];
    vec_push(p, ((struct ncu_plan){ .stage = stage, .names = STRBUF_INIT }));
    return &p->v[p->n - 1];
}

/* Also true for stages nested in `stage`. */
static bool in_stage(const struct analysis *a, uint32_t occurrence, const char *stage) {
    for (uint32_t o = occurrence; o != ANALYSIS_NONE; o = a->occurrences[o].parent)
        if (same_text(stage_name(a, a->occurrences[o].stage), stage)) return true;
    return false;
}

struct ranked {
    double ns;
    uint32_t row;
};

static int by_time_spent(const void *x, const void *y) {
    const struct ranked *a = x, *b = y;
    if (a->ns != b->ns) return a->ns < b->ns ? 1 : -1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Kernel rows sorted by their total time in `stage` (NULL: in the whole trace). Caller frees. */
static struct ranked *rank(const struct analysis *a, const char *stage) {
    const struct timeline_kernels *k = &a->timeline->kernels;
    struct ranked *v = xcalloc(a->nkernels + 1, sizeof *v);
    for (uint32_t row = 0; row < a->nkernels; row++) v[row].row = row;
    for (size_t i = 0; i < k->n; i++)
        if (!stage || in_stage(a, occurrence_of(a, i), stage))
            v[a->shape_kernel[k->shape[i]]].ns += (double)(k->end_ns[i] - k->start_ns[i]);
    qsort(v, a->nkernels, sizeof *v, by_time_spent);
    return v;
}

static void choose_kernels(const struct analysis *a, size_t top, const char *stage, struct ncu_plans *out) {
    struct ranked *v = rank(a, stage);
    size_t chosen = 0;
    for (uint32_t i = 0; i < a->nkernels && chosen < top && v[i].ns > 0; i++) {
        const struct analysis_kernel *k = &a->kernels[v[i].row];
        if (k->whole_graph) continue;
        struct ncu_plan *p = plan_of(out, stage ? stage : stage_name(a, k->stage));
        vec_push(&p->kernels, v[i].row);
        chosen++;
    }
    free(v);
}

/* ---- filters */

static const char *name_of(const struct analysis *a, uint32_t row) {
    return timeline_text(a->timeline, a->timeline->shapes[a->kernels[row].shape].name);
}

static void add_escaped(struct strbuf *out, const char *text, const char *special) {
    for (; *text; text++) {
        if (strchr(special, *text)) strbuf_addch(out, '\\');
        strbuf_addch(out, *text);
    }
}

static void make_regex(const struct analysis *a, struct ncu_plan *p) {
    strbuf_addstr(&p->names, "regex:^(");
    for (size_t i = 0; i < p->kernels.n; i++) {
        const char *name = name_of(a, p->kernels.v[i]);
        bool seen = false;
        for (size_t k = 0; k < i; k++) seen |= strcmp(name_of(a, p->kernels.v[k]), name) == 0;
        if (seen) continue;
        if (i) strbuf_addch(&p->names, '|');
        add_escaped(&p->names, name, "\\.[]{}()*+?^$|");
    }
    strbuf_addstr(&p->names, ")$");
}

/* ncu's syntax for push/pop ranges is "domain@name/". Start/end ranges have no slash. */
static char *range_filter(const struct analysis *a, uint32_t range, const char *domain, const char *before) {
    static const char special[] = "@,[]/*+\\";
    const struct timeline_ranges *r = &a->timeline->ranges;
    struct strbuf out = STRBUF_INIT;
    if (*domain) {
        add_escaped(&out, domain, special);
        strbuf_addch(&out, '@');
    }
    strbuf_addstr(&out, before);
    add_escaped(&out, timeline_text(a->timeline, r->name[range]), special);
    if (!(r->flags[range] & TRACE_RANGE_FREE)) strbuf_addch(&out, '/');
    return strbuf_detach(&out);
}

/* Engines without NVTX domains prefix the text of a range with its kind ("inferprof:stage prefill"). The
 * collector stores only the name, but ncu compares the whole text. Therefore both forms are generated. */
static void make_range(const struct analysis *a, uint32_t range, struct ncu_plan *p) {
    const char *domain = timeline_text(a->timeline, a->timeline->ranges.domain[range]);
    p->range = range_filter(a, range, domain, "");
    p->marked_range = range_filter(a, range, "", "inferprof:stage ");
}

/* ---- where in the run */

struct passing { /* a launch that ncu's filters accept */
    /* Start of the launch call, and of the kernel. The nodes of a graph share one call. */
    uint64_t at_ns, start_ns;
    uint32_t row, occurrence;
};

static int by_time(const void *x, const void *y) {
    const struct passing *a = x, *b = y;
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static bool wanted_name(const struct analysis *a, const struct ncu_plan *p, uint32_t row) {
    for (size_t i = 0; i < p->kernels.n; i++)
        if (p->kernels.v[i] == row || strcmp(name_of(a, p->kernels.v[i]), name_of(a, row)) == 0) return true;
    return false;
}

/* Returns the middle one of the stage's occurrences with GPU work: it is usually complete and after the
 * warm-up. ANALYSIS_NONE: there is none. */
static uint32_t middle_occurrence(const struct analysis *a, const char *stage) {
    size_t n = 0, i = 0;
    for (int counting = 1; counting >= 0; counting--)
        for (uint32_t o = 0; o < a->noccurrences; o++) {
            if (!same_text(stage_name(a, a->occurrences[o].stage), stage) || !a->occurrences[o].gpu_first_ns)
                continue;
            if (counting)
                n++;
            else if (i++ == n / 2)
                return o;
        }
    return ANALYSIS_NONE;
}

/* True if the launch is in a range with the same name and domain as the chosen one. ncu's filter cannot
 * distinguish them. */
static bool in_range(const struct analysis *a, uint32_t chosen, uint32_t occurrence) {
    const struct timeline_ranges *r = &a->timeline->ranges;
    for (uint32_t o = occurrence; o != ANALYSIS_NONE; o = a->occurrences[o].parent) {
        uint32_t range = a->occurrences[o].range;
        if (range != TIMELINE_NONE && r->name[range] == r->name[a->occurrences[chosen].range] &&
            r->domain[range] == r->domain[a->occurrences[chosen].range])
            return true;
    }
    return false;
}

static uint64_t launched_ns(const struct timeline *tl, size_t kernel) {
    uint32_t launch = tl->kernels.launch[kernel];
    return launch == TIMELINE_NONE ? tl->kernels.start_ns[kernel] : tl->launches.start_ns[launch];
}

/* Skips the launches before the chosen occurrence (without one: the first half of all launches). Profiles
 * launches until every kernel of the plan has occurred, at most MAX_LAUNCHES. */
static void place(const struct analysis *a, const struct passing *v, size_t n, uint32_t chosen,
                  struct ncu_plan *p) {
    size_t first = chosen == ANALYSIS_NONE ? n / 2 : n, met = 0;
    for (size_t i = 0; i < n && first == n; i++)
        for (uint32_t o = v[i].occurrence; o != ANALYSIS_NONE && first == n; o = a->occurrences[o].parent)
            if (o == chosen) first = i;
    if (first == n) first = 0;
    bool *seen = xcalloc(p->kernels.n + 1, sizeof *seen);
    size_t i = first;
    for (; i < n && i - first < MAX_LAUNCHES && met < p->kernels.n; i++)
        for (size_t k = 0; k < p->kernels.n; k++)
            if (p->kernels.v[k] == v[i].row && !seen[k]) {
                seen[k] = true;
                met++;
            }
    free(seen);
    p->skip = first;
    p->count = MAX(i - first, 1);
}

static void find_launches(const struct analysis *a, struct ncu_plan *p) {
    const struct timeline *tl = a->timeline;
    uint32_t chosen = p->stage ? middle_occurrence(a, p->stage) : ANALYSIS_NONE;
    bool by_range = chosen != ANALYSIS_NONE && a->occurrences[chosen].range != TIMELINE_NONE;
    struct {
        struct passing *v;
        size_t n, cap;
    } all = { 0 };
    bool *wanted = xcalloc(a->nkernels + 1, sizeof *wanted);
    for (uint32_t row = 0; row < a->nkernels; row++) wanted[row] = wanted_name(a, p, row);
    if (by_range) make_range(a, a->occurrences[chosen].range, p);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t row = a->shape_kernel[tl->kernels.shape[i]], o = occurrence_of(a, i);
        if (!wanted[row] || (by_range && !in_range(a, chosen, o))) continue;
        vec_push(&all, ((struct passing){ launched_ns(tl, i), tl->kernels.start_ns[i], row, o }));
    }
    free(wanted);
    if (all.n) qsort(all.v, all.n, sizeof *all.v, by_time);
    place(a, all.v, all.n, chosen, p);
    free(all.v);
}

void ncu_plan_make(const struct analysis *a, size_t top, const char *stage, struct ncu_plans *out) {
    *out = (struct ncu_plans){ 0 };
    choose_kernels(a, top, stage, out);
    for (size_t i = 0; i < out->n; i++) {
        make_regex(a, &out->v[i]);
        find_launches(a, &out->v[i]);
    }
}

void ncu_plan_free(struct ncu_plans *p) {
    for (size_t i = 0; i < p->n; i++) {
        strbuf_free(&p->v[i].names);
        free(p->v[i].range);
        free(p->v[i].marked_range);
        free(p->v[i].kernels.v);
    }
    free(p->v);
    *p = (struct ncu_plans){ 0 };
}
