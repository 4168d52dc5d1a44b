/* Generated records for the trace tests: every field of every kind is filled from one seed. */
#ifndef TESTS_UNIT_TRACE_RECORDS_H
#define TESTS_UNIT_TRACE_RECORDS_H

#include <stdint.h>

#include "trace/format.h"

enum records_style {
    RECORDS_REALISTIC, /* ascending times, few names, small numbers */
    RECORDS_EXTREME,   /* 0, 1, the largest number, random bits, infinities and NaNs */
};

/* Fills `out` (record_bytes) with record number i of a kind; deterministic. String numbers are below
 * nstrings. */
void records_make(unsigned kind, uint64_t i, enum records_style style, uint32_t nstrings, void *out);
/* 0 if equal, bit by bit. */
int records_compare(unsigned kind, const void *a, const void *b);

#endif
