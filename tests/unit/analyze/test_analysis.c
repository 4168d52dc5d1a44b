#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

#define US 1000ull
#define MS 1000000ull

static double idle_us(const struct analysis_stage *s, enum analysis_idle_cause cause) {
    return s->idle.ns[cause] / 1e3;
}

/* One gap of each kind on one device. */
TEST(idle_time_is_given_to_its_cause) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 10 * MS);
    scene_kernel(&s, "k", 1, 0, 5 * US, 7, 10 * US, 100 * US);
    scene_kernel(&s, "k", 1, 20 * US, 25 * US, 7, 102 * US, 200 * US);   /* 2 us: queued, same stream */
    scene_kernel(&s, "k", 1, 190 * US, 195 * US, 8, 203 * US, 300 * US); /* 3 us: queued, another stream */
    scene_kernel(&s, "k", 1, 310 * US, 314 * US, 7, 317 * US, 400 * US); /* 17 us: host 10 us late, running */
    scene_sync(&s, 1, 330 * US, 420 * US);
    scene_kernel(&s, "k", 1, 425 * US, 428 * US, 7, 430 * US,
                 500 * US); /* 30 us: held in a synchronisation */
    timeline_builder_copy(s.b,
                          &(struct trace_copy){ .start_ns = 505 * US,
                                                .end_ns = 540 * US,
                                                .stream = 7,
                                                .bytes = 1000,
                                                .correlation = 999,
                                                .copy_kind = TRACE_COPY_DTOH },
                          1);
    timeline_builder_launch(s.b,
                            &(struct trace_launch){ .start_ns = 428 * US,
                                                    .end_ns = 430 * US,
                                                    .thread = 1,
                                                    .correlation = 999,
                                                    .api = timeline_builder_text(s.b, "cudaMemcpyAsync") },
                            1);
    scene_kernel(&s, "k", 1, 430 * US, 433 * US, 7, 545 * US, 600 * US); /* 5 us before the copy, 5 after */
    scene_kernel(&s, "k", 1, 2000 * US, 2005 * US, 7, 2008 * US, 2100 * US); /* 1408 us: no call for long */
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK(d->idle_known);
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_DEVICE), 2 + 5 + 5, 1e-6);
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_DEPENDENCY), 3, 1e-6);
    /* includes the time before the first kernel */
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_LAUNCH), 10 + 17, 1e-6);
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_SYNC), 30, 1e-6);
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_UNKNOWN), 0, 0);
    /* includes the time after the last kernel */
    CHECK_NEAR(idle_us(d, ANALYSIS_IDLE_NO_WORK), 1408 + 7900, 1e-6);
    CHECK_NEAR(d->idle_ns / 1e3, 10 + 2 + 3 + 17 + 30 + 5 + 5 + 1408 + 7900, 1e-6);
    CHECK_NEAR(d->copy_alone_ns / 1e3, 35, 1e-6);
    CHECK_NEAR(d->wall_total_ns, 10 * MS, 1e-6);
    CHECK_INT(d->syncs, 1);
    CHECK_INT(d->idle.gaps, 9);
    analysis_free(&a);
    timeline_close(tl);
}

static void copy_home(struct scene *s, uint64_t call, uint64_t call_end, uint64_t start, uint64_t end) {
    struct trace_launch l = { .start_ns = call,
                              .end_ns = call_end,
                              .thread = 1,
                              .correlation = ++s->correlation,
                              .api = timeline_builder_text(s->b, "cudaMemcpyAsync") };
    struct trace_copy c = { .start_ns = start,
                            .end_ns = end,
                            .stream = 7,
                            .bytes = 4,
                            .correlation = s->correlation,
                            .copy_kind = TRACE_COPY_DTOH };
    timeline_builder_launch(s->b, &l, 1);
    timeline_builder_copy(s->b, &c, 1);
}

static double sync_us(struct scene *s) {
    struct analysis a;
    struct timeline *tl = timeline_builder_finish(s->b);
    analyze_run(tl, NULL, &a);
    double us = idle_us(scene_stage(&a, "decode"), ANALYSIS_IDLE_SYNC);
    analysis_free(&a);
    timeline_close(tl);
    return us;
}

static void first_kernel(struct scene *s, uint64_t end) {
    scene_start(s);
    scene_range(s, TRACE_CATEGORY_STAGE, "decode", 1, 0, MS);
    scene_kernel(s, "k", 1, 0, 5 * US, 7, 10 * US, end);
}

TEST(a_synchronisation_of_an_idle_device_is_no_cause) {
    struct scene s;
    first_kernel(&s, 100 * US);
    scene_sync(&s, 1, 120 * US, 121 * US);
    scene_kernel(&s, "k", 1, 150 * US, 155 * US, 7, 158 * US, MS);
    CHECK_NEAR(sync_us(&s), 0, 0);

    first_kernel(&s, 100 * US); /* the host waits for the device; a second call finds it idle */
    scene_sync(&s, 1, 20 * US, 105 * US);
    scene_sync(&s, 1, 120 * US, 121 * US);
    scene_kernel(&s, "k", 1, 150 * US, 155 * US, 7, 158 * US, MS);
    CHECK_NEAR(sync_us(&s), 58, 1e-6);

    first_kernel(&s, 100 * US); /* the call itself takes most of the gap */
    scene_sync(&s, 1, 110 * US, 148 * US);
    scene_kernel(&s, "k", 1, 150 * US, 155 * US, 7, 158 * US, MS);
    CHECK_NEAR(sync_us(&s), 58, 1e-6);
}

/* A copy to pageable memory returns when it is done; the synchronisation after it then returns at once. */
TEST(a_copy_that_waits_for_the_device_is_a_synchronisation) {
    struct scene s;
    first_kernel(&s, 500 * US);
    copy_home(&s, 20 * US, 515 * US, 500 * US, 510 * US);
    scene_sync(&s, 1, 516 * US, 517 * US);
    scene_kernel(&s, "k", 1, 560 * US, 563 * US, 7, 565 * US, MS);
    CHECK_NEAR(sync_us(&s), 55, 1e-6);

    first_kernel(&s, 15 * US); /* the device is idle when the host copies */
    copy_home(&s, 20 * US, 30 * US, 24 * US, 26 * US);
    scene_sync(&s, 1, 31 * US, 32 * US);
    scene_kernel(&s, "k", 1, 60 * US, 63 * US, 7, 65 * US, MS);
    CHECK_NEAR(sync_us(&s), 0, 0);

    first_kernel(&s, 500 * US); /* an asynchronous copy, whose short call returns after the copy */
    copy_home(&s, 495 * US, 511 * US, 500 * US, 510 * US);
    scene_kernel(&s, "k", 1, 560 * US, 563 * US, 7, 565 * US, MS);
    CHECK_NEAR(sync_us(&s), 0, 0);
}

/* The host waits for a copy and then makes no call for 9 ms: that time is other work. The synchronisation
 * before the next launch finds an idle device. */
TEST(the_time_after_a_wait_in_which_the_host_makes_no_call_is_no_synchronisation) {
    struct scene s;
    first_kernel(&s, 500 * US);
    copy_home(&s, 20 * US, 515 * US, 500 * US, 510 * US);
    scene_sync(&s, 1, 9990 * US, 9991 * US);
    scene_kernel(&s, "k", 1, 10 * MS, 10 * MS + 3 * US, 7, 10 * MS + 5 * US, 11 * MS);
    CHECK_NEAR(sync_us(&s), 5, 1e-6);
}

/* Many short kernels with gaps, for which idle time would normally be classified. */
static void gaps(struct scene *s, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t t = (uint64_t)i * 10 * US;
        scene_kernel(s, "k", 1, t, t + 3 * US, 7, t + 4 * US, t + 6 * US);
    }
}

static struct timeline *gaps_only(struct scene *s) {
    scene_start(s);
    scene_range(s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 10 * MS);
    gaps(s, 1000);
    return NULL;
}

TEST(idle_verdicts_are_refused_when_the_data_cannot_support_them) {
    struct scene s;
    struct analysis a;
    gaps_only(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(scene_finding(&a, "launch-bound") != NULL);
    analysis_free(&a);
    timeline_close(tl);

    gaps_only(&s); /* more than 0.1% of the kernels lost */
    timeline_builder_lost(s.b, TRACE_KERNEL, 2);
    tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(!scene_stage(&a, "decode")->idle_known);
    CHECK(scene_finding(&a, "launch-bound") == NULL);
    CHECK(a.nnotes >= 2);
    analysis_free(&a);
    timeline_close(tl);

    gaps_only(&s); /* a graph recorded as one block */
    timeline_builder_kernel(
        s.b,
        &(struct trace_kernel){
            .start_ns = 9 * MS, .end_ns = 9 * MS + 500, .correlation = 5, .graph = 3, .stream = 7 },
        1);
    tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(strstr(scene_stage(&a, "decode")->idle_refused, "graphs") != NULL);
    CHECK(scene_finding(&a, "launch-bound") == NULL);
    analysis_free(&a);
    timeline_close(tl);

    for (uint64_t missing = 10; missing <= 100; missing += 90) { /* 1% bounds the doubt, 9% is too much */
        gaps_only(&s); /* launches whose kernels are missing, between others that are there */
        for (uint64_t i = 0; i < missing; i++)
            timeline_builder_launch(
                s.b,
                &(struct trace_launch){ .start_ns = i * MS * 5 / missing + 7 * US,
                                        .end_ns = i * MS * 5 / missing + 8 * US,
                                        .correlation = 5000 + i,
                                        .thread = 1,
                                        .api = timeline_builder_text(s.b, "cudaLaunchKernel") },
                1);
        tl = timeline_builder_finish(s.b);
        analyze_run(tl, NULL, &a);
        const struct analysis_stage *decode = scene_stage(&a, "decode");
        bool bounded = false;
        for (size_t i = 0; i < a.nnotes; i++)
            bounded |= strstr(a.notes[i].text, "10 of 1,010 launches have no kernel: about") != NULL;
        CHECK(decode->idle_known == (missing == 10) && bounded == (missing == 10));
        CHECK(missing == 10 || strstr(decode->idle_refused, "100 of 1,100 launches") != NULL);
        analysis_free(&a);
        timeline_close(tl);
    }
}

TEST(sub_stages_are_inside_their_parents) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 100 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "sam", 1, 10 * US, 40 * US);
    scene_range(&s, TRACE_CATEGORY_OP, "linear", 1, 15 * US, 20 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 100 * US, 200 * US);
    scene_kernel(&s, "nvjet_a", 1, 16 * US, 18 * US, 7, 30 * US,
                 60 * US); /* belongs to sam, although it ends after sam's range */
    scene_kernel(&s, "nvjet_b", 1, 50 * US, 52 * US, 7, 60 * US, 120 * US); /* prefill's */
    scene_kernel(&s, "nvjet_c", 1, 110 * US, 112 * US, 7, 120 * US, 130 * US);
    scene_kernel(&s, "nvjet_d", 1, 300 * US, 302 * US, 7, 310 * US, 315 * US); /* in no stage */
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *prefill = scene_stage(&a, "prefill"), *sam = scene_stage(&a, "prefill/sam");
    CHECK_INT(a.nstages, 4);
    CHECK_NEAR(sam->gpu_busy_ns, 30e3, 0);
    CHECK_NEAR(sam->wall_total_ns, 50e3, 0); /* idle time until its kernel begins, plus the kernel */
    CHECK_NEAR(prefill->gpu_busy_ns, 90e3, 0);
    CHECK_NEAR(prefill->wall_total_ns, 120e3, 0);
    CHECK_NEAR(prefill->gpu_owned_self_ns, 60e3, 0);
    CHECK_NEAR(prefill->gpu_owned_ns, 90e3, 0);
    CHECK_NEAR(scene_stage(&a, "between steps")->gpu_owned_ns, 5e3, 0);
    CHECK_NEAR(a.conservation.outside_stages, 5e3, 0);
    CHECK_STR(a.operators[1].name, "linear");
    CHECK_NEAR(a.operators[1].gpu_self_ns, 30e3, 0);
    CHECK(a.operators[0].outside);
    CHECK_NEAR(a.operators[0].gpu_self_ns, 75e3, 0);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(helper_threads_work_for_the_only_stage_that_is_open) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 100 * US);
    scene_range(&s, TRACE_CATEGORY_OP, "backward", 2, 0, 100 * US);
    scene_kernel(&s, "k", 2, 10 * US, 12 * US, 7, 20 * US, 30 * US);
    scene_kernel(&s, "k", 2, 200 * US, 202 * US, 7, 220 * US, 230 * US); /* after it */
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(scene_stage(&a, "decode")->kernels, 1);
    CHECK_INT(scene_stage(&a, "between steps")->kernels, 1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_cpu_engine_gets_stages_and_operators_and_no_gpu_advice) {
    struct timeline_builder *b = timeline_builder_open();
    struct analysis a;
    timeline_builder_process(b, "engine.ipt");
    timeline_builder_meta(b, "device.0.name", "cpu");
    struct trace_range stage = { .start_ns = 0,
                                 .end_ns = 10 * MS,
                                 .thread = 1,
                                 .category = TRACE_CATEGORY_STAGE,
                                 .name = timeline_builder_text(b, "decode"),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    timeline_builder_range(b, &stage, 1);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t t = i * 10 * US;
        struct trace_range op = { .start_ns = t,
                                  .end_ns = t + 8 * US,
                                  .thread = 1,
                                  .category = TRACE_CATEGORY_OP,
                                  .name = timeline_builder_text(b, "linear"),
                                  .flops = 2e6,
                                  .bytes = 1e6,
                                  .payload = NAN };
        struct trace_kernel k = { .start_ns = t + US,
                                  .end_ns = t + 4 * US,
                                  .name = timeline_builder_text(b, "gemv_bf16") };
        timeline_builder_range(b, &op, 1);
        timeline_builder_kernel(b, &k, 1);
    }
    timeline_builder_token(
        b,
        &(struct trace_token){ .time_ns = 10 * MS, .count = 10, .token_kind = TRACE_TOKEN_MADE, .thread = 1 },
        1);
    struct timeline *tl = timeline_builder_finish(b);
    const struct analyze_cost costs[] = {
        { .stage = "decode", .per_token = true, .flops = 1e9, .bytes = 1e8, .floor_ns = 2e5 }
    };
    const struct analyze_input in = {
        .costs = costs, .ncosts = 1, .peak_flops_per_s = 1e12, .peak_bytes_per_s = 2e10
    };
    analyze_run(tl, &in, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK(a.cpu_only);
    CHECK(d->on_cpu);
    CHECK_INT(d->launches, 0);
    CHECK(isnan(d->launches_per_token));
    CHECK_NEAR(d->kernels_per_token, 100, 0);
    CHECK(!d->idle_known);
    CHECK_NEAR(d->distance, 5, 1e-9);
    CHECK_STR(a.operators[0].name, "linear");
    CHECK_NEAR(a.operators[0].flops, 2e9, 1);
    CHECK_INT(a.kernels[0].library, KERNEL_LIBRARY_NATIVE);
    CHECK_INT(a.kernels[0].category, KERNEL_CATEGORY_GEMV);
    CHECK_INT(a.nfindings, 1);
    CHECK_STR(a.findings[0].rule, "roof-distance");
    CHECK_NEAR(a.findings[0].saving_ms, 8, 1e-9);
    CHECK(a.nroofline >= 2);
    analysis_free(&a);
    timeline_close(tl);
}

/* The native engine on a GPU: no launches, and each kernel ends where the next one starts. */
static struct timeline *joined_kernels(void) {
    static const struct {
        const char *name, *kernel;
        uint64_t start, end;
        double flops;
    } ops[] = { { "norm", "layernorm_f32", 0, MS, 0 },
                { "qkv", "cublaslt_bf16_bf16", MS, 3 * MS, 4e9 },
                { "up", "wgmma_swiglu_bf16", 3 * MS, 6 * MS, 6e9 },
                { "norm", "layernorm_f32", 6 * MS, 9 * MS, NAN },
                { "down", "wgmma_bf16", 9 * MS, 10 * MS, 2e9 } };
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "engine.ipt");
    timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
    timeline_builder_meta(b, "device.0.kernel_ends", "next start");
    struct trace_range r = { .end_ns = 10 * MS,
                             .thread = 1,
                             .category = TRACE_CATEGORY_STAGE,
                             .name = timeline_builder_text(b, "prefill"),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(b, &r, 1);
    r.category = TRACE_CATEGORY_OP;
    for (size_t i = 0; i < COUNTOF(ops); i++) {
        r.start_ns = ops[i].start;
        r.end_ns = ops[i].end;
        r.name = timeline_builder_text(b, ops[i].name);
        r.flops = ops[i].flops;
        r.bytes = ops[i].flops / 100;
        struct trace_kernel k = { .start_ns = r.start_ns,
                                  .end_ns = r.end_ns,
                                  .name = timeline_builder_text(b, ops[i].kernel) };
        timeline_builder_range(b, &r, 1);
        timeline_builder_kernel(b, &k, 1);
    }
    timeline_builder_token(
        b, &(struct trace_token){ .time_ns = 10 * MS, .count = 1, .token_kind = TRACE_TOKEN_MADE }, 1);
    return timeline_builder_finish(b);
}

static const struct analysis_operator *operator_called(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->noperators; i++)
        if (strcmp(a->operators[i].name, name) == 0) return &a->operators[i];
    return NULL;
}

TEST(busy_and_idle_time_are_unknown_where_kernels_end_at_the_next_start) {
    struct timeline *tl = joined_kernels();
    struct analysis a;
    const struct analyze_cost costs[] = {
        { .stage = "prefill", .flops = 1e10, .bytes = 1e8, .floor_ns = 1e6 }
    };
    const struct analyze_input in = {
        .costs = costs, .ncosts = 1, .peak_flops_per_s = 1e13, .peak_bytes_per_s = 1e12
    };
    analyze_run(tl, &in, &a);
    const struct analysis_stage *s = scene_stage(&a, "prefill");
    CHECK_INT(s->kernels, 5);
    CHECK(!s->idle_known && strstr(s->idle_refused, "start of the next one"));
    CHECK(isnan(s->busy_share) && isnan(s->busy_ms) && isnan(s->idle_share));
    CHECK(isnan(s->launches_per_token));
    CHECK_NEAR(s->kernels_each, 5, 0);
    CHECK_NEAR(s->distance, 10, 1e-9);
    CHECK_INT(a.nparts, 1);
    CHECK_NEAR(a.parts[0].time_ns, 10e6, 0);
    CHECK(isnan(a.parts[0].busy_share));
    const struct analysis_finding *roof = scene_finding(&a, "roof-distance");
    CHECK(roof && strstr(roof->title, "its time (10.0 ms)") && !strstr(roof->evidence, "busy"));
    analysis_free(&a);
    timeline_close(tl);
}

TEST(kernels_of_the_native_engine_on_a_gpu_have_its_name_as_library) {
    struct timeline *tl = joined_kernels();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    for (size_t i = 0; i < a.nkernels; i++)
        CHECK_INT(a.kernels[i].library, a.kernels[i].category == KERNEL_CATEGORY_GEMM &&
                                                strncmp(a.kernels[i].short_name, "cublaslt", 8) == 0
                                            ? KERNEL_LIBRARY_CUBLAS
                                            : KERNEL_LIBRARY_NATIVE);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(an_operator_has_rates_only_if_the_work_of_most_of_its_time_is_known) {
    struct timeline *tl = joined_kernels();
    struct analysis a;
    analyze_run(tl, NULL, &a);
    const struct analysis_operator *norm = operator_called(&a, "norm"), *up = operator_called(&a, "up");
    CHECK_INT(norm->calls, 2);
    CHECK(isnan(norm->flops) && isnan(norm->bytes) && isnan(norm->byte_per_s)); /* known: 1 of 4 ms */
    CHECK_NEAR(up->flop_per_s, 2e12, 1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(times_come_from_the_timing_phase_where_there_is_one) {
    struct scene s;
    struct analysis a;
    gaps_only(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 6, 6.2, NAN, 6.1, 100, 6.3 }, tokens[] = { 50, 50, 50, 50, 50, 50 };
    const bool failed[] = { false, false, false, false, true, false };
    const struct analyze_timing timings[] = {
        { .stage = "decode", .n = 6, .ms = ms, .tokens_out = tokens, .failed = failed }
    };
    const struct analyze_input in = { .timings = timings, .ntimings = 1 };
    analyze_run(tl, &in, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_NEAR(d->time_ms, 6.15, 1e-9);
    CHECK_STR(d->time_source, "median of 4 timed repeats");
    CHECK_NEAR(d->tokens_out, 50, 0);
    CHECK_NEAR(d->tokens_per_s, 50 / 6.15e-3, 1e-6);
    CHECK_NEAR(d->overhead_ratio, 10 / 6.15, 1e-9);
    CHECK_INT(a.stability[0].failed, 1);
    CHECK(!a.stability[0].unstable);
    CHECK(scene_finding(&a, "profiler-overhead") != NULL);
    const struct analysis_finding *f = scene_finding(&a, "launch-bound");
    CHECK_NEAR(f->saving_ms, 6.15 - 2, 0.01); /* idle time, scaled down to the time without the profiler */
    CHECK(f->saving_ms <= 6.15 - 2);
    analysis_free(&a);
    timeline_close(tl);
}

/* One request whose decode consists of 20 ranges of 10 ms, each with a kernel of 1 ms at its start and one
 * of 1 ms at its end. */
static void request_in_steps(struct scene *s) {
    scene_start(s);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t t = (1 + 10 * i) * MS;
        scene_range(s, TRACE_CATEGORY_USER, "decode", 1, t, t + 10 * MS);
        scene_range(s, TRACE_CATEGORY_USER, "lm_head", 1, t + 8 * MS, t + 10 * MS);
        scene_kernel(s, "k", 1, t, t + US, 7, t + 10 * US, t + 30 * US);
        for (uint64_t k = 1; k < 10; k++) /* calls without pauses: a host that launches slowly */
            scene_kernel(s, "k", 1, t + k * MS - 150 * US, t + k * MS, 7, t + k * MS + 5 * US,
                         t + k * MS + 25 * US);
    }
}

TEST(a_stage_of_many_ranges_is_timed_as_one_request) {
    struct scene s;
    struct analysis a;
    request_in_steps(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 100, 100, 100, 100 };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 4, .ms = ms } };
    const struct analyze_cost costs[] = {
        { .stage = "decode", .flops = 1e9, .bytes = 2e6, .floor_ns = 1e6 }
    };
    const struct analyze_input in = { .timings = timings,
                                      .ntimings = 1,
                                      .costs = costs,
                                      .ncosts = 1,
                                      .one_run = true,
                                      .peak_flops_per_s = 1e12,
                                      .peak_bytes_per_s = 1e10 };
    analyze_run(tl, &in, &a);
    CHECK_INT(a.nstages, 2); /* lm_head was not timed: it is a module */
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_INT(d->occurrences, 20);
    CHECK_NEAR(d->overhead_ratio, 2, 1e-9);
    CHECK_NEAR(d->recording_cost, 2, 1e-9);
    for (size_t i = 0; i < a.nfindings; i++) {
        const struct analysis_finding *f = &a.findings[i];
        CHECK(strstr(f->title, "e+") == NULL && strstr(f->evidence, "e+") == NULL);
        if (isnan(f->saving_ms)) continue;
        CHECK(f->saving_ms <= 100 - d->gpu_busy_ns * 1e-6 || strcmp(f->rule, "roof-distance") == 0);
        CHECK_NEAR(f->saving_percent, f->saving_ms, 1e-9); /* percentage of the request's 100 ms */
    }
    const struct analysis_finding *roof = scene_finding(&a, "roof-distance");
    CHECK(roof != NULL);
    /* compute-bound, so the evidence is the FLOP rate, not the bandwidth */
    CHECK(strstr(roof->evidence, "GF/s of") != NULL);
    const struct analysis_finding *slow = scene_finding(&a, "profiler-overhead");
    CHECK(slow != NULL && strstr(slow->advice, "profiling=min") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(prefill_has_no_launches_a_token) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 1 * MS, 20 * MS);
    scene_range(&s, TRACE_CATEGORY_USER, "vision_model", 1, 2 * MS, 10 * MS);
    scene_kernel(&s, "k", 1, 2 * MS, 3 * MS, 7, 3 * MS, 5 * MS);
    const struct trace_token tokens[] = {
        { .time_ns = 2 * MS, .count = 500, .token_kind = TRACE_TOKEN_CONSUMED, .thread = 1 },
        { .time_ns = 19 * MS, .count = 1, .token_kind = TRACE_TOKEN_MADE, .thread = 1 }
    };
    timeline_builder_token(s.b, &tokens[0], 1);
    timeline_builder_token(s.b, &tokens[1], 1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.nstages, 2); /* a module inside a stage that the engine marked is not a stage */
    CHECK_NEAR(scene_stage(&a, "prefill")->tokens_in, 500, 0);
    CHECK(isnan(scene_stage(&a, "prefill")->launches_per_token));
    analysis_free(&a);
    timeline_close(tl);
}

TEST(repeats_that_vary_are_called_unstable) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 60 };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 10, .ms = ms } };
    const struct analyze_input in = { .timings = timings, .ntimings = 1 };
    analyze_run(tl, &in, &a);
    CHECK(a.stability[0].unstable);
    CHECK_INT(a.stability[0].outliers, 1);
    CHECK(a.stability[0].drift_percent > 50);
    CHECK(scene_finding(&a, "unstable") != NULL);
    CHECK_NEAR(scene_stage(&a, "decode")->timing_ms.median, 14.5, 1e-9); /* a stage that was only timed */
    analysis_free(&a);
    timeline_close(tl);
}

TEST(energy_of_stages_comes_from_power_samples) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 100 * MS, 300 * MS);
    scene_kernel(&s, "k", 1, 100 * MS, 101 * MS, 7, 110 * MS, 300 * MS);
    for (uint64_t t = 0; t <= 400;
         t += 10) /* 100 W, 500 W inside the stage; the power cap is active in its second half */
        timeline_builder_power(s.b,
                               &(struct trace_power){ .time_ns = t * MS,
                                                      .power_mw = t >= 100 && t < 300 ? 500000 : 100000,
                                                      .sm_mhz = t >= 200 && t < 300 ? 1500 : 1980,
                                                      .memory_mhz = TRACE_UNKNOWN_U32,
                                                      .temperature_c = 60,
                                                      .throttle_reasons = t >= 200 && t < 300 ? 4
                                                                          : t < 100           ? 1
                                                                                              : 0 },
                               1);
    timeline_builder_token(
        s.b,
        &(struct trace_token){
            .time_ns = 299 * MS, .count = 20, .token_kind = TRACE_TOKEN_MADE, .thread = 1 },
        1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_INT(a.npowers, 1);
    CHECK_NEAR(d->joules, 100, 3);
    CHECK_NEAR(d->joules_per_token, 5, 0.2);
    CHECK_NEAR(a.powers[0].joules, 120, 0.1);
    CHECK_NEAR(a.powers[0].throttled_ns, 100e6, 1);
    CHECK_STR(a.powers[0].throttled_by, "power cap");
    CHECK_NEAR(a.powers[0].idle_joules, 20 + 5, 3);
    CHECK(isnan(a.powers[0].series[0].memory_mhz));
    CHECK(scene_finding(&a, "throttled") != NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Power of a device at fixed watts, every 10 ms from 0 to `until_ms`. */
static void constant_power(struct scene *s, uint32_t device, uint32_t watts, uint64_t until_ms) {
    for (uint64_t t = 0; t <= until_ms; t += 10)
        timeline_builder_power(s->b,
                               &(struct trace_power){ .time_ns = t * MS,
                                                      .device = device,
                                                      .power_mw = watts * 1000,
                                                      .sm_mhz = 1980,
                                                      .memory_mhz = TRACE_UNKNOWN_U32,
                                                      .temperature_c = TRACE_UNKNOWN_U32 },
                               1);
}

static void kernel_on(struct scene *s, uint32_t device, uint64_t call, uint64_t start, uint64_t end) {
    struct trace_launch l = { .start_ns = call,
                              .end_ns = call + 5 * US,
                              .thread = 1,
                              .correlation = ++s->correlation,
                              .api = timeline_builder_text(s->b, "cudaLaunchKernel") };
    struct trace_kernel k = { .start_ns = start,
                              .end_ns = end,
                              .device = device,
                              .correlation = s->correlation,
                              .stream = 7,
                              .name = timeline_builder_text(s->b, "k") };
    timeline_builder_launch(s->b, &l, 1);
    timeline_builder_kernel(s->b, &k, 1);
}

/* A trace without token records; the token counts come from the engine's answer. */
TEST(energy_a_token_is_of_the_recorded_run_and_its_tokens) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 100 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 100 * MS, 300 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "detokenize", 1, 300 * MS, 315 * MS);
    scene_kernel(&s, "k", 1, 1 * MS, 2 * MS, 7, 3 * MS, 90 * MS);
    scene_kernel(&s, "k", 1, 101 * MS, 102 * MS, 7, 110 * MS, 290 * MS);
    scene_kernel(&s, "k", 1, 301 * MS, 302 * MS, 7, 303 * MS, 310 * MS);
    constant_power(&s, 0, 500, 400);
    struct timeline *tl = timeline_builder_finish(s.b);
    const struct analyze_tokens tokens[] = { { "prefill", 500, 1 }, { "decode", NAN, 20 } };
    /* the repeats generated twice as many tokens */
    const double ms[] = { 100, 100, 100 }, made[] = { 40, 40, 40 };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 3, .ms = ms, .tokens_out = made } };
    const struct analyze_input in = {
        .one_run = true, .tokens = tokens, .ntokens = 2, .timings = timings, .ntimings = 1
    };
    analyze_run(tl, &in, &a);
    const struct analysis_stage *p = scene_stage(&a, "prefill"), *d = scene_stage(&a, "decode");
    CHECK_STR(d->token_source, "engine's answer");
    CHECK_NEAR(d->joules, 100, 1e-6);
    CHECK_NEAR(d->joules_per_token, 100.0 / 20, 1e-6);
    CHECK_NEAR(d->launches_per_token, 1.0 / 20, 1e-9);
    CHECK_NEAR(d->tokens_per_s, 40 / 0.1, 1e-6);       /* time and tokens of the repeats */
    CHECK_NEAR(p->joules_per_token, 50.0 / 500, 1e-9); /* of the tokens it read */
    CHECK_NEAR(p->tokens_per_s, 500 / 0.1, 1e-6);
    CHECK(isnan(p->launches_per_token));
    CHECK(isnan(scene_stage(&a, "detokenize")->joules)); /* 15 ms, samples every 10 ms */
    analysis_free(&a);
    timeline_close(tl);
}

TEST(energy_of_a_stage_is_that_of_all_gpus_it_uses) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "prefill", 1, 0, 100 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 100 * MS, 200 * MS);
    kernel_on(&s, 1, 1 * MS, 2 * MS, 90 * MS);
    kernel_on(&s, 0, 101 * MS, 102 * MS, 190 * MS);
    kernel_on(&s, 1, 111 * MS, 112 * MS, 180 * MS);
    constant_power(&s, 0, 500, 400);
    constant_power(&s, 1, 300, 400);
    constant_power(&s, 2, 100, 400); /* an unused GPU */
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.npowers, 3);
    CHECK_NEAR(scene_stage(&a, "prefill")->joules, 30, 1e-6);
    CHECK_NEAR(scene_stage(&a, "decode")->joules, 50 + 30, 1e-6);
    analysis_free(&a);
    timeline_close(tl);

    scene_start(&s); /* one of the two GPUs has no samples */
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 100 * MS);
    kernel_on(&s, 0, 1 * MS, 2 * MS, 90 * MS);
    kernel_on(&s, 1, 11 * MS, 12 * MS, 80 * MS);
    constant_power(&s, 0, 500, 400);
    tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(isnan(scene_stage(&a, "decode")->joules));
    analysis_free(&a);
    timeline_close(tl);
}

/* The second step is launched while the first one runs: they overlap from 50 to 100 ms. */
TEST(energy_of_overlapping_steps_is_counted_once) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 0, 50 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "step", 1, 50 * MS, 90 * MS);
    scene_range(&s, TRACE_CATEGORY_STAGE, "last", 1, 150 * MS, 160 * MS);
    kernel_on(&s, 0, 1 * MS, 2 * MS, 100 * MS);
    kernel_on(&s, 0, 51 * MS, 100 * MS, 200 * MS);
    kernel_on(&s, 0, 151 * MS, 200 * MS, 300 * MS);
    constant_power(&s, 0, 500, 400);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *step = scene_stage(&a, "step"), *last = scene_stage(&a, "last");
    CHECK_NEAR(step->joules, 75 + 25.0 / 2, 1e-6); /* 0 to 150 ms, half of 150 to 200 ms */
    CHECK_NEAR(last->joules, 50 + 25.0 / 2, 1e-6);
    CHECK_NEAR(step->watts, 500, 1e-6);
    CHECK_NEAR(last->watts, 500, 1e-6);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(occupancy_follows_the_device_limits) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    const struct {
        uint32_t block, registers, smem;
        double occupancy;
        enum analysis_limiter limiter;
    } rows[] = { /* values of NVIDIA's occupancy calculator for compute capability 9.0 */
                 { 256, 32, 0, 1.0, ANALYSIS_LIMIT_WARPS },
                 { 256, 64, 0, 0.5, ANALYSIS_LIMIT_REGISTERS },
                 { 32, 16, 0, 0.5, ANALYSIS_LIMIT_BLOCKS },
                 { 384, 168, 200 * 1024, 12.0 / 64, ANALYSIS_LIMIT_REGISTERS },
                 { 128, 40, 100 * 1024, 8.0 / 64, ANALYSIS_LIMIT_SMEM },
                 /* 16,384 registers in each quarter: 5 warps */
                 { 64, 88, 0, 20.0 / 64, ANALYSIS_LIMIT_REGISTERS }
    };
    for (uint32_t i = 0; i < 6; i++)
        timeline_builder_kernel(s.b,
                                &(struct trace_kernel){ .start_ns = i * US,
                                                        .end_ns = (i + 1) * US,
                                                        .grid_x = 1000 + i,
                                                        .grid_y = 1,
                                                        .grid_z = 1,
                                                        .block_x = rows[i].block,
                                                        .block_y = 1,
                                                        .block_z = 1,
                                                        .registers = rows[i].registers,
                                                        .dynamic_smem_bytes = rows[i].smem,
                                                        .name = timeline_builder_text(s.b, "k") },
                                1);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    for (size_t i = 0; i < 6; i++) {
        const struct analysis_kernel *k = &a.kernels[a.shape_kernel[i]];
        CHECK_NEAR(k->occupancy, rows[i].occupancy, 1e-9);
        CHECK_INT(k->limiter, rows[i].limiter);
        CHECK_INT(k->blocks, 1000 + i);
    }
    CHECK_NEAR(a.kernels[a.shape_kernel[0]].waves, 1000.0 / (8 * 132), 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* torch.profiler does not record the maximum number of resident blocks. */
TEST(occupancy_knows_the_blocks_of_a_compute_capability) {
    static const struct {
        const char *name, *cc, *threads, *warp;
        double occupancy;
    } rows[] = { { "NVIDIA B200", "10.0", "2048", "32", 32.0 / 64 },
                 { "NVIDIA GeForce RTX 4090", "8.9", "1536", "32", 24.0 / 48 },
                 { "Tesla T4", "7.5", "1024", "32", 16.0 / 32 },
                 { "AMD Instinct MI300X", "9.4", "2048", "64", 1 },
                 { "AMD Radeon RX 7900 XTX", "11.0", "2048", "32", 1 } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct timeline_builder *b = timeline_builder_open();
        struct analysis a;
        timeline_builder_process(b, "a.ipt");
        timeline_builder_meta(b, "device.0.name", rows[i].name);
        timeline_builder_meta(b, "device.0.cc", rows[i].cc);
        timeline_builder_meta(b, "device.0.max_threads_per_sm", rows[i].threads);
        timeline_builder_meta(b, "device.0.warp_size", rows[i].warp);
        timeline_builder_kernel(b,
                                &(struct trace_kernel){ .end_ns = US,
                                                        .grid_x = 1,
                                                        .grid_y = 1,
                                                        .grid_z = 1,
                                                        .block_x = 32,
                                                        .block_y = 1,
                                                        .block_z = 1,
                                                        .name = timeline_builder_text(b, "k") },
                                1);
        struct timeline *tl = timeline_builder_finish(b);
        analyze_run(tl, NULL, &a);
        CHECK_NEAR(a.kernels[0].occupancy, rows[i].occupancy, 1e-9);
        analysis_free(&a);
        timeline_close(tl);
    }
}

TEST(labels_of_steps_give_tokens_and_their_times) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++) {
        scene_range(&s, TRACE_CATEGORY_USER, "execute_context_0(0)_generation_8(8)", 1, i * 10 * MS,
                    i * 10 * MS + 6 * MS);
        scene_kernel(&s, "k", 1, i * 10 * MS, i * 10 * MS + US, 7, i * 10 * MS + MS, i * 10 * MS + 5 * MS);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_INT(d->occurrences, 10);
    CHECK_NEAR(d->tokens_out, 80, 0);
    CHECK_STR(d->token_source, "range labels");
    CHECK_NEAR(d->token_ns.median, 6e6, 0);
    CHECK(d->distance != d->distance);
    const struct analysis_finding *f = scene_finding(&a, "between-steps");
    CHECK(f != NULL);
    CHECK_NEAR(f->saving_ms, 3.6, 1e-9); /* 9 / 10 of 4 ms; the 2 ms in the step are in other findings */
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_step_in_which_recording_ended_counts_in_no_mean_and_for_no_token) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t i = 0; i < 5; i++) { /* 10 kernels per step, 4 in the last, whose range is open */
        uint64_t at = i * MS, kernels = i < 4 ? 10 : 4;
        struct trace_range r = { .start_ns = at,
                                 .end_ns = at + kernels * 100 * US,
                                 .thread = 1,
                                 .category = TRACE_CATEGORY_USER,
                                 .flags = i < 4 ? 0 : TRACE_RANGE_OPEN,
                                 .name = timeline_builder_text(s.b, "execute_context_0(0)_generation_1(1)"),
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
        timeline_builder_range(s.b, &r, 1);
        for (uint64_t k = 0; k < kernels; k++)
            scene_kernel(&s, "k", 1, at + k * 100 * US, at + k * 100 * US + US, 7, at + k * 100 * US + 2 * US,
                         at + (k + 1) * 100 * US);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *d = scene_stage(&a, "decode");
    CHECK_INT(d->occurrences, 5);
    CHECK_STR(d->time_source, "mean of 4 occurrences in the trace");
    CHECK_NEAR(d->time_ms, 1, 1e-3);
    CHECK_NEAR(d->wall_ns.n, 4, 0);
    CHECK_NEAR(d->tokens_out, 4, 0);
    CHECK_NEAR(d->tokens_per_s, 1000, 1);
    CHECK_NEAR(d->kernels_per_token, 10, 0);
    CHECK_NEAR(d->kernels_each, 10, 0.05);
    analysis_free(&a);
    timeline_close(tl);
}

static void gemm_call(struct scene *s, uint64_t start, uint64_t correlation, uint32_t thread,
                      const char *types) {
    struct trace_gemm g = { .start_ns = start,
                            .correlation = correlation,
                            .thread = thread,
                            .m = 100,
                            .n = 200,
                            .k = 300,
                            .batch = 2,
                            .types = timeline_builder_text(s->b, types) };
    timeline_builder_gemm(s->b, &g, 1);
}

static const struct analysis_kernel *kernel_named(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->nkernels; i++)
        if (strcmp(a->kernels[i].name, name) == 0) return &a->kernels[i];
    return NULL;
}

TEST(gemm_records_give_kernels_their_flops_and_bytes) {
    const double flops = 2.0 * 100 * 200 * 300 * 2,
                 elements[] = { 100.0 * 300, 300.0 * 200, 100.0 * 200 }; /* of A, B and D */
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_kernel(&s, "nvjet_by_id", 1, 10 * US, 12 * US, 7, 20 * US, 30 * US); /* correlation 1 */
    gemm_call(&s, 9 * US, 1, 1, "bf16,bf16->f32 compute f32");
    /* belongs to the next launch of its thread */
    gemm_call(&s, 50 * US, 0, 1, "fp8_e4m3,fp8_e4m3->bf16 compute f32");
    scene_kernel(&s, "nvjet_other_thread", 2, 51 * US, 52 * US, 8, 60 * US, 70 * US);
    scene_kernel(&s, "nvjet_by_time", 1, 53 * US, 54 * US, 7, 70 * US, 80 * US);
    scene_kernel(&s, "nvjet_second", 1, 55 * US, 56 * US, 7, 80 * US, 90 * US); /* has no record of its own */
    gemm_call(&s, 100 * US, 0, 1, "bf16,bf16->bf16 compute f32");
    scene_kernel(&s, "nvjet_late", 1, 2000 * US, 2001 * US, 7, 2010 * US, 2020 * US); /* 1.9 ms after it */
    gemm_call(&s, 3000 * US, 0, 1, "posit,posit->posit compute f32");
    scene_kernel(&s, "nvjet_odd_type", 1, 3001 * US, 3002 * US, 7, 3010 * US, 3020 * US);
    struct timeline *tl = timeline_builder_finish(s.b);
    const struct analyze_input in = { .peak_flops_per_s = 1e15, .peak_bytes_per_s = 4e12 };
    analyze_run(tl, &in, &a);
    const struct analysis_kernel *k = kernel_named(&a, "nvjet_by_id");
    CHECK_NEAR(k->flops, flops, 0);
    CHECK_NEAR(k->bytes, 2 * (2 * elements[0] + 2 * elements[1] + 4 * elements[2]), 0);
    k = kernel_named(&a, "nvjet_by_time");
    CHECK_NEAR(k->flops, flops, 0);
    CHECK_NEAR(k->bytes, 2 * (elements[0] + elements[1] + 2 * elements[2]), 0);
    CHECK(isnan(kernel_named(&a, "nvjet_other_thread")->flops));
    CHECK(isnan(kernel_named(&a, "nvjet_second")->flops));
    CHECK(isnan(kernel_named(&a, "nvjet_late")->flops));
    CHECK_NEAR(kernel_named(&a, "nvjet_odd_type")->flops, flops, 0);
    CHECK(isnan(kernel_named(&a, "nvjet_odd_type")->bytes));
    CHECK_INT(a.nroofline, 2); /* those with both */
    CHECK_STR(a.roofline[0].source, "gemm records");
    CHECK_NEAR(a.roofline[0].flop_per_s, flops / 10e-6, 1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(recording_cost_is_that_of_the_recorded_input) {
    struct scene s;
    struct analysis a;
    request_in_steps(&s);
    struct timeline *tl = timeline_builder_finish(s.b);
    const double ms[] = { 100, 100, 100, 100 };
    const struct analyze_timing timings[] = {
        { .stage = "decode", .n = 4, .ms = ms, .recording_cost = 1.5 }
    };
    analyze_run(tl, &(struct analyze_input){ .timings = timings, .ntimings = 1, .one_run = true }, &a);
    CHECK_NEAR(scene_stage(&a, "decode")->overhead_ratio, 2, 1e-9);
    CHECK_NEAR(scene_stage(&a, "decode")->recording_cost, 1.5, 1e-9);
    bool said = false;
    for (size_t i = 0; i < a.nfindings; i++)
        said |= strstr(a.findings[i].title, "decode was 50% slower") != NULL;
    CHECK(said);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(an_analysis_of_nothing_says_nothing) {
    struct timeline *tl = timeline_builder_finish(timeline_builder_open());
    struct analysis a;
    analyze_run(tl, NULL, &a);
    CHECK_INT(a.nfindings, 0);
    CHECK_INT(a.nkernels, 0);
    CHECK(a.nnotes >= 1);
    CHECK(isnan(a.stages[0].time_ms));
    analysis_free(&a);
    analysis_free(&a);
    timeline_close(tl);
}

static void windows(struct scene *s, const char *const *texts, size_t n) {
    for (size_t i = 0; i < n; i++) timeline_builder_meta(s->b, "capture.window", texts[i]);
}

static const struct analysis_note *note_with(const struct analysis *a, const char *words) {
    for (size_t i = 0; i < a->nnotes; i++)
        if (strstr(a->notes[i].text, words)) return &a->notes[i];
    return NULL;
}

TEST(kernels_recorded_in_windows_are_reported_as_a_share_and_not_scaled_up) {
    static const char *const half[] = { "0", "0 3000000",
                                        "5000000 7000000" }; /* of 10 ms; told twice, once */
    struct scene s;
    struct analysis a;
    gaps_only(&s);
    windows(&s, half, COUNTOF(half));
    struct timeline *tl = timeline_builder_finish(s.b);
    CHECK_INT(tl->nwindows, 2);
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *decode = scene_stage(&a, "decode");
    CHECK_NEAR(decode->missed, 0.5, 1e-9);
    CHECK_NEAR(a.missed, 0.5, 0.01);
    CHECK(strstr(decode->idle_refused, "50% of its time") != NULL);
    CHECK(scene_finding(&a, "launch-bound") == NULL);
    CHECK_INT(decode->kernels, 1000);
    CHECK(isnan(decode->launches_per_token));
    const struct analysis_note *n = note_with(&a, "50% of the time (2 windows)");
    CHECK(n && n->severity == ANALYSIS_WARNING && strstr(n->text, "are not scaled up"));
    analysis_free(&a);

    /* Half of the kernels over all tokens would be a wrong figure. */
    struct analyze_tokens made = { .stage = "decode", .in = NAN, .out = 10 };
    analyze_run(tl, &(struct analyze_input){ .tokens = &made, .ntokens = 1, .one_run = true }, &a);
    decode = scene_stage(&a, "decode");
    CHECK_NEAR(decode->tokens_out, 10, 0);
    CHECK(isnan(decode->kernels_per_token) && isnan(decode->launches_per_token));
    analysis_free(&a);
    timeline_close(tl);
}

TEST(windows_that_hold_every_stage_are_no_reason_for_doubt) {
    static const char *const all[] = {
        "0 10000000"
    }; /* the scene's stages end when half of the process's time has passed */
    struct scene s;
    struct analysis a;
    gaps_only(&s);
    windows(&s, all, COUNTOF(all));
    timeline_builder_meta(s.b, "capture.from", "0");
    timeline_builder_meta(s.b, "capture.to", "20000000");
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(a.missed, 0.5, 0.01);
    CHECK_NEAR(scene_stage(&a, "decode")->missed, 0, 1e-9);
    const struct analysis_note *n = note_with(&a, "50% of the time (1 window)");
    CHECK(n && n->severity == ANALYSIS_INFO && strstr(n->text, "stages are complete"));
    analysis_free(&a);
    timeline_close(tl);
}

TEST(a_window_that_a_crash_left_open_ends_with_the_trace) {
    static const char *const open[] = { "1000000" };
    struct scene s;
    gaps_only(&s);
    windows(&s, open, 1);
    struct timeline *tl = timeline_builder_finish(s.b);
    CHECK_INT(tl->nwindows, 1);
    CHECK_INT(tl->windows[0].end_ns, tl->end_ns);
    timeline_close(tl);
}

TEST(a_program_that_was_recorded_and_never_timed_may_be_faster_without) {
    for (int timed = 0; timed < 2; timed++)
        for (int ours = 0; ours < 2; ours++) {
            double ms[] = { 9 };
            struct analyze_timing timing = { .stage = "decode", .ms = ms, .n = 1 };
            struct analyze_input input = { .timings = &timing, .ntimings = (size_t)timed };
            struct scene s;
            struct analysis a;
            gaps_only(&s); /* 1000 launches in 10 ms, 2.2 us each */
            timeline_builder_meta(s.b, "source", ours ? "collector" : "torch.profiler");
            struct timeline *tl = timeline_builder_finish(s.b);
            analyze_run(tl, &input, &a);
            const struct analysis_note *n = note_with(&a, "kernel times are valid, wall and");
            CHECK_INT(n != NULL, ours && !timed);
            if (n) CHECK(strstr(n->text, "decode: recording may have slowed it down by up to 28%") != NULL);
            analysis_free(&a);
            timeline_close(tl);
        }
}

/* A call of 100 ns contains a call of 60 ns of the same operator. */
TEST(a_recursive_operator_has_the_mean_time_of_all_its_calls) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_OP, "block", 1, 1000, 1100);
    scene_range(&s, TRACE_CATEGORY_OP, "block", 1, 1020, 1080);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_STR(a.operators[0].name, "block");
    CHECK_INT(a.operators[0].calls, 2);
    CHECK_NEAR(a.operators[0].total_ns, 100, 0);
    CHECK_NEAR(a.operators[0].self_ns, 100, 0);
    CHECK_NEAR(a.operators[0].mean_ns, 80, 0);
    analysis_free(&a);
    timeline_close(tl);
}
