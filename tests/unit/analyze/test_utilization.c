/* Times of the timed repeats, busy times of the recorded run, and their ratios to the peaks. */
#include <math.h>

#include "unit/analyze/scene.h"
#include "base/hash.h"
#include "unit/test.h"

#define MS 1000000ull

/* decode: four recorded ranges of 5 ms, each with a kernel of 2 ms; one request, timed at `timed_ms`. */
static struct analysis_stage decode_timed_at(double timed_ms, bool on_cpu) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    if (on_cpu) timeline_builder_meta(s.b, "device.0.name", "cpu");
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t t = (1 + 5 * i) * MS;
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, t, t + 5 * MS);
        scene_kernel(&s, "k", 1, t + 1 * MS - 3000, t + 1 * MS - 1000, 7, t + 1 * MS, t + 3 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { timed_ms };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 1, .ms = ms } };
    analyze_run(tl, &(struct analyze_input){ .timings = timings, .ntimings = 1, .one_run = true }, &a);
    struct analysis_stage stage = *scene_stage(&a, "decode");
    analysis_free(&a);
    timeline_close(tl);
    return stage;
}

TEST(busy_time_and_kernels_are_those_of_one_request) {
    struct analysis_stage s = decode_timed_at(10, false);
    CHECK_NEAR(s.time_ms, 10, 0);
    CHECK_NEAR(s.busy_ms, 8, 1e-9);
    CHECK_NEAR(s.busy_share, 0.8, 1e-9);
    CHECK_NEAR(s.kernels_each, 4, 0);
}

TEST(a_share_is_never_over_the_whole) {
    /* shorter than the kernel time, so it must be another run */
    struct analysis_stage s = decode_timed_at(5, false);
    CHECK_NEAR(s.busy_share, 0.4, 1e-9);
    CHECK_NEAR(s.busy_ms, 2, 1e-9);
}

TEST(on_the_cpu_the_share_of_the_recorded_run_counts) {
    struct analysis_stage s = decode_timed_at(10, true);
    CHECK_NEAR(s.busy_share, 0.4, 1e-9);
    CHECK_NEAR(s.busy_ms, 4, 1e-9);
    CHECK(isnan(s.launches_per_token));
}

/* Two images and a text: prefill and its image stage were timed, nothing was recorded. */
TEST(an_analysis_without_a_trace_has_the_timed_stages) {
    const double prefill[] = { 20, 21, 22 }, sam[] = { 5, NAN, 6 }, none[] = { NAN, NAN, NAN };
    const struct analyze_work works[] = {
        { .tokens = 100, .flops = 21e9, .bytes = 1e6, .floor_ms = 7, .recorded_ms = 42 },
        { NAN, NAN, NAN, NAN, NAN },
        { .tokens = NAN, .flops = 1e9, .bytes = NAN, .floor_ms = NAN, .recorded_ms = NAN },
    };
    const struct analyze_timing timings[] = {
        { .stage = "prefill", .n = 3, .ms = prefill, .work = &works[0] },
        { .stage = "sam", .parent = "prefill", .n = 3, .ms = sam, .work = &works[1] },
        { .stage = "clip", .parent = "prefill", .n = 3, .ms = none, .work = &works[1] },
        { .stage = "projector", .parent = "prefill", .n = 3, .ms = none, .work = &works[2] },
        { .stage = "decode", .n = 3, .ms = none, .work = &works[1] },
    };
    const struct analyze_input in = {
        .timings = timings, .ntimings = 5, .one_run = true, .peak_flops_per_s = 1e13, .peak_bytes_per_s = 1e9
    };
    struct analysis a;
    analyze_run(NULL, &in, &a);
    CHECK_INT(a.nstages, 3); /* clip and decode have no data */
    CHECK_STR(a.stages[0].path, "prefill");
    CHECK_STR(a.stages[1].path, "prefill/sam");
    CHECK_STR(a.stages[2].path, "prefill/projector");
    CHECK_NEAR(a.stages[0].time_ms, 21, 0);
    CHECK_STR(a.stages[0].time_source, "median of 3 timed repeats");
    CHECK_NEAR(a.stages[0].mfu, 0.1, 1e-12);
    CHECK_NEAR(a.stages[0].mbu, 0.001 / 0.021, 1e-12);
    CHECK_NEAR(a.stages[0].distance, 3, 1e-12);
    CHECK_NEAR(a.stages[0].recording_cost, 2, 1e-12);
    CHECK_NEAR(a.stages[0].tokens, 100, 0);
    CHECK_NEAR(a.stages[1].time_ms, 5.5, 0);
    CHECK_NEAR(a.stages[2].flops, 1e9, 0);
    CHECK(isnan(a.stages[2].time_ms) && isnan(a.stages[2].mfu));
    CHECK_NEAR(a.model_mfu, 0.1, 1e-12); /* image stages are parts of prefill */
    CHECK(isnan(a.stages[0].busy_ms));
    CHECK_INT(a.nfindings, 0);
    analysis_free(&a);
}

TEST(a_stage_of_the_trace_has_the_timing_of_its_name_and_parent) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 1 * MS, 11 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "head", 1, 2 * MS, 3 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 20 * MS, 30 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "head", 1, 21 * MS, 24 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 0.5 };
    const struct analyze_timing timings[] = { { .stage = "head", .parent = "prefill", .n = 1, .ms = ms },
                                              { .stage = "tail", .parent = "decode", .n = 1, .ms = ms } };
    analyze_run(tl, &(struct analyze_input){ .timings = timings, .ntimings = 2, .one_run = true }, &a);
    CHECK_INT(a.nstages, 6); /* with the row outside */
    CHECK_STR(a.stages[1].path, "prefill/head");
    CHECK_NEAR(a.stages[1].time_ms, 0.5, 0);
    CHECK_STR(a.stages[3].path, "decode/head");
    CHECK_NEAR(a.stages[3].time_ms, 3, 0);
    CHECK_STR(a.stages[4].path, "decode/tail"); /* timed, but not in the trace */
    CHECK_STR(a.stages[4].parent_name, "decode");
    CHECK_INT(a.stages[4].occurrences, 0);
    analysis_free(&a);
    timeline_close(tl);
}

/* Repeats with several inputs: MFU is that of the median repeat; the value for counters is that of the
 * recorded request. */
TEST(one_mfu_of_the_timed_repeats_and_one_for_the_counters) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 40 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 10, 10, 10 };
    const struct analyze_work work = {
        .tokens = 5, .flops = 1e9, .bytes = 1e7, .floor_ms = 2, .recorded_ms = NAN
    };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 3, .ms = ms, .work = &work } };
    const struct analyze_cost costs[] = {
        { .stage = "decode", .flops = 4e9, .bytes = 2e7, .floor_ns = 3e6 }
    };
    const struct analyze_input in = { .timings = timings,
                                      .ntimings = 1,
                                      .costs = costs,
                                      .ncosts = 1,
                                      .one_run = true,
                                      .peak_flops_per_s = 1e12,
                                      .peak_bytes_per_s = 1e10 };
    analyze_run(tl, &in, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_NEAR(d->mfu, 0.1, 1e-12);
    CHECK_NEAR(d->distance, 5, 1e-12);
    CHECK_NEAR(d->recorded_mfu, 0.1, 1e-12); /* 4e9 in the recorded 40 ms */
    CHECK_NEAR(d->recorded_mbu, 0.05, 1e-12);
    CHECK_NEAR(a.roofline[0].flop_per_s, 1e11, 1);
    CHECK_NEAR(a.model_mfu, 0.1, 1e-12);
    CHECK_NEAR(a.model_mbu, 0.1, 1e-12);
    analysis_free(&a);
    timeline_close(tl);
}

/* A page of 10 ms at 2 times its roofline time, and one of 1,000 ms at 8 times its roofline time; the
 * large one was recorded. */
TEST(each_repeat_is_measured_against_the_cost_of_its_own_input) {
    const double ms[] = { 10, 1000, 10.1, 1010, 10 }, flops[] = { 1e9, 25e9, 1e9, 25e9, 1e9 };
    const double bytes[] = { 1e6, 25e6, 1e6, 25e6, 1e6 }, floor_ms[] = { 5, 125, 5, 125, 5 };
    const double tokens[] = { 10, 250, 10, 250, 10 };
    const uint32_t input[] = { 0, 1, 0, 1, 0 };
    const struct analyze_work work = {
        .tokens = 10, .flops = 1e9, .bytes = 1e6, .floor_ms = 5, .recorded_ms = 2010
    };
    const struct analyze_timing timings[] = { { .stage = "prefill",
                                                .n = 5,
                                                .ms = ms,
                                                .input = input,
                                                .recorded_input = 1,
                                                .flops = flops,
                                                .bytes = bytes,
                                                .floor_ms = floor_ms,
                                                .tokens_in = tokens,
                                                .work = &work } };
    const struct analyze_input in = {
        .timings = timings, .ntimings = 1, .one_run = true, .peak_flops_per_s = 2e11, .peak_bytes_per_s = 1e9
    };
    struct analysis a;
    analyze_run(NULL, &in, &a);
    const struct analysis_stage *s = &a.stages[0];
    CHECK_NEAR(s->time_ms, 10.1, 1e-12);
    CHECK_NEAR(s->distance, 2.02, 1e-12); /* the median of 2, 8, 2.02, 8.08, 2 */
    CHECK_NEAR(s->mfu, 1 / 2.02, 1e-9);
    CHECK_NEAR(s->tokens_per_s, 10 / 0.0101, 1e-6);
    CHECK_NEAR(s->same_input_ms, 1005, 1e-9);
    CHECK_NEAR(s->same_input_floor_ms, 125, 1e-9);
    CHECK_NEAR(s->recording_cost, 2, 1e-9); /* compared with the repeats of the recorded input */
    CHECK(s->timing_ms.cv < 0.01);
    CHECK(!a.stability[0].unstable);
    CHECK_INT(a.stability[0].outliers, 0);
    analysis_free(&a);
}

/* Two repeats of each of two inputs: the medians lie between the inputs. */
TEST(a_distance_that_is_no_ratio_of_medians_is_said_to_be_a_median) {
    const double ms[] = { 10, 1000, 10.2, 1020 }, floor_ms[] = { 5, 125, 5, 125 }, bytes[] = { 1, 25, 1, 25 };
    const uint32_t input[] = { 0, 1, 0, 1 };
    for (int mixed = 0; mixed < 2; mixed++) {
        const struct analyze_work work = { .flops = 1, .bytes = 1, .floor_ms = mixed ? 65 : 5 };
        const struct analyze_timing timings[] = { { .stage = "prefill",
                                                    .n = mixed ? 4 : 1,
                                                    .ms = ms,
                                                    .input = input,
                                                    .bytes = bytes,
                                                    .floor_ms = floor_ms,
                                                    .work = &work } };
        const struct analyze_input in = { .timings = timings,
                                          .ntimings = 1,
                                          .one_run = true,
                                          .peak_flops_per_s = 2e11,
                                          .peak_bytes_per_s = 1e9 };
        struct analysis a;
        analyze_run(NULL, &in, &a);
        CHECK_NEAR(a.stages[0].distance, mixed ? 5.02 : 2, 1e-9);
        CHECK(analysis_inputs_differ(&a.stages[0]) == mixed);
        analysis_free(&a);
    }
}

TEST(a_stage_whose_repeats_all_failed_has_no_time) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 40 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { NAN, NAN };
    const bool failed[] = { true, true };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 2, .ms = ms, .failed = failed } };
    analyze_run(tl, &(struct analyze_input){ .timings = timings, .ntimings = 1, .one_run = true }, &a);
    CHECK(isnan(scene_stage(&a, "decode")->time_ms));
    CHECK_STR(scene_stage(&a, "decode")->time_source, "none: 2 timed repeats failed");
    analysis_free(&a);
    timeline_close(tl);
}

/* Normal samples of 8 to 20 values: at most 1% of the samples may have an outlier (here 2 to 13 of 1,300). */
TEST(normal_repeats_have_no_outliers) {
    uint64_t draw = 7;
    int flagged = 0, samples = 0;
    for (size_t n = 8; n <= 20; n++)
        for (int k = 0; k < 100; k++) {
            double ms[20];
            for (size_t i = 0; i < n; i++) {
                double u = ((double)(hash_u64(++draw) >> 11) + 0.5) / 9007199254740992.0,
                       w = ((double)(hash_u64(++draw) >> 11) + 0.5) / 9007199254740992.0;
                ms[i] = 100 + sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
            }
            const struct analyze_timing t = { .stage = "decode", .n = n, .ms = ms };
            struct analysis a;
            analyze_run(NULL, &(struct analyze_input){ .timings = &t, .ntimings = 1, .one_run = true }, &a);
            flagged += a.stability[0].outliers > 0;
            samples++;
            analysis_free(&a);
        }
    CHECK_INT(samples, 1300);
    CHECK(flagged <= 19); /* 13 expected at most, with a standard deviation of 3.6 */
}
