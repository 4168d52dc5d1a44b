/* Columns of lists of runs and of their stages. The terminal, the pages and the JSON of the API walk them. */
#ifndef SERVE_RUN_COLUMNS_H
#define SERVE_RUN_COLUMNS_H

#include "base/columns.h"

/* Items are struct history_run. A list has the names, then the figures of the run or of the filter's stage,
 * then the notes. */
extern const struct column_group run_name_columns, run_figure_columns, run_stage_figure_columns,
    run_note_columns;
extern const struct column_group run_detail_columns; /* JSON only */
/* Items are struct record_stage. */
extern const struct column_group run_stage_columns;
extern const struct column_group run_kernel_columns;  /* struct record_kernel */
extern const struct column_group run_measure_columns; /* struct record_figure; JSON only */
extern const struct column_group run_finding_columns; /* struct record_finding; JSON only */
extern const struct column_group run_env_columns;     /* struct record_env; JSON only */

#endif
