#include "import/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "trace/writer.h"

#define FLUSH_BYTES (16u << 20) /* quarter of the writer's default memory */
#define FLUSH_WAIT_MS 60000
#define THREADS_MAX (1u << 20)
#define THREAD_GENERATED 0x40000000u /* Linux tids are below 2^22 */

static const char *event_name(unsigned event) {
    static const char *const names[] = {
#define X(id, name) [SINK_EVENT_##id] = name,
        SINK_EVENTS(X)
#undef X
    };
    return event < COUNTOF(names) ? names[event] : NULL;
}

static const struct {
    const char *name, *words;
} problem_rows[] = {
#define X(id, name, words) [SINK_PROBLEM_##id] = { name, words },
    SINK_PROBLEMS(X)
#undef X
};

const char *sink_problem_name(unsigned problem) {
    return problem < COUNTOF(problem_rows) ? problem_rows[problem].name : NULL;
}

const char *sink_problem_words(const char *name) {
    for (size_t i = 0; i < COUNTOF(problem_rows); i++)
        if (strcmp(problem_rows[i].name, name) == 0) return problem_rows[i].words;
    return NULL;
}

void sink_init(struct sink *s, struct trace_writer *writer) {
    memset(s, 0, sizeof *s);
    s->writer = writer;
    s->first_ns = UINT64_MAX;
    s->thread_slots = 256;
    s->threads = xcalloc(s->thread_slots, sizeof *s->threads);
}

void sink_free(struct sink *s) {
    text_cache_free(&s->texts);
    free(s->threads);
    s->threads = NULL;
}

/* ---- Records */

/* The writer drops records when its memory is full. Importers can wait, so they flush the writer before
 * that. */
static void write_records(struct sink *s, enum trace_kind kind, const void *records, size_t n,
                          size_t record_bytes) {
    if (!s->writer || !n) return;
    s->failed |= trace_writer_put(s->writer, kind, records, n) != n;
    s->unflushed_bytes += n * record_bytes;
    if (s->unflushed_bytes < FLUSH_BYTES) return;
    s->failed |= !trace_writer_flush(s->writer, FLUSH_WAIT_MS);
    s->unflushed_bytes = 0;
}

/* Records without an end, such as power samples and tokens, do not extend the bounds. */
static void extend_bounds(struct sink *s, enum trace_kind kind, const void *record) {
    const struct trace_field *f = trace_schema(kind)->fields;
    if (f[0].type != TRACE_FIELD_TIME || f[1].type != TRACE_FIELD_AFTER) return;
    s->first_ns = MIN(s->first_ns, trace_field_get(record, &f[0]));
    s->last_ns = MAX(s->last_ns, trace_field_get(record, &f[1]));
}

#define X(ID, name_, number)                                                                \
    static void send_##name_(struct sink *s) {                                              \
        write_records(s, TRACE_##ID, s->name_, s->waiting[TRACE_##ID], sizeof s->name_[0]); \
        s->waiting[TRACE_##ID] = 0;                                                         \
    }                                                                                       \
    void sink_##name_(struct sink *s, const struct trace_##name_ *r) {                      \
        extend_bounds(s, TRACE_##ID, r);                                                    \
        s->name_[s->waiting[TRACE_##ID]++] = *r;                                            \
        if (s->waiting[TRACE_##ID] == SINK_BATCH) send_##name_(s);                          \
    }
TRACE_EVENTS(X)
#undef X

void sink_meta(struct sink *s, const char *key, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    struct strbuf text = STRBUF_INIT;
    strbuf_vaddf(&text, fmt, ap);
    va_end(ap);
    if (s->writer) trace_writer_meta(s->writer, key, "%s", text.buf);
    strbuf_free(&text);
}

int sink_finish(struct sink *s, const char *source, struct err *err) {
#define X(ID, name, number) send_##name(s);
    TRACE_EVENTS(X)
#undef X
    char key[64];
    sink_meta(s, "source", "%s", source);
    for (unsigned i = 0; i < SINK_EVENT_END; i++) {
        snprintf(key, sizeof key, "import.events.%s", event_name(i));
        if (s->events[i]) sink_meta(s, key, "%llu", (unsigned long long)s->events[i]);
    }
    for (unsigned i = 0; i < SINK_PROBLEM_END; i++) {
        snprintf(key, sizeof key, "import.problem.%s", sink_problem_name(i));
        if (s->problems[i]) sink_meta(s, key, "%llu", (unsigned long long)s->problems[i]);
    }
    if (s->failed) return err_set(err, "the trace is incomplete: is the disk full?");
    return 0;
}

/* ---- Texts */

static void repair_utf8(struct strbuf *out, const char *text, size_t len) {
    const char *p = text, *end = text + len;
    while (p < end) {
        const char *at = p;
        if (utf8_next(&p, end) == UTF8_BAD)
            strbuf_addstr(out, UTF8_REPLACEMENT);
        else
            strbuf_add(out, at, (size_t)(p - at));
    }
}

uint32_t sink_text(struct sink *s, const char *text, size_t len) {
    if (!len) return 0;
    bool known;
    uint32_t *slot = text_cache_slot(&s->texts, text, len, &known);
    if (known) return *slot;
    struct strbuf good = STRBUF_INIT;
    if (!utf8_valid(text, len)) {
        s->problems[SINK_PROBLEM_INVALID_UTF8]++;
        repair_utf8(&good, text, len);
        text = good.buf;
        len = good.len;
    }
    *slot = s->writer ? trace_writer_string(s->writer, text, len) : 1;
    s->problems[SINK_PROBLEM_TOO_MANY_TEXTS] += *slot == 0;
    strbuf_free(&good);
    return *slot;
}

/* ---- Threads */

static struct sink_thread *find_thread(struct sink_thread *table, size_t slots, uint64_t pid, uint64_t tid) {
    size_t i = hash_u64(hash_u64(pid) ^ tid) & (slots - 1);
    while (table[i].used && (table[i].pid != pid || table[i].tid != tid)) i = (i + 1) & (slots - 1);
    return &table[i];
}

static void grow_threads(struct sink *s) {
    size_t slots = s->thread_slots * 2;
    struct sink_thread *bigger = xcalloc(slots, sizeof *bigger);
    for (size_t i = 0; i < s->thread_slots; i++)
        if (s->threads[i].used)
            *find_thread(bigger, slots, s->threads[i].pid, s->threads[i].tid) = s->threads[i];
    free(s->threads);
    s->threads = bigger;
    s->thread_slots = slots;
}

static bool number_taken(const struct sink *s, uint32_t number) {
    if (s->thread_count > 4096) return true; /* searching would take too long */
    for (size_t i = 0; i < s->thread_slots; i++)
        if (s->threads[i].used && s->threads[i].number == number) return true;
    return false;
}

uint32_t sink_thread_number(struct sink *s, uint64_t pid, uint64_t tid) {
    if (s->last_thread.used && s->last_thread.pid == pid && s->last_thread.tid == tid)
        return s->last_thread.number;
    struct sink_thread *t = find_thread(s->threads, s->thread_slots, pid, tid);
    if (!t->used) {
        if (s->thread_count >= THREADS_MAX) /* malicious files: remaining threads share one number */
            return THREAD_GENERATED - 1;
        bool own = tid < THREAD_GENERATED - 1 && !number_taken(s, (uint32_t)tid);
        uint32_t number = own ? (uint32_t)tid : THREAD_GENERATED + (uint32_t)s->thread_count;
        *t = (struct sink_thread){ .pid = pid, .tid = tid, .number = number, .used = true };
        if (++s->thread_count * 2 > s->thread_slots) {
            grow_threads(s);
            t = find_thread(s->threads, s->thread_slots, pid, tid);
        }
    }
    s->last_thread = *t;
    return t->number;
}
