/* Classifies why a device waited before a kernel or copy. The rules apply in this order:
 *   1. The launch is unknown, or the device is the CPU: unknown.
 *   2. The launch call returned before the gap began, or other work of the same launch (a graph) has already
 *      started: the host was not late. A gap of at most LATENCY_NS after work on the same stream is
 *      kernel-to-kernel latency. Any other gap is a wait for another stream.
 *   3. Otherwise the host was late. Synchronisation: the thread waited for the device when the gap began, or
 *      it spent most of the gap in a synchronisation or in blocking copies. A synchronisation of a device
 *      that is idle already is no cause. If the thread then made no call for AFTER_SYNC_NS, the time after
 *      the synchronisation is no work. No work: the thread spent most of the gap in other calls that launch
 *      nothing (context creation, loading, allocation), and the part of the gap up to the last IDLE_QUIET_NS
 *      in which the thread made no call. The rest is a launch gap. If the work starts later than LATENCY_NS
 *      after the launch call, the time after the call is a wait for another stream. */
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/bisect.h"
#include "base/die.h"
#include "base/util.h"

/* Longest wait that counts as latency. GPUs need less from a launch call, or from the end of a kernel, to the
 * next start. */
#define LATENCY_NS 20000
/* After a synchronisation, hosts need up to some milliseconds to prepare the next launches. This time would
 * be hidden without the synchronisation. A longer time is other work of the host. */
#define AFTER_SYNC_NS 2000000

enum launch_seen {
    LAUNCH_STARTED = 1,   /* work of the launch has started */
    LAUNCH_WHILE_IDLE = 2 /* the call began while the device had no work */
};
struct idle_walk {
    const struct context *c;
    bool on_cpu;       /* no launches on this device */
    uint8_t *seen;     /* [launches.n]: flags of enum launch_seen */
    uint32_t *sync_at; /* [nthreads + 1]: index in `syncs` of the thread's first synchronisation */
    uint32_t *syncs;   /* synchronisations that block the host, sorted by thread, then start */
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
    struct idle_walk *w = xcalloc(1, sizeof *w);
    w->c = c;
    w->on_cpu = c->tl->devices[device].is_cpu;
    w->seen = xcalloc(c->tl->launches.n + 1, 1);
    sort_syncs(w);
    return w;
}

void idle_close(struct idle_walk *w) {
    free(w->seen);
    free(w->sync_at);
    free(w->syncs);
    free(w);
}

struct sync_key {
    const struct idle_walk *w;
    uint64_t time_ns;
};

static bool starts_before(const void *arg, size_t i) {
    const struct sync_key *k = arg;
    return k->w->c->tl->syncs.start_ns[k->w->syncs[i]] < k->time_ns;
}

struct period {
    uint64_t start_ns, end_ns;
};

/* Returns the index in `syncs` after the last synchronisation that the thread entered before `before`; the
 * thread's first index: there is none. */
static size_t syncs_until(const struct idle_walk *w, uint32_t thread, uint64_t before) {
    return bisect(w->sync_at[thread], w->sync_at[thread + 1], starts_before, &(struct sync_key){ w, before });
}

/* Returns the last synchronisation that the thread entered before `before`; zeros: none. */
static struct period last_sync(const struct idle_walk *w, uint32_t thread, uint64_t before) {
    const struct timeline_syncs *y = &w->c->tl->syncs;
    size_t next = syncs_until(w, thread, before);
    if (next == w->sync_at[thread]) return (struct period){ 0, 0 };
    return (struct period){ y->start_ns[w->syncs[next - 1]], y->end_ns[w->syncs[next - 1]] };
}

/* Returns the time in [from, to) that the launching thread spent in calls that launch nothing: blocking
 * copies, waits, loading. Sets *longest to the longest of them. Examines at most CALLS_BACK calls before the
 * launch. */
#define CALLS_BACK 64

/* Returns the thread's last call before the launch that does not contain it: tools may record a call within
 * another one. */
static uint32_t call_before(const struct idle_walk *w, uint32_t launch) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint32_t i = w->c->previous_launch[launch];
    for (int n = 0; n < CALLS_BACK && i != TIMELINE_NONE && l->end_ns[i] > l->start_ns[launch]; n++)
        i = w->c->previous_launch[i];
    return i;
}

static uint64_t in_calls(const struct idle_walk *w, uint32_t launch, uint64_t from, uint64_t to,
                         uint32_t *longest) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint64_t sum = 0, most = 0, counted_from = to;
    uint32_t i = call_before(w, launch);
    for (int n = 0; n < CALLS_BACK && i != TIMELINE_NONE && l->end_ns[i] > from;
         n++, i = w->c->previous_launch[i]) {
        if (l->api_kind[i] == TIMELINE_API_KERNEL || l->api_kind[i] == TIMELINE_API_GRAPH) continue;
        uint64_t begin = MAX(l->start_ns[i], from), end = MIN(l->end_ns[i], counted_from);
        if (end <= begin) continue;
        counted_from = begin;
        sum += end - begin;
        if (end - begin > most) *longest = i;
        most = MAX(most, end - begin);
    }
    return sum;
}

/* Returns the end of the last period of more than IDLE_QUIET_NS before the launch in which its thread made no
 * call; 0: none ended after `from`. Examines at most CALLS_BACK calls. */
static uint64_t last_quiet_end(const struct idle_walk *w, uint32_t launch, uint64_t from) {
    const struct timeline_launches *l = &w->c->tl->launches;
    for (int n = 0; n < CALLS_BACK && l->start_ns[launch] > from; n++) {
        uint32_t before = call_before(w, launch);
        uint64_t call_end = before == TIMELINE_NONE ? from : l->end_ns[before];
        if (l->start_ns[launch] > call_end + IDLE_QUIET_NS) return l->start_ns[launch];
        if (before == TIMELINE_NONE) break;
        launch = before;
    }
    return 0;
}

/* Returns when the launching thread stopped waiting for the device, if it waited when the device's work ended
 * at `at`: in a synchronisation, or in a copy that it called while the device had work; 0: it did not wait.
 * Calls of asynchronous copies may also end after the copy, but are short. Examines at most CALLS_BACK calls
 * before the launch. */
static uint64_t waited_at(const struct idle_walk *w, uint32_t launch, uint64_t at) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint64_t sync_end_ns = last_sync(w, l->thread[launch], at + 1).end_ns;
    if (sync_end_ns > at) return sync_end_ns;
    uint32_t i = w->c->previous_launch[launch];
    for (int n = 0; n < CALLS_BACK && i != TIMELINE_NONE && l->end_ns[i] > at;
         n++, i = w->c->previous_launch[i])
        if (l->api_kind[i] == TIMELINE_API_COPY && w->seen[i] == LAUNCH_STARTED &&
            l->start_ns[i] + LATENCY_NS <= at)
            return l->end_ns[i];
    return 0;
}

/* Returns true if the thread made no call for AFTER_SYNC_NS from `since` on, or up to the launch. */
static bool is_quiet_after(const struct idle_walk *w, uint32_t launch, uint64_t since) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint64_t next_ns = l->start_ns[launch];
    uint32_t i = call_before(w, launch);
    for (int n = 0; i != TIMELINE_NONE && l->start_ns[i] >= since; n++, i = w->c->previous_launch[i]) {
        if (n == CALLS_BACK) return false;
        next_ns = l->start_ns[i];
    }
    return next_ns > since + AFTER_SYNC_NS;
}

/* After an event, other work may be left. Examines at most CALLS_BACK synchronisations. */
bool idle_synchronised(const struct idle_walk *w, uint32_t launch, uint64_t since) {
    const struct timeline_launches *l = &w->c->tl->launches;
    const struct timeline_syncs *y = &w->c->tl->syncs;
    size_t first = w->sync_at[l->thread[launch]], i = syncs_until(w, l->thread[launch], l->start_ns[launch]);
    for (int n = 0; n < CALLS_BACK && i-- > first && y->end_ns[w->syncs[i]] >= since; n++)
        if (y->kind[w->syncs[i]] != TRACE_SYNC_EVENT) return true;
    return false;
}

static void add_part(struct idle_verdict *v, int *n, enum analysis_idle_cause cause, uint64_t until_ns) {
    v->parts[(*n)++] = (struct idle_part){ cause, until_ns };
}

/* Adds the parts of [from, to), in which the host was late. The last part ends at `to`. */
static void add_host_parts(const struct idle_walk *w, uint32_t launch, uint64_t from, uint64_t to,
                           struct idle_verdict *v, int *n) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint32_t before = call_before(w, launch);
    uint64_t call_end = before == TIMELINE_NONE ? from : l->end_ns[before], half = (to - from) / 2;
    struct period sync = last_sync(w, l->thread[launch], l->start_ns[launch]);
    uint64_t returned = MAX(from, MAX(call_end, sync.end_ns));
    uint32_t longest = TIMELINE_NONE;
    uint64_t waited = waited_at(w, launch, from);
    bool calling = in_calls(w, launch, from, to, &longest) > half;
    if (sync.end_ns > MAX(sync.start_ns, from) + half) waited = sync.end_ns;
    if (waited) returned = waited;
    if (!waited && calling && l->api_kind[longest] == TIMELINE_API_OTHER) {
        add_part(v, n, ANALYSIS_IDLE_NO_WORK, to);
        v->call = l->api[longest];
    } else if (waited || calling) {
        bool quiet = returned < to && is_quiet_after(w, launch, returned);
        add_part(v, n, ANALYSIS_IDLE_SYNC, quiet ? returned : to);
        if (quiet) add_part(v, n, ANALYSIS_IDLE_NO_WORK, to);
    } else {
        uint64_t quiet_end = last_quiet_end(w, launch, from);
        bool launched_at_once = quiet_end >= l->start_ns[launch] || quiet_end >= to;
        if (quiet_end) add_part(v, n, ANALYSIS_IDLE_NO_WORK, launched_at_once ? to : quiet_end);
        if (!quiet_end || !launched_at_once) add_part(v, n, ANALYSIS_IDLE_LAUNCH, to);
    }
}

/* Returns the cause of a wait after the launch: latency for a short wait after work on the same stream, else
 * a wait for another stream. */
static enum analysis_idle_cause queued_cause(uint64_t waited_ns, bool same_lane) {
    return same_lane && waited_ns <= LATENCY_NS ? ANALYSIS_IDLE_DEVICE : ANALYSIS_IDLE_DEPENDENCY;
}

void idle_started(struct idle_walk *w, uint32_t launch) {
    if (launch != TIMELINE_NONE) w->seen[launch] |= LAUNCH_STARTED;
}

/* Returns true if one of the thread's last CALLS_BACK calls before the launch launched a kernel or graph. */
static bool has_launched(const struct idle_walk *w, uint32_t launch) {
    const struct timeline_launches *l = &w->c->tl->launches;
    uint32_t i = w->c->previous_launch[launch];
    for (int n = 0; n < CALLS_BACK && i != TIMELINE_NONE; n++, i = w->c->previous_launch[i])
        if (l->api_kind[i] == TIMELINE_API_KERNEL || l->api_kind[i] == TIMELINE_API_GRAPH) return true;
    return false;
}

struct idle_verdict idle_classify(struct idle_walk *w, uint64_t from_ns, uint64_t to_ns, uint32_t launch,
                                  bool same_lane) {
    const struct timeline_launches *l = &w->c->tl->launches;
    struct idle_verdict v = { .parts = { { ANALYSIS_IDLE_UNKNOWN, UINT64_MAX } } };
    if (launch == TIMELINE_NONE || w->on_cpu) return v;
    uint64_t launched = l->end_ns[launch];
    bool started = w->seen[launch] & LAUNCH_STARTED;
    if (!started && l->start_ns[launch] >= from_ns) w->seen[launch] |= LAUNCH_WHILE_IDLE;
    /* A first or long launch call loads code, which a graph has to load too. */
    v.graph_removes = l->api_kind[launch] == TIMELINE_API_KERNEL && has_launched(w, launch) &&
                      launched <= l->start_ns[launch] + IDLE_QUIET_NS;
    if (started || launched <= from_ns) {
        v.parts[0].cause = queued_cause(to_ns - from_ns, same_lane);
        return v;
    }
    int n = 0;
    add_host_parts(w, launch, from_ns, MIN(to_ns, launched), &v, &n);
    /* after the launch call, the host was not late */
    if (to_ns > launched + LATENCY_NS)
        add_part(&v, &n, ANALYSIS_IDLE_DEPENDENCY, UINT64_MAX);
    else
        v.parts[n - 1].until_ns = UINT64_MAX;
    return v;
}
