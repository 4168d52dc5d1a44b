/* The trace file of this process, and the gate in front of it: the file may be closed (at exit) or
 * replaced (after fork) while threads of the program are on their way to it.
 *     struct trace_writer *w = output_take();       -- NULL: closed or never opened; nothing to give back
 *     if (w) { trace_writer_put(w, ...); output_give(); }
 * Whoever holds it must not wait for anything. */
#ifndef COLLECT_OUTPUT_H
#define COLLECT_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/settings.h"
#include "trace/writer.h"

extern struct settings settings; /* filled before the first thread can ask */

bool output_open(
    void); /* <dir>/<host>-<pid>.ipt and what is known of the process; false: problem() says why */
struct trace_writer *output_take(void);
void output_give(void);
/* Waits up to grace_ms for those inside, then closes. Somebody stays inside: what is there is flushed and
 * the file is left without its closing mark. */
void output_close(unsigned grace_ms);
/* In the child after fork: the parent's file is forgotten, a new one is opened by the first output_take(). */
void output_after_fork(void);
/* The number of a text in the open file, remembered in a slot that begins as 0: numbers are valid within
 * one file. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot);

/* A sentence a user can act on, into the trace's meta; the same one only once. Before the file is open it
 * waits. */
void problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
