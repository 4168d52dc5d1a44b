#include "collect/attach.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "collect/activity.h"
#include "collect/callbacks.h"
#include "collect/cupti.h"
#include "collect/devices.h"
#include "collect/output.h"
#include "collect/pool.h"
#include "collect/records.h"
#include "collect/thread.h"

/* CUDA 12.6: before it CUPTI crashed on graphs when it came again. */
#define CAN_LEAVE 24
/* It waited for a GPU that was not idle after all: 2 ms are usual, 60 on a busy machine. */
#define TOO_LONG_NS 200000000u

static struct {
    pthread_mutex_t moving; /* it is just leaving or coming */
    atomic_bool there, wish;
    atomic_bool graphs, too_long; /* seen once: it stays for good */
    atomic_uint inside, left;
    _Atomic uint64_t leaving_ns;
    uint64_t calls, records; /* when it came */
} at = { .moving = PTHREAD_MUTEX_INITIALIZER };

static uint64_t records_so_far(void) {
    struct record_counts c = records_counts();
    return c.kernels + c.copies;
}

bool attach_start(void) {
    at.calls = thread_calls();
    at.records = records_so_far();
    bool ok = callbacks_start() && activity_start();
    atomic_store(&at.there, ok);
    return ok;
}

bool attach_enter(void) {
    atomic_fetch_add(&at.inside, 1);
    if (atomic_load(&at.there)) return true;
    attach_exit();
    return false;
}

void attach_exit(void) { atomic_fetch_sub(&at.inside, 1); }

/* ---- leaving */
static const char *why_not(void) { /* NULL: it may leave */
    if (!cupti.finalize || cupti.version < CAN_LEAVE) return "it can leave safely from CUDA 12.6 on";
    /* whole graphs are asked for once and for good, activity.c */
    if (settings.whole_graphs || atomic_load(&at.graphs)) return "the program uses CUDA graphs";
    if (!settings.launches) return "launches are not recorded";
    if (devices_are_several_streams()) return "the program's kernels run on several streams";
    if (atomic_load(&at.too_long)) return "it took long to leave";
    return NULL;
}

const char *attach_why_stays(void) {
    const char *why = why_not();
    return why ? why
               : "not every launch had its kernel when the program waited for the GPU, or it never waited";
}

bool attach_wants_waits(void) { return settings.budget_pct > 0 || settings.duration_s > 0; }

void attach_window_closed(void) { callbacks_tell_ends(!why_not()); }

bool attach_ask_leave(void) {
    if (records_counts().graph_kernels) attach_saw_graph();
    if (thread_calls() - at.calls != records_so_far() - at.records) return why_not() != NULL;
    atomic_store(&at.wish, !why_not());
    return true;
}

void attach_saw_graph(void) { atomic_store(&at.graphs, true); }

static void leave(void) {
    uint64_t before = clock_mono_ns();
    int rc = cupti.finalize();
    uint64_t took_ns = clock_mono_ns() - before;
    callbacks_gone();
    atomic_fetch_add(&at.left, 1);
    atomic_fetch_add(&at.leaving_ns, took_ns);
    if (took_ns > TOO_LONG_NS) atomic_store(&at.too_long, true);
    if (rc != CUPTI_OK)
        problem("CUPTI does not leave the program between windows (%s): its launches stay dearer",
                cupti_error(rc));
}

/* Whoever enters after `there` is false sees it; who came before is seen in `inside`, and the next wait
 * tries again. */
void attach_saw_wait(uint32_t context, uint32_t stream) {
    if (!atomic_load(&at.wish) || pthread_mutex_trylock(&at.moving) != 0) return;
    if (atomic_load(&at.wish) && !why_not() && devices_only_stream_is(context, stream)) {
        atomic_store(&at.there, false);
        if (atomic_load(&at.inside) == 0) {
            leave();
            atomic_store(&at.wish, false);
        } else {
            atomic_store(&at.there, true);
        }
    }
    pthread_mutex_unlock(&at.moving);
}

enum attach_state attach_again(void) {
    if (pthread_mutex_trylock(&at.moving) != 0) return ATTACH_LATER;
    atomic_store(&at.wish, false);
    callbacks_tell_ends(false);
    devices_forget_stream();
    if (!atomic_load(&at.there)) {
        records_forget_calls();
        pool_reclaim();
        attach_start();
    }
    bool there = attach_enter();
    pthread_mutex_unlock(&at.moving);
    return there ? ATTACH_THERE : ATTACH_REFUSED;
}

unsigned attach_times_left(void) { return atomic_load(&at.left); }
uint64_t attach_leaving_ns(void) { return atomic_load(&at.leaving_ns); }

void attach_after_fork(void) {
    pthread_mutex_init(&at.moving, NULL);
    atomic_store(&at.there, false);
    atomic_store(&at.wish, false);
    atomic_store(&at.inside, 0);
}
