#include "engine/compute/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/util.h"

enum { MAX_THREADS = 256, SPINS = 4000 };

struct worker {
    struct threads *pool;
    pthread_t thread;
    int index;
};

/* A thread takes a task by adding one to `ticket`. This word contains the number of the round (16 bits),
 * the number of tasks (24 bits) and the next task (24 bits). Because all three are in one word, a worker
 * that wakes up late sees that its round is over, and the caller only waits for workers that took a task.
 * */
#define TASK_BITS 24
#define TASK_MASK ((1u << TASK_BITS) - 1)
#define ROUND_OF(ticket) ((unsigned)((ticket) >> 2 * TASK_BITS))

struct threads {
    int count;
    struct worker workers[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* The job of the round. Written before the ticket, and read only by threads that took a task of this
     * round. */
    threads_fn *fn;
    void *job;
    atomic_uint_least64_t ticket;
    atomic_int done;     /* finished tasks of the round */
    atomic_int sleepers; /* workers waiting on `wake` */
    atomic_bool quit;
};

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void run_tasks(struct threads *t, int worker) {
    for (;;) {
        uint64_t ticket = atomic_fetch_add_explicit(&t->ticket, 1, memory_order_acq_rel);
        uint32_t task = ticket & TASK_MASK, ntasks = ticket >> TASK_BITS & TASK_MASK;
        if (task >= ntasks) return;
        /* until `done` counts this task, the caller waits and `job` stays valid */
        t->fn(t->job, (int)task, worker);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
    }
}

/* Waits for a round other than `seen`. A worker counts itself as sleeping before its last check for a new
 * round. The caller publishes the round before it checks for sleeping workers. So either the worker sees
 * the round, or the caller sees the worker. */
static unsigned await_round(struct threads *t, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        unsigned now = ROUND_OF(atomic_load_explicit(&t->ticket, memory_order_acquire));
        if (now != seen) return now;
        cpu_relax();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (ROUND_OF(atomic_load(&t->ticket)) == seen) pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
    return ROUND_OF(atomic_load(&t->ticket));
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    struct threads *t = w->pool;
    for (unsigned seen = 0;;) {
        seen = await_round(t, seen);
        if (atomic_load(&t->quit)) return NULL;
        run_tasks(t, w->index);
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
    /* if a thread cannot be started, continue with fewer threads */
    for (int i = 1; i < count; i++) {
        t->workers[i] = (struct worker){ .pool = t, .index = i };
        if (pthread_create(&t->workers[i].thread, NULL, worker_main, &t->workers[i]) != 0) break;
        t->count++;
    }
    return t;
}

static void publish_round(struct threads *t, int ntasks) {
    uint64_t round = (ROUND_OF(atomic_load(&t->ticket)) + 1) & 0xffff;
    atomic_store(&t->ticket, round << 2 * TASK_BITS | (uint64_t)ntasks << TASK_BITS);
    if (atomic_load(&t->sleepers) == 0) return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

void threads_close(struct threads *t) {
    if (!t) return;
    atomic_store(&t->quit, true);
    publish_round(t, 0);
    for (int i = 1; i < t->count; i++) pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

int threads_count(const struct threads *t) { return t->count; }

static void run_round(struct threads *t, threads_fn *fn, void *job, int ntasks) {
    t->fn = fn;
    t->job = job;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    publish_round(t, ntasks);
    run_tasks(t, 0);
    for (int spins = 0; atomic_load_explicit(&t->done, memory_order_acquire) < ntasks; spins++) {
        if (spins < SPINS)
            cpu_relax();
        else
            sched_yield(); /* a worker was preempted during its task: yield to it */
    }
}

void threads_run(struct threads *t, threads_fn *fn, void *job, int ntasks) {
    if (ntasks > (int)(TASK_MASK / 2)) die("threads_run: %d tasks", ntasks);
    struct alloc_guard *guard = alloc_guard_suspend(); /* running out of memory must not abort a round */
    if (t->count == 1 || ntasks <= 1)
        for (int i = 0; i < ntasks; i++) fn(job, i, 0);
    else
        run_round(t, fn, job, ntasks);
    alloc_guard_resume(guard);
}
