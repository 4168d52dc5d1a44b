/* Other people's programs: where they are, what environment they get, how they ended. Starting one: tool.h
 * (a log and a time limit); session/spawn.h and session/engine_proc.h for the profiled ones. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include "base/strbuf.h"

/* The file that exec would take for `name`: itself where it holds a slash, else the first of PATH; where
 * PATH is unset, of the system's own folders. Folders and files that may not be executed are passed over.
 * Caller frees; NULL: nowhere. */
char *program_find(const char *name);

/* Our environment with "NAME=VALUE" of `set` (ends with NULL; may be NULL) laid over it, the later of
 * equal names. Caller frees the array; the strings are borrowed. */
char **program_environment(const char *const *set);

void program_add_end(struct strbuf *out, int wait_status); /* "exit status 3", "signal 9 (Killed)" */

#endif
