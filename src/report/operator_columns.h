/* Columns of the operator table. Items: struct analysis_operator. */
#ifndef REPORT_OPERATOR_COLUMNS_H
#define REPORT_OPERATOR_COLUMNS_H

#include "report/columns.h"
#include "report/view.h"

extern const struct column_group operator_columns[2];

#endif
