#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "trace/layout.h"
#include "trace/reader_columns.h"
#include "trace/reader_strings.h"

#define SCAN_BYTES ((size_t)64 << 10)

struct trace_reader {
    int fd;
    char *path;
    struct trace_summary summary;
    struct {
        struct trace_chunk *v;
        size_t n, cap;
    } chunks;
    struct reader_strings strings;
    struct {
        struct trace_meta *v;
        size_t n, cap;
    } meta;
    uint64_t shift_ns; /* from meta clock.offset_ns; added to every time */
    uint8_t *scratch;  /* buffer for one payload; only used while opening */
    /* Bytes that may still be read to check possible chunks after damage; each check costs at least
     * SCAN_BYTES / 4. Limits the time for malicious files. */
    uint64_t search_budget;
};

/* Uses pread instead of mmap: a file that shrinks while it is read gives a short read instead of SIGBUS. */
static bool read_at(int fd, uint64_t offset, void *out, size_t n) {
    uint8_t *p = out;
    while (n) {
        ssize_t k = pread(fd, p, n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return true;
}

/* ---- finding the chunks */

static const char *header_fault(const struct trace_chunk_header *h, uint64_t left) {
    if (h->sync != TRACE_SYNC_WORD) return "no chunk starts here";
    if (h->bytes > TRACE_MAX_PAYLOAD || h->raw_bytes > TRACE_MAX_RAW)
        return "chunk claims more bytes than any writer produces";
    if (h->count > TRACE_MAX_RECORDS) return "chunk claims more records than any writer produces";
    if (h->bytes > left) return "file ends inside a chunk";
    return NULL;
}

/* Reads the chunk at `offset`, with its payload into scratch. Returns NULL if the chunk is intact, otherwise
 * a text that describes the fault. */
static const char *check_chunk(struct trace_reader *r, uint64_t offset, struct trace_chunk_header *h) {
    uint64_t left = r->summary.file_bytes - offset;
    if (left < sizeof *h) return "file ends inside a chunk header";
    if (!read_at(r->fd, offset, h, sizeof *h)) return "cannot be read";
    const char *fault = header_fault(h, left - sizeof *h);
    if (fault) return fault;
    if (!read_at(r->fd, offset + sizeof *h, r->scratch, h->bytes)) return "cannot be read";
    return trace_chunk_crc(h, r->scratch, r->summary.file_id) == h->crc
               ? NULL
               : "checksum of a chunk does not match";
}

/* Returns the next offset at or after `offset` with a sync word; file_bytes if there is none, or if the file
 * cannot be read. */
static uint64_t find_sync(struct trace_reader *r, uint64_t offset) {
    uint8_t window[SCAN_BYTES];
    const uint32_t word = TRACE_SYNC_WORD;
    while (r->summary.file_bytes - offset >= sizeof word) {
        size_t n = (size_t)MIN(r->summary.file_bytes - offset, sizeof window);
        if (!read_at(r->fd, offset, window, n)) break;
        const uint8_t *hit = memmem(window, n, &word, sizeof word);
        if (hit) return offset + (uint64_t)(hit - window);
        offset += n - (sizeof word - 1);
    }
    return r->summary.file_bytes;
}

static bool spend_budget(struct trace_reader *r, uint64_t bytes) {
    if (r->search_budget < bytes) return false;
    r->search_budget -= bytes;
    return true;
}

static void note_damage(struct trace_summary *s, uint64_t offset, uint64_t bytes, const char *fault) {
    if (!s->damaged_places++) {
        s->damage_offset = offset;
        snprintf(s->damage, sizeof s->damage, "%.*s", (int)sizeof s->damage - 1, fault);
    }
    s->damaged_bytes += bytes;
}

/* Records the damage at `offset`. Returns the offset of the next intact chunk, or the end of the file if
 * there is none or the search budget is used up. */
static uint64_t after_damage(struct trace_reader *r, uint64_t offset, const char *fault) {
    uint64_t end = r->summary.file_bytes, next = find_sync(r, offset + 1);
    while (next < end) {
        struct trace_chunk_header h = { 0 };
        if (!check_chunk(r, next, &h)) break;
        uint64_t cost = SCAN_BYTES / 4 + (h.bytes <= TRACE_MAX_PAYLOAD ? h.bytes : 0);
        next = spend_budget(r, cost) ? find_sync(r, next + 1) : end;
    }
    note_damage(&r->summary, offset, next - offset, fault);
    return next;
}

static void add_losses(struct trace_reader *r, const struct trace_batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        const struct trace_lost *l = &b->lost[i];
        if (l->lost_kind < TRACE_KIND_END && l->reason < TRACE_LOST_REASON_END)
            r->summary.lost[l->lost_kind][l->reason] += l->count;
    }
}

static void list_chunk(struct trace_reader *r, uint64_t offset, const struct trace_chunk_header *h) {
    struct trace_chunk c = { .offset = offset,
                             .bytes = h->bytes + (uint32_t)sizeof *h,
                             .raw_bytes = h->raw_bytes,
                             .count = h->count,
                             .kind = h->kind,
                             .flags = h->flags };
    if (h->flags & TRACE_CHUNK_LAST)
        r->summary.finished = true;
    else if (trace_schema(h->kind))
        vec_push(&r->chunks, c);
    else if (h->kind != TRACE_STRING)
        r->summary.unknown_chunks++;
}

/* ---- payloads */

static void *fit(void *v, size_t *cap, size_t need) { return vec_fit(v, MAX(need, 1), cap, 1); }
#define FIT(field, need) ((field).v = fit((field).v, &(field).cap, (need)))

static int unpack_payload(const struct trace_chunk_header *h, const uint8_t *payload, struct trace_batch *b,
                          struct bytes *raw, struct err *err) {
    if (!(h->flags & TRACE_CHUNK_ZSTD)) {
        *raw = (struct bytes){ payload, payload + h->bytes };
        return h->raw_bytes == h->bytes ? 0 : err_set(err, "uncompressed chunk with two different sizes");
    }
    FIT(b->raw, h->raw_bytes);
    if (!b->unpacker && !(b->unpacker = ZSTD_createDCtx())) die("out of memory: zstd");
    size_t n = ZSTD_decompressDCtx(b->unpacker, b->raw.v, h->raw_bytes, payload, h->bytes);
    if (ZSTD_isError(n) || n != h->raw_bytes)
        return err_set(err, "compressed chunk cannot be unpacked: %s",
                       ZSTD_isError(n) ? ZSTD_getErrorName(n) : "wrong size");
    *raw = (struct bytes){ b->raw.v, (uint8_t *)b->raw.v + n };
    return 0;
}

static int decode_payload(const struct trace_chunk_header *h, const uint8_t *payload, struct trace_batch *b,
                          struct err *err) {
    const struct trace_schema *s = trace_schema(h->kind);
    struct bytes raw;
    b->kind = h->kind;
    b->n = 0;
    if (unpack_payload(h, payload, b, &raw, err) < 0) return -1;
    FIT(b->columns, h->count * sizeof(uint64_t));
    FIT(b->out, h->count * s->record_bytes);
    if (reader_columns_decode(s, raw, h->count, b->columns.v, b->out.v, err) < 0) return -1;
    b->records = b->out.v;
    b->n = h->count;
    return 0;
}

static void shift_times(const struct trace_schema *s, void *records, size_t n, uint64_t by_ns) {
    for (size_t f = 0; f < s->nfields; f++) {
        if (s->fields[f].type != TRACE_FIELD_TIME && s->fields[f].type != TRACE_FIELD_AFTER) continue;
        char *field = (char *)records + s->fields[f].offset;
        for (size_t i = 0; i < n; i++, field += s->record_bytes) *(uint64_t *)(void *)field += by_ns;
    }
}

int trace_reader_decode(const struct trace_reader *r, size_t i, struct trace_batch *b, struct err *err) {
    const struct trace_chunk *c = &r->chunks.v[i];
    const struct trace_chunk_header *h;
    b->n = 0;
    FIT(b->disk, c->bytes);
    h = b->disk.v;
    if (!read_at(r->fd, c->offset, b->disk.v, c->bytes) || h->bytes + sizeof *h != c->bytes ||
        h->count != c->count || h->kind != c->kind || h->raw_bytes != c->raw_bytes)
        return err_set(err, "%s: offset %" PRIu64 ": the file changed while it was read", r->path, c->offset);
    if (decode_payload(h, (const uint8_t *)b->disk.v + sizeof *h, b, err) < 0)
        return err_wrap(err, "%s: offset %" PRIu64, r->path, c->offset);
    if (r->shift_ns) shift_times(trace_schema(b->kind), b->out.v, b->n, r->shift_ns);
    return 0;
}

void trace_batch_free(struct trace_batch *b) {
    ZSTD_freeDCtx(b->unpacker);
    free(b->disk.v);
    free(b->raw.v);
    free(b->columns.v);
    free(b->out.v);
    *b = (struct trace_batch){ 0 };
}

/* Reads a chunk of strings, losses or meta records; ignores all other kinds. Called while opening, because
 * all callers need these records, and there are few of them. */
static int read_index_chunk(struct trace_reader *r, const struct trace_chunk_header *h, struct trace_batch *b,
                            struct err *err) {
    struct bytes raw;
    if (h->kind == TRACE_STRING) {
        if (unpack_payload(h, r->scratch, b, &raw, err) < 0) return -1;
        return reader_strings_add(&r->strings, raw, h->count, h->bytes + (uint32_t)sizeof *h, err);
    }
    if (h->kind != TRACE_LOST && h->kind != TRACE_META) return 0;
    if (decode_payload(h, r->scratch, b, err) < 0) return -1;
    if (h->kind == TRACE_LOST)
        add_losses(r, b);
    else
        for (size_t i = 0; i < b->n; i++) vec_push(&r->meta, b->meta[i]);
    return 0;
}

static void scan_chunks(struct trace_reader *r, uint64_t offset) {
    struct trace_batch b = { 0 };
    while (offset < r->summary.file_bytes) {
        struct trace_chunk_header h;
        struct err err;
        const char *fault = check_chunk(r, offset, &h);
        if (!fault && read_index_chunk(r, &h, &b, &err) < 0) fault = err.msg;
        if (fault) {
            offset = after_damage(r, offset, fault);
            continue;
        }
        list_chunk(r, offset, &h);
        offset += sizeof h + h.bytes;
    }
    trace_batch_free(&b);
}

/* ---- opening */

static int read_header(struct trace_reader *r, struct trace_file_header *h, struct err *err) {
    if (r->summary.file_bytes < sizeof *h)
        return err_set(err, "%s: not an inferprof trace: %" PRIu64 " bytes, the header alone has %zu",
                       r->path, r->summary.file_bytes, sizeof *h);
    if (!read_at(r->fd, 0, h, sizeof *h)) return err_set(err, "%s: %s", r->path, strerror(errno));
    if (memcmp(h->magic, TRACE_MAGIC, sizeof h->magic) != 0)
        return err_set(err, "%s: not an inferprof trace (other tools' files: inferprof import)", r->path);
    if (crc32_update(0, h, offsetof(struct trace_file_header, crc)) != h->crc)
        return err_set(err, "%s: offset 0: the header of this trace is damaged; record the trace again",
                       r->path);
    if (h->major != TRACE_MAJOR)
        return err_set(err,
                       "%s: format version %u.%u, this program reads %u.x; use the inferprof that wrote it",
                       r->path, h->major, h->minor, TRACE_MAJOR);
    if (h->header_bytes < sizeof *h || h->header_bytes > r->summary.file_bytes)
        return err_set(err, "%s: offset 12: header of %u bytes in a file of %" PRIu64, r->path,
                       h->header_bytes, r->summary.file_bytes);
    return 0;
}

static int open_file(struct trace_reader *r, struct err *err) {
    struct stat st;
    /* O_NONBLOCK: do not wait for the writer of a pipe */
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0 || fstat(r->fd, &st) < 0) return err_set(err, "%s: %s", r->path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return err_set(err, "%s: not a regular file", r->path);
    r->summary.file_bytes = (uint64_t)st.st_size;
    return 0;
}

/* Masks secrets: traces of older versions contain the command line as it was typed. */
static void mask_commands(struct trace_reader *r) {
    for (size_t i = 0; i < r->meta.n; i++) {
        const char *key = trace_reader_string(r, r->meta.v[i].key, NULL);
        if (key && strcmp(key, TRACE_META_COMMAND) == 0) reader_strings_mask(&r->strings, r->meta.v[i].value);
    }
}

struct trace_reader *trace_reader_open(const char *path, struct err *err) {
    struct trace_reader *r = xcalloc(1, sizeof *r);
    struct trace_file_header h;
    r->fd = -1;
    r->path = xstrdup(path);
    if (open_file(r, err) < 0 || read_header(r, &h, err) < 0) {
        trace_reader_close(r);
        return NULL;
    }
    r->summary.file_id = h.file_id;
    r->summary.major = h.major;
    r->summary.minor = h.minor;
    r->search_budget = 8 * r->summary.file_bytes + (16u << 20);
    r->scratch = xmalloc(TRACE_MAX_PAYLOAD);
    scan_chunks(r, h.header_bytes);
    mask_commands(r);
    const char *shift = trace_reader_meta(r, "clock.offset_ns");
    if (shift) r->shift_ns = strtoull(shift, NULL, 10);
    free(r->scratch);
    r->scratch = NULL;
    return r;
}

void trace_reader_close(struct trace_reader *r) {
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    reader_strings_free(&r->strings);
    free(r->chunks.v);
    free(r->meta.v);
    free(r->path);
    free(r);
}

const struct trace_summary *trace_reader_summary(const struct trace_reader *r) { return &r->summary; }
size_t trace_reader_chunks(const struct trace_reader *r) { return r->chunks.n; }
const struct trace_chunk *trace_reader_chunk(const struct trace_reader *r, size_t i) {
    return &r->chunks.v[i];
}

const char *trace_reader_string(const struct trace_reader *r, uint32_t id, size_t *len) {
    return reader_strings_get(&r->strings, id, len);
}
uint32_t trace_reader_string_end(const struct trace_reader *r) { return reader_strings_end(&r->strings); }
uint64_t trace_reader_string_bytes(const struct trace_reader *r) { return r->strings.disk_bytes; }

bool trace_reader_meta_at(const struct trace_reader *r, size_t i, const char **key, const char **value) {
    if (i >= r->meta.n) return false;
    *key = trace_reader_string(r, r->meta.v[i].key, NULL);
    *value = trace_reader_string(r, r->meta.v[i].value, NULL);
    if (!*key) *key = "";
    if (!*value) *value = "";
    return true;
}

const char *trace_reader_meta(const struct trace_reader *r, const char *key) {
    const char *k, *v;
    for (size_t i = 0; trace_reader_meta_at(r, i, &k, &v); i++)
        if (strcmp(k, key) == 0) return v;
    return NULL;
}
