/* The trace file of this process. The file may be closed (at exit) or replaced (after fork) while threads
 * of the program are about to write to it, so every use is bracketed:
 *     struct trace_writer *w = output_take();       -- NULL: closed or never opened; do not give back
 *     if (w) { trace_writer_put(w, ...); output_give(); }
 * Any thread. A thread that has taken the writer must not wait for anything: output_close() waits for it. */
#ifndef COLLECT_OUTPUT_H
#define COLLECT_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/settings.h"
#include "trace/writer.h"

extern struct settings settings; /* filled before the trace is opened */

/* Opens <dir>/<host>-<pid>.ipt and describes the process in it. */
bool output_open(void);
struct trace_writer *output_take(void);
void output_give(void);
/* Waits up to grace_ms for threads that have taken the writer, then closes. If one is still there, the file
 * is flushed but left without its closing mark. */
void output_close(unsigned grace_ms);
/* In the child after fork: abandons the parent's file. The next output_take() opens a new one. */
void output_after_fork(void);
/* String id of a text in the open file, cached in *slot (initially 0). Ids are valid within one file. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot);

/* Adds a "problem" to the trace's meta: a sentence that the user can act on. Equal sentences are written
 * once. Before the file is open, problems are kept until it is. */
void report_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
