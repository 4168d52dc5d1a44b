#include "base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/util.h"

static const int watched[] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[COUNTOF(watched)];
static volatile sig_atomic_t came;
static int pipe_fds[2] = { -1, -1 };

static void note(int sig) {
    int saved = errno;
    if (!came) came = sig;
    if (pipe_fds[1] >= 0 && write(pipe_fds[1], "", 1) < 0) errno = saved; /* full: it is readable already */
    errno = saved;
}

void interrupt_watch(void) {
    came = 0;
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) pipe_fds[0] = pipe_fds[1] = -1;
    struct sigaction on = { .sa_handler = note, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&on.sa_mask);
    for (size_t i = 0; i < COUNTOF(watched); i++) {
        sigaction(watched[i], &on, &before[i]);
        if (before[i].sa_handler == SIG_IGN)
            sigaction(watched[i], &before[i], NULL); /* nohup, or a script's & */
    }
}

void interrupt_unwatch(void) {
    for (size_t i = 0; i < COUNTOF(watched); i++) sigaction(watched[i], &before[i], NULL);
    for (size_t i = 0; i < 2; i++) {
        if (pipe_fds[i] >= 0) close(pipe_fds[i]);
        pipe_fds[i] = -1;
    }
    came = 0;
}

int interrupt_signal(void) { return came; }
int interrupt_fd(void) { return pipe_fds[0]; }
