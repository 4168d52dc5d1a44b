/* Bytes of a file, inflated on a thread of its own when it is gzip. Small fixed memory: a few blocks in
 * flight.
 *     struct source *s = source_open(path, &err);
 *     while ((n = source_read(s, buf, cap)) > 0) ...
 *     if (source_problem(s)) ...                       -- it ended early: what came before is sound
 *     source_close(s); */
#ifndef IMPORT_SOURCE_H
#define IMPORT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source;
struct source *source_open(const char *path, struct err *err);
void source_close(struct source *s);
/* 0 at the end, or where it cannot go on. Its type is that of json_fill_fn. */
size_t source_read(void *source, char *buf, size_t cap);
const char *source_problem(const struct source *s); /* NULL: none; "the gzip data ends early" */
bool source_is_gzip(const struct source *s);

#endif
