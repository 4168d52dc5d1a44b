/* Writes a trace from inside any process and any of its threads. Appending copies the record and returns; a
 * thread of the writer's own encodes and writes. Memory is bounded: what does not fit is dropped whole and
 * counted by kind and reason, never waited for. What was written survives SIGKILL of the process; everything
 * is on its way to the file within flush_ms.
 *     struct trace_writer *w = trace_writer_open(path, NULL, &err);
 *     struct trace_kernel k = { .name = trace_writer_string(w, "gemm", 4), ... };
 *     trace_writer_kernel(w, &k, 1);
 *     trace_writer_close(w, &err);
 * Needs libc alone; never exits, never prints, never blocks on the disk. All calls are safe from all threads
 * until close; every call with w == NULL does nothing, so a program can go on when open failed. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct trace_writer;

struct trace_writer_options {
    uint64_t memory_bytes;   /* bound of what waits to be encoded, and of strings; 0: 64 MiB */
    uint64_t max_file_bytes; /* the file stops growing here, the rest counts as lost; 0: no limit */
    uint32_t flush_ms;       /* 0: 500 */
    bool store;              /* do not compress */
    uint64_t file_id;        /* seals this file's chunks; 0: random */
};

struct trace_writer *trace_writer_open(const char *path, const struct trace_writer_options *options,
                                       struct err *err);
/* Writes what is left, the losses and the closing mark. -1: the file is incomplete; err says why (disk full).
 * No other thread may be inside a call any more. Frees w either way. */
int trace_writer_close(struct trace_writer *w, struct err *err);
/* For the child after fork(): forgets the writer without touching locks or the parent's file. */
void trace_writer_abandon(struct trace_writer *w);
/* Returns once all that was appended before the call has been handed to the kernel, or after timeout_ms
 * (false). */
bool trace_writer_flush(struct trace_writer *w, uint32_t timeout_ms);

/* Number of a text, the same for equal texts; 0 for the empty one, and when the string memory is spent.
 * Texts over 60,000 bytes are cut. */
uint32_t trace_writer_string(struct trace_writer *w, const char *text, size_t len);
uint32_t trace_writer_str(struct trace_writer *w, const char *text); /* NULL: 0 */

/* Appends n records of a kind (laid out as its struct); returns how many were kept. */
size_t trace_writer_put(struct trace_writer *w, enum trace_kind kind, const void *records, size_t n);
void trace_writer_lost(struct trace_writer *w, enum trace_kind kind, enum trace_lost_reason reason,
                       uint64_t n);
void trace_writer_meta(struct trace_writer *w, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* trace_writer_kernel(w, kernels, n) and so on: trace_writer_put with the type checked. */
#define X(ID, name, number)                                                                        \
    static inline size_t trace_writer_##name(struct trace_writer *w, const struct trace_##name *r, \
                                             size_t n) {                                           \
        return trace_writer_put(w, TRACE_##ID, r, n);                                              \
    }
TRACE_EVENTS(X)
#undef X

/* What happened so far. */
struct trace_writer_stats {
    uint64_t records, file_bytes, strings;
    uint64_t lost[TRACE_KIND_END][TRACE_LOST_REASON_END];
};
void trace_writer_stats(struct trace_writer *w, struct trace_writer_stats *out);

#endif
