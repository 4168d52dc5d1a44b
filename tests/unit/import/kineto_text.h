/* Chrome JSON from a text, for tests. */
#ifndef TESTS_UNIT_IMPORT_KINETO_TEXT_H
#define TESTS_UNIT_IMPORT_KINETO_TEXT_H

#include "import/import.h"
#include "import/kineto.h"
#include "trace/reader.h"

/* Counts what the text holds, through a window of so many bytes; no trace is written. */
int kineto_count(const char *text, size_t window_bytes, struct sink *sink, struct kineto_info *info);

/* The text as a file, imported and opened again; the caller closes. */
struct trace_reader *kineto_trace(const char *text, struct import_result *result);
/* The records of a kind, all in one chunk; NULL and 0: none. They live until the next call. */
const void *kineto_records(struct trace_reader *r, enum trace_kind kind, size_t *n);

#define KINETO_KERNEL                                                                                       \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": 1, \"dur\": 2, " \
    "\"args\": {\"correlation\": 5}}"

#endif
