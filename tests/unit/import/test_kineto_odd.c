/* Unusual and invalid Chrome JSON: which events are kept and counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "unit/import/kineto_text.h"
#include "unit/test.h"

#define KERNEL KINETO_KERNEL
#define WINDOW 0 /* default size */

static struct sink sink; /* too large for the stack */

TEST(kineto_keeps_work_without_correlation_ids_and_counts_it) {
    struct kineto_info info;
    CHECK_INT(
        kineto_count("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 1, \"dur\": 1},"
                     " {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"b\", \"ts\": 1, \"dur\": 1, "
                     "\"args\": {\"correlation\": 0}},"
                     " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"c\", \"ts\": 1, \"dur\": 1, "
                     "\"args\": {\"correlation\": -4}}, " KERNEL "]",
                     WINDOW, &sink, &info),
        0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 3);
    CHECK_INT(sink.events[SINK_EVENT_MEMCPY], 1);
    CHECK_INT(sink.problems[SINK_PROBLEM_NO_CORRELATION], 3);
}

TEST(kineto_takes_a_missing_correlation_id_from_the_flow) {
    static const char text[] = "[{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
                               "\"pid\": 10, \"tid\": 10, \"ts\": 1.5, \"dur\": 2},"
                               " {\"ph\": \"s\", \"id\": 77, \"pid\": 10, \"tid\": 10, \"ts\": 1.5, \"cat\": "
                               "\"ac2g\", \"name\": \"ac2g\"},"
                               " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"pid\": 0, \"tid\": "
                               "7, \"ts\": 5, \"dur\": 2},"
                               " {\"ph\": \"f\", \"id\": 77, \"pid\": 0, \"tid\": 7, \"ts\": 5, \"cat\": "
                               "\"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"},"
                               " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"pid\": 0, \"tid\": "
                               "7, \"ts\": 8, \"dur\": 2},"
                               " {\"ph\": \"f\", \"id\": 78, \"pid\": 0, \"tid\": 7, \"ts\": 8, \"cat\": "
                               "\"fwdbwd\", \"name\": \"fwdbwd\"},"
                               " {\"ph\": \"f\", \"id\": 79, \"pid\": 0, \"tid\": 7, \"ts\": 9, \"cat\": "
                               "\"ac2g\", \"name\": \"ac2g\"}]";
    struct import_result result;
    struct trace_reader *r = kineto_trace(text, &result);
    size_t n;
    CHECK_INT(result.events[SINK_EVENT_FLOW], 4);
    CHECK_INT(result.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(result.problems[SINK_PROBLEM_NO_CORRELATION],
              1); /* b: no flow with its category and position */
    const struct trace_launch *l = kineto_records(r, TRACE_LAUNCH, &n);
    CHECK_INT(n, 1);
    CHECK_INT(l->correlation, 77);
    CHECK_INT(l->start_ns, 1500);
    const struct trace_kernel *k = kineto_records(r, TRACE_KERNEL, &n);
    CHECK_INT(n, 2);
    CHECK_INT(k[0].correlation, 77);
    CHECK_STR(trace_reader_string(r, k[0].name, NULL), "a");
    CHECK_INT(k[1].correlation, 0);
    trace_reader_close(r);
}

TEST(kineto_applies_a_base_time_after_the_events) {
    struct import_result result;
    struct trace_reader *r =
        kineto_trace("{\"traceEvents\": [" KERNEL ", {\"ph\": \"i\", \"name\": \"mark\", \"ts\": 2.5}], "
                     "\"baseTimeNanoseconds\": 1700000000000000000}",
                     &result);
    size_t n;
    const struct trace_kernel *k = kineto_records(r, TRACE_KERNEL, &n);
    CHECK_INT(k->start_ns, 1700000000000001000);
    CHECK_INT(k->end_ns, 1700000000000003000);
    const struct trace_range *g = kineto_records(r, TRACE_RANGE, &n);
    CHECK_INT(g->start_ns, 1700000000000002500);
    CHECK_INT(g->end_ns, 1700000000000002500);
    CHECK_STR(trace_reader_meta(r, "clock"), "unix");
    trace_reader_close(r);
}

TEST(kineto_reads_microseconds_for_any_display_unit) {
    static const char *const units[] = { "ns", "ms", "parsecs" };
    for (size_t i = 0; i < 3; i++) {
        struct import_result result;
        struct strbuf text = STRBUF_INIT;
        size_t n;
        strbuf_addf(
            &text,
            "{\"displayTimeUnit\": \"%s\", \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
            "\"k\", \"ts\": 1711964646000000.123, \"dur\": 0.001}]}",
            units[i]);
        struct trace_reader *r = kineto_trace(text.buf, &result);
        const struct trace_kernel *k = kineto_records(r, TRACE_KERNEL, &n);
        CHECK_INT(k->start_ns, 1711964646000000123); /* a double would be 125 ns off */
        CHECK_INT(k->end_ns - k->start_ns, 1);
        CHECK_STR(trace_reader_meta(r, "clock"), "unix");
        trace_reader_close(r);
        strbuf_free(&text);
    }
}

TEST(kineto_keeps_instants_as_marks_and_counters_as_samples) {
    static const char text[] =
        "[{\"ph\": \"i\", \"name\": \"here\", \"pid\": 1, \"tid\": 1, \"ts\": 3, \"s\": \"g\"},"
        " {\"ph\": \"C\", \"name\": \"memory\", \"pid\": 2, \"ts\": 4, \"args\": {\"used\": 1.5, \"free\": "
        "3e2, \"why\": \"x\"}},"
        " {\"ph\": \"C\", \"name\": \"empty\", \"pid\": 2, \"ts\": 4}]";
    struct import_result result;
    struct trace_reader *r = kineto_trace(text, &result);
    size_t n;
    CHECK_INT(result.events[SINK_EVENT_INSTANT], 1);
    CHECK_INT(result.events[SINK_EVENT_COUNTER], 2);
    const struct trace_range *g = kineto_records(r, TRACE_RANGE, &n);
    CHECK_INT(n, 1);
    CHECK_INT(g->flags, TRACE_RANGE_MARK);
    CHECK_STR(trace_reader_string(r, g->name, NULL), "here");
    const struct trace_sample *s = kineto_records(r, TRACE_SAMPLE, &n);
    CHECK_INT(n, 1);
    CHECK_INT(s->start_ns, 4000);
    CHECK_STR(trace_reader_string(r, s->metrics, NULL), "memory.used;memory.free");
    CHECK_NEAR(s->v0, 1.5, 0);
    CHECK_NEAR(s->v1, 300, 0);
    CHECK(isnan(s->v2));
    trace_reader_close(r);
}

TEST(kineto_keeps_an_event_with_deeply_nested_arguments) {
    struct strbuf text = STRBUF_INIT;
    struct kineto_info info;
    strbuf_addstr(&text,
                  "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1, \"dur\": 1, \"args\": "
                  "{\"correlation\": 3, \"deep\": ");
    strbuf_addchars(&text, '[', 100000);
    strbuf_addchars(&text, ']', 100000);
    strbuf_addstr(&text, "}}, " KERNEL "]");
    CHECK_INT(kineto_count(text.buf, WINDOW, &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_NO_CORRELATION], 0);
    strbuf_free(&text);
    for (int i = 0; i < 3000; i++) strbuf_addstr(&text, "{\"a\":[");
    CHECK_INT(kineto_count(text.buf, WINDOW, &sink, &info), -1); /* no events, and truncated */
    strbuf_free(&text);
}

TEST(kineto_truncates_a_huge_name_and_keeps_its_event) {
    struct strbuf text = STRBUF_INIT;
    struct import_result result;
    size_t n, len;
    strbuf_addstr(&text, "[{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": 1, \"dur\": 1, \"name\": \"");
    strbuf_addchars(&text, 'x', 1 << 20);
    strbuf_addstr(&text, "\"}, " KERNEL "]");
    struct trace_reader *r = kineto_trace(text.buf, &result);
    CHECK_INT(result.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(result.problems[SINK_PROBLEM_CUT_TEXT], 1);
    const struct trace_kernel *k = kineto_records(r, TRACE_KERNEL, &n);
    const struct trace_kernel *big = k[0].correlation ? &k[1] : &k[0];
    trace_reader_string(r, big->name, &len);
    CHECK(len >= 60000 && len <= JSON_TEXT_MAX); /* the trace's limit is slightly smaller */
    trace_reader_close(r);
    strbuf_free(&text);
}

TEST(kineto_reads_huge_numbers_as_unknown) {
    struct kineto_info info;
    struct strbuf text = STRBUF_INIT;
    strbuf_addstr(&text, "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"dur\": 1, \"ts\": 1");
    strbuf_addchars(&text, '0', 400);
    strbuf_addstr(
        &text,
        "}, {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"ts\": 1, \"dur\": Infinity},"
        " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"c\", \"ts\": 1, \"dur\": 1, \"args\": "
        "{\"correlation\": "
        "99999999999999999999999, \"grid\": [1e40, -1, 3], \"bytes\": NaN, \"stream\": 1e300}}, " KERNEL "]");
    CHECK_INT(kineto_count(text.buf, WINDOW, &sink, &info), 0);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_BAD_NUMBER], 2);
    CHECK_INT(sink.problems[SINK_PROBLEM_NO_CORRELATION], 1);
    strbuf_free(&text);
}

TEST(kineto_reads_events_of_amd_intel_and_mtia) {
    struct kineto_info info;
    CHECK_INT(kineto_count(
                  "[{\"ph\": \"X\", \"cat\": \"hip_runtime\", \"name\": \"hipLaunchKernel\", \"ts\": 1, "
                  "\"dur\": 1, \"args\": "
                  "{\"correlation\": 5}},"
                  " {\"ph\": \"X\", \"cat\": \"xpu_runtime\", \"name\": \"zeLaunch\", \"ts\": 1, \"dur\": 1},"
                  " {\"ph\": \"X\", \"cat\": \"mtia_runtime\", \"name\": \"run\", \"ts\": 1, \"dur\": 1},"
                  " {\"ph\": \"X\", \"cat\": \"mtia_ccp_events\", \"name\": \"op\", \"ts\": 1, \"dur\": 1},"
                  " {\"ph\": \"X\", \"cat\": \"something_new\", \"name\": \"op\", \"ts\": 1, \"dur\": 1},"
                  " {\"ph\": \"P\", \"cat\": \"x\", \"name\": \"sample\", \"ts\": 1}, " KERNEL "]",
                  WINDOW, &sink, &info),
              0);
    CHECK_INT(sink.events[SINK_EVENT_RUNTIME], 3);
    CHECK_INT(sink.events[SINK_EVENT_OTHER], 3);
    CHECK_INT(sink.events[SINK_EVENT_KERNEL], 1);
}
