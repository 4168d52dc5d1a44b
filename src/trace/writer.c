#include "trace/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/secret.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/util.h"
#include "trace/columns.h"
#include "trace/layout.h"
#include "trace/writer_file.h"
#include "trace/writer_strings.h"

#define DEFAULT_MEMORY_BYTES ((uint64_t)64 << 20)
#define DEFAULT_FLUSH_MS 500
/* About 1,500 kernels: large enough for dictionaries and zstd, small enough for short flushes. */
#define BLOCK_BYTES ((size_t)128 << 10)
#define MIN_BLOCKS 32
#define MAX_SHARDS 16
#define STRING_CHUNK_BYTES ((size_t)256 << 10)

/* Records of one kind. A block is filled by one shard, queued, encoded and returned to the pool. */
struct block {
    struct block *next;
    uint32_t kind, n;
    uint8_t records[];
};

/* Threads are spread over shards, so that 16 threads do not contend for one lock. */
struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct block *open[TRACE_KIND_END];
};

struct trace_writer {
    struct writer_file file;
    struct writer_strings strings;
    struct shard shards[MAX_SHARDS];
    unsigned nshards;
    uint32_t flush_ms;

    uint8_t *memory; /* the blocks; unused pages take no memory */
    size_t nblocks, blocks_touched;
    pthread_mutex_t pool_lock;
    struct block *pool;

    pthread_mutex_t queue_lock;
    pthread_cond_t queue_wake, flushed;
    struct block *queue_head, **queue_tail;
    uint64_t flush_requested, flush_done;
    bool stop;

    pthread_t thread;
    /* used by the writer thread only */
    uint32_t strings_written;
    uint64_t *values;
    uint8_t *raw;
    size_t raw_cap;
    uint64_t lost_written;

    atomic_uint_fast64_t records, file_bytes, lost_total;
    atomic_uint_fast64_t lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
};

static size_t block_capacity(unsigned kind) {
    size_t fit = (BLOCK_BYTES - sizeof(struct block)) / trace_schema(kind)->record_bytes;
    return MIN(fit, TRACE_MAX_RECORDS);
}

/* ---- blocks: taken by appending threads, returned by the writer thread */

static struct block *take_block(struct trace_writer *w, unsigned kind) {
    pthread_mutex_lock(&w->pool_lock);
    struct block *b = w->pool;
    if (b)
        w->pool = b->next;
    else if (w->blocks_touched < w->nblocks)
        b = (void *)(w->memory + BLOCK_BYTES * w->blocks_touched++);
    pthread_mutex_unlock(&w->pool_lock);
    if (b) *b = (struct block){ .kind = kind };
    return b;
}

static void give_block(struct trace_writer *w, struct block *b) {
    pthread_mutex_lock(&w->pool_lock);
    b->next = w->pool;
    w->pool = b;
    pthread_mutex_unlock(&w->pool_lock);
}

static void enqueue_block(struct trace_writer *w, struct block *b) {
    b->next = NULL;
    pthread_mutex_lock(&w->queue_lock);
    *w->queue_tail = b;
    w->queue_tail = &b->next;
    pthread_cond_signal(&w->queue_wake);
    pthread_mutex_unlock(&w->queue_lock);
}

/* ---- appending */

static struct shard *my_shard(struct trace_writer *w) {
    return &w->shards[hash_u64((uint64_t)(uintptr_t)pthread_self()) % w->nshards];
}

static size_t put_locked(struct trace_writer *w, struct shard *s, unsigned kind, const uint8_t *records,
                         size_t n) {
    size_t bytes = trace_schema(kind)->record_bytes, cap = block_capacity(kind), done = 0;
    while (done < n) {
        struct block *b = s->open[kind];
        if (!b && !(b = s->open[kind] = take_block(w, kind))) break;
        size_t k = MIN(n - done, cap - b->n);
        memcpy(b->records + b->n * bytes, records + done * bytes, k * bytes);
        b->n += (uint32_t)k;
        done += k;
        if (b->n == cap) {
            enqueue_block(w, b);
            s->open[kind] = NULL;
        }
    }
    return done;
}

size_t trace_writer_put(struct trace_writer *w, enum trace_kind kind, const void *records, size_t n) {
    if (!w || !trace_schema(kind) || n == 0) return 0;
    struct shard *s = my_shard(w);
    pthread_mutex_lock(&s->lock);
    size_t done = put_locked(w, s, kind, records, n);
    pthread_mutex_unlock(&s->lock);
    if (done < n) trace_writer_lost(w, kind, TRACE_LOST_MEMORY, n - done);
    return done;
}

void trace_writer_lost(struct trace_writer *w, enum trace_kind kind, enum trace_lost_reason reason,
                       uint64_t n) {
    if (!w || kind >= TRACE_KIND_END || reason >= TRACE_LOST_REASON_END || n == 0) return;
    atomic_fetch_add(&w->lost[kind][reason], n);
    atomic_fetch_add(&w->lost_total, n);
}

uint32_t trace_writer_string(struct trace_writer *w, const char *text, size_t len) {
    if (!w || len == 0) return 0;
    uint32_t id = writer_strings_id(&w->strings, text, len);
    if (id == 0) trace_writer_lost(w, TRACE_STRING, TRACE_LOST_MEMORY, 1);
    return id;
}

uint32_t trace_writer_str(struct trace_writer *w, const char *text) {
    return text ? trace_writer_string(w, text, strlen(text)) : 0;
}

void trace_writer_meta(struct trace_writer *w, const char *key, const char *fmt, ...) {
    char value[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    if (strcmp(key, TRACE_META_COMMAND) == 0) secret_mask(value);
    struct trace_meta m = { trace_writer_str(w, key), trace_writer_str(w, value) };
    trace_writer_put(w, TRACE_META, &m, 1);
}

/* ---- the writer thread */

/* A string chunk holds consecutive numbers: the first number, then the length and bytes of each string. */
static void write_strings(struct trace_writer *w) {
    uint32_t end = writer_strings_count(&w->strings), next = w->strings_written;
    while (next < end) {
        uint32_t first = next;
        uint8_t *p = bytes_put_varint(w->raw, first + 1),
                *stop = w->raw + MIN(w->raw_cap, STRING_CHUNK_BYTES);
        for (; next < end && next - first < TRACE_MAX_RECORDS; next++) {
            const struct writer_string *e = &w->strings.entries[next];
            if (next > first && (size_t)(stop - p) < e->len + 10u) break;
            p = bytes_put_varint(p, e->len);
            memcpy(p, w->strings.text + e->offset, e->len);
            p += e->len;
        }
        if (!writer_file_chunk(&w->file, TRACE_STRING, next - first, w->raw, (size_t)(p - w->raw)))
            return; /* retried at the next flush */
        w->strings_written = next;
    }
}

static void write_block(struct trace_writer *w, struct block *b) {
    size_t bytes = columns_encode(trace_schema(b->kind), b->records, b->n, w->values, w->raw);
    if (writer_file_chunk(&w->file, b->kind, b->n, w->raw, bytes))
        atomic_fetch_add(&w->records, b->n);
    else
        trace_writer_lost(w, b->kind, TRACE_LOST_DISK, b->n);
    give_block(w, b);
}

/* Strings are written first: every text that a queued record uses was interned before. */
static void write_list(struct trace_writer *w, struct block *list) {
    write_strings(w);
    while (list) {
        struct block *b = list;
        list = b->next;
        write_block(w, b);
    }
}

static struct block *take_queue(struct trace_writer *w) { /* needs queue_lock */
    struct block *list = w->queue_head;
    w->queue_head = NULL;
    w->queue_tail = &w->queue_head;
    return list;
}

/* Partly filled blocks pass through the queue like full ones, so they never overtake an earlier block of
 * their shard. */
static void write_open_blocks(struct trace_writer *w) {
    for (unsigned i = 0; i < w->nshards; i++) {
        struct shard *s = &w->shards[i];
        pthread_mutex_lock(&s->lock);
        for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
            if (s->open[kind]) enqueue_block(w, s->open[kind]);
            s->open[kind] = NULL;
        }
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&w->queue_lock);
        struct block *list = take_queue(w);
        pthread_mutex_unlock(&w->queue_lock);
        write_list(w, list);
    }
}

static void write_losses(struct trace_writer *w) {
    uint64_t total = atomic_load(&w->lost_total), lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
    if (total == w->lost_written) return;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++) lost[k][r] = atomic_load(&w->lost[k][r]);
    if (writer_file_losses(&w->file, lost)) w->lost_written = total;
}

static struct timespec deadline_after(uint64_t from_ns, uint32_t ms) {
    uint64_t t = from_ns + (uint64_t)ms * 1000000u;
    return (struct timespec){ .tv_sec = (time_t)(t / 1000000000u), .tv_nsec = (long)(t % 1000000000u) };
}

/* Sleeps until a block is full, a flush is due or requested, or the writer is closed. */
static struct block *wait_for_work(struct trace_writer *w, uint64_t last_flush_ns, uint64_t *flush,
                                   bool *stop) {
    struct timespec until = deadline_after(last_flush_ns, w->flush_ms);
    int timed_out = 0;
    pthread_mutex_lock(&w->queue_lock);
    while (!w->queue_head && !w->stop && w->flush_requested == w->flush_done && !timed_out)
        timed_out = pthread_cond_timedwait(&w->queue_wake, &w->queue_lock, &until) == ETIMEDOUT;
    struct block *list = take_queue(w);
    *stop = w->stop;
    *flush = w->flush_requested;
    pthread_mutex_unlock(&w->queue_lock);
    return list;
}

static void report_flushed(struct trace_writer *w, uint64_t flush) {
    pthread_mutex_lock(&w->queue_lock);
    w->flush_done = flush;
    pthread_cond_broadcast(&w->flushed);
    pthread_mutex_unlock(&w->queue_lock);
}

static void *writer_thread(void *arg) {
    struct trace_writer *w = arg;
    uint64_t last_flush_ns = clock_mono_ns(), flush;
    bool stop = false;
    while (!stop) {
        write_list(w, wait_for_work(w, last_flush_ns, &flush, &stop));
        bool due = clock_mono_ns() - last_flush_ns >= (uint64_t)w->flush_ms * 1000000u;
        if (stop || due || flush != w->flush_done) {
            write_open_blocks(w);
            write_losses(w);
            last_flush_ns = clock_mono_ns();
            report_flushed(w, flush);
        }
        atomic_store(&w->file_bytes, w->file.offset);
    }
    writer_file_end(&w->file); /* on this thread, which blocks all signals, SIGXFSZ included */
    return NULL;
}

/* ---- open and close */

static void free_memory(struct trace_writer *w) {
    writer_file_close(&w->file);
    writer_strings_free(&w->strings);
    if (w->memory) munmap(w->memory, w->nblocks * BLOCK_BYTES);
    if (w->raw) munmap(w->raw, w->raw_cap + TRACE_MAX_RECORDS * sizeof *w->values);
    munmap(w, sizeof *w);
}

static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static size_t largest_raw(void) {
    size_t most = STRING_CHUNK_BYTES + TRACE_MAX_STRING + 64;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (trace_schema(k)) most = MAX(most, columns_bound(trace_schema(k), block_capacity(k)));
    return most;
}

/* A quarter of the memory is for strings, the rest for blocks. Few blocks mean few shards. */
static bool allocate(struct trace_writer *w, uint64_t memory_bytes) {
    w->nblocks = MAX((size_t)(memory_bytes - memory_bytes / 4) / BLOCK_BYTES, MIN_BLOCKS);
    w->nshards = (unsigned)MIN(MAX(w->nblocks / 16, 1), MAX_SHARDS);
    w->raw_cap = (largest_raw() + 4095) & ~(size_t)4095;
    w->memory = map_pages(w->nblocks * BLOCK_BYTES);
    w->raw = map_pages(w->raw_cap + TRACE_MAX_RECORDS * sizeof *w->values);
    if (!w->memory || !w->raw) return false;
    w->values = (void *)(w->raw + w->raw_cap);
    return writer_strings_init(&w->strings, memory_bytes / 8);
}

static void init_locks(struct trace_writer *w) {
    pthread_condattr_t attr;
    for (unsigned i = 0; i < w->nshards; i++) pthread_mutex_init(&w->shards[i].lock, NULL);
    pthread_mutex_init(&w->pool_lock, NULL);
    pthread_mutex_init(&w->queue_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->queue_wake, &attr);
    pthread_cond_init(&w->flushed, &attr);
    pthread_condattr_destroy(&attr);
    w->queue_tail = &w->queue_head;
}

/* The thread blocks all signals: they belong to the host program. That includes SIGXFSZ (file size limit). */
static int start_thread(struct trace_writer *w) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&w->thread, NULL, writer_thread, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* The caller's thread writes the header. If a file size limit raises SIGXFSZ here, the host program must not
 * receive it. */
static int open_file(struct trace_writer *w, const char *path, const struct trace_writer_options *o,
                     struct err *err) {
    sigset_t limit, old, waiting;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &old);
    sigpending(&waiting);
    bool was_waiting = sigismember(&waiting, SIGXFSZ);
    int rc = writer_file_open(&w->file, path, o->file_id, o->max_file_bytes, o->store, w->raw_cap, err);
    if (!was_waiting) sigtimedwait(&limit, NULL, &(struct timespec){ 0 });
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

struct trace_writer *trace_writer_open(const char *path, const struct trace_writer_options *options,
                                       struct err *err) {
    struct trace_writer_options o = options ? *options : (struct trace_writer_options){ 0 };
    struct trace_writer *w = map_pages(sizeof *w);
    if (!w) {
        err_set(err, "%s: out of memory", path);
        return NULL;
    }
    w->file.fd = -1;
    w->flush_ms = o.flush_ms ? o.flush_ms : DEFAULT_FLUSH_MS;
    if (!allocate(w, o.memory_bytes ? o.memory_bytes : DEFAULT_MEMORY_BYTES)) {
        err_set(err, "%s: out of memory", path);
        free_memory(w);
        return NULL;
    }
    if (open_file(w, path, &o, err) < 0) {
        free_memory(w);
        return NULL;
    }
    init_locks(w);
    atomic_store(&w->file_bytes, w->file.offset);
    int rc = start_thread(w);
    if (rc != 0) {
        err_set(err, "%s: cannot start the writer thread: %s", path, strerror(rc));
        unlink(path);
        free_memory(w);
        return NULL;
    }
    return w;
}

int trace_writer_close(struct trace_writer *w, struct err *err) {
    if (!w) return 0;
    pthread_mutex_lock(&w->queue_lock);
    w->stop = true;
    pthread_cond_signal(&w->queue_wake);
    pthread_mutex_unlock(&w->queue_lock);
    pthread_join(w->thread, NULL);
    int failed = w->file.first_errno;
    uint64_t lost = atomic_load(&w->lost_total);
    free_memory(w);
    if (failed)
        return err_set(err, "trace incomplete: %s; %llu records lost", strerror(failed),
                       (unsigned long long)lost);
    return 0;
}

/* The writer thread does not exist in the child, and locks may stay held for ever. Therefore only the file is
 * closed. The memory is a copy-on-write copy and is released with the process. */
void trace_writer_abandon(struct trace_writer *w) {
    if (w) writer_file_close(&w->file);
}

bool trace_writer_flush(struct trace_writer *w, uint32_t timeout_ms) {
    if (!w) return true;
    struct timespec until = deadline_after(clock_mono_ns(), timeout_ms);
    pthread_mutex_lock(&w->queue_lock);
    uint64_t mine = ++w->flush_requested;
    int rc = 0;
    pthread_cond_signal(&w->queue_wake);
    while (w->flush_done < mine && rc == 0) rc = pthread_cond_timedwait(&w->flushed, &w->queue_lock, &until);
    bool done = w->flush_done >= mine;
    pthread_mutex_unlock(&w->queue_lock);
    return done;
}

void trace_writer_stats(struct trace_writer *w, struct trace_writer_stats *out) {
    memset(out, 0, sizeof *out);
    if (!w) return;
    out->records = atomic_load(&w->records);
    out->file_bytes = atomic_load(&w->file_bytes);
    out->strings = writer_strings_count(&w->strings);
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++) out->lost[k][r] = atomic_load(&w->lost[k][r]);
}
