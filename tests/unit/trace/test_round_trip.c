/* Round trip: every kind, every field, with realistic and extreme values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "trace/layout.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "unit/test.h"
#include "unit/trace/records.h"

static char *trace_path(void) {
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt");
    free(dir);
    return path;
}

static void write_kind(struct trace_writer *w, unsigned kind, uint64_t n, enum records_style style) {
    uint64_t room[64];
    for (uint64_t i = 0; i < n; i++) {
        records_make(kind, i, style, 10, room);
        CHECK_INT(trace_writer_put(w, kind, room, 1), 1);
    }
}

/* Records of one thread are returned in order; `next[kind]` is the number of the next one. */
static void check_batch(const struct trace_batch *b, enum records_style style, uint64_t *next) {
    uint64_t want[64];
    size_t bytes = trace_schema(b->kind)->record_bytes;
    if (b->kind == TRACE_LOST || b->kind == TRACE_META) return;
    for (size_t i = 0; i < b->n; i++) {
        records_make(b->kind, next[b->kind]++, style, 10, want);
        CHECK_INT(records_compare(b->kind, (const char *)b->records + i * bytes, want), 0);
    }
}

static void round_trip(enum records_style style, bool store) {
    char *path = trace_path(), name[24];
    struct err err;
    struct trace_writer *w = trace_writer_open(path, &(struct trace_writer_options){ .store = store }, &err);
    CHECK(w != NULL);
    for (int i = 1; i < 10; i++) {
        snprintf(name, sizeof name, "name %d", i);
        CHECK_INT(trace_writer_str(w, name), i);
    }
    const uint64_t n = 5000;
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (trace_schema(k) && k != TRACE_LOST && k != TRACE_META) write_kind(w, k, n, style);
    CHECK_INT(trace_writer_close(w, &err), 0);

    uint64_t next[TRACE_KIND_END] = { 0 };
    struct trace_batch b = { 0 };
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK(r != NULL);
    CHECK(trace_reader_summary(r)->finished);
    CHECK_STR(trace_reader_summary(r)->damage, "");
    CHECK_STR(trace_reader_string(r, 7, NULL), "name 7");
    CHECK(trace_reader_string(r, 10, NULL) == NULL);
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        check_batch(&b, style, next);
    }
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (trace_schema(k) && k != TRACE_LOST && k != TRACE_META) CHECK_INT(next[k], n);
    trace_batch_free(&b);
    trace_reader_close(r);
    free(path);
}

TEST(trace_returns_realistic_records_of_every_kind) { round_trip(RECORDS_REALISTIC, false); }
TEST(trace_returns_extreme_values_bit_for_bit) { round_trip(RECORDS_EXTREME, false); }
TEST(trace_returns_extreme_values_when_stored_uncompressed) { round_trip(RECORDS_EXTREME, true); }

TEST(trace_returns_meta_records_in_order_and_by_key) {
    char *path = trace_path();
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "host", "%s", "h1");
    trace_writer_meta(w, "clock.pair", "%d %d", 1, 2);
    trace_writer_meta(w, "clock.pair", "%d %d", 3, 4);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    const char *k, *v;
    CHECK_STR(trace_reader_meta(r, "clock.pair"), "1 2");
    CHECK(trace_reader_meta(r, "nothing") == NULL);
    CHECK(trace_reader_meta_at(r, 2, &k, &v));
    CHECK_STR(v, "3 4");
    CHECK(!trace_reader_meta_at(r, 3, &k, &v));
    trace_reader_close(r);
    free(path);
}

TEST(trace_masks_secrets_of_the_command_line_when_written_and_when_read) {
    char *path = trace_path();
    struct err err;
    size_t len;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "process.command", "%s", "new --token abcd");
    struct trace_meta old = { trace_writer_str(w, "process.command"),
                              trace_writer_str(w, "old --token abcd x") };
    trace_writer_put(w, TRACE_META, &old, 1); /* as older versions wrote it */
    trace_writer_meta(w, "other", "%s", "--token abcd");
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    const char *k, *v;
    CHECK_STR(trace_reader_meta(r, "process.command"), "new --token ***");
    CHECK(trace_reader_meta_at(r, 1, &k, &v));
    CHECK_STR(v, "old --token *** x");
    CHECK_STR(trace_reader_meta(r, "other"), "--token abcd");
    CHECK_STR(trace_reader_string(r, old.value, &len), "old --token *** x");
    CHECK_INT(len, strlen("old --token *** x"));
    trace_reader_close(r);
    free(path);
}

TEST(trace_truncates_a_text_over_the_length_limit) {
    char *path = trace_path(), *text = xmalloc(100000);
    struct err err;
    size_t len;
    memset(text, 'x', 100000);
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    uint32_t id = trace_writer_string(w, text, 100000);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK(trace_reader_string(r, id, &len) != NULL);
    CHECK_INT(len, TRACE_MAX_STRING);
    trace_reader_close(r);
    free(text);
    free(path);
}

TEST(trace_writer_calls_do_nothing_without_a_writer) {
    struct trace_writer_stats stats;
    struct err err;
    CHECK_INT(trace_writer_str(NULL, "x"), 0);
    trace_writer_meta(NULL, "k", "v");
    trace_writer_lost(NULL, TRACE_KERNEL, TRACE_LOST_MEMORY, 1);
    trace_writer_stats(NULL, &stats);
    CHECK(trace_writer_flush(NULL, 1));
    CHECK_INT(trace_writer_close(NULL, &err), 0);
}
