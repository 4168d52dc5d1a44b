#include "trace/writer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "trace/layout.h"

#define ZSTD_LEVEL 1 /* level 3 saves 4% of the bytes and takes 1.6 times as long */
#define LOST_ROWS (TRACE_KIND_END * TRACE_LOST_REASON_END)

static bool write_at(struct writer_file *f, uint64_t offset, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n) {
        ssize_t k = pwrite(f->fd, p, n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            if (!f->first_errno) f->first_errno = k < 0 ? errno : ENOSPC;
            return false;
        }
        p += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return true;
}

/* Writes the whole chunk or nothing: truncates the file after a partial write. */
static bool append_chunk(struct writer_file *f, const struct trace_chunk_header *h, const uint8_t *payload) {
    uint64_t bytes = sizeof *h + h->bytes;
    bool last = h->flags & TRACE_CHUNK_LAST; /* space for the end mark is always reserved */
    if (f->max_bytes && f->offset + bytes + (last ? 0 : sizeof *h) > f->max_bytes) {
        if (!f->first_errno) f->first_errno = EFBIG;
        return false;
    }
    struct iovec parts[] = { { (void *)(uintptr_t)h, sizeof *h }, { (void *)(uintptr_t)payload, h->bytes } };
    ssize_t k = pwritev(f->fd, parts, 2, (off_t)f->offset); /* one system call, so a kill cannot split it */
    if (k == (ssize_t)bytes) {
        f->offset += bytes;
        return true;
    }
    if (!f->first_errno) f->first_errno = k < 0 ? errno : ENOSPC;
    if (k > 0 && ftruncate(f->fd, (off_t)f->offset) < 0) return false; /* readers skip the partial chunk */
    return false;
}

static void seal_chunk(const struct writer_file *f, struct trace_chunk_header *h, const uint8_t *payload) {
    h->sync = TRACE_SYNC_WORD;
    h->crc = trace_chunk_crc(h, payload, f->id);
}

bool writer_file_chunk(struct writer_file *f, enum trace_kind kind, uint32_t count, const uint8_t *raw,
                       size_t raw_bytes) {
    struct trace_chunk_header h = { .kind = (uint16_t)kind,
                                    .count = count,
                                    .raw_bytes = (uint32_t)raw_bytes };
    size_t packed = 0;
    if (f->zstd && raw_bytes > 64)
        packed = ZSTD_compressCCtx(f->zstd, f->packed, f->packed_cap, raw, raw_bytes, ZSTD_LEVEL);
    bool smaller = packed && !ZSTD_isError(packed) && packed < raw_bytes;
    h.flags = smaller ? TRACE_CHUNK_ZSTD : 0;
    h.bytes = (uint32_t)(smaller ? packed : raw_bytes);
    if (h.bytes > TRACE_MAX_PAYLOAD) return false;
    seal_chunk(f, &h, smaller ? f->packed : raw);
    return append_chunk(f, &h, smaller ? f->packed : raw);
}

/* Raw encoding: its size does not depend on the values, so the chunk can be rewritten in place. */
static uint8_t *raw_column(uint8_t *p, uint8_t column, const uint64_t v[LOST_ROWS]) {
    uint32_t bytes = LOST_ROWS * sizeof *v;
    *p++ = column;
    *p++ = TRACE_ENC_RAW;
    memcpy(p, &bytes, sizeof bytes);
    memcpy(p + sizeof bytes, v, bytes);
    return p + sizeof bytes + bytes;
}

/* One row per kind and reason, directly after the file header. Columns: count, lost_kind, reason. */
bool writer_file_losses(struct writer_file *f, uint64_t (*lost)[TRACE_LOST_REASON_END]) {
    uint64_t count[LOST_ROWS], kind[LOST_ROWS], reason[LOST_ROWS];
    uint8_t payload[3 * (TRACE_COLUMN_HEADER_BYTES + sizeof count)],
        chunk[sizeof payload + TRACE_CHUNK_HEADER_BYTES];
    for (size_t i = 0; i < LOST_ROWS; i++) {
        kind[i] = i / TRACE_LOST_REASON_END;
        reason[i] = i % TRACE_LOST_REASON_END;
        count[i] = lost[kind[i]][reason[i]];
    }
    raw_column(raw_column(raw_column(payload, 1, count), 2, kind), 3, reason);
    struct trace_chunk_header h = {
        .kind = TRACE_LOST, .count = LOST_ROWS, .bytes = sizeof payload, .raw_bytes = sizeof payload
    };
    seal_chunk(f, &h, payload);
    memcpy(chunk, &h, sizeof h);
    memcpy(chunk + sizeof h, payload, sizeof payload);
    if (!write_at(f, TRACE_FILE_HEADER_BYTES, chunk, sizeof chunk)) return false;
    if (f->offset < TRACE_FILE_HEADER_BYTES + sizeof chunk)
        f->offset = TRACE_FILE_HEADER_BYTES + sizeof chunk;
    return true;
}

bool writer_file_end(struct writer_file *f) {
    struct trace_chunk_header h = { .kind = TRACE_LOST, .flags = TRACE_CHUNK_LAST };
    seal_chunk(f, &h, f->packed);
    return append_chunk(f, &h, f->packed);
}

static bool write_header(struct writer_file *f) {
    struct trace_file_header h = {
        .major = TRACE_MAJOR, .minor = TRACE_MINOR, .header_bytes = sizeof h, .file_id = f->id
    };
    uint64_t none[TRACE_KIND_END][TRACE_LOST_REASON_END] = { 0 };
    memcpy(h.magic, TRACE_MAGIC, sizeof h.magic);
    h.crc = crc32_update(0, &h, offsetof(struct trace_file_header, crc));
    return write_at(f, 0, &h, sizeof h) && writer_file_losses(f, none);
}

static uint64_t random_id(void) {
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != sizeof id)
        id = hash_u64(clock_wall_ns() ^ (uint64_t)getpid() << 32);
    return id ? id : 1;
}

int writer_file_open(struct writer_file *f, const char *path, uint64_t id, uint64_t max_bytes, bool store,
                     size_t max_raw, struct err *err) {
    *f = (struct writer_file){ .id = id ? id : random_id(), .max_bytes = max_bytes };
    f->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    f->packed_cap = ZSTD_compressBound(max_raw);
    f->packed =
        mmap(NULL, f->packed_cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->packed == MAP_FAILED) {
        f->packed = NULL;
        err_set(err, "%s: no memory for %zu bytes", path, f->packed_cap);
    } else if (write_header(f)) {
        if (!store) f->zstd = ZSTD_createCCtx(); /* NULL: chunks are stored uncompressed */
        return 0;
    } else {
        err_set(err, "%s: %s", path, strerror(f->first_errno));
    }
    unlink(path);
    writer_file_close(f);
    return -1;
}

void writer_file_close(struct writer_file *f) {
    if (f->fd >= 0) close(f->fd);
    if (f->packed) munmap(f->packed, f->packed_cap);
    ZSTD_freeCCtx(f->zstd);
    *f = (struct writer_file){ .fd = -1 };
}
