/* Exports random timelines to formats of other tools and imports them again: the result must be equal. */
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "import/import.h"
#include "import/kineto.h"
#include "import/nsys.h"
#include "report/export.h"
#include "timeline/timeline.h"
#include "unit/test.h"

static uint64_t seed;
static uint64_t below(uint64_t n) { return (seed = hash_u64(seed + 0x9e3779b97f4a7c15u)) % n; }

#define EPOCH 1700000000000000000u

/* A range of every category, with the domains of torch.profiler. */
static void add_categories(struct timeline_builder *b, uint64_t at) {
    static const char *const domains[] = { "", "user_annotation", "python_function", "gpu_user_annotation" };
    static const char *const names[] = { "FlashAttnFunc", "_C::rms_norm", "decode", "aten::mm" };
    for (unsigned i = 0; i < 4 * TRACE_CATEGORY_END; i++) {
        struct trace_range r = { .start_ns = at + i,
                                 .end_ns = at + 900 - i,
                                 .thread = 4711,
                                 .category = i / 4,
                                 .name = timeline_builder_text(b, names[(i + i / 4) % 4]),
                                 .domain = timeline_builder_text(b, domains[i % 4]),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
        timeline_builder_range(b, &r, 1);
    }
}

static struct timeline *random_timeline(unsigned n) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "random.ipt");
    timeline_builder_meta(b, "clock", "unix");
    timeline_builder_meta(b, "process.pid", "4711");
    timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
    static const char *const names[] = { "gemm<float, 4>(int)", "copy \"quoted\" \\ kernel",
                                         ("r\xc3\xa9"
                                          "duce"),
                                         "k" };
    uint64_t at = EPOCH;
    for (unsigned i = 0; i < n; i++) {
        at += 1000 + below(5000);
        struct trace_range op = { .start_ns = at,
                                  .end_ns = at + 900,
                                  .thread = 4711,
                                  .category = TRACE_CATEGORY_OP,
                                  .name = timeline_builder_text(b, i % 2 ? "aten::mm" : "aten::add"),
                                  .flops = NAN,
                                  .bytes = NAN,
                                  .payload = NAN };
        struct trace_launch l = { .start_ns = at + 1 + below(400),
                                  .thread = 4711,
                                  .correlation = i + 1,
                                  .api = timeline_builder_text(b, "cudaLaunchKernel") };
        l.end_ns = l.start_ns + below(300);
        struct trace_kernel k = { .start_ns = at + 2000 + below(100000),
                                  .correlation = i + 1,
                                  .device = 0,
                                  .context = 1,
                                  .stream = 7 + (uint32_t)below(3),
                                  .name = timeline_builder_text(b, names[below(4)]),
                                  .grid_x = 1 + (uint32_t)below(1000),
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = 128,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .registers = (uint32_t)below(255) };
        k.end_ns = k.start_ns + below(50000);
        timeline_builder_range(b, &op, 1);
        timeline_builder_launch(b, &l, 1);
        timeline_builder_kernel(b, &k, 1);
        if (below(4)) continue;
        struct trace_copy c = { .start_ns = k.end_ns + 10,
                                .end_ns = k.end_ns + 10 + below(900),
                                .correlation = i + 1,
                                .bytes = below(1 << 20),
                                .device = 0,
                                .context = 1,
                                .stream = 7,
                                .copy_kind = 1 + (uint32_t)below(TRACE_COPY_MEMSET) };
        timeline_builder_copy(b, &c, 1);
    }
    add_categories(b, EPOCH);
    return timeline_builder_finish(b);
}

/* Chrome files have neither stages nor phases. */
static void check_same_ranges(const struct timeline *a, const struct timeline *b) {
    for (size_t i = 0; i < a->ranges.n; i++) {
        CHECK_INT(b->ranges.start_ns[i], a->ranges.start_ns[i]);
        CHECK_INT(b->ranges.category[i], a->ranges.category[i]);
        CHECK_STR(timeline_text(b, b->ranges.name[i]), timeline_text(a, a->ranges.name[i]));
        CHECK_STR(timeline_text(b, b->ranges.domain[i]), timeline_text(a, a->ranges.domain[i]));
    }
}

static void check_same(const struct timeline *a, const struct timeline *b) {
    CHECK_INT(b->kernels.n, a->kernels.n);
    CHECK_INT(b->copies.n, a->copies.n);
    CHECK_INT(b->launches.n, a->launches.n);
    CHECK_INT(b->ranges.n, a->ranges.n);
    uint64_t sum[2] = { 0 }; /* records with equal start may change order: compare sums */
    for (size_t i = 0; i < a->kernels.n; i++) {
        CHECK_INT(b->kernels.start_ns[i], a->kernels.start_ns[i]);
        const struct timeline *t[2] = { a, b };
        for (int k = 0; k < 2; k++) {
            const struct timeline_shape *s = &t[k]->shapes[t[k]->kernels.shape[i]];
            const char *name = timeline_text(t[k], s->name);
            uint32_t range = t[k]->kernels.range[i];
            uint64_t fields[] = { t[k]->kernels.start_ns[i],
                                  t[k]->kernels.end_ns[i],
                                  s->grid[0],
                                  s->block[0],
                                  s->registers,
                                  t[k]->lanes[t[k]->kernels.lane[i]].stream,
                                  hash_bytes(name, strlen(name)),
                                  range == TIMELINE_NONE ? 0 : t[k]->ranges.start_ns[range] };
            sum[k] += hash_bytes(fields, sizeof fields);
        }
    }
    CHECK_INT(sum[1], sum[0]);
    for (size_t i = 0; i < a->copies.n; i++) {
        CHECK_INT(b->copies.start_ns[i], a->copies.start_ns[i]);
        CHECK_INT(b->copies.bytes[i], a->copies.bytes[i]);
        CHECK_INT(b->copies.kind[i], a->copies.kind[i]);
    }
}

static void export_and_import(const char *format, const char *file, const struct import_format *want) {
    for (seed = 1; seed < 1000000; seed = seed * 31 + 7) {
        uint64_t start = seed;
        char *dir = test_tmpdir(), *path = file_join(dir, file), *trace = file_join(dir, "back.ipt");
        struct timeline *tl = random_timeline(1 + (unsigned)below(200));
        struct export_job x;
        struct err err;
        struct import_result result;
        export_open(&x, tl, NULL);
        CHECK_INT(export_write(&x, format, path, &err), 0);
        export_close(&x);
        CHECK(import_detect(path, &err) == want);
        CHECK_INT(import_to_trace(path, want, trace, &(struct import_options){ .rank = -1 }, &result, &err),
                  0);
        const char *paths[] = { trace };
        struct timeline *back = timeline_load(paths, 1, &err);
        CHECK(back != NULL);
        check_same(tl, back);
        if (want == &nsys_sqlite_format) check_same_ranges(tl, back);
        timeline_close(back);
        timeline_close(tl);
        free(dir);
        free(path);
        free(trace);
        seed = start;
    }
}

TEST(chrome_export_imports_unchanged) { export_and_import("chrome", "a.json", &kineto_format); }
TEST(sqlite_export_imports_unchanged) { export_and_import("sqlite", "a.sqlite", &nsys_sqlite_format); }

static uint32_t process_of_call(const struct timeline *tl, size_t kernel) {
    uint32_t launch = tl->kernels.launch[kernel];
    CHECK(launch != TIMELINE_NONE);
    return tl->threads[tl->launches.thread[launch]].process;
}

/* Two processes on two GPUs, whose pids can be equal in their low 24 bits. Threads 5 and 2^24 + 5 are of the
 * first one. */
static void export_two_processes(const char *first_pid, const char *second_pid) {
    char *dir = test_tmpdir(), *path = file_join(dir, "a.sqlite"), *trace = file_join(dir, "back.ipt");
    struct timeline_builder *b = timeline_builder_open();
    struct export_job x;
    struct err err;
    struct import_result result;
    timeline_builder_process(b, "joined.ipt");
    timeline_builder_meta(b, "clock", "unix");
    const uint32_t threads[] = { 5, (1u << 24) + 5, 6 };
    for (uint32_t i = 0; i < 3; i++) {
        char key[32];
        snprintf(key, sizeof key, "thread.%u.pid", threads[i]);
        timeline_builder_meta(b, key, i < 2 ? first_pid : second_pid);
        for (uint32_t k = 0; k < 4; k++) {
            struct trace_launch l = { .start_ns = EPOCH + k * 1000 + i * 10,
                                      .end_ns = EPOCH + k * 1000 + i * 10 + 5,
                                      .thread = threads[i],
                                      .correlation = k + 1 + 4 * (i == 1),
                                      .api = timeline_builder_text(b, "cudaLaunchKernel") };
            struct trace_kernel kernel = { .start_ns = l.end_ns + 100,
                                           .end_ns = l.end_ns + 200,
                                           .correlation = l.correlation,
                                           .device = i == 2,
                                           .context = 1,
                                           .stream = 7 + i };
            timeline_builder_launch(b, &l, 1);
            timeline_builder_kernel(b, &kernel, 1);
        }
    }
    struct timeline *tl = timeline_builder_finish(b);
    export_open(&x, tl, NULL);
    CHECK_INT(export_write(&x, "sqlite", path, &err), 0);
    export_close(&x);
    CHECK_INT(import_to_trace(path, &nsys_sqlite_format, trace, &(struct import_options){ .rank = -1 },
                              &result, &err),
              0);
    struct timeline *back = timeline_load((const char *[]){ trace }, 1, &err);
    CHECK_INT(back->kernels.n, 12);
    CHECK_INT(back->nthreads, 3);
    CHECK_INT(process_of_call(back, 0), process_of_call(back, 7));
    CHECK(process_of_call(back, 0) != process_of_call(back, 8));
    for (size_t i = 0; i < 12; i++) {
        CHECK_INT(back->kernels.start_ns[i], tl->kernels.start_ns[i]);
        CHECK_INT(back->lanes[back->kernels.lane[i]].process, process_of_call(back, i));
        CHECK_INT(process_of_call(back, i), process_of_call(back, i < 8 ? 0 : 8));
    }
    timeline_close(back);
    timeline_close(tl);
    free(dir);
    free(path);
    free(trace);
}

TEST(sqlite_export_keeps_processes) {
    export_two_processes("100", "200");
    export_two_processes("100", "16777316"); /* 100 + 2^24 */
    export_two_processes("0", "16777216");
    export_two_processes("2", "1");
}

TEST(sqlite_export_of_a_gpu_without_uuid_has_null) {
    char *dir = test_tmpdir(), *path = file_join(dir, "a.sqlite");
    struct export_job x;
    struct err err;
    sqlite3 *db;
    sqlite3_stmt *rows;
    seed = 1;
    struct timeline *tl = random_timeline(3);
    export_open(&x, tl, NULL);
    CHECK_INT(export_write(&x, "sqlite", path, &err), 0);
    export_close(&x);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db,
                                 "SELECT uuid FROM TARGET_INFO_GPU UNION ALL "
                                 "SELECT uuid FROM TARGET_INFO_CUDA_DEVICE",
                                 -1, &rows, NULL),
              SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(sqlite3_step(rows), SQLITE_ROW);
        CHECK_INT(sqlite3_column_type(rows, 0), SQLITE_NULL);
    }
    sqlite3_finalize(rows);
    sqlite3_close(db);
    timeline_close(tl);
    free(dir);
    free(path);
}
