/* Output of importers: writes records in batches to a trace, numbers texts and threads, and counts events and
 * problems. Loses no records: it waits for the writer.
 *     struct sink s;
 *     sink_init(&s, writer);                       -- writer NULL: counts only (fuzzing, checks)
 *     sink_kernel(&s, &k);
 *     rc = sink_finish(&s, "import:kineto", &err);  -- writes the counts as meta records; -1: write error
 *     sink_free(&s); */
#ifndef IMPORT_SINK_H
#define IMPORT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "import/text_cache.h"
#include "trace/format.h"

struct trace_writer;

/* Counted in meta "import.events.NAME". */
#define SINK_EVENTS(X)                            \
    X(KERNEL, "kernel")                           \
    X(MEMCPY, "memcpy")                           \
    X(MEMSET, "memset")                           \
    X(RUNTIME, "runtime")                         \
    X(DRIVER, "driver")                           \
    X(CPU_OP, "cpu_op")                           \
    X(USER_ANNOTATION, "user_annotation")         \
    X(GPU_USER_ANNOTATION, "gpu_user_annotation") \
    X(PYTHON_FUNCTION, "python_function")         \
    X(NVTX, "nvtx")                               \
    X(OVERHEAD, "overhead")                       \
    X(SYNC, "sync")                               \
    X(CUDA_EVENT, "cuda_event")                   \
    X(INSTANT, "instant")                         \
    X(COUNTER, "counter")                         \
    X(FLOW, "flow")                               \
    X(METADATA, "metadata")                       \
    X(OTHER, "other")
enum sink_event {
#define X(id, name) SINK_EVENT_##id,
    SINK_EVENTS(X)
#undef X
        SINK_EVENT_END
};

/* Counted in meta "import.problem.NAME". */
#define SINK_PROBLEMS(X)                                                                                \
    X(TRUNCATED, "truncated", "the file ends early")                                                    \
    X(DAMAGED, "damaged_compression", "damaged data, the rest of the file or table is missing")         \
    X(SYNTAX, "syntax", "items that are not valid JSON, dropped")                                       \
    X(LOST_SYNC, "lost_sync", "syntax errors, skipped to the next event")                               \
    X(TRAILING_COMMA, "trailing_comma", "trailing commas, ignored")                                     \
    X(NOT_AN_EVENT, "not_an_event", "items that are not events, dropped")                               \
    X(NO_TIME, "no_time", "events without a valid time, dropped")                                       \
    X(NO_DURATION, "no_duration", "events without a duration, dropped")                                 \
    X(NEGATIVE_DURATION, "negative_duration", "events with a negative duration, dropped")               \
    X(BAD_NUMBER, "bad_number", "events with a time or duration that is NaN or out of range, dropped")  \
    X(INVALID_UTF8, "invalid_utf8", "texts that are not UTF-8, repaired")                               \
    X(CUT_TEXT, "cut_text", "texts that are too long, truncated")                                       \
    X(TOO_MANY_TEXTS, "too_many_texts", "texts dropped because the text table is full")                 \
    X(HUGE_EVENT, "huge_event", "events larger than the window, dropped")                               \
    X(UNOPENED, "end_without_begin", "event ends without a begin, dropped")                             \
    X(UNCLOSED, "begin_without_end", "event begins without an end, ended at the last time in the file") \
    X(TOO_MANY_OPEN, "too_many_open", "event begins while too many others were open, dropped")          \
    X(NO_CORRELATION, "no_correlation", "device events without a correlation id")                       \
    X(DUPLICATE, "duplicate", "duplicate rows, dropped")                                                \
    X(BAD_ROW, "bad_row", "rows that cannot be read, dropped")
enum sink_problem {
#define X(id, name, words) SINK_PROBLEM_##id,
    SINK_PROBLEMS(X)
#undef X
        SINK_PROBLEM_END
};
const char *sink_problem_name(unsigned problem);  /* NULL: no such problem */
const char *sink_problem_words(const char *name); /* NULL: no such problem */

#define SINK_BATCH 256

struct sink {
    struct trace_writer *writer;
    uint64_t events[SINK_EVENT_END], problems[SINK_PROBLEM_END];
    /* First start and last end of the records that have both; first_ns UINT64_MAX: none. */
    uint64_t first_ns, last_ns;
    struct text_cache texts;
    uint64_t unflushed_bytes;
    bool failed; /* the writer lost records */

    struct sink_thread {
        uint64_t pid, tid;
        uint32_t number;
        bool used;
    } * threads; /* open addressing */
    size_t thread_slots, thread_count;
    struct sink_thread last_thread;

    /* pending records, per kind */
#define X(ID, name, number) struct trace_##name name[SINK_BATCH];
    TRACE_EVENTS(X)
#undef X
    size_t waiting[TRACE_KIND_END];
};

void sink_init(struct sink *s, struct trace_writer *writer);
void sink_free(struct sink *s);
/* Writes the pending records and the counts. */
int sink_finish(struct sink *s, const char *source, struct err *err);

/* Declares sink_kernel(s, &kernel) and so on. */
#define X(ID, name, number) void sink_##name(struct sink *s, const struct trace_##name *r);
TRACE_EVENTS(X)
#undef X
void sink_meta(struct sink *s, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The 16 values of a sample. */
static inline double *sink_values(struct trace_sample *s) {
    return (double *)(void *)((char *)s + offsetof(struct trace_sample, v0));
}

/* 0 (unknown) if the value does not fit. */
static inline uint32_t sink_u32(uint64_t v) { return v < UINT32_MAX ? (uint32_t)v : 0; }

/* Returns the id of a text. 0: the text is empty, or the table is full. Repairs invalid UTF-8. */
uint32_t sink_text(struct sink *s, const char *text, size_t len);

/* Returns the tid if it is unused and fits, otherwise a generated number. */
uint32_t sink_thread_number(struct sink *s, uint64_t pid, uint64_t tid);

#endif
