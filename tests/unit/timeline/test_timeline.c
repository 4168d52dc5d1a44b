#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "ranks/trace_clock.h"
#include "timeline/timeline.h"
#include "trace/reader_set.h"
#include "trace/writer.h"
#include "base/util.h"
#include "unit/test.h"

#define RANGE(...)          \
    (&(struct trace_range){ \
        .flops = NAN, .bytes = NAN, .payload = NAN, .category = TRACE_CATEGORY_OP, __VA_ARGS__ })

static uint32_t text(struct timeline_builder *b, const char *s) { return timeline_builder_text(b, s); }

static void add_launch(struct timeline_builder *b, uint32_t thread, uint64_t start, uint64_t correlation) {
    timeline_builder_launch(b,
                            &(struct trace_launch){ .start_ns = start,
                                                    .end_ns = start + 2,
                                                    .thread = thread,
                                                    .correlation = correlation,
                                                    .api = text(b, "cudaLaunchKernel") },
                            1);
}

static void add_kernel(struct timeline_builder *b, uint64_t start, uint64_t end, uint64_t correlation,
                       uint32_t stream) {
    timeline_builder_kernel(b,
                            &(struct trace_kernel){ .start_ns = start,
                                                    .end_ns = end,
                                                    .correlation = correlation,
                                                    .stream = stream,
                                                    .name = text(b, "k"),
                                                    .grid_x = 1 },
                            1);
}

static const char *range_name(const struct timeline *tl, uint32_t range) {
    return range == TIMELINE_NONE ? "-" : timeline_text(tl, tl->ranges.name[range]);
}

TEST(timeline_links_an_asynchronous_kernel_to_the_operator_that_launched_it) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_range(b, RANGE(.start_ns = 10, .end_ns = 20, .thread = 1, .name = text(b, "linear")), 1);
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 100, .thread = 1, .name = text(b, "forward")),
                           1);
    timeline_builder_range(b, RANGE(.start_ns = 20, .end_ns = 90, .thread = 1, .name = text(b, "norm")), 1);
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 500, .thread = 2, .name = text(b, "elsewhere")),
                           1);
    add_kernel(b, 300, 310, 2, 7); /* runs after all ranges of thread 1 have ended */
    add_kernel(b, 200, 300, 1, 7);
    add_launch(b, 1, 15, 1);
    add_launch(b, 1, 95, 2);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->kernels.n, 2);
    CHECK_INT(tl->kernels.start_ns[0], 200); /* sorted */
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "linear");
    CHECK_STR(range_name(tl, tl->kernels.range[1]), "forward");
    CHECK(!tl->containment);
    CHECK_INT(tl->unmatched_kernels, 0);
    CHECK_INT(tl->nshapes, 1);
    timeline_close(tl);
}

TEST(timeline_allows_crossing_ranges) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 50, .thread = 1, .name = text(b, "a")), 1);
    timeline_builder_range(
        b, RANGE(.start_ns = 20, .end_ns = 80, .thread = 1, .flags = TRACE_RANGE_FREE, .name = text(b, "b")),
        1);
    timeline_builder_range(b, RANGE(.start_ns = 60, .end_ns = 70, .thread = 1, .name = text(b, "c")), 1);
    const struct {
        uint64_t at;
        const char *want;
    } rows[] = { { 10, "a" }, { 30, "b" }, { 55, "b" }, { 65, "c" }, { 75, "b" }, { 90, "-" } };
    for (size_t i = 0; i < 6; i++) add_launch(b, 1, rows[i].at, i + 1);
    struct timeline *tl = timeline_builder_finish(b);
    for (size_t i = 0; i < 6; i++) CHECK_STR(range_name(tl, tl->launches.range[i]), rows[i].want);
    CHECK_STR(range_name(tl, tl->ranges.parent[1]), "a");
    CHECK_STR(range_name(tl, tl->ranges.parent[2]), "b");
    timeline_close(tl);
}

/* The last operator of a stage runs on the device after the host has ended the stage. */
TEST(timeline_does_not_nest_a_range_in_one_that_ends_soon_after_its_start) {
    const struct {
        uint64_t start, end;
        const char *name, *parent;
    } rows[] = {
        { 0, 1000, "prefill", "-" },     { 10, 100, "sam", "prefill" },
        { 90, 110, "product", "sam" },   { 102, 500, "clip", "prefill" },
        { 160, 170, "norm", "clip" },    { 480, 501, "late", "clip" }, /* ends a little after its parent */
        { 499, 900, "text", "prefill" }, { 880, 950, "head", "prefill" }
    };
    struct timeline_builder *b = timeline_builder_open();
    for (size_t i = 0; i < COUNTOF(rows); i++)
        timeline_builder_range(b,
                               RANGE(.start_ns = rows[i].start, .end_ns = rows[i].end, .thread = 1,
                                     .name = text(b, rows[i].name)),
                               1);
    add_launch(b, 1, 105, 1);
    struct timeline *tl = timeline_builder_finish(b);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        CHECK_STR(range_name(tl, (uint32_t)i), rows[i].name);
        CHECK_STR(range_name(tl, tl->ranges.parent[i]), rows[i].parent);
    }
    CHECK_STR(range_name(tl, tl->launches.range[0]), "clip"); /* the range that started last */
    timeline_close(tl);
}

static void add_kernel_on(struct timeline_builder *b, uint32_t device, uint64_t start_ns) {
    struct trace_kernel k = {
        .start_ns = start_ns, .end_ns = start_ns + 10, .device = device, .stream = 7, .name = text(b, "k")
    };
    timeline_builder_kernel(b, &k, 1);
}

TEST(timeline_windows_of_a_process_do_not_overlap) {
    static const char *const windows[] = { "100", "100 300", "200 250", "280 400", "500", "600 700", "900" };
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    for (size_t i = 0; i < COUNTOF(windows); i++) timeline_builder_meta(b, "capture.window", windows[i]);
    add_kernel_on(b, 0, 2000);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nwindows, 4);
    CHECK_INT(tl->windows[0].start_ns, 100);
    CHECK_INT(tl->windows[0].end_ns, 400);
    CHECK_INT(tl->windows[1].end_ns, 600); /* not closed: the next one began */
    CHECK_INT(tl->windows[2].end_ns, 700);
    CHECK_INT(tl->windows[3].end_ns, tl->end_ns);
    timeline_close(tl);
}

/* Two traces of rank 0, of two jobs. */
TEST(timeline_labels_devices_of_one_rank_by_file) {
    struct timeline_builder *b = timeline_builder_open();
    for (int i = 0; i < 2; i++) {
        timeline_builder_process(b, i ? "b.ipt" : "a.ipt");
        timeline_builder_meta(b, "rank", "0");
        add_kernel_on(b, 2, 100);
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->ndevices, 2);
    CHECK_STR(timeline_device_label(tl, 0), "file0:2");
    CHECK_STR(timeline_device_label(tl, 1), "file1:2");
    timeline_close(tl);
}

/* Rank 1 is read first, and its device 9 is used before device 2. */
TEST(timeline_sorts_and_labels_devices_by_rank_and_number) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "rank1.ipt");
    timeline_builder_meta(b, "rank", "1");
    add_kernel_on(b, 9, 100);
    add_kernel_on(b, 2, 200);
    add_kernel_on(b, 2, 300);
    timeline_builder_process(b, "rank0.ipt");
    timeline_builder_meta(b, "rank", "0");
    add_kernel_on(b, 2, 400);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->ndevices, 3);
    CHECK_STR(timeline_device_label(tl, 0), "rank0:2");
    CHECK_STR(timeline_device_label(tl, 1), "rank1:2");
    CHECK_STR(timeline_device_label(tl, 2), "9");
    CHECK_STR(timeline_device_label(tl, 3), "");
    CHECK_INT(tl->devices[0].kernel_count, 1);
    CHECK_INT(tl->devices[1].kernel_count, 2);
    CHECK_INT(tl->kernels.start_ns[tl->devices[2].first_kernel], 100);
    CHECK_INT(tl->shapes[tl->kernels.shape[tl->devices[2].first_kernel]].device, 2);
    timeline_close(tl);
}

TEST(timeline_separates_processes_and_merges_devices_by_uuid) {
    struct timeline_builder *b = timeline_builder_open();
    for (int p = 0; p < 2; p++) {
        timeline_builder_process(b, p ? "b.ipt" : "a.ipt");
        timeline_builder_meta(b, "process.pid", p ? "20" : "10");
        timeline_builder_meta(b, "device.0.uuid", "GPU-x");
        timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
        if (p) timeline_builder_meta(b, "device.0.sms", "132");
        timeline_builder_range(
            b, RANGE(.start_ns = 0, .end_ns = 99, .thread = 5, .name = text(b, p ? "second" : "first")), 1);
        add_launch(b, 5, 10 + (uint64_t)p, 1); /* the same thread and correlation numbers in both */
        add_kernel(b, 100 + 100 * (uint64_t)p, 150 + 100 * (uint64_t)p, 1, 7);
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->ndevices, 1);
    CHECK_INT(tl->devices[0].sms, 132);
    CHECK_INT(tl->devices[0].kernel_count, 2);
    CHECK_INT(tl->nshapes, 1);
    CHECK_INT(tl->nthreads, 2);
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "first");
    CHECK_STR(range_name(tl, tl->kernels.range[1]), "second");
    timeline_close(tl);
}

TEST(timeline_merges_two_files_of_one_process) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "engine.ipt");
    timeline_builder_meta(b, "process.pid", "10");
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 99, .thread = 5, .name = text(b, "decode")), 1);
    timeline_builder_process(b, "collector.ipt");
    timeline_builder_meta(b, "process.pid", "10");
    add_launch(b, 5, 10, 1);
    add_kernel(b, 100, 150, 1, 7);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nthreads, 1);
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "decode");
    timeline_close(tl);
}

static size_t threads_of_two_files(const char *key, const char *first, const char *second) {
    struct timeline_builder *b = timeline_builder_open();
    for (int p = 0; p < 2; p++) {
        timeline_builder_process(b, p ? "b.ipt" : "a.ipt");
        timeline_builder_meta(b, "process.pid", "1");
        timeline_builder_meta(b, key, p ? second : first);
        add_launch(b, 5, 10, 1);
        add_kernel(b, 100, 150, 1, 7);
    }
    struct timeline *tl = timeline_builder_finish(b);
    size_t threads = tl->nthreads;
    timeline_close(tl);
    return threads;
}

TEST(timeline_separates_processes_with_the_same_number) {
    CHECK_INT(threads_of_two_files("rank", "0", "1"), 2); /* process 1 of two containers */
    CHECK_INT(threads_of_two_files("rank", "0", "0"), 1);
    CHECK_INT(threads_of_two_files("source", "import:kineto", "import:kineto"), 2);
    CHECK_INT(threads_of_two_files("source", "collector", "engine"), 1);
}

TEST(timeline_matches_by_time_only_without_launches) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "cpu.ipt");
    timeline_builder_meta(b, "device.0.name", "cpu");
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 100, .thread = 1, .name = text(b, "outer")), 1);
    timeline_builder_range(b, RANGE(.start_ns = 20, .end_ns = 40, .thread = 1, .name = text(b, "matmul")), 1);
    add_kernel(b, 20, 38, 0, 0);
    add_kernel(b, 50, 60, 0, 0);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK(tl->containment);
    CHECK(tl->devices[0].is_cpu);
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "matmul");
    CHECK_STR(range_name(tl, tl->kernels.range[1]), "outer");
    CHECK_INT(tl->unmatched_kernels, 0);
    timeline_close(tl);

    b = timeline_builder_open(); /* launches exist: a kernel without one has no range */
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 100, .thread = 1, .name = text(b, "outer")), 1);
    add_launch(b, 1, 1, 1);
    add_kernel(b, 5, 10, 1, 0);
    add_kernel(b, 20, 38, 77, 0);
    tl = timeline_builder_finish(b);
    CHECK(!tl->containment);
    CHECK_STR(range_name(tl, tl->kernels.range[1]), "-");
    CHECK_INT(tl->unmatched_kernels, 1);
    timeline_close(tl);
}

TEST(timeline_links_all_nodes_of_a_graph_to_its_launch_and_counts_a_duplicate_call_once) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 9, .thread = 1, .name = text(b, "replay")), 1);
    for (int i = 0; i < 2; i++)
        timeline_builder_launch(
            b,
            &(struct trace_launch){ .start_ns = 3 + (uint64_t)i,
                                    .end_ns = 6,
                                    .thread = 1,
                                    .correlation = 4,
                                    .api = text(b, i ? "cuGraphLaunch" : "cudaGraphLaunch") },
            1);
    for (uint64_t i = 0; i < 50; i++) add_kernel(b, 100 + 10 * i, 105 + 10 * i, 4, 7);
    struct timeline *tl = timeline_builder_finish(b);
    for (size_t i = 0; i < 50; i++) CHECK_STR(range_name(tl, tl->kernels.range[i]), "replay");
    CHECK_INT(tl->launches.kernels[0], 50);
    CHECK_INT(tl->processes[0].launches, 1);
    CHECK_INT(tl->processes[0].unmatched_launches, 0);
    timeline_close(tl);
}

#define DAY_NS (86400 * UINT64_C(1000000000))

/* Pairs of launches and kernels, `step` apart, from `first` on. Each has an id of its own. */
static void add_pairs(struct timeline_builder *b, uint64_t first, uint64_t step, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = first / DAY_NS * 1000 + i + 1;
        add_launch(b, 1, first + i * step, id);
        add_kernel(b, first + i * step + 5, first + i * step + 9, id, 7);
    }
}

TEST(timeline_excludes_records_with_damaged_times) {
    struct timeline_builder *b = timeline_builder_open();
    uint64_t now = 20000 * DAY_NS;
    add_launch(b, 1, 0, 1); /* before the others, whose indices change */
    add_pairs(b, now, 1000, 100);
    add_kernel(b, 0, 0, 1, 7);
    add_kernel(b, now + 50, now + 3 * DAY_NS, 2, 7); /* never closed */
    timeline_builder_range(
        b, RANGE(.start_ns = now - 2 * DAY_NS, .end_ns = now, .thread = 1, .name = text(b, "early")), 1);
    timeline_builder_range(
        b, RANGE(.start_ns = now - DAY_NS / 2, .end_ns = now + 300, .thread = 1, .name = text(b, "whole")),
        1);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->stray_records, 4);
    CHECK_INT(tl->nwarnings, 1);
    CHECK_INT(tl->kernels.n, 100);
    CHECK_INT(tl->launches.n, 100);
    for (size_t i = 0; i < 100; i++) CHECK_INT(tl->kernels.launch[i], i);
    CHECK_INT(tl->ranges.n, 1);
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "whole");
    CHECK_INT(tl->start_ns, now - DAY_NS / 2);
    timeline_close(tl);
}

TEST(timeline_keeps_parts_of_a_trace_that_are_days_apart) {
    struct timeline_builder *b = timeline_builder_open();
    add_pairs(b, DAY_NS, 1000, 80);
    add_pairs(b, 40 * DAY_NS, 1000, 20);
    timeline_builder_process(b, "few");
    add_pairs(b, 7000 * DAY_NS, 1000, 5);
    add_kernel(b, 0, 10, 77, 7);         /* 1 of 11 records: too few to know which ones are damaged */
    timeline_builder_process(b, "long"); /* a month; its first launch is two days earlier */
    add_launch(b, 1, 7000 * DAY_NS, 1);
    add_pairs(b, 7002 * DAY_NS, 3600 * UINT64_C(1000000000), 720);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->stray_records, 0);
    CHECK_INT(tl->nwarnings, 0);
    CHECK_INT(tl->kernels.n, 100 + 6 + 720);
    timeline_close(tl);
}

TEST(timeline_excludes_records_that_end_before_they_start) {
    struct timeline_builder *b = timeline_builder_open();
    add_kernel(b, 100, 99, 0, 0);
    add_kernel(b, 100, 100, 0, 0);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->kernels.n, 1);
    CHECK_INT(tl->bad_records, 1);
    timeline_close(tl);
    timeline_close(NULL);
    tl = timeline_builder_finish(timeline_builder_open());
    CHECK_INT(tl->kernels.n, 0);
    CHECK_STR(timeline_text(tl, 12345), "");
    timeline_close(tl);
}

/* Kernels and launches of three processes in random order, compared with a linear search. */
TEST(timeline_links_like_a_linear_search) {
    enum { N = 400 };
    struct timeline_builder *b = timeline_builder_open();
    uint64_t seed = 7, launch_at[3][N], kernel_at[3][N];
    for (int p = 0; p < 3; p++) {
        timeline_builder_process(b, "x");
        for (size_t i = 0; i < N; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            launch_at[p][i] = seed >> 40; /* any time: correlation i + 1 */
            kernel_at[p][i] = (1u << 25) + (seed >> 33) % 100000 * 10 + (uint64_t)p;
        }
        for (size_t i = 0; i < N; i++) add_launch(b, 1, launch_at[p][i * 7 % N], i * 7 % N + 1);
        for (size_t i = 0; i < N; i++) add_kernel(b, kernel_at[p][i * 11 % N], 1u << 30, i * 11 % N + 1, 0);
    }
    struct timeline *tl = timeline_builder_finish(b);
    size_t found = 0;
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t l = tl->kernels.launch[i];
        CHECK(l != TIMELINE_NONE);
        uint32_t p = tl->lanes[tl->kernels.lane[i]].process;
        CHECK_INT(tl->threads[tl->launches.thread[l]].process, p);
        uint64_t id = tl->launches.correlation[l];
        CHECK_INT(tl->launches.start_ns[l], launch_at[p][id - 1]);
        CHECK_INT(tl->kernels.start_ns[i], kernel_at[p][id - 1]);
        found++;
    }
    CHECK_INT(found, 3 * N);
    for (size_t i = 1; i < tl->launches.n; i++)
        CHECK(tl->launches.start_ns[i - 1] <= tl->launches.start_ns[i]);
    timeline_close(tl);
}

static void write_file(const char *path) {
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    CHECK(w != NULL);
    trace_writer_meta(w, "device.0.name", "NVIDIA H200");
    trace_writer_meta(w, "device.0.sms", "%d", 132);
    trace_writer_meta(w, "capture.window", "5 900");
    trace_writer_meta(w, "capture.from", "3");
    trace_writer_meta(w, "capture.to", "950");
    trace_writer_meta(w, "problem", "counters were refused");
    struct trace_range r = { .start_ns = 1,
                             .end_ns = 50,
                             .thread = 3,
                             .category = TRACE_CATEGORY_STAGE,
                             .flops = 4,
                             .name = trace_writer_str(w, "decode"),
                             .bytes = NAN,
                             .payload = NAN };
    struct trace_launch l = { .start_ns = 2,
                              .end_ns = 3,
                              .thread = 3,
                              .correlation = 9,
                              .api = trace_writer_str(w, "cuLaunchKernel") };
    struct trace_kernel k = {
        .start_ns = 60, .end_ns = 70, .correlation = 9, .name = trace_writer_str(w, "gemm"), .registers = 40
    };
    struct trace_sample s = {
        .start_ns = 60, .end_ns = 70, .metrics = trace_writer_str(w, "a;b"), .v0 = 1.5, .v1 = NAN
    };
    trace_writer_range(w, &r, 1);
    trace_writer_launch(w, &l, 1);
    trace_writer_kernel(w, &k, 1);
    trace_writer_sample(w, &s, 1);
    trace_writer_lost(w, TRACE_KERNEL, TRACE_LOST_SOURCE, 3);
    CHECK_INT(trace_writer_close(w, &err), 0);
}

TEST(timeline_loads_what_was_written) {
    char *dir = test_tmpdir(), *path = xasprintf("%s/a.ipt", dir), *missing = xasprintf("%s/none.ipt", dir);
    write_file(path);
    struct err err;
    struct timeline *tl = timeline_load((const char *[]){ missing, path }, 2, &err);
    CHECK(tl != NULL);
    CHECK_INT(tl->kernels.n, 1);
    CHECK_STR(timeline_text(tl, tl->shapes[tl->kernels.shape[0]].name), "gemm");
    CHECK_STR(range_name(tl, tl->kernels.range[0]), "decode");
    CHECK_NEAR(tl->ranges.flops[0], 4, 0);
    CHECK(tl->ranges.bytes == NULL);
    CHECK_INT(tl->lost[TRACE_KERNEL], 3);
    CHECK_INT(tl->devices[0].sms, 132);
    CHECK_INT(tl->nwindows, 1);
    CHECK_INT(tl->windows[0].end_ns, 900);
    CHECK_INT(tl->metric_sets[tl->samples.set[0]].n, 2);
    CHECK_NEAR(tl->sample_values[tl->samples.first[0]], 1.5, 0);
    CHECK(isnan(tl->sample_values[tl->samples.first[0] + 1]));
    CHECK_INT(tl->nwarnings, 2); /* the missing file, and the one in the trace */
    CHECK_STR(timeline_meta_value(tl, "device.0.name"), "NVIDIA H200");
    timeline_close(tl);
    CHECK(timeline_load((const char *[]){ missing }, 1, &err) == NULL);
    CHECK(strstr(err.msg, "none.ipt") != NULL);
    free(missing);
    free(path);
    free(dir);
}

TEST(timeline_opens_a_trace_of_a_set_once) {
    char *dir = test_tmpdir(), *path = xasprintf("%s/a.ipt", dir);
    struct timeline_options how = { .traces = trace_set_new() };
    struct err err;
    write_file(path);
    timeline_close(timeline_load_with((const char *[]){ path }, 1, &how, &err));
    CHECK_INT(unlink(path), 0); /* the open reader can still decode the records */
    struct timeline *tl = timeline_load_with((const char *[]){ path }, 1, &how, &err);
    CHECK(tl && tl->kernels.n == 1);
    timeline_close(tl);
    trace_set_free(how.traces);
    free(path);
    free(dir);
}

TEST(capture_windows_are_converted_to_the_clock_of_the_job) {
    char *dir = test_tmpdir(), *path = xasprintf("%s/a.ipt", dir);
    struct err err;
    struct rank_clock_segment offset = { .offset_ns = -7000 };
    const struct rank_clock clock = { .segments = &offset, .nsegments = 1 };
    const struct trace_clock_rank rank = { .clock = &clock };
    const struct timeline_clocks clocks = trace_clock_functions(&rank);
    write_file(path);
    struct timeline *tl = timeline_load_with((const char *[]){ path }, 1,
                                             &(struct timeline_options){ .clocks = &clocks }, &err);
    CHECK(tl != NULL);
    CHECK_INT(tl->nwindows, 1);
    CHECK_INT(tl->windows[0].start_ns, 7005);
    CHECK_INT(tl->windows[0].end_ns, 7900);
    CHECK_INT(tl->processes[0].capture_from_ns, 7003);
    CHECK_INT(tl->processes[0].capture_to_ns, 7950);
    CHECK(tl->kernels.start_ns[0] >= 7005);
    timeline_close(tl);
    free(path);
    free(dir);
}

TEST(timeline_cut_excludes_what_starts_outside_the_window) {
    char *dir = test_tmpdir(), *path = xasprintf("%s/a.ipt", dir);
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    for (uint64_t i = 0; i < 10; i++) { /* a range, a launch and a kernel of 5 every 100 ns */
        struct trace_range r = { .start_ns = 100 * i + 1,
                                 .end_ns = 100 * i + 50,
                                 .thread = 3,
                                 .name = trace_writer_str(w, "step"),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
        struct trace_launch l = {
            .start_ns = 100 * i + 2, .end_ns = 100 * i + 3, .thread = 3, .correlation = i + 1
        };
        struct trace_kernel k = { .start_ns = 100 * i + 10, .end_ns = 100 * i + 15, .correlation = i + 1 };
        struct trace_power p = { .time_ns = 100 * i, .power_mw = 1000 };
        trace_writer_range(w, &r, 1);
        trace_writer_launch(w, &l, 1);
        trace_writer_kernel(w, &k, 1);
        trace_writer_power(w, &p, 1);
    }
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct timeline *tl = timeline_load((const char *[]){ path }, 1, &err);
    CHECK(tl != NULL);
    timeline_cut(tl, 301, 511);
    CHECK_INT(tl->kernels.n, 3); /* at 310, 410 and 510 */
    CHECK_INT(tl->kernels.start_ns[0], 310);
    CHECK_INT(tl->launches.n, 3);
    CHECK_INT(tl->ranges.n, 3);
    CHECK_INT(tl->unmatched_kernels, 0);
    CHECK_INT(tl->cut_kernels, 7);
    CHECK_NEAR(tl->cut_ns, 35, 0);
    CHECK_INT(tl->powers.n, 10); /* kept: energy needs samples before and after */
    CHECK_INT(tl->start_ns, 301);
    timeline_close(tl);
    free(path);
    free(dir);
}

static void add_kernel_of_call(struct timeline_builder *b, uint32_t device, uint64_t start,
                               uint64_t correlation) {
    timeline_builder_kernel(b,
                            &(struct trace_kernel){ .start_ns = start,
                                                    .end_ns = start + 10,
                                                    .correlation = correlation,
                                                    .device = device,
                                                    .stream = 7,
                                                    .name = text(b, "k") },
                            1);
}

/* Joined traces of two ranks, of which the second is 30 ns later. Their correlation ids are equal. */
TEST(timeline_separates_the_processes_of_one_file) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "joined.ipt");
    timeline_builder_meta(b, "process.pid", "100");
    timeline_builder_meta(b, "thread.1.pid", "100");
    timeline_builder_meta(b, "thread.2.pid", "200");
    timeline_builder_meta(b, "thread.9.device", "1");
    for (uint64_t i = 0; i < 4; i++) {
        add_launch(b, 1, i * 100, i + 1);
        add_launch(b, 2, i * 100 + 30, i + 1);
        add_kernel_of_call(b, 0, i * 100 + 50, i + 1); /* also later than the other process's call */
        add_kernel_of_call(b, 1, i * 100 + 80, i + 1);
    }
    timeline_builder_range(b, RANGE(.start_ns = 80, .end_ns = 390, .thread = 9, .name = text(b, "copy")), 1);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nprocesses, 2);
    CHECK_INT(tl->processes[0].pid, 100);
    CHECK_INT(tl->processes[1].pid, 200);
    CHECK(tl->processes[1].has_launches);
    CHECK_INT(tl->processes[0].repeated_correlations, 0);
    CHECK_INT(tl->nthreads, 3);
    for (size_t i = 0; i < tl->nthreads; i++)
        CHECK_INT(tl->threads[i].process, tl->threads[i].tid == 1 ? 0 : 1);
    CHECK_INT(tl->kernels.n, 8);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        const struct timeline_lane *lane = &tl->lanes[tl->kernels.lane[i]];
        CHECK_INT(lane->process, tl->devices[lane->device].index);
        CHECK_INT(tl->threads[tl->launches.thread[tl->kernels.launch[i]]].process, lane->process);
    }
    for (size_t i = 0; i < tl->launches.n; i++) CHECK_INT(tl->launches.api_kind[i], TIMELINE_API_KERNEL);
    CHECK_INT(tl->nwarnings, 1);
    CHECK(strstr(timeline_text(tl, tl->warnings[0]), "contains 2 processes") != NULL);
    timeline_close(tl);
}

TEST(timeline_says_that_a_file_has_too_many_processes) {
    struct timeline_builder *b = timeline_builder_open();
    char key[32], pid[32];
    timeline_builder_process(b, "joined.ipt");
    for (uint32_t i = 1; i <= 200; i++) {
        snprintf(key, sizeof key, "thread.%u.pid", i);
        snprintf(pid, sizeof pid, "%u", 1000 + i);
        timeline_builder_meta(b, key, pid);
        add_launch(b, i, i * 100, i);
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nprocesses, 1);
    CHECK_INT(tl->nwarnings, 1);
    CHECK(strstr(timeline_text(tl, tl->warnings[0]), "read as one") != NULL);
    timeline_close(tl);
}

/* ---- several processes in one file */

static void add_work(struct timeline_builder *b, uint32_t device, uint32_t context, uint32_t stream,
                     uint64_t start, uint64_t correlation) {
    timeline_builder_kernel(b,
                            &(struct trace_kernel){ .start_ns = start,
                                                    .end_ns = start + 10,
                                                    .correlation = correlation,
                                                    .device = device,
                                                    .context = context,
                                                    .stream = stream,
                                                    .name = text(b, "k") },
                            1);
}

/* Thread N is of process 100 N. */
static struct timeline_builder *open_joined(uint32_t processes) {
    struct timeline_builder *b = timeline_builder_open();
    char key[32], pid[32];
    timeline_builder_process(b, "joined.ipt");
    timeline_builder_meta(b, "process.pid", "100");
    for (uint32_t i = 1; i <= processes; i++) {
        snprintf(key, sizeof key, "thread.%u.pid", i);
        snprintf(pid, sizeof pid, "%u", 100 * i);
        timeline_builder_meta(b, key, pid);
    }
    return b;
}

static uint32_t pid_of_kernel(const struct timeline *tl, size_t i) {
    return tl->processes[tl->lanes[tl->kernels.lane[i]].process].pid;
}
static uint32_t pid_of_call(const struct timeline *tl, size_t i) {
    uint32_t launch = tl->kernels.launch[i];
    return launch == TIMELINE_NONE ? 0 : tl->processes[tl->threads[tl->launches.thread[launch]].process].pid;
}
static bool has_warning(const struct timeline *tl, const char *words) {
    for (size_t i = 0; i < tl->nwarnings; i++)
        if (strstr(timeline_text(tl, tl->warnings[i]), words)) return true;
    return false;
}

/* All calls are earlier than the work of all processes, so only the streams differ: a call starts work on one
 * stream. The second stream of each process has ids that its first one does not have. */
TEST(timeline_separates_processes_that_share_a_device) {
    struct timeline_builder *b = open_joined(3);
    for (uint64_t i = 0; i < 6; i++)
        for (uint32_t p = 0; p < 3; p++) {
            add_launch(b, p + 1, i * 100 + 10 * p, i + 1);
            add_work(b, 0, 1, (i % 2 ? 20 : 7) + p, i * 100 + 50 + 10 * p, i + 1);
        }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nprocesses, 3);
    CHECK_INT(tl->kernels.n, 18);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t stream = tl->lanes[tl->kernels.lane[i]].stream,
                 pid = 100 * (1 + stream - (stream < 20 ? 7 : 20));
        CHECK_INT(pid_of_kernel(tl, i), pid);
        CHECK_INT(pid_of_call(tl, i), pid);
    }
    CHECK_INT(tl->unmatched_kernels, 0);
    CHECK(!has_warning(tl, "more than one process can have started"));
    timeline_close(tl);
}

/* A call without work does not own a stream: id 1 is a synchronisation in process 100, which called first. */
TEST(timeline_gives_no_stream_to_calls_that_start_no_work) {
    struct timeline_builder *b = open_joined(2);
    for (uint64_t i = 0; i < 4; i++) {
        struct trace_launch wait = { .start_ns = i * 100,
                                     .end_ns = i * 100 + 5,
                                     .thread = 1,
                                     .correlation = i + 1,
                                     .api = text(b, "cudaStreamSynchronize") };
        timeline_builder_launch(b, &wait, 1);
        add_launch(b, 2, i * 100 + 10, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 50, i + 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        CHECK_INT(pid_of_kernel(tl, i), 200);
        CHECK_INT(pid_of_call(tl, i), 200);
    }
    timeline_close(tl);
}

/* Two processes use stream 7 of one device. The call of the second process follows the first one's kernel. */
TEST(timeline_separates_processes_that_share_a_stream) {
    struct timeline_builder *b = open_joined(2);
    for (uint64_t i = 0; i < 4; i++) {
        add_launch(b, 1, i * 100, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 10, i + 1);
        add_launch(b, 2, i * 100 + 30, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 40, i + 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->kernels.n, 8);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        CHECK_INT(pid_of_call(tl, i), i % 2 ? 200 : 100);
        CHECK_INT(pid_of_kernel(tl, i), i % 2 ? 200 : 100);
        CHECK_INT(tl->launches.kernels[tl->kernels.launch[i]], 1);
    }
    CHECK(!has_warning(tl, "more than one process can have started"));
    CHECK_INT(tl->processes[0].kernels, 4);
    CHECK_INT(tl->processes[1].kernels, 4);
    timeline_close(tl);
}

/* The numbers of streams of the next file do not change. */
TEST(timeline_separates_processes_that_share_a_stream_in_two_files) {
    struct timeline_builder *b = open_joined(2);
    for (int file = 0; file < 2; file++) {
        if (file) timeline_builder_process(b, "second.ipt");
        for (uint64_t i = 0; i < 2; i++) {
            add_launch(b, 1, i * 100, i + 1);
            add_work(b, 0, 1, 7, i * 100 + 10, i + 1);
            if (file) continue;
            add_launch(b, 2, i * 100 + 30, i + 1);
            add_work(b, 0, 1, 7, i * 100 + 40, i + 1);
        }
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nlanes, 3);
    CHECK_INT(tl->nprocesses, 3);
    CHECK_INT(tl->kernels.n, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct timeline_lane *lane = &tl->lanes[tl->kernels.lane[i]];
        CHECK_INT(lane->process, tl->threads[tl->launches.thread[tl->kernels.launch[i]]].process);
        CHECK_STR(timeline_text(tl, tl->processes[lane->process].path), i < 4 ? "joined.ipt" : "second.ipt");
    }
    timeline_close(tl);
}

TEST(timeline_warns_of_work_that_several_processes_can_have_started) {
    struct timeline_builder *b = open_joined(2);
    for (uint64_t i = 0; i < 4; i++) {
        add_launch(b, 1, i * 100, i + 1);
        add_launch(b, 2, i * 100 + 5, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 10, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 40, i + 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK(
        has_warning(tl, "joined.ipt: 4 correlation ids of work that more than one process can have started"));
    for (size_t i = 0; i < tl->kernels.n; i++) CHECK_INT(tl->launches.kernels[tl->kernels.launch[i]], 1);
    timeline_close(tl);
}

/* As in files of Nsight Systems: contexts have one process, and ids of two processes differ. */
TEST(timeline_uses_the_process_that_the_file_names_for_a_context) {
    struct timeline_builder *b = open_joined(2);
    timeline_builder_meta(b, "context.1.pid", "100");
    timeline_builder_meta(b, "context.2.pid", "200");
    timeline_builder_meta(b, "context.3.pid", "300"); /* without calls */
    timeline_builder_meta(b, "thread.3.pid", "300");
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 99, .thread = 1, .name = text(b, "other")), 1);
    timeline_builder_range(b, RANGE(.start_ns = 0, .end_ns = 99, .thread = 3, .name = text(b, "own")), 1);
    add_launch(b, 1, 0, 1);
    add_launch(b, 2, 1, 2);
    add_work(b, 0, 1, 7, 50, 1);
    add_work(b, 0, 2, 7, 60, 1); /* of a call that was not recorded */
    add_work(b, 0, 2, 7, 70, 2);
    add_work(b, 0, 3, 7, 80, 9);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nprocesses, 3);
    CHECK_INT(pid_of_kernel(tl, 0), 100);
    CHECK_INT(pid_of_kernel(tl, 1), 200);
    CHECK_INT(pid_of_call(tl, 1), 0);
    CHECK_INT(pid_of_call(tl, 2), 200);
    CHECK_INT(pid_of_kernel(tl, 3), 300);
    CHECK_INT(tl->unmatched_kernels, 1); /* those of process 300 are matched to its ranges */
    CHECK_STR(range_name(tl, tl->kernels.range[3]), "own");
    for (size_t i = 0; i < tl->nprocesses; i++)
        CHECK_INT(tl->processes[i].has_launches, tl->processes[i].pid != 300);
    CHECK_INT(tl->nwarnings, 0);
    timeline_close(tl);
}

/* Importers name no process for calls without operators, and for pids above 2^32. */
TEST(timeline_reports_calls_whose_process_is_unknown) {
    struct timeline_builder *b = open_joined(2);
    for (uint32_t thread = 1; thread <= 3; thread++)
        for (uint64_t i = 0; i < 4; i++) {
            add_launch(b, thread, i * 100 + 10 * thread, i + 1);
            add_work(b, thread, 1, 7, i * 100 + 50 + 10 * thread, i + 1);
        }
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->nprocesses, 3);
    CHECK_INT(tl->processes[2].pid, TIMELINE_NONE);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        uint32_t process = tl->lanes[tl->kernels.lane[i]].process;
        CHECK_INT(process, tl->devices[tl->lanes[tl->kernels.lane[i]].device].index - 1);
        CHECK_INT(tl->threads[tl->launches.thread[tl->kernels.launch[i]]].process, process);
    }
    CHECK(has_warning(tl, "joined.ipt: the process of 4 calls is unknown"));
    timeline_close(tl);
}

/* Two ranks with one pid, or with pids above 2^32: nothing names their processes. */
static bool warns_of_launches_apart(uint32_t second_thread, uint64_t second_ns) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "joined.ipt");
    for (uint64_t i = 0; i < 4; i++) {
        add_launch(b, 1, i * 100, i + 1);
        add_launch(b, second_thread, i * 100 + second_ns, i + 1);
        add_work(b, 0, 1, 7, i * 100 + 50, i + 1);
        add_work(b, 1, 1, 7, i * 100 + 60, i + 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    bool warns = has_warning(tl, "joined.ipt: 4 of 8 launches have the correlation id of another launch");
    timeline_close(tl);
    return warns;
}

TEST(timeline_reports_processes_that_cannot_be_separated) {
    CHECK(warns_of_launches_apart(2, 0));
    CHECK(warns_of_launches_apart(1, 30));
    CHECK(!warns_of_launches_apart(1, 0)); /* the runtime's call and the driver's */
}

TEST(timeline_reports_a_pid_that_is_too_large) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "joined.ipt");
    timeline_builder_meta(b, "process.pid", "4294971333");
    add_launch(b, 1, 0, 1);
    struct timeline *tl = timeline_builder_finish(b);
    CHECK_INT(tl->processes[0].pid, TIMELINE_NONE);
    CHECK(has_warning(tl, "joined.ipt: the process id 4294971333 is above 2^32"));
    timeline_close(tl);
}
