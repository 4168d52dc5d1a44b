/* One line on the terminal for work that takes more than a moment: what, how far, rate, time left.
 *     progress_start("reading", "bytes", total);       -- total 0: not known; unit NULL: only the time is shown
 *     progress_update(done);                           -- as often as you like; draws at most 10 times a second
 *     progress_finish();
 * Draws nothing in the first half second, with --quiet, or where stderr is no terminal. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdint.h>

void progress_start(const char *what, const char *unit, uint64_t total);
void progress_update(uint64_t done);
void progress_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* free text after the bar */
void progress_finish(void);
void progress_clear_line(void); /* for those who print between updates */

#endif
