/* Parts of traces: times stay as they were read, and damage is no crash. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "trace/reader_cut.h"
#include "trace/writer.h"
#include "unit/test.h"

/* Writes a trace with the range "decode" from 100 to 200 ns. */
static char *make_trace(const char *dir, const char *offset) {
    struct err err;
    char *path = file_join(dir, "t.ipt");
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    CHECK(w != NULL);
    struct trace_range r = { .start_ns = 100, .end_ns = 200, .name = trace_writer_str(w, "decode") };
    trace_writer_put(w, TRACE_RANGE, &r, 1);
    if (offset) trace_writer_meta(w, "clock.offset_ns", "%s", offset);
    CHECK_INT(trace_writer_close(w, &err), 0);
    return path;
}

TEST(a_cut_of_a_trace_with_a_clock_offset_has_the_same_times) {
    struct err err;
    struct trace_cut cut = { 0 }, again = { 0 };
    char *dir = test_tmpdir(), *path = make_trace(dir, "1000"), *part = file_join(dir, "part.ipt");
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK(trace_cut_find(r, "decode", &cut));
    CHECK_INT(cut.from_ns, 1100);
    CHECK_INT(trace_cut_file(r, part, &cut, &err), 0);
    trace_reader_close(r);
    r = trace_reader_open(part, &err);
    CHECK(r != NULL);
    CHECK(trace_cut_find(r, "decode", &again));
    CHECK_INT(again.from_ns, 1100);
    CHECK_INT(again.to_ns, 1200);
    trace_reader_close(r);
    free(dir);
    free(path);
    free(part);
}

/* Writes a trace with the uuid of a GPU and a power sample every 600 ms, and returns its path. */
static char *make_power_trace(const char *dir, const char *name) {
    struct err err;
    char *path = file_join(dir, name);
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "device.0.uuid", "GPU-fa3e9baf");
    for (uint64_t i = 1; i <= 10; i++)
        trace_writer_power(w, &(struct trace_power){ .time_ns = i * 600000000 }, 1);
    CHECK_INT(trace_writer_close(w, &err), 0);
    return path;
}

TEST(an_anonymous_cut_replaces_the_ids_of_devices) {
    struct err err;
    struct trace_cut cut = { .from_ns = 2400000000, .to_ns = 3000000000, .anonymous = true };
    char *dir = test_tmpdir(), *first = NULL;
    for (int i = 0; i < 2; i++) {
        char *path = make_power_trace(dir, i ? "a.ipt" : "b.ipt"),
             *part = file_join(dir, i ? "A.ipt" : "B.ipt");
        struct trace_reader *r = trace_reader_open(path, &err);
        CHECK_INT(trace_cut_file(r, part, &cut, &err), 0);
        trace_reader_close(r);
        r = trace_reader_open(part, &err);
        const char *uuid = trace_reader_meta(r, "device.0.uuid");
        CHECK(uuid && strncmp(uuid, "anonymous-", 10) == 0);
        if (first) CHECK_STR(uuid, first); /* the same pseudonym in every file */
        if (!first) first = xstrdup(uuid);
        for (uint32_t id = 0; id < trace_reader_string_end(r); id++) {
            const char *text = trace_reader_string(r, id, NULL);
            CHECK(!text || !strstr(text, "fa3e9baf"));
        }
        trace_reader_close(r);
        free(path);
        free(part);
    }
    free(first);
    free(dir);
}

TEST(a_cut_keeps_the_power_samples_around_it) {
    struct err err;
    struct trace_cut cut = { .from_ns = 2400000000, .to_ns = 3000000000 };
    char *dir = test_tmpdir(), *path = make_power_trace(dir, "a.ipt"), *part = file_join(dir, "part.ipt");
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(trace_cut_file(r, part, &cut, &err), 0);
    trace_reader_close(r);
    r = trace_reader_open(part, &err);
    uint32_t samples = 0;
    for (size_t i = 0; i < trace_reader_chunks(r); i++)
        if (trace_reader_chunk(r, i)->kind == TRACE_POWER) samples += trace_reader_chunk(r, i)->count;
    CHECK_INT(samples, 4); /* at 1.8, 2.4, 3.0 and 3.6 s */
    trace_reader_close(r);
    free(path);
    free(part);
    free(dir);
}

TEST(a_trace_that_shrinks_while_it_is_cut_is_an_error) {
    struct err err;
    struct trace_cut cut = { .to_ns = 1000 };
    char *dir = test_tmpdir(), *path = make_trace(dir, NULL);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(truncate(path, 60), 0);
    CHECK(!trace_cut_find(r, "decode", &cut));
    CHECK_INT(trace_cut_file(r, "/dev/full", &cut, &err), -1); /* closing fails, too */
    trace_reader_close(r);
    free(dir);
    free(path);
}
