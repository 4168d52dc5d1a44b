/* JSON reader for small documents: jansson with size limits and messages that name file, line and column. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* Caller json_decref()s. Files over max_bytes are rejected before they are read; duplicate keys are
 * errors. */
json_t *jsonr_load_path(const char *path, size_t max_bytes, struct err *err);
json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err);

#endif
