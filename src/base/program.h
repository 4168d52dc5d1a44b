/* External programs: find them, build their environment, describe their exit status. tool.h starts helper
 * programs with a log and a time limit; session/spawn.h and session/engine_proc.h start the profiled ones. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <sys/types.h>

#include "base/strbuf.h"

/* Returns the file that execvp would run for `name`: `name` itself if it contains a slash, otherwise the
 * first match in PATH, or in the system's default path if PATH is not set. Skips folders and files without
 * execute permission. The caller frees the path; NULL: not found. */
char *program_find(const char *name);

/* Returns our environment with the "NAME=VALUE" strings of `set` (NULL-terminated array; may be NULL), which
 * replace variables of the same name. If a name occurs twice, the last value is used. The caller frees the
 * array; the strings are borrowed. */
char **program_environment(const char *const *set);

/* For a child after fork: runs the program in its own process group, with default signal handlers, `in` as
 * standard input and `log` as both outputs. The program gets the signal `at_end` when the thread that called
 * fork ends; `parent` is the process of that thread. Exits with status 127 if the program cannot be run. */
_Noreturn void program_exec(char *const *argv, char *const *env, int in, int log, int at_end, pid_t parent);

void program_add_end(struct strbuf *out, int wait_status); /* "exit status 3", "signal 9 (Killed)" */

#endif
