/* From a timeline with samples to what the kernel and stage tables show. */
#include <math.h>
#include <stdio.h>

#include "analyze/counters.h"
#include "unit/test.h"

#define STEPS 400

/* Each step: a memory-bound kernel of 6 us, a tensor kernel of 4 us, 2 us of nothing; samples of 5 us. */
static struct timeline *make_timeline(void) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
    uint32_t names[2] = { timeline_builder_text(b, "gemv"), timeline_builder_text(b, "gemm") };
    uint32_t metrics = timeline_builder_text(
        b,
        "sm__cycles_active.avg.pct_of_peak_sustained_elapsed;sm__pipe_tensor_cycles_active.avg.x;dram__read_throughput.avg.x;"
        "dram__write_throughput.avg.x;gpc__cycles_elapsed.avg.per_second");
    struct trace_range stage = { .start_ns = 1000,
                                 .end_ns = 1000 + STEPS * 12000,
                                 .category = TRACE_CATEGORY_STAGE,
                                 .name = timeline_builder_text(b, "decode"),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    timeline_builder_range(b, &stage, 1);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t at = 1000 + i * 12000;
        struct trace_kernel k[2] = {
            { .start_ns = at, .end_ns = at + 6000, .name = names[0], .grid_x = 64 },
            { .start_ns = at + 6000, .end_ns = at + 10000, .name = names[1], .grid_x = 132 }
        };
        timeline_builder_kernel(b, k, 2);
    }
    for (uint64_t t = 1000; t + 5000 <= 1000 + STEPS * 12000; t += 5000) {
        double share[2] = { 0 };
        for (uint64_t ns = t; ns < t + 5000; ns += 1000) {
            uint64_t phase = (ns - 1000) % 12000;
            if (phase < 6000)
                share[0] += 0.2;
            else if (phase < 10000)
                share[1] += 0.2;
        }
        struct trace_sample s = { .start_ns = t, .end_ns = t + 5000, .metrics = metrics };
        s.v0 = 80 * share[0] + 95 * share[1];
        s.v1 = 3 * share[0] + 92 * share[1];
        s.v2 = 86 * share[0] + 15 * share[1];
        s.v3 = 1 * share[0] + 2 * share[1];
        s.v4 = 1.98e9;
        timeline_builder_sample(b, &s, 1);
    }
    return timeline_builder_finish(b);
}

static const struct counter_row *row_named(const struct analysis *a, const char *name) {
    for (uint32_t k = 0; k < a->nkernels; k++)
        if (a->kernels[k].name && a->kernels[k].name[3] == name[3]) return counters_of_kernel(a->counters, k);
    return NULL;
}

TEST(counters_reach_kernels_and_stages_with_bound_and_quality) {
    struct timeline *tl = make_timeline();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    CHECK(a.counters != NULL);
    const struct counter_row *gemv = row_named(&a, "gemv"), *gemm = row_named(&a, "gemm");
    CHECK(gemv && gemm);
    CHECK_NEAR(gemv->value[COUNTER_SM], 80, 0.5);
    CHECK_NEAR(gemv->value[COUNTER_DRAM_READ], 86, 0.5);
    CHECK_NEAR(gemm->value[COUNTER_TENSOR], 92, 0.5);
    CHECK_NEAR(gemm->value[COUNTER_CLOCK], 1.98e9, 1e7);
    CHECK(isnan(gemm->value[COUNTER_OCCUPANCY])); /* was not sampled */
    CHECK_INT(gemv->bound, COUNTER_BOUND_MEMORY);
    CHECK_INT(gemm->bound, COUNTER_BOUND_COMPUTE);
    CHECK_INT(gemm->quality, COUNTER_GOOD);
    CHECK_NEAR(gemv->exposure_ns, STEPS * 6000.0, STEPS * 60.0);
    const struct counter_stage *st = counters_of_stage(a.counters, 0);
    CHECK(st != NULL);
    CHECK_NEAR(st->mean[COUNTER_SM], (80 * 6 + 95 * 4) / 12.0, 0.2);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(counters_are_absent_without_samples) {
    struct timeline_builder *b = timeline_builder_open();
    struct analysis a;
    timeline_builder_process(b, "a.ipt");
    struct timeline *tl = timeline_builder_finish(b);
    analyze_run(tl, NULL, &a);
    CHECK(a.counters == NULL);
    analysis_free(&a);
    timeline_close(tl);
}
