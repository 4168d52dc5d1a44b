#include "collect/background.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/own_thread.h"
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

#define STACK_BYTES ((size_t)2 << 20) /* large: CUPTI runs here */

static struct {
    atomic_bool running, stop, done, gpu;
    struct event wake, ended;
    uint64_t drained_ns, clocked_ns, flushed_ns; /* times of the last runs */
} background;

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
    bool gpu = atomic_load(&background.gpu);
    if (gpu) window_tick(now);
    if (is_due(&background.drained_ns, now, DRAIN_MS)) {
        call_clock_tick();
        thread_drain_all();
        devices_tick();
        gemm_tick();
    }
    if (gpu && is_due(&background.clocked_ns, now, CLOCK_MS)) clocks_pair();
    /* CUPTI's own flush period returns only full buffers. */
    if (gpu && settings.flush_ms && !window_is_idle() &&
        is_due(&background.flushed_ns, now, (unsigned)settings.flush_ms))
        flush_cupti(0);
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
    own_thread_name("inferprof-cupti");
    while (!atomic_load(&background.stop)) {
        unsigned seen = event_count(&background.wake);
        periodic_work(clock_mono_ns());
        unsigned ms = window_needs_ticks() ? window_tick_ms() : DRAIN_MS;
        if (!atomic_load(&background.stop))
            event_wait(&background.wake, seen, clock_mono_ns() + (uint64_t)MS * ms);
    }
    final_work();
    atomic_store(&background.done, true);
    event_set(&background.ended);
    own_thread_ends();
    return NULL;
}

bool background_start(void) {
    pthread_t thread;
    if (atomic_exchange(&background.running, true)) return true;
    if (own_thread_start(&thread, STACK_BYTES, background_main, NULL) == 0) {
        pthread_detach(thread);
        return true;
    }
    atomic_store(&background.running, false);
    return false;
}

void background_wake(void) { event_set(&background.wake); }

/* Wakes the thread, because it sleeps for DRAIN_MS and windows need shorter intervals. */
void background_watch_gpu(void) {
    atomic_store(&background.gpu, true);
    background_wake();
}

bool background_stop(uint64_t until_ns) {
    if (!atomic_load(&background.running)) return true;
    atomic_store(&background.stop, true);
    event_set(&background.wake);
    for (;;) {
        unsigned seen = event_count(&background.ended);
        if (atomic_load(&background.done)) return true;
        if (clock_mono_ns() >= until_ns) return false;
        event_wait(&background.ended, seen, until_ns);
    }
}

void background_after_fork(void) {
    atomic_store(&background.running, false);
    atomic_store(&background.stop, false);
    atomic_store(&background.done, false);
    atomic_store(&background.gpu, false);
    event_reset(&background.wake);
    event_reset(&background.ended);
    background.drained_ns = background.clocked_ns = background.flushed_ns = 0;
}
