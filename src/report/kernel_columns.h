#ifndef REPORT_KERNEL_COLUMNS_H
#define REPORT_KERNEL_COLUMNS_H

#include "analyze/counters.h"
#include "analyze/kernel_profile.h"
#include "report/columns.h"
#include "report/view.h"

/* Groups: kernels, hardware counters, Nsight Compute profiles, rates (TFLOP/s), device. Items: struct
 * analysis_kernel. */
extern const struct column_group kernel_columns[6];
bool kernel_columns_have_counters(const void *view); /* struct view */

/* Writes one object: the columns of the kernel, "counters" and "ncu". */
void kernel_columns_json(const struct column_row *r, struct jsonw *j);
void kernel_columns_counter_json(const struct counter_row *row, struct jsonw *j); /* members of an object */

#endif
