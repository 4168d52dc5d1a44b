/* Columns of comparisons. The terminal, Markdown, JSON and the pages of the server walk them. */
#ifndef REPORT_COMPARE_COLUMNS_H
#define REPORT_COMPARE_COLUMNS_H

#include "base/columns.h"

extern const struct column_group compare_row_columns;     /* items: struct compare_row */
extern const struct column_group compare_promise_columns; /* struct compare_promise */
extern const struct column_group compare_kernel_columns, compare_operator_columns; /* struct compare_work */
extern const struct column_group compare_env_columns;                              /* struct compare_env */
extern const struct column_group compare_caveat_columns; /* struct compare_caveat; JSON only */

#endif
