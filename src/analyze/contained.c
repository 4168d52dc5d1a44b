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

struct doubt {
    const struct context *c;
    uint32_t device;
    double *doubtful_ns; /* [nstages] */
};

struct moment {
    const struct timeline *tl;
    uint64_t time_ns;
};

static bool starts_by(const void *arg, size_t kernel) {
    const struct moment *m = arg;
    return m->tl->kernels.start_ns[kernel] <= m->time_ns;
}

/* A kernel that runs across a moment, and the time until the device is idle after it. */
struct burst {
    size_t kernel; /* SIZE_MAX: none */
    uint64_t end_ns;
};

/* Only the last kernel that started before the moment is examined: a longer one on another stream is
 * independent work. */
static struct burst burst_across(const struct timeline *tl, uint32_t device, uint64_t time_ns,
                                 uint64_t limit_ns) {
    const struct timeline_kernels *k = &tl->kernels;
    size_t first = tl->devices[device].first_kernel, end = first + tl->devices[device].kernel_count,
           next = bisect(first, end, starts_by, &(struct moment){ tl, time_ns });
    if (next == first || k->start_ns[next - 1] == time_ns || k->end_ns[next - 1] <= time_ns)
        return (struct burst){ SIZE_MAX, time_ns };
    struct burst b = { next - 1, k->end_ns[next - 1] };
    for (; next < end && k->start_ns[next] <= b.end_ns + BURST_GAP_NS && b.end_ns < limit_ns; next++)
        b.end_ns = MAX(b.end_ns, k->end_ns[next]);
    b.end_ns = MIN(b.end_ns, limit_ns);
    return b;
}

static bool has_launches(const struct context *c, const struct analysis_occurrence *o) {
    return o->process == TIMELINE_NONE || c->tl->processes[o->process].has_launches;
}

/* Returns the start of the next occurrence of the stage in its process. */
static uint64_t next_start(const struct analysis *a, size_t i) {
    for (size_t k = i + 1; k < a->noccurrences; k++)
        if (a->occurrences[k].stage == a->occurrences[i].stage &&
            a->occurrences[k].process == a->occurrences[i].process &&
            a->occurrences[k].start_ns >= a->occurrences[i].end_ns)
            return a->occurrences[k].start_ns;
    return UINT64_MAX;
}

static void add_doubt(struct doubt *d, size_t i) {
    const struct analysis *a = d->c->a;
    const struct analysis_occurrence *o = &a->occurrences[i];
    struct burst after = burst_across(d->c->tl, d->device, o->end_ns, next_start(a, i)),
                 before = burst_across(d->c->tl, d->device, o->start_ns, o->end_ns);
    uint32_t owner = before.kernel == SIZE_MAX ? ANALYSIS_NONE : d->c->kernel_occurrence[before.kernel];
    if (after.kernel != SIZE_MAX) d->doubtful_ns[o->stage] += (double)(after.end_ns - o->end_ns);
    if (before.kernel != SIZE_MAX && (owner == ANALYSIS_NONE || a->occurrences[owner].stage != o->stage))
        d->doubtful_ns[o->stage] += (double)(before.end_ns - o->start_ns);
}

static double *find_doubt(const struct context *c) {
    struct doubt d = { .c = c, .doubtful_ns = xcalloc(c->a->nstages + 1, sizeof *d.doubtful_ns) };
    for (d.device = 0; d.device < c->tl->ndevices; d.device++) {
        if (c->tl->devices[d.device].is_cpu || c->tl->devices[d.device].joined) continue;
        for (size_t i = 0; i < c->a->noccurrences; i++) {
            const struct analysis_occurrence *o = &c->a->occurrences[i];
            if (!o->mirrored && !has_launches(c, o) &&
                (d.device >= 64 || o->device_bits >> d.device & 1 || !o->kernels))
                add_doubt(&d, i);
        }
    }
    return d.doubtful_ns;
}

/* Returns true if ranges tell which kernels are the stage's: all of its processes lack launches, and no
 * copies of its annotations name its kernels. */
static bool is_contained(const struct context *c, uint32_t stage) {
    bool any = false;
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (o->stage != stage) continue;
        if (o->mirrored || has_launches(c, o)) return false;
        any = true;
    }
    return any;
}

static const char *reason(const struct context *c, uint32_t stage, double doubtful_ns) {
    const struct analysis_stage *s = &c->a->stages[stage];
    double outside_ns = c->a->stages[c->outside].gpu_owned_self_ns, all_ns = 0;
    for (size_t i = 0; i < c->a->nstages; i++) all_ns += c->a->stages[i].gpu_owned_self_ns;
    bool labelled = s->token_source && strcmp(s->token_source, "range labels") == 0;
    if (doubtful_ns > DOUBTFUL_SHARE * s->gpu_owned_ns)
        return "its kernels run after its ranges have closed, and no launches tell which are its own";
    if (outside_ns > 0 && (!s->kernels || (labelled && outside_ns > OUTSIDE_SHARE * all_ns)))
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
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        struct analysis_occurrence *o = &c->a->occurrences[i];
        if (o->stage != stage) continue;
        o->devices = MAX(o->devices, 1);
        o->busy_ns = o->idle_ns = NAN;
    }
    analysis_note(c, ANALYSIS_WARNING, "%s: its time is unknown: %s. Record it with launches (CUDA API)",
                  s->path, why);
}

void analyze_contained(struct context *c) {
    struct analysis *a = c->a;
    if (!c->tl->containment || a->recognised || a->stages[0].implicit || a->cpu_only) return;
    double *doubtful_ns = find_doubt(c);
    for (uint32_t i = 0; i < a->nstages; i++) {
        const struct analysis_stage *s = &a->stages[i],
                                    *p = s->parent == ANALYSIS_NONE ? NULL : s - i + s->parent;
        if (s->outside || s->on_cpu || s->joined || !is_contained(c, i)) continue;
        const char *why = p && p->time_refused ? p->time_refused : reason(c, i, doubtful_ns[i]);
        if (why) refuse_time(c, i, why);
    }
    free(doubtful_ns);
}
