#include "collect/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "collect/attach.h"
#include "collect/call_clock.h"
#include "collect/clocks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/gemm.h"
#include "collect/output.h"
#include "collect/thread.h"
#include "collect/window.h"

#define MS 1000000u
#define DRAIN_MS 200u
#define CLOCK_MS 5000u
#define WINDOW_MS 5u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stop, done;
    atomic_bool gpu;
} background = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct timespec timespec_of(uint64_t mono_ns) {
    return (struct timespec){ (time_t)(mono_ns / 1000000000u), (long)(mono_ns % 1000000000u) };
}

static bool is_due(uint64_t *last, uint64_t now, unsigned every_ms) {
    if (now - *last < every_ms * (uint64_t)MS) return false;
    *last = now;
    return true;
}

static void flush_cupti(uint32_t how) {
    if (!attach_enter()) return;
    cupti.flush_all(how);
    attach_exit();
}

static void periodic_work(uint64_t now) {
    static uint64_t drained, clocked, flushed;
    bool gpu = atomic_load(&background.gpu);
    if (gpu) window_tick(now);
    if (is_due(&drained, now, DRAIN_MS)) {
        call_clock_tick();
        thread_drain_all();
        devices_tick();
        gemm_tick();
    }
    if (gpu && is_due(&clocked, now, CLOCK_MS)) clocks_pair();
    /* CUPTI's own flush period returns only full buffers. */
    if (gpu && settings.flush_ms && is_due(&flushed, now, (unsigned)settings.flush_ms)) flush_cupti(0);
}

static void final_work(void) {
    if (atomic_load(&background.gpu)) {
        flush_cupti(FLUSH_FORCED);
        clocks_finish();
    }
    devices_tick();
}

static void *background_main(void *arg) {
    (void)arg;
    pthread_mutex_lock(&background.lock);
    while (!background.stop) {
        pthread_mutex_unlock(&background.lock);
        periodic_work(clock_mono_ns());
        struct timespec t =
            timespec_of(clock_mono_ns() + (uint64_t)MS * (window_needs_ticks() ? WINDOW_MS : DRAIN_MS));
        pthread_mutex_lock(&background.lock);
        if (!background.stop) pthread_cond_timedwait(&background.changed, &background.lock, &t);
    }
    pthread_mutex_unlock(&background.lock);
    final_work();
    pthread_mutex_lock(&background.lock);
    background.done = true;
    pthread_cond_broadcast(&background.changed);
    pthread_mutex_unlock(&background.lock);
    return NULL;
}

void background_start(void) {
    pthread_condattr_t clock;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    if (background.running) return;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&background.changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signal handlers must not run on our thread */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    background.running = pthread_create(&thread, &attr, background_main, NULL) == 0;
    if (background.running) pthread_setname_np(thread, "inferprof");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

/* Wakes the thread: with windows it must run every WINDOW_MS, and it went to sleep for DRAIN_MS. */
void background_watch_gpu(void) {
    pthread_mutex_lock(&background.lock);
    atomic_store(&background.gpu, true);
    if (background.running) pthread_cond_broadcast(&background.changed);
    pthread_mutex_unlock(&background.lock);
}

bool background_stop(unsigned timeout_ms) {
    struct timespec t = timespec_of(clock_mono_ns() + timeout_ms * (uint64_t)MS);
    if (!background.running) return true;
    pthread_mutex_lock(&background.lock);
    background.stop = true;
    pthread_cond_broadcast(&background.changed);
    while (!background.done && pthread_cond_timedwait(&background.changed, &background.lock, &t) == 0) {}
    bool done = background.done;
    pthread_mutex_unlock(&background.lock);
    return done;
}

void background_after_fork(void) {
    pthread_mutex_init(&background.lock, NULL);
    background.running = background.stop = background.done = false;
    atomic_store(&background.gpu, false);
}
