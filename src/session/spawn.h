/* Starts a program, forwards our signals to it and waits for it. The program starts with our signal mask, and
 * with SIGPIPE and SIGCHLD as we got them (program_signals_init()).
 *     struct spawn s;
 *     struct spawn_options o = SPAWN_OPTIONS_INIT;
 *     o.argv = argv;
 *     if (spawn_start(&s, &o, &err) < 0) ...          -- also if exec fails
 *     int status = spawn_wait(&s);                    -- like a shell: 128 + n after signal n
 * Until spawn_wait() returns, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCHLD are blocked
 * in the calling thread; spawn_wait() forwards all but SIGCHLD. The terminal sends Ctrl-C to the program
 * directly, so it is not forwarded. */
#ifndef SESSION_SPAWN_H
#define SESSION_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct spawn_options {
    char *const *argv;      /* argv[0] is looked up in PATH; NULL-terminated */
    const char *const *set; /* "NAME=VALUE" strings to set, NULL-terminated; NULL: none */
    const char *dir;        /* working folder; NULL: ours */
    int in, out, err;       /* descriptors for the program's 0, 1 and 2; -1: inherit ours */
};
#define SPAWN_OPTIONS_INIT \
    { .in = -1, .out = -1, .err = -1 }

struct spawn {
    pid_t pid;
    bool ended;
    int wait_status; /* from waitpid(), after the exit; program_add_end() formats it */
    sigset_t old_mask;
};

int spawn_start(struct spawn *s, const struct spawn_options *o, struct err *err);
/* Blocks until the program exits and forwards signals. Returns 0..255, or 128 + n after signal n. */
int spawn_wait(struct spawn *s);

#endif
