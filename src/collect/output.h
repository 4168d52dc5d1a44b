/* The trace file of this process. The file may be closed (at exit) or replaced (after fork) while threads
 * of the program are about to write to it, so every use is bracketed:
 *     struct trace_writer *w = output_take();       -- NULL: closed or never opened; do not give back
 *     if (w) { trace_writer_put(w, ...); output_give(); }
 * Any thread. A thread that has taken the writer must not wait for anything: output_close() waits for it. In
 * a process that is not ours (host.h) there is no writer. */
#ifndef COLLECT_OUTPUT_H
#define COLLECT_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/settings.h"
#include "trace/writer.h"

extern struct settings settings; /* filled before the trace is opened */

/* Has the trace opened by the service thread, and waits for it, but not for a disk that hangs: records are
 * then lost, and counted, until it is open. False: there is no trace. */
bool output_start(void);
/* Service thread only: opens <dir>/<host>-<pid>.ipt and describes the process in it. If that fails, a file
 * <host>-<pid>.problem beside it holds the reason, where that can be written. */
void output_open(uint64_t until_ns);
struct trace_writer *output_take(void);
void output_give(void);
/* Counts records that cannot be kept; without an open file they are added to the next one. Any thread, also
 * in a signal handler. */
void output_lost(enum trace_kind kind, enum trace_lost_reason reason, uint64_t n);
/* Service thread only. Waits a moment for threads that have taken the writer, then writes the rest and closes
 * the file. What is not done at the deadline is abandoned. */
void output_close(uint64_t until_ns);
/* In the child after fork: abandons the parent's file. The next output_take() opens a new one. */
void output_after_fork(void);
/* String id of a text in the open file, cached in *slot (initially 0). Ids are valid within one file. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot);

/* Adds a "problem" to the trace's meta: a sentence that the user can act on. Equal sentences are written
 * once. Before the file is open, problems are kept until it is. */
void report_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
