#include "base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/util.h"

static const int watched[] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[COUNTOF(watched)];
static volatile sig_atomic_t received;
static int pipe_fds[2] = { -1, -1 };

static void on_signal(int sig) {
    int saved = errno;
    if (!received) received = sig;
    if (pipe_fds[1] >= 0 && write(pipe_fds[1], "", 1) < 0) errno = saved; /* pipe full: already readable */
    errno = saved;
}

void interrupt_watch(void) {
    received = 0;
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) pipe_fds[0] = pipe_fds[1] = -1;
    struct sigaction on = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&on.sa_mask);
    for (size_t i = 0; i < COUNTOF(watched); i++) {
        sigaction(watched[i], &on, &before[i]);
        if (before[i].sa_handler == SIG_IGN)
            /* Signals that were ignored at start (nohup, background jobs) stay ignored. */
            sigaction(watched[i], &before[i], NULL);
    }
}

void interrupt_unwatch(void) {
    for (size_t i = 0; i < COUNTOF(watched); i++) sigaction(watched[i], &before[i], NULL);
    for (size_t i = 0; i < 2; i++) {
        if (pipe_fds[i] >= 0) close(pipe_fds[i]);
        pipe_fds[i] = -1;
    }
    received = 0;
}

int interrupt_signal(void) { return received; }
int interrupt_fd(void) { return pipe_fds[0]; }
