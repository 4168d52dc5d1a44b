#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/util.h"
#include "base/vec.h"
#include "serve/tar.h"

#define BLOCK 512
#define MAX_DEPTH 8

struct tar_entry {
    char *path; /* relative to the folder */
    uint64_t bytes, position;
};

struct tar_writer {
    char *dir, *top;
    struct {
        struct tar_entry *v;
        size_t n, cap;
    } entries;
    uint64_t bytes;
    size_t open_entry; /* entry that `fd` reads */
    int fd;            /* -1: none */
};

static uint64_t padded(uint64_t bytes) { return (bytes + BLOCK - 1) / BLOCK * BLOCK; }

static int list_files(struct tar_writer *w, const char *below, int depth, struct err *err) {
    char *dir = *below ? file_join(w->dir, below) : xstrdup(w->dir);
    DIR *d = opendir(dir);
    int rc = d ? 0 : err_set(err, "%s: %s", dir, strerror(errno));
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
        char *path = *below ? file_join(below, e->d_name) : xstrdup(e->d_name);
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
            rc = list_files(w, path, depth + 1, err);
        else if (S_ISREG(st.st_mode))
            vec_push(&w->entries, ((struct tar_entry){ xstrdup(path), (uint64_t)st.st_size, 0 }));
        free(path);
    }
    if (d) closedir(d);
    free(dir);
    return rc;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct tar_entry *)a)->path, ((const struct tar_entry *)b)->path);
}

/* ustar stores a path over 100 bytes in two parts, split at a slash: at most 155 bytes, then at most 100.
 * Returns -1 if that is impossible. */
static int split_path(const char *path, size_t *prefix) {
    size_t n = strlen(path);
    *prefix = 0;
    if (n <= 100) return 0;
    for (size_t i = MIN(n - 1, 155); i > 0; i--)
        if (path[i] == '/' && n - i - 1 <= 100) {
            *prefix = i;
            return 0;
        }
    return -1;
}

static int lay_out(struct tar_writer *w, struct err *err) {
    if (w->entries.n) qsort(w->entries.v, w->entries.n, sizeof *w->entries.v, by_path);
    for (size_t i = 0; i < w->entries.n; i++) {
        struct tar_entry *e = &w->entries.v[i];
        size_t prefix;
        char *full = file_join(w->top, e->path);
        int rc = !tar_path_is_safe(full) || split_path(full, &prefix) < 0
                     ? err_set(err, "%s/%s: the name cannot be sent", w->dir, e->path)
                     : 0;
        free(full);
        if (rc < 0) return -1;
        e->position = w->bytes;
        w->bytes += BLOCK + padded(e->bytes);
    }
    w->bytes += 2 * BLOCK; /* end of a tar stream */
    return 0;
}

struct tar_writer *tar_writer_open(const char *dir, const char *top, struct err *err) {
    struct tar_writer *w = xcalloc(1, sizeof *w);
    w->dir = xstrdup(dir);
    w->top = xstrdup(top);
    w->fd = -1;
    if (list_files(w, "", 0, err) == 0 && lay_out(w, err) == 0) return w;
    tar_writer_close(w);
    return NULL;
}

void tar_writer_close(struct tar_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    for (size_t i = 0; i < w->entries.n; i++) free(w->entries.v[i].path);
    free(w->entries.v);
    free(w->dir);
    free(w->top);
    free(w);
}

uint64_t tar_writer_bytes(const struct tar_writer *w) { return w->bytes; }

static void make_header(const struct tar_writer *w, const struct tar_entry *e, unsigned char h[BLOCK]) {
    char *full = file_join(w->top, e->path), number[16];
    size_t prefix;
    unsigned sum = 0;
    memset(h, 0, BLOCK);
    split_path(full, &prefix);
    if (prefix) memcpy(h + 345, full, prefix);
    const char *name = prefix ? full + prefix + 1 : full;
    memcpy(h, name, strlen(name));
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 108, "0000000", 8); /* owner and group: root */
    memcpy(h + 116, "0000000", 8);
    snprintf(number, sizeof number, "%011llo", (unsigned long long)e->bytes);
    memcpy(h + 124, number, 12);
    memcpy(h + 136, "00000000000", 12); /* time 0: same digest */
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++) sum += h[i];
    snprintf(number, sizeof number, "%06o", sum);
    memcpy(h + 148, number, 7);
    free(full);
}

static int64_t read_file_at(struct tar_writer *w, size_t i, uint64_t at, void *out, size_t n,
                            struct err *err) {
    const struct tar_entry *e = &w->entries.v[i];
    char *path = file_join(w->dir, e->path);
    int64_t rc = 0;
    if (w->fd < 0 || w->open_entry != i) {
        if (w->fd >= 0) close(w->fd);
        w->fd = file_open_regular(path, err);
        w->open_entry = i;
        if (w->fd < 0) rc = -1;
    }
    if (rc == 0) rc = pread(w->fd, out, n, (off_t)at);
    if (rc == 0 || (rc < 0 && w->fd >= 0))
        rc = err_set(err, "%s: %s", path,
                     rc == 0 ? "the file became shorter; is the run finished?" : strerror(errno));
    free(path);
    return rc;
}

static size_t entry_at(const struct tar_writer *w, uint64_t position) {
    size_t low = 0, high = w->entries.n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (w->entries.v[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t tar_writer_read(struct tar_writer *w, uint64_t position, void *out, size_t n, struct err *err) {
    if (position >= w->bytes || n == 0) return 0;
    size_t i = entry_at(w, position);
    uint64_t at = w->entries.n ? position - w->entries.v[i].position : position;
    if (w->entries.n && at < BLOCK) {
        unsigned char h[BLOCK];
        size_t part = (size_t)MIN(BLOCK - at, n);
        make_header(w, &w->entries.v[i], h);
        memcpy(out, h + at, part);
        return (int64_t)part;
    }
    if (w->entries.n && at - BLOCK < w->entries.v[i].bytes)
        return read_file_at(w, i, at - BLOCK, out, (size_t)MIN(w->entries.v[i].bytes - (at - BLOCK), n), err);
    /* padding, or end of the stream */
    uint64_t end = i + 1 < w->entries.n ? w->entries.v[i + 1].position : w->bytes;
    size_t part = (size_t)MIN(end - position, n);
    memset(out, 0, part);
    return (int64_t)part;
}

int tar_writer_digest(struct tar_writer *w, char out[65], struct err *err) {
    struct sha256 s;
    size_t cap = 1 << 20;
    char *buffer = xmalloc(cap);
    int64_t n = 0;
    sha256_start(&s);
    for (uint64_t at = 0; (n = tar_writer_read(w, at, buffer, cap, err)) > 0; at += (uint64_t)n)
        sha256_add(&s, buffer, (size_t)n);
    sha256_hex(&s, out);
    free(buffer);
    return n < 0 ? -1 : 0;
}
