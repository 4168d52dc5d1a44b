/* The columns of a chunk payload back to records. Trusts nothing. */
#ifndef TRACE_READER_COLUMNS_H
#define TRACE_READER_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "trace/format.h"

/* Fills n records of s->record_bytes at `out`. Unknown columns are skipped, missing ones read as unknown.
 * `values` is scratch for n numbers. */
int reader_columns_decode(const struct trace_schema *s, struct bytes in, size_t n, uint64_t *values,
                          void *out, struct err *err);

#endif
