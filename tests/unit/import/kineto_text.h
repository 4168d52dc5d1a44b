/* Imports Chrome JSON from a string, for tests. */
#ifndef TESTS_UNIT_IMPORT_KINETO_TEXT_H
#define TESTS_UNIT_IMPORT_KINETO_TEXT_H

#include "import/import.h"
#include "import/kineto.h"
#include "trace/reader.h"

/* Counts the events of the text, with a window of this many bytes; writes no trace. */
int kineto_count(const char *text, size_t window_bytes, struct sink *sink, struct kineto_info *info);

/* Writes the text to a file, imports it and opens the trace; the caller closes it. */
struct trace_reader *kineto_trace(const char *text, struct import_result *result);
/* The records of a kind, all in one chunk; NULL and 0: none. Valid until the next call. */
const void *kineto_records(struct trace_reader *r, enum trace_kind kind, size_t *n);

#define KINETO_KERNEL                                                                                       \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": 1, \"dur\": 2, " \
    "\"args\": {\"correlation\": 5}}"

#endif
