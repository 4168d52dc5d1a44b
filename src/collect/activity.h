/* CUPTI's activity records: enables the record kinds and provides the buffers. CUPTI returns full buffers on
 * its own thread or on the thread that flushes. The buffer callbacks must not wait for the program. */
#ifndef COLLECT_ACTIVITY_H
#define COLLECT_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

/* Registers the buffer callbacks. On failure, calls report_problem() and returns false. */
bool activity_start(void);
void activity_capture(bool on);
uint64_t activity_buffers(void); /* buffers returned by CUPTI */
void activity_after_fork(void);

#endif
