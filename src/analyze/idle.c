/* Why a device waited. For a gap that ends with a kernel, in this order:
 *   1. Did a copy run? That part of the gap belongs to the copy.
 *   2. Is there no launch, or is the device the CPU? Unknown.
 *   3. Was the kernel launched before the gap began (or is it a later node of a running graph)? Then the
 *      host was not late: it is the latency from kernel to kernel on one stream or, over LATENCY_NS, a wait
 *      for another stream. The same holds for the time that follows the launch call by more than LATENCY_NS.
 *   4. Else the host was late. Was it in a synchronisation after the device became idle, or for most of the
 *      gap in calls that launch nothing (a blocking copy)? Synchronisation. Had it launched nothing for
 *      QUIET_NS before? No work. Else: launch gap. */
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

#define LATENCY_NS \
    20000 /* more than any GPU takes from a launch call, or from the end of a kernel, to the next start */
#define QUIET_NS 200000 /* a launching host needs 2 to 50 us per call, including Python */

struct interval {
    uint64_t start_ns, end_ns;
};
struct idle_walk {
    const struct context *c;
    struct { /* union of the device's copies */
        struct interval *v;
        size_t n, cap;
    } copies;
    bool on_cpu;       /* nothing is launched there */
    size_t copy;       /* first copy that may reach into the next gap */
    uint8_t *started;  /* [launches.n] whether a kernel of it has run */
    uint32_t *sync_at; /* [nthreads + 1] first of the thread's synchronisations in `syncs` */
    uint32_t *syncs;   /* those that block the host, by thread, then start */
};

static bool holds_host(const struct timeline *tl, size_t sync) {
    return tl->syncs.kind[sync] != TRACE_SYNC_STREAM_WAIT;
}

static void sort_syncs(struct idle_walk *w) {
    const struct timeline *tl = w->c->tl;
    w->sync_at = xcalloc(tl->nthreads + 2, sizeof *w->sync_at);
    w->syncs = xmalloc((tl->syncs.n + 1) * sizeof *w->syncs);
    for (size_t i = 0; i < tl->syncs.n; i++)
        if (holds_host(tl, i)) w->sync_at[tl->syncs.thread[i] + 2]++;
    for (size_t t = 2; t < tl->nthreads + 2; t++) w->sync_at[t] += w->sync_at[t - 1];
    for (size_t i = 0; i < tl->syncs.n; i++)
        if (holds_host(tl, i)) w->syncs[w->sync_at[tl->syncs.thread[i] + 1]++] = (uint32_t)i;
}

struct idle_walk *idle_open(const struct context *c, uint32_t device) {
    const struct timeline_device *d = &c->tl->devices[device];
    struct idle_walk *w = xcalloc(1, sizeof *w);
    w->c = c;
    w->on_cpu = d->is_cpu;
    for (size_t i = d->first_copy; i < d->first_copy + d->copy_count; i++) {
        struct interval v = { c->tl->copies.start_ns[i], c->tl->copies.end_ns[i] };
        struct interval *last = w->copies.n ? &w->copies.v[w->copies.n - 1] : NULL;
        if (last && v.start_ns <= last->end_ns)
            last->end_ns = MAX(last->end_ns, v.end_ns);
        else
            vec_push(&w->copies, v);
    }
    w->started = xcalloc(c->tl->launches.n + 1, 1);
    sort_syncs(w);
    return w;
}

void idle_close(struct idle_walk *w) {
    free(w->copies.v);
    free(w->started);
    free(w->sync_at);
    free(w->syncs);
    free(w);
}

/* Time of copies in [from, to). Must be called for gaps in order. */
static uint64_t copying(struct idle_walk *w, uint64_t from, uint64_t to) {
    uint64_t sum = 0;
    while (w->copy < w->copies.n && w->copies.v[w->copy].end_ns <= from) w->copy++;
    for (size_t i = w->copy; i < w->copies.n && w->copies.v[i].start_ns < to; i++)
        sum += MIN(to, w->copies.v[i].end_ns) - MAX(from, w->copies.v[i].start_ns);
    return sum;
}

/* True: the last synchronisation that the thread entered before `before` ended after `after`. */
static bool was_held(const struct idle_walk *w, uint32_t thread, uint64_t after, uint64_t before) {
    const struct timeline_syncs *y = &w->c->tl->syncs;
    size_t lo = w->sync_at[thread], hi = w->sync_at[thread + 1], first = lo;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (y->start_ns[w->syncs[mid]] < before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > first && y->end_ns[w->syncs[lo - 1]] > after;
}

/* Time in [from, to) that the thread spent inside calls that launch nothing: blocking copies, waits,
 * loading. */
#define CALLS_BACK 64
static uint64_t in_calls(const struct idle_walk *w, uint32_t launch, uint64_t from, uint64_t to) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint64_t sum = 0;
    uint32_t i = w->c->previous_launch[launch];
    for (int n = 0; n < CALLS_BACK && i != TIMELINE_NONE && l->end_ns[i] > from;
         n++, i = w->c->previous_launch[i]) {
        if (l->api_kind[i] == TIMELINE_API_KERNEL || l->api_kind[i] == TIMELINE_API_GRAPH) continue;
        uint64_t begin = MAX(l->start_ns[i], from), end = MIN(l->end_ns[i], to);
        if (end > begin) sum += end - begin;
    }
    return sum;
}

static enum analysis_idle_cause host_cause(const struct idle_walk *w, uint32_t launch, uint64_t from,
                                           uint64_t to) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint32_t before = w->c->previous_launch[launch];
    uint64_t last_call = before == TIMELINE_NONE ? from : l->end_ns[before];
    if (was_held(w, l->thread[launch], from, l->start_ns[launch])) return ANALYSIS_IDLE_SYNC;
    if (in_calls(w, launch, from, to) > (to - from) / 2) return ANALYSIS_IDLE_SYNC;
    if (l->start_ns[launch] > last_call + QUIET_NS) return ANALYSIS_IDLE_NO_WORK;
    return ANALYSIS_IDLE_LAUNCH;
}

/* The kernel was launched but had not started. A short wait after the kernel before it is latency; a longer
 * one is a wait for another stream. */
static enum analysis_idle_cause queued_cause(uint64_t waited_ns, bool same_lane) {
    return same_lane && waited_ns <= LATENCY_NS ? ANALYSIS_IDLE_DEVICE : ANALYSIS_IDLE_DEPENDENCY;
}

/* Splits [from, to) between the causes, without the time of copies. */
static void split(struct idle_walk *w, uint64_t from, uint64_t to, size_t kernel, bool same_lane,
                  double rest_ns, double causes[ANALYSIS_IDLE_CAUSES]) {
    const struct timeline *tl = w->c->tl;
    uint32_t launch = tl->kernels.launch[kernel];
    enum analysis_idle_cause cause = ANALYSIS_IDLE_UNKNOWN;
    double waited = 0;
    if (launch != TIMELINE_NONE && !w->on_cpu) {
        uint64_t launched = tl->launches.end_ns[launch];
        if (w->started[launch] || launched <= from) {
            cause = queued_cause((uint64_t)rest_ns, same_lane);
        } else {
            cause = host_cause(w, launch, from, MIN(to, MAX(launched, from)));
            if (to > launched + LATENCY_NS)
                waited = MIN(rest_ns, (double)(to - launched)); /* the host was not late */
        }
    }
    causes[ANALYSIS_IDLE_DEPENDENCY] += waited;
    causes[cause] += rest_ns - waited;
}

void idle_started(struct idle_walk *w, size_t kernel) {
    uint32_t launch = w->c->tl->kernels.launch[kernel];
    if (launch != TIMELINE_NONE) w->started[launch] = 1;
}

void idle_classify(struct idle_walk *w, uint64_t from_ns, uint64_t to_ns, size_t kernel, uint32_t lane_before,
                   double causes[ANALYSIS_IDLE_CAUSES], double *graph_removable_ns) {
    const struct timeline *tl = w->c->tl;
    uint32_t launch = tl->kernels.launch[kernel];
    uint64_t copy = copying(w, from_ns, to_ns);
    double rest = (double)(to_ns - from_ns - copy);
    causes[ANALYSIS_IDLE_COPY] += (double)copy;
    split(w, from_ns, to_ns, kernel, lane_before == tl->kernels.lane[kernel], rest, causes);
    bool in_graph = launch != TIMELINE_NONE && tl->launches.api_kind[launch] == TIMELINE_API_GRAPH;
    if (!in_graph) *graph_removable_ns += causes[ANALYSIS_IDLE_LAUNCH] + causes[ANALYSIS_IDLE_DEVICE];
}
