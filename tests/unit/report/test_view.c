/* Times of the timed repeats beside busy times of the recorded run: one request, never negative, never
 * over all. */
#include <math.h>
#include <string.h>

#include "report/rows.h"
#include "report/view.h"
#include "unit/test.h"

/* decode: 8 ms of kernels in four ranges of 5 ms each, recorded; timed at `timed_ms`. */
static struct view_stage decode_of(double timed_ms, bool on_cpu, const char *name) {
    struct analysis_stage rows[1] = { 0 };
    rows[0] = (struct analysis_stage){ .name = name,
                                       .path = name,
                                       .parent = ANALYSIS_NONE,
                                       .on_cpu = on_cpu,
                                       .occurrences = 4,
                                       .devices = 1,
                                       .gpu_busy_ns = 8e6,
                                       .wall_total_ns = 20e6,
                                       .kernels = 40,
                                       .launches = 40,
                                       .launches_per_token = on_cpu ? NAN : 10,
                                       .tokens_in = NAN,
                                       .tokens_out = NAN };
    rows[0].busy_ns = stats_none();
    rows[0].wall_ns = stats_none();
    rows[0].timing_ms = stats_none();
    struct analysis a = { .stages = rows, .nstages = 1, .cpu_only = on_cpu };
    const struct report_stage given = { .name = name, .ms = &timed_ms, .n = 1, .tokens = 4 };
    struct report_input in;
    report_input_init(&in);
    in.analysis = &a;
    in.stages = &given;
    in.nstages = 1;
    struct view v;
    view_init(&v, &in);
    CHECK_INT(v.nstages, 1);
    struct view_stage s = v.stages[0];
    view_free(&v);
    return s;
}

TEST(busy_kernels_and_launches_are_those_of_one_request) {
    struct view_stage s = decode_of(10, false, "decode");
    CHECK_NEAR(s.busy_ms, 8, 1e-9);
    CHECK_NEAR(s.busy_share, 0.8, 1e-9);
    CHECK_NEAR(s.kernels, 40, 0);
    CHECK_NEAR(s.launches_per_token, 10, 0);
}

TEST(a_share_is_never_over_the_whole) {
    struct view_stage s =
        decode_of(5, false, "decode"); /* less than the kernels took: another run altogether */
    CHECK_NEAR(s.busy_share, 0.4, 1e-9);
    CHECK_NEAR(s.busy_ms, 2, 1e-9);
}

TEST(on_the_cpu_the_share_of_the_recorded_run_counts) {
    struct view_stage s = decode_of(10, true, "decode");
    CHECK_NEAR(s.busy_share, 0.4, 1e-9);
    CHECK_NEAR(s.busy_ms, 4, 1e-9);
    CHECK(isnan(s.launches_per_token));
}
