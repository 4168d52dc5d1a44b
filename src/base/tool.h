/* External tools: find them, run them with a log file and a time limit. A tool is stopped at the time limit
 * and on Ctrl-C (interrupt.h), and gets SIGTERM when we exit. Children that it leaves behind are killed. */
#ifndef BASE_TOOL_H
#define BASE_TOOL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

/* Searches PATH (program_find), then the install folders of NVIDIA's tools. The caller frees the path;
 * NULL: not found. */
char *tool_find(const char *name);

struct tool_run {
    char *const *argv;      /* argv[0] is a path; NULL-terminated */
    const char *const *set; /* "NAME=VALUE" strings to set, NULL-terminated; NULL: none */
    const char *log;        /* file for stdout and stderr */
    const char *input;      /* file for stdin; NULL: empty */
    double limit_s;         /* INFINITY: none */
};

/* Returns 0 if the tool exited with status 0. Otherwise returns -1; err contains the reason and, unless
 * interrupted, the most useful line of the log. Files that the tool wrote are kept. */
int tool_run(const struct tool_run *t, struct err *err);

/* Runs a tool and appends its last non-empty output line, without control characters. Returns -1 if it cannot
 * be started, fails, times out or prints nothing. argv[0] is a path. */
int tool_ask(char *const *argv, double limit_s, struct strbuf *out, struct err *err);

/* Appends the most useful line of a log: the first line with "==ERROR==" or "error:", otherwise the last
 * line that is not empty. Appends nothing if there is none. */
void tool_last_words(const char *log, struct strbuf *out);

#endif
