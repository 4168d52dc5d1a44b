/* The time of each kernel and copy within the time of its step. While several pieces of a step's work run,
 * the time counts for the one that started last. With its idle time, the roles of a step add up to the step.
 *
 * The time of a labelled step is the span of its own work. The time of a step that is a stage is its part of
 * the device's time (stage_time.c): while n pieces of work run on the device and m of them are the step's,
 * the step has m/n of the time. */
#include <stdlib.h>

#include "analyze/anatomy_internal.h"
#include "analyze/internal.h"
#include "analyze/sharing.h"
#include "analyze/work_walk.h"
#include "base/die.h"
#include "base/util.h"

uint64_t anatomy_work_start(const struct timeline *tl, const struct recognised_work *w) {
    return w->is_kernel ? tl->kernels.start_ns[w->index] : tl->copies.start_ns[w->index];
}
uint64_t anatomy_work_end(const struct timeline *tl, const struct recognised_work *w) {
    return w->is_kernel ? tl->kernels.end_ns[w->index] : tl->copies.end_ns[w->index];
}

/* ---- labelled steps */

/* `running` is a stack with room for n indices, the latest start on top. */
static void find_busy(const struct timeline *tl, const struct recognised_work *w, size_t n, uint32_t *running,
                      double *busy_ns) {
    size_t depth = 0;
    uint64_t now = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t next = i + 1 < n ? anatomy_work_start(tl, &w[i + 1]) : UINT64_MAX;
        running[depth++] = (uint32_t)i;
        now = MAX(now, anatomy_work_start(tl, &w[i]));
        while (depth && now < next) {
            size_t top = running[depth - 1];
            uint64_t end = anatomy_work_end(tl, &w[top]), to = MIN(end, next);
            if (to > now) {
                busy_ns[top] += (double)(to - now);
                now = to;
            }
            depth -= end <= now;
        }
    }
}

/* ---- steps that are stages */

/* The running work of a step. */
struct step_now {
    size_t depth;     /* of its stack; work in it may have ended, but not the top */
    size_t running;   /* the number m above */
    double shared_ns; /* the time so far, divided by n at each moment, at the last change of the step */
};

struct busy_walk {
    const struct context *c;
    struct step_now *steps; /* [nsteps] */
    uint32_t *kernel_work;  /* [kernels.n]: row of recognition.work; TIMELINE_NONE: of no step */
    uint32_t *copy_work;    /* [copies.n] */
    uint32_t *step_of;      /* [nwork] */
    uint32_t *stack;        /* [nwork]: the part of each step begins at its first work */
    bool *ended;            /* [nwork] */
    double *busy_ns;        /* [nwork] */
    struct sharing sharing; /* id: row of recognition.work */
};

static uint32_t *new_rows(size_t n) {
    uint32_t *rows = xmalloc((n + 1) * sizeof *rows);
    for (size_t i = 0; i < n; i++) rows[i] = TIMELINE_NONE;
    return rows;
}

static void open_walk(struct busy_walk *w, const struct context *c, double *busy_ns) {
    const struct recognition *r = &c->a->recognition;
    *w = (struct busy_walk){ .c = c,
                             .steps = xcalloc(r->nsteps + 1, sizeof *w->steps),
                             .kernel_work = new_rows(c->tl->kernels.n),
                             .copy_work = new_rows(c->tl->copies.n),
                             .step_of = new_rows(r->nwork),
                             .stack = new_rows(r->nwork),
                             .ended = xcalloc(r->nwork + 1, sizeof *w->ended),
                             .busy_ns = busy_ns };
    for (size_t s = 0; s < r->nsteps; s++)
        for (size_t i = r->steps[s].first; i < r->steps[s].first + r->steps[s].count; i++) {
            (r->work[i].is_kernel ? w->kernel_work : w->copy_work)[r->work[i].index] = (uint32_t)i;
            w->step_of[i] = (uint32_t)s;
        }
}

static void close_walk(struct busy_walk *w) {
    sharing_free(&w->sharing);
    free(w->steps);
    free(w->kernel_work);
    free(w->copy_work);
    free(w->step_of);
    free(w->stack);
    free(w->ended);
}

/* Gives the step's part of the time since its last change to the work on top of its stack. */
static void advance_step(struct busy_walk *w, uint32_t step, double shared_ns) {
    struct step_now *s = &w->steps[step];
    const uint32_t *stack = w->stack + w->c->a->recognition.steps[step].first;
    if (s->depth) w->busy_ns[stack[s->depth - 1]] += (double)s->running * (shared_ns - s->shared_ns);
    s->shared_ns = shared_ns;
}

static void start_work(struct busy_walk *w, uint32_t work) {
    uint32_t step = w->step_of[work];
    struct step_now *s = &w->steps[step];
    advance_step(w, step, w->sharing.sums.ns);
    w->stack[w->c->a->recognition.steps[step].first + s->depth++] = work;
    s->running++;
}

static void end_work(struct busy_walk *w, uint32_t work, double shared_ns) {
    uint32_t step = w->step_of[work];
    struct step_now *s = &w->steps[step];
    const uint32_t *stack = w->stack + w->c->a->recognition.steps[step].first;
    advance_step(w, step, shared_ns);
    w->ended[work] = true;
    s->running--;
    while (s->depth && w->ended[stack[s->depth - 1]]) s->depth--;
}

static void end_until(struct busy_walk *w, uint64_t time_ns) {
    struct running r;
    struct shares owned;
    while (sharing_end(&w->sharing, time_ns, &r, &owned))
        if (r.id != TIMELINE_NONE) end_work(w, r.id, r.sums.ns + owned.ns);
}

static void walk_device(struct busy_walk *w, size_t device) {
    struct work_walk walk = work_walk_device(w->c->tl, device);
    for (struct work k; work_walk_next(&walk, &k);) {
        uint32_t work = (k.is_kernel ? w->kernel_work : w->copy_work)[k.index];
        end_until(w, k.start_ns);
        sharing_start(&w->sharing, k.start_ns,
                      (struct running){ .end_ns = k.end_ns, .id = work, .is_kernel = k.is_kernel });
        if (work != TIMELINE_NONE) start_work(w, work);
    }
    end_until(w, UINT64_MAX);
}

static void find_parts(const struct context *c, double *busy_ns) {
    struct busy_walk w;
    open_walk(&w, c, busy_ns);
    for (size_t d = 0; d < c->tl->ndevices; d++) walk_device(&w, d);
    close_walk(&w);
}

double *anatomy_busy(const struct context *c) {
    const struct recognition *r = &c->a->recognition;
    double *busy_ns = xcalloc(r->nwork + 1, sizeof *busy_ns);
    if (c->a->recognised) {
        find_parts(c, busy_ns);
        return busy_ns;
    }
    uint32_t *running = new_rows(r->nwork);
    for (size_t i = 0; i < r->nsteps; i++)
        find_busy(c->tl, r->work + r->steps[i].first, r->steps[i].count, running,
                  busy_ns + r->steps[i].first);
    free(running);
    return busy_ns;
}
