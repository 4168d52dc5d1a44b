/* The file of a writer: header, chunks with checksums, and the table of losses. The table is rewritten in
 * place, so losses can be recorded even if the disk is full. One thread at a time. */
#ifndef TRACE_WRITER_FILE_H
#define TRACE_WRITER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct writer_file {
    int fd;
    uint64_t id, offset, max_bytes;
    int first_errno; /* of the first failed write; 0: none */
    void *zstd;      /* compression context; NULL: chunks are stored */
    uint8_t *packed; /* buffer for a compressed payload */
    size_t packed_cap;
};

int writer_file_open(struct writer_file *f, const char *path, uint64_t id, uint64_t max_bytes, bool store,
                     size_t max_raw, struct err *err);
void writer_file_close(struct writer_file *f);
/* Returns false if the chunk was not written; the file then contains no part of it. */
bool writer_file_chunk(struct writer_file *f, enum trace_kind kind, uint32_t count, const uint8_t *raw,
                       size_t raw_bytes);
bool writer_file_losses(struct writer_file *f, uint64_t (*lost)[TRACE_LOST_REASON_END]);
bool writer_file_end(struct writer_file *f); /* writes the end mark */

#endif
