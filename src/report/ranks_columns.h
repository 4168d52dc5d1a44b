/* Columns of the tables of a job. The context of every row is a struct rank_report; `index` is the row in the
 * job. Tables for people and ranks.json walk the same columns. */
#ifndef REPORT_RANKS_COLUMNS_H
#define REPORT_RANKS_COLUMNS_H

#include "base/columns.h"

extern const struct column_group rank_stage_columns;        /* struct rank_stage */
extern const struct column_group rank_node_columns;         /* struct rank_node */
extern const struct column_group rank_rank_columns;         /* struct rank_row */
extern const struct column_group rank_rank_more_columns;    /* struct rank_row, after its times */
extern const struct column_group rank_collective_columns;   /* struct rank_collective */
extern const struct column_group rank_communicator_columns; /* struct rank_communicator */
extern const struct column_group rank_clock_columns;        /* struct rank_clock */
/* JSON only. */
extern const struct column_group rank_time_columns; /* struct rank_time */
extern const struct column_group rank_cost_columns; /* struct rank_cost */
extern const struct column_group rank_cell_columns; /* struct rank_cell; `index` is the stage */

#endif
