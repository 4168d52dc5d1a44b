/* copies _Fork|clone|vfork|fork [N]: copies its process N times (40) while other threads work, so that
 * locks of the collector are held by threads that the copy does not have. The copy works, and ends by
 * exit(). */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests/guest.h"

#define THREADS 4
#define LEAST_ROUNDS 16 /* of each thread: 40 calls of vfork() may end before a thread has started */

static atomic_bool stop;

static void *work(void *arg) {
    char name[32];
    (void)arg;
    for (unsigned i = 0; i < LEAST_ROUNDS || !atomic_load(&stop); i++) {
        snprintf(name, sizeof name, "range %u", i % 5000);
        guest_push(name);
        if (i % 10 == 0) guest_kernels(1);
        guest_pop();
        if (i % 50 == 0) usleep(1000); /* keeps the trace small */
    }
    return NULL;
}

static pid_t copy_process(const char *how) {
    if (strcmp(how, "_Fork") == 0) return _Fork();
    if (strcmp(how, "clone") == 0) return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    return fork();
}

static void in_the_copy(void) {
    for (int i = 0; i < 100; i++) {
        guest_push("in the copy");
        guest_pop();
    }
    exit(7);
}

/* Like posix_spawn() and system(), but the program to run does not exist. */
static void spawn_nothing(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/nonexistent/program", "program", (char *)NULL);
        _exit(7);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0 || WEXITSTATUS(status) != 7) guest_fail("a child ended with %d", status);
}

static void copy_once(const char *how) {
    int status;
    pid_t pid = copy_process(how);
    if (pid == 0) in_the_copy();
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        guest_fail("a copy ended with %d", status);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "fork";
    int copies = argc > 2 ? atoi(argv[2]) : 40;
    pthread_t threads[THREADS];
    guest_cuda();
    guest_push("first");
    guest_pop();
    guest_kernels(1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < copies; i++)
        if (strcmp(how, "vfork") == 0)
            spawn_nothing();
        else
            copy_once(how);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    puts("all copies ended");
    return 0;
}
