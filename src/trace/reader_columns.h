/* Decodes the columns of a chunk payload into records. Validates all input. */
#ifndef TRACE_READER_COLUMNS_H
#define TRACE_READER_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "trace/format.h"

/* Fills n records of s->record_bytes at `out`. Skips unknown columns; missing columns read as unknown (0,
 * NaN). `values` is scratch memory for n numbers. Returns 0, or -1 if the input is invalid; see err. */
int reader_columns_decode(const struct trace_schema *s, struct bytes in, size_t n, uint64_t *values,
                          void *out, struct err *err);

#endif
