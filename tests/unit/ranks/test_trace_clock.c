/* Times of a trace whose clock was set forward or back while it was recorded. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ranks/trace_clock.h"
#include "trace/writer.h"
#include "unit/test.h"

#define START_NS 1790000000000000000ull
#define PERIOD_NS 20000
#define KERNELS 100

/* Writes KERNELS kernels of 15 us, one every 20 us. The clock is set by step_ns at `at_ns` of true time. */
static char *write_trace(uint64_t at_ns, int64_t step_ns) {
    char *dir = test_tmpdir(), *path = xasprintf("%s/a.ipt", dir);
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    for (uint64_t i = 0; i < KERNELS; i++) {
        uint64_t start = i * PERIOD_NS, end = start + 15000, called = start - (i ? 3000 : 0);
        struct trace_launch l = { .start_ns = START_NS + called + (called > at_ns ? (uint64_t)step_ns : 0),
                                  .correlation = i + 1,
                                  .thread = 1,
                                  .api = trace_writer_str(w, "cudaLaunchKernel") };
        l.end_ns = l.start_ns + 1000;
        struct trace_kernel k = { .start_ns = START_NS + start + (start > at_ns ? (uint64_t)step_ns : 0),
                                  .end_ns = START_NS + end + (end > at_ns ? (uint64_t)step_ns : 0),
                                  .correlation = i + 1,
                                  .name = trace_writer_str(w, "kernel") };
        trace_writer_launch(w, &l, 1);
        trace_writer_kernel(w, &k, 1);
    }
    CHECK_INT(trace_writer_close(w, &err), 0);
    free(dir);
    return path;
}

static void check_step(uint64_t at_ns, int64_t step_ns) {
    char *path = write_trace(at_ns, step_ns);
    struct rank_clock_step step = { START_NS + at_ns, (double)step_ns, 0 };
    struct trace_clock_rank rank = { .steps = &step, .nsteps = 1 };
    struct timeline_clocks clocks = trace_clock_functions(&rank);
    struct err err;
    struct timeline *tl = timeline_load_with((const char *[]){ path }, 1,
                                             &(struct timeline_options){ .clocks = &clocks }, &err);
    CHECK(tl != NULL);
    CHECK_INT(tl->bad_records, 0);
    CHECK_INT(tl->kernels.n, KERNELS);
    for (size_t i = 0; i < tl->kernels.n; i++) {
        CHECK_INT(tl->kernels.start_ns[i], START_NS + i * PERIOD_NS);
        CHECK_INT(tl->kernels.end_ns[i], START_NS + i * PERIOD_NS + 15000);
        CHECK_INT(tl->kernels.launch[i], i);
    }
    timeline_close(tl);
    free(path);
}

TEST(steps_of_a_clock_are_removed_from_a_trace) {
    check_step(50 * PERIOD_NS + 7000, 200000);  /* inside of a kernel */
    check_step(50 * PERIOD_NS + 16000, 200000); /* between two kernels */
    check_step(50 * PERIOD_NS + 7000, -200000);
    check_step(50 * PERIOD_NS + 16000, -200000);
    check_step(50 * PERIOD_NS + 7000, -900000000);
}

TEST(a_time_that_a_clock_skipped_is_converted_to_the_closest_one) {
    struct rank_clock_step step = { 1000000, 500000, 0 };
    void *clock = trace_clock_open(&(struct trace_clock_rank){ .steps = &step, .nsteps = 1 }, "none");
    CHECK_INT(trace_clock_time(clock, 900000), 900000);
    CHECK_INT(trace_clock_time(clock, 1000000), 1000000);
    CHECK_INT(trace_clock_time(clock, 1600000), 1100000);
    trace_clock_close(clock);
}
