#include "trace/writer.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/secret.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/own_thread.h"
#include "base/util.h"
#include "trace/columns.h"
#include "trace/layout.h"
#include "trace/writer_file.h"
#include "trace/writer_strings.h"

#define DEFAULT_MEMORY_BYTES ((uint64_t)64 << 20)
#define DEFAULT_FLUSH_MS 500
/* Size of a block, about 1,500 kernels: large enough for dictionaries and zstd, small enough for short
 * flushes. */
#define BLOCK_BYTES ((size_t)128 << 10)
#define MIN_BLOCKS 32
#define MAX_SHARDS 16
#define STRING_CHUNK_BYTES ((size_t)256 << 10)
/* maximum bytes of a value of trace_writer_meta(), including the terminating NUL */
#define MAX_META ((size_t)4096)

/* Records of one kind. A block is filled by one shard, queued, encoded and returned to the pool. */
struct block {
    struct block *next;
    uint32_t kind, n;
    uint8_t records[];
};

/* A lock and the blocks that are being filled under it. Threads are distributed over up to 16 shards, so that
 * they do not contend for one lock. */
struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct block *open[TRACE_KIND_END];
    /* number of appended records; changed only while holding the lock */
    atomic_uint_fast64_t appended[TRACE_KIND_END];
};

struct trace_writer {
    struct writer_file file;
    struct writer_strings strings;
    struct shard shards[MAX_SHARDS];
    unsigned nshards;
    uint32_t flush_ms;

    uint8_t *memory; /* memory of the blocks; unused pages take no space */
    size_t nblocks, blocks_touched;
    pthread_mutex_t pool_lock;
    struct block *pool;

    pthread_mutex_t queue_lock;
    struct block *queue_head, **queue_tail;
    lock_limit lock_limit; /* deadline for waiting on any lock; see trace_writer_limit_locks() */
    struct event wake;     /* signals work to the writer's thread */
    struct event progress; /* signals to callers that the file is opened, flushed or ended */
    atomic_uint_fast64_t flush_requested, flush_done;
    atomic_bool stop, ended;

    pthread_t thread;
    const char *path; /* argument of trace_writer_open(), used while the thread opens the file */
    struct writer_file_options file_options;
    struct err *open_err;
    atomic_int open_state; /* enum open_state */
    int failed_errno;      /* errno of the first write that failed; read it after the thread ended; 0: none */
    uint32_t strings_written; /* used only by the writer thread, like all fields up to lost_written */
    /* number of records that were written, or counted as lost after they were appended */
    uint64_t settled[TRACE_KIND_END];
    uint64_t *values;
    uint8_t *raw;
    size_t raw_cap;
    uint64_t lost_written;

    atomic_uint_fast64_t records, file_bytes, lost_total;
    atomic_uint_fast64_t lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
};

static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static size_t block_capacity(unsigned kind) {
    size_t fit = (BLOCK_BYTES - sizeof(struct block)) / trace_schema(kind)->record_bytes;
    return MIN(fit, TRACE_MAX_RECORDS);
}

enum open_state { OPENING, OPEN, OPEN_FAILED };

/* ---- blocks: taken by appending threads, returned by the writer thread */

static struct block *take_block(struct trace_writer *w, unsigned kind) {
    if (!lock_take(&w->pool_lock, &w->lock_limit)) return NULL;
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
    if (!lock_take(&w->pool_lock, &w->lock_limit)) return;
    b->next = w->pool;
    w->pool = b;
    pthread_mutex_unlock(&w->pool_lock);
}

/* If the lock cannot be acquired, the block is dropped; count_unsettled() counts its records. */
static void enqueue_block(struct trace_writer *w, struct block *b) {
    b->next = NULL;
    if (!lock_take(&w->queue_lock, &w->lock_limit)) return;
    *w->queue_tail = b;
    w->queue_tail = &b->next;
    pthread_mutex_unlock(&w->queue_lock);
    event_set(&w->wake);
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
    uint64_t before = atomic_load_explicit(&s->appended[kind], memory_order_relaxed);
    atomic_store_explicit(&s->appended[kind], before + done, memory_order_relaxed);
    return done;
}

size_t trace_writer_put(struct trace_writer *w, enum trace_kind kind, const void *records, size_t n) {
    if (!w || !trace_schema(kind) || n == 0) return 0;
    struct shard *s = my_shard(w);
    size_t done = 0;
    if (lock_take(&s->lock, &w->lock_limit)) {
        done = put_locked(w, s, kind, records, n);
        pthread_mutex_unlock(&s->lock);
    }
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

static void put_meta(struct trace_writer *w, const char *key, const char *value) {
    struct trace_meta m = { trace_writer_str(w, key), trace_writer_str(w, value) };
    trace_writer_put(w, TRACE_META, &m, 1);
}

/* Long values use mapped pages instead of the stack, because the calling thread may have a small stack. */
void trace_writer_meta(struct trace_writer *w, const char *key, const char *fmt, ...) {
    char value[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    char *pages = n >= (int)sizeof value ? map_pages(MAX_META) : NULL;
    if (pages) {
        va_start(ap, fmt);
        vsnprintf(pages, MAX_META, fmt, ap);
        va_end(ap);
    }
    char *text = pages ? pages : value;
    if (strcmp(key, TRACE_META_COMMAND) == 0) secret_mask(text);
    put_meta(w, key, text);
    if (pages) munmap(pages, MAX_META);
}

/* ---- the writer thread */

/* Writes the strings that were added since the last call. A chunk contains strings with consecutive numbers:
 * the first number, then the length and bytes of each string. Returns false if the lock of the strings cannot
 * be acquired. */
static bool write_strings(struct trace_writer *w) {
    uint32_t end, next = w->strings_written;
    if (!writer_strings_count(&w->strings, &end)) return false;
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
            return true; /* the next call tries to write these strings again */
        w->strings_written = next;
    }
    return true;
}

static void write_block(struct trace_writer *w, struct block *b) {
    size_t bytes = columns_encode(trace_schema(b->kind), b->records, b->n, w->values, w->raw);
    if (writer_file_chunk(&w->file, b->kind, b->n, w->raw, bytes))
        atomic_fetch_add(&w->records, b->n);
    else
        trace_writer_lost(w, b->kind, TRACE_LOST_DISK, b->n);
    w->settled[b->kind] += b->n;
    give_block(w, b);
}

/* Writes strings first: every text that a queued record uses was interned before. If the strings cannot be
 * read, the blocks are dropped, and count_unsettled() counts their records. */
static void write_list(struct trace_writer *w, struct block *list) {
    bool texts = write_strings(w);
    while (list && texts) {
        struct block *b = list;
        list = b->next;
        write_block(w, b);
    }
}

static struct block *take_queue(struct trace_writer *w) {
    if (!lock_take(&w->queue_lock, &w->lock_limit)) return NULL;
    struct block *list = w->queue_head;
    w->queue_head = NULL;
    w->queue_tail = &w->queue_head;
    pthread_mutex_unlock(&w->queue_lock);
    return list;
}

/* Returns all queued blocks, followed by the open blocks of a shard. In this order, open blocks do not
 * overtake earlier blocks of their shard. NULL: no blocks, or the lock cannot be acquired. */
static struct block *take_open_blocks(struct trace_writer *w, struct shard *s) {
    if (!lock_take(&s->lock, &w->lock_limit)) return NULL;
    struct block *list = take_queue(w), **end = &list;
    while (*end) end = &(*end)->next;
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        struct block *b = s->open[kind];
        if (!b) continue;
        s->open[kind] = NULL;
        b->next = NULL;
        *end = b;
        end = &b->next;
    }
    pthread_mutex_unlock(&s->lock);
    return list;
}

static void write_open_blocks(struct trace_writer *w) {
    for (unsigned i = 0; i < w->nshards; i++) write_list(w, take_open_blocks(w, &w->shards[i]));
}

/* Counts records as lost that were appended but not written, because a thread stopped while holding a lock.
 * Called at the end. */
static void count_unsettled(struct trace_writer *w) {
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        uint64_t appended = 0;
        for (unsigned i = 0; i < w->nshards; i++) appended += atomic_load(&w->shards[i].appended[kind]);
        if (appended > w->settled[kind])
            trace_writer_lost(w, kind, TRACE_LOST_MEMORY, appended - w->settled[kind]);
        w->settled[kind] = appended;
    }
}

static void write_losses(struct trace_writer *w) {
    uint64_t total = atomic_load(&w->lost_total), lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
    if (total == w->lost_written) return;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++) lost[k][r] = atomic_load(&w->lost[k][r]);
    if (writer_file_losses(&w->file, lost)) w->lost_written = total;
}

static uint64_t deadline_after(uint64_t from_ns, uint32_t ms) { return from_ns + (uint64_t)ms * 1000000u; }

/* Sleeps until a block is full, a flush is due or requested, or the writer is closed. Returns the full
 * blocks; NULL: none. */
static struct block *wait_for_work(struct trace_writer *w, uint64_t last_flush_ns) {
    uint64_t until = deadline_after(last_flush_ns, w->flush_ms);
    for (;;) {
        unsigned seen = event_count(&w->wake);
        struct block *list = take_queue(w);
        bool wanted = atomic_load(&w->flush_requested) != atomic_load(&w->flush_done);
        if (list || wanted || atomic_load(&w->stop) || clock_mono_ns() >= until) return list;
        event_wait(&w->wake, seen, until);
    }
}

static void flush_all(struct trace_writer *w, uint64_t wanted, bool stop) {
    write_open_blocks(w);
    if (stop) count_unsettled(w);
    write_losses(w);
    atomic_store(&w->flush_done, wanted);
    event_set(&w->progress);
}

static void write_until_stopped(struct trace_writer *w) {
    uint64_t last_flush_ns = clock_mono_ns();
    bool stop = false;
    while (!stop) {
        struct block *list = wait_for_work(w, last_flush_ns);
        stop = atomic_load(&w->stop);
        uint64_t wanted = atomic_load(&w->flush_requested);
        write_list(w, list);
        bool due = clock_mono_ns() >= deadline_after(last_flush_ns, w->flush_ms);
        if (stop || due || wanted != atomic_load(&w->flush_done)) {
            flush_all(w, wanted, stop);
            last_flush_ns = clock_mono_ns();
        }
        atomic_store(&w->file_bytes, w->file.offset);
    }
}

/* The file is opened, written and closed only on this thread. If a file-size limit is exceeded, the kernel
 * sends SIGXFSZ to the writing thread, and this thread blocks that signal. */
static void write_file(struct trace_writer *w) {
    bool opened = writer_file_open(&w->file, w->path, &w->file_options, w->open_err) == 0;
    if (opened) atomic_store(&w->file_bytes, w->file.offset);
    atomic_store(&w->open_state, opened ? OPEN : OPEN_FAILED);
    event_set(&w->progress);
    if (!opened) return;
    write_until_stopped(w);
    writer_file_end(&w->file);
    w->failed_errno = w->file.first_errno;
    writer_file_close(&w->file);
    atomic_store(&w->ended, true);
    event_set(&w->progress);
}

static void *writer_thread(void *arg) {
    own_thread_name("inferprof-write");
    write_file(arg);
    own_thread_ends();
    return NULL;
}

/* ---- open and close */

static void free_memory(struct trace_writer *w) {
    writer_strings_free(&w->strings);
    if (w->memory) munmap(w->memory, w->nblocks * BLOCK_BYTES);
    if (w->raw) munmap(w->raw, w->raw_cap + TRACE_MAX_RECORDS * sizeof *w->values);
    munmap(w, sizeof *w);
}

static size_t largest_raw(void) {
    size_t most = STRING_CHUNK_BYTES + TRACE_MAX_STRING + 64;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (trace_schema(k)) most = MAX(most, columns_bound(trace_schema(k), block_capacity(k)));
    return most;
}

/* Three quarters of the memory are for blocks, an eighth is for the texts of strings, and less than an eighth
 * for their table. Few blocks also mean few shards. */
static bool allocate(struct trace_writer *w, uint64_t memory_bytes) {
    w->nblocks = MAX((size_t)(memory_bytes - memory_bytes / 4) / BLOCK_BYTES, MIN_BLOCKS);
    w->nshards = (unsigned)MIN(MAX(w->nblocks / 16, 1), MAX_SHARDS);
    w->raw_cap = (largest_raw() + 4095) & ~(size_t)4095;
    w->memory = map_pages(w->nblocks * BLOCK_BYTES);
    w->raw = map_pages(w->raw_cap + TRACE_MAX_RECORDS * sizeof *w->values);
    if (!w->memory || !w->raw) return false;
    w->values = (void *)(w->raw + w->raw_cap);
    return writer_strings_init(&w->strings, memory_bytes / 8, &w->lock_limit);
}

static void init_locks(struct trace_writer *w) {
    for (unsigned i = 0; i < w->nshards; i++) pthread_mutex_init(&w->shards[i].lock, NULL);
    pthread_mutex_init(&w->pool_lock, NULL);
    pthread_mutex_init(&w->queue_lock, NULL);
    w->queue_tail = &w->queue_head;
}

/* Starts the thread and waits until it has opened the file. */
static int open_on_thread(struct trace_writer *w, const char *path, struct err *err) {
    w->path = path;
    w->open_err = err;
    int rc = own_thread_start(&w->thread, OWN_THREAD_STACK, writer_thread, w);
    if (rc != 0) return err_set(err, "%s: cannot start the writer thread: %s", path, strerror(rc));
    for (;;) {
        unsigned seen = event_count(&w->progress);
        int state = atomic_load(&w->open_state);
        if (state == OPEN) return 0;
        if (state == OPEN_FAILED) break;
        event_wait(&w->progress, seen, UINT64_MAX);
    }
    pthread_join(w->thread, NULL);
    return -1;
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
    w->file_options = (struct writer_file_options){
        .id = o.file_id, .max_bytes = o.max_file_bytes, .store = o.store, .max_raw = w->raw_cap
    };
    init_locks(w);
    if (open_on_thread(w, path, err) < 0) {
        free_memory(w);
        return NULL;
    }
    return w;
}

void trace_writer_limit_locks(struct trace_writer *w, uint64_t mono_ns) {
    if (w) atomic_store(&w->lock_limit, mono_ns);
}

bool trace_writer_end(struct trace_writer *w, uint64_t until_ns) {
    if (!w) return true;
    atomic_store(&w->stop, true);
    event_set(&w->wake);
    for (;;) {
        unsigned seen = event_count(&w->progress);
        if (atomic_load(&w->ended)) return true;
        if (clock_mono_ns() >= until_ns) return false;
        event_wait(&w->progress, seen, until_ns);
    }
}

int trace_writer_close(struct trace_writer *w, struct err *err) {
    if (!w) return 0;
    trace_writer_end(w, UINT64_MAX);
    pthread_join(w->thread, NULL);
    int failed = w->failed_errno;
    uint64_t lost = atomic_load(&w->lost_total);
    free_memory(w);
    if (failed)
        return err_set(err, "trace incomplete: %s; %llu records lost", strerror(failed),
                       (unsigned long long)lost);
    return 0;
}

/* In the child after fork(), neither the writer's thread nor threads that may hold locks exist. Therefore
 * this function frees only the resources of the file. The rest is copy-on-write memory shared with the
 * parent. */
void trace_writer_abandon(struct trace_writer *w) {
    if (w) writer_file_close(&w->file);
}

bool trace_writer_flush(struct trace_writer *w, uint32_t timeout_ms) {
    if (!w) return true;
    uint64_t until = deadline_after(clock_mono_ns(), timeout_ms);
    uint64_t mine = atomic_fetch_add(&w->flush_requested, 1) + 1;
    event_set(&w->wake);
    for (;;) {
        unsigned seen = event_count(&w->progress);
        if (atomic_load(&w->flush_done) >= mine) return true;
        if (clock_mono_ns() >= until) return false;
        event_wait(&w->progress, seen, until);
    }
}

void trace_writer_stats(struct trace_writer *w, struct trace_writer_stats *out) {
    memset(out, 0, sizeof *out);
    if (!w) return;
    out->records = atomic_load(&w->records);
    out->file_bytes = atomic_load(&w->file_bytes);
    uint32_t strings = 0;
    writer_strings_count(&w->strings, &strings);
    out->strings = strings;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned r = 0; r < TRACE_LOST_REASON_END; r++) out->lost[k][r] = atomic_load(&w->lost[k][r]);
}
