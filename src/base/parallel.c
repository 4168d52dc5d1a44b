#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/util.h"

#define THREADS_MAX 256

struct loop {
    size_t n;
    void (*work)(void *arg, size_t i);
    void *arg;
    atomic_size_t next;
};

static void *run_loop(void *arg) {
    struct loop *l = arg;
    for (size_t i; (i = atomic_fetch_add(&l->next, 1)) < l->n;) l->work(l->arg, i);
    return NULL;
}

static unsigned thread_count(size_t n, unsigned threads) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = threads ? threads : processors > 0 ? (size_t)processors : 1;
    return (unsigned)MIN(wanted, MIN(n, THREADS_MAX));
}

void parallel_for(size_t n, unsigned threads, void (*work)(void *arg, size_t i), void *arg) {
    struct loop l = { .n = n, .work = work, .arg = arg };
    pthread_t others[THREADS_MAX];
    unsigned wanted = thread_count(n, threads), started = 0;
    while (started + 1 < wanted && pthread_create(&others[started], NULL, run_loop, &l) == 0) started++;
    run_loop(&l);
    for (unsigned i = 0; i < started; i++) pthread_join(others[i], NULL);
}
