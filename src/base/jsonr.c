#include "base/jsonr.h"

#include "base/file.h"
#include "base/strbuf.h"

json_t *jsonr_load_text(const char *text, size_t n, const char *what, struct err *err) {
    json_error_t at;
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
