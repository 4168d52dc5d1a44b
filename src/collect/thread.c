#include "collect/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "collect/output.h"

#define MAX_THREADS 4096 /* states ever made; they are reused */

static _Atomic(struct thread_state *) all; /* only ever grows at its head */
static atomic_uint made;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool have_key;
static __thread struct thread_state *self;
static __thread bool refused;

/* From tail to head, in two pieces where it goes round. Without a file they are dropped. */
static void hand_on(struct thread_state *t) {
    unsigned tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    unsigned head = atomic_load_explicit(&t->head, memory_order_acquire);
    struct trace_writer *w = head != tail ? output_take() : NULL;
    if (w) {
        unsigned n = head - tail, first = MIN(n, THREAD_RING - tail % THREAD_RING);
        trace_writer_launch(w, t->ring + tail % THREAD_RING, first);
        trace_writer_launch(w, t->ring, n - first);
        output_give();
    }
    atomic_store_explicit(&t->tail, head, memory_order_release);
}

void thread_drain(struct thread_state *t) {
    if (atomic_flag_test_and_set_explicit(&t->busy, memory_order_acquire)) return; /* another is at it */
    hand_on(t);
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
}

static void on_thread_end(void *arg) {
    struct thread_state *t = arg;
    thread_drain(t);
    t->nopen = t->too_deep = 0;
    self = NULL;
    atomic_store(&t->in_use, false);
}

static void make_key(void) { have_key = pthread_key_create(&key, on_thread_end) == 0; }

uint32_t thread_id(void) {
    struct thread_state *t = self;
    return t ? t->tid : (uint32_t)syscall(SYS_gettid);
}

static struct thread_state *reuse(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        bool no = false;
        if (atomic_compare_exchange_strong(&t->in_use, &no, true)) return t;
    }
    return NULL;
}

static struct thread_state *make(void) {
    if (atomic_fetch_add(&made, 1) >= MAX_THREADS) return NULL;
    struct thread_state *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    atomic_flag_clear(&t->busy);
    atomic_store(&t->in_use, true);
    t->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &t->next, t)) {}
    return t;
}

struct thread_state *thread_self(void) {
    if (self || refused) return self;
    pthread_once(&key_once, make_key);
    struct thread_state *t = reuse();
    if (!t) t = make();
    refused = !t;
    if (!t) return NULL;
    t->tid = (uint32_t)syscall(SYS_gettid);
    if (have_key) pthread_setspecific(key, t);
    return self = t;
}

void thread_drain_all(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) thread_drain(t);
}

void thread_each_open(void (*visit)(uint32_t tid, uint32_t depth, const struct open_range *r)) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        if (!atomic_load(&t->in_use)) continue;
        uint32_t n = MIN(t->nopen, (uint32_t)THREAD_MAX_OPEN);
        for (uint32_t i = 0; i < n; i++) visit(t->tid, i, &t->open[i]);
    }
}

uint64_t thread_calls(void) {
    uint64_t n = 0;
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        n += atomic_load_explicit(&t->calls, memory_order_relaxed); /* a little late is fine */
    return n;
}

uint64_t thread_passed(void) {
    uint64_t n = 0;
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        n += atomic_load_explicit(&t->passed, memory_order_relaxed);
    return n;
}

void thread_each(void (*visit)(uint32_t tid)) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next)
        if (atomic_load(&t->in_use)) visit(t->tid);
}

void thread_after_fork(void) {
    for (struct thread_state *t = atomic_load(&all); t; t = t->next) {
        atomic_flag_clear(&t->busy);
        atomic_store(&t->tail, atomic_load(&t->head));
        t->nopen = t->too_deep = 0;
        if (t != self) atomic_store(&t->in_use, false);
    }
    if (self) self->tid = (uint32_t)syscall(SYS_gettid);
}
