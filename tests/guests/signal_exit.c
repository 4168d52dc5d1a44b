/* signal_exit exit US: calls exit(3) from a signal handler US microseconds after its start, while it makes
 * NVTX calls and launches without a pause. signal_exit nvtx: the handler itself makes NVTX calls.
 * signal_exit first: the first calls of 64 threads are in a handler, which may have interrupted malloc().
 * With no_malloc.c preloaded, an allocation in a handler ends the program. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "guests/guest.h"

static void exit_now(int number) {
    (void)number;
    exit(3);
}

static volatile sig_atomic_t handled;

static void work_in_handler(int number) {
    (void)number;
    guest_push("in the handler");
    guest_pop();
    handled++;
}

static void work(unsigned i) {
    char name[32];
    snprintf(name, sizeof name, "range %u", i % 5000);
    guest_push(name);
    if (i % 4 == 0) guest_kernels(3);
    guest_mark_wide(L"mark");
    guest_pop();
}

static void (*no_malloc)(bool on);

static void first_calls(int number) {
    (void)number;
    if (no_malloc) no_malloc(true);
    guest_push("in the handler");
    guest_name_thread((unsigned)syscall(SYS_gettid), "first calls");
    guest_name_category((unsigned)handled, "a category");
    guest_kernels(1);
    guest_mark_wide(L"mark");
    guest_pop();
    handled++;
    if (no_malloc) no_malloc(false);
}

static void *raise_signal(void *arg) {
    (void)arg;
    raise(SIGUSR1);
    return NULL;
}

static int run_first_calls(void) {
    pthread_t thread;
    void *found = dlsym(RTLD_DEFAULT, "no_malloc");
    memcpy(&no_malloc, &found, sizeof found);
    sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = first_calls }, NULL);
    guest_cuda();
    work(0); /* initialises NVTX, which allocates, and gives CUPTI a buffer */
    for (int i = 0; i < 64; i++)
        if (pthread_create(&thread, NULL, raise_signal, NULL) == 0) pthread_join(thread, NULL);
    printf("%d handlers\n", (int)handled);
    return 0;
}

int main(int argc, char **argv) {
    long us = argc > 2 ? atol(argv[2]) : 200;
    bool ends = argc > 1 && strcmp(argv[1], "exit") == 0;
    if (argc > 1 && strcmp(argv[1], "first") == 0) return run_first_calls();
    struct sigaction act = { .sa_handler = ends ? exit_now : work_in_handler };
    guest_cuda();
    work(0);
    sigaction(SIGALRM, &act, NULL);
    struct itimerval t = { .it_value = { .tv_usec = us }, .it_interval = { .tv_usec = ends ? 0 : us } };
    setitimer(ITIMER_REAL, &t, NULL);
    for (unsigned i = 1; ends || handled < 400; i++) work(i);
    puts("done");
    return 0;
}
