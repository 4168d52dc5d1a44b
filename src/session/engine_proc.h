/* An engine as a child process: one line to its standard input, one line back, within a limit. It runs in
 * a process group of its own, so that a Ctrl-C meant for us does not hit it, and ends when we do. What it
 * says on standard error goes to the log.
 *     struct engine_proc *p = engine_proc_start(argv, set, &err);
 *     if (engine_proc_exchange(p, line, n, 5.0, &reply) == ENGINE_IO_LINE) ...
 *     engine_proc_stop(p, 2.0, &how);                     -- also frees; NULL does nothing */
#ifndef SESSION_ENGINE_PROC_H
#define SESSION_ENGINE_PROC_H

#include <stddef.h>

#include "base/err.h"
#include "base/strbuf.h"

enum engine_io {
    ENGINE_IO_LINE,
    ENGINE_IO_ENDED,       /* closed its output: it died or left */
    ENGINE_IO_TIMEOUT,     /* the limit passed */
    ENGINE_IO_INTERRUPTED, /* see interrupt.h */
    ENGINE_IO_TOO_LONG,    /* a line without end */
};

#define ENGINE_LINE_MAX (16u << 20)

struct engine_proc;
/* `set`: "NAME=VALUE" laid over our environment, ends with NULL; NULL: nothing. */
struct engine_proc *engine_proc_start(char *const *argv, const char *const *set, struct err *err);
/* Called about five times a second while an answer is awaited. */
void engine_proc_on_wait(struct engine_proc *p, void (*tick)(void *ctx), void *ctx);
/* Sends the n bytes of `line` (which ends in a newline) and appends the next line, without its newline. */
enum engine_io engine_proc_exchange(struct engine_proc *p, const char *line, size_t n, double limit_s,
                                    struct strbuf *reply);
const char *engine_proc_last_words(const struct engine_proc *p); /* end of its standard error; may be "" */
/* Closes its input, waits up to grace_s, then kills the group. `how` gets "exit status 1", "signal 11
 * (...)". */
void engine_proc_stop(struct engine_proc *p, double grace_s, struct strbuf *how);

#endif
