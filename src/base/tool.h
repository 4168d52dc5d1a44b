/* Finds external tools and runs them with a log file and a time limit. A tool is stopped at the time limit
 * and on Ctrl-C (interrupt.h), and gets SIGTERM when we exit. Children that it leaves behind are killed. */
#ifndef BASE_TOOL_H
#define BASE_TOOL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

/* Searches PATH, then the install folders of NVIDIA's tools. Caller frees; NULL: not found. */
char *tool_find(const char *name);

struct tool_run {
    char *const *argv;      /* argv[0] is a path; NULL-terminated */
    const char *const *set; /* "NAME=VALUE", NULL-terminated; NULL: none */
    const char *log;        /* file for stdout and stderr */
    const char *input;      /* file for stdin; NULL: empty */
    double limit_s;         /* INFINITY: none */
    double save_s;          /* at the time limit, the tool gets SIGINT and this time to write its result */
};

/* Returns 0 if the tool exits with status 0. Otherwise -1; err contains the reason and, unless interrupted,
 * the most useful line of the log. */
int tool_run(const struct tool_run *t, struct err *err);

/* Appends the last non-empty output line, without control characters. Returns -1 if the tool cannot be
 * started, fails, times out or prints nothing. */
int tool_ask(char *const *argv, double limit_s, struct strbuf *out, struct err *err);

/* Appends the first line with "==ERROR==" or "error:", or the last line that is not empty. */
void tool_last_words(const char *log, struct strbuf *out);

#endif
