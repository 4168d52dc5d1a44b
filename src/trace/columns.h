/* Records of one kind to the columns of a chunk payload. The way back is reader_columns.h. */
#ifndef TRACE_COLUMNS_H
#define TRACE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

/* Bytes that columns_encode may write for n records at the most. */
size_t columns_bound(const struct trace_schema *s, size_t n);
/* Returns the bytes written to out. `values` is scratch for n numbers. */
size_t columns_encode(const struct trace_schema *s, const void *records, size_t n, uint64_t *values,
                      uint8_t *out);

#endif
