/* Truncated and corrupted files, and files of hostile or newer writers: the reader never crashes, never
 * returns a record that was not written, and always returns the intact ones. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/layout.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "unit/test.h"
#include "unit/trace/records.h"

#define RECORDS 40 /* per kind: one chunk each */
#define FILE_ID 0x1234567890abcdefu

static bool is_plain(unsigned kind) { return trace_schema(kind) && kind != TRACE_LOST && kind != TRACE_META; }

static unsigned count_plain_kinds(void) {
    unsigned n = 0;
    for (unsigned k = 0; k < TRACE_KIND_END; k++) n += is_plain(k);
    return n;
}

static void make_trace(const char *path) {
    struct err err;
    uint64_t room[64];
    struct trace_writer *w =
        trace_writer_open(path, &(struct trace_writer_options){ .file_id = FILE_ID }, &err);
    CHECK(w != NULL);
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (uint64_t i = 0; is_plain(k) && i < RECORDS; i++) {
            records_make(k, i, RECORDS_REALISTIC, 3, room);
            trace_writer_put(w, k, room, 1);
        }
    trace_writer_str(w, "first");
    trace_writer_str(w, "second");
    CHECK_INT(trace_writer_close(w, &err), 0);
}

/* Every kind that is returned must be complete and as written. Returns the number of kinds. */
static unsigned check_contents(const struct trace_reader *r) {
    struct trace_batch b = { 0 };
    struct err err;
    unsigned kinds = 0;
    uint64_t want[64];
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        if (!is_plain(b.kind)) continue;
        CHECK_INT(b.n, RECORDS);
        size_t bytes = trace_schema(b.kind)->record_bytes;
        for (uint64_t k = 0; k < RECORDS; k++) {
            records_make(b.kind, k, RECORDS_REALISTIC, 3, want);
            CHECK_INT(records_compare(b.kind, (const char *)b.records + k * bytes, want), 0);
        }
        kinds++;
    }
    trace_batch_free(&b);
    return kinds;
}

struct sample_file {
    char *path;
    struct strbuf bytes;
    size_t nchunks;
    struct trace_chunk chunks[32]; /* as an undamaged reader lists them */
    unsigned kinds;
};

static void sample_open(struct sample_file *f) {
    struct err err;
    char *dir = test_tmpdir();
    *f = (struct sample_file){ .path = file_join(dir, "t.ipt"), .bytes = STRBUF_INIT };
    free(dir);
    make_trace(f->path);
    CHECK_INT(file_read(f->path, 1 << 20, &f->bytes, &err), 0);
    struct trace_reader *r = trace_reader_open(f->path, &err);
    CHECK(r != NULL);
    f->kinds = check_contents(r);
    CHECK_INT(f->kinds, count_plain_kinds());
    f->nchunks = trace_reader_chunks(r);
    for (size_t i = 0; i < f->nchunks; i++) f->chunks[i] = *trace_reader_chunk(r, i);
    trace_reader_close(r);
}

static void sample_close(struct sample_file *f) {
    strbuf_free(&f->bytes);
    free(f->path);
}

static unsigned kinds_before(const struct sample_file *f, uint64_t cut) {
    unsigned n = 0;
    for (size_t i = 0; i < f->nchunks; i++)
        n += is_plain(f->chunks[i].kind) && f->chunks[i].offset + f->chunks[i].bytes <= cut;
    return n;
}

TEST(trace_truncated_at_any_byte_yields_exactly_the_complete_chunks) {
    struct sample_file f;
    struct err err;
    sample_open(&f);
    for (size_t cut = f.bytes.len; cut-- > 0;) {
        CHECK_INT(truncate(f.path, (off_t)cut), 0);
        struct trace_reader *r = trace_reader_open(f.path, &err);
        CHECK((r != NULL) == (cut >= TRACE_FILE_HEADER_BYTES));
        if (!r) continue;
        CHECK(!trace_reader_summary(r)->finished);
        CHECK_INT(check_contents(r), kinds_before(&f, cut));
        trace_reader_close(r);
    }
    sample_close(&f);
}

static void write_byte(int fd, size_t at, char byte) { CHECK_INT(pwrite(fd, &byte, 1, (off_t)at), 1); }

/* The chunk that contains a byte of the file; NULL: the header, a string chunk or the end mark. */
static const struct trace_chunk *chunk_at(const struct sample_file *f, size_t at) {
    for (size_t i = 0; i < f->nchunks; i++)
        if (at >= f->chunks[i].offset && at < f->chunks[i].offset + f->chunks[i].bytes) return &f->chunks[i];
    return NULL;
}

static void check_flip(const struct sample_file *f, size_t at) {
    struct err err;
    struct trace_reader *r = trace_reader_open(f->path, &err);
    const struct trace_chunk *hit = chunk_at(f, at);
    CHECK((r != NULL) == (at >= TRACE_FILE_HEADER_BYTES));
    if (!r) return;
    CHECK_INT(check_contents(r), f->kinds - (hit && is_plain(hit->kind)));
    CHECK_INT(trace_reader_summary(r)->damaged_places, 1);
    if (hit) CHECK_INT(trace_reader_summary(r)->damage_offset, hit->offset);
    trace_reader_close(r);
}

static bool in_a_header(const struct sample_file *f, size_t at) {
    const struct trace_chunk *c = chunk_at(f, at);
    return at < TRACE_FILE_HEADER_BYTES || !c || at - c->offset < TRACE_CHUNK_HEADER_BYTES;
}

TEST(trace_with_any_header_bit_flipped_loses_that_chunk_and_nothing_else) {
    struct sample_file f;
    sample_open(&f);
    int fd = open(f.path, O_RDWR);
    for (size_t at = 0; at < f.bytes.len; at++) {
        int bits = in_a_header(&f, at) ? 8 : 1; /* payloads: one bit per byte */
        for (int bit = 0; bit < bits; bit++) {
            write_byte(fd, at, (char)(f.bytes.buf[at] ^ 1 << (bits == 8 ? bit : (int)at % 8)));
            check_flip(&f, at);
        }
        write_byte(fd, at, f.bytes.buf[at]);
    }
    close(fd);
    sample_close(&f);
}

TEST(trace_with_garbage_between_chunks_keeps_all_chunks) {
    struct sample_file f;
    struct err err;
    sample_open(&f);
    struct strbuf mixed = STRBUF_INIT;
    size_t split = f.chunks[3].offset;
    strbuf_add(&mixed, f.bytes.buf, split);
    strbuf_addstr(&mixed, "garbage with a sync word IPC1 inside and another IPC1IPC1 here");
    strbuf_add(&mixed, f.bytes.buf + split, f.bytes.len - split);
    CHECK_INT(file_write_atomic(f.path, mixed.buf, mixed.len, &err), 0);
    struct trace_reader *r = trace_reader_open(f.path, &err);
    CHECK_INT(check_contents(r), f.kinds);
    CHECK_INT(trace_reader_summary(r)->damaged_bytes, mixed.len - f.bytes.len);
    CHECK(trace_reader_summary(r)->finished);
    trace_reader_close(r);
    strbuf_free(&mixed);
    sample_close(&f);
}

TEST(trace_rejects_a_chunk_of_another_file) {
    struct sample_file f;
    struct err err;
    sample_open(&f);
    char *other = NULL, *dir = test_tmpdir();
    other = file_join(dir, "other.ipt");
    struct trace_writer *w = trace_writer_open(other, &(struct trace_writer_options){ .file_id = 99 }, &err);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct strbuf mixed = STRBUF_INIT;
    CHECK_INT(file_read(other, 1 << 20, &mixed, &err), 0);
    strbuf_add(&mixed, f.bytes.buf + f.chunks[1].offset, f.chunks[1].bytes);
    CHECK_INT(file_write_atomic(other, mixed.buf, mixed.len, &err), 0);
    struct trace_reader *r = trace_reader_open(other, &err);
    CHECK_INT(check_contents(r), 0);
    CHECK_STR(trace_reader_summary(r)->damage, "checksum of a chunk does not match");
    trace_reader_close(r);
    strbuf_free(&mixed);
    free(other);
    free(dir);
    sample_close(&f);
}

/* Appends a chunk with a valid checksum, as a newer or a hostile writer could. */
static void append_chunk(const char *path, struct trace_chunk_header h, const void *payload, size_t n) {
    h.sync = TRACE_SYNC_WORD;
    h.bytes = (uint32_t)n;
    if (!h.raw_bytes) h.raw_bytes = (uint32_t)n;
    h.crc = trace_chunk_crc(&h, payload, FILE_ID);
    FILE *out = fopen(path, "ab");
    fwrite(&h, sizeof h, 1, out);
    fwrite(payload, 1, n, out);
    CHECK_INT(fclose(out), 0);
}

static void make_empty_trace(char **path) {
    struct err err;
    char *dir = test_tmpdir();
    *path = file_join(dir, "t.ipt");
    free(dir);
    struct trace_writer *w =
        trace_writer_open(*path, &(struct trace_writer_options){ .file_id = FILE_ID }, &err);
    CHECK_INT(trace_writer_close(w, &err), 0);
}

TEST(trace_skips_unknown_kinds_and_columns) {
    char *path;
    struct err err;
    struct trace_batch b = { 0 };
    make_empty_trace(&path);
    append_chunk(path, (struct trace_chunk_header){ .kind = 999, .count = 5 }, "??", 2);
    /* a token record: time 7 (column 1), then column 77 of a later version */
    static const uint8_t token[] = { 1, TRACE_ENC_CONST, 1, 0, 0, 0, 7, 77, 200, 3, 0, 0, 0, 1, 2, 3 };
    append_chunk(path, (struct trace_chunk_header){ .kind = TRACE_TOKEN, .count = 1 }, token, sizeof token);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(trace_reader_summary(r)->unknown_chunks, 1);
    CHECK_INT(trace_reader_summary(r)->damaged_places, 0);
    size_t last = trace_reader_chunks(r) - 1;
    CHECK_INT(trace_reader_decode(r, last, &b, &err), 0);
    CHECK_INT(b.token[0].time_ns, 7);
    trace_batch_free(&b);
    trace_reader_close(r);
    free(path);
}

/* A chunk with one string, whose number takes 5 bytes. */
TEST(trace_rejects_string_numbers_that_need_gigabytes) {
    static const uint8_t far[] = { 0xf0, 0xff, 0xff, 0xff, 0x0f, 1, 'a' },
                         near[] = { 0xf0, 0xff, 0xff, 0x07, 1, 'a' };
    char *path;
    struct err err;
    make_empty_trace(&path);
    append_chunk(path, (struct trace_chunk_header){ .kind = TRACE_STRING, .count = 1 }, far, sizeof far);
    append_chunk(path, (struct trace_chunk_header){ .kind = TRACE_STRING, .count = 1 }, near, sizeof near);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(trace_reader_summary(r)->damaged_places, 1);
    CHECK_INT(trace_reader_string_end(r), 0xfffff1);
    CHECK_STR(trace_reader_string(r, 0xfffff0, NULL), "a");
    trace_reader_close(r);
    free(path);
}

TEST(trace_rejects_invalid_columns) {
    static const struct {
        uint8_t bytes[24];
        size_t n;
        const char *why;
    } bad[] = {
        { { 1, TRACE_ENC_VARINT, 1, 0, 0, 0, 7 }, 7, "token chunk: column time_ns does not have 2 values" },
        { { 1, TRACE_ENC_VARINT, 3, 0, 0, 0, 7, 7, 7 },
          9,
          "token chunk: column time_ns does not have 2 values" },
        { { 1, TRACE_ENC_CONST, 255, 255, 255, 255, 7 }, 7, "token chunk ends inside a column header" },
        { { 1, 42, 1, 0, 0, 0, 7 }, 7, "token chunk: column time_ns does not have 2 values" },
        { { 2, TRACE_ENC_CONST, 1, 0, 0, 0, 7, 1, TRACE_ENC_CONST, 1, 0, 0, 0, 7 },
          14,
          "token chunk: column 1 after column 2" },
        { { 1, TRACE_ENC_DICT, 4, 0, 0, 0, 0, 5, 0, 1 },
          10,
          "token chunk: column time_ns does not have 2 values" },
        { { 3, TRACE_ENC_CONST, 6, 0, 0, 0, 255, 255, 255, 255, 255, 1 },
          12,
          "token chunk: column count has a number over 32 bits" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *path;
        struct err err;
        struct trace_batch b = { 0 };
        make_empty_trace(&path);
        append_chunk(path, (struct trace_chunk_header){ .kind = TRACE_TOKEN, .count = 2 }, bad[i].bytes,
                     bad[i].n);
        struct trace_reader *r = trace_reader_open(path, &err);
        CHECK_INT(trace_reader_decode(r, trace_reader_chunks(r) - 1, &b, &err), -1);
        CHECK_INT(b.n, 0);
        CHECK_STR(strstr(err.msg, "token chunk"), bad[i].why);
        trace_batch_free(&b);
        trace_reader_close(r);
        free(path);
    }
}

TEST(trace_open_reports_why_a_file_is_not_a_trace) {
    char *dir = test_tmpdir(), *path = file_join(dir, "x.ipt");
    char want[1024];
    struct err err;
    CHECK(trace_reader_open(path, &err) == NULL);
    snprintf(want, sizeof want, "%s: No such file or directory", path);
    CHECK_STR(err.msg, want);
    CHECK_INT(file_write_atomic(path, "{}", 2, &err), 0);
    CHECK(trace_reader_open(path, &err) == NULL);
    snprintf(want, sizeof want, "%s: not an inferprof trace: 2 bytes, the header alone has 32", path);
    CHECK_STR(err.msg, want);
    CHECK(trace_reader_open(dir, &err) == NULL);
    snprintf(want, sizeof want, "%s: not a regular file", dir);
    CHECK_STR(err.msg, want);
    free(path);
    free(dir);
}

TEST(trace_of_a_newer_minor_version_is_read_and_a_newer_major_version_rejected) {
    struct sample_file f;
    struct err err;
    sample_open(&f);
    struct trace_file_header *h = (void *)f.bytes.buf;
    h->minor = 9;
    h->crc = crc32_update(0, h, offsetof(struct trace_file_header, crc));
    CHECK_INT(file_write_atomic(f.path, f.bytes.buf, f.bytes.len, &err), 0);
    struct trace_reader *r = trace_reader_open(f.path, &err);
    CHECK_INT(check_contents(r), f.kinds);
    trace_reader_close(r);
    h->major = 2;
    h->crc = crc32_update(0, h, offsetof(struct trace_file_header, crc));
    CHECK_INT(file_write_atomic(f.path, f.bytes.buf, f.bytes.len, &err), 0);
    CHECK(trace_reader_open(f.path, &err) == NULL);
    CHECK(strstr(err.msg, "format version 2.9, this program reads 1.x") != NULL);
    sample_close(&f);
}
