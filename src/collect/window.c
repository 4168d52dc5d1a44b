#include "collect/window.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "collect/activity.h"
#include "collect/attach.h"
#include "collect/budget.h"
#include "collect/callbacks.h"
#include "collect/cupti.h"
#include "collect/gemm.h"
#include "collect/output.h"
#include "collect/records.h"

/* Time for the last kernels of a window to run, where nothing tells that they did, and where something
 * would. */
#define DRAIN_NS 20000000u
#define DRAIN_MAX_NS 200000000u
#define LEAVE_TRIES 20 /* a few ms apart: for records that are on their way */

static struct {
    atomic_bool started, closed;
    atomic_int ranges;     /* open ranges that match */
    atomic_bool time_ok;   /* past the delay, before the end */
    atomic_bool budget_ok; /* not in debt */
    atomic_bool on;
    pthread_mutex_t switching;
    atomic_bool draining; /* the window is closed, but kernels are still recorded */
    atomic_bool leaving;  /* they are not any more, and CUPTI should leave */
    unsigned tries;       /* to make it leave */
    bool watched;         /* for the budget */
    uint64_t closed_mono_ns, closed_outside;
    uint64_t start_mono_ns, window_wall_ns;
    _Atomic uint64_t range_wall_ns; /* when the range began whose thread waits for the switch; 0: none does */
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

/* Have the window's last kernels run? A stream keeps its order: a kernel that was launched after the
 * window tells it of those before (what another stream still runs then is lost, and counted). Waiting
 * costs only who launches more, and so tells. */
static bool is_drained(uint64_t now) {
    if (!settings.launches) return now - win.closed_mono_ns >= DRAIN_NS;
    return records_counts().outside > win.closed_outside || now - win.closed_mono_ns >= DRAIN_MAX_NS;
}

static bool is_over(uint64_t now) {
    double passed_s = (double)(now - win.start_mono_ns) / 1e9;
    return settings.duration_s > 0 && passed_s >= settings.delay_s + settings.duration_s;
}

/* After what CUPTI has was handed out, which may hang in the driver and so holds no lock. */
static void after_flush(const atomic_bool *due, uint32_t how, void (*step)(void)) {
    if (!atomic_load(due) || !attach_enter()) return;
    cupti.flush_all(how);
    if (pthread_mutex_trylock(&win.switching) == 0) { /* else: next time */
        if (atomic_load(due)) step();
        pthread_mutex_unlock(&win.switching);
    }
    attach_exit();
}

/* CUPTI hands out a kernel without its times when kernels are switched off before it had a look at it:
 * they are switched off by the keeper, after a flush. What was launched meanwhile is left out (records.h). */
static void stop_kernels(void) {
    uint64_t before = clock_mono_ns();
    if (!is_drained(before)) return;
    activity_capture(false);
    atomic_store(&win.draining, false);
    win.tries = LEAVE_TRIES;
    atomic_store(&win.leaving, settings.budget_pct > 0 || is_over(before));
    budget_pay_switch(clock_mono_ns() - before);
}

static void ask_leave(void) {
    if (attach_ask_leave() || --win.tries == 0) atomic_store(&win.leaving, false);
}

/* Kernels are recorded before launches are: each launch of the window has its kernels, and what was
 * launched before, or by a call that was under way, is left out. Callbacks come first: CUPTI 13.0.1 hands
 * out no kernels any more after they were off and on again if they were asked for before the callbacks, at
 * the program's start. */
static void open_window(void) {
    callbacks_watch();
    atomic_store(&win.leaving, false);
    if (!atomic_exchange(&win.draining, false)) activity_capture(true);
    begin_window();
    callbacks_capture(true);
}

static void close_window(uint64_t now) {
    callbacks_capture(false);
    attach_window_closed();
    end_window();
    win.closed_mono_ns = now;
    win.closed_outside = records_counts().outside;
    atomic_store(&win.draining, true);
}

/* For measuring, while the GPU is idle and no thread is in a call: what follows must not pay for what was
 * on, so the records are handed out and everything goes off. */
static void park(void) {
    pthread_mutex_lock(&win.switching); /* a switch takes microseconds */
    if (attach_enter()) {
        cupti.flush_all(0);
        activity_capture(false);
        callbacks_park();
        attach_exit();
    }
    atomic_store(&win.draining, false);
    pthread_mutex_unlock(&win.switching);
}

/* False: CUPTI is not there yet, or will not be. */
static bool comes_again(void) {
    enum attach_state state = attach_again();
    if (state == ATTACH_REFUSED) atomic_store(&win.closed, true);
    return state == ATTACH_THERE;
}

static bool switch_to(bool on) {
    uint64_t before = clock_mono_ns();
    if (on) {
        if (!comes_again()) return false;
        open_window();
        attach_exit();
    } else {
        close_window(before);
    }
    gemm_capture(on);
    atomic_store(&win.on, on);
    budget_pay_switch(clock_mono_ns() - before);
    return true;
}

/* Nobody waits: who finds the switch taken leaves it to the one who has it, who looks again. */
static void settle(void) {
    bool go_on = true;
    while (go_on && wanted() != atomic_load(&win.on)) {
        if (pthread_mutex_trylock(&win.switching) != 0) return;
        bool on = wanted();
        if (on != atomic_load(&win.on)) go_on = switch_to(on);
        pthread_mutex_unlock(&win.switching);
    }
}

static void look_at_clock(uint64_t now) {
    double passed_s = (double)(now - win.start_mono_ns) / 1e9;
    atomic_store(&win.time_ok, passed_s >= settings.delay_s && !is_over(now));
}

/* The first window waits for a call, so calls are watched, but not before the delay is over. */
static void keep_budget(void) {
    if (settings.budget_pct <= 0 || !atomic_load(&win.time_ok)) return;
    if (pthread_mutex_trylock(&win.switching) != 0) return; /* next time */
    if (!win.watched) callbacks_watch();
    win.watched = true;
    atomic_store(&win.budget_ok, budget_allows(clock_mono_ns()));
    pthread_mutex_unlock(&win.switching);
}

void window_start(void) {
    uint64_t now = clock_mono_ns();
    bool known = settings.start_mono_ns && settings.start_mono_ns <= now;
    win.start_mono_ns = known ? settings.start_mono_ns : now;
    budget_start(now);
    look_at_clock(now);
    if (is_over(now))
        problem("nothing was captured: --delay and --duration count from the program's start and had passed "
                "when it first "
                "used CUDA, %.1f s after its start",
                (double)(now - win.start_mono_ns) / 1e9);
    atomic_store(&win.budget_ok, settings.budget_pct <= 0);
    atomic_store(&win.started, true);
    tell("capture.from", clock_wall_ns(), 0);
    gemm_capture(wanted());
    keep_budget();
    settle();
}

bool window_needs_ticks(void) { return atomic_load(&win.started) && window_is_partial(); }

void window_tick(uint64_t now) {
    if (!atomic_load(&win.started)) return;
    look_at_clock(now);
    keep_budget();
    settle();
    after_flush(&win.draining, 0, stop_kernels);
    after_flush(&win.leaving, FLUSH_FORCED, ask_leave);
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
    if (settings.arms && by < 0) park();
    atomic_store(&win.range_wall_ns, 0);
}

void window_finish(void) {
    atomic_store(&win.closed, true);
    pthread_mutex_lock(&win.switching); /* a switch takes microseconds */
    if (atomic_exchange(&win.on, false)) end_window();
    tell("capture.to", clock_wall_ns(), 0);
    pthread_mutex_unlock(&win.switching);
}
