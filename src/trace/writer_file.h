/* The file of a writer: header, chunks with checksums, and the table of losses. The table is rewritten in
 * place, so losses can be recorded even if the disk is full. Used only by the thread that opened it, and by
 * the child after fork() to close it.
 *
 * The program may close our descriptor, or replace it by another file (daemons close all descriptors; dup2).
 * Therefore the file is identified by device and inode, which are checked before every write and before
 * closing. If the descriptor no longer refers to our file, it is not touched, and the file is opened again by
 * its path. */
#ifndef TRACE_WRITER_FILE_H
#define TRACE_WRITER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct writer_file {
    int fd;                 /* -1: none */
    uint64_t device, inode; /* identity of the file */
    char *path;             /* absolute path; NULL: unknown, so the file cannot be reopened */
    uint64_t id, offset, max_bytes;
    int first_errno; /* errno of the first failed write; 0: none */
    void *zstd;      /* compression context; NULL: chunks are stored uncompressed */
    uint8_t *packed; /* buffer for a compressed payload */
    size_t packed_cap;
};

struct writer_file_options {
    uint64_t id, max_bytes; /* id 0: random; max_bytes 0: no limit */
    bool store;             /* do not compress */
    size_t max_raw;         /* maximum size of a payload before compression */
};
int writer_file_open(struct writer_file *f, const char *path, const struct writer_file_options *o,
                     struct err *err);
/* Also safe in the child after fork, because the descriptor is checked. */
void writer_file_close(struct writer_file *f);
/* Returns false if the chunk was not written. A partial write is truncated. */
bool writer_file_chunk(struct writer_file *f, enum trace_kind kind, uint32_t count, const uint8_t *raw,
                       size_t raw_bytes);
bool writer_file_losses(struct writer_file *f, uint64_t (*lost)[TRACE_LOST_REASON_END]);
bool writer_file_end(struct writer_file *f); /* writes the end mark */

#endif
