/* Columns of the table of matrix products. Items: struct analysis_gemm. */
#ifndef REPORT_GEMM_COLUMNS_H
#define REPORT_GEMM_COLUMNS_H

#include "report/columns.h"
#include "report/view.h"

extern const struct column_group gemm_columns[1];

#endif
