/* Reads a trace. Checks every length and checksum, returns the intact chunks and reports the first damage.
 *     struct trace_reader *r = trace_reader_open(path, &err);
 *     struct trace_batch b = { 0 };
 *     for (size_t i = 0; i < trace_reader_chunks(r); i++)
 *         if (trace_reader_decode(r, i, &b, &err) == 0 && b.kind == TRACE_KERNEL)
 *             for (size_t k = 0; k < b.n; k++) use(&b.kernel[k]);
 *     trace_batch_free(&b);
 *     trace_reader_close(r);
 * Opening verifies the checksum of every chunk and lists only intact ones. Chunks are independent: several
 * threads may decode from one reader, each with its own batch. The records of a batch are valid until the
 * batch is used again. If the base of the clock was unknown when the first records were written, the meta
 * record clock.offset_ns contains the offset, and the reader adds it to all times. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct trace_reader;

struct trace_chunk {
    uint64_t offset;    /* file offset of its header */
    uint32_t bytes;     /* on disk, header included */
    uint32_t raw_bytes; /* payload before compression */
    uint32_t count;     /* records */
    uint16_t kind, flags;
};

/* Facts about the whole file. */
struct trace_summary {
    uint64_t file_bytes, file_id;
    uint16_t major, minor;
    bool finished;           /* has an end mark; otherwise the writer was killed or is still writing */
    uint64_t damaged_places; /* contiguous regions outside of intact chunks */
    uint64_t damaged_bytes;
    uint64_t damage_offset;  /* of the first damaged place */
    char damage[128];        /* fault at damage_offset; "" if there is no damage */
    uint64_t unknown_chunks; /* intact chunks of kinds that this program does not support */
    uint64_t lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
};

struct trace_batch {
    unsigned kind;
    size_t n;
    union {
        const void *records;
#define X(ID, name, number) const struct trace_##name *name;
        TRACE_RECORDS(X)
#undef X
    };
    struct {
        void *v;
        size_t cap;
    } disk, raw, columns, out; /* buffers; `out` contains the records */
    void *unpacker;            /* zstd context: creating one per chunk takes as long as unpacking the chunk */
};

/* Returns NULL if the file cannot be read or has no valid header; see err. */
struct trace_reader *trace_reader_open(const char *path, struct err *err);
void trace_reader_close(struct trace_reader *r);
const struct trace_summary *trace_reader_summary(const struct trace_reader *r);
/* Returns the number of intact chunks, excluding strings, unknown kinds and the end mark. */
size_t trace_reader_chunks(const struct trace_reader *r);
const struct trace_chunk *trace_reader_chunk(const struct trace_reader *r, size_t i);
/* Returns 0, or -1 if the chunk cannot be decoded or the file changed after it was opened; see err. */
int trace_reader_decode(const struct trace_reader *r, size_t i, struct trace_batch *b, struct err *err);
void trace_batch_free(struct trace_batch *b);

/* Returns the text of a string number: "" for 0, NULL if the file does not contain the string. `len` may be
 * NULL. The text is valid until close. */
const char *trace_reader_string(const struct trace_reader *r, uint32_t id, size_t *len);
/* returns one past the largest string number; 1 without strings */
uint32_t trace_reader_string_end(const struct trace_reader *r);
uint64_t trace_reader_string_bytes(const struct trace_reader *r); /* size of the string chunks on disk */
/* trace_reader_meta() returns the value of the first meta record with this key; NULL if there is none.
 * trace_reader_meta_at() sets key and value of the i-th meta record; it returns false if there is none. */
const char *trace_reader_meta(const struct trace_reader *r, const char *key);
bool trace_reader_meta_at(const struct trace_reader *r, size_t i, const char **key, const char **value);

#endif
