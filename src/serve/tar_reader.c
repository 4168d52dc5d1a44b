#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "serve/tar.h"

#define BLOCK 512
#define EXTENDED_MAX 65536 /* GNU or pax header */

enum { KIND_FILE, KIND_FOLDER, KIND_LONG_NAME, KIND_PAX, KIND_SKIPPED };

void tar_reader_init(struct tar_reader *r, const struct tar_sink *sink) {
    *r = (struct tar_reader){ .sink = *sink, .long_name = STRBUF_INIT, .extended = STRBUF_INIT };
}

void tar_reader_free(struct tar_reader *r) {
    strbuf_free(&r->long_name);
    strbuf_free(&r->extended);
}

static bool component_is_safe(const char *s, size_t n, bool hidden) {
    if (n == 0 || (s[0] == '.' && !hidden)) return false;
    if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'))) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7f || s[i] == '\\') return false;
    return true;
}

/* hidden: allow names with a leading dot */
static bool path_is_safe(const char *path, bool hidden) {
    size_t n = strlen(path);
    if (n == 0 || n > 255 || !utf8_valid(path, n)) return false;
    for (const char *p = path;; p++) {
        size_t c = strcspn(p, "/");
        if (!component_is_safe(p, c, hidden)) return false;
        p += c;
        if (!*p) return true;
    }
}

bool tar_path_is_safe(const char *path) { return path_is_safe(path, false); }

/* Parses an octal number, or a big-endian one if the highest bit is set (GNU). UINT64_MAX: not a number. */
static uint64_t parse_number(const unsigned char *field, size_t n) {
    uint64_t v = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        if (field[0] != 0x80) return UINT64_MAX;
        for (i = 1; i < n; i++) {
            if (v >> 55) return UINT64_MAX;
            v = v << 8 | field[i];
        }
        return v;
    }
    while (i < n && field[i] == ' ') i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
        if (v >> 60) return UINT64_MAX;
        v = v << 3 | (uint64_t)(field[i] - '0');
    }
    return i < n && field[i] != ' ' && field[i] != '\0' ? UINT64_MAX : v;
}

/* The bytes of the checksum field count as spaces. */
static bool checksum_matches(const unsigned char *h) {
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : h[i];
    return sum == parse_number(h + 148, 8);
}

static void header_path(const struct tar_reader *r, struct strbuf *path) {
    const char *h = (const char *)r->header;
    if (r->long_name.len) {
        strbuf_addstr(path, r->long_name.buf);
        return;
    }
    bool ustar = memcmp(h + 257, "ustar", 5) == 0 && h[262] == '\0';
    if (ustar && h[345]) strbuf_addf(path, "%.155s/", h + 345);
    strbuf_addf(path, "%.100s", h);
}

static int fail_at(struct tar_reader *r, struct err *err, const char *what) {
    r->failed = true;
    return err_set(err, "the upload is not a tar stream of a run folder: %s, before byte %llu", what,
                   (unsigned long long)r->position);
}

/* *rest: the path below the top folder. NULL: the entry is the top folder, or hidden. All entries must have
 * the same top folder. */
static int accept_path(struct tar_reader *r, struct strbuf *path, const char **rest, struct err *err) {
    while (path->len > 0 && path->buf[path->len - 1] == '/') path->buf[--path->len] = '\0';
    const char *p = path->buf;
    if (strncmp(p, "./", 2) == 0) p += 2;
    *rest = NULL;
    if (!*p || strcmp(p, ".") == 0) return 0;
    if (!tar_path_is_safe(p)) {
        if (p[0] == '.' || !path_is_safe(p, true)) return fail_at(r, err, "an entry has an unsafe name");
        r->kind = KIND_SKIPPED; /* hidden files are skipped */
        return 0;
    }
    size_t top = strcspn(p, "/");
    if (!r->top[0]) snprintf(r->top, sizeof r->top, "%.*s", (int)top, p);
    if (strlen(r->top) != top || strncmp(r->top, p, top) != 0)
        return fail_at(r, err, "it has more than one top folder");
    *rest = p[top] == '/' ? p + top + 1 : NULL;
    return 0;
}

static int start_file(struct tar_reader *r, struct err *err) {
    struct strbuf path = STRBUF_INIT;
    const char *rest;
    header_path(r, &path);
    strbuf_reset(&r->long_name);
    int rc = accept_path(r, &path, &rest, err);
    if (rc == 0 && r->kind == KIND_FILE) {
        if (!rest)
            rc = fail_at(r, err, "a file is not inside a folder");
        else if (++r->files > TAR_FILES_MAX)
            rc = fail_at(r, err, "it has too many files");
        else if ((rc = r->sink.file(r->sink.context, rest, r->left, err)) < 0)
            r->failed = true;
    }
    strbuf_free(&path);
    return rc;
}

static int kind_of(unsigned char type) {
    switch (type) {
    case '\0':
    case '0': return KIND_FILE;
    case '5': return KIND_FOLDER;
    case 'L': return KIND_LONG_NAME;
    case 'x': return KIND_PAX;
    case 'g': return KIND_SKIPPED;
    default: return -1;
    }
}

/* Reads lines such as "27 path=NAME\n". Only the path is used. */
static int read_pax(struct tar_reader *r, struct err *err) {
    const char *p = r->extended.buf, *end = p + r->extended.len;
    while (p < end) {
        char *text;
        unsigned long n = strtoul(p, &text, 10);
        if (text == p || *text != ' ' || n < 5 || n > (size_t)(end - p) || p + n <= text || p[n - 1] != '\n')
            return fail_at(r, err, "a pax header is damaged");
        size_t value = n - 1 - (size_t)(text + 1 - p);
        if (value > 5 && strncmp(text + 1, "path=", 5) == 0) {
            strbuf_reset(&r->long_name);
            strbuf_add(&r->long_name, text + 6, value - 5);
        }
        p += n;
    }
    return 0;
}

static int end_entry(struct tar_reader *r, struct err *err) {
    if (r->kind == KIND_FILE && r->sink.end(r->sink.context, err) < 0) {
        r->failed = true;
        return -1;
    }
    if (r->kind == KIND_LONG_NAME) {
        strbuf_reset(&r->long_name);
        strbuf_addstr(&r->long_name, r->extended.buf); /* ends at the first NUL */
    }
    int rc = r->kind == KIND_PAX ? read_pax(r, err) : 0;
    strbuf_reset(&r->extended);
    return rc;
}

static bool all_zero(const unsigned char *block) {
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i]) return false;
    return true;
}

static int start_entry(struct tar_reader *r, struct err *err) {
    if (all_zero(r->header)) {
        r->ended = true;
        return 0;
    }
    if (!checksum_matches(r->header)) return fail_at(r, err, "a header is damaged");
    r->kind = kind_of(r->header[156]);
    r->left = parse_number(r->header + 124, 12);
    if (r->kind < 0) return fail_at(r, err, "it has a link or a device");
    if (r->left >= UINT64_MAX / 2) return fail_at(r, err, "a size is not a number");
    if (r->kind == KIND_FOLDER) r->left = 0;
    if (r->kind >= KIND_LONG_NAME && r->left > EXTENDED_MAX) return fail_at(r, err, "a name is too long");
    r->padding = (BLOCK - r->left % BLOCK) % BLOCK;
    if ((r->kind == KIND_FILE || r->kind == KIND_FOLDER) && start_file(r, err) < 0) return -1;
    return r->left == 0 ? end_entry(r, err) : 0;
}

static int feed_data(struct tar_reader *r, const void *data, size_t n, struct err *err) {
    int rc = 0;
    if (r->kind == KIND_FILE)
        rc = r->sink.data(r->sink.context, data, n, err);
    else if (r->kind == KIND_LONG_NAME || r->kind == KIND_PAX)
        strbuf_add(&r->extended, data, n);
    r->left -= n;
    if (rc < 0) r->failed = true;
    return rc < 0 ? -1 : r->left == 0 ? end_entry(r, err) : 0;
}

int tar_reader_feed(struct tar_reader *r, const void *data, size_t n, struct err *err) {
    const unsigned char *p = data;
    if (r->failed) return fail_at(r, err, "an earlier part was rejected");
    while (n > 0 && !r->ended) {
        size_t used;
        int rc = 0;
        if (r->left > 0) {
            used = (size_t)MIN(r->left, n);
            rc = feed_data(r, p, used, err);
        } else if (r->padding > 0) {
            used = (size_t)MIN(r->padding, n);
            r->padding -= used;
        } else {
            used = MIN(BLOCK - r->header_bytes, n);
            memcpy(r->header + r->header_bytes, p, used);
            r->header_bytes += used;
            if (r->header_bytes == BLOCK) {
                r->header_bytes = 0;
                rc = start_entry(r, err);
            }
        }
        r->position += used;
        p += used;
        n -= used;
        if (rc < 0) return -1;
    }
    return 0;
}

int tar_reader_finish(struct tar_reader *r, struct err *err) {
    if (r->failed || !r->ended) return fail_at(r, err, "it is incomplete");
    if (r->files == 0) return fail_at(r, err, "it has no files");
    return 0;
}
