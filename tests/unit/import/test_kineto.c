#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "import/import.h"
#include "import/kineto.h"
#include "import/kineto_args.h"
#include "trace/reader.h"
#include "unit/import/kineto_text.h"
#include "timeline/timeline.h"
#include "unit/test.h"

#define KERNEL KINETO_KERNEL

static int count(const char *text, struct sink *sink, struct kineto_info *info) {
    return kineto_count(text, 4096, sink, info);
}

static struct sink sink; /* too large for the stack */

TEST(kineto_keeps_events_of_a_truncated_file) {
    struct kineto_info info;
    CHECK_INT(count("{\"traceEvents\": [" KERNEL ", " KERNEL ", {\"ph\": \"X\", \"na", &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_TRUNCATED], 1);
}

TEST(kineto_accepts_a_trailing_comma_and_a_missing_last_bracket) {
    struct kineto_info info;
    CHECK_INT(count("{\"traceEvents\": [" KERNEL ", ]}", &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_TRAILING_COMMA], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_TRUNCATED], 0);
    CHECK_INT(count("[" KERNEL ",\n" KERNEL, &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_TRUNCATED], 0);
}

TEST(kineto_resyncs_after_a_missing_quote) {
    struct kineto_info info;
    CHECK_INT(count("{\"traceEvents\": [" KERNEL ", {\"ph\": \"X\", \"name\": \"broken, \"ts\": 1}, " KERNEL
                    ", " KERNEL "]}",
                    &sink, &info),
              0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 3);
    CHECK_INT(sink.problems[SINK_PROBLEM_LOST_SYNC], 1);
}

TEST(kineto_drops_and_counts_events_without_valid_times) {
    struct kineto_info info;
    CHECK_INT(count("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 1, \"dur\": -3},"
                    " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"ts\": 1},"
                    " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"c\", \"dur\": 1},"
                    " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"d\", \"ts\": NaN, \"dur\": 1},"
                    " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"e\", \"ts\": 1e300, \"dur\": 1}, 5, "
                    "{\"x\": 1}, " KERNEL "]",
                    &sink, &info),
              0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_NEGATIVE_DURATION], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_NO_DURATION], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_NO_TIME], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_BAD_NUMBER], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_NOT_AN_EVENT], 2);
}

TEST(kineto_pairs_begin_and_end_by_thread_and_by_id) {
    struct kineto_info info;
    CHECK_INT(
        count("[{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"outer\", \"pid\": 1, \"tid\": 1, \"ts\": 0},"
              " {\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"inner\", \"pid\": 1, \"tid\": 1, \"ts\": 1},"
              " {\"ph\": \"E\", \"pid\": 1, \"tid\": 2, \"ts\": 2}, {\"ph\": \"E\", \"pid\": 1, \"tid\": 1, "
              "\"ts\": 2},"
              " {\"ph\": \"E\", \"pid\": 1, \"tid\": 1, \"ts\": 9},"
              " {\"ph\": \"b\", \"cat\": \"req\", \"id\": \"0x1\", \"name\": \"r\", \"pid\": 1, \"tid\": 1, "
              "\"ts\": 3},"
              " {\"ph\": \"e\", \"cat\": \"req\", \"id\": \"0x1\", \"name\": \"r\", \"pid\": 1, \"tid\": 9, "
              "\"ts\": 4},"
              " {\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"open\", \"pid\": 1, \"tid\": 3, \"ts\": 5}]",
              &sink, &info),
        0);
    CHECK_INT(sink.events[SINK_EVENT_CPU_OP], 3);
    CHECK_INT(sink.events[SINK_EVENT_OTHER], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_UNOPENED], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_UNCLOSED], 1);
}

TEST(kineto_handles_a_huge_event_and_bad_utf8) {
    struct kineto_info info;
    struct strbuf text = STRBUF_INIT;
    strbuf_addstr(&text, "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"");
    strbuf_addchars(&text, 'x', 100000);
    strbuf_addstr(&text,
                  "\", \"ts\": 1, \"dur\": 1}, {\"ph\": \"i\", \"name\": \"a\xff\", \"ts\": 1}, " KERNEL "]");
    CHECK_INT(count(text.buf, &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_HUGE_EVENT], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_INVALID_UTF8], 1);
    strbuf_free(&text);
}

TEST(kineto_reads_rank_base_and_world) {
    struct kineto_info info;
    CHECK_INT(count("{\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8}, "
                    "\"traceEvents\": [" KERNEL "], \"baseTimeNanoseconds\": 1711964646000000000}",
                    &sink, &info),
              0);
    CHECK_INT(info.rank, 3);
    CHECK_INT(info.world_size, 8);
    CHECK(info.late_base);
    CHECK_INT(info.base_ns, 1711964646000000000);
    CHECK_INT(import_rank_from_name("/x/run_rank-12.pt.trace.json.gz"), 12);
    CHECK_INT(import_rank_from_name("rank_1.json"), 1);
    CHECK_INT(import_rank_from_name("ranking.json"), -1);
}

TEST(kineto_reads_process_groups) {
    static const char text[] =
        "{\"distributedInfo\": {\"rank\": 1, \"world_size\": 2, \"pg_config\": [{\"pg_name\": \"0\", "
        "\"pg_desc\": "
        "\"default_pg\", \"pg_size\": 2, \"ranks\": [0, 1]}, {\"pg_name\": \"7\", \"pg_desc\": "
        "\"undefined\", "
        "\"ranks\": [1]}, 3, {\"pg_name\": \"lost\"}]}, \"traceEvents\": [" KERNEL "]}";
    char *dir = test_tmpdir(), *json = file_join(dir, "a.json"), *trace = file_join(dir, "a.ipt");
    const char *paths[] = { trace };
    struct import_result result;
    struct err err;
    CHECK_INT(file_write_atomic(json, text, strlen(text), &err), 0);
    CHECK_INT(
        import_to_trace(json, &kineto_format, trace, &(struct import_options){ .rank = -1 }, &result, &err),
        0);
    struct timeline *tl = timeline_load(paths, 1, &err);
    CHECK(tl != NULL);
    CHECK_STR(timeline_meta_value(tl, "group.0.name"), "default_pg");
    CHECK_STR(timeline_meta_value(tl, "group.0.size"), "2");
    CHECK_STR(timeline_meta_value(tl, "group.0.ranks"), "0,1");
    CHECK_STR(timeline_meta_value(tl, "group.1.name"), "7");
    CHECK_STR(timeline_meta_value(tl, "group.1.size"), "1");
    CHECK(timeline_meta_value(tl, "group.2.name") == NULL); /* the list is broken there */
    timeline_close(tl);
    free(dir);
    free(json);
    free(trace);
}

TEST(kineto_rejects_a_document_without_events) {
    struct kineto_info info;
    CHECK_INT(count("{\"a\": [1, 2]}", &sink, &info), -1);
    CHECK_INT(count("7", &sink, &info), -1);
    CHECK_INT(count("", &sink, &info), -1);
}

TEST(kineto_abbreviates_shapes) {
    struct strbuf out = STRBUF_INIT;
    const char *dims = "[[16, 559], [], [[2, 3], [4]]]",
               *types = "[\"long int\", \"Scalar\", \"TensorList\"]";
    kineto_args_detail((struct span){ dims, strlen(dims) }, (struct span){ types, strlen(types) }, &out);
    CHECK_STR(out.buf, "[16,559]i64 [[2,3],[4]]TensorList");
    strbuf_free(&out);
}

/* End to end: JSON to trace to records. */
TEST(kineto_records_carry_what_the_event_says) {
    static const char text[] =
        "{\"deviceProperties\": [{\"id\": 2, \"name\": \"NVIDIA A100\", \"computeMajor\": 8, "
        "\"computeMinor\": 0, \"numSms\": 108}],"
        " \"baseTimeNanoseconds\": 1000000000000000000, \"traceEvents\": ["
        " {\"ph\": \"X\", \"cat\": \"Kernel\", \"name\": \"gemm\", \"pid\": 2, \"tid\": \"stream 7\", "
        "\"ts\": 10.5, \"dur\": 2.125,"
        "  \"args\": {\"grid\": [4, 2, 1], \"block\": [128, 1, 1], \"registers per thread\": 80, \"shared "
        "memory\": 1024,"
        "  \"correlation\": 9, \"context\": 1}},"
        " {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy DtoH (Device -> Pinned)\", \"pid\": 2, "
        "\"tid\": 7, \"ts\": 20,"
        "  \"dur\": 1, \"args\": {\"device\": 2, \"stream\": 7, \"bytes\": 4096, \"correlation\": 10}}]}";
    char *dir = test_tmpdir(), *json = file_join(dir, "rank5.json"), *trace = file_join(dir, "out.ipt");
    struct err err;
    struct import_result result;
    CHECK_INT(file_write_atomic(json, text, sizeof text - 1, &err), 0);
    CHECK(import_detect(json, &err) == &kineto_format);
    CHECK_INT(
        import_to_trace(json, &kineto_format, trace, &(struct import_options){ .rank = -1 }, &result, &err),
        0);
    struct trace_reader *r = trace_reader_open(trace, &err);
    struct trace_batch b = { 0 };
    bool kernel = false, copy = false;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        if (b.kind == TRACE_KERNEL) {
            kernel = true;
            CHECK_INT(b.n, 1);
            CHECK_INT(b.kernel->start_ns, 1000000000000010500);
            CHECK_INT(b.kernel->end_ns - b.kernel->start_ns, 2125);
            CHECK_INT(b.kernel->device, 2);
            CHECK_INT(b.kernel->stream, 7);
            CHECK_INT(b.kernel->grid_x, 4);
            CHECK_INT(b.kernel->block_x, 128);
            CHECK_INT(b.kernel->registers, 80);
            CHECK_INT(b.kernel->correlation, 9);
            CHECK_STR(trace_reader_string(r, b.kernel->name, NULL), "gemm");
        } else if (b.kind == TRACE_COPY) {
            copy = true;
            CHECK_INT(b.copy->copy_kind, TRACE_COPY_DTOH);
            CHECK_INT(b.copy->bytes, 4096);
        }
    }
    CHECK(kernel && copy);
    CHECK_STR(trace_reader_meta(r, "rank"), "5");
    CHECK_STR(trace_reader_meta(r, "clock"), "unix");
    CHECK_STR(trace_reader_meta(r, "device.2.name"), "NVIDIA A100");
    CHECK_STR(trace_reader_meta(r, "device.2.cc"), "8.0");
    CHECK_STR(trace_reader_meta(r, "import.events.kernel"), "1");
    trace_batch_free(&b);
    trace_reader_close(r);
    free(dir);
    free(json);
    free(trace);
}

#define EVENT(cat, name, pid, tid)                                                                  \
    "{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": " tid \
    ", \"ts\": 1, \"dur\": 1, \"args\": {\"correlation\": 5}}"
#define CALL(pid, tid) EVENT("cuda_runtime", "cudaLaunchKernel", pid, tid)
#define OP(pid, tid) EVENT("cpu_op", "aten::mm", pid, tid)

/* Without the operator, the last calls could be the track of a device, as in traces of MTIA. */
TEST(kineto_names_the_processes_of_threads_if_there_are_several) {
    struct strbuf text = STRBUF_INIT;
    for (int two = 0; two < 2; two++) {
        struct import_result result;
        strbuf_reset(&text);
        strbuf_addf(&text, "[%s, %s, %s, %s, %s]", CALL("100", "100"), OP("100", "101"),
                    EVENT("gpu_user_annotation", "step", "1", "8"), CALL("200", "300"),
                    two ? OP("200", "300") : KERNEL);
        struct trace_reader *r = kineto_trace(text.buf, &result);
        CHECK_STR(trace_reader_meta(r, "process.pid"), "100");
        if (two) {
            CHECK_STR(trace_reader_meta(r, "thread.101.pid"), "100");
            CHECK_STR(trace_reader_meta(r, "thread.300.pid"), "200");
            CHECK_STR(trace_reader_meta(r, "thread.8.device"), "1");
            CHECK(trace_reader_meta(r, "thread.8.pid") == NULL);
        } else {
            CHECK(trace_reader_meta(r, "thread.100.pid") == NULL);
            CHECK(trace_reader_meta(r, "thread.8.device") == NULL);
        }
        trace_reader_close(r);
    }
    strbuf_free(&text);
}
