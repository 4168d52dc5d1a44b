/* Arbitrary bytes as a trace file. A fuzzed chunk almost never has a correct checksum. Therefore half of the
 * inputs get correct checksums first, so that the fuzzer reaches the column decoders. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "trace/layout.h"
#include "trace/reader.h"
#include "fuzz/fuzz.h"

static void seal_header(struct strbuf *s) {
    struct trace_file_header *h = (void *)s->buf;
    memcpy(h->magic, TRACE_MAGIC, sizeof h->magic);
    h->major = TRACE_MAJOR;
    h->header_bytes = sizeof *h;
    h->crc = crc32_update(0, h, offsetof(struct trace_file_header, crc));
}

/* Follows the chunk headers and writes a correct checksum into each. */
static void seal_chunks(struct strbuf *s) {
    struct trace_file_header *fh = (void *)s->buf;
    for (size_t at = sizeof *fh; s->len - at >= TRACE_CHUNK_HEADER_BYTES;) {
        struct trace_chunk_header h;
        memcpy(&h, s->buf + at, sizeof h);
        size_t left = s->len - at - sizeof h;
        h.sync = TRACE_SYNC_WORD;
        h.kind %= 14;
        h.count %= 5000;
        h.bytes = left ? h.bytes % (uint32_t)(left + 1) : 0;
        if (!(h.flags & TRACE_CHUNK_ZSTD)) h.raw_bytes = h.bytes;
        h.crc = trace_chunk_crc(&h, s->buf + at + sizeof h, fh->file_id);
        memcpy(s->buf + at, &h, sizeof h);
        at += sizeof h + h.bytes;
    }
}

static void read_all(const char *path) {
    struct err err;
    struct trace_batch b = { 0 };
    const char *key, *value;
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) return;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) trace_reader_decode(r, i, &b, &err);
    for (size_t i = 0; trace_reader_meta_at(r, i, &key, &value); i++) trace_reader_meta(r, value);
    for (uint32_t id = 0; id < trace_reader_string_end(r) && id < 1000; id++)
        trace_reader_string(r, id, NULL);
    trace_batch_free(&b);
    trace_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct strbuf s = STRBUF_INIT;
    if (size < 1) return 0;
    strbuf_add(&s, data + 1, size - 1);
    if (data[0] & 1 && s.len >= TRACE_FILE_HEADER_BYTES) {
        seal_header(&s);
        seal_chunks(&s);
    }
    int fd = memfd_create("trace", 0);
    if (fd >= 0 && write(fd, s.buf, s.len) == (ssize_t)s.len) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        read_all(path);
    }
    close(fd);
    strbuf_free(&s);
    return 0;
}
