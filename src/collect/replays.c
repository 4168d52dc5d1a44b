#include "collect/replays.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "collect/abi.h"
#include "collect/attach.h"
#include "collect/call_clock.h"
#include "collect/calls.h"
#include "collect/cupti.h"
#include "collect/host.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/thread.h"
#include "collect/window.h"

#define MAX_GRAPHS 8192u /* a power of two */
#define MAX_PROBES 64u
/* Kernels take longer with a longer context. Therefore BURST_REPLAYS more replays are recorded after every
 * BURST_EVERY replays of a graph. */
#define BURST_REPLAYS 8u
#define BURST_EVERY 1024u
/* An updated graph may run other kernels. Therefore BURST_REPLAYS more replays are recorded after an update,
 * at most once per UPDATE_EVERY replays. */
#define UPDATE_EVERY 256u
/* The window closes after this many replays, counted from the last one that was needed, or earlier at a
 * synchronisation. */
#define MAX_UNNEEDED 4u
/* If a program launches more kernels than this between two replays, most of its work is outside of graphs,
 * and the window stays open. */
#define MAX_EAGER 128u

struct graph {
    _Atomic(void *) exec; /* program's handle; NULL: free entry */
    atomic_uint recorded, replays, wanted;
    atomic_uint id; /* CUPTI's graph id; 0: unknown */
};

static struct {
    struct graph graphs[MAX_GRAPHS];
    atomic_uint unneeded;         /* from the last needed one on */
    _Atomic uint64_t other_calls; /* graph launches and copies */
    _Atomic uint64_t eager_mark;  /* eager_launches() at the last replay */
    /* Kernel launches between two replays: usual maximum in windows, and current number outside of
     * windows. */
    atomic_uint usual_eager, eager;
    atomic_uint burst; /* replays to record after a reattach */
    /* launched all graphs; 0: none */
    _Atomic uintptr_t thread, stream;
    atomic_bool several; /* several threads or streams launch graphs */
    /* graph_launches and captured count since the attach; the other two are totals at the attach. */
    _Atomic uint64_t graph_launches, captured, attach_calls, attach_records;
    atomic_uint detach; /* number of the detach since which launches are counted; 0: CUPTI is attached */
    _Atomic uint64_t all_recorded, all_unrecorded; /* replays, for the budget */
} state;

uint64_t replays_recorded(void) { return atomic_load(&state.all_recorded); }
uint64_t replays_unrecorded(void) { return atomic_load(&state.all_unrecorded); }
bool replays_saw_graphs(void) { return atomic_load(&state.graph_launches) > 0; }

bool replays_are_sampled(void) {
    return settings.replays && settings.kernels && settings.launches && !settings.whole_graphs &&
           !settings.range[0] && !settings.empty && !settings.passing;
}

static void *first_parameter(const struct cupti_callback_data *d) {
    void *value = NULL;
    if (d->params) memcpy(&value, d->params, sizeof value);
    return value;
}

static void *second_parameter(const struct cupti_callback_data *d) {
    void *values[2] = { NULL, NULL };
    if (d->params) memcpy(values, d->params, sizeof values);
    return values[1];
}

/* cuGraphInstantiate...() stores the handle at the address in its first parameter. */
static void *new_graph(const struct cupti_callback_data *d) {
    void *at = first_parameter(d), *exec = NULL;
    if (at) memcpy(&exec, at, sizeof exec);
    return exec;
}

static struct graph *find_graph(void *exec, bool add) {
    size_t at = (size_t)((uintptr_t)exec * 0x9e3779b97f4a7c15u >> 40);
    for (unsigned i = 0; exec && i < MAX_PROBES; i++) {
        struct graph *g = &state.graphs[(at + i) % MAX_GRAPHS];
        void *now = atomic_load(&g->exec);
        if (!now && !add) return NULL;
        if (!now && atomic_compare_exchange_strong(&g->exec, &now, exec)) {
            atomic_store(&g->wanted, (unsigned)settings.replays);
            return g;
        }
        if (now == exec) return g;
    }
    return NULL;
}

static uint32_t graph_id(struct graph *g) {
    uint32_t id = g ? atomic_load(&g->id) : 0;
    if (id || !g || !cupti.graph_id || !attach_enter()) return id;
    if (cupti.graph_id(atomic_load(&g->exec), &id) != CUPTI_OK) id = 0;
    attach_exit();
    atomic_store(&g->id, id);
    return id;
}

static bool is_wanted(const struct graph *g) {
    return g && atomic_load(&g->recorded) < atomic_load(&g->wanted);
}

static void count_replay(struct graph *g, bool recorded) {
    if (!g) return;
    if (recorded) atomic_fetch_add(&g->recorded, 1);
    unsigned n = atomic_fetch_add(&g->replays, 1) + 1;
    if (n % BURST_EVERY == 0) atomic_store(&g->wanted, atomic_load(&g->recorded) + BURST_REPLAYS);
}

/* The handle of a destroyed graph may be reused. */
static void graph_reset(struct graph *g) {
    atomic_store(&g->id, 0);
    atomic_store(&g->recorded, 0);
    atomic_store(&g->replays, 0);
    atomic_store(&g->wanted, (unsigned)settings.replays);
}

static void graph_made(void *exec) {
    struct graph *g = find_graph(exec, false);
    if (g) graph_reset(g);
}

static void graph_updated(void *exec) {
    struct graph *g = find_graph(exec, false);
    if (!g || is_wanted(g)) return;
    unsigned replays = atomic_load(&g->replays), recorded = atomic_load(&g->recorded);
    if (recorded < settings.replays + replays / UPDATE_EVERY * BURST_REPLAYS)
        atomic_store(&g->wanted, recorded + BURST_REPLAYS);
}

/* Counts the calls of this thread that were captured. If calls of other threads are captured too, these seem
 * to lack a record, and CUPTI is not detached. */
static void note_capture(struct thread_state *t, bool begins) {
    uint64_t calls = atomic_load_explicit(&t->calls, memory_order_relaxed);
    if (!begins && atomic_load(&t->capturing))
        atomic_fetch_add(&state.captured, calls - atomic_load(&t->capture_calls));
    atomic_store(&t->capture_calls, calls);
    atomic_store(&t->capturing, begins);
}

static void note_graph_change(struct thread_state *t, enum call_class class,
                              const struct cupti_callback_data *d) {
    if (class == CALL_GRAPH_MADE) graph_made(new_graph(d));
    if (class == CALL_GRAPH_UPDATED) graph_updated(first_parameter(d));
    if (class == CALL_CAPTURE_BEGINS || class == CALL_CAPTURE_ENDS)
        note_capture(t, class == CALL_CAPTURE_BEGINS);
}

static void note_launcher(_Atomic uintptr_t *only, uintptr_t now) {
    uintptr_t none = 0;
    if (!atomic_compare_exchange_strong(only, &none, now) && none != now) atomic_store(&state.several, true);
}

/* ---- detaching */
void replays_count_detached(unsigned detach) { atomic_store(&state.detach, detach); }

static uint64_t eager_records(void) {
    struct record_counts c = records_counts();
    return c.kernels - c.graph_kernels + c.copies - c.graph_copies + c.untrusted;
}

bool replays_work_is_done(void) {
    uint64_t calls = thread_recorded_calls() - atomic_load(&state.attach_calls) -
                     atomic_load(&state.graph_launches) - atomic_load(&state.captured);
    return eager_records() - atomic_load(&state.attach_records) == calls;
}

void replays_attach_starts(void) {
    replays_count_detached(0);
    atomic_store(&state.graph_launches, 0);
    atomic_store(&state.captured, 0);
    atomic_store(&state.attach_calls, thread_recorded_calls());
    atomic_store(&state.attach_records, eager_records());
    thread_assume_captures();
}

void replays_resumed(void) {
    atomic_store(&state.burst, BURST_REPLAYS);
    atomic_store(&state.unneeded, 0);
}

/* Streams are compared by handle, the parameter of both cuGraphLaunch() and cuStreamSynchronize(). */
static void try_detach(enum call_class class, const struct cupti_callback_data *d) {
    bool same =
        class == CALL_SYNC_CONTEXT ||
        (class == CALL_SYNC_STREAM && (uintptr_t)first_parameter(d) + 1 == atomic_load(&state.stream));
    if (same && !atomic_load(&state.several)) window_try_detach();
}

/* ---- while CUPTI is detached */
static void note_detached(struct thread_state *t, void *exec, unsigned via, unsigned detach) {
    struct graph *g = find_graph(exec, false);
    if (t->graph == exec && t->graph_via != via) return; /* the function calls another one that is counted */
    t->graph = exec;
    t->graph_via = via;
    uint64_t now = call_clock_ns();
    struct trace_replay r = {
        .start_ns = now,
        .end_ns = now,
        .graph = g ? atomic_load(&g->id) : 0,
        .thread = t->tid,
        .detach = detach,
    };
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_replay(w, &r, 1);
    output_give();
}

void replays_launched(void *exec, unsigned via) {
    unsigned detach = atomic_load_explicit(&state.detach, memory_order_relaxed);
    int saved_errno;
    if (!detach || !host_enter(&saved_errno)) return;
    struct thread_state *t = thread_self();
    if (t) note_detached(t, exec, via, detach);
    host_leave(saved_errno);
}

void replays_graph_destroyed(void *exec) {
    struct graph *g = atomic_load(&state.detach) ? find_graph(exec, false) : NULL;
    if (g) graph_reset(g);
}

/* ---- outside of windows */
static void write_replay(struct graph *g, const struct cupti_callback_data *d, uint32_t tid,
                         uint64_t start_ns) {
    uint64_t now = call_clock_ns();
    struct trace_replay r = {
        .start_ns = start_ns ? start_ns : now,
        .end_ns = MAX(now, start_ns),
        .correlation = call_clock_id(d->correlation),
        .graph = graph_id(g),
        .thread = tid,
    };
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_replay(w, &r, 1);
    output_give();
}

void replays_call_starts(uint32_t id, const struct cupti_callback_data *d) {
    bool needed = false;
    if (call_launches_graph(id))
        needed = is_wanted(find_graph(first_parameter(d), true));
    else if (call_class(id) == CALL_LAUNCH)
        needed = atomic_fetch_add(&state.eager, 1) + 1 > atomic_load(&state.usual_eager) * 3 / 2;
    if (needed) window_replays(true);
}

void replays_call_ended(struct thread_state *t, uint32_t id, const struct cupti_callback_data *d,
                        uint64_t start_ns) {
    enum call_class class = call_class(id);
    note_graph_change(t, class, d);
    if (!call_launches_graph(id)) {
        try_detach(class, d);
        return;
    }
    struct graph *g = find_graph(first_parameter(d), true);
    atomic_store(&state.eager, 0);
    atomic_fetch_add(&state.all_unrecorded, 1);
    count_replay(g, false);
    note_launcher(&state.thread, (uintptr_t)pthread_self());
    note_launcher(&state.stream, (uintptr_t)second_parameter(d) + 1);
    write_replay(g, d, t->tid, start_ns);
}

/* ---- in windows */
static bool burst_is_on(void) {
    unsigned left = atomic_load(&state.burst);
    return left > 0 && atomic_compare_exchange_strong(&state.burst, &left, left - 1);
}

static uint64_t eager_launches(void) { return thread_recorded_calls() - atomic_load(&state.other_calls); }

static void close_window(void) {
    atomic_store(&state.unneeded, 0);
    atomic_store(&state.eager, 0);
    window_replays(false);
}

/* Returns true if the window should stay open: more replays are needed, or most work is outside of graphs. */
static bool note_recorded_replay(struct graph *g) {
    uint64_t launches = eager_launches(), eager = launches - atomic_exchange(&state.eager_mark, launches);
    unsigned usual = atomic_load(&state.usual_eager) / 8 * 7;
    bool burst = burst_is_on();
    count_replay(g, true);
    graph_id(g); /* while CUPTI is detached, the id cannot be read */
    atomic_store(&state.usual_eager, (unsigned)MAX(MIN(eager, MAX_EAGER), usual));
    return is_wanted(g) || burst || eager > MAX_EAGER;
}

/* The window closes when the program waits for the last replay, so that the window contains the whole
 * step. */
void replays_recorded_call_ended(struct thread_state *t, uint32_t id, const struct cupti_callback_data *d) {
    enum call_class class = call_class(id);
    note_graph_change(t, class, d);
    if (call_waits(class) && atomic_load(&state.unneeded)) {
        close_window();
        try_detach(class, d);
    }
    if (class == CALL_COPY) atomic_fetch_add(&state.other_calls, 1);
    if (!call_launches_graph(id)) return;
    atomic_fetch_add(&state.other_calls, 1);
    atomic_fetch_add(&state.graph_launches, 1);
    atomic_fetch_add(&state.all_recorded, 1);
    note_launcher(&state.thread, (uintptr_t)pthread_self());
    note_launcher(&state.stream, (uintptr_t)second_parameter(d) + 1);
    if (note_recorded_replay(find_graph(first_parameter(d), true)))
        atomic_store(&state.unneeded, 0);
    else if (atomic_fetch_add(&state.unneeded, 1) + 1 >= MAX_UNNEEDED)
        close_window();
}

void replays_after_fork(void) { memset(&state, 0, sizeof state); }
