/* Stages whose kernels are unknown. Without launches, a kernel belongs to the range that was open when it
 * ran. This is right for a program that waits for the GPU at the end of each stage. If it does not, kernels
 * run after their range has closed, in no range or in the next one, and the stage's time is not that of its
 * ranges. The trace shows this in three ways:
 *   1. Kernels run across the end or the start of a range. The time until the device is idle then belongs
 *      to another stage than it seems to.
 *   2. No kernel ran in the stage, and kernels ran in no stage.
 *   3. The stage has the labels of a server, which contain all launches of a step, and kernels ran in no
 *      stage.
 * Copies of the annotations on the GPU contain the right kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/bisect.h"
#include "base/die.h"
#include "base/util.h"

/* A stage is unknown if more than this share of its kernel time may be that of another one. */
#define DOUBTFUL_SHARE 0.05
/* As in finding_run.c: kernels outside of stages are then usually not only those of other work. */
#define OUTSIDE_SHARE 0.2
/* Kernels with shorter gaps between them were launched in advance. */
#define BURST_GAP_NS 50000

struct moment {
    const struct timeline *tl;
    uint64_t time_ns;
};

static bool starts_by(const void *arg, size_t kernel) {
    const struct moment *m = arg;
    return m->tl->kernels.start_ns[kernel] <= m->time_ns;
}

/* The burst that begins with a kernel: it and those that follow it with shorter gaps. */
struct bursts {
    size_t first, n;  /* kernels of the device */
    uint64_t *end_ns; /* [n] */
    uint32_t *after;  /* [n]: the first kernel after the burst, counted from `first` */
};

/* From the last kernel to the first, so that a burst takes over whole bursts that begin in it. */
static struct bursts find_bursts(const struct timeline *tl, uint32_t device) {
    const struct timeline_kernels *k = &tl->kernels;
    struct bursts b = { .first = tl->devices[device].first_kernel, .n = tl->devices[device].kernel_count };
    b.end_ns = xmalloc((b.n + 1) * sizeof *b.end_ns);
    b.after = xmalloc((b.n + 1) * sizeof *b.after);
    for (size_t i = b.n; i-- > 0;) {
        uint64_t end_ns = k->end_ns[b.first + i];
        size_t next = i + 1;
        for (; next < b.n && k->start_ns[b.first + next] <= end_ns + BURST_GAP_NS; next = b.after[next])
            end_ns = MAX(end_ns, b.end_ns[next]);
        b.end_ns[i] = end_ns;
        b.after[i] = (uint32_t)next;
    }
    return b;
}

/* A kernel that runs across a moment, and the time until the device is idle after it. */
struct burst {
    size_t kernel; /* SIZE_MAX: none */
    uint64_t end_ns;
};

/* Only the last kernel that started before the moment is examined: a longer one on another stream is
 * independent work. */
static struct burst burst_across(const struct timeline *tl, const struct bursts *all, uint64_t time_ns,
                                 uint64_t limit_ns) {
    const struct timeline_kernels *k = &tl->kernels;
    size_t next = bisect(all->first, all->first + all->n, starts_by, &(struct moment){ tl, time_ns });
    if (next == all->first || k->start_ns[next - 1] == time_ns || k->end_ns[next - 1] <= time_ns)
        return (struct burst){ SIZE_MAX, time_ns };
    return (struct burst){ next - 1, MIN(all->end_ns[next - 1 - all->first], limit_ns) };
}

static bool has_launches(const struct context *c, const struct analysis_occurrence *o) {
    return o->process == TIMELINE_NONE || c->tl->processes[o->process].has_launches;
}

/* Steps of one stage and one process, in the order of their start. */
struct steps {
    const struct analysis *a;
    uint32_t *order; /* [noccurrences]: by stage, process and start */
    uint32_t *at;    /* [noccurrences]: position in `order` */
};

static bool same_steps(const struct analysis *a, uint32_t x, uint32_t y) {
    return a->occurrences[x].stage == a->occurrences[y].stage &&
           a->occurrences[x].process == a->occurrences[y].process;
}

static int steps_order(const void *pa, const void *pb, void *arg) {
    const struct analysis *a = arg;
    uint32_t x = *(const uint32_t *)pa, y = *(const uint32_t *)pb;
    const struct analysis_occurrence *o = &a->occurrences[x], *p = &a->occurrences[y];
    if (o->stage != p->stage) return o->stage < p->stage ? -1 : 1;
    if (o->process != p->process) return o->process < p->process ? -1 : 1;
    return x < y ? -1 : x > y; /* occurrences are sorted by start */
}

static struct steps sort_steps(const struct analysis *a) {
    struct steps s = { a, xmalloc((a->noccurrences + 1) * sizeof *s.order),
                       xmalloc((a->noccurrences + 1) * sizeof *s.at) };
    for (uint32_t i = 0; i < a->noccurrences; i++) s.order[i] = i;
    if (a->noccurrences) qsort_r(s.order, a->noccurrences, sizeof *s.order, steps_order, (void *)a);
    for (uint32_t i = 0; i < a->noccurrences; i++) s.at[s.order[i]] = i;
    return s;
}

struct end_of_step {
    const struct steps *steps;
    uint32_t step;
};

static bool begins_earlier(const void *arg, size_t position) {
    const struct end_of_step *e = arg;
    const struct analysis *a = e->steps->a;
    uint32_t other = e->steps->order[position];
    return same_steps(a, other, e->step) && a->occurrences[other].start_ns < a->occurrences[e->step].end_ns;
}

/* Returns the start of the next step, which begins when this one has ended. */
static uint64_t next_start(const struct steps *s, uint32_t i) {
    size_t next =
        bisect((size_t)s->at[i] + 1, s->a->noccurrences, begins_earlier, &(struct end_of_step){ s, i });
    bool found = next < s->a->noccurrences && same_steps(s->a, s->order[next], i);
    return found ? s->a->occurrences[s->order[next]].start_ns : UINT64_MAX;
}

/* What the stages' ranges show. */
struct doubts {
    const struct context *c;
    struct steps steps;
    double *ns;       /* [nstages]: kernel time that may be of another stage */
    bool *contained;  /* [nstages]: ranges tell which kernels are the stage's, because its processes have no
                         launches, and no copies of its annotations name its kernels */
    double kernel_ns; /* of all stages */
};

static void add_doubt(struct doubts *d, const struct bursts *bursts, uint32_t i) {
    const struct analysis *a = d->c->a;
    const struct analysis_occurrence *o = &a->occurrences[i];
    struct burst after = burst_across(d->c->tl, bursts, o->end_ns, next_start(&d->steps, i)),
                 before = burst_across(d->c->tl, bursts, o->start_ns, o->end_ns);
    uint32_t owner = before.kernel == SIZE_MAX ? ANALYSIS_NONE : d->c->kernel_occurrence[before.kernel];
    if (after.kernel != SIZE_MAX) d->ns[o->stage] += (double)(after.end_ns - o->end_ns);
    if (before.kernel != SIZE_MAX && (owner == ANALYSIS_NONE || a->occurrences[owner].stage != o->stage))
        d->ns[o->stage] += (double)(before.end_ns - o->start_ns);
}

static void add_device(struct doubts *d, uint32_t device) {
    const struct context *c = d->c;
    struct bursts bursts = find_bursts(c->tl, device);
    for (uint32_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        bool here = device >= 64 || o->device_bits >> device & 1 || !o->kernels;
        if (here && !o->mirrored && !has_launches(c, o)) add_doubt(d, &bursts, i);
    }
    free(bursts.end_ns);
    free(bursts.after);
}

static struct doubts find_doubts(const struct context *c) {
    const struct analysis *a = c->a;
    struct doubts d = { .c = c,
                        .steps = sort_steps(a),
                        .ns = xcalloc(a->nstages + 1, sizeof *d.ns),
                        .contained = xcalloc(a->nstages + 1, sizeof *d.contained) };
    for (uint32_t device = 0; device < c->tl->ndevices; device++)
        if (!c->tl->devices[device].is_cpu && !c->tl->devices[device].joined) add_device(&d, device);
    for (size_t i = 0; i < a->nstages; i++) d.kernel_ns += a->stages[i].gpu_owned_self_ns;
    for (size_t i = 0; i < a->noccurrences; i++) d.contained[a->occurrences[i].stage] = true;
    for (size_t i = 0; i < a->noccurrences; i++)
        if (a->occurrences[i].mirrored || has_launches(c, &a->occurrences[i]))
            d.contained[a->occurrences[i].stage] = false;
    return d;
}

static const char *reason(const struct doubts *d, uint32_t stage) {
    const struct analysis *a = d->c->a;
    const struct analysis_stage *s = &a->stages[stage];
    double outside_ns = a->stages[d->c->outside].gpu_owned_self_ns;
    bool labelled = s->token_source && strcmp(s->token_source, "range labels") == 0;
    if (d->ns[stage] > DOUBTFUL_SHARE * s->gpu_owned_ns)
        return "its kernels run after its ranges have closed, and no launches tell which are its own";
    if (outside_ns > 0 && (!s->kernels || (labelled && outside_ns > OUTSIDE_SHARE * d->kernel_ns)))
        return "kernels ran while no stage was open, and no launches tell which are its own";
    return NULL;
}

/* Removes what is not known of the stage. Its part of the timeline (stage_devices) and its owned time stay,
 * so that all parts add up; reports do not print them. */
static void refuse_time(struct context *c, uint32_t stage, const char *why) {
    struct analysis_stage *s = &c->a->stages[stage];
    s->time_refused = why;
    s->wall_total_ns = s->gpu_busy_ns = s->idle_ns = s->gpu_span_ns = s->copy_alone_ns = NAN;
    s->wall_ns = s->busy_ns = s->span_ns = s->token_ns = stats_none();
    analysis_note(c, ANALYSIS_WARNING, "%s: its time is unknown: %s. Record it with launches (CUDA API)",
                  s->path, why);
}

static void refuse_times_of_steps(struct analysis *a) {
    for (size_t i = 0; i < a->noccurrences; i++) {
        struct analysis_occurrence *o = &a->occurrences[i];
        if (!a->stages[o->stage].time_refused) continue;
        o->devices = MAX(o->devices, 1);
        o->busy_ns = o->idle_ns = NAN;
    }
}

void analyze_contained(struct context *c) {
    struct analysis *a = c->a;
    if (!c->tl->containment || a->recognised || a->stages[0].implicit || a->cpu_only) return;
    struct doubts d = find_doubts(c);
    for (uint32_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i],
                                    *p = s->parent == ANALYSIS_NONE ? NULL : s - i + s->parent;
        if (s->outside || s->on_cpu || s->joined || !d.contained[i]) continue;
        const char *why = p && p->time_refused ? p->time_refused : reason(&d, i);
        if (why) refuse_time(c, i, why);
    }
    refuse_times_of_steps(a);
    free(d.ns);
    free(d.contained);
    free(d.steps.order);
    free(d.steps.at);
}
