#include "collect/mapped_file.h"

#include <string.h>

#include "base/words.h"

static uint64_t read_hex(const char **p) {
    uint64_t v = 0;
    for (;; ++*p) {
        char c = **p;
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        else
            return v;
    }
}

bool mapped_file_parse(char *line, struct mapped_file *out) {
    static const char deleted[] = " (deleted)";
    const char *p = line;
    char *path = strchr(line, '/');
    if (!path) return false;
    size_t n = strlen(path);
    *out = (struct mapped_file){ .path = path, .deleted = words_end_with(path, n, deleted) };
    if (out->deleted) path[n - (sizeof deleted - 1)] = '\0';
    out->from = read_hex(&p);
    if (*p == '-') {
        p++;
        out->to = read_hex(&p);
    }
    p += *p == ' ';
    p += strcspn(p, " "); /* the permissions */
    p += *p == ' ';
    out->file_offset = read_hex(&p);
    return true;
}
