/* Ranks with several GPUs. */
#include <stdlib.h>

#include "base/file.h"
#include "ranks/digest.h"
#include "ranks/lanes.h"
#include "trace/writer.h"
#include "unit/ranks/jobs.h"
#include "unit/test.h"

#define MS 1000000ull

/* 100 kernels of 1 ms on each of two GPUs, from 1 s on, at the same times with gaps of 1 ms. */
static char *make_trace(const char *dir, const char *second_gpu) {
    struct err err;
    char *path = file_join(dir, "t.ipt");
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    CHECK(w != NULL);
    trace_writer_meta(w, "device.0.name", "NVIDIA H200");
    trace_writer_meta(w, "device.1.name", "%s", second_gpu);
    for (uint32_t i = 0; i < 200; i++) {
        struct trace_kernel k = { .start_ns = 1000 * MS + i % 100 * 2 * MS,
                                  .end_ns = 1000 * MS + i % 100 * 2 * MS + MS,
                                  .device = i / 100,
                                  .stream = 7,
                                  .name = trace_writer_str(w, "gemm") };
        trace_writer_put(w, TRACE_KERNEL, &k, 1);
    }
    CHECK_INT(trace_writer_close(w, &err), 0);
    return path;
}

static void check_names(const char *second_gpu, const char *want) {
    struct err err;
    char *dir = test_tmpdir(), *path = make_trace(dir, second_gpu);
    const char *paths[] = { path };
    struct rank_digest *d = rank_digest_make(paths, 1, &(struct digest_limits){ 0 }, &err);
    CHECK(d != NULL);
    CHECK_STR(d->device, want);
    rank_digest_free(d);
    free(dir);
    free(path);
}

TEST(a_digest_names_different_gpus_of_a_rank) {
    check_names("NVIDIA H200", "NVIDIA H200");
    check_names("NVIDIA A100", "NVIDIA H200,NVIDIA A100");
}

TEST(a_lane_shows_the_kernels_of_all_gpus_in_the_order_of_time) {
    static struct test_job t;
    struct rank_clock_segment segment = { 0 };
    struct rank_clock clock = { .segments = &segment, .nsegments = 1 };
    struct rank_lanes lanes;
    char *dir = test_tmpdir();
    test_job_init(&t, 1, 1, "NVIDIA H200");
    t.job.clocks = &clock;
    t.job.nclocks = 1;
    t.ranks[0].trace = make_trace(dir, "NVIDIA H200");
    rank_lanes_load(&t.job, NULL, &lanes);
    CHECK_INT(lanes.n, 1);
    CHECK_NEAR((double)lanes.from_ns, 1099e6, 0.1); /* 0.1 steps of 10 ms before the middle kernel */
    CHECK_INT(lanes.v[0].nspans, 6);                /* 12.5 ms, one kernel per 2 ms */
    for (size_t i = 0; i < lanes.v[0].nspans; i++)
        CHECK_NEAR(lanes.v[0].spans[i].end_ns - lanes.v[0].spans[i].start_ns, 1e6, 1);
    rank_lanes_free(&lanes);
    free(dir);
    free((char *)t.ranks[0].trace);
}
