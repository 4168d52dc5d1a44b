#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "import/import.h"
#include "import/nsys.h"
#include "timeline/timeline.h"
#include "trace/reader.h"
#include "unit/test.h"

static void make_db(const char *path, const char *sql) {
    sqlite3 *db;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

struct found {
    struct trace_kernel kernels[8];
    struct trace_launch launches[8];
    struct trace_range ranges[8];
    struct trace_sample samples[8];
    size_t nkernels, nlaunches, nranges, nsamples;
};

#define TAKE(kind, count, array) \
    for (size_t k = 0; k < b.n && f->count < 8; k++) f->array[f->count++] = b.kind[k]

static void read_back(struct trace_reader *r, struct found *f) {
    struct trace_batch b = { 0 };
    struct err err;
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        if (b.kind == TRACE_KERNEL) TAKE(kernel, nkernels, kernels);
        if (b.kind == TRACE_LAUNCH) TAKE(launch, nlaunches, launches);
        if (b.kind == TRACE_RANGE) TAKE(range, nranges, ranges);
        if (b.kind == TRACE_SAMPLE) TAKE(sample, nsamples, samples);
    }
    trace_batch_free(&b);
}

static const char *const sql =
    "create table StringIds(id integer primary key, value text);"
    "insert into StringIds values (1, 'void gemm<float>()'), (2, 'cudaLaunchKernel_v7000'), (3, "
    "'registered');"
    "create table TARGET_INFO_SESSION_START_TIME(utcEpochNs integer);"
    "insert into TARGET_INFO_SESSION_START_TIME values (1700000000000000000);"
    /* two processes that share a correlation id; a kernel table without grid columns */
    "create table CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId, globalPid, "
    "demangledName);"
    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 200, 0, 7, 5, 16777216, 1), (150, 250, 1, 7, 5, "
    "33554432, 1),"
    " (300, 290, 0, 7, 6, 16777216, 1), (NULL, 1, 0, 7, 6, 16777216, 1);"
    "create table CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, correlationId, nameId);"
    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (10, 20, 0, 16777217, 5, 2), (10, 20, 67, 16777217, 5, "
    "2),"
    " (11, 21, 0, 33554433, 5, 2);"
    "create table NVTX_EVENTS(start, end, eventType, text, textId, globalTid, domainId);"
    "insert into NVTX_EVENTS values (1, NULL, 75, 'lib', NULL, 16777217, 4), (5, 30, 59, NULL, 3, 16777217, "
    "4),"
    " (6, 29, 59, 'aten::mm, seq = 3, sizes = [[2, 2]]', NULL, 16777217, 0), (7, NULL, 34, 'here', NULL, "
    "16777217, 0);"
    "create table TARGET_INFO_GPU_METRICS(typeId, metricId, metricName);"
    "insert into TARGET_INFO_GPU_METRICS values (256, 1, 'SM Active'), (256, 2, 'DRAM Read');"
    "create table GPU_METRICS(timestamp, typeId, metricId, value);"
    "insert into GPU_METRICS values (1000, 256, 1, 50), (1000, 256, 2, 20), (2000, 256, 1, 60);";

/* emit_nvtx also names autograd functions and operators of any namespace. */
TEST(nsys_takes_ranges_with_the_number_of_a_call_as_operators) {
    char *dir = test_tmpdir(), *db = file_join(dir, "a.sqlite"), *trace = file_join(dir, "a.ipt");
    struct err err;
    struct import_result result;
    struct found f;
    make_db(db,
            "create table NVTX_EVENTS(start, end, eventType, text, globalTid, category);"
            "insert into NVTX_EVENTS values (1, 9, 59, 'FlashAttnFunc, seq = 31, op_id = 7', 16777217, 2),"
            " (11, 19, 59, '_C::rms_norm, op_id = 8, sizes = [[2, 2]]', 16777217, NULL),"
            " (21, 29, 59, 'load, op_id = ?', 16777217, NULL), (0, NULL, 33, 'op', 16777217, 2),"
            " (31, 39, 59, 'decode, op_id = 9', 16777217, NULL);"); /* record_function */
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    struct trace_reader *r = trace_reader_open(trace, &err);
    read_back(r, &f);
    CHECK_INT(f.nranges, 4);
    CHECK_INT(f.ranges[0].category, TRACE_CATEGORY_OP);
    CHECK_INT(f.ranges[1].category, TRACE_CATEGORY_OP);
    CHECK_INT(f.ranges[2].category, TRACE_CATEGORY_USER);
    CHECK_INT(f.ranges[3].category, TRACE_CATEGORY_USER);
    CHECK_STR(trace_reader_string(r, f.ranges[3].name, NULL), "decode");
    CHECK_STR(trace_reader_string(r, f.ranges[0].name, NULL), "FlashAttnFunc");
    CHECK_STR(trace_reader_string(r, f.ranges[1].name, NULL), "_C::rms_norm");
    CHECK_STR(trace_reader_string(r, f.ranges[2].name, NULL), "load, op_id = ?");
    trace_reader_close(r);
    free(dir);
    free(db);
    free(trace);
}

TEST(nsys_reads_available_tables_and_columns) {
    char *dir = test_tmpdir(), *db = file_join(dir, "a.sqlite"), *trace = file_join(dir, "a.ipt");
    struct err err;
    struct import_result result;
    struct found f;
    const uint64_t epoch = 1700000000000000000;
    make_db(db, sql);
    CHECK(import_detect(db, &err) == &nsys_sqlite_format);
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    CHECK_INT(result.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(result.problems[SINK_PROBLEM_NEGATIVE_DURATION], 1);
    CHECK_INT(result.problems[SINK_PROBLEM_NO_TIME], 1);
    CHECK_INT(result.problems[SINK_PROBLEM_DUPLICATE], 1);
    struct trace_reader *r = trace_reader_open(trace, &err);
    read_back(r, &f);
    CHECK_INT(f.nkernels, 2);
    CHECK_INT(f.kernels[0].start_ns, epoch + 100);
    CHECK_STR(trace_reader_string(r, f.kernels[0].name, NULL), "void gemm<float>()");
    CHECK_INT(f.nlaunches, 2);
    CHECK_STR(trace_reader_string(r, f.launches[0].api, NULL), "cudaLaunchKernel");
    CHECK_INT(f.launches[0].correlation, f.kernels[0].correlation);
    CHECK_INT(f.launches[1].correlation, f.kernels[1].correlation);
    CHECK(f.launches[0].correlation != f.launches[1].correlation);
    CHECK_INT(f.nranges, 3);
    CHECK_STR(trace_reader_string(r, f.ranges[0].name, NULL), "registered");
    CHECK_STR(trace_reader_string(r, f.ranges[0].domain, NULL), "lib");
    CHECK_STR(trace_reader_string(r, f.ranges[1].name, NULL), "aten::mm");
    CHECK_STR(trace_reader_string(r, f.ranges[1].detail, NULL), "[[2, 2]]");
    CHECK_INT(f.ranges[1].category, TRACE_CATEGORY_OP);
    CHECK_INT(f.ranges[2].flags, TRACE_RANGE_MARK);
    CHECK_INT(f.nsamples, 2);
    CHECK_STR(trace_reader_string(r, f.samples[0].metrics, NULL), "SM Active;DRAM Read");
    CHECK_NEAR(f.samples[0].v1, 20, 0);
    CHECK_INT(f.samples[1].start_ns, epoch + 1000);
    trace_reader_close(r);
    free(dir);
    free(db);
    free(trace);
}

/* Two GPUs sampled at once, rows in order of time: every sample lasts from the one before it on its GPU. */
TEST(nsys_keeps_the_samples_of_two_gpus_apart) {
    char *dir = test_tmpdir(), *db = file_join(dir, "m.sqlite"), *trace = file_join(dir, "m.ipt");
    struct err err;
    struct import_result result;
    struct found f;
    char *text = xasprintf(
        "%s delete from GPU_METRICS; insert into TARGET_INFO_GPU_METRICS values (257, 1, 'SM Active'), (257, "
        "2, "
        "'DRAM Read'); insert into GPU_METRICS values (1000, 256, 1, 50), (1000, 257, 1, 7), (1000, 256, 2, "
        "20), "
        "(1000, 257, 2, 3), (2000, 256, 1, 60), (2000, 257, 1, 8), (3000, 256, 1, 61), (3000, 257, 1, 9);",
        sql);
    make_db(db, text);
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    struct trace_reader *r = trace_reader_open(trace, &err);
    read_back(r, &f);
    CHECK_INT(f.nsamples, 6);
    size_t lasting[2] = { 0 };
    for (size_t i = 0; i < f.nsamples; i++) {
        lasting[f.samples[i].device] += f.samples[i].end_ns - f.samples[i].start_ns == 1000;
        if (f.samples[i].end_ns == f.samples[i].start_ns)
            CHECK_NEAR(f.samples[i].v1, f.samples[i].device ? 3 : 20, 0);
    }
    CHECK_INT(lasting[0], 2);
    CHECK_INT(lasting[1], 2);
    trace_reader_close(r);
    free(text);
    free(dir);
    free(db);
    free(trace);
}

TEST(nsys_rejects_other_databases) {
    char *dir = test_tmpdir(), *db = file_join(dir, "b.sqlite"), *trace = file_join(dir, "b.ipt");
    struct err err;
    struct import_result result;
    make_db(db, "create table t(x);");
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              -1);
    CHECK(strstr(err.msg, "none of its tables") != NULL);
    CHECK(!file_exists(trace));
    free(dir);
    free(db);
    free(trace);
}

TEST(nsys_reads_graphs_traced_as_a_whole) {
    char *dir = test_tmpdir(), *db = file_join(dir, "g.sqlite"), *trace = file_join(dir, "g.ipt");
    struct err err;
    struct import_result result;
    struct found f;
    make_db(
        db,
        "create table StringIds(id integer primary key, value text);"
        "insert into StringIds values (2, 'cudaGraphLaunch_v10000');"
        "create table CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId);"
        "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (10, 20, 16777217, 5, 2), (30, 40, 16777217, 6, 2);"
        "create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, contextId, streamId, "
        "correlationId, "
        "globalPid, graphId, graphExecId);"
        "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (100, 200, 0, 1, 7, 5, 16777216, 3, 4),"
        " (300, 450, 0, 1, 7, 6, 16777216, 3, 4), (500, NULL, 0, 1, 7, 7, 16777216, 3, 4);");
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    CHECK_INT(result.events[SINK_EVENT_KERNEL], 2);
    CHECK_INT(result.problems[SINK_PROBLEM_NO_DURATION], 1);
    struct trace_reader *r = trace_reader_open(trace, &err);
    read_back(r, &f);
    CHECK_INT(f.nkernels, 2);
    CHECK_STR(trace_reader_string(r, f.kernels[0].name, NULL), "CUDA graph 3");
    CHECK_INT(f.kernels[1].end_ns - f.kernels[1].start_ns, 150);
    CHECK_INT(f.kernels[0].stream, 7);
    CHECK_INT(f.kernels[0].graph, 3);
    CHECK_INT(f.kernels[0].correlation, f.launches[0].correlation);
    CHECK_INT(f.kernels[1].correlation, f.launches[1].correlation);
    CHECK_STR(trace_reader_string(r, f.launches[0].api, NULL), "cudaGraphLaunch");
    trace_reader_close(r);
    free(dir);
    free(db);
    free(trace);
}

TEST(nsys_reads_copies_syncs_events_and_gpus) {
    char *dir = test_tmpdir(), *db = file_join(dir, "c.sqlite"), *trace = file_join(dir, "c.ipt");
    struct err err;
    struct import_result result;
    make_db(
        db,
        "create table CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, streamId, correlationId, globalPid, "
        "bytes, copyKind);"
        "insert into CUPTI_ACTIVITY_KIND_MEMCPY values (1, 2, 0, 7, 5, 16777216, 4096, 2);"
        "create table CUPTI_ACTIVITY_KIND_MEMSET(start, end, deviceId, streamId, correlationId, globalPid, "
        "bytes);"
        "insert into CUPTI_ACTIVITY_KIND_MEMSET values (3, 4, 0, 7, 6, 16777216, 64);"
        "create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, correlationId, globalPid, syncType);"
        "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (5, 9, 7, 16777216, 3), (5, 9, 8, 16777216, "
        "99);"
        "create table CUPTI_ACTIVITY_KIND_CUDA_EVENT(correlationId, eventId);"
        "insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (9, 1), (10, 2);"
        "create table TARGET_INFO_GPU(id, name, smCount, computeMajor, computeMinor, memoryBandwidth);"
        "insert into TARGET_INFO_GPU values (0, 'Tesla T4', 40, 7, 5, 320064000000);");
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    CHECK_INT(result.events[SINK_EVENT_MEMCPY], 1);
    CHECK_INT(result.events[SINK_EVENT_MEMSET], 1);
    CHECK_INT(result.events[SINK_EVENT_SYNC], 2);
    CHECK_INT(result.events[SINK_EVENT_CUDA_EVENT], 2);
    struct trace_reader *r = trace_reader_open(trace, &err);
    struct trace_batch b = { 0 };
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        if (b.kind == TRACE_COPY) {
            CHECK_INT(b.n, 2);
            CHECK_INT(b.copy[0].copy_kind, TRACE_COPY_DTOH);
            CHECK_INT(b.copy[0].bytes, 4096);
            CHECK_INT(b.copy[1].copy_kind, TRACE_COPY_MEMSET);
        } else if (b.kind == TRACE_SYNC) {
            CHECK_INT(b.n, 2);
            CHECK_INT(b.sync[0].sync_kind, TRACE_SYNC_STREAM);
            CHECK_INT(b.sync[1].sync_kind, TRACE_SYNC_UNKNOWN);
        }
    }
    CHECK_STR(trace_reader_meta(r, "device.0.name"), "Tesla T4");
    CHECK_STR(trace_reader_meta(r, "device.0.sms"), "40");
    CHECK_STR(trace_reader_meta(r, "device.0.cc"), "7.5");
    CHECK_STR(trace_reader_meta(r, "clock"), "relative");
    trace_batch_free(&b);
    trace_reader_close(r);
    free(dir);
    free(db);
    free(trace);
}

TEST(nsys_ignores_views) {
    char *dir = test_tmpdir(), *db = file_join(dir, "v.sqlite"), *trace = file_join(dir, "v.ipt");
    struct err err;
    struct import_result result;
    make_db(db, "create table NVTX_EVENTS(start, end, eventType, text);"
                "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive n(start) as (select 1 union all "
                "select start + 1 "
                "from n) select start, start + 1 as end from n;"); /* infinite */
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    CHECK_INT(result.events[SINK_EVENT_KERNEL], 0);
    free(dir);
    free(db);
    free(trace);
}

/* ---- several processes: process 16777216 is pid 1, its threads are 16777217, ... */

static struct timeline *load_db(const char *tables) {
    char *dir = test_tmpdir(), *db = file_join(dir, "p.sqlite"), *trace = file_join(dir, "p.ipt");
    struct err err;
    struct import_result result;
    make_db(db, tables);
    CHECK_INT(import_to_trace(db, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 }, &result,
                              &err),
              0);
    struct timeline *tl = timeline_load((const char *[]){ trace }, 1, &err);
    CHECK(tl != NULL);
    free(dir);
    free(db);
    free(trace);
    return tl;
}

static uint32_t pid_of_lane(const struct timeline *tl, size_t kernel) {
    return tl->processes[tl->lanes[tl->kernels.lane[kernel]].process].pid;
}
static uint32_t pid_of_thread(const struct timeline *tl, uint32_t thread) {
    return tl->processes[tl->threads[thread].process].pid;
}

#define RUNTIME                                                                    \
    "create table CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, " \
    "correlationId, nameId); insert into CUPTI_ACTIVITY_KIND_RUNTIME values "
#define KERNELS                                                                           \
    "create table CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, " \
    "correlationId, globalPid); insert into CUPTI_ACTIVITY_KIND_KERNEL values "
#define RANGES                                                          \
    "create table NVTX_EVENTS(start, end, eventType, text, globalTid);" \
    "insert into NVTX_EVENTS values "

/* Three processes share a GPU and have equal contexts, streams and ids. The third one makes no calls. */
TEST(nsys_separates_processes) {
    static const char tables[] = RUNTIME
        "(10, 20, 0, 16777217, 5, NULL), (11, 21, 0, 33554433, 5, NULL);" KERNELS
        "(100, 200, 0, 1, 7, 5, 16777216), (150, 250, 0, 1, 7, 5, 33554432), "
        "(260, 270, 0, 1, 7, 6, 33554432);" RANGES
        "(5, 30, 59, 'step', 16777217), (5, 30, 59, 'step', 33554433), (5, 30, 59, 'serve', 50331649);"
        "create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, correlationId, globalPid, syncType, "
        "contextId);"
        "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (50, 99, 7, 33554432, 3, 1);";
    struct timeline *tl = load_db(tables);
    CHECK_INT(tl->nprocesses, 3);
    CHECK_INT(tl->kernels.n, 3);
    for (size_t i = 0; i < 3; i++) {
        uint32_t launch = tl->kernels.launch[i], pid = i ? 2 : 1;
        CHECK_INT(pid_of_lane(tl, i), pid);
        if (i == 2) CHECK_INT(launch, TIMELINE_NONE); /* its call was not recorded */
        if (i < 2) CHECK_INT(pid_of_thread(tl, tl->launches.thread[launch]), pid);
    }
    CHECK_INT(tl->ranges.n, 3);
    for (size_t i = 0; i < 3; i++)
        if (strcmp(timeline_text(tl, tl->ranges.name[i]), "serve") == 0)
            CHECK_INT(pid_of_thread(tl, tl->ranges.thread[i]), 3);
    CHECK_INT(pid_of_thread(tl, tl->syncs.thread[0]), 2);
    CHECK_INT(tl->nwarnings, 0);
    timeline_close(tl);
}

TEST(nsys_has_one_process_if_one_makes_calls) {
    static const char tables[] =
        RUNTIME "(10, 20, 0, 33554433, 5, NULL);" KERNELS "(100, 200, 0, 1, 7, 5, 33554432);" RANGES
                "(5, 30, 59, 'serve', 16777217);";
    struct timeline *tl = load_db(tables);
    CHECK_INT(tl->nprocesses, 1);
    CHECK_INT(tl->processes[0].pid, 2);
    CHECK_INT(tl->unmatched_kernels, 0);
    timeline_close(tl);
}

/* Without calls: the kernels of each process are in its own ranges. */
TEST(nsys_separates_processes_without_calls) {
    static const char tables[] =
        KERNELS "(10, 20, 0, 1, 7, 5, 16777216), (12, 22, 1, 1, 7, 5, 33554432);" RANGES
                "(5, 30, 59, 'one', 16777217), (6, 30, 59, 'two', 33554433);";
    struct timeline *tl = load_db(tables);
    CHECK_INT(tl->nprocesses, 2);
    CHECK_STR(timeline_text(tl, tl->ranges.name[tl->kernels.range[0]]), "one");
    CHECK_STR(timeline_text(tl, tl->ranges.name[tl->kernels.range[1]]), "two");
    timeline_close(tl);
}

/* Kernels do not name their process: the ids decide, as in traces of PyTorch. */
TEST(nsys_links_kernels_that_name_no_process) {
    static const char *const tables[] = {
        RUNTIME "(10, 20, 0, 16777217, 5, NULL), (11, 21, 0, 33554433, 6, NULL);" KERNELS
                "(100, 200, 0, 1, 7, 5, NULL), (150, 250, 1, 1, 7, 6, NULL);",
        RUNTIME "(10, 20, 0, 16777217, 5, NULL), (11, 21, 0, 33554433, 6, NULL);"
                "create table CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId);"
                "insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 200, 0, 7, 5), (150, 250, 1, 7, 6);"
    };
    for (size_t k = 0; k < 2; k++) {
        struct timeline *tl = load_db(tables[k]);
        CHECK_INT(tl->nprocesses, 2);
        CHECK_INT(tl->unmatched_kernels, 0);
        for (size_t i = 0; i < 2; i++) {
            CHECK_INT(pid_of_lane(tl, i), i + 1);
            CHECK(tl->kernels.launch[i] != TIMELINE_NONE);
            CHECK_INT(pid_of_thread(tl, tl->launches.thread[tl->kernels.launch[i]]), i + 1);
        }
        timeline_close(tl);
    }
}

/* 281474976710656 is 2^48: the second machine */
TEST(nsys_reports_processes_with_one_pid) {
    struct timeline *tl =
        load_db(RUNTIME "(10, 20, 0, 16777217, 5, NULL), (11, 21, 0, 281474993487873, 5, NULL);");
    CHECK_INT(tl->nprocesses, 1);
    CHECK_INT(tl->nwarnings, 1);
    CHECK(strstr(timeline_text(tl, tl->warnings[0]), "have the same pid") != NULL);
    timeline_close(tl);
}
