/* Reads small JSON documents with jansson. Errors contain file, line and column. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* The caller calls json_decref(). Files over max_bytes are rejected before they are read. Duplicate keys are
 * errors. */
json_t *jsonr_load_path(const char *path, size_t max_bytes, struct err *err);
json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err);
/* Strings may contain \u0000, as generated text does. Use json_string_length() for them. */
json_t *jsonr_load_text_with_nul(const char *text, size_t n, const char *what, struct err *err);

/* Returns the number of values in a JSON text. The memory that jansson needs grows with this number. */
size_t jsonr_count_values(const char *text, size_t n);

/* Type-checked access. A missing member, or one of another type, gives NULL, NaN or an empty array. */
const char *jsonr_text(const json_t *object, const char *key);
double jsonr_number(const json_t *object, const char *key);
/* Rounded down. 0 if the number is not above 0, or not below 1e9. */
size_t jsonr_count(const json_t *object, const char *key);
/* May return NULL or another type: json_array_size() is 0 then. */
const json_t *jsonr_array(const json_t *object, const char *key);
/* Elements that are not numbers become NaN. Caller frees. */
double *jsonr_numbers(const json_t *array, size_t *n);

#endif
