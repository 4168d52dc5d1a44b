/* Run folders as tar streams (POSIX ustar). The writer produces the same bytes for the same folder name and
 * files on every machine, so that the digest identifies a run. The reader also accepts streams of GNU tar and
 * bsdtar. It accepts only files and folders with safe names below one top folder, and skips hidden ones. */
#ifndef SERVE_TAR_H
#define SERVE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

/* ---- reading, in pieces */

struct tar_sink {
    /* `path` is relative to the top folder */
    int (*file)(void *context, const char *path, uint64_t bytes, struct err *err);
    int (*data)(void *context, const void *data, size_t n, struct err *err);
    int (*end)(void *context, struct err *err); /* the file is complete */
    void *context;
};

#define TAR_FILES_MAX 20000

struct tar_reader {
    struct tar_sink sink;
    char top[256];     /* top folder; "": no entry yet */
    uint64_t position; /* bytes read, for messages */
    /* private */
    unsigned char header[512];
    size_t header_bytes;
    uint64_t left, padding; /* of the current entry */
    int kind;
    struct strbuf long_name; /* for the next entry */
    struct strbuf extended;  /* GNU or pax header */
    size_t files;
    bool ended, failed;
};
void tar_reader_init(struct tar_reader *r, const struct tar_sink *sink);
int tar_reader_feed(struct tar_reader *r, const void *data, size_t n, struct err *err);
int tar_reader_finish(struct tar_reader *r, struct err *err); /* fails if the stream is incomplete */
void tar_reader_free(struct tar_reader *r);

/* True for a relative path in UTF-8 of at most 255 bytes, without hidden or empty components, control
 * characters or backslashes. */
bool tar_path_is_safe(const char *path);

/* ---- writing, from any position */

struct tar_writer;
/* Lists the regular files of the folder. Skips hidden files, links, and folders more than 8 levels deep.
 * NULL: a folder cannot be read, or a name cannot be sent. */
struct tar_writer *tar_writer_open(const char *dir, const char *top, struct err *err);
void tar_writer_close(struct tar_writer *w);
uint64_t tar_writer_bytes(const struct tar_writer *w);
/* Returns the number of bytes, at most n. 0: end of the stream; -1: a file changed or cannot be read. */
int64_t tar_writer_read(struct tar_writer *w, uint64_t position, void *out, size_t n, struct err *err);
/* SHA-256 of the whole stream. */
int tar_writer_digest(struct tar_writer *w, char out[65], struct err *err);

#endif
