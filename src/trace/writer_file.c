#include "trace/writer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "trace/layout.h"

#define ZSTD_LEVEL 1 /* level 3 saves 4% of the bytes and takes 1.6 times as long */
#define LOST_ROWS (TRACE_KIND_END * TRACE_LOST_REASON_END)

/* ---- the descriptor */

/* Upper limit of the number of our descriptor. The number is high, because programs close and reuse low ones.
 * A number above this limit would enlarge the descriptor table of the kernel. */
#define HIGH_FD 4096

static int lowest_fd(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > HIGH_FD) return HIGH_FD - 16;
    return limit.rlim_cur > 64 ? (int)limit.rlim_cur - 16 : STDERR_FILENO + 1;
}

static int open_high(const char *path, int flags) {
    int low = open(path, flags | O_RDWR | O_CLOEXEC, 0666);
    int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, lowest_fd());
    if (high < 0) return low;
    close(low);
    return high;
}

static bool is_same_file(const struct writer_file *f, int fd) {
    struct stat s;
    return fd >= 0 && fstat(fd, &s) == 0 && s.st_dev == f->device && s.st_ino == f->inode;
}

/* Returns the descriptor of our file, reopened by its path if necessary; -1 if neither the descriptor nor the
 * path refers to our file. */
static int own_fd(struct writer_file *f) {
    if (is_same_file(f, f->fd)) return f->fd;
    f->fd = f->path ? open_high(f->path, O_NOFOLLOW) : -1;
    if (f->fd >= 0 && !is_same_file(f, f->fd)) {
        close(f->fd);
        f->fd = -1;
    }
    if (f->fd < 0 && !f->first_errno) f->first_errno = EBADF;
    return f->fd;
}

/* ---- chunks */

static bool write_at(struct writer_file *f, uint64_t offset, const void *data, size_t n) {
    const uint8_t *p = data;
    if (own_fd(f) < 0) return false;
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
    ssize_t k; /* one system call, so SIGKILL does not leave a partial chunk */
    do {
        if (own_fd(f) < 0) return false;
        k = pwritev(f->fd, parts, 2, (off_t)f->offset);
    } while (k < 0 && errno == EINTR);
    if (k == (ssize_t)bytes) {
        f->offset += bytes;
        return true;
    }
    if (!f->first_errno) f->first_errno = k < 0 ? errno : ENOSPC;
    /* If the truncation fails, readers skip the partial chunk. */
    if (k > 0 && own_fd(f) >= 0 && ftruncate(f->fd, (off_t)f->offset) < 0) return false;
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

/* Writes the table of losses directly after the file header: one row per kind and reason, with the columns
 * count, lost_kind and reason. */
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

/* ---- open and close */

static int describe_file(struct writer_file *f, const char *path) {
    struct stat s;
    f->path = realpath(path, NULL);
    if (fstat(f->fd, &s) != 0) return -1;
    f->device = s.st_dev;
    f->inode = s.st_ino;
    return 0;
}

static int prepare_file(struct writer_file *f, const char *path, const struct writer_file_options *o,
                        struct err *err) {
    if (describe_file(f, path) < 0) return err_set(err, "%s: %s", path, strerror(errno));
    f->packed_cap = ZSTD_compressBound(o->max_raw);
    void *packed =
        mmap(NULL, f->packed_cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    f->packed = packed == MAP_FAILED ? NULL : packed;
    if (!f->packed) return err_set(err, "%s: no memory for %zu bytes", path, f->packed_cap);
    if (!write_header(f)) return err_set(err, "%s: %s", path, strerror(f->first_errno));
    if (!o->store) f->zstd = ZSTD_createCCtx(); /* NULL: chunks are stored uncompressed */
    return 0;
}

int writer_file_open(struct writer_file *f, const char *path, const struct writer_file_options *o,
                     struct err *err) {
    *f = (struct writer_file){ .id = o->id ? o->id : random_id(), .max_bytes = o->max_bytes };
    f->fd = open_high(path, O_CREAT | O_EXCL);
    if (f->fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    if (prepare_file(f, path, o, err) == 0) return 0;
    unlink(path);
    writer_file_close(f);
    return -1;
}

void writer_file_close(struct writer_file *f) {
    if (is_same_file(f, f->fd)) close(f->fd);
    if (f->packed) munmap(f->packed, f->packed_cap);
    ZSTD_freeCCtx(f->zstd);
    free(f->path);
    *f = (struct writer_file){ .fd = -1 };
}
