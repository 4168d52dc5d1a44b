/* Reads `nsys stats --report cuda_gpu_kern_sum --format csv`: totals per kernel, without timestamps. */
#ifndef IMPORT_NSYS_SUMMARY_H
#define IMPORT_NSYS_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef void nsys_summary_fn(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns);
/* Calls back for each kernel; *bad_rows counts unreadable rows. */
int nsys_summary_read(const char *path, nsys_summary_fn *row, void *ctx, uint64_t *bad_rows, struct err *err);
int nsys_summary_read_text(char *text, size_t len, const char *name, nsys_summary_fn *row, void *ctx,
                           uint64_t *bad_rows, struct err *err);

#endif
