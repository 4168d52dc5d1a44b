/* Run folders as tar streams (POSIX ustar). The writer gives the same bytes for the same folder name and
 * files on every machine, so that the digest of the stream identifies a run. The reader accepts streams of
 * other programs too (GNU tar, bsdtar) and treats them as hostile: it accepts only files and folders with
 * safe names below one top folder, and skips hidden ones. */
#ifndef SERVE_TAR_H
#define SERVE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

/* ---- reading, in pieces of any size */

struct tar_sink {
    /* A file starts; `path` is relative to the top folder. */
    int (*file)(void *context, const char *path, uint64_t bytes, struct err *err);
    int (*data)(void *context, const void *data, size_t n, struct err *err);
    int (*end)(void *context, struct err *err); /* the file is complete */
    void *context;
};

#define TAR_FILES_MAX 20000

struct tar_reader {
    struct tar_sink sink;
    char top[256];     /* name of the top folder; "": no entry yet */
    uint64_t position; /* bytes read, for messages */
    /* private */
    unsigned char header[512];
    size_t header_bytes;
    uint64_t left, padding; /* bytes left of the current entry, and padding after it */
    int kind;
    struct strbuf long_name; /* from a GNU or pax header before the entry */
    struct strbuf extended;  /* contents of a GNU or pax header */
    size_t files;
    bool ended, failed;
};
void tar_reader_init(struct tar_reader *r, const struct tar_sink *sink);
int tar_reader_feed(struct tar_reader *r, const void *data, size_t n, struct err *err);
int tar_reader_finish(struct tar_reader *r, struct err *err); /* fails if the stream ended early */
void tar_reader_free(struct tar_reader *r);

/* Returns true for a relative path in UTF-8 of at most 255 bytes without hidden or empty components, control
 * characters or backslashes. */
bool tar_path_is_safe(const char *path);

/* ---- writing: the stream of a folder, read at any position */

struct tar_writer;
/* Lists the regular files of the folder. Hidden files, links and folders more than 8 levels deep are skipped.
 * Returns NULL if a folder cannot be read or a name cannot be sent. */
struct tar_writer *tar_writer_open(const char *dir, const char *top, struct err *err);
void tar_writer_close(struct tar_writer *w);
uint64_t tar_writer_bytes(const struct tar_writer *w);
/* Copies up to n bytes from `position` on. Returns their number; 0 at the end, -1 if a file changed or cannot
 * be read. */
int64_t tar_writer_read(struct tar_writer *w, uint64_t position, void *out, size_t n, struct err *err);
/* Computes the SHA-256 of the whole stream. */
int tar_writer_digest(struct tar_writer *w, char out[65], struct err *err);

#endif
