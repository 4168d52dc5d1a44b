#include "base/own_thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

static atomic_int count;

static int create(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg) {
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    pthread_attr_setstacksize(&attr, stack_bytes);
    rc = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return rc;
}

int own_thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = create(thread, stack_bytes, run, arg);
    /* The thread-local variables of the program's libraries may need more space than this stack has. */
    for (size_t bytes = stack_bytes * 4; rc == EINVAL && bytes <= (size_t)64 << 20; bytes *= 4)
        rc = create(thread, bytes, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) atomic_fetch_add(&count, 1);
    return rc;
}

/* pthread_setname_np() for another thread opens a file, and that thread may already have ended. */
void own_thread_name(const char *name) { prctl(PR_SET_NAME, name); }

void own_thread_ends(void) { atomic_fetch_sub(&count, 1); }

int own_thread_count(void) { return atomic_load(&count); }

void own_thread_after_fork(void) { atomic_store(&count, 0); }
