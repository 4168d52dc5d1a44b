/* Steps of small programs, and invariants over random timelines. */
#include <math.h>
#include <string.h>

#include "analyze/analyze.h"
#include "unit/test.h"

#define US 1000ull

static const char norm[] = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)";
static const char gemm[] = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT";
static const char rope[] = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)";
static const char flash[] = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)";
static const char paged[] = "void vllm::paged_attention_v2_kernel<__nv_bfloat16, 128, 16>(float*)";
static const char gather[] = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)";
static const char argmax[] =
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>()";
static const char softmax[] = "void at::native::cunn_SoftMaxForward<8, float, float>(T1)";
static const char square[] =
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
    "pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::{lambda(float)#1}>(int)";
static const char mean[] = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                           "at::native::MeanOps<float, float, float, float>, unsigned int>>()";
static const char other[] = "my_kernel";

struct film { /* a timeline, one record after the other */
    struct timeline_builder *b;
    uint64_t now, correlation;
};

static void start(struct film *f) {
    *f = (struct film){ .b = timeline_builder_open(), .now = 1000 * US };
    timeline_builder_process(f->b, "a.ipt");
    timeline_builder_meta(f->b, "device.0.name", "NVIDIA H200");
}

static uint64_t call(struct film *f, const char *api) {
    struct trace_launch l = { .start_ns = f->now,
                              .end_ns = f->now + US,
                              .thread = 1,
                              .correlation = ++f->correlation,
                              .api = timeline_builder_text(f->b, api) };
    timeline_builder_launch(f->b, &l, 1);
    f->now += 2 * US;
    return f->correlation;
}

static void kernel_in_blocks(struct film *f, const char *name, uint32_t rows, uint32_t depth,
                             uint32_t block_y) {
    struct trace_kernel k = { .correlation = call(f, "cudaLaunchKernel"),
                              .start_ns = f->now,
                              .end_ns = f->now + 5 * US,
                              .stream = 7,
                              .name = timeline_builder_text(f->b, name),
                              .grid_x = rows,
                              .grid_y = 1,
                              .grid_z = depth,
                              .block_x = 128,
                              .block_y = block_y,
                              .block_z = 1 };
    timeline_builder_kernel(f->b, &k, 1);
    f->now += 6 * US;
}

static void kernel_of(struct film *f, const char *name, uint32_t rows, uint32_t depth) {
    kernel_in_blocks(f, name, rows, depth, 1);
}

static void kernel(struct film *f, const char *name, uint32_t rows) { kernel_of(f, name, rows, 1); }

static void copy(struct film *f, enum trace_copy_kind kind, uint64_t bytes) {
    struct trace_copy c = { .correlation = call(f, "cudaMemcpyAsync"),
                            .start_ns = f->now,
                            .end_ns = f->now + US,
                            .stream = 7,
                            .bytes = bytes,
                            .copy_kind = kind };
    timeline_builder_copy(f->b, &c, 1);
    f->now += 2 * US;
}

/* `partitions`: of the keys, in vLLM's paged attention; 0: another attention kernel */
static void step_with_keys(struct film *f, unsigned layers, uint32_t tokens, uint32_t requests,
                           uint32_t partitions) {
    copy(f, TRACE_COPY_HTOD, 8 * tokens);
    kernel(f, gather, tokens);
    for (unsigned i = 0; i < layers; i++) {
        kernel(f, norm, tokens);
        kernel(f, gemm, 40);
        kernel(f, rope, tokens);
        if (partitions)
            kernel_of(f, paged, 30, partitions);
        else
            kernel(f, flash, 30);
        kernel(f, gemm, 41);
        kernel(f, norm, tokens);
        kernel(f, gemm, 42);
        kernel(f, gemm, 43);
    }
    kernel(f, norm, tokens);
    kernel(f, gather, requests);
    kernel(f, gemm, 500);
    kernel(f, argmax, requests);
    copy(f, TRACE_COPY_DTOH, 8 * requests);
}

static void step(struct film *f, unsigned layers, uint32_t tokens, uint32_t requests) {
    step_with_keys(f, layers, tokens, requests, 0);
}

static void finish(struct film *f, struct timeline **tl, struct analysis *a) {
    *tl = timeline_builder_finish(f->b);
    analyze_run(*tl, NULL, a);
}

TEST(steps_of_a_model_become_stages_with_tokens_and_layers) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    step(&f, 4, 300, 1);
    for (int i = 0; i < 10; i++) step(&f, 4, 1, 1);
    finish(&f, &tl, &a);
    CHECK(a.recognised && a.recognition.llm);
    CHECK_INT(a.recognition.nsteps, 11);
    CHECK_INT(a.recognition.layers, 4);
    for (size_t i = 0; i < 11; i++) {
        const struct recognised_step *s = &a.recognition.steps[i];
        CHECK(s->certain);
        CHECK_INT(s->kind, i ? STEP_DECODE : STEP_PREFILL);
        CHECK_INT(s->tokens, i ? 1 : 300);
        CHECK_INT(s->requests, 1);
        CHECK_INT(s->count, 8 * 4 + 7);
    }
    CHECK_INT(a.noccurrences, 11);
    analysis_free(&a);
    timeline_close(tl);
}

/* More than float can hold: 24 bits. */
TEST(the_tokens_of_a_step_are_exact) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int i = 0; i < 10; i++) step(&f, 4, UINT32_MAX, UINT32_MAX);
    finish(&f, &tl, &a);
    CHECK_INT(a.recognition.nsteps, 10);
    CHECK_NEAR(a.recognition.steps[9].tokens, 4294967295.0, 0);
    CHECK_NEAR(a.recognition.steps[9].requests, 4294967295.0, 0);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(the_context_is_counted_from_the_prompt) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int request = 0; request < 2; request++) {
        step(&f, 4, request ? 40 : 300, 1);
        for (int i = 0; i < 10; i++) step(&f, 4, 1, 1);
    }
    finish(&f, &tl, &a);
    CHECK_INT(a.recognition.nsteps, 22);
    for (size_t i = 0; i < 22; i++) {
        double context = a.recognition.steps[i].context;
        if (i % 11)
            CHECK_NEAR(context, (double)(i < 11 ? 300 : 40) + (double)(i % 11), 0);
        else
            CHECK(isnan(context)); /* a prompt */
    }
    analysis_free(&a);
    timeline_close(tl);
}

/* Without a prompt, partitions of 512 keys limit the context; a new partition begins at key 513. */
TEST(attention_kernels_limit_the_context) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int i = 0; i < 10; i++) step_with_keys(&f, 4, 1, 1, i < 5 ? 3 : 4);
    finish(&f, &tl, &a);
    CHECK_INT(a.recognition.nsteps, 10);
    for (size_t i = 0; i < 10; i++) {
        const struct recognised_step *s = &a.recognition.steps[i];
        CHECK_NEAR(s->context_least, i < 5 ? 1025 : 1537, 0);
        CHECK_NEAR(s->context_most, i < 5 ? 1536 : 2048, 0);
        CHECK_NEAR(s->context, i < 5 ? 1025.0 + (double)i : 1537.0 + (double)i - 5, 0);
    }
    analysis_free(&a);
    timeline_close(tl);
}

/* vLLM copies the sampled ids of generating requests on the device. One attention kernel serves both. */
TEST(ids_that_stay_on_the_device_show_that_some_requests_generate) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int i = 0; i < 10; i++) step(&f, 4, 8, 8);
    copy(&f, TRACE_COPY_DTOD, 4 * 8);
    step(&f, 4, 308, 9); /* 8 requests generate */
    step(&f, 4, 308, 9);
    copy(&f, TRACE_COPY_DTOD, 4 * 9);
    step(&f, 4, 308, 9); /* a number per request: no evidence */
    finish(&f, &tl, &a);
    CHECK_INT(a.recognition.nsteps, 13);
    for (size_t i = 0; i < 13; i++) {
        const struct recognised_step *s = &a.recognition.steps[i];
        CHECK_INT(s->kind, i < 10 ? STEP_DECODE : i == 10 ? STEP_MIXED : STEP_PREFILL);
        CHECK_INT(s->certain, i <= 10);
        CHECK_INT(s->requests, i < 10 ? 8 : 9);
    }
    analysis_free(&a);
    timeline_close(tl);
}

/* A step of transformers, whose norms are a square and a mean of up to 4 rows per block. `lookup`: a kernel
 * with one block per row looks up the ids. */
static void plain_step(struct film *f, uint32_t tokens, uint32_t requests, bool lookup) {
    kernel(f, lookup ? gather : other, tokens);
    for (unsigned i = 0; i < 4; i++) {
        kernel(f, square, 2 * tokens);
        kernel_in_blocks(f, mean, (tokens + 3) / 4, 1, 4);
        kernel(f, gemm, 40);
        kernel(f, flash, 30);
        kernel(f, gemm, 41);
        kernel(f, gemm, 42);
    }
    kernel(f, gemm, 500);
    kernel(f, argmax, requests);
    copy(f, TRACE_COPY_DTOH, 8 * requests);
}

TEST(squares_of_norms_count_the_rows) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    plain_step(&f, 300, 1, true);
    for (int i = 0; i < 10; i++) plain_step(&f, 3, 3, false);
    finish(&f, &tl, &a);
    CHECK_INT(a.recognition.nsteps, 11);
    for (size_t i = 1; i < a.recognition.nsteps; i++) {
        const struct recognised_step *s = &a.recognition.steps[i];
        CHECK(s->certain);
        CHECK_INT(s->kind, STEP_DECODE);
        CHECK_INT(s->tokens, 3);
        CHECK_INT(s->requests, 3);
    }
    analysis_free(&a);
    timeline_close(tl);
}

/* Three tokens take as long as one; a pause does not follow from them. */
TEST(the_slowest_step_has_its_size_and_its_pause) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    step(&f, 4, 300, 1);
    for (int i = 0; i < 20; i++) {
        step(&f, 4, i == 10 ? 3 : 1, i == 10 ? 3 : 1);
        if (i == 10) f.now += 300 * US;
    }
    finish(&f, &tl, &a);
    const struct analysis_step_kind *k = a.step_kinds;
    while (k < a.step_kinds + a.nstep_kinds && k->kind != STEP_DECODE) k++;
    CHECK(k < a.step_kinds + a.nstep_kinds);
    CHECK_STR(k->worst_why, "it had 3 tokens, not 1, and the GPU waited 0.3 ms longer");
    analysis_free(&a);
    timeline_close(tl);
}

TEST(roles_follow_from_category_and_place) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    double calls[ROLE_END] = { 0 };
    start(&f);
    for (int i = 0; i < 12; i++) step(&f, 3, 2, 2);
    finish(&f, &tl, &a);
    CHECK(a.anatomy != NULL);
    CHECK_INT(a.anatomy->layers, 3);
    for (size_t i = 0; i < a.anatomy->nparts; i++) calls[a.anatomy->parts[i].role]++;
    CHECK_INT(calls[ROLE_NORM], 7);
    CHECK_INT(calls[ROLE_QKV], 3);
    CHECK_INT(calls[ROLE_ROTARY], 3);
    CHECK_INT(calls[ROLE_ATTENTION], 3);
    CHECK_INT(calls[ROLE_OUTPUT], 3);
    CHECK_INT(calls[ROLE_MLP], 6);
    CHECK_INT(calls[ROLE_LM_HEAD], 1);
    CHECK_INT(calls[ROLE_SAMPLING], 1);
    CHECK_INT(calls[ROLE_EMBEDDING], 1);
    double sum = 0;
    for (size_t i = 0; i < a.anatomy->nroles; i++) sum += a.anatomy->roles[i].ns;
    CHECK_NEAR(sum, a.anatomy->step_ns, 1);
    analysis_free(&a);
    timeline_close(tl);
}

/* The first matrix product of each step runs on another stream until the end of the step. */
TEST(work_that_outlasts_the_work_after_it_is_not_idle_time) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int i = 0; i < 12; i++) {
        uint64_t from = f.now + 3 * US;
        struct trace_kernel k = { .correlation = call(&f, "cudaLaunchKernel"),
                                  .start_ns = from,
                                  .end_ns = from + 150 * US,
                                  .stream = 8,
                                  .name = timeline_builder_text(f.b, gemm),
                                  .grid_x = 44 };
        timeline_builder_kernel(f.b, &k, 1);
        step(&f, 1, 2, 2);
    }
    finish(&f, &tl, &a);
    CHECK(a.anatomy != NULL);
    const struct recognised_step *s = &a.recognition.steps[a.recognition.nsteps / 2];
    double idle_ns = 0;
    for (size_t i = 0; i < a.anatomy->nroles; i++)
        if (a.anatomy->roles[i].idle) idle_ns = a.anatomy->roles[i].ns;
    CHECK(s->gpu_end_ns - s->gpu_start_ns > 100 * US);
    CHECK(idle_ns < 20e3);
    analysis_free(&a);
    timeline_close(tl);
}

/* A kernel of another process runs on the GPU during all steps. */
TEST(roles_of_a_step_add_up_to_its_part_of_a_shared_gpu) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    timeline_builder_meta(f.b, "device.0.uuid", "GPU-1");
    uint64_t from = f.now;
    for (int i = 0; i < 12; i++) step(&f, 1, 2, 2);
    timeline_builder_process(f.b, "b.ipt");
    timeline_builder_meta(f.b, "device.0.uuid", "GPU-1");
    struct trace_kernel k = { .correlation = 9999,
                              .start_ns = from,
                              .end_ns = f.now,
                              .stream = 7,
                              .name = timeline_builder_text(f.b, other) };
    timeline_builder_kernel(f.b, &k, 1);
    finish(&f, &tl, &a);
    CHECK(a.recognised && a.anatomy != NULL);
    double sum = 0;
    for (size_t i = 0; i < a.anatomy->nroles; i++) sum += a.anatomy->roles[i].ns;
    CHECK_NEAR(sum, a.anatomy->step_ns, 1);
    CHECK_NEAR(a.anatomy->step_ns, (13 * 5 + 2) * 1e3 / 2, 1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(work_that_does_not_repeat_is_one_stage) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    for (int i = 0; i < 50; i++) kernel(&f, other, 7);
    finish(&f, &tl, &a);
    CHECK(!a.recognised && a.stages[0].implicit);
    CHECK_INT(a.recognition.nsteps, 0);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(launches_of_a_stream_capture_are_no_executions) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    kernel(&f, other, 7);
    for (int i = 0; i < 6; i++) call(&f, "cudaLaunchKernel");
    for (int replay = 0; replay < 20; replay++) {
        uint64_t correlation = call(&f, "cudaGraphLaunch");
        for (int i = 0; i < 6; i++) {
            struct trace_kernel k = { .correlation = correlation,
                                      .start_ns = f.now,
                                      .end_ns = f.now + 5 * US,
                                      .stream = 7,
                                      .graph = 3,
                                      .graph_node = (uint64_t)i + 1,
                                      .name = timeline_builder_text(f.b, other) };
            timeline_builder_kernel(f.b, &k, 1);
            f.now += 6 * US;
        }
    }
    finish(&f, &tl, &a);
    CHECK_INT(a.launches_total, 21);
    CHECK(a.stages[0].idle_known);
    analysis_free(&a);
    timeline_close(tl);
}

/* The graph is not launched before the end of the recording: its kernels are not waiting. */
TEST(launches_between_the_calls_of_a_capture_are_no_executions) {
    struct film f;
    struct timeline *tl;
    struct analysis a;
    start(&f);
    kernel(&f, other, 7);
    call(&f, "hipStreamBeginCapture");
    for (int i = 0; i < 6; i++) call(&f, "hipLaunchKernel");
    call(&f, "hipStreamEndCapture");
    f.now += 500 * US;
    call(&f, "hipFree");
    finish(&f, &tl, &a);
    CHECK_INT(a.launches_total, 1);
    CHECK(a.stages[0].idle_known);
    CHECK_NEAR(a.devices[0].unrecorded_ns, 0, 1e-9);
    analysis_free(&a);
    timeline_close(tl);
}

/* A small generator, so that the test is the same everywhere. */
static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

TEST(random_timelines_keep_the_invariants) {
    static const char *const names[] = { norm, gemm, rope, flash, gather, argmax, softmax, other };
    for (uint32_t seed = 1; seed <= 150; seed++) {
        struct film f;
        struct timeline *tl;
        struct analysis a;
        uint32_t rng = seed;
        start(&f);
        for (uint32_t i = 0, n = next(&rng) % 300; i < n; i++) {
            uint32_t r = next(&rng);
            if (r % 9 == 0)
                copy(&f, r % 2 ? TRACE_COPY_DTOH : TRACE_COPY_HTOD, next(&rng) % 100);
            else if (r % 50 == 1)
                step(&f, next(&rng) % 4, next(&rng) % 20, next(&rng) % 5);
            else
                kernel(&f, names[next(&rng) % 8], next(&rng) % 4);
        }
        finish(&f, &tl, &a);
        for (size_t i = 0; i < a.recognition.nsteps; i++) {
            const struct recognised_step *s = &a.recognition.steps[i];
            CHECK(s->start_ns <= s->end_ns && s->gpu_start_ns <= s->gpu_end_ns);
            CHECK(s->certain == !s->doubt);
            CHECK(!(s->certain && a.recognition.llm && s->kind != STEP_OTHER && s->requests > s->tokens));
            CHECK(i == 0 || s->start_ns >= a.recognition.steps[i - 1].start_ns);
            CHECK(s->first + s->count <= a.recognition.nwork);
        }
        CHECK_NEAR(a.conservation.stage_residual, 0, 1);
        analysis_free(&a);
        timeline_close(tl);
    }
}
