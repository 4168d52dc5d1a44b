/* An engine as a child process: sends one line to its stdin and reads one line back, with a time limit. The
 * engine runs in its own process group, so that Ctrl-C does not reach it. Its stderr goes to the log.
 *     struct engine_proc *p = engine_proc_start(argv, set, &err);
 *     if (engine_proc_exchange(p, line, n, 5.0, &reply) == ENGINE_IO_LINE) ...
 *     engine_proc_stop(p, 2.0, &how);                     -- also frees; accepts NULL */
#ifndef SESSION_ENGINE_PROC_H
#define SESSION_ENGINE_PROC_H

#include <stddef.h>

#include <sys/types.h>

#include "base/err.h"
#include "base/strbuf.h"

enum engine_io {
    ENGINE_IO_LINE,
    ENGINE_IO_ENDED,       /* the engine closed its stdin or stdout: it crashed or exited */
    ENGINE_IO_TIMEOUT,     /* time limit exceeded */
    ENGINE_IO_INTERRUPTED, /* see interrupt.h */
    ENGINE_IO_TOO_LONG,    /* line longer than ENGINE_LINE_MAX */
};

#define ENGINE_LINE_MAX (16u << 20)

struct engine_proc;
/* `set`: NULL-terminated "NAME=VALUE" strings to add to our environment; NULL: none. */
struct engine_proc *engine_proc_start(char *const *argv, const char *const *set, struct err *err);
/* `tick` is called every 200 ms or more often while waiting for a reply. */
void engine_proc_on_wait(struct engine_proc *p, void (*tick)(void *ctx), void *ctx);
/* Sends the n bytes of `line` (with its newline) and appends the next line to the reply, without its
 * newline. */
enum engine_io engine_proc_exchange(struct engine_proc *p, const char *line, size_t n, double limit_s,
                                    struct strbuf *reply);
pid_t engine_proc_pid(const struct engine_proc *p);
/* may be "" */
const char *engine_proc_last_words(const struct engine_proc *p);
/* Closes the stdin of the engine, waits up to grace_s, then kills the process group. Appends "exit status 1"
 * or "signal 11 (...)" to `how`, which may be NULL. */
void engine_proc_stop(struct engine_proc *p, double grace_s, struct strbuf *how);

#endif
