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
#include "collect/replays.h"
#include "collect/thread.h"

/* CUPTI version of CUDA 12.6. Older versions crashed when a graph was launched after a second attach.
 * Therefore they are never detached. */
#define MIN_DETACH_VERSION 24
/* A detach takes 2 ms, or up to 60 ms on a busy machine. A longer one had to wait for the GPU. CUPTI then
 * stays attached for the rest of the process. */
#define MAX_DETACH_NS 200000000u

static struct {
    pthread_mutex_t lock; /* only acquired with trylock */
    atomic_bool attached, detach_requested;
    /* graph_seen prevents detaches by attach_try_detach(). detach_slow and detach_failed prevent all
     * detaches. */
    atomic_bool graph_seen, detach_slow, detach_failed;
    atomic_bool kernels_disabled; /* since the attach; prevents attach_detach_graphs() */
    /* threads inside attach_enter() */
    atomic_uint users;
    atomic_uint detaches;
    _Atomic uint64_t detach_ns;
    uint64_t attach_calls, attach_records; /* totals at the last attach */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t records_so_far(void) {
    struct record_counts c = records_counts();
    return c.kernels + c.copies;
}

bool attach_start(void) {
    state.attach_calls = thread_recorded_calls();
    state.attach_records = records_so_far();
    replays_attach_starts();
    atomic_store(&state.kernels_disabled, false);
    bool ok = callbacks_start() && activity_start();
    atomic_store(&state.attached, ok);
    return ok;
}

bool attach_enter(void) {
    atomic_fetch_add(&state.users, 1);
    if (atomic_load(&state.attached)) return true;
    attach_exit();
    return false;
}

void attach_exit(void) { atomic_fetch_sub(&state.users, 1); }

/* ---- detaching */
static const char *no_detach_reason(void) { /* NULL: CUPTI may be detached */
    if (!cupti.finalize || cupti.version < MIN_DETACH_VERSION) return "detaching is safe from CUDA 12.6 on";
    /* whole-graph records must stay enabled all the time (activity.c) */
    if (settings.whole_graphs || atomic_load(&state.graph_seen)) return "the program uses CUDA graphs";
    if (!settings.launches) return "launches are not recorded";
    if (devices_saw_several_streams()) return "the program's kernels run on several streams";
    if (atomic_load(&state.detach_slow)) return "an earlier detach took too long";
    if (atomic_load(&state.detach_failed)) return "an earlier detach failed";
    return NULL;
}

const char *attach_no_detach_reason(void) {
    const char *why = no_detach_reason();
    return why ? why
               : "the program never synchronised with its stream while every launch had its kernel record";
}

bool attach_needs_syncs(void) { return settings.budget_ppm || settings.duration_us || replays_are_sampled(); }

void attach_window_closed(void) { callbacks_report_ends(!no_detach_reason()); }

bool attach_request_detach(void) {
    if (records_counts().graph_kernels) attach_note_graph_launch();
    if (thread_recorded_calls() - state.attach_calls != records_so_far() - state.attach_records)
        return no_detach_reason() != NULL;
    atomic_store(&state.detach_requested, !no_detach_reason());
    return true;
}

void attach_note_graph_launch(void) { atomic_store(&state.graph_seen, true); }

/* Returns false if cuptiFinalize() failed. CUPTI then stays attached. */
static bool detach_now(void) {
    uint64_t before = clock_mono_ns();
    int rc = cupti.finalize();
    uint64_t took_ns = clock_mono_ns() - before;
    atomic_fetch_add(&state.detach_ns, took_ns);
    if (took_ns > MAX_DETACH_NS) atomic_store(&state.detach_slow, true);
    if (rc != CUPTI_OK) {
        atomic_store(&state.detach_failed, true);
        report_problem("CUPTI could not be detached between windows (%s): launches stay slower",
                       cupti_error(rc));
        return false;
    }
    callbacks_detached();
    atomic_fetch_add(&state.detaches, 1);
    return true;
}

/* `attached` is cleared before `users` is read. A thread that enters later sees the cleared flag and leaves.
 * If another thread is already inside, `detach_requested` stays set, and the next synchronisation tries
 * again. */
void attach_try_detach(uint32_t context, uint32_t stream) {
    if (!atomic_load(&state.detach_requested) || pthread_mutex_trylock(&state.lock) != 0) return;
    if (atomic_load(&state.detach_requested) && !no_detach_reason() &&
        devices_only_stream_is(context, stream)) {
        atomic_store(&state.attached, false);
        bool alone = atomic_load(&state.users) == 0;
        if (!alone || !detach_now()) atomic_store(&state.attached, true);
        if (alone) atomic_store(&state.detach_requested, false);
    }
    pthread_mutex_unlock(&state.lock);
}

bool attach_can_detach_graphs(void) {
    return cupti.finalize && cupti.version >= MIN_DETACH_VERSION && settings.launches &&
           !settings.whole_graphs && !atomic_load(&state.detach_slow) && !atomic_load(&state.detach_failed) &&
           !atomic_load(&state.kernels_disabled);
}

void attach_kernels_disabled(void) { atomic_store(&state.kernels_disabled, true); }

bool attach_detach_graphs(bool (*prepare)(void)) {
    if (!attach_can_detach_graphs() || pthread_mutex_trylock(&state.lock) != 0) return false;
    atomic_store(&state.attached, false);
    bool done = atomic_load(&state.users) == 0 && prepare() && detach_now();
    if (!done) atomic_store(&state.attached, true);
    pthread_mutex_unlock(&state.lock);
    return done;
}

enum attach_state attach_reattach(void) {
    if (pthread_mutex_trylock(&state.lock) != 0) return ATTACH_BUSY;
    atomic_store(&state.detach_requested, false);
    callbacks_report_ends(false);
    devices_reset_stream();
    if (!atomic_load(&state.attached)) {
        records_reset_calls();
        pool_reclaim();
        attach_start();
    }
    bool attached = attach_enter();
    pthread_mutex_unlock(&state.lock);
    return attached ? ATTACH_READY : ATTACH_FAILED;
}

unsigned attach_detach_count(void) { return atomic_load(&state.detaches); }
uint64_t attach_detach_ns(void) { return atomic_load(&state.detach_ns); }

void attach_after_fork(void) {
    pthread_mutex_init(&state.lock, NULL);
    atomic_store(&state.attached, false);
    atomic_store(&state.detach_requested, false);
    atomic_store(&state.users, 0);
    atomic_store(&state.detaches, 0);
    atomic_store(&state.detach_ns, 0);
    atomic_store(&state.graph_seen, false);
    atomic_store(&state.detach_slow, false);
    atomic_store(&state.detach_failed, false);
    atomic_store(&state.kernels_disabled, false);
    callbacks_detached();
}
