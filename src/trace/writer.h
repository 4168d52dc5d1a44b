/* Writes a trace from any process and from any of its threads. Appending copies the record and returns; the
 * writer's own thread encodes and writes. Memory is bounded: records that do not fit are dropped and counted
 * by kind and reason. Written chunks survive SIGKILL of the process. Records reach the file within about
 * flush_ms.
 *     struct trace_writer *w = trace_writer_open(path, NULL, &err);
 *     struct trace_kernel k = { .name = trace_writer_string(w, "gemm", 4), ... };
 *     trace_writer_kernel(w, &k, 1);
 *     trace_writer_close(w, &err);
 * The writer never exits or prints, and appending never waits for the disk. All calls are thread-safe until
 * close. Every call with w == NULL does nothing, so a program can continue if open failed. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct trace_writer;

struct trace_writer_options {
    uint64_t memory_bytes;   /* limit for waiting records (at least 4 MiB) and strings; 0: 64 MiB */
    uint64_t max_file_bytes; /* maximum file size; records beyond it are lost; 0: no limit */
    uint32_t flush_ms;       /* maximum time between two flushes; 0: 500 */
    bool store;              /* do not compress */
    uint64_t file_id;        /* part of every chunk's checksum; 0: random */
};

struct trace_writer *trace_writer_open(const char *path, const struct trace_writer_options *options,
                                       struct err *err);
/* Writes the remaining records, the loss counts and the end mark. Returns 0, or -1 if a write failed (such as
 * disk full) and the file is incomplete; see err. No other thread may be inside a call. Always frees w. */
int trace_writer_close(struct trace_writer *w, struct err *err);
/* For a process that must end in bounded time. Both times are CLOCK_MONOTONIC. After `mono_ns`, the writer no
 * longer waits for a lock that another thread holds; the data that the lock protects is lost and counted.
 * trace_writer_end() does the work of trace_writer_close() but frees nothing. It returns false if it is not
 * done at `until_ns` (the disk hangs); then abandon the writer and exit. */
void trace_writer_limit_locks(struct trace_writer *w, uint64_t mono_ns);
bool trace_writer_end(struct trace_writer *w, uint64_t until_ns);
/* For the child after fork(): discards the writer without touching locks or the parent's file. */
void trace_writer_abandon(struct trace_writer *w);
/* Waits until all records appended before the call have been written or counted as lost. Returns false after
 * timeout_ms. */
bool trace_writer_flush(struct trace_writer *w, uint32_t timeout_ms);

/* Returns the number of a text. Equal texts have equal numbers. Returns 0 for an empty text, or if the text
 * cannot be stored. Texts over 60,000 bytes are truncated. */
uint32_t trace_writer_string(struct trace_writer *w, const char *text, size_t len);
uint32_t trace_writer_str(struct trace_writer *w, const char *text); /* returns 0 for NULL */

/* Appends n records of a kind, given as an array of its struct. Returns the number of records that were
 * kept. */
size_t trace_writer_put(struct trace_writer *w, enum trace_kind kind, const void *records, size_t n);
void trace_writer_lost(struct trace_writer *w, enum trace_kind kind, enum trace_lost_reason reason,
                       uint64_t n);
void trace_writer_meta(struct trace_writer *w, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Defines trace_writer_kernel(w, kernels, n) and so on: trace_writer_put with a type check. */
#define X(ID, name, number)                                                                        \
    static inline size_t trace_writer_##name(struct trace_writer *w, const struct trace_##name *r, \
                                             size_t n) {                                           \
        return trace_writer_put(w, TRACE_##ID, r, n);                                              \
    }
TRACE_EVENTS(X)
#undef X

/* Counts so far, for tests and benchmarks. The file contains the loss counts too. */
struct trace_writer_stats {
    uint64_t records, file_bytes, strings;
    uint64_t lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
};
void trace_writer_stats(struct trace_writer *w, struct trace_writer_stats *out);

#endif
