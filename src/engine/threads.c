#include "engine/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

enum { MAX_THREADS = 256, SPINS = 4000 };

struct worker {
    struct threads *pool;
    pthread_t thread;
    int index;
};

struct threads {
    int count;
    struct worker workers[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* The job of generation `round`. Written by the caller before the round is published. */
    threads_fn *fn;
    void *job;
    int ntasks;
    atomic_int next;     /* first task nobody took */
    atomic_int busy;     /* workers still inside the round */
    atomic_uint round;   /* counts up; the publishing store */
    atomic_int sleepers; /* workers waiting on `wake` */
    atomic_bool quit;
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void work(struct threads *t, int worker) {
    for (int i; (i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->ntasks;)
        t->fn(t->job, i, worker);
}

/* Waits for a round other than `seen`. The sleeper counts itself before it looks for the last time, the
 * caller publishes before it looks for sleepers: one of them sees the other. */
static unsigned await_round(struct threads *t, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        unsigned now = atomic_load_explicit(&t->round, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->round) == seen) pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
    return atomic_load_explicit(&t->round, memory_order_acquire);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    struct threads *t = w->pool;
    for (unsigned seen = 0;;) {
        seen = await_round(t, seen);
        if (atomic_load(&t->quit)) return NULL;
        work(t, w->index);
        atomic_fetch_sub_explicit(&t->busy, 1, memory_order_release);
    }
}

static int usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return 1;
    return CPU_COUNT(&set);
}

struct threads *threads_open(int count) {
    struct threads *t = xcalloc(1, sizeof *t);
    if (count <= 0) count = usable_cores();
    count = MIN(count, MAX_THREADS);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->count = 1;
    for (int i = 1; i < count; i++) { /* fewer than asked for still works */
        t->workers[i] = (struct worker){ .pool = t, .index = i };
        if (pthread_create(&t->workers[i].thread, NULL, worker_main, &t->workers[i]) != 0) break;
        t->count++;
    }
    return t;
}

static void publish(struct threads *t) {
    atomic_fetch_add(&t->round, 1);
    if (atomic_load(&t->sleepers) == 0) return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

void threads_close(struct threads *t) {
    if (!t) return;
    atomic_store(&t->quit, true);
    publish(t);
    for (int i = 1; i < t->count; i++) pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

int threads_count(const struct threads *t) { return t->count; }

void threads_run(struct threads *t, threads_fn *fn, void *job, int ntasks) {
    if (t->count == 1 || ntasks <= 1) {
        for (int i = 0; i < ntasks; i++) fn(job, i, 0);
        return;
    }
    t->fn = fn, t->job = job, t->ntasks = ntasks;
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    atomic_store_explicit(&t->busy, t->count - 1, memory_order_relaxed);
    publish(t);
    work(t, 0);
    for (int spins = 0; atomic_load_explicit(&t->busy, memory_order_acquire) > 0; spins++) {
        if (spins < SPINS)
            relax();
        else
            sched_yield(); /* a worker lost its core: let it have ours */
    }
}
