/* Other people's tools: found, started with a log and a time limit, ended with all their children when the
 * limit passes or Ctrl-C comes (interrupt.h); they end when we do. */
#ifndef BASE_TOOL_H
#define BASE_TOOL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

/* In PATH (program_find), or where NVIDIA's installers put what they do not put there. Caller frees; NULL:
 * nowhere. */
char *tool_find(const char *name);

struct tool_run {
    char *const *argv;      /* argv[0] is a path; ends with NULL */
    const char *const *set; /* "NAME=VALUE" laid over our environment, ends with NULL; NULL: nothing */
    const char *log;        /* file for what it and the program print */
    const char *input;      /* file for standard input; NULL: empty */
    double limit_s;         /* INFINITY: none */
};

/* 0: it ended with status 0. -1: err says how it ended and what it said last; whatever it wrote is still
 * there. */
int tool_run(const struct tool_run *t, struct err *err);

/* What it prints, in one line: the last that is not empty, without control characters. -1: it cannot be
 * started, failed, was not done in time, or said nothing. argv[0] is a path. */
int tool_ask(char *const *argv, double limit_s, struct strbuf *out, struct err *err);

/* The line that says most of what went wrong: the first with "==ERROR==" or "error", else the last. Empty:
 * no log. */
void tool_last_words(const char *log, struct strbuf *out);

#endif
