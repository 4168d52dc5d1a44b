/* CUPTI's activity records: enables the record kinds and provides the buffers. CUPTI returns full buffers
 * on a thread of its own or on the thread that flushes; the buffer callbacks must not wait for the
 * program. */
#ifndef COLLECT_ACTIVITY_H
#define COLLECT_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

bool activity_start(void); /* registers the buffer callbacks; false: report_problem() was called */
void activity_capture(bool on);
uint64_t activity_buffers(void); /* buffers that CUPTI has returned so far */
void activity_after_fork(void);

#endif
