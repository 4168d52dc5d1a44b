/* The bytes around the records: file header, chunk headers, encodings. docs/trace-format.md is the
 * reference. */
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/crc32.h"

#define TRACE_MAGIC "\x89IPT\r\n\x1a\n" /* 8 bytes; detects files mangled by a text-mode transfer */
#define TRACE_MAJOR 1
#define TRACE_MINOR 0
#define TRACE_FILE_HEADER_BYTES 32
#define TRACE_CHUNK_HEADER_BYTES 24
#define TRACE_SYNC_WORD 0x31435049u /* "IPC1": starts every chunk; readers search for it after damage */

/* Limits of the format. Writers do not exceed them. Readers reject larger chunks, but accept longer
 * strings. */
#define TRACE_MAX_RECORDS 16384u
#define TRACE_MAX_PAYLOAD (1u << 20)
#define TRACE_MAX_RAW (4u << 20)
#define TRACE_MAX_STRING 60000u

enum trace_chunk_flags {
    TRACE_CHUNK_ZSTD = 1, /* payload is one zstd frame of raw_bytes */
    TRACE_CHUNK_LAST = 2, /* the writer closed the file here */
};

struct trace_chunk_header { /* little endian, no padding */
    uint32_t sync;
    uint16_t kind, flags;
    uint32_t count, bytes, raw_bytes, crc;
};
_Static_assert(sizeof(struct trace_chunk_header) == TRACE_CHUNK_HEADER_BYTES, "chunk header is 24 bytes");

struct trace_file_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_bytes; /* 32; a newer minor version may have a longer header, whose rest is skipped */
    uint64_t file_id;
    uint32_t reserved, crc; /* crc covers the 28 bytes before it */
};
_Static_assert(sizeof(struct trace_file_header) == TRACE_FILE_HEADER_BYTES, "file header is 32 bytes");

/* The checksum includes the file id. If a text in this trace contains a chunk of another trace, that chunk
 * therefore fails the check. */
static inline uint32_t trace_chunk_crc(const struct trace_chunk_header *h, const void *payload,
                                       uint64_t file_id) {
    uint32_t crc = crc32_update(0, &file_id, sizeof file_id);
    crc = crc32_update(crc, h, offsetof(struct trace_chunk_header, crc));
    return crc32_update(crc, payload, h->bytes);
}

/* How the values of one column are stored; values are 64-bit, doubles as their bits. */
enum trace_encoding {
    TRACE_ENC_CONST,  /* one varint, the value of every record */
    TRACE_ENC_VARINT, /* one varint per value */
    /* zigzag varint of the difference from the previous value; the first value is relative to 0 */
    TRACE_ENC_DELTA,
    TRACE_ENC_STRIDE, /* the first value as varint, then the constant difference as zigzag varint */
    TRACE_ENC_DICT, /* number of values - 1 (1 byte), the values as varints, then one index byte per record */
    TRACE_ENC_RAW,  /* 8 bytes per value */
    TRACE_ENC_END
};

#define TRACE_COLUMN_HEADER_BYTES 6 /* column u8, encoding u8, bytes u32 */

#endif
