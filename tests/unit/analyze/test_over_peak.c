/* Ratios beyond their limits are explained, and operators are measured against the peak of their type. */
#include <math.h>
#include <string.h>

#include "llm/gpus.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

/* A stage of 10 ms that was timed but not recorded. */
struct over_case {
    struct analyze_cost cost;
    const char *source; /* of the peaks: 1 TFLOP/s, 1 GB/s */
    const char *brief;  /* NULL: nothing to explain */
    const char *text;   /* a part of it */
    bool on_gpu;
};

static void check_case(const struct over_case *t) {
    const double ms[] = { 10 };
    struct err err;
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 1, .ms = ms } };
    const struct analyze_input in = { .timings = timings,
                                      .ntimings = 1,
                                      .costs = &t->cost,
                                      .ncosts = 1,
                                      .one_run = true,
                                      .peak_flops_per_s = 1e12,
                                      .peak_bytes_per_s = 1e9,
                                      .peak_source = t->source,
                                      .gpu = t->on_gpu ? llm_gpu_find("H100", &err) : NULL };
    struct analysis a;
    analyze_run(NULL, &in, &a);
    const struct analysis_stage *s = &a.stages[0];
    if (t->brief) {
        CHECK_STR(s->over.brief, t->brief);
        if (!strstr(s->over.text, t->text)) fprintf(stderr, "'%s' is not in '%s'\n", t->text, s->over.text);
        CHECK(strstr(s->over.text, t->text));
    } else {
        CHECK(!s->over.brief);
        CHECK(!s->over.text);
    }
    bool model_over = a.model_mfu > 1 || a.model_mbu > 1;
    CHECK_INT(model_over, a.model_over.text != NULL);
    analysis_free(&a);
}

#define COST(f, b, ms, ...) \
    { .stage = "decode", .flops = (f), .bytes = (b), .floor_ns = (ms)*1e6, __VA_ARGS__ }

TEST(a_ratio_beyond_its_limit_has_a_reason_with_evidence) {
    const struct over_case cases[] = {
        { COST(5e9, 5e6, 8, ), "measured", NULL, "", false },
        { COST(10e9, 10e6, 10, ), "measured", NULL, "", false }, /* exactly at the limit */
        { COST(5e9, 25e6, 25, .step_bytes = 25e6), "measured on this CPU", "weights in a CPU cache",
          "distance 0.40x, MBU 250.0%: the bandwidth is that of reading DRAM, and the 25.0 MB", false },
        { COST(5e9, 25e6, 25, .step_bytes = 25e6), "measured on this CPU by working-set size",
          "above the measured peaks", "distance 0.40x, MBU 250.0%", false },
        { COST(5e9, 25e6, 25, ), "measured on this CPU while it was busy", "peaks measured on a busy CPU",
          "calibrate", false },
        { COST(25e9, 5e6, 25, ), "peak FLOP/s given by peak.tflops", "peaks given by the user",
          "distance 0.40x, MFU 250.0%", false },
        { COST(8e9, 8e6, 12, ), "datasheet", "operators overlap", "the hard bound of 8 ms is not beaten",
          true },
        { COST(5e9, 25e6, 25, .step_bytes = 25e6), "datasheet", "data in the L2 cache", "25.0 MB", true },
        { COST(5e9, 25e9, 25, .step_bytes = 25e9), "datasheet", "cost or peaks of another run", "MBU", true },
        { COST(5e9, 25e9, 25, .step_bytes = 25e9, .experts_assumed = true), "datasheet",
          "fewer experts read than assumed", "uneven routing", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_case(&cases[i]);
}

TEST(the_peaks_of_a_cost_replace_those_of_the_device) {
    const double ms[] = { 10 };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 1, .ms = ms } };
    const struct analyze_cost cost = COST(5e9, 25e6, 5, .peak_flops_per_s = 2e12, .peak_bytes_per_s = 5e9);
    const struct analyze_input in = { .timings = timings,
                                      .ntimings = 1,
                                      .costs = &cost,
                                      .ncosts = 1,
                                      .one_run = true,
                                      .peak_flops_per_s = 1e12,
                                      .peak_bytes_per_s = 1e9 };
    struct analysis a;
    analyze_run(NULL, &in, &a);
    CHECK_NEAR(a.stages[0].mfu, 0.25, 1e-12);
    CHECK_NEAR(a.stages[0].mbu, 0.5, 1e-12);
    CHECK_NEAR(a.stages[0].hard_bound_ms, 5, 1e-12);
    CHECK(!a.stages[0].over.text);
    analysis_free(&a);
}

static const struct analysis_point *point(const struct analysis *a, const char *label) {
    for (size_t i = 0; i < a->nroofline; i++)
        if (strcmp(a->roofline[i].label, label) == 0) return &a->roofline[i];
    fail_msg("no point %s", label);
    return NULL;
}

TEST(operators_have_the_peak_of_their_type) {
    struct scene s;
    struct analysis a;
    struct err err;
    const struct llm_gpu *h100 = llm_gpu_find("H100", &err);
    scene_start(&s);
    scene_operator(&s, "aten::mm", "[1024,1024]f32 [1024,1024]f32", 1, 0, 1000);
    scene_kernel(&s, "ampere_sgemm_128x64_nn", 1, 200, 300, 7, 1000, 60000);
    scene_operator(&s, "aten::bmm", "[8,1024,1024]f32 [8,1024,1024]f32", 1, 2000, 3000);
    scene_kernel(&s, "cutlass_80_tensorop_s1688gemm_128x128", 1, 2100, 2200, 7, 60000, 160000);
    scene_operator(&s, "aten::addmm", "[1024]bf16 [1024,1024]bf16 [1024,1024]bf16", 1, 4000, 5000);
    scene_kernel(&s, "nvjet_tst", 1, 4100, 4200, 7, 160000, 170000);
    struct timeline *tl = timeline_builder_finish(s.b);
    struct analyze_input in = { .peak_flops_per_s = llm_gpu_flop_per_s(h100, LLM_BF16),
                                .peak_bytes_per_s = llm_gpu_bytes_per_s(h100),
                                .gpu = h100 };
    analyze_run(tl, &in, &a);
    CHECK_NEAR(point(&a, "aten::mm")->peak_flop_per_s, h100->fp32 * 1e12, 1);
    CHECK_NEAR(point(&a, "aten::bmm")->peak_flop_per_s, h100->tf32 * 1e12, 1);
    CHECK_NEAR(point(&a, "aten::addmm")->peak_flop_per_s, h100->bf16 * 1e12, 1);
    analysis_free(&a);
    in.gpu = NULL; /* a peak given by the user is for all types */
    in.peak_flops_per_s = 1e12;
    analyze_run(tl, &in, &a);
    CHECK_NEAR(point(&a, "aten::mm")->peak_flop_per_s, 1e12, 1);
    CHECK(point(&a, "aten::mm")->attained > 1);
    CHECK(point(&a, "aten::mm")->over.text);
    analysis_free(&a);
    timeline_close(tl);
}
