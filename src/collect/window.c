#include "collect/window.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/fixed.h"
#include "collect/activity.h"
#include "collect/attach.h"
#include "collect/background.h"
#include "collect/budget.h"
#include "collect/callbacks.h"
#include "collect/cupti.h"
#include "collect/gemm.h"
#include "collect/glob.h"
#include "collect/host.h"
#include "collect/launch_slots.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/replays.h"

/* After a window, kernel records stay enabled until its last kernels have finished: for DRAIN_NS if launches
 * are not recorded, otherwise at most DRAIN_MAX_NS (is_drained()). */
#define DRAIN_NS 20000000u
#define DRAIN_MAX_NS 200000000u
#define TICK_MS 5u
/* while replays_done is set */
#define DRAIN_TICK_MS 1u
/* Time between a detach, after enough replays of each graph were recorded, and the next attach. A cycle costs
 * the program about 12 ms: 3 ms to detach, 4 ms to attach, and the overhead of the recorded replays. */
#define RESUME_NS 2000000000u
#define SYNC_TRIES 5u   /* each try flushes CUPTI */
#define DETACH_TRIES 20 /* a few ms apart */

static struct {
    atomic_bool started, closed; /* closed: no more windows */
    atomic_int ranges;           /* open ranges that match */
    atomic_int warmups;          /* open ranges that match settings.warmup_range */
    atomic_bool time_ok;         /* between --delay and --duration */
    atomic_bool budget_ok;
    atomic_bool replays_done; /* enough replays were recorded */
    atomic_bool sampled;      /* replays_done was set once */
    uint64_t from_wall_ns;    /* time of window_start() */
    /* Tries left to detach CUPTI at a synchronisation after window_replays() has closed the window. Kernel
     * records stay enabled while tries are left (attach.h). */
    atomic_uint sync_tries;
    bool flushed;               /* the current try has flushed CUPTI; protected by `switching` */
    atomic_bool count_launches; /* replace launch slots: CUPTI was detached */
    _Atomic uint64_t resume_ns; /* time of the next attach; 0: none */
    atomic_bool on;             /* a window is open */
    pthread_mutex_t switching;  /* held while switching */
    atomic_bool draining;       /* window closed, kernel records enabled */
    atomic_bool detaching;      /* kernel records disabled; detach requested */
    unsigned detach_tries;      /* tries left */
    bool watched;               /* callbacks enabled for the budget */
    /* when the last window closed */
    uint64_t closed_mono_ns, closed_outside;
    uint64_t start_mono_ns;  /* --delay and --duration start here */
    uint64_t window_wall_ns; /* start of the window */
    /* Start of the range that is opening the window; 0: none. The window starts with the range. */
    _Atomic uint64_t range_wall_ns;
} win = { .switching = PTHREAD_MUTEX_INITIALIZER };

static bool capture_wanted(void) {
    return atomic_load(&win.started) && !atomic_load(&win.closed) && atomic_load(&win.time_ok) &&
           atomic_load(&win.budget_ok) && !atomic_load(&win.replays_done) &&
           (!settings.range[0] || atomic_load(&win.ranges) > 0);
}

static bool has_window_options(void) {
    return settings.range[0] || settings.delay_us || settings.duration_us || settings.budget_ppm;
}

bool window_is_partial(void) { return has_window_options() || atomic_load(&win.sampled); }

/* Does nothing if all kernels are captured. A window is written twice: when it opens (to_ns 0), in case the
 * program crashes, and when it ends. */
static void write_times(const char *key, uint64_t from_ns, uint64_t to_ns) {
    struct trace_writer *w = window_is_partial() ? output_take() : NULL;
    if (!w) return;
    if (to_ns)
        trace_writer_meta(w, key, "%llu %llu", (unsigned long long)from_ns, (unsigned long long)to_ns);
    else
        trace_writer_meta(w, key, "%llu", (unsigned long long)from_ns);
    output_give();
}

static void write_window_start(void) {
    uint64_t range = atomic_load(&win.range_wall_ns);
    win.window_wall_ns = range ? range : clock_wall_ns();
    write_times("capture.window", win.window_wall_ns, 0);
}

static void write_window_end(void) { write_times("capture.window", win.window_wall_ns, clock_wall_ns()); }

/* Returns true if the window's last kernels have finished, or after a time limit. A stream runs its kernels
 * in order, so the first record of a kernel that was launched after the window shows that the earlier kernels
 * of that stream are done. Kernels that still run on other streams are lost. */
static bool is_drained(uint64_t now) {
    if (atomic_load(&win.sync_tries) && now - win.closed_mono_ns < DRAIN_MAX_NS) return false;
    atomic_store(&win.sync_tries, 0);
    if (!settings.launches) return now - win.closed_mono_ns >= DRAIN_NS;
    return records_counts().outside > win.closed_outside || now - win.closed_mono_ns >= DRAIN_MAX_NS;
}

static uint64_t passed_us(uint64_t now) { return (now - win.start_mono_ns) / 1000; }

static bool is_over(uint64_t now) {
    return settings.duration_us && passed_us(now) >= settings.delay_us + settings.duration_us;
}

static void apply_state(void);

/* Flushes CUPTI and runs `step` if `due` is set. No lock is held during the flush, because it may hang in the
 * driver. */
static void after_flush(const atomic_bool *due, uint32_t how, void (*step)(void)) {
    if (!atomic_load(due) || !attach_enter()) return;
    cupti.flush_all(how);
    if (pthread_mutex_trylock(&win.switching) == 0) { /* else: try at the next tick */
        if (atomic_load(due)) step();
        pthread_mutex_unlock(&win.switching);
    }
    attach_exit();
    apply_state();
}

/* If kernel records are disabled too early, CUPTI delivers the last kernels without timestamps. Therefore
 * this function runs on the background thread, after a flush. */
static void stop_kernels(void) {
    uint64_t before = clock_mono_ns();
    if (!is_drained(before)) return;
    activity_capture(false);
    attach_kernels_disabled();
    atomic_store(&win.draining, false);
    win.detach_tries = DETACH_TRIES;
    atomic_store(&win.detaching, settings.budget_ppm || is_over(before));
    budget_charge_switch(clock_mono_ns() - before);
}

static void request_detach(void) {
    if (attach_request_detach() || --win.detach_tries == 0) atomic_store(&win.detaching, false);
}

/* Kernel records are enabled before launches are recorded, so that each recorded launch has its kernels.
 * Callbacks are enabled first: if kernel records are enabled before callbacks at the start of the program,
 * CUPTI 13.0.1 delivers no kernels after a later disable and enable. */
static void open_window(void) {
    callbacks_watch();
    atomic_store(&win.detaching, false);
    if (!atomic_exchange(&win.draining, false)) activity_capture(true);
    write_window_start();
    atomic_store(&win.sync_tries, 0);
    callbacks_count(false);
    callbacks_capture(true);
}

static void close_window(uint64_t now) {
    callbacks_capture(false);
    attach_window_closed();
    write_window_end();
    win.closed_mono_ns = now;
    win.closed_outside = records_counts().outside;
    atomic_store(&win.draining, true);
    if (atomic_load(&win.replays_done) ||
        (settings.budget_ppm && replays_are_sampled() && replays_saw_graphs())) {
        atomic_store(&win.sync_tries, attach_can_detach_graphs() ? SYNC_TRIES : 0);
        callbacks_count(true);
        background_wake();
    }
}

/* For overhead measurements (settings.arms), which compare blocks of work. Flushes and disables everything at
 * the end of a block, when the GPU is idle and no thread is inside a CUDA call. */
static void switch_all_off(void) {
    if (!lock_take(&win.switching, &host_locks)) return; /* held for microseconds */
    if (attach_enter()) {
        cupti.flush_all(0);
        activity_capture(false);
        callbacks_disable();
        attach_exit();
    }
    atomic_store(&win.draining, false);
    pthread_mutex_unlock(&win.switching);
    apply_state();
}

/* ATTACH_BUSY: try again later. ATTACH_FAILED: no more windows. */
static bool reattach(void) {
    enum attach_state state = attach_reattach();
    if (state == ATTACH_FAILED) atomic_store(&win.closed, true);
    return state == ATTACH_READY;
}

static bool switch_capture(bool on) {
    uint64_t before = clock_mono_ns();
    if (on) {
        if (!reattach()) return false;
        open_window();
        attach_exit();
    } else {
        close_window(before);
    }
    gemm_capture(on);
    atomic_store(&win.on, on);
    budget_charge_switch(clock_mono_ns() - before);
    return true;
}

/* Opens or closes the window as needed. If another thread holds the lock, the function returns at once.
 * Therefore every holder must call apply_state() after it has released the lock. */
static void apply_state(void) {
    bool again = true;
    while (again && capture_wanted() != atomic_load(&win.on)) {
        if (pthread_mutex_trylock(&win.switching) != 0) return;
        bool on = capture_wanted();
        if (on != atomic_load(&win.on)) again = switch_capture(on);
        pthread_mutex_unlock(&win.switching);
    }
}

static void update_time(uint64_t now) {
    atomic_store(&win.time_ok, passed_us(now) >= settings.delay_us && !is_over(now));
}

/* The first window of a budget waits for the first call. Therefore callbacks are enabled before it, once the
 * delay is over. */
static void update_budget(void) {
    if (!settings.budget_ppm || !atomic_load(&win.time_ok)) return;
    if (pthread_mutex_trylock(&win.switching) != 0) return; /* try again at the next tick */
    if (!win.watched) callbacks_watch();
    win.watched = true;
    atomic_store(&win.budget_ok, budget_allows(clock_mono_ns()));
    pthread_mutex_unlock(&win.switching);
    apply_state();
}

void window_start(void) {
    char seconds[FIXED_MAX];
    uint64_t now = clock_mono_ns();
    bool known = settings.start_mono_ns && settings.start_mono_ns <= now;
    win.start_mono_ns = known ? settings.start_mono_ns : now;
    budget_start(now);
    update_time(now);
    if (is_over(now))
        report_problem("nothing was captured: --delay and --duration count from the program's start and were "
                       "over when it first used CUDA, %s s after its start",
                       fixed_text((double)passed_us(now) / 1e6, 1, seconds));
    atomic_store(&win.budget_ok, settings.budget_ppm == 0);
    atomic_store(&win.started, true);
    win.from_wall_ns = clock_wall_ns();
    write_times("capture.from", win.from_wall_ns, 0);
    gemm_capture(capture_wanted());
    update_budget();
    apply_state();
}

bool window_needs_ticks(void) {
    return atomic_load(&win.started) && (has_window_options() || atomic_load(&win.draining));
}

bool window_is_idle(void) {
    return !atomic_load(&win.on) && !atomic_load(&win.draining) && !atomic_load(&win.warmups);
}

unsigned window_tick_ms(void) {
    return atomic_load(&win.replays_done) && atomic_load(&win.draining) ? DRAIN_TICK_MS : TICK_MS;
}

/* Until the first window closes, all kernels are recorded. Therefore "capture.from" is written only then. */
void window_replays(bool on) {
    if (!on && !atomic_exchange(&win.sampled, true)) write_times("capture.from", win.from_wall_ns, 0);
    atomic_store(&win.replays_done, !on);
    apply_state();
}

/* No graph may be launched between disabling kernel records and the detach. The calling thread is the only
 * thread that launches graphs. */
static bool disable_kernels_when_done(void) {
    uint64_t before = clock_mono_ns();
    cupti.flush_all(FLUSH_FORCED);
    win.flushed = true;
    bool done = replays_work_is_done();
    if (done) activity_capture(false);
    budget_charge_switch(clock_mono_ns() - before);
    return done;
}

void window_try_detach(void) {
    if (!atomic_load(&win.sync_tries) || pthread_mutex_trylock(&win.switching) != 0) return;
    unsigned tries = atomic_load(&win.sync_tries);
    if (tries && atomic_load(&win.draining)) {
        win.flushed = false;
        bool done = attach_detach_graphs(disable_kernels_when_done);
        /* A try that did not flush costs nothing: our background thread was inside CUPTI. */
        atomic_store(&win.sync_tries, done ? 0 : tries - win.flushed);
        if (done) {
            atomic_store(&win.draining, false);
            atomic_store(&win.resume_ns, clock_mono_ns() + RESUME_NS);
            replays_count_detached(attach_detach_count());
            atomic_store(&win.count_launches, true);
            background_wake();
        }
    }
    pthread_mutex_unlock(&win.switching);
}

/* The modules are visited after each detach, because the program may have loaded more of them. */
static void count_launches(void) {
    struct launch_slots slots;
    if (!atomic_exchange(&win.count_launches, false)) return;
    if (!launch_slots_replace(&slots)) {
        atomic_store(&win.count_launches, true);
        return;
    }
    struct trace_writer *w = output_take();
    if (!w) return;
    trace_writer_meta(w, "replays.slots", "replaced %u refused %u", slots.replaced, slots.refused);
    output_give();
}

static void resume_after_detach(uint64_t now) {
    uint64_t at = atomic_load(&win.resume_ns);
    if (!at || now < at) return;
    atomic_store(&win.resume_ns, 0);
    replays_resumed();
    window_replays(true);
}

void window_tick(uint64_t now) {
    if (!atomic_load(&win.started)) return;
    count_launches();
    resume_after_detach(now);
    update_time(now);
    update_budget();
    apply_state();
    after_flush(&win.draining, 0, stop_kernels);
    after_flush(&win.detaching, FLUSH_FORCED, request_detach);
}

enum window_role window_role(const char *range_name) {
    if (settings.warmup_range[0] && glob_match(settings.warmup_range, range_name)) return WINDOW_WARMUP;
    if (!settings.range[0] || !glob_match(settings.range, range_name)) return WINDOW_NONE;
    const char *words = settings.arms ? strchr(range_name, ' ') : NULL;
    if (words) settings_set_what(&settings, words + 1, report_problem);
    return WINDOW_CAPTURE;
}

/* CUPTI needs time for the first record of each kernel function. In a warm-up it records kernels, but their
 * launches are not recorded, so that their records are discarded. */
static void warm_up(int by) {
    int open = atomic_fetch_add(&win.warmups, by) + by;
    bool begins = by > 0 && open == 1, ends = by < 0 && open == 0;
    if (!atomic_load(&win.started) || !(begins || ends)) return;
    if (!lock_take(&win.switching, &host_locks)) return; /* the lock is held for microseconds */
    if (begins && !atomic_load(&win.on) && reattach()) {
        callbacks_watch();
        if (!atomic_exchange(&win.draining, false)) activity_capture(true);
        attach_exit();
    } else if (ends && !atomic_load(&win.on)) {
        win.closed_mono_ns = clock_mono_ns();
        win.closed_outside = records_counts().outside;
        atomic_store(&win.draining, true);
        background_wake();
    }
    pthread_mutex_unlock(&win.switching);
    apply_state();
}

void window_range(enum window_role role, int by, uint64_t wall_ns) {
    if (role == WINDOW_WARMUP) {
        warm_up(by);
        return;
    }
    if (by > 0) atomic_store(&win.range_wall_ns, wall_ns);
    atomic_fetch_add(&win.ranges, by);
    apply_state();
    if (settings.arms && by < 0) switch_all_off();
    atomic_store(&win.range_wall_ns, 0);
}

void window_finish(void) {
    atomic_store(&win.closed, true);
    if (lock_take(&win.switching, &host_locks)) { /* held for microseconds */
        if (atomic_exchange(&win.on, false)) write_window_end();
        budget_finish(clock_mono_ns());
        pthread_mutex_unlock(&win.switching);
    }
    write_times("capture.to", clock_wall_ns(), 0);
}

/* No window opens in the child until window_start() is called. CUDA works there only if the parent has not
 * used it. */
void window_after_fork(void) {
    pthread_mutex_init(&win.switching, NULL);
    atomic_store(&win.started, false);
    atomic_store(&win.closed, false);
    atomic_store(&win.ranges, 0);
    atomic_store(&win.warmups, 0);
    atomic_store(&win.time_ok, false);
    atomic_store(&win.budget_ok, false);
    atomic_store(&win.replays_done, false);
    atomic_store(&win.sampled, false);
    atomic_store(&win.sync_tries, 0);
    atomic_store(&win.resume_ns, 0);
    atomic_store(&win.count_launches, false);
    atomic_store(&win.on, false);
    atomic_store(&win.draining, false);
    atomic_store(&win.detaching, false);
    atomic_store(&win.range_wall_ns, 0);
    win.watched = false;
}
