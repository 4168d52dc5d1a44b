/* The log of a job, which the job writes, as server-sent events. */
#ifndef SERVE_JOB_LOG_H
#define SERVE_JOB_LOG_H

#include <stdio.h>

#include "base/strbuf.h"

/* Adds the complete lines after *position as events, and moves *position behind them. Stops when `out` is
 * large. Of a line that was drawn several times, with carriage returns, the last text is sent. */
void job_log_events(FILE *log, long *position, struct strbuf *out);

#endif
