/* Rates, shares and parts of the timeline. */
#include <math.h>
#include <string.h>

#include "unit/analyze/scene.h"
#include "unit/test.h"

#define US 1000ull
#define MS 1000000ull

/* One request of 20 ms that is busy for 8 ms, and 4 timed repeats of two inputs. */
TEST(recorded_times_are_not_scaled_to_the_timed_repeats) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 20 * MS);
    scene_kernel(&s, "k", 1, 0, US, 7, 2 * MS, 10 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 9, 11, 29, 31 };
    const uint32_t input[] = { 0, 0, 1, 1 };
    const struct analyze_timing timings[] = { { .stage = "prefill", .n = 4, .ms = ms, .input = input } };
    analyze_run(tl, &(struct analyze_input){ .timings = timings, .ntimings = 1, .one_run = true }, &a);
    const struct analysis_stage *p = scene_stage(&a, "prefill");
    CHECK_NEAR(p->recorded_busy_ms, 8, 1e-9);
    CHECK(fabs(p->busy_ms - 8) > 1); /* of the timed repeats */
    CHECK_NEAR(p->idle_share + p->busy_share, 1, 1e-12);
    CHECK_NEAR(p->total_ms, 80, 1e-9);
    CHECK(p->spread_ms < 3); /* 20 ms between the inputs do not count */
    CHECK_NEAR(p->idle_ms, p->idle_ns * 1e-6, 1e-9);
    double by_cause = 0;
    for (int k = 0; k < ANALYSIS_IDLE_CAUSES; k++) by_cause += p->idle_cause_ms[k];
    CHECK_NEAR(by_cause, p->idle_ms, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* A product of 2 x 64 x 64 x 64 FLOPs in 1 ms, and 4 ms of communication, of which the product hides 1 ms. */
TEST(rates_and_shares_of_rows) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_operator(&s, "aten::mm", "[64,64]f32 [64,64]f32", 1, 0, 100 * US);
    scene_kernel(&s, "sgemm", 1, 10 * US, 20 * US, 7, 1 * MS, 2 * MS);
    scene_kernel(&s, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 200 * US, 210 * US, 8, 1 * MS, 5 * MS);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    size_t row = 0;
    while (row < a.noperators && strcmp(a.operators[row].name, "aten::mm") != 0) row++;
    CHECK(row < a.noperators);
    const struct analysis_operator *mm = &a.operators[row];
    CHECK_NEAR(mm->flop_per_s, 2 * 64 * 64 * 64 / 1e-3, 1);
    CHECK_NEAR(mm->device_share, mm->gpu_self_ns / a.conservation.busy, 1e-12);
    CHECK_NEAR(a.devices[0].communication_exposed_ns, 3 * MS, 1);
    CHECK_NEAR(a.devices[0].communication_overlap, 0.25, 1e-9);
    CHECK_NEAR(a.devices[0].exposed_share, 0.75, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(parts_of_a_timeline_add_up) {
    struct scene s;
    struct analysis a;
    double share = 0;
    scene_start(&s);
    for (uint64_t i = 0; i < 3; i++) {
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 10 * i * MS, (10 * i + 8) * MS);
        scene_kernel(&s, "k", 1, 10 * i * MS, 10 * i * MS + US, 7, (10 * i + 1) * MS, (10 * i + 5) * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(a.nparts >= 2);
    CHECK_STR(a.parts[0].name, "decode");
    CHECK_INT(a.parts[0].steps, 3);
    for (size_t i = 0; i < a.nparts; i++) share += a.parts[i].share;
    CHECK_NEAR(share, 1, 1e-9);
    CHECK_NEAR(a.parts[0].busy_share, a.parts[0].busy_ns / a.parts[0].time_ns, 1e-12);
    analysis_free(&a);
    timeline_close(tl);
}
