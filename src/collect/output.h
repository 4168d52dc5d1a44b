/* The trace file of this process. It may be closed (at exit) or replaced (after fork) while threads of the
 * program are about to write to it. Therefore every use is bracketed:
 *     struct trace_writer *w = output_take();       -- NULL: no file is open; do not call output_give()
 *     if (w) { trace_writer_put(w, ...); output_give(); }
 * Any thread. Between the two calls a thread must not wait, because output_close() waits for it. */
#ifndef COLLECT_OUTPUT_H
#define COLLECT_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/settings.h"
#include "trace/writer.h"

extern struct settings settings; /* set before output_start() */

/* Makes the service thread open the trace and waits, but only for a limited time, because the disk may hang.
 * Records are counted as lost until the trace is open. Returns false if there will be no trace. */
bool output_start(void);
/* Service thread only. Opens <dir>/<host>-<pid>.ipt, or <dir>/<node>-rank<N>-<pid>.ipt in a job. On failure,
 * tries to write the reason to a file with the extension .problem. */
void output_open(uint64_t until_ns);
struct trace_writer *output_take(void);
void output_give(void);
/* Counts lost records. If no file is open, the counts are added to the next file. Any thread, also in signal
 * handlers. */
void output_lost(enum trace_kind kind, enum trace_lost_reason reason, uint64_t n);
/* Service thread only. Waits briefly for threads inside output_take(), writes the remaining data and closes
 * the file. Data that is not written by the deadline is lost. */
void output_close(uint64_t until_ns);
/* For the child of a fork: abandons the parent's file. The next output_take() opens a new file. */
void output_after_fork(void);
/* Returns the string id of a text in the open file. Caches it in *slot, which must be 0 at first. */
uint32_t output_string(struct trace_writer *w, const char *text, _Atomic uint64_t *slot);

/* Adds a "problem" to the trace: a sentence that the user can act on. Equal sentences are written once.
 * Problems are kept until the file is open. */
void report_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
