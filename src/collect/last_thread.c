#include "collect/last_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own_thread.h"
#include "collect/host.h"

#define PERIOD_MS 100
#define STACK_BYTES ((size_t)1 << 20) /* the program's atexit() handlers run here */
#define TASK_LINKS 2                  /* links of /proc/self/task without threads */

static pthread_key_t key;
static bool have_key;
static atomic_bool watching;
static sigset_t signals; /* of the thread that started the watch */

/* Both calls need no descriptor: the program's own numbers stay as they are. The main thread has no memory
 * any more when it has ended, hence no executable. It still counts as a thread. */
static bool only_ours_are_left(void) {
    char path[1];
    struct stat s;
    if (readlink("/proc/self/exe", path, sizeof path) >= 0 || errno != ENOENT) return false;
    return stat("/proc/self/task", &s) == 0 && (long)s.st_nlink == TASK_LINKS + 1 + own_thread_count();
}

static void *watch(void *arg) {
    (void)arg;
    own_thread_name("inferprof-last");
    while (!only_ours_are_left()) nanosleep(&(struct timespec){ .tv_nsec = PERIOD_MS * 1000000 }, NULL);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    exit(0);
}

/* host_enter() is not used: the thread may end inside our code, by pthread_exit() in a signal handler. */
static void on_thread_end(void *arg) {
    pthread_t thread;
    int saved_errno = errno;
    (void)arg;
    if (host_is_our_process() && !atomic_exchange(&watching, true)) {
        pthread_sigmask(SIG_SETMASK, NULL, &signals);
        if (own_thread_start(&thread, STACK_BYTES, watch, NULL) == 0) pthread_detach(thread);
    }
    errno = saved_errno;
}

void last_thread_start(void) {
    have_key = pthread_key_create(&key, on_thread_end) == 0;
    last_thread_after_fork();
}

/* The thread that called fork() is the only one of the child. */
void last_thread_after_fork(void) {
    atomic_store(&watching, false);
    if (have_key) pthread_setspecific(key, &key); /* any value but NULL */
}
