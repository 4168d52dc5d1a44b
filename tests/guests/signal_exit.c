/* signal_exit exit US: calls exit(3) from a signal handler US microseconds after its start, while it makes
 * NVTX calls and launches without a pause. signal_exit nvtx: the handler itself makes NVTX calls. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main(int argc, char **argv) {
    long us = argc > 2 ? atol(argv[2]) : 200;
    bool ends = argc > 1 && strcmp(argv[1], "exit") == 0;
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
