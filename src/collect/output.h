/* The trace file of this process. The file may be closed (at exit) or replaced (after fork) while threads of
 * the program are about to write to it, so every use is bracketed:
 *     struct trace_writer *w = output_take();       -- NULL: closed or never opened; do not give back
 *     if (w) { trace_writer_put(w, ...); output_give(); }
 * Usable on any thread. A thread that has taken the writer must not wait for anything, because output_close()
 * waits for that thread. In a process that is not ours (host.h) there is no writer. */
#ifndef COLLECT_OUTPUT_H
#define COLLECT_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/settings.h"
#include "trace/writer.h"

extern struct settings settings; /* set before the trace is opened */

/* Makes the service thread open the trace and waits until it is open. The wait is limited, because the disk
 * may hang: records are counted as lost until the trace is open. Returns false if there is no trace. */
bool output_start(void);
/* Service thread only: opens <dir>/<host>-<pid>.ipt, or <dir>/<node>-rank<N>-<pid>.ipt in a job, and
 * describes the process in it. On failure, writes the reason to a file with the extension .problem instead
 * of .ipt, if possible. */
void output_open(uint64_t until_ns);
struct trace_writer *output_take(void);
void output_give(void);
/* Counts records that cannot be kept; if no file is open, the counts are added to the next file. Usable on
 * any thread and in signal handlers. */
void output_lost(enum trace_kind kind, enum trace_lost_reason reason, uint64_t n);
/* Service thread only. Waits briefly for threads that have taken the writer, then writes the rest and
 * closes the file. Work that is not finished at the deadline is abandoned. */
void output_close(uint64_t until_ns);
/* Call this in the child after a fork. Abandons the parent's file. The next output_take() opens a new
 * file. */
void output_after_fork(void);
/* Returns the string id of a text in the open file, cached in *slot (initially 0). Ids are valid within
 * one file. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot);

/* Adds a "problem" to the trace's meta records: a sentence that the user can act on. Equal sentences are
 * written once. Problems reported before the file is open are written when it opens. */
void report_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
