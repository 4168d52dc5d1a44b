/* Where importers put what they read: records in batches to a trace, texts as numbers, threads as numbers,
 * and a tally of what came and of what was broken. Nothing is lost for want of memory: it waits for the
 * writer.
 *     struct sink s;
 *     sink_init(&s, writer);                       -- writer NULL: counts only (fuzzing, checks)
 *     sink_kernel(&s, &k);
 *     rc = sink_finish(&s, "import:kineto", &err);  -- -1: the disk refused; writes the tally as meta records
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

/* What an event was, in the source's own terms; meta "import.events.NAME". */
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

/* What can be wrong with an event or a file; meta "import.problem.NAME". */
#define SINK_PROBLEMS(X)                                                                     \
    X(TRUNCATED, "truncated", "the file ends early")                                         \
    X(DAMAGED, "damaged_compression", "the compressed data is damaged")                      \
    X(SYNTAX, "syntax", "not valid JSON, dropped")                                           \
    X(LOST_SYNC, "lost_sync", "places where the text makes no sense, stepped over")          \
    X(TRAILING_COMMA, "trailing_comma", "a comma too many, forgiven")                        \
    X(NOT_AN_EVENT, "not_an_event", "items that are no events, dropped")                     \
    X(NO_TIME, "no_time", "without a usable time, dropped")                                  \
    X(NO_DURATION, "no_duration", "without a duration, dropped")                             \
    X(NEGATIVE_DURATION, "negative_duration", "with a negative duration, dropped")           \
    X(BAD_NUMBER, "bad_number", "numbers that are NaN or out of range, read as unknown")     \
    X(INVALID_UTF8, "invalid_utf8", "texts that are not UTF-8, repaired")                    \
    X(CUT_TEXT, "cut_text", "texts that were too long, cut")                                 \
    X(TOO_MANY_TEXTS, "too_many_texts", "texts that found no room, left out")                \
    X(HUGE_EVENT, "huge_event", "larger than the window, dropped")                           \
    X(UNOPENED, "end_without_begin", "ends without a begin, dropped")                        \
    X(UNCLOSED, "begin_without_end", "begins without an end, kept until the last time seen") \
    X(TOO_MANY_OPEN, "too_many_open", "begun while too many others were open, dropped")      \
    X(NO_CORRELATION, "no_correlation", "device work without a correlation id")              \
    X(DUPLICATE, "duplicate", "rows that repeat another, dropped")                           \
    X(BAD_ROW, "bad_row", "rows that cannot be read, dropped")
enum sink_problem {
#define X(id, name, words) SINK_PROBLEM_##id,
    SINK_PROBLEMS(X)
#undef X
        SINK_PROBLEM_END
};
const char *sink_event_name(unsigned event);      /* NULL: no such */
const char *sink_problem_name(unsigned problem);  /* NULL: no such */
const char *sink_problem_words(const char *name); /* NULL: no such */

#define SINK_BATCH 256

struct sink {
    struct trace_writer *writer;
    uint64_t events[SINK_EVENT_END], problems[SINK_PROBLEM_END];
    uint64_t first_ns, last_ns; /* of all records; first UINT64_MAX when none came */
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

    struct trace_range ranges[SINK_BATCH];
    struct trace_launch launches[SINK_BATCH];
    struct trace_kernel kernels[SINK_BATCH];
    struct trace_copy copies[SINK_BATCH];
    struct trace_sync syncs[SINK_BATCH];
    struct trace_sample samples[SINK_BATCH];
    size_t nranges, nlaunches, nkernels, ncopies, nsyncs, nsamples;
};

void sink_init(struct sink *s, struct trace_writer *writer);
void sink_free(struct sink *s);
/* Sends what waits and the tally. */
int sink_finish(struct sink *s, const char *source, struct err *err);

void sink_range(struct sink *s, const struct trace_range *r);
void sink_launch(struct sink *s, const struct trace_launch *r);
void sink_kernel(struct sink *s, const struct trace_kernel *r);
void sink_copy(struct sink *s, const struct trace_copy *r);
void sink_sync(struct sink *s, const struct trace_sync *r);
void sink_sample(struct sink *s, const struct trace_sample *r);
void sink_power(struct sink *s, const struct trace_power *r); /* these three: rare, sent one by one */
void sink_token(struct sink *s, const struct trace_token *r);
void sink_gemm(struct sink *s, const struct trace_gemm *r);
void sink_meta(struct sink *s, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The 16 values of a sample, as an array. */
static inline double *sink_values(struct trace_sample *s) {
    return (double *)(void *)((char *)s + offsetof(struct trace_sample, v0));
}

/* Ids and sizes of other tools in 32 bits: what does not fit is unknown, 0. */
static inline uint32_t sink_u32(uint64_t v) { return v < UINT32_MAX ? (uint32_t)v : 0; }

uint32_t sink_text(struct sink *s, const char *text, size_t len); /* number of a text; repairs UTF-8 */

/* Number of a thread: the tid itself where that is free and fits, else a number of its own. */
uint32_t sink_thread_number(struct sink *s, uint64_t pid, uint64_t tid);

#endif
