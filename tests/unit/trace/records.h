/* Made-up records for the trace tests: every field of every kind filled from one seed. */
#ifndef TESTS_UNIT_TRACE_RECORDS_H
#define TESTS_UNIT_TRACE_RECORDS_H

#include <stdint.h>

#include "trace/format.h"

enum records_style {
    RECORDS_REALISTIC, /* rising times, few names, small numbers */
    RECORDS_EXTREME,   /* 0, 1, the largest and random bits, infinities and NaNs */
};

/* Record number i of a kind, the same for equal arguments. `out` holds record_bytes. Strings stay under
 * nstrings. */
void records_make(unsigned kind, uint64_t i, enum records_style style, uint32_t nstrings, void *out);
/* 0 if equal bit for bit. */
int records_compare(unsigned kind, const void *a, const void *b);

#endif
