/* Starts a program, passes our signals on to it and waits for its end. The program keeps its own standard
 * streams unless told otherwise, and starts with the signal dispositions and mask we were started with.
 *     struct spawn s;
 *     struct spawn_options o = SPAWN_OPTIONS_INIT;
 *     o.argv = argv;
 *     if (spawn_start(&s, &o, &err) < 0) ...          -- also when the program cannot be executed
 *     int status = spawn_wait(&s);                    -- as a shell would say it: 128 + n after signal n
 * From start to wait SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are held back from the calling
 * thread, and wait hands them on. A Ctrl-C at a terminal reaches the program by itself and is not sent
 * twice. */
#ifndef SESSION_SPAWN_H
#define SESSION_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct spawn_options {
    char *const *argv;      /* argv[0] is looked up in PATH; ends with NULL */
    const char *const *set; /* "NAME=VALUE" laid over our environment, ends with NULL; NULL: nothing */
    const char *dir;        /* working folder; NULL: ours */
    int in, out, err;       /* descriptors that become 0, 1 and 2; -1: ours */
};
#define SPAWN_OPTIONS_INIT \
    { .in = -1, .out = -1, .err = -1 }

struct spawn {
    pid_t pid;
    bool ended;
    int wait_status; /* of waitpid(), once ended; program_add_end() says it in words */
    sigset_t old_mask;
};

int spawn_start(struct spawn *s, const struct spawn_options *o, struct err *err);
/* Blocks until the program ended; forwards signals meanwhile. Returns spawn_status(). */
int spawn_wait(struct spawn *s);
/* True once the program ended; waits at most timeout_ms (0: only looks). Forwards signals meanwhile. The mask
 * is given back by the call that returns true. */
bool spawn_wait_for(struct spawn *s, unsigned timeout_ms);
int spawn_status(const struct spawn *s);         /* 0..255, or 128 + n */
void spawn_kill(const struct spawn *s, int sig); /* nothing once it ended */

#endif
