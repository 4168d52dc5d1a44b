/* Parts of traces: times stay as they were read, and damage is no crash. */
#include <stdlib.h>
#include <unistd.h>

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
