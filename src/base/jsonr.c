#include "base/jsonr.h"

#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"

json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err) {
    json_error_t at;
    size_t skip = 0;
    while (skip < n && strchr(" \t\r\n", text[skip]) && text[skip]) skip++;
    if (skip == n) return err_set(err, "%s: empty, expected JSON", what), NULL;
    if (text[skip] != '{' && text[skip] != '[')
        return err_set(err, "%s: not JSON: does not begin with '{' or '['", what), NULL;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!root) err_set(err, "%s: line %d, column %d: %s", what, at.line, at.column, at.text);
    return root;
}

json_t *jsonr_load_path(const char *path, size_t max_bytes, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    json_t *root = NULL;
    if (file_read(path, max_bytes, &text, err) == 0) root = jsonr_load_text(text.buf, text.len, path, err);
    strbuf_free(&text);
    return root;
}
