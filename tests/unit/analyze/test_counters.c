/* From a timeline with samples to the values in the kernel and stage tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/counters.h"
#include "unit/test.h"

#define STEPS 400

/* Each step: a memory-bound kernel of 60 us, a tensor kernel of 40 us, 20 us idle; samples of 50 us. */
static bool with_ghost; /* a kernel in the pause that has no effect on the samples */

static bool with_short; /* the time of the memory-bound kernel belongs to 30 kernels of 2 us */

static bool with_chip; /* the trace names the chip */

static uint64_t nstages = 1; /* number of stages that share the steps; the first is "decode" */

static void add_stage(struct timeline_builder *b, uint64_t i) {
    char name[32] = "decode";
    if (i > 0) snprintf(name, sizeof name, "part%llu", (unsigned long long)i);
    struct trace_range stage = { .start_ns = 1000 + STEPS / nstages * i * 120000,
                                 .end_ns = 1000 + STEPS / nstages * (i + 1) * 120000,
                                 .category = TRACE_CATEGORY_STAGE,
                                 .name = timeline_builder_text(b, name),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    timeline_builder_range(b, &stage, 1);
}

/* As Nsight Systems calls the metrics; its clock is in Hz, whatever the name says. */
static const char nsys_metrics[] =
    "SMs Active [Throughput %];Tensor Active [Throughput %];DRAM Read Bandwidth "
    "[Throughput %];DRAM Write Bandwidth [Throughput %];GPC Clock Frequency [MHz]";
static const char *metric_names =
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed;sm__pipe_tensor_cycles_"
    "active.avg.x;dram__read_throughput.avg.x;"
    "dram__write_throughput.avg.x;gpc__cycles_elapsed.avg.per_second";
static uint32_t sampled_as; /* number of the GPU in the samples */

static struct timeline *make_timeline_of(uint64_t sampled_steps) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
    timeline_builder_meta(b, "device.0.sm_clock_khz", "1980000");
    if (with_chip) {
        timeline_builder_meta(b, "device.0.sms", "132");
        timeline_builder_meta(b, "device.0.cc", "9.0");
    }
    uint32_t names[2] = { timeline_builder_text(b, "gemv"), timeline_builder_text(b, "gemm") };
    uint32_t metrics = timeline_builder_text(b, metric_names);
    for (uint64_t i = 0; i < nstages; i++) add_stage(b, i);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t at = 1000 + i * 120000;
        struct trace_kernel k[2] = {
            { .start_ns = at, .end_ns = at + 60000, .name = names[0], .grid_x = 64 },
            { .start_ns = at + 60000, .end_ns = at + 100000, .name = names[1], .grid_x = 132 }
        };
        timeline_builder_kernel(b, k + with_short, 2u - with_short);
        for (uint64_t part = 0; with_short && part < 30; part++) {
            struct trace_kernel one = k[0];
            one.start_ns = at + part * 2000;
            one.end_ns = one.start_ns + 2000;
            timeline_builder_kernel(b, &one, 1);
        }
        struct trace_kernel ghost = { .start_ns = at + 100000,
                                      .end_ns = at + 120000,
                                      .name = timeline_builder_text(b, "ghost"),
                                      .grid_x = 1 };
        if (with_ghost) timeline_builder_kernel(b, &ghost, 1);
    }
    for (uint64_t t = 1000; t + 50000 <= 1000 + sampled_steps * 120000; t += 50000) {
        double share[2] = { 0 };
        for (uint64_t ns = t; ns < t + 50000; ns += 10000) {
            uint64_t phase = (ns - 1000) % 120000;
            if (phase < 60000)
                share[0] += 0.2;
            else if (phase < 100000)
                share[1] += 0.2;
        }
        struct trace_sample s = {
            .start_ns = t, .end_ns = t + 50000, .metrics = metrics, .device = sampled_as
        };
        s.v0 = 80 * share[0] + 95 * share[1];
        s.v1 = 3 * share[0] + 92 * share[1];
        s.v2 = 86 * share[0] + 15 * share[1];
        s.v3 = 1 * share[0] + 2 * share[1];
        s.v4 = 1.98e9;
        timeline_builder_sample(b, &s, 1);
    }
    return timeline_builder_finish(b);
}

static struct timeline *make_timeline(void) { return make_timeline_of(STEPS); }

static const struct counter_row *row_named(const struct analysis *a, const char *name) {
    for (uint32_t k = 0; k < a->nkernels; k++)
        if (a->kernels[k].name && a->kernels[k].name[3] == name[3]) return counters_of_kernel(a->counters, k);
    return NULL;
}

static void check_counters(void) {
    struct timeline *tl = make_timeline();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    CHECK(a.counters != NULL && a.counters->samples > 100);
    CHECK_NEAR(a.counters->interval_ns, 50000, 1);
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
    CHECK_NEAR(gemv->exposure_ns, STEPS * 60000.0, STEPS * 600.0);
    const struct counter_means *st = a.stages[0].counters;
    CHECK(st != NULL);
    CHECK_NEAR(st->mean[COUNTER_SM], (80 * 6 + 95 * 4) / 12.0, 0.2);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(short_kernels_are_not_good_and_have_no_clock) {
    with_short = true;
    struct timeline *tl = make_timeline();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    const struct counter_row *gemv = row_named(&a, "gemv"), *gemm = row_named(&a, "gemm");
    CHECK(gemv && gemm);
    CHECK_INT(gemv->quality, COUNTER_FAIR);
    CHECK(isnan(gemv->value[COUNTER_CLOCK]));
    CHECK(!isnan(gemm->value[COUNTER_CLOCK]));
    analysis_free(&a);
    timeline_close(tl);
    with_short = false;
}

TEST(counters_reach_kernels_and_stages_with_bound_and_quality) { check_counters(); }

TEST(counters_of_nsight_systems_have_the_same_meaning) {
    const char *own = metric_names;
    metric_names = nsys_metrics;
    check_counters();
    metric_names = own;
}

TEST(the_only_sampled_gpu_is_the_one_with_kernels_whatever_its_number) {
    sampled_as = 3;
    check_counters();
    sampled_as = 0;
}

/* GEMM: 92% of the tensor cycles at the highest clock, 17% of the memory's peak. Its roofline point
 * follows from these values alone. */
TEST(counters_place_kernels_under_the_roof) {
    struct timeline *tl = make_timeline();
    struct analysis a;
    const struct analyze_input in = { .peak_flops_per_s = 1e15, .peak_bytes_per_s = 4e12 };
    analyze_run(tl, &in, &a);
    const struct counter_row *gemm = row_named(&a, "gemm");
    struct analysis_point at = { .source = "" };
    for (size_t i = 0; i < a.nroofline; i++)
        if (a.roofline[i].kernel == gemm->kernel) at = a.roofline[i];
    CHECK_STR(at.source, "counters");
    CHECK_NEAR(at.flop_per_s, gemm->tensor_at_peak_pct / 100 * 1e15, 1e9);
    CHECK_NEAR(at.byte_per_s / 1e12, 0.17 * 4, 0.03);
    CHECK_NEAR(at.intensity, at.flop_per_s / at.byte_per_s, 1e-6);
    CHECK(!at.memory_bound);
    CHECK_NEAR(at.attained, gemm->tensor_at_peak_pct / 100, 1e-9);
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

/* Means of the scene: DRAM 87% for 6 of 12 us and 17% for 4; tensor 3% and 92%. */
#define DRAM_PCT ((87 * 6 + 17 * 4) / 12.0)
#define TENSOR_PCT ((3 * 6 + 92 * 4) / 12.0)
#define SECONDS (STEPS * 120e-6)

static const struct analysis_finding *compare_with(double mbu_pct, double mfu_pct, uint64_t sampled_steps,
                                                   struct analysis *a, struct timeline **tl) {
    static struct analyze_cost cost;
    static struct analyze_input in;
    cost = (struct analyze_cost){ "decode", false, mfu_pct / 100 * SECONDS * 1e15,
                                  mbu_pct / 100 * SECONDS * 4.8e12, NAN };
    in = (struct analyze_input){
        .costs = &cost, .ncosts = 1, .peak_flops_per_s = 1e15, .peak_bytes_per_s = 4.8e12
    };
    *tl = make_timeline_of(sampled_steps);
    analyze_run(*tl, &in, a);
    for (size_t i = 0; i < a->nfindings; i++)
        if (strcmp(a->findings[i].rule, "model-vs-counters") == 0) return &a->findings[i];
    return NULL;
}

static bool says_differs(double mbu_pct, double mfu_pct, uint64_t sampled_steps, const char *title_has) {
    struct timeline *tl;
    struct analysis a;
    const struct analysis_finding *f = compare_with(mbu_pct, mfu_pct, sampled_steps, &a, &tl);
    bool found = f && (!title_has || strstr(f->title, title_has));
    analysis_free(&a);
    timeline_close(tl);
    return found;
}

TEST(model_and_counters_are_compared_over_the_recorded_time) {
    struct timeline *tl;
    struct analysis a;
    CHECK(compare_with(DRAM_PCT, TENSOR_PCT, STEPS, &a, &tl) == NULL);
    const struct counter_means *st = a.stages[0].counters;
    CHECK_NEAR(st->covered, 1, 0.01);
    CHECK_NEAR(st->dram_pct, DRAM_PCT, 0.2);
    CHECK_NEAR(st->dram_bytes_per_s, DRAM_PCT / 100 * 4.8e12, 1e10);
    CHECK_NEAR(st->tensor_at_peak_pct, TENSOR_PCT, 0.2); /* it ran at the highest clock */
    CHECK_NEAR(100 * a.stages[0].recorded_mbu, DRAM_PCT, 0.1);
    CHECK_NEAR(100 * a.stages[0].recorded_mfu, TENSOR_PCT, 0.1);
    CHECK_NEAR(row_named(&a, "gemv")->dram_pct, 87, 0.5);
    CHECK_NEAR(row_named(&a, "gemv")->dram_bytes_per_s, 0.87 * 4.8e12, 5e10);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_model_far_from_the_counters_is_a_finding) {
    CHECK(says_differs(DRAM_PCT / 2, TENSOR_PCT, STEPS, "49.2% of the memory bandwidth"));
    CHECK(says_differs(DRAM_PCT, TENSOR_PCT * 2, STEPS, "of the tensor peak"));
    CHECK(!says_differs(DRAM_PCT * 0.85, TENSOR_PCT * 1.15, STEPS, NULL)); /* within a fifth */
    CHECK(!says_differs(NAN, NAN, STEPS, NULL));                           /* no model */
}

/* Each of sixteen stages has a saving. The finding that contradicts the model has none, but must still be
 * listed. */
TEST(a_contradicted_model_is_never_cut_from_the_findings) {
    struct timeline *tl;
    struct analysis a;
    size_t others = 0;
    nstages = 16;
    with_chip = true;
    const struct analysis_finding *f = compare_with(DRAM_PCT / 32, TENSOR_PCT / 16, STEPS, &a, &tl);
    nstages = 1;
    with_chip = false;
    CHECK(f && strstr(f->title, "decode: counters measured"));
    CHECK_INT(a.nfindings, 12); /* others were cut */
    for (size_t i = 0; i < a.nfindings; i++) others += a.findings[i].saving_ms > 0;
    CHECK_INT(others, 11);
    analysis_free(&a);
    timeline_close(tl);
}

/* 989.4 TFLOP/s is the peak of 132 multiprocessors at 1.83 GHz. */
TEST(tensor_activity_is_taken_to_the_clock_of_the_peak) {
    with_chip = true;
    struct timeline *tl = make_timeline();
    with_chip = false;
    struct analysis a;
    struct analyze_input in = { .peak_flops_per_s = 989.4e12, .peak_bytes_per_s = 4.8e12 };
    analyze_run(tl, &in, &a);
    CHECK_NEAR(a.stages[0].counters->tensor_at_peak_pct, TENSOR_PCT * 1.98 / 1.83, 0.3);
    CHECK_NEAR(row_named(&a, "gemm")->roof_pct, 92 * 1.98 / 1.83, 0.8);
    CHECK_NEAR(row_named(&a, "gemv")->roof_pct, 87, 0.5);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_copy_is_no_idle_time) {
    struct timeline_builder *b = timeline_builder_open();
    struct analysis a;
    timeline_builder_process(b, "a.ipt");
    uint32_t name = timeline_builder_text(b, "kernel"),
             metrics = timeline_builder_text(b, "sm__cycles_active.avg.x;dram__read_throughput.avg.x");
    for (uint64_t i = 0; i < 300;
         i++) { /* 4 us of kernel, 4 us of copy that begins during the kernel, 4 us idle */
        uint64_t at = 1000 + i * 12000;
        struct trace_kernel k = { .start_ns = at, .end_ns = at + 4000, .name = name, .grid_x = 64 };
        struct trace_copy c = {
            .start_ns = at + 2000, .end_ns = at + 8000, .copy_kind = TRACE_COPY_DTOD, .bytes = 1
        };
        timeline_builder_kernel(b, &k, 1);
        timeline_builder_copy(b, &c, 1);
    }
    for (uint64_t t = 1000; t + 5000 <= 1000 + 300 * 12000; t += 5000) {
        double kernel = 0, copy = 0;
        for (uint64_t ns = t; ns < t + 5000; ns += 1000) {
            uint64_t phase = (ns - 1000) % 12000;
            kernel += phase < 4000 ? 0.2 : 0;
            copy += phase >= 4000 && phase < 8000 ? 0.2 : 0;
        }
        struct trace_sample s = { .start_ns = t, .end_ns = t + 5000, .metrics = metrics };
        s.v0 = 70 * kernel;
        s.v1 = 20 * kernel + 60 * copy;
        timeline_builder_sample(b, &s, 1);
    }
    struct timeline *tl = timeline_builder_finish(b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.counters->nrows, 1);
    CHECK_NEAR(a.counters->rows[0].value[COUNTER_SM], 70, 0.5);
    CHECK_NEAR(a.counters->rows[0].value[COUNTER_DRAM_READ], 20, 0.5);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(few_samples_are_no_evidence_against_the_model) {
    CHECK(says_differs(DRAM_PCT / 2, TENSOR_PCT, STEPS * 6 / 10, NULL));
    CHECK(!says_differs(DRAM_PCT / 2, TENSOR_PCT, STEPS * 4 / 10, NULL));
}

TEST(a_kernel_that_the_samples_do_not_show_is_unknown_not_zero) {
    struct analysis a;
    with_ghost = true;
    struct timeline *tl = make_timeline();
    with_ghost = false;
    analyze_run(tl, NULL, &a);
    const struct counter_row *ghost = row_named(&a, "ghost"), *gemv = row_named(&a, "gemv");
    CHECK(ghost && gemv);
    CHECK(ghost->exposure > 20);
    CHECK_INT(ghost->quality, COUNTER_UNKNOWN);
    CHECK_INT(ghost->bound, COUNTER_BOUND_UNKNOWN);
    CHECK(isnan(ghost->value[COUNTER_SM]) && isnan(ghost->dram_pct) && isnan(ghost->value[COUNTER_CLOCK]));
    CHECK_NEAR(gemv->value[COUNTER_SM], 80, 0.5);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two GPUs with a kernel class of the same name: each is fitted with its own samples. On the second GPU,
 * another kernel runs at the same time. */
TEST(each_gpu_is_fitted_by_its_own_samples) {
    struct timeline_builder *b = timeline_builder_open();
    struct analysis a;
    timeline_builder_process(b, "a.ipt");
    uint32_t one = timeline_builder_text(b, "kernel"), other = timeline_builder_text(b, "beside"),
             metrics = timeline_builder_text(b, "sm__cycles_active.avg.x");
    for (uint64_t i = 0; i < 300; i++) { /* 60 us of work, 60 us idle */
        uint64_t at = 1000000 + i * 120000;
        for (uint32_t d = 0; d < 2; d++) {
            struct trace_kernel k = {
                .start_ns = at, .end_ns = at + 60000, .name = one, .grid_x = 64, .device = d
            };
            timeline_builder_kernel(b, &k, 1);
            k.name = other;
            k.stream = 2;
            if (d == 1) timeline_builder_kernel(b, &k, 1);
            struct trace_sample s[2] = {
                { .start_ns = at, .end_ns = at + 60000, .metrics = metrics, .device = d, .v0 = d ? 30 : 70 },
                { .start_ns = at + 60000, .end_ns = at + 120000, .metrics = metrics, .device = d }
            };
            timeline_builder_sample(b, s, 2);
        }
    }
    struct timeline *tl = timeline_builder_finish(b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.counters->nrows, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct counter_row *r = &a.counters->rows[i];
        uint32_t device = tl->shapes[a.kernels[r->kernel].shape].device;
        CHECK_NEAR(r->value[COUNTER_SM], device ? 30 : 70, 0.5);
        CHECK_NEAR(r->exposure, device ? 150 : 300, 1); /* half of the time, because two kernels run */
    }
    CHECK_NEAR(a.counters->concurrent, 0.5, 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}
