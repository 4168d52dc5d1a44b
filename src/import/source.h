/* Reads the bytes of a file. A separate thread decompresses gzip files. Uses a few blocks of memory.
 *     struct source *s = source_open(path, &err);
 *     while ((n = source_read(s, buf, cap)) > 0) ...
 *     if (source_problem(s)) ...                       -- truncated or damaged; data before it is valid
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
/* A json_fill_fn. Returns 0 at the end or on a read error. */
size_t source_read(void *source, char *buf, size_t cap);
/* NULL, or "the gzip data ends early" */
const char *source_problem(const struct source *s);
bool source_is_gzip(const struct source *s);

#endif
