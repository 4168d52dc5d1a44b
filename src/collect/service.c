#include "collect/service.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/own_thread.h"
#include "base/private_fds.h"

static struct {
    service_work open, end;
    atomic_bool running;
    atomic_uint requested, done; /* bit sets of enum service_job */
    _Atomic uint64_t until_ns;   /* deadline of the last request */
    struct event wake, progress;
} service;

void service_set(service_work open, service_work end) {
    service.open = open;
    service.end = end;
}

static void do_job(enum service_job job, service_work work) {
    if (!(atomic_load(&service.requested) & ~atomic_load(&service.done) & job)) return;
    work(atomic_load(&service.until_ns));
    atomic_fetch_or(&service.done, job);
    event_set(&service.progress);
}

static void *service_main(void *arg) {
    (void)arg;
    own_thread_name("inferprof");
    private_fds();
    while (!(atomic_load(&service.done) & SERVICE_END)) {
        unsigned seen = event_count(&service.wake);
        do_job(SERVICE_OPEN, service.open);
        do_job(SERVICE_END, service.end);
        event_wait(&service.wake, seen, UINT64_MAX);
    }
    own_thread_ends();
    return NULL;
}

int service_start(void) {
    pthread_t thread;
    if (atomic_exchange(&service.running, true)) return 0;
    int rc = own_thread_start(&thread, OWN_THREAD_STACK, service_main, NULL);
    if (rc == 0)
        pthread_detach(thread);
    else
        atomic_store(&service.running, false);
    return rc;
}

bool service_run(enum service_job job, uint64_t until_ns) {
    atomic_store(&service.until_ns, until_ns);
    atomic_fetch_or(&service.requested, job);
    if (!atomic_load(&service.running)) return false;
    event_set(&service.wake);
    for (;;) {
        unsigned seen = event_count(&service.progress);
        if (atomic_load(&service.done) & job) return true;
        if (clock_mono_ns() >= until_ns) return false;
        event_wait(&service.progress, seen, until_ns);
    }
}

void service_after_fork(void) {
    atomic_store(&service.running, false);
    atomic_store(&service.requested, 0);
    atomic_store(&service.done, 0);
    event_reset(&service.wake);
    event_reset(&service.progress);
}
