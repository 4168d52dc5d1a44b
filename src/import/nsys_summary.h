/* Reads `nsys stats --report cuda_gpu_kern_sum --format csv`: totals per kernel, without timestamps. */
#ifndef IMPORT_NSYS_SUMMARY_H
#define IMPORT_NSYS_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "import/format.h"

extern const struct import_format nsys_summary_format;

/* Calls `row` for each kernel. Adds unreadable rows to *bad_rows. */
int nsys_summary_read_text(char *text, size_t len, const char *name, import_sum_fn *row, void *ctx,
                           uint64_t *bad_rows, struct err *err);

#endif
