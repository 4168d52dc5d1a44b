/* Finds external programs, builds their environment, and describes their exit status. tool.h and session/
 * start them. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <sys/types.h>

#include "base/strbuf.h"

/* Returns the file that execvp() would run: `name` itself if it contains a slash, otherwise the first
 * executable match in PATH. Caller frees; NULL: not found. */
char *program_find(const char *name);

/* Returns our environment with the "NAME=VALUE" strings of `set` (NULL-terminated; may be NULL), which
 * replace variables of the same name. If a name occurs twice in `set`, the last value is used. Caller frees
 * the array, not the strings. */
char **program_environment(const char *const *set);

/* For a child after fork. Runs the program in its own process group, with default signal handlers, `in` as
 * standard input and `log` for both outputs. The program gets the signal `at_end` when the thread that forked
 * ends. `parent`: process of that thread. Exits with 127 on failure. */
_Noreturn void program_exec(char *const *argv, char *const *env, int in, int log, int at_end, pid_t parent);

/* Called once at the start: write errors are handled instead of SIGPIPE, and children are waited for even if
 * this program was started with SIGCHLD ignored. */
void program_signals_init(void);
/* For a child after fork: its signals are as this program got them. */
void program_signals_restore(void);

void program_add_end(struct strbuf *out, int wait_status); /* "exit status 3", "signal 9 (Killed)" */

#endif
