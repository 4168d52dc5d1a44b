/* Computes which share of the trace, and of each stage, is outside of the capture windows, if kernels were
 * recorded only in windows. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

/* Returns the index of the first window of the process that ends after `time_ns`, or the index at which such
 * a window would be inserted. */
static size_t window_after(const struct timeline *tl, uint32_t process, uint64_t time_ns) {
    size_t lo = 0, hi = tl->nwindows;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct timeline_window *w = &tl->windows[mid];
        if (w->process < process || (w->process == process && w->end_ns <= time_ns))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_window_of(const struct timeline *tl, size_t window, uint32_t process) {
    return window < tl->nwindows && tl->windows[window].process == process;
}

static bool has_windows(const struct timeline *tl, uint32_t process) {
    return is_window_of(tl, window_after(tl, process, 0), process);
}

static double time_in_windows(const struct timeline *tl, uint32_t process, uint64_t from, uint64_t to) {
    double sum = 0;
    for (size_t i = window_after(tl, process, from);
         is_window_of(tl, i, process) && tl->windows[i].start_ns < to; i++)
        sum += (double)(MIN(tl->windows[i].end_ns, to) - MAX(tl->windows[i].start_ns, from));
    return sum;
}

bool captured_at(const struct timeline *tl, uint32_t process, uint64_t time_ns) {
    size_t i = window_after(tl, process, time_ns);
    return !has_windows(tl, process) || (is_window_of(tl, i, process) && tl->windows[i].start_ns <= time_ns);
}

bool captured_until(const struct timeline *tl, uint32_t process, uint64_t time_ns, uint64_t *until_ns) {
    size_t i = window_after(tl, process, time_ns);
    *until_ns = UINT64_MAX;
    if (!has_windows(tl, process)) return true;
    if (!is_window_of(tl, i, process)) return false;
    bool inside = tl->windows[i].start_ns <= time_ns;
    *until_ns = inside ? tl->windows[i].end_ns : tl->windows[i].start_ns;
    return inside;
}

bool analysis_is_truncated(const struct context *c) {
    return c->tl && (timeline_meta_value(c->tl, "import.problem.truncated") ||
                     timeline_meta_value(c->tl, "import.problem.damaged_compression"));
}

/* Returns the share of the time that windows cover, over the processes that recorded in windows; 1 if there
 * is no such process. The other processes recorded all the time and are not included. */
static double captured_share(const struct timeline *tl) {
    double captured = 0, all = 0;
    for (uint32_t p = 0; p < tl->nprocesses; p++) {
        if (!has_windows(tl, p)) continue;
        uint64_t from = tl->processes[p].capture_from_ns, to = tl->processes[p].capture_to_ns;
        if (!from) from = tl->start_ns;
        if (to <= from) to = MAX(tl->end_ns, from);
        captured += time_in_windows(tl, p, from, to);
        all += (double)(to - from);
    }
    return all > 0 ? captured / all : 1;
}

static void set_stage_shares(struct context *c) {
    const struct timeline *tl = c->tl;
    struct analysis *a = c->a;
    double *seen_ns = xcalloc(a->nstages + 1, sizeof *seen_ns);
    for (size_t i = 0; i < a->noccurrences; i++) {
        const struct analysis_occurrence *o = &a->occurrences[i];
        uint32_t process = o->process;
        if (process == TIMELINE_NONE) continue;
        double whole = (double)(o->end_ns - o->start_ns);
        seen_ns[o->stage] +=
            has_windows(tl, process) ? time_in_windows(tl, process, o->start_ns, o->end_ns) : whole;
    }
    for (size_t i = 0; i < a->nstages; i++) {
        struct analysis_stage *s = &a->stages[i];
        bool own_time = !s->implicit && !s->outside && s->host_ns > 0;
        s->missed = own_time ? MAX(0, 1 - seen_ns[i] / s->host_ns) : a->missed;
    }
    free(seen_ns);
}

void analyze_captured(struct context *c) {
    struct analysis *a = c->a;
    if (!c->tl->nwindows) return;
    a->missed = 1 - captured_share(c->tl);
    set_stage_shares(c);
}
