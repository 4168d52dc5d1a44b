/* Encodes records of one kind as the columns of a chunk payload. reader_columns.h decodes them. */
#ifndef TRACE_COLUMNS_H
#define TRACE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

/* Returns the maximum number of bytes that columns_encode writes for n records. */
size_t columns_bound(const struct trace_schema *s, size_t n);
/* Returns the number of bytes written to out. `values` is scratch memory for n numbers. */
size_t columns_encode(const struct trace_schema *s, const void *records, size_t n, uint64_t *values,
                      uint8_t *out);

#endif
