/* The time of stages. Every nanosecond of a device's timeline belongs to one innermost stage, to the row
 * between steps, or is unrecorded (docs/analysis.md). Work means kernels, copies and memsets.
 *   busy: belongs to the stage that launched the running work; while n pieces of work run, each gets 1/n.
 *   idle: before the launch of the next work, belongs to the stage that is open on the launching thread; from
 *         the launch on, to the stage of the launch. Before work whose launch is not in the trace, to the row
 *         between steps, like that work. Before the first work, to the stage that is open; after the last, to
 *         the stage that is open on the last launching thread.
 *   exposed: the part of busy in which communication kernels run and no other kernel.
 *   unrecorded: idle time outside of capture windows, and the time from a launch to its work if the work
 *         started later than unrecorded_limit_ns after the launch call returned, and after the last work of
 *         its process on another device. For the first work of a step, also the time from the start of the
 *         step to the launch. After the last work, also the time from a launch whose work is not in the
 *         trace, because recording ended first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/elsewhere.h"
#include "analyze/internal.h"
#include "analyze/interval_union.h"
#include "analyze/open_stage.h"
#include "analyze/sharing.h"
#include "analyze/step_devices.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* a wait longer than this multiple of the median launch delay counts as unrecorded */
#define UNRECORDED_DELAYS 10.0
#define UNRECORDED_LEAST_NS 50000.0 /* shorter waits never count as unrecorded */

/* Busy and idle time of an occurrence on the current device. */
struct occurrence_time {
    double busy_ns, idle_ns, copy_ns, exposed_ns;
    bool has_work;
};

struct time_walk {
    struct context *c;
    const struct open_stages *open;
    struct step_devices *steps;
    struct analysis_device *out;
    struct occurrence_time *times; /* [noccurrences] */
    struct idle_walk *idle;
    struct elsewhere *elsewhere;
    uint32_t device;
    struct sharing sharing; /* id: the occurrence */
    uint64_t frontier_ns;   /* latest end so far */
    uint32_t frontier_lane;
    uint32_t queued; /* first launch that was still queued when recording ended; TIMELINE_NONE: none */
};

static struct analysis_stage_device *row_on(const struct time_walk *w, uint32_t stage) {
    return &w->c->a->stage_devices[(size_t)stage * w->c->tl->ndevices + w->device];
}

/* ---- busy time */

static void give_busy(struct time_walk *w, const struct running *r, const struct shares *owned) {
    const struct analysis *a = w->c->a;
    double ns = owned->ns, alone_ns = r->is_kernel ? 0 : owned->copying_ns, exposed_ns = owned->exposed_ns;
    bool on_host = r->copy_kind == TRACE_COPY_HTOD || r->copy_kind == TRACE_COPY_DTOH;
    uint32_t o = r->id;
    do {
        struct analysis_stage_device *row =
            row_on(w, o == ANALYSIS_NONE ? w->c->outside : a->occurrences[o].stage);
        row->busy_ns += ns;
        row->copy_alone_ns += alone_ns;
        if (on_host) row->host_copy_alone_ns += alone_ns;
        if (r->copy_kind == TRACE_COPY_DTOD) row->device_copy_alone_ns += alone_ns;
        row->host_copies += on_host;
        row->exposed_ns += exposed_ns;
        row->kernels += r->is_kernel;
        row->copies += !r->is_kernel;
        if (o == ANALYSIS_NONE) return;
        w->times[o].busy_ns += ns;
        w->times[o].copy_ns += alone_ns;
        w->times[o].exposed_ns += exposed_ns;
        w->times[o].has_work = true;
        o = a->occurrences[o].parent;
    } while (o != ANALYSIS_NONE);
}

static void end_work_until(struct time_walk *w, uint64_t time_ns) {
    struct running r;
    struct shares owned;
    while (sharing_end(&w->sharing, time_ns, &r, &owned)) give_busy(w, &r, &owned);
}

/* ---- idle time */

/* The thread whose open stage receives the idle time. */
struct idle_thread {
    uint32_t thread; /* TIMELINE_NONE: unknown */
    uint32_t process;
};

static struct idle_thread thread_of(const struct timeline *tl, const struct work *w) {
    uint32_t launch = work_launch(tl, w), range = work_range(tl, w);
    uint32_t thread = launch != TIMELINE_NONE  ? tl->launches.thread[launch]
                      : range != TIMELINE_NONE ? tl->ranges.thread[range]
                                               : TIMELINE_NONE;
    return (struct idle_thread){ thread, thread == TIMELINE_NONE ? tl->lanes[w->lane].process
                                                                 : tl->threads[thread].process };
}

static double overlap_ns(uint64_t from, uint64_t to, uint64_t first, uint64_t last) {
    return MIN(to, last) > MAX(from, first) ? (double)(MIN(to, last) - MAX(from, first)) : 0;
}

/* Adds the causes of the idle time [from, to) to a row. */
static void add_causes(struct analysis_stage_device *row, uint64_t from, uint64_t to,
                       const struct idle_verdict *v) {
    uint64_t begin = 0;
    for (const struct idle_part *p = v->parts; begin < to; begin = p++->until_ns) {
        double ns = overlap_ns(from, to, begin, p->until_ns);
        row->cause_ns[p->cause] += ns;
        if (v->graph_removes && (p->cause == ANALYSIS_IDLE_LAUNCH || p->cause == ANALYSIS_IDLE_DEVICE))
            row->graph_removable_ns += ns;
    }
}

static void give_idle(struct time_walk *w, uint32_t occurrence, uint64_t from, uint64_t to,
                      const struct idle_verdict *v) {
    const struct analysis *a = w->c->a;
    uint32_t o = occurrence;
    do {
        uint32_t stage = o == ANALYSIS_NONE ? w->c->outside : a->occurrences[o].stage;
        struct analysis_stage_device *row = row_on(w, stage);
        row->idle_ns += (double)(to - from);
        add_causes(row, from, to, v);
        stream_stats_add(&w->c->stage_scratch[stage].gaps, (double)(to - from));
        if (o == ANALYSIS_NONE) return;
        w->times[o].idle_ns += (double)(to - from);
        o = a->occurrences[o].parent;
    } while (o != ANALYSIS_NONE);
}

/* Remembers the parts of the idle time [from, to) in which the host launched nothing. */
static void remember_quiet(struct time_walk *w, uint32_t thread, uint32_t occurrence, uint64_t from,
                           uint64_t to, const struct idle_verdict *v) {
    uint64_t begin = 0;
    if (thread == TIMELINE_NONE) return;
    for (const struct idle_part *p = v->parts; begin < to; begin = p++->until_ns)
        if (p->cause == ANALYSIS_IDLE_NO_WORK)
            host_work_add(w->c, &(struct quiet_period){ MAX(from, begin), MIN(to, p->until_ns), thread,
                                                        occurrence, v->call, TIMELINE_NONE });
}

/* Idle time [from, to). Before launched_ns it belongs to the occurrence that is open on `thread`; from
 * launched_ns on, to the occurrence `owner`. */
struct idle_span {
    uint64_t from, to, launched_ns;
    struct idle_thread thread;
    uint32_t owner;
};

/* Returns the occurrence that receives the idle time at `at`. *until: the time at which another may receive
 * it. */
static uint32_t idle_owner_at(const struct time_walk *w, const struct idle_span *s, uint64_t at,
                              uint64_t *until) {
    if (at >= s->launched_ns) {
        *until = s->to;
        return s->owner;
    }
    uint32_t o = open_stage_at(w->open, s->thread.thread, s->thread.process, at, until);
    if (*until < s->launched_ns) return o;
    *until = o == s->owner ? s->to : s->launched_ns; /* same owner: one gap */
    return o;
}

static void add_unrecorded(struct time_walk *w, uint64_t from, uint64_t to) {
    w->out->unrecorded_ns += (double)(to - from);
    vec_push(&w->c->unrecorded, ((struct unrecorded_period){ w->device, from, to }));
}

static void split_idle(struct time_walk *w, const struct idle_span *s, const struct idle_verdict *v) {
    for (uint64_t at = s->from, stage_until, captured_to, until; at < s->to; at = until) {
        uint32_t o = idle_owner_at(w, s, at, &stage_until);
        bool captured = captured_until(w->c->tl, s->thread.process, at, &captured_to);
        until = MIN(s->to, MIN(stage_until, captured_to));
        if (captured) {
            give_idle(w, o, at, until, v);
            if (o == ANALYSIS_NONE)
                vec_push(&w->c->outside_idle,
                         ((struct outside_period){ w->device, s->thread.process, at, until }));
            remember_quiet(w, s->thread.thread, o, at, until, v);
        } else {
            add_unrecorded(w, at, until);
        }
    }
}

/* Returns true if the launch of the work is missing although its process has launches, and the work is in no
 * stage. It was usually launched before recording began, and the stage that is open while it runs is a later
 * one. */
static bool launch_is_missing(const struct context *c, const struct work *w) {
    return work_launch(c->tl, w) == TIMELINE_NONE &&
           c->tl->processes[c->tl->lanes[w->lane].process].has_launches &&
           occurrence_of_work(c, w) == ANALYSIS_NONE;
}

/* Returns true if work that was launched in a call that returned at `returned_ns` starts so late that the
 * device must have run unrecorded work. */
static bool waits_too_long(const struct time_walk *w, uint64_t returned_ns, uint64_t started_ns) {
    return started_ns > returned_ns && (double)(started_ns - returned_ns) > w->out->unrecorded_limit_ns;
}

/* Sets the time of the launch of work of a step whose range had closed when the work started, in a trace
 * without launches: the call was made while the range was open. Mirrors name such a step (mirrors.c). */
static void guess_launch(const struct time_walk *w, struct idle_span *s) {
    const struct analysis_occurrence *o = &w->c->a->occurrences[s->owner];
    if (o->end_ns >= s->to) return;
    s->launched_ns = MAX(s->from, o->start_ns);
    if (waits_too_long(w, MAX(s->from, o->end_ns), s->to)) s->to = s->launched_ns;
}

/* Returns the start of the step if it began while the device had no recorded work, which is so for all steps
 * before the first work; UINT64_MAX: it began earlier. If the first work of a step waits for unrecorded work,
 * that work was launched before the step, unless the thread has waited for the device since then. */
static uint64_t step_start(const struct time_walk *w, uint32_t occurrence, uint32_t launch,
                           uint64_t idle_from_ns) {
    bool is_first = w->frontier_lane == TIMELINE_NONE;
    if (!is_first && idle_synchronised(w->idle, launch, idle_from_ns)) return UINT64_MAX;
    uint64_t start_ns = 0;
    for (uint32_t o = occurrence; o != ANALYSIS_NONE; o = w->c->a->occurrences[o].parent)
        start_ns = w->c->a->occurrences[o].start_ns;
    return is_first || start_ns >= idle_from_ns ? MAX(start_ns, idle_from_ns) : UINT64_MAX;
}

/* Distributes the idle time [from, to) before the work `next`. */
static void end_idleness(struct time_walk *w, uint64_t from, uint64_t to, const struct work *next) {
    const struct timeline *tl = w->c->tl;
    uint32_t launch = work_launch(tl, next);
    struct idle_verdict v = idle_classify(w->idle, from, to, launch, next->lane == w->frontier_lane);
    struct idle_span s = { from, to, to, thread_of(tl, next), occurrence_of_work(w->c, next) };
    if (launch != TIMELINE_NONE && !tl->devices[w->device].is_cpu) {
        uint64_t returned = MAX(tl->launches.end_ns[launch], from);
        s.launched_ns = MIN(to, MAX(tl->launches.start_ns[launch], from));
        /* A long launch call, such as one that loads a module, keeps the device idle. A long wait after the
         * call means that the device ran unrecorded work; the time of the call is then unrecorded too. */
        if (waits_too_long(w, returned, to) &&
            waits_too_long(w, MAX(returned, elsewhere_busy_until(w->elsewhere, s.thread.process, to)), to))
            s.to = MIN(s.launched_ns, step_start(w, s.owner, launch, from));
    }
    if (work_without_launches(tl, next) && s.owner != ANALYSIS_NONE) guess_launch(w, &s);
    bool is_first = w->frontier_lane == TIMELINE_NONE;
    if (!is_first && launch_is_missing(w->c, next)) s.launched_ns = from;
    split_idle(w, &s, &v);
    if (to > s.to) add_unrecorded(w, s.to, to);
}

/* Distributes the idle time from the end of the last work to the end of the timeline. `last`: the thread that
 * launched that work; `launched`: its launch is known. */
static void end_timeline(struct time_walk *w, uint64_t end_ns, struct idle_thread last, bool launched) {
    const struct timeline_launches *l = &w->c->tl->launches;
    bool is_cpu = w->c->tl->devices[w->device].is_cpu;
    enum analysis_idle_cause cause = launched && !is_cpu ? ANALYSIS_IDLE_NO_WORK : ANALYSIS_IDLE_UNKNOWN;
    struct idle_verdict v = { .parts = { { cause, UINT64_MAX } } };
    struct idle_span s = { w->frontier_ns, end_ns, end_ns, last, ANALYSIS_NONE };
    if (end_ns <= w->frontier_ns) return;
    if (w->queued != TIMELINE_NONE && !is_cpu &&
        waits_too_long(w, MAX(l->end_ns[w->queued], w->frontier_ns), end_ns))
        s.to = s.launched_ns = MAX(l->start_ns[w->queued], w->frontier_ns);
    split_idle(w, &s, &v);
    if (end_ns > s.to) add_unrecorded(w, s.to, end_ns);
}

/* ---- the device */

/* Sets launch_delay_ns, the median time from the end of a launch call to the start of its kernel, over
 * kernels that were launched while the device had no work. Derives unrecorded_limit_ns from it. */
static void set_unrecorded_limit(struct time_walk *w) {
    const struct timeline *tl = w->c->tl;
    struct work_walk walk = work_walk_device(tl, w->device);
    struct stream_stats delays = { 0 };
    uint64_t frontier = 0;
    bool first = true;
    for (struct work k; work_walk_next(&walk, &k); first = false) {
        uint32_t launch = work_launch(tl, &k);
        if (k.is_kernel && !first && launch != TIMELINE_NONE && tl->launches.start_ns[launch] >= frontier) {
            uint64_t called = tl->launches.end_ns[launch];
            stream_stats_add(&delays, k.start_ns > called ? (double)(k.start_ns - called) : 0);
        }
        frontier = MAX(frontier, k.end_ns);
    }
    w->out->launch_delay_ns = delays.seen ? stream_stats_take(&delays).median : NAN;
    w->out->unrecorded_limit_ns =
        fmax(UNRECORDED_LEAST_NS,
             isnan(w->out->launch_delay_ns) ? 0 : UNRECORDED_DELAYS * w->out->launch_delay_ns);
}

/* First start and last end of the records of a process or device. */
struct bounds {
    uint64_t start_ns, end_ns;
};

static void extend_bounds(struct bounds *b, uint64_t start_ns, uint64_t end_ns) {
    b->start_ns = MIN(b->start_ns, start_ns);
    b->end_ns = MAX(b->end_ns, end_ns);
}

/* "cuda_profiler_range": the passes in which torch.profiler read hardware counters with CUPTI. */
bool analysis_is_recorders(const char *domain) {
    static const char *const domains[] = { "Trace", "overhead", "cuda_profiler_range" };
    for (size_t i = 0; i < COUNTOF(domains); i++)
        if (strcmp(domain, domains[i]) == 0) return true;
    return analysis_is_mirror(domain);
}

/* Ignores marks, because profilers set marks when they start. */
static struct bounds *process_bounds(const struct context *c) {
    const struct timeline *tl = c->tl;
    struct bounds *b = xmalloc((tl->nprocesses + 1) * sizeof *b);
    uint32_t last_domain = TIMELINE_NONE;
    bool skip = false;
    for (size_t i = 0; i < tl->nprocesses; i++) b[i] = (struct bounds){ UINT64_MAX, 0 };
    for (size_t i = 0; i < tl->ranges.n; i++) {
        if (tl->ranges.domain[i] != last_domain) {
            last_domain = tl->ranges.domain[i];
            skip = analysis_is_recorders(timeline_text(tl, last_domain));
        }
        if (!skip && !(tl->ranges.flags[i] & TRACE_RANGE_MARK))
            extend_bounds(&b[tl->threads[tl->ranges.thread[i]].process], tl->ranges.start_ns[i],
                          tl->ranges.end_ns[i]);
    }
    for (size_t i = 0; i < tl->launches.n; i++)
        extend_bounds(&b[tl->threads[tl->launches.thread[i]].process], tl->launches.start_ns[i],
                      tl->launches.end_ns[i]);
    for (size_t i = 0; i < tl->syncs.n; i++)
        extend_bounds(&b[tl->threads[tl->syncs.thread[i]].process], tl->syncs.start_ns[i],
                      tl->syncs.end_ns[i]);
    for (size_t i = 0; i < tl->kernels.n; i++)
        extend_bounds(&b[tl->lanes[tl->kernels.lane[i]].process], tl->kernels.start_ns[i],
                      tl->kernels.end_ns[i]);
    for (size_t i = 0; i < tl->copies.n; i++)
        extend_bounds(&b[tl->lanes[tl->copies.lane[i]].process], tl->copies.start_ns[i],
                      tl->copies.end_ns[i]);
    return b;
}

/* Marks the processes that launch or run work on the device. They differ if a program's ranges and kernels
 * are in two files. Sets out->process to the first launching process. */
static void mark_processes(const struct time_walk *w, bool *uses) {
    const struct timeline *tl = w->c->tl;
    struct work_walk walk = work_walk_device(tl, w->device);
    memset(uses, 0, w->c->tl->nprocesses * sizeof *uses);
    for (struct work k; work_walk_next(&walk, &k);) {
        uint32_t process = thread_of(tl, &k).process;
        uses[process] = uses[tl->lanes[k.lane].process] = true;
        w->out->process = MIN(w->out->process, process);
    }
}

static struct bounds device_bounds(const struct context *c, const struct bounds *of_process,
                                   const bool *uses) {
    const struct timeline *tl = c->tl;
    struct bounds b = { UINT64_MAX, 0 };
    for (size_t p = 0; p < tl->nprocesses; p++)
        if (uses[p]) extend_bounds(&b, of_process[p].start_ns, of_process[p].end_ns);
    if (tl->cut_to_ns) { /* work may extend beyond the cut */
        b.start_ns = MAX(b.start_ns, tl->cut_from_ns);
        b.end_ns = MIN(b.end_ns, tl->cut_to_ns);
    }
    return b;
}

/* Adds the times on this device to the means of the occurrences, and clears w->times. An occurrence without
 * any work gets the idle time of the first device on which it has idle time. */
static void close_times(struct time_walk *w) {
    for (size_t i = 0; i < w->c->a->noccurrences; i++) {
        struct analysis_occurrence *o = &w->c->a->occurrences[i];
        struct occurrence_time *t = &w->times[i];
        if (t->has_work) {
            double n = o->devices++;
            o->busy_ns = (o->busy_ns * n + t->busy_ns) / (n + 1);
            o->copy_ns = (o->copy_ns * n + t->copy_ns) / (n + 1);
            o->exposed_ns = (o->exposed_ns * n + t->exposed_ns) / (n + 1);
            o->idle_ns = n > 0 ? (o->idle_ns * n + t->idle_ns) / (n + 1) : t->idle_ns;
        } else if (!o->devices && !(o->idle_ns > 0)) {
            o->idle_ns = t->idle_ns;
        }
        *t = (struct occurrence_time){ 0 };
    }
}

static void walk_work(struct time_walk *w, struct bounds b) {
    const struct context *c = w->c;
    struct work_walk walk = work_walk_device(c->tl, w->device);
    struct interval_union work = { 0 };
    struct idle_thread last = { TIMELINE_NONE, 0 };
    bool launched = false; /* the launch of the last work is known */
    w->frontier_ns = b.start_ns;
    w->frontier_lane = TIMELINE_NONE;
    for (struct work k; work_walk_next(&walk, &k);) {
        end_work_until(w, k.start_ns);
        if (k.start_ns > w->frontier_ns) end_idleness(w, w->frontier_ns, k.start_ns, &k);
        bool communicates =
            k.is_kernel && c->shape_category[c->tl->kernels.shape[k.index]] == KERNEL_CATEGORY_COMMUNICATION;
        uint8_t copy_kind = k.is_kernel ? TRACE_COPY_UNKNOWN : c->tl->copies.kind[k.index];
        sharing_start(&w->sharing, k.start_ns,
                      (struct running){ .end_ns = k.end_ns,
                                        .id = occurrence_of_work(c, &k),
                                        .is_kernel = k.is_kernel,
                                        .communicates = communicates,
                                        .copy_kind = copy_kind });
        interval_union_add(&work, k.start_ns, k.end_ns);
        idle_started(w->idle, work_launch(c->tl, &k));
        if (k.end_ns >= w->frontier_ns) {
            w->frontier_ns = k.end_ns;
            w->frontier_lane = k.lane;
        }
        last = thread_of(c->tl, &k);
        launched = work_launch(c->tl, &k) != TIMELINE_NONE;
    }
    end_work_until(w, UINT64_MAX);
    end_timeline(w, b.end_ns, last, launched);
    w->out->work_ns = (double)work.total_ns;
    w->out->timeline_ns = (double)(MAX(b.end_ns, w->frontier_ns) - b.start_ns);
}

/* Returns the first launch of the marked processes that was still queued when recording ended. */
static uint32_t first_queued(const struct context *c, const bool *uses) {
    const struct timeline_launches *l = &c->tl->launches;
    uint32_t first = TIMELINE_NONE;
    for (size_t p = 0; p < c->tl->nprocesses; p++) {
        uint32_t queued = uses[p] ? c->queued_launch[p] : TIMELINE_NONE;
        if (queued != TIMELINE_NONE && (first == TIMELINE_NONE || l->start_ns[queued] < l->start_ns[first]))
            first = queued;
    }
    return first;
}

static void walk_device(struct time_walk *w, const struct bounds *of_process, bool *uses) {
    const struct timeline_device *d = &w->c->tl->devices[w->device];
    w->out->process = ANALYSIS_NONE;
    if (!d->kernel_count && !d->copy_count) return;
    mark_processes(w, uses);
    step_devices_count(w->steps, w->device, uses);
    set_unrecorded_limit(w);
    w->queued = first_queued(w->c, uses);
    w->idle = idle_open(w->c, w->device);
    w->elsewhere = elsewhere_open(w->c, w->device);
    walk_work(w, device_bounds(w->c, of_process, uses));
    elsewhere_close(w->elsewhere);
    idle_close(w->idle);
    close_times(w);
}

/* A stage without work has the time of its ranges. Its idle time is only the part in which no other work
 * ran. */
static void forget_idle_without_work(struct context *c) {
    struct analysis *a = c->a;
    for (size_t i = 0; i < a->noccurrences; i++) {
        bool works = false;
        for (size_t d = 0; d < a->ndevices && !works; d++) {
            const struct analysis_stage_device *on = analysis_stage_on(a, a->occurrences[i].stage, d);
            works = on->kernels || on->copies;
        }
        if (!works) a->occurrences[i].idle_ns = 0;
    }
}

void analyze_stage_time(struct context *c) {
    struct analysis *a = c->a;
    struct bounds *bounds = process_bounds(c);
    bool *uses = xcalloc(c->tl->nprocesses + 1, sizeof *uses);
    struct open_stages *open = open_stages_make(c);
    struct step_devices *steps = step_devices_make(c);
    struct occurrence_time *times = xcalloc(a->noccurrences + 1, sizeof *times);
    a->stage_devices = analysis_alloc(c, a->nstages * c->tl->ndevices, sizeof *a->stage_devices);
    for (uint32_t d = 0; d < c->tl->ndevices; d++) {
        struct time_walk w = {
            .c = c, .open = open, .steps = steps, .out = &a->devices[d], .times = times, .device = d
        };
        walk_device(&w, bounds, uses);
        sharing_free(&w.sharing);
    }
    forget_idle_without_work(c);
    host_work_find_ranges(c);
    free(times);
    step_devices_free(steps);
    open_stages_free(open);
    free(uses);
    free(bounds);
}

struct analysis_timeline analysis_timeline(const struct analysis *a) {
    struct analysis_timeline t = { 0 };
    for (size_t i = 0; i < a->ndevices; i++) {
        if (!a->devices[i].kernels) continue;
        t.devices++;
        t.timeline_ns += a->devices[i].timeline_ns;
        t.unrecorded_ns += a->devices[i].unrecorded_ns;
        for (size_t s = 0; s < a->nstages; s++) {
            const struct analysis_stage_device *on = analysis_stage_on(a, s, i);
            if (!a->stages[s].outside) continue;
            t.between_ns += on->busy_ns + on->idle_ns;
            t.between_busy_ns += on->busy_ns;
        }
    }
    double n = (double)t.devices; /* 0: everything becomes NaN */
    t.timeline_ns /= n;
    t.unrecorded_ns /= n;
    t.between_ns /= n;
    t.between_busy_ns /= n;
    return t;
}
