#include "collect/window.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/activity.h"
#include "collect/callbacks.h"
#include "collect/output.h"
#include "collect/thread.h"

#define CALL_COST_NS 1250.0        /* a recorded launch, kernel record included */
#define GRAPH_KERNEL_COST_NS 160.0 /* a kernel replayed from a graph */
#define MIN_WINDOW_NS 50000000u

static struct {
    atomic_bool started, closed;
    atomic_int ranges;     /* open ranges that match */
    atomic_bool time_ok;   /* past the delay, before the end */
    atomic_bool budget_ok; /* not in debt */
    atomic_bool on;
    pthread_mutex_t switching;
    uint64_t start_mono_ns, window_wall_ns;
    /* the account; the keeper's own */
    uint64_t last_tick_ns, window_mono_ns, calls, graph_kernels;
    double credit_ns;
    _Atomic uint64_t switch_ns;
} win = { .switching = PTHREAD_MUTEX_INITIALIZER };

static bool wanted(void) {
    return atomic_load(&win.started) && !atomic_load(&win.closed) && atomic_load(&win.time_ok) &&
           atomic_load(&win.budget_ok) && (!settings.range[0] || atomic_load(&win.ranges) > 0);
}

static bool is_partial(void) {
    return settings.range[0] || settings.delay_s > 0 || settings.duration_s > 0 || settings.budget_pct > 0;
}

static void end_window(void) {
    struct trace_writer *w = is_partial() ? output_take() : NULL;
    if (!w) return;
    trace_writer_meta(w, "capture.window", "%llu %llu", (unsigned long long)win.window_wall_ns,
                      (unsigned long long)clock_wall_ns());
    output_give();
}

static void switch_to(bool on) {
    uint64_t before = clock_mono_ns();
    if (!on) end_window();
    activity_capture(on);
    callbacks_capture(on);
    if (on) win.window_wall_ns = clock_wall_ns();
    atomic_store(&win.on, on);
    atomic_fetch_add(&win.switch_ns, clock_mono_ns() - before);
}

/* Nobody waits: who finds the switch taken leaves it to the one who has it, who looks again. */
static void settle(void) {
    while (wanted() != atomic_load(&win.on)) {
        if (pthread_mutex_trylock(&win.switching) != 0) return;
        bool on = wanted();
        if (on != atomic_load(&win.on)) switch_to(on);
        pthread_mutex_unlock(&win.switching);
    }
}

void window_start(void) {
    win.start_mono_ns = win.last_tick_ns = win.window_mono_ns = clock_mono_ns();
    atomic_store(&win.time_ok, settings.delay_s <= 0);
    atomic_store(&win.budget_ok, true);
    atomic_store(&win.started, true);
    settle();
}

bool window_needs_ticks(void) {
    return atomic_load(&win.started) &&
           (settings.delay_s > 0 || settings.duration_s > 0 || settings.budget_pct > 0);
}

static void keep_account(uint64_t now) {
    struct activity_counts c;
    activity_counts(&c);
    uint64_t calls = thread_calls(), switching = atomic_exchange(&win.switch_ns, 0);
    win.credit_ns += (double)(now - win.last_tick_ns) * settings.budget_pct / 100;
    win.credit_ns -= (double)(calls - win.calls) * CALL_COST_NS +
                     (double)(c.graph_kernels - win.graph_kernels) * GRAPH_KERNEL_COST_NS + (double)switching;
    win.credit_ns = MIN(win.credit_ns, (double)1000000000 * settings.budget_pct / 100); /* a second's worth */
    win.calls = calls;
    win.graph_kernels = c.graph_kernels;
    win.last_tick_ns = now;
    bool ok = atomic_load(&win.budget_ok);
    if (ok && win.credit_ns < 0 && now - win.window_mono_ns >= MIN_WINDOW_NS) {
        atomic_store(&win.budget_ok, false);
    } else if (!ok && win.credit_ns >= 0) {
        win.window_mono_ns = now;
        atomic_store(&win.budget_ok, true);
    }
}

void window_tick(uint64_t now) {
    if (!atomic_load(&win.started)) return;
    double passed_s = (double)(now - win.start_mono_ns) / 1e9;
    bool over = settings.duration_s > 0 && passed_s >= settings.delay_s + settings.duration_s;
    atomic_store(&win.time_ok, passed_s >= settings.delay_s && !over);
    if (settings.budget_pct > 0) keep_account(now);
    settle();
}

bool window_matches(const char *range_name) {
    return settings.range[0] && fnmatch(settings.range, range_name, 0) == 0;
}

void window_range(int by) {
    atomic_fetch_add(&win.ranges, by);
    settle();
}

void window_finish(void) {
    atomic_store(&win.closed, true);
    pthread_mutex_lock(&win.switching); /* a switch takes microseconds */
    if (atomic_exchange(&win.on, false)) end_window();
    pthread_mutex_unlock(&win.switching);
}
