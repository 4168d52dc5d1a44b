/* Finds the stages of a trace and their occurrences, assigns launches and kernels to them, and computes their
 * sums. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "analyze/stage_rules.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* analysis_step_at() examines at most this many steps; steps of several devices can be open at once */
#define STEPS_OPEN 64

/* Matches of the stage rules. Each name and category is matched once: a name can occur thousands of times. */
struct match_cache {
    struct {
        struct stage_match *v;
        size_t n, cap;
    } matches;
    bool *annotates; /* [ranges.n]: of annotation_ops() */
    uint32_t *at; /* [names x categories] 0: not matched yet; 1: not a stage; else index in `matches` + 2 */
};

static const struct stage_match *match_as(struct context *c, struct match_cache *cache, size_t range,
                                          uint8_t category) {
    const struct timeline_ranges *r = &c->tl->ranges;
    uint32_t *at = &cache->at[(size_t)r->name[range] * TRACE_CATEGORY_END + category];
    if (!*at) {
        struct stage_match m;
        *at = 1;
        if (stage_rules_match(c->in, timeline_text(c->tl, r->name[range]), category, &m)) {
            vec_push(&cache->matches, m);
            *at = (uint32_t)cache->matches.n + 1;
        }
    }
    return *at == 1 ? NULL : &cache->matches.v[*at - 2];
}

/* Returns the match of the range; NULL: none. An annotation that was recorded as an operator can be a phase,
 * but not a part of one: operators are named like parts (lm_head). */
static const struct stage_match *match_of(struct context *c, struct match_cache *cache, size_t range) {
    const struct timeline_ranges *r = &c->tl->ranges;
    if (r->flags[range] & TRACE_RANGE_MARK || analysis_is_recorders(timeline_text(c->tl, r->domain[range])))
        return NULL;
    const struct stage_match *m = match_as(c, cache, range, r->category[range]);
    if (m || !cache->annotates[range]) return m;
    m = match_as(c, cache, range, TRACE_CATEGORY_USER);
    return m && !m->nested_only ? m : NULL;
}

struct building {
    struct {
        struct analysis_stage *v;
        size_t n, cap;
    } stages;
    struct {
        struct analysis_occurrence *v;
        size_t n, cap;
    } occurrences;
};

static struct analysis_stage new_stage(const char *name, const char *path) {
    struct analysis_stage s = { .name = name,
                                .path = path,
                                .parent = ANALYSIS_NONE,
                                .wall_ns = stats_none(),
                                .busy_ns = stats_none(),
                                .host_each_ns = stats_none(),
                                .queue_ns = stats_none(),
                                .span_ns = stats_none(),
                                .token_ns = stats_none(),
                                .timing_ms = stats_none(),
                                .devices = 1,
                                .at_once = NAN,
                                .device_steps = 1,
                                .requests = 1,
                                .device_requests = 1,
                                .idle_known = true };
    FIGURES_UNKNOWN(&s, tokens_in);
    return s;
}

static uint32_t stage_row(struct context *c, struct building *b, const char *name, uint32_t parent) {
    for (uint32_t i = 0; i < b->stages.n; i++)
        if (b->stages.v[i].parent == parent && strcmp(b->stages.v[i].name, name) == 0) return i;
    const struct analysis_stage *p = parent == ANALYSIS_NONE ? NULL : &b->stages.v[parent];
    const char *path = p ? analysis_text(c, "%s/%s", p->path, name) : analysis_text(c, "%s", name);
    struct analysis_stage row = new_stage(analysis_text(c, "%s", name), path);
    row.parent = parent;
    row.parent_name = p ? p->name : NULL;
    row.depth = p ? p->depth + 1 : 0;
    vec_push(&b->stages, row);
    return (uint32_t)b->stages.n - 1;
}

/* Returns true if the occurrence or one that encloses it belongs to a stage of this name. A range inside such
 * an occurrence starts no new one: a glob may match both a loop and its steps. */
static bool inside_itself(const struct building *b, uint32_t occurrence, const char *name) {
    for (; occurrence != ANALYSIS_NONE; occurrence = b->occurrences.v[occurrence].parent)
        if (strcmp(b->stages.v[b->occurrences.v[occurrence].stage].name, name) == 0) return true;
    return false;
}

static uint32_t add_occurrence(struct context *c, struct building *b, uint32_t stage, uint32_t range,
                               uint32_t parent, const struct stage_match *m) {
    const struct timeline *tl = c->tl;
    bool whole = range == TIMELINE_NONE;
    struct analysis_occurrence o = { .stage = stage,
                                     .range = range,
                                     .parent = parent,
                                     .thread = whole ? TIMELINE_NONE : tl->ranges.thread[range],
                                     .device = TIMELINE_NONE,
                                     .start_ns = whole ? tl->start_ns : tl->ranges.start_ns[range],
                                     .end_ns = whole ? tl->end_ns : tl->ranges.end_ns[range],
                                     .tokens_in = m ? m->tokens_in : NAN,
                                     .tokens_out = m ? m->tokens_out : NAN,
                                     .keys = m ? m->keys : NAN };
    o.process = o.thread == TIMELINE_NONE ? TIMELINE_NONE : tl->threads[o.thread].process;
    o.wall_end_ns = o.end_ns;
    o.unfinished = !whole && tl->ranges.flags[range] & TRACE_RANGE_OPEN;
    vec_push(&b->occurrences, o);
    b->stages.v[stage].occurrences++;
    return (uint32_t)b->occurrences.n - 1;
}

/* Returns true if a range whose name looks like a stage (lm_head, vision_model) is only a module: it is
 * inside a range that the program marked as a stage, or the run was timed and no timed stage has this
 * name. */
static bool is_module(const struct context *c, const struct building *b, uint32_t around,
                      const struct stage_match *m) {
    if (!m->guessed) return false;
    if (around != ANALYSIS_NONE &&
        c->tl->ranges.category[b->occurrences.v[around].range] == TRACE_CATEGORY_STAGE)
        return true;
    for (size_t i = 0; c->in->one_run && i < c->in->ntimings; i++) {
        const char *slash = strrchr(c->in->timings[i].stage, '/');
        if (strcmp(slash ? slash + 1 : c->in->timings[i].stage, m->stage) == 0) return false;
    }
    return c->in->one_run && c->in->ntimings;
}

bool analysis_is_mirror(const char *domain) { return strcmp(domain, "gpu_user_annotation") == 0; }

/* Returns the occurrence, or the nearest one around it, that is still open at `time_ns`; ANALYSIS_NONE: none.
 * A range that began in a stage may end after the stage. */
static uint32_t still_open(const struct analysis_occurrence *v, uint32_t occurrence, uint64_t time_ns) {
    while (occurrence != ANALYSIS_NONE && v[occurrence].end_ns < time_ns) occurrence = v[occurrence].parent;
    return occurrence;
}

static void find_occurrences(struct context *c, struct building *b, struct match_cache *cache) {
    const struct timeline_ranges *r = &c->tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t around = r->parent[i] == TIMELINE_NONE ? ANALYSIS_NONE : c->range_occurrence[r->parent[i]];
        /* an instant at the end of a stage is in it, a range that starts there is not */
        around = still_open(b->occurrences.v, around, r->start_ns[i] + (r->end_ns[i] > r->start_ns[i]));
        c->range_occurrence[i] = around;
        const struct stage_match *m = match_of(c, cache, i);
        if (!m || (m->nested_only && around == ANALYSIS_NONE) || inside_itself(b, around, m->stage) ||
            is_module(c, b, around, m))
            continue;
        uint32_t parent = around == ANALYSIS_NONE ? ANALYSIS_NONE : b->occurrences.v[around].stage;
        uint32_t row = stage_row(c, b, m->stage, parent);
        c->range_occurrence[i] = add_occurrence(c, b, row, (uint32_t)i, around, m);
    }
}

static void add_whole_trace(struct context *c, struct building *b) {
    vec_push(&b->stages, new_stage("whole trace", "whole trace"));
    b->stages.v[0].implicit = true;
    add_occurrence(c, b, 0, TIMELINE_NONE, ANALYSIS_NONE, NULL);
    for (size_t i = 0; i < c->tl->ranges.n; i++) c->range_occurrence[i] = 0;
}

/* Makes each kind of recognised step a stage. Warm-up steps are a stage of their own. */
static void add_recognised(struct context *c, struct building *b) {
    const struct recognition *r = &c->a->recognition;
    c->a->recognised = true;
    for (size_t i = 0; i < c->tl->ranges.n; i++) c->range_occurrence[i] = ANALYSIS_NONE;
    for (size_t i = 0; i < r->nsteps; i++) {
        const struct recognised_step *s = &r->steps[i];
        uint32_t row = stage_row(c, b, s->warm_up ? "warm-up" : step_kind_name(s->kind), ANALYSIS_NONE);
        struct analysis_occurrence o = { .stage = row,
                                         .range = TIMELINE_NONE,
                                         .parent = ANALYSIS_NONE,
                                         .thread = s->thread,
                                         .process = s->process,
                                         .device = s->device,
                                         .start_ns = s->start_ns,
                                         .end_ns = s->end_ns,
                                         .wall_end_ns = s->end_ns,
                                         .tokens_in = s->tokens,
                                         .tokens_out = s->requests,
                                         .doubt = s->doubt };
        vec_push(&b->occurrences, o);
        b->stages.v[row].occurrences++;
        b->stages.v[row].warm_up = s->warm_up;
    }
}

/* Returns the row of the timing's parent, found by its name (top-level rows only) or by the path;
 * ANALYSIS_NONE: none. */
static uint32_t timing_parent(const struct building *b, const struct analyze_timing *t) {
    const char *slash = strrchr(t->stage, '/');
    size_t length = slash ? (size_t)(slash - t->stage) : 0;
    for (uint32_t i = 0; i < b->stages.n; i++) {
        const struct analysis_stage *s = &b->stages.v[i];
        if (t->parent && s->parent == ANALYSIS_NONE && strcmp(s->name, t->parent) == 0) return i;
        if (slash && strlen(s->path) == length && strncmp(s->path, t->stage, length) == 0) return i;
    }
    return ANALYSIS_NONE;
}

/* Returns false if the timing has no values, as for an image stage in a run without images. */
static bool timing_has_values(const struct analyze_timing *t) {
    return stats_of(t->ms, t->n).n || (t->work && !(isnan(t->work->floor_ms) && isnan(t->work->flops)));
}

/* Adds rows without occurrences for stages that were timed but are not in the trace. */
static void add_timed_stages(struct context *c, struct building *b) {
    for (size_t i = 0; i < c->in->ntimings; i++) {
        const struct analyze_timing *t = &c->in->timings[i];
        const char *slash = strrchr(t->stage, '/');
        bool has_row = false;
        for (size_t k = 0; k < b->stages.n && !has_row; k++)
            has_row = analysis_timing_is_of(t, &b->stages.v[k]);
        if (!has_row && timing_has_values(t))
            stage_row(c, b, slash ? slash + 1 : t->stage, timing_parent(b, t));
    }
}

/* Lists the rows below `parent` in order of first occurrence, with children directly after their parents. */
static void order_rows(struct building *b, uint32_t parent, uint32_t *order, size_t *n) {
    for (uint32_t i = 0; i < b->stages.n; i++) {
        if (b->stages.v[i].parent != parent) continue;
        order[(*n)++] = i;
        order_rows(b, i, order, n);
    }
}

static void order_stages(struct context *c, struct building *b) {
    struct analysis *a = c->a;
    size_t n = 0;
    uint32_t *order = xmalloc((b->stages.n + 1) * sizeof *order),
             *now = xmalloc((b->stages.n + 1) * sizeof *now);
    order_rows(b, ANALYSIS_NONE, order, &n);
    for (uint32_t i = 0; i < n; i++) now[order[i]] = i;
    a->stages = analysis_alloc(c, b->stages.n, sizeof *a->stages);
    for (size_t i = 0; i < n; i++) {
        a->stages[i] = b->stages.v[order[i]];
        if (a->stages[i].parent != ANALYSIS_NONE) a->stages[i].parent = now[a->stages[i].parent];
    }
    for (size_t i = 0; i < b->occurrences.n; i++) b->occurrences.v[i].stage = now[b->occurrences.v[i].stage];
    a->nstages = n;
    if (b->occurrences.v) analysis_keep(c, b->occurrences.v);
    a->occurrences = b->occurrences.v;
    a->noccurrences = b->occurrences.n;
    free(b->stages.v);
    free(order);
    free(now);
}

/* The outermost occurrences of one process, sorted by start. ends_before_ns is the latest end of the earlier
 * ones. Needed for launches by threads that never mark a stage (autograd, workers). */
struct process_stages {
    struct {
        uint32_t occurrence;
        uint64_t ends_before_ns;
    } * v;
    size_t n, cap;
};
struct outermost {
    struct process_stages *by_process; /* [nprocesses] */
    bool *marks_stages;                /* [nthreads] */
};

static struct outermost index_outermost(const struct context *c, bool implicit) {
    struct outermost x = { xcalloc(c->tl->nprocesses + 1, sizeof *x.by_process),
                           xcalloc(c->tl->nthreads + 1, sizeof *x.marks_stages) };
    for (size_t i = 0; i < c->a->noccurrences && !implicit; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        x.marks_stages[o->thread] = true;
        if (o->parent != ANALYSIS_NONE) continue;
        struct process_stages *p = &x.by_process[o->process];
        uint64_t ends = 0;
        if (p->n)
            ends = MAX(p->v[p->n - 1].ends_before_ns, c->a->occurrences[p->v[p->n - 1].occurrence].end_ns);
        p->v = vec_fit(p->v, p->n + 1, &p->cap, sizeof *p->v);
        p->v[p->n].occurrence = (uint32_t)i;
        p->v[p->n++].ends_before_ns = ends;
    }
    return x;
}

static void free_outermost(const struct context *c, struct outermost *x) {
    for (size_t i = 0; i < c->tl->nprocesses; i++) free(x->by_process[i].v);
    free(x->by_process);
    free(x->marks_stages);
}

static uint32_t only_open_occurrence(const struct context *c, const struct process_stages *p,
                                     uint64_t time_ns) {
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->a->occurrences[p->v[mid].occurrence].start_ns <= time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || p->v[lo - 1].ends_before_ns > time_ns) return ANALYSIS_NONE;
    uint32_t o = p->v[lo - 1].occurrence;
    return c->a->occurrences[o].end_ns >= time_ns ? o : ANALYSIS_NONE;
}

/* Returns the occurrence around `range` that is open at the time. If there is none and the thread never marks
 * a stage, returns the only one that is open in its process. *lent: the latter was used. */
static uint32_t occurrence_at(const struct context *c, const struct outermost *x, uint32_t range,
                              uint32_t thread, uint64_t time_ns, bool *lent) {
    uint32_t o = range == TIMELINE_NONE ? ANALYSIS_NONE : c->range_occurrence[range];
    o = still_open(c->a->occurrences, o, time_ns);
    *lent = o == ANALYSIS_NONE && !x->marks_stages[thread];
    return *lent ? only_open_occurrence(c, &x->by_process[c->tl->threads[thread].process], time_ns) : o;
}

static void assign_launches(struct context *c, const struct outermost *x, bool implicit) {
    const struct timeline_launches *l = &c->tl->launches;
    bool lent;
    c->launch_occurrence = xmalloc((l->n + 1) * sizeof *c->launch_occurrence);
    for (size_t i = 0; i < l->n; i++) {
        uint32_t *o = &c->launch_occurrence[i];
        *o = implicit ? 0 : occurrence_at(c, x, l->range[i], l->thread[i], l->start_ns[i], &lent);
        if (!implicit && lent && *o != ANALYSIS_NONE) c->lent_kernels += l->kernels[i];
    }
}

/* Returns the occurrence of work without launch: of the mirror that covers it, else by the range that was
 * open when it ran. An occurrence with a mirror has no work outside of it. */
static uint32_t contained_occurrence(const struct context *c, const struct outermost *x, uint32_t covered,
                                     uint32_t range, uint64_t start_ns) {
    bool lent;
    if (covered != ANALYSIS_NONE && covered != MIRRORS_DISAGREE) return covered;
    if (range == TIMELINE_NONE) return ANALYSIS_NONE;
    uint32_t open = occurrence_at(c, x, range, c->tl->ranges.thread[range], start_ns, &lent);
    for (uint32_t o = open; o != ANALYSIS_NONE && covered == ANALYSIS_NONE; o = c->a->occurrences[o].parent)
        if (c->a->occurrences[o].mirrored) return ANALYSIS_NONE;
    return open;
}

static void assign_kernels(struct context *c, const struct outermost *x) {
    const struct timeline_kernels *k = &c->tl->kernels;
    for (size_t i = 0; i < k->n; i++)
        c->kernel_occurrence[i] =
            k->launch[i] != TIMELINE_NONE
                ? c->launch_occurrence[k->launch[i]]
                : contained_occurrence(c, x, c->kernel_occurrence[i], k->range[i], k->start_ns[i]);
}

static void assign_copies(struct context *c, const struct outermost *x) {
    const struct timeline_copies *k = &c->tl->copies;
    for (size_t i = 0; i < k->n; i++)
        c->copy_occurrence[i] =
            k->launch[i] != TIMELINE_NONE
                ? c->launch_occurrence[k->launch[i]]
                : contained_occurrence(c, x, c->copy_occurrence[i], k->range[i], k->start_ns[i]);
}

/* c.copy_occurrence is needed only for copies of processes without launches. */
static void assign_device_work(struct context *c, const struct outermost *x, bool implicit) {
    const struct timeline *tl = c->tl;
    c->a->kernel_occurrence = c->kernel_occurrence =
        analysis_alloc(c, tl->kernels.n, sizeof *c->kernel_occurrence);
    for (size_t i = 0; i < tl->kernels.n; i++) c->kernel_occurrence[i] = implicit ? 0 : ANALYSIS_NONE;
    if (implicit) return;
    if (tl->containment) c->copy_occurrence = xmalloc((tl->copies.n + 1) * sizeof *c->copy_occurrence);
    for (size_t i = 0; c->copy_occurrence && i < tl->copies.n; i++) c->copy_occurrence[i] = ANALYSIS_NONE;
    analysis_use_mirrors(c);
    assign_kernels(c, x);
    if (c->copy_occurrence) assign_copies(c, x);
}

static void assign_work(struct context *c, bool implicit) {
    struct outermost x = index_outermost(c, implicit);
    assign_launches(c, &x, implicit);
    assign_device_work(c, &x, implicit);
    free_outermost(c, &x);
    if (!implicit) analysis_drop_empty_steps(c);
}

uint32_t analysis_step_at(const struct context *c, uint32_t process, uint64_t time_ns) {
    const struct analysis *a = c->a;
    size_t lo = 0, hi = a->noccurrences;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->occurrences[mid].start_ns <= time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (size_t i = lo, seen = 0; i-- > 0 && seen < STEPS_OPEN; seen++)
        if (a->occurrences[i].process == process && a->occurrences[i].end_ns > time_ns) return (uint32_t)i;
    return ANALYSIS_NONE;
}

/* Assigns kernels, copies and their launches to the steps in which they were found. Other kernels and copies
 * are outside of the steps. Other launches belong to the step that was open at the time of the call. */
static void assign_recognised(struct context *c) {
    const struct timeline *tl = c->tl;
    const struct recognition *r = &c->a->recognition;
    const struct timeline_launches *l = &tl->launches;
    c->launch_occurrence = xmalloc((l->n + 1) * sizeof *c->launch_occurrence);
    c->copy_occurrence = xmalloc((tl->copies.n + 1) * sizeof *c->copy_occurrence);
    c->kernel_occurrence = analysis_alloc(c, tl->kernels.n, sizeof *c->kernel_occurrence);
    for (size_t i = 0; i < l->n; i++)
        c->launch_occurrence[i] = analysis_step_at(c, tl->threads[l->thread[i]].process, l->start_ns[i]);
    for (size_t i = 0; i < tl->copies.n; i++) c->copy_occurrence[i] = ANALYSIS_NONE;
    for (size_t i = 0; i < tl->kernels.n; i++) c->kernel_occurrence[i] = ANALYSIS_NONE;
    for (uint32_t s = 0; s < r->nsteps; s++)
        for (size_t i = r->steps[s].first; i < r->steps[s].first + r->steps[s].count; i++) {
            uint32_t index = r->work[i].index,
                     launch = r->work[i].is_kernel ? tl->kernels.launch[index] : tl->copies.launch[index];
            *(r->work[i].is_kernel ? &c->kernel_occurrence[index] : &c->copy_occurrence[index]) = s;
            if (launch != TIMELINE_NONE) c->launch_occurrence[launch] = s;
        }
    c->a->kernel_occurrence = c->kernel_occurrence;
}

#define STAGE_MATRIX_MAX ((size_t)16 << 20)

static void alloc_scratch(struct context *c) {
    const struct analysis *a = c->a;
    c->stage_scratch = xcalloc(a->nstages + 1, sizeof *c->stage_scratch);
    c->occ_scratch = xcalloc(a->noccurrences + 1, sizeof *c->occ_scratch);
    for (size_t i = 0; i < a->noccurrences; i++) c->occ_scratch[i].device = ANALYSIS_NONE;
    if (c->tl && c->tl->nshapes && a->nstages < STAGE_MATRIX_MAX / c->tl->nshapes)
        c->shape_stage_ns = xcalloc(c->tl->nshapes * a->nstages, sizeof *c->shape_stage_ns);
}

/* Creates rows and occurrences for the stages marked in the trace, else for the recognised steps, else for
 * the whole trace as one stage. Returns true in the last case. */
static bool find_traced_stages(struct context *c, struct building *b) {
    const struct timeline_ranges *r = &c->tl->ranges;
    struct match_cache cache = { 0 };
    uint32_t names = 0;
    for (size_t i = 0; i < r->n; i++) names = MAX(names, r->name[i] + 1);
    cache.at = xcalloc((size_t)names * TRACE_CATEGORY_END + 1, sizeof *cache.at);
    cache.annotates = annotation_ops(c->tl);
    c->range_occurrence = analysis_alloc(c, r->n, sizeof *c->range_occurrence);
    c->a->range_occurrence = c->range_occurrence;
    find_occurrences(c, b, &cache);
    free(cache.at);
    free(cache.annotates);
    free(cache.matches.v);
    if (c->shape_category && !c->in->no_steps)
        recognise(c->tl, c->shape_category, c->in->phases, &c->a->recognition);
    if (!b->stages.n && c->a->recognition.nsteps) add_recognised(c, b);
    bool implicit = !b->stages.n;
    if (implicit) add_whole_trace(c, b);
    return implicit;
}

void analyze_stages(struct context *c) {
    struct building b = { 0 };
    bool implicit = c->tl && find_traced_stages(c, &b);
    add_timed_stages(c, &b);
    if (c->tl) {
        vec_push(&b.stages, new_stage("between steps", "between steps"));
        b.stages.v[b.stages.n - 1].outside = true;
    }
    order_stages(c, &b);
    if (c->tl) {
        c->outside = (uint32_t)c->a->nstages - 1;
        if (c->a->recognised)
            assign_recognised(c);
        else
            assign_work(c, implicit);
    }
    alloc_scratch(c);
}

/* ---- sums, computed after the walk over kernels */

/* One figure per occurrence; NaN: not available. */
typedef double occurrence_figure(const struct analysis_occurrence *o);

static double busy_figure(const struct analysis_occurrence *o) { return o->busy_ns; }
static double host_figure(const struct analysis_occurrence *o) { return (double)(o->end_ns - o->start_ns); }
static double span_figure(const struct analysis_occurrence *o) {
    return o->kernels ? (double)(o->gpu_last_ns - o->gpu_first_ns) : NAN;
}
static double queue_figure(const struct analysis_occurrence *o) {
    if (!o->kernels || !o->gpu_launched_ns) return NAN;
    return o->gpu_first_ns > o->gpu_launched_ns ? (double)(o->gpu_first_ns - o->gpu_launched_ns) : 0;
}

/* Computes statistics of the figure over the occurrences of each stage. Values are grouped by stage; those of
 * stage s begin at index first[s + 1]. */
static void figure_stats(struct context *c, occurrence_figure *figure, const size_t *first,
                         size_t field_offset) {
    struct analysis *a = c->a;
    double *v = xmalloc((a->noccurrences + 1) * sizeof *v);
    size_t *next = xmalloc((a->nstages + 2) * sizeof *next);
    memcpy(next, first, (a->nstages + 2) * sizeof *next);
    for (size_t i = 0; i < a->noccurrences; i++) {
        double x = figure(&a->occurrences[i]);
        if (!isnan(x) && analysis_counts(a, &a->occurrences[i])) v[next[a->occurrences[i].stage + 1]++] = x;
    }
    for (size_t s = 0; s < a->nstages; s++) {
        struct stats r = stats_of_sorting(v + first[s + 1], next[s + 1] - first[s + 1]);
        memcpy((char *)&a->stages[s] + field_offset, &r, sizeof r);
    }
    free(v);
    free(next);
}

static void occurrence_stats(struct context *c) {
    struct analysis *a = c->a;
    size_t *first = xcalloc(a->nstages + 3, sizeof *first);
    for (size_t i = 0; i < a->noccurrences; i++) {
        first[a->occurrences[i].stage + 2]++;
        a->stages[a->occurrences[i].stage].host_ns += host_figure(&a->occurrences[i]);
    }
    for (size_t s = 2; s < a->nstages + 2; s++) first[s] += first[s - 1];
    figure_stats(c, analysis_occurrence_time, first, offsetof(struct analysis_stage, wall_ns));
    figure_stats(c, busy_figure, first, offsetof(struct analysis_stage, busy_ns));
    figure_stats(c, host_figure, first, offsetof(struct analysis_stage, host_each_ns));
    figure_stats(c, queue_figure, first, offsetof(struct analysis_stage, queue_ns));
    figure_stats(c, span_figure, first, offsetof(struct analysis_stage, span_ns));
    free(first);
}

/* Returns how a stage uses a device: 3 kernels, 2 only copies, 1 only idle time, 0 nothing. A stage runs on
 * the devices with its highest value, and on none if it has no work. */
static int presence(const struct analysis_stage_device *d) {
    return d->kernels ? 3 : d->copies ? 2 : d->idle_ns > 0 ? 1 : 0;
}

static void add_device(struct analysis_stage *s, const struct analysis_stage_device *d) {
    s->gpu_busy_ns += d->busy_ns;
    s->idle_ns += d->idle_ns;
    s->copy_alone_ns += d->copy_alone_ns;
    for (int i = 0; i < ANALYSIS_IDLE_CAUSES; i++) s->idle.ns[i] += d->cause_ns[i];
    s->idle.graph_removable_ns += d->graph_removable_ns;
    s->device_steps += (double)d->steps;
    s->devices++;
}

static void sum_devices(struct context *c, size_t stage) {
    const struct analysis *a = c->a;
    struct analysis_stage *s = &a->stages[stage];
    double open_ns = 0, any_open_ns = 0;
    int most = s->outside ? 1 : 2;
    for (size_t d = 0; d < a->ndevices; d++) most = MAX(most, presence(analysis_stage_on(a, stage, d)));
    s->devices = 0;
    s->device_steps = 0;
    for (size_t d = 0; d < a->ndevices; d++) {
        const struct analysis_stage_device *on = analysis_stage_on(a, stage, d);
        if (presence(on) != most) continue;
        add_device(s, on);
        open_ns += on->open_ns;
        any_open_ns += on->any_open_ns;
    }
    double per_step = s->device_steps / (double)s->occurrences, time = s->gpu_busy_ns + s->idle_ns;
    s->wall_total_ns = !s->devices ? s->host_ns : time / (s->outside ? s->devices : per_step);
    s->at_once = any_open_ns > 0 ? open_ns / any_open_ns : NAN;
    s->devices = MAX(s->devices, 1);
    s->device_steps = MAX(s->device_steps, 1);
}

/* CPU operators are called, not launched. */
static void clear_launches(struct analysis_stage *s) {
    s->launches = s->graph_launches = 0;
    s->idle.launch_cost_ns = s->idle.launch_interval_ns = s->idle.launch_delay_ns = NAN;
    s->idle.graph_removable_ns = 0;
}

static void take_stream_stats(struct analysis_stage *s, struct stage_scratch *w) {
    bool any_queue = w->queue_seen > 0;
    s->idle.gaps = w->gaps.seen;
    s->idle.gap_ns = stream_stats_take(&w->gaps);
    s->idle.launch_delay_ns = stream_stats_take(&w->launch_delay).median;
    s->idle.launch_cost_ns = stream_stats_take(&w->launch_cost).median;
    s->idle.launch_interval_ns = stream_stats_take(&w->launch_interval).median;
    s->idle.queue_depth_mean = any_queue ? w->queue_depth_sum / (double)w->queue_seen : NAN;
    s->idle.queue_empty_share = any_queue ? (double)w->queue_empty / (double)w->queue_seen : NAN;
    if (s->kernels) s->kernel_mean_ns = w->kernel_sum_ns / (double)s->kernels;
}

void analyze_stages_finish(struct context *c) {
    struct analysis *a = c->a;
    occurrence_stats(c);
    for (size_t i = a->nstages; i-- > 0;) { /* children come after their parents */
        struct analysis_stage *s = &a->stages[i];
        s->gpu_owned_ns += s->gpu_owned_self_ns;
        if (s->parent != ANALYSIS_NONE) a->stages[s->parent].gpu_owned_ns += s->gpu_owned_ns;
        sum_devices(c, i);
        take_stream_stats(s, &c->stage_scratch[i]);
        if (s->on_cpu) clear_launches(s);
    }
}

bool analysis_window(const struct analysis *a, uint32_t stage, size_t max_kernels, uint64_t *start_ns,
                     uint64_t *end_ns) {
    const struct analysis_occurrence *best = NULL;
    double nearest = INFINITY;
    for (size_t i = 0; i < a->noccurrences; i++) {
        const struct analysis_occurrence *o = &a->occurrences[i];
        if (o->stage != stage) continue;
        double off = fabs(analysis_occurrence_time(o) - a->stages[stage].wall_ns.median);
        if (off < nearest || !best) { /* also if the time is unknown */
            nearest = off;
            best = o;
        }
    }
    if (!best) return false;
    *start_ns = best->start_ns;
    *end_ns = best->wall_end_ns;
    size_t seen = 0;
    for (size_t i = 0; best->kernels > max_kernels && i < a->timeline->kernels.n; i++) {
        if (a->timeline->kernels.start_ns[i] < *start_ns || ++seen <= max_kernels) continue;
        *end_ns = MIN(*end_ns, a->timeline->kernels.start_ns[i]);
        break;
    }
    return true;
}
