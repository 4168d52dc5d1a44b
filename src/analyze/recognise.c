#include "analyze/recognise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/recognise_internal.h"
#include "analyze/work_walk.h"
#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"

#define PAUSE_STEPS 5.0 /* in median step times; a longer pause after a step is not part of it */
#define PAUSE_LEAST_NS 1e6

const char *step_kind_name(enum step_kind kind) {
    static const char *const names[STEP_KINDS] = { "step", "prefill", "decode", "mixed", "encode" };
    return (unsigned)kind < STEP_KINDS ? names[kind] : "";
}

/* ---- the work of a process on a device */

static struct item item_of(const struct timeline *tl, const struct shape_facts *shapes,
                           const struct work *w) {
    struct item i = { .start_ns = w->start_ns,
                      .end_ns = w->end_ns,
                      .index = (uint32_t)w->index,
                      .is_kernel = w->is_kernel,
                      .launch = work_launch(tl, w) };
    if (w->is_kernel) {
        i.shape = tl->kernels.shape[w->index];
        i.category = shapes[i.shape].category;
        i.in_graph = (tl->kernels.graph && tl->kernels.graph[w->index]) ||
                     (i.launch != TIMELINE_NONE && tl->launches.api_kind[i.launch] == TIMELINE_API_GRAPH);
    } else {
        i.copy = tl->copies.kind[w->index];
        i.bytes = tl->copies.bytes[w->index];
    }
    return i;
}

/* Marks the processes with kernels on the device in `uses` and returns their number. */
static size_t processes_on(const struct timeline *tl, uint32_t device, bool *uses) {
    size_t n = 0;
    memset(uses, 0, tl->nprocesses * sizeof *uses);
    for (size_t i = 0; i < tl->devices[device].kernel_count; i++) {
        uint32_t p = tl->lanes[tl->kernels.lane[tl->devices[device].first_kernel + i]].process;
        n += !uses[p];
        uses[p] = true;
    }
    return n;
}

static void read_items(struct group *g) {
    const struct timeline_device *d = &g->tl->devices[g->device];
    struct work_walk walk = work_walk_device(g->tl, g->device);
    g->items = xmalloc((d->kernel_count + d->copy_count + 1) * sizeof *g->items);
    for (struct work w; work_walk_next(&walk, &w);)
        if (g->tl->lanes[w.lane].process == g->process) g->items[g->n++] = item_of(g->tl, g->shapes, &w);
}

/* ---- steps */

struct building {
    struct recognition *r;
    size_t steps_cap, work_cap;
};

static uint64_t asked_ns(const struct timeline *tl, const struct item *i) {
    return i->launch == TIMELINE_NONE ? i->start_ns : tl->launches.start_ns[i->launch];
}

static void set_times(const struct group *g, const struct pass *p, struct recognised_step *s) {
    const struct timeline *tl = g->tl;
    uint32_t launch = g->items[p->first_anchor].launch;
    s->start_ns = s->gpu_start_ns = UINT64_MAX;
    for (size_t i = p->first; i < p->end; i++) {
        const struct item *it = &g->items[i];
        s->start_ns = MIN(s->start_ns, asked_ns(tl, it));
        s->gpu_start_ns = MIN(s->gpu_start_ns, it->start_ns);
        s->gpu_end_ns = MAX(s->gpu_end_ns, it->end_ns);
        s->end_ns =
            MAX(s->end_ns, it->launch == TIMELINE_NONE ? it->end_ns : tl->launches.end_ns[it->launch]);
    }
    s->thread = launch == TIMELINE_NONE ? TIMELINE_NONE : tl->launches.thread[launch];
}

static double median_step_ns(const struct recognised_step *s, size_t n) {
    double *v = xmalloc((n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (double)(MAX(s[i].end_ns, s[i].gpu_end_ns) - s[i].start_ns);
    double median = stats_of_sorting(v, n).median;
    free(v);
    return median;
}

/* Sets the ends of steps. A step ends at the first call of the next step. The last step, and a step before a
 * pause, end with their own work. */
static void join_steps(struct recognised_step *s, size_t n) {
    double pause_ns = fmax(PAUSE_STEPS * median_step_ns(s, n), PAUSE_LEAST_NS);
    for (size_t i = 0; i < n; i++) {
        uint64_t own_end = MAX(s[i].end_ns, s[i].gpu_end_ns);
        if (i + 1 == n) {
            s[i].end_ns = own_end;
        } else if (s[i + 1].start_ns <= own_end || (double)(s[i + 1].start_ns - own_end) < pause_ns) {
            s[i].end_ns = MAX(s[i + 1].start_ns, s[i].start_ns);
        } else {
            s[i].end_ns = own_end;
        }
    }
}

static void add_steps(struct building *b, struct group *g) {
    struct recognition *r = b->r;
    size_t first = r->nsteps;
    struct recognised_step *kinds = xcalloc(g->npasses + 1, sizeof *kinds);
    bool llm = recognise_rows(g, kinds);
    if (llm)
        recognise_context(g, kinds);
    else
        recognise_cut_copies(g);
    r->steps = vec_fit(r->steps, r->nsteps + g->npasses, &b->steps_cap, sizeof *r->steps);
    for (size_t i = 0; i < g->npasses; i++) {
        const struct pass *p = &g->passes[i];
        struct recognised_step s = { .certain = true,
                                     .tokens = NAN,
                                     .requests = NAN,
                                     .context = NAN,
                                     .context_least = NAN,
                                     .context_most = NAN };
        if (llm) s = kinds[i];
        s.device = g->device;
        s.process = g->process;
        s.first = r->nwork;
        s.count = p->end - p->first;
        s.layers = p->layers;
        set_times(g, p, &s);
        r->work = vec_fit(r->work, r->nwork + s.count, &b->work_cap, sizeof *r->work);
        for (size_t k = p->first; k < p->end; k++)
            r->work[r->nwork++] = (struct recognised_work){ g->items[k].index, g->items[k].is_kernel };
        r->steps[r->nsteps++] = s;
    }
    free(kinds);
    if (!g->npasses) return;
    join_steps(r->steps + first, g->npasses);
    if (llm) {
        r->llm = true;
        bool known = !g->by_softmax && !g->starts_inside && !g->ends_inside;
        r->layers = MAX(r->layers, known ? g->layers : 0);
        r->other_layers = MAX(r->other_layers, g->other_layers);
    }
    if (!r->boundary) r->boundary = g->boundary;
}

static int by_start(const void *a, const void *b) {
    const struct recognised_step *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

void recognise(const struct timeline *tl, const uint8_t *shape_category,
               const struct recognised_phases *whole, struct recognition *r) {
    *r = (struct recognition){ 0 };
    struct building b = { .r = r };
    struct shape_facts *shapes = recognise_shapes(tl, shape_category);
    bool *uses = xcalloc(tl->nprocesses + 1, sizeof *uses);
    for (uint32_t d = 0; d < tl->ndevices; d++) {
        if (tl->devices[d].is_cpu || !processes_on(tl, d, uses)) continue;
        for (uint32_t p = 0; p < tl->nprocesses; p++) {
            if (!uses[p]) continue;
            struct group g = { .tl = tl, .shapes = shapes, .device = d, .process = p };
            read_items(&g);
            recognise_cut(&g);
            add_steps(&b, &g);
            free(g.items);
            free(g.passes);
        }
    }
    if (r->nsteps) qsort(r->steps, r->nsteps, sizeof *r->steps, by_start);
    recognise_warm_up(r, tl->cut_to_ns ? whole : NULL, !tl->cut_to_ns);
    recognise_phases(tl, r);
    free(uses);
    free(shapes);
}

void recognise_free(struct recognition *r) {
    free(r->steps);
    free(r->work);
    *r = (struct recognition){ 0 };
}
