/* Columns of the stage tables. Items: struct analysis_stage. */
#ifndef REPORT_STAGE_COLUMNS_H
#define REPORT_STAGE_COLUMNS_H

#include "report/columns.h"
#include "report/view.h"

/* [0]: times, model and utilization. [1]: data from the trace. */
extern const struct column_group stage_columns[2];
extern const struct column_group stage_idle_columns[1]; /* idle time and launch queue */
enum { STAGE_CAUSE_GROUPS = ANALYSIS_IDLE_CAUSES + 1 };
extern const struct column_group stage_cause_columns[STAGE_CAUSE_GROUPS]; /* idle time by cause, ms */
/* only items with counters */
extern const struct column_group stage_counter_columns[2];
extern const struct column_group stage_token_columns[1]; /* time per output token */

#endif
