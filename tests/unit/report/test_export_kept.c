/* The arguments of imported events, as a damaged or hostile trace may contain them. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "report/export_kept.h"
#include "trace/layout.h"
#include "trace/writer.h"
#include "unit/test.h"

#define FILE_ID 7

static char *new_trace(const char *args, double value) {
    struct err err;
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt");
    struct trace_writer *w =
        trace_writer_open(path, &(struct trace_writer_options){ .file_id = FILE_ID }, &err);
    struct trace_source_event e = {
        .phase = 'X', .name = trace_writer_str(w, "event"), .value = value, .args = trace_writer_str(w, args)
    };
    trace_writer_source_event(w, &e, 1);
    CHECK_INT(trace_writer_close(w, &err), 0);
    free(dir);
    return path;
}

static void check_arguments(const char *args, double value, const char *want) {
    struct export_kept k;
    char *path = new_trace(args, value);
    CHECK(export_kept_open(&k, NULL, path));
    CHECK(export_kept_next(&k));
    CHECK_STR(k.args, want);
    export_kept_close(&k);
    free(path);
}

TEST(kept_arguments_take_the_numbers_of_the_event) {
    check_arguments("{\"v\":~,\"id\": # }", 2.5, "{\"v\":2.5,\"id\": 0 }");
    check_arguments("{\"v\":~}", INFINITY, "{\"v\":null}");
}

/* "1~" is a number if the value is 0, and no JSON if it is negative or infinite. */
TEST(kept_arguments_with_a_placeholder_inside_a_number_are_left_out) {
    check_arguments("{\"v\":1~}", INFINITY, "");
    check_arguments("{\"v\":-~}", -3, "");
    check_arguments("{\"v\":0#}", 0, "");
}

/* A chunk with a correct checksum whose columns cannot be decoded. */
TEST(kept_events_of_an_undecodable_chunk_are_skipped) {
    struct export_kept k;
    char *path = new_trace("{}", 0);
    struct trace_chunk_header h = {
        .sync = TRACE_SYNC_WORD, .kind = TRACE_SOURCE_EVENT, .count = 1, .bytes = 1, .raw_bytes = 1
    };
    h.crc = trace_chunk_crc(&h, "?", FILE_ID);
    FILE *out = fopen(path, "ab");
    fwrite(&h, sizeof h, 1, out);
    fputc('?', out);
    CHECK_INT(fclose(out), 0);
    CHECK(export_kept_open(&k, NULL, path));
    CHECK(export_kept_next(&k));
    CHECK(!export_kept_next(&k));
    export_kept_close(&k);
    free(path);
}
