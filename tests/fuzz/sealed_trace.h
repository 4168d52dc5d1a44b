/* Turns arbitrary bytes into a trace file with correct checksums. A fuzzed chunk almost never has a correct
 * checksum, so that the fuzzer would not reach the code behind it. */
#ifndef TESTS_FUZZ_SEALED_TRACE_H
#define TESTS_FUZZ_SEALED_TRACE_H

#include <stddef.h>
#include <string.h>

#include "base/strbuf.h"
#include "trace/format.h"
#include "trace/layout.h"

static inline void sealed_trace_header(struct strbuf *s) {
    struct trace_file_header *h = (void *)s->buf;
    memcpy(h->magic, TRACE_MAGIC, sizeof h->magic);
    h->major = TRACE_MAJOR;
    h->header_bytes = sizeof *h;
    h->crc = crc32_update(0, h, offsetof(struct trace_file_header, crc));
}

/* Follows the chunk headers and writes a correct checksum into each. */
static inline void sealed_trace_chunks(struct strbuf *s) {
    struct trace_file_header *fh = (void *)s->buf;
    for (size_t at = sizeof *fh; s->len - at >= TRACE_CHUNK_HEADER_BYTES;) {
        struct trace_chunk_header h;
        memcpy(&h, s->buf + at, sizeof h);
        size_t left = s->len - at - sizeof h;
        h.sync = TRACE_SYNC_WORD;
        h.kind %= TRACE_KIND_END;
        h.count %= 5000;
        h.bytes = left ? h.bytes % (uint32_t)(left + 1) : 0;
        if (!(h.flags & TRACE_CHUNK_ZSTD)) h.raw_bytes = h.bytes;
        h.crc = trace_chunk_crc(&h, s->buf + at + sizeof h, fh->file_id);
        memcpy(s->buf + at, &h, sizeof h);
        at += sizeof h + h.bytes;
    }
}

static inline void sealed_trace(struct strbuf *s) {
    if (s->len < TRACE_FILE_HEADER_BYTES) return;
    sealed_trace_header(s);
    sealed_trace_chunks(s);
}

#endif
