#include "base/jsonr.h"

#include <math.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"

static json_t *load_text(const char *text, size_t n, size_t flags, const char *what, struct err *err) {
    json_error_t at;
    size_t skip = 0;
    while (skip < n && strchr(" \t\r\n", text[skip]) && text[skip]) skip++;
    if (skip == n) {
        err_set(err, "%s: empty, expected JSON", what);
        return NULL;
    }
    if (text[skip] != '{' && text[skip] != '[') {
        err_set(err, "%s: not JSON: does not begin with '{' or '['", what);
        return NULL;
    }
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | flags, &at);
    if (!root) err_set(err, "%s: line %d, column %d: %s", what, at.line, at.column, at.text);
    return root;
}

json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err) {
    return load_text(text, n, 0, what, err);
}

json_t *jsonr_load_text_with_nul(const char *text, size_t n, const char *what, struct err *err) {
    return load_text(text, n, JSON_ALLOW_NUL, what, err);
}

json_t *jsonr_load_path(const char *path, size_t max_bytes, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    json_t *root = NULL;
    if (file_read(path, max_bytes, &text, err) == 0) root = jsonr_load_text(text.buf, text.len, path, err);
    strbuf_free(&text);
    return root;
}

size_t jsonr_count_values(const char *text, size_t n) {
    size_t values = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string)
            values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return values;
}

const char *jsonr_text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

double jsonr_number(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

const json_t *jsonr_array(const json_t *object, const char *key) { return json_object_get(object, key); }

size_t jsonr_count(const json_t *object, const char *key) {
    double v = jsonr_number(object, key);
    return v > 0 && v < 1e9 ? (size_t)v : 0;
}

double *jsonr_numbers(const json_t *array, size_t *n) {
    *n = json_array_size(array);
    double *v = xcalloc(*n + 1, sizeof *v);
    for (size_t i = 0; i < *n; i++) {
        const json_t *x = json_array_get(array, i);
        v[i] = json_is_number(x) ? json_number_value(x) : NAN;
    }
    return v;
}
