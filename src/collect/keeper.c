#include "collect/keeper.h"

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
} keeper = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct timespec at(uint64_t mono_ns) {
    return (struct timespec){ (time_t)(mono_ns / 1000000000u), (long)(mono_ns % 1000000000u) };
}

static bool due(uint64_t *last, uint64_t now, unsigned every_ms) {
    if (now - *last < every_ms * (uint64_t)MS) return false;
    *last = now;
    return true;
}

static void flush(uint32_t how) {
    if (!attach_enter()) return;
    cupti.flush_all(how);
    attach_exit();
}

static void work(uint64_t now) {
    static uint64_t drained, clocked, flushed;
    bool gpu = atomic_load(&keeper.gpu);
    if (gpu) window_tick(now);
    if (due(&drained, now, DRAIN_MS)) {
        call_clock_tick();
        thread_drain_all();
        devices_tick();
        gemm_tick();
    }
    if (gpu && due(&clocked, now, CLOCK_MS)) clocks_pair();
    /* Not by CUPTI's own flush period, which hands out full buffers alone. */
    if (gpu && settings.flush_ms && due(&flushed, now, (unsigned)settings.flush_ms)) flush(0);
}

static void last_work(void) {
    if (atomic_load(&keeper.gpu)) {
        flush(FLUSH_FORCED);
        clocks_finish();
    }
    devices_tick();
}

static void *keeper_main(void *arg) {
    (void)arg;
    pthread_mutex_lock(&keeper.lock);
    while (!keeper.stop) {
        pthread_mutex_unlock(&keeper.lock);
        work(clock_mono_ns());
        struct timespec t =
            at(clock_mono_ns() + (uint64_t)MS * (window_needs_ticks() ? WINDOW_MS : DRAIN_MS));
        pthread_mutex_lock(&keeper.lock);
        if (!keeper.stop) pthread_cond_timedwait(&keeper.changed, &keeper.lock, &t);
    }
    pthread_mutex_unlock(&keeper.lock);
    last_work();
    pthread_mutex_lock(&keeper.lock);
    keeper.done = true;
    pthread_cond_broadcast(&keeper.changed);
    pthread_mutex_unlock(&keeper.lock);
    return NULL;
}

void keeper_start(void) {
    pthread_condattr_t clock;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    if (keeper.running) return;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper.changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signal handlers are not for our thread */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    keeper.running = pthread_create(&thread, &attr, keeper_main, NULL) == 0;
    if (keeper.running) pthread_setname_np(thread, "inferprof");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

/* Wakes the keeper: windows want it more often than it knew when it lay down. */
void keeper_watch_gpu(void) {
    pthread_mutex_lock(&keeper.lock);
    atomic_store(&keeper.gpu, true);
    if (keeper.running) pthread_cond_broadcast(&keeper.changed);
    pthread_mutex_unlock(&keeper.lock);
}

bool keeper_stop(unsigned timeout_ms) {
    struct timespec t = at(clock_mono_ns() + timeout_ms * (uint64_t)MS);
    if (!keeper.running) return true;
    pthread_mutex_lock(&keeper.lock);
    keeper.stop = true;
    pthread_cond_broadcast(&keeper.changed);
    while (!keeper.done && pthread_cond_timedwait(&keeper.changed, &keeper.lock, &t) == 0) {}
    bool done = keeper.done;
    pthread_mutex_unlock(&keeper.lock);
    return done;
}

void keeper_after_fork(void) {
    pthread_mutex_init(&keeper.lock, NULL);
    keeper.running = keeper.stop = keeper.done = false;
    atomic_store(&keeper.gpu, false);
}
