/* main_ends MODE: the main thread ends by pthread_exit(). The process must end with status 0, after its last
 * thread, with the handler and the output of a normal exit.
 *   used: main thread and others use NVTX
 *   unused: only the others do, and they end before the main thread
 *   child: as "used", in a child of fork() */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests/guest.h"

#define THREADS 4

static void at_end(void) { fputs("the handler has run\n", stdout); }

static void *work(void *arg) {
    usleep(arg ? 0 : 300000);
    for (int i = 0; i < 100; i++) {
        guest_push("in a thread");
        guest_pop();
    }
    return NULL;
}

static void start(void *at_once) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, at_once);
    for (int i = 0; i < THREADS; i++) at_once ? pthread_join(threads[i], NULL) : pthread_detach(threads[i]);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "used";
    int unused = strcmp(mode, "unused") == 0, status = 0;
    atexit(at_end);
    if (!unused) {
        guest_push("in the main thread");
        guest_pop();
    }
    if (strcmp(mode, "child") == 0) {
        pid_t pid = fork();
        if (pid > 0) {
            waitpid(pid, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
        }
        guest_push("in the main thread");
        guest_pop();
    }
    printf("not written yet; "); /* by exit() */
    start(unused ? &unused : NULL);
    pthread_exit(NULL);
}
