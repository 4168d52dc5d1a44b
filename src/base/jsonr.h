/* JSON reader for small documents: jansson with size limits and messages that name file, line and column. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* The caller calls json_decref(). Files over max_bytes are rejected before they are read; duplicate keys
 * are errors. */
json_t *jsonr_load_path(const char *path, size_t max_bytes, struct err *err);
json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err);
/* The same, but strings may contain "\\u0000", as generated text does. Use json_string_length() for those. */
json_t *jsonr_load_text_with_nul(const char *text, size_t n, const char *what, struct err *err);

/* Type-checked access to members. A missing member or one of another type gives NULL, NaN or an empty
 * array. */
const char *jsonr_text(const json_t *object, const char *key);
double jsonr_number(const json_t *object, const char *key);
/* rounded down; 0 unless it is above 0 and below 1e9 */
size_t jsonr_count(const json_t *object, const char *key);
/* may return NULL or a value of another type, for which json_array_size() is 0 */
const json_t *jsonr_array(const json_t *object, const char *key);
/* elements that are not numbers become NaN; the caller frees the result */
double *jsonr_numbers(const json_t *array, size_t *n);

#endif
