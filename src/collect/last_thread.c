#include "collect/last_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/own_thread.h"
#include "collect/thread.h"

#define PERIOD_MS 100
#define STACK_BYTES ((size_t)1 << 20) /* the program's atexit() handlers run here */
#define TASK_LINKS 2                  /* links of /proc/self/task without threads */

static atomic_bool main_known, watching;
static sigset_t signals; /* of the thread that started the watch */

static bool on_main_thread(void) { return syscall(SYS_gettid) == getpid(); }

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

void last_thread_registered(void) {
    if (on_main_thread()) atomic_store(&main_known, true);
}

void last_thread_ends(void) {
    pthread_t thread;
    if ((atomic_load(&main_known) && !on_main_thread()) || atomic_exchange(&watching, true)) return;
    pthread_sigmask(SIG_SETMASK, NULL, &signals);
    if (own_thread_start(&thread, STACK_BYTES, watch, NULL) == 0) pthread_detach(thread);
}

/* The thread that called fork() is the main thread of the child. */
void last_thread_after_fork(void) {
    atomic_store(&main_known, host_thread.state != NULL);
    atomic_store(&watching, false);
}
