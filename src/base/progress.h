/* Progress line on the terminal: task, percentage, rate, time left.
 *     progress_start("reading", "bytes", total);  -- total 0: unknown; unit NULL: elapsed time, not rate
 *     progress_update(done);                      -- call at any rate; redraws at most 10 times per second
 *     progress_finish();
 * Draws nothing in the first 0.5 s, with --quiet, or if stderr is not a terminal. If INFERPROF_PROGRESS is
 * "lines", stderr gets lines such as "progress: timing 3 of 40 repeats", at most two per second. The server
 * reads them from the log of a job. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdint.h>

#define PROGRESS_LINE "progress: "

void progress_start(const char *what, const char *unit, uint64_t total);
void progress_update(uint64_t done);
/* text after the line */
void progress_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_finish(void);
void progress_clear_line(void); /* call before printing between updates */

#endif
