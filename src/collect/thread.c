#include "collect/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/budget.h"
#include "collect/calls.h"
#include "collect/host.h"
#include "collect/output.h"
#include "collect/pages.h"

#define MAX_THREADS 4096 /* states are reused, not freed */

static _Atomic(struct thread_state *) all; /* linked list, never shortened */
static atomic_uint allocated;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool have_key;
static __thread bool register_failed;
thread_visit thread_end_ranges;

static void write_launches(struct trace_writer *w, struct trace_launch *l, unsigned n) {
    static _Atomic uint64_t names[CALLS_MAX_ID];
    budget_note_launches(l, n);
    for (unsigned i = 0; i < n; i++) l[i].api = output_string(w, call_name(l[i].api), &names[l[i].api]);
    trace_writer_launch(w, l, n);
}

/* A thread gets its ring at its first launch, because many threads have only NVTX ranges. All rings together
 * use at most 1/16 of the memory. */
static bool make_ring(struct thread_state *t) {
    static atomic_uint rings;
    size_t bytes = THREAD_RING * sizeof *t->ring;
    if (t->ring || atomic_load(&rings) >= settings.memory_bytes / 16 / bytes) return false;
    if (!(t->ring = pages_map(bytes))) return false;
    atomic_fetch_add(&rings, 1); /* concurrent threads may exceed the limit slightly */
    t->ring_slots = THREAD_RING;
    return true;
}

void thread_add_launch_slow(struct thread_state *t, struct trace_launch l) {
    if (make_ring(t)) {
        thread_add_launch(t, l);
        return;
    }
    struct trace_writer *w = output_take();
    if (!w) {
        output_lost(TRACE_LAUNCH, TRACE_LOST_MEMORY, 1);
        return;
    }
    write_launches(w, &l, 1);
    output_give();
}

/* Writes the launches of the ring, or counts them as lost if no file is open. */
static void drain_ring(struct thread_state *t) {
    unsigned tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    unsigned head = atomic_load_explicit(&t->head, memory_order_acquire);
    struct trace_writer *w = head != tail ? output_take() : NULL;
    if (w) {
        unsigned n = head - tail, first = MIN(n, THREAD_RING - tail % THREAD_RING);
        write_launches(w, t->ring + tail % THREAD_RING, first);
        write_launches(w, t->ring, n - first);
        output_give();
    } else if (head != tail) {
        output_lost(TRACE_LAUNCH, TRACE_LOST_MEMORY, head - tail);
    }
    atomic_store_explicit(&t->tail, head, memory_order_release);
}

static bool drain_unless_busy(struct thread_state *t) {
    if (atomic_flag_test_and_set_explicit(&t->draining, memory_order_acquire)) return false;
    drain_ring(t);
    atomic_flag_clear_explicit(&t->draining, memory_order_release);
    return true;
}

/* Does nothing if the ring is being drained. */
void thread_drain(struct thread_state *t) {
    int saved_errno = errno;
    drain_unless_busy(t);
    errno = saved_errno;
}

/* ---- the open ranges */
bool thread_take_ranges(struct thread_state *t) {
    return !atomic_flag_test_and_set_explicit(&t->ranges_busy, memory_order_acquire);
}

void thread_give_ranges(struct thread_state *t) {
    atomic_flag_clear_explicit(&t->ranges_busy, memory_order_release);
}

/* ---- end of a thread */

/* If the thread ends inside our own code (pthread_exit() in a signal handler), its state is never reused. */
static void on_thread_end(void *arg) {
    struct thread_state *t = arg;
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    if (thread_take_ranges(t)) { /* false: nvtx_ranges_finish() writes them */
        if (thread_end_ranges) thread_end_ranges(t);
        atomic_store(&t->nopen, 0);
        t->too_deep = 0;
        thread_give_ranges(t);
    }
    thread_drain(t);
    host_thread.state = NULL;
    atomic_store(&t->in_use, false);
    host_leave(saved_errno);
}

static void make_key(void) { have_key = pthread_key_create(&key, on_thread_end) == 0; }

uint32_t thread_id(void) {
    struct thread_state *t = host_thread.state;
    return t ? t->tid : (uint32_t)syscall(SYS_gettid);
}

static struct thread_state *reuse_state(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        bool no = false;
        if (atomic_compare_exchange_strong(&t->in_use, &no, true)) return t;
    }
    return NULL;
}

static struct thread_state *make_state(void) {
    if (atomic_fetch_add(&allocated, 1) >= MAX_THREADS) return NULL;
    struct thread_state *t = pages_map(sizeof *t);
    if (!t) return NULL;
    atomic_flag_clear(&t->draining);
    atomic_flag_clear(&t->ranges_busy);
    atomic_store(&t->in_use, true);
    t->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &t->next, t)) {}
    return t;
}

struct thread_state *thread_register(void) {
    if (register_failed) return NULL;
    int saved_errno = errno;
    pthread_once(&key_once, make_key);
    struct thread_state *t = reuse_state();
    if (!t) t = make_state();
    register_failed = !t;
    if (t) {
        atomic_store(&t->tid, (uint32_t)syscall(SYS_gettid));
        if (have_key) pthread_setspecific(key, t);
        host_thread.state = t;
    }
    errno = saved_errno;
    return t;
}

void thread_drain_all(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) thread_drain(t);
}

/* Repeats `step` until it succeeds. Returns false if the deadline host_locks has passed. */
static bool try_until_limit(bool (*step)(struct thread_state *), struct thread_state *t) {
    while (!step(t)) {
        uint64_t limit = atomic_load(&host_locks);
        if (limit && clock_mono_ns() >= limit) return false;
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    return true;
}

void thread_drain_rest(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        if (!try_until_limit(drain_unless_busy, t))
            output_lost(TRACE_LAUNCH, TRACE_LOST_MEMORY, atomic_load(&t->head) - atomic_load(&t->tail));
}

void thread_each_open(thread_visit visit) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        if (!atomic_load(&t->in_use)) continue;
        if (!try_until_limit(thread_take_ranges, t)) {
            output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, atomic_load(&t->nopen));
            continue;
        }
        visit(t);
        thread_give_ranges(t);
    }
}

uint64_t thread_recorded_calls(void) {
    uint64_t n = 0;
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        n += atomic_load_explicit(&t->calls, memory_order_relaxed); /* need not be exact */
    return n;
}

uint64_t thread_unrecorded_calls(void) {
    uint64_t n = 0;
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        n += atomic_load_explicit(&t->unrecorded, memory_order_relaxed);
    return n;
}

void thread_assume_captures(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        atomic_store(&t->capture_calls, atomic_load_explicit(&t->calls, memory_order_relaxed));
        atomic_store(&t->capturing, true);
    }
}

void thread_each(void (*visit)(uint32_t tid)) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        if (atomic_load(&t->in_use)) visit(t->tid);
}

void thread_after_fork(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        atomic_flag_clear(&t->draining);
        atomic_flag_clear(&t->ranges_busy);
        atomic_store(&t->tail, atomic_load(&t->head));
        atomic_store(&t->calls, 0);
        atomic_store(&t->unrecorded, 0);
        atomic_store(&t->nopen, 0);
        t->too_deep = 0;
        if (t != host_thread.state) atomic_store(&t->in_use, false);
    }
    if (host_thread.state) atomic_store(&host_thread.state->tid, (uint32_t)syscall(SYS_gettid));
}
