#include "collect/window.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "collect/activity.h"
#include "collect/budget.h"
#include "collect/callbacks.h"
#include "collect/cupti.h"
#include "collect/gemm.h"
#include "collect/output.h"

#define DRAIN_NS 20000000u /* time for the last kernels of a window to run */

static struct {
    atomic_bool started, closed;
    atomic_int ranges;     /* open ranges that match */
    atomic_bool time_ok;   /* past the delay, before the end */
    atomic_bool budget_ok; /* not in debt */
    atomic_bool on;
    pthread_mutex_t switching;
    bool draining; /* the window is closed, but kernels are still recorded */
    uint64_t closed_mono_ns;
    uint64_t start_mono_ns, window_wall_ns;
    _Atomic uint64_t
        range_wall_ns; /* beginning of the range whose thread waits for the switch; 0: none does */
} win = { .switching = PTHREAD_MUTEX_INITIALIZER };

static bool wanted(void) {
    return atomic_load(&win.started) && !atomic_load(&win.closed) && atomic_load(&win.time_ok) &&
           atomic_load(&win.budget_ok) && (!settings.range[0] || atomic_load(&win.ranges) > 0);
}

bool window_is_partial(void) {
    return settings.range[0] || settings.delay_s > 0 || settings.duration_s > 0 || settings.budget_pct > 0;
}

/* A window is told when it opens, so that one which a crash leaves open is known, and again with its end. */
static void tell(const char *key, uint64_t from_ns, uint64_t to_ns) {
    struct trace_writer *w = window_is_partial() ? output_take() : NULL;
    if (!w) return;
    if (to_ns)
        trace_writer_meta(w, key, "%llu %llu", (unsigned long long)from_ns, (unsigned long long)to_ns);
    else
        trace_writer_meta(w, key, "%llu", (unsigned long long)from_ns);
    output_give();
}

static void begin_window(void) {
    uint64_t range = atomic_load(&win.range_wall_ns);
    win.window_wall_ns = range ? range : clock_wall_ns();
    tell("capture.window", win.window_wall_ns, 0);
}

static void end_window(void) { tell("capture.window", win.window_wall_ns, clock_wall_ns()); }

/* With the lock held. CUPTI hands out a kernel without its times when kernels are switched off before it had a look at
 * it: they are switched off by the keeper, after a flush. What was launched meanwhile is left out (records.h). */
static void stop_kernels(uint64_t now) {
    if (!win.draining || atomic_load(&win.on) || now - win.closed_mono_ns < DRAIN_NS) return;
    cupti.flush_all(0);
    uint64_t before = clock_mono_ns();
    activity_capture(false);
    win.draining = false;
    budget_pay_switch(clock_mono_ns() - before);
}

/* Launches are watched before kernels are recorded, so that every kernel finds its launch. */
static void open_window(void) {
    callbacks_capture(true);
    if (!win.draining) activity_capture(true);
    win.draining = false;
    begin_window();
}

static void close_window(uint64_t now) {
    end_window();
    callbacks_capture(false);
    win.closed_mono_ns = now;
    if (settings.arms)
        activity_capture(false); /* what is measured next must not pay for this; the GPU is idle here */
    else
        win.draining = true;
}

static void switch_to(bool on) {
    uint64_t before = clock_mono_ns();
    if (on)
        open_window();
    else
        close_window(before);
    gemm_capture(on);
    atomic_store(&win.on, on);
    budget_pay_switch(clock_mono_ns() - before);
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
    win.start_mono_ns = clock_mono_ns();
    budget_start(win.start_mono_ns);
    atomic_store(&win.time_ok, settings.delay_s <= 0);
    atomic_store(&win.budget_ok, true);
    atomic_store(&win.started, true);
    tell("capture.from", clock_wall_ns(), 0);
    gemm_capture(wanted());
    settle();
}

bool window_needs_ticks(void) { return atomic_load(&win.started) && window_is_partial(); }

void window_tick(uint64_t now) {
    if (!atomic_load(&win.started)) return;
    double passed_s = (double)(now - win.start_mono_ns) / 1e9;
    bool over = settings.duration_s > 0 && passed_s >= settings.delay_s + settings.duration_s;
    atomic_store(&win.time_ok, passed_s >= settings.delay_s && !over);
    if (settings.budget_pct > 0) atomic_store(&win.budget_ok, budget_allows(now));
    settle();
    if (pthread_mutex_trylock(&win.switching) != 0) return;
    stop_kernels(now);
    pthread_mutex_unlock(&win.switching);
}

bool window_matches(const char *range_name) {
    bool yes = settings.range[0] && fnmatch(settings.range, range_name, 0) == 0;
    const char *words = yes && settings.arms ? strchr(range_name, ' ') : NULL;
    if (words) settings_take_what(&settings, words + 1, problem);
    return yes;
}

void window_range(int by, uint64_t wall_ns) {
    if (by > 0) atomic_store(&win.range_wall_ns, wall_ns);
    atomic_fetch_add(&win.ranges, by);
    settle();
    atomic_store(&win.range_wall_ns, 0);
}

void window_finish(void) {
    atomic_store(&win.closed, true);
    pthread_mutex_lock(&win.switching); /* a switch takes microseconds */
    if (atomic_exchange(&win.on, false)) end_window();
    tell("capture.to", clock_wall_ns(), 0);
    pthread_mutex_unlock(&win.switching);
}
