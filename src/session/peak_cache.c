#include "session/peak_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"

#define MAX_BYTES (1u << 20)

char *peak_cache_path(const char *file) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/') return xasprintf("%s/inferprof/%s", xdg, file);
    return home && home[0] ? xasprintf("%s/.cache/inferprof/%s", home, file) : NULL;
}

json_t *peak_cache_load(const char *path) {
    struct err err;
    return path && file_exists(path) ? jsonr_load_path(path, MAX_BYTES, &err) : NULL;
}

static bool write_json(const char *path, const json_t *root) {
    struct err err;
    char *text = json_dumps(root, JSON_INDENT(1));
    char *dir = xstrndup(path, strlen(path) - strlen(file_basename(path)));
    bool done = text && file_mkdirs(dir, &err) == 0 && file_write_atomic(path, text, strlen(text), &err) == 0;
    free(dir);
    free(text);
    return done;
}

bool peak_cache_replace(const char *path, const char *list, json_t *row,
                        bool (*same)(const json_t *old, const json_t *row)) {
    if (!path || !row) {
        json_decref(row);
        return false;
    }
    json_t *root = peak_cache_load(path), *rows = json_array(), *out = json_object(), *old;
    size_t i;
    json_array_foreach(json_object_get(root, list), i, old) {
        if (!same(old, row)) json_array_append(rows, old);
    }
    json_array_append_new(rows, row);
    json_object_set_new(out, list, rows);
    bool done = write_json(path, out);
    json_decref(out);
    json_decref(root);
    return done;
}
