/* Each rule about work: one scene in which it must emit a finding with the right saving, and a similar one
 * in which it must not. */
#include <math.h>
#include <string.h>

#include "analyze/kernel_profile.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

#define US 1000ull
#define MS 1000000ull

static const char gemm[] = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT";
static const char gemv[] = "void gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16>(T1)";
static const char add[] =
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)";
static const char cat[] = "void at::native::CatArrayBatchedCopy<c10::BFloat16, unsigned int, 4, 64, 64>(T1)";
static const char log_softmax[] =
    "void at::native::cunn_SoftMaxForward<4, float, float, float, at::native::LogSoftMaxForwardEpilogue>(T1)";
static const char log_softmax_small[] =
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)";
static const char masked_softmax[] =
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, true>(float*)";
static const char softmax[] = "void at::native::cunn_SoftMaxForward<8, float, float>(T1)";
static const char flash[] = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)";
static const char router[] = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(T1)";
static const char combine[] =
    "void deep_ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*)";
static const char spin[] = "at::cuda::(anonymous namespace)::spin_kernel(long)";
static const char nccl[] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/* A number of consecutive calls of a kernel with the same geometry. */
struct act {
    const char *name;
    unsigned times;
    uint64_t us;
    uint32_t blocks, threads; /* 0: not known */
};

static void play_one(struct scene *s, const struct act *act, uint32_t stream, uint64_t call, uint64_t start) {
    struct trace_launch l = { .start_ns = call,
                              .end_ns = call + 3 * US,
                              .thread = 1,
                              .correlation = ++s->correlation,
                              .api = timeline_builder_text(s->b, "cudaLaunchKernel") };
    struct trace_kernel k = { .start_ns = start,
                              .end_ns = start + act->us * US,
                              .stream = stream,
                              .correlation = s->correlation,
                              .grid_x = act->blocks,
                              .grid_y = act->blocks ? 1 : 0,
                              .grid_z = act->blocks ? 1 : 0,
                              .block_x = act->threads,
                              .block_y = act->threads ? 1 : 0,
                              .block_z = act->threads ? 1 : 0,
                              .registers = act->threads ? 168 : 0,
                              .name = timeline_builder_text(s->b, act->name) };
    timeline_builder_launch(s->b, &l, 1);
    timeline_builder_kernel(s->b, &k, 1);
}

/* Repeats the acts in a decode whose host launches early enough, so that there is no idle time. Returns
 * the end time. */
static uint64_t play(struct scene *s, const struct act *acts, size_t n, unsigned rounds) {
    uint64_t at = 100 * US, call = 0;
    for (unsigned r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i++)
            for (unsigned t = 0; t < acts[i].times; t++, call += US, at += acts[i].us * US)
                play_one(s, &acts[i], 7, call < at ? call : at, at);
    return at;
}

struct verdict {
    bool found;
    double ms;
    char title[200], evidence[400], advice[400];
};

static struct verdict judge_with(struct scene *s, const char *rule, const struct analyze_input *in) {
    struct timeline *tl = timeline_builder_finish(s->b);
    struct analysis a;
    struct verdict v = { false, NAN, "", "", "" };
    analyze_run(tl, in, &a);
    const struct analysis_finding *f = scene_finding(&a, rule);
    if (f) {
        v.found = true;
        v.ms = f->saving_ms;
        snprintf(v.title, sizeof v.title, "%s", f->title);
        snprintf(v.evidence, sizeof v.evidence, "%s", f->evidence);
        snprintf(v.advice, sizeof v.advice, "%s", f->advice);
        CHECK(v.advice[0] != '\0');
    }
    analysis_free(&a);
    timeline_close(tl);
    return v;
}

/* Ten rounds of the acts as the stage "decode", with a roofline time or NaN. */
static struct verdict judge(const struct act *acts, size_t n, const char *rule, double floor_ms) {
    struct scene s;
    scene_start(&s);
    uint64_t end = play(&s, acts, n, 10);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, end);
    const struct analyze_cost costs[] = {
        { .stage = "decode", .flops = 1e9, .bytes = 1e9, .floor_ns = floor_ms * 1e6 }
    };
    const struct analyze_input in = {
        .costs = costs, .ncosts = 1, .peak_flops_per_s = 1e15, .peak_bytes_per_s = 4e12
    };
    return judge_with(&s, rule, isnan(floor_ms) ? NULL : &in);
}
#define JUDGE(rule, floor_ms, ...)                                                                         \
    judge((const struct act[]){ __VA_ARGS__ }, sizeof((struct act[]){ __VA_ARGS__ }) / sizeof(struct act), \
          rule, floor_ms)

/* 10 rounds of 10 x 100 us are 10 ms; with 33 blocks on 132 multiprocessors, three quarters of the GPU are
 * idle. */
TEST(finding_small_grids) {
    struct verdict v = JUDGE("small-grids", NAN, { gemm, 10, 100, 33, 128 }, { gemm, 10, 100, 1320, 128 });
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 0.75, 1e-6);
    CHECK(strstr(v.title, "10.0 ms in grids that do not fill the GPU") != NULL);
    CHECK(strstr(v.evidence, "33 blocks on 132 multiprocessors, 100 calls of 100.0 us") != NULL);
    CHECK(!JUDGE("small-grids", NAN, { gemm, 20, 100, 1320, 128 }).found); /* grids that fill it */
    CHECK(!JUDGE("small-grids", NAN, { gemm, 20, 100, 0, 0 }).found);      /* unknown grids */
    CHECK(!JUDGE("small-grids", NAN, { nccl, 20, 100, 16, 512 }).found);   /* small on purpose */
    CHECK(!JUDGE("small-grids", NAN, { combine, 20, 100, 20, 512 }).found);
    CHECK(!JUDGE("small-grids", NAN, { spin, 20, 100, 1, 1 }).found);
    CHECK_NEAR(JUDGE("small-grids", 18, { gemm, 10, 100, 33, 128 }, { gemm, 10, 100, 1320, 128 }).ms, 2,
               1e-6); /* 20 ms of work with a roofline time of 18 ms: at most 2 ms can be saved */
}

/* 10 ms of small grids on one stream. Kernels of another stream overlap all of it, or half of it. */
static struct verdict judge_overlap(unsigned beside) {
    struct scene s;
    scene_start(&s);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t at = (100 + 100 * i) * US;
        play_one(&s, &(struct act){ gemm, 1, 100, 33, 128 }, 7, i * US, at);
        if (i < beside) play_one(&s, &(struct act){ flash, 1, 100, 99, 128 }, 8, i * US, at);
    }
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 10100 * US);
    return judge_with(&s, "small-grids", NULL);
}

TEST(finding_small_grids_leaves_out_overlapped_time) {
    CHECK_NEAR(judge_overlap(0).ms, 7.5, 1e-6);
    CHECK_NEAR(judge_overlap(50).ms, 7.5 / 2, 1e-6);
    CHECK(!judge_overlap(100).found);
}

TEST(finding_small_grids_leaves_out_kernels_that_keep_dram_busy) {
    for (int pct = 50; pct <= 70; pct += 20) {
        struct scene s;
        scene_start(&s);
        uint64_t end = play(&s, &(struct act){ gemv, 10, 100, 33, 128 }, 1, 10);
        scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, end);
        struct kernel_profile profile = {
            .name = gemv, .grid = { 33, 1, 1 }, .block = { 128, 1, 1 }, .launches = 1
        };
        for (int i = 0; i < KERNEL_PROFILE_METRIC_END; i++) profile.value[i] = NAN;
        profile.value[KERNEL_PROFILE_DRAM] = pct;
        const struct analyze_input in = {
            .profiles = &profile, .nprofiles = 1, .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN
        };
        CHECK_INT(judge_with(&s, "small-grids", &in).found, pct < 60);
    }
}

/* 128 threads with 168 registers: 3 blocks per multiprocessor, 396 at once. 400 blocks are two waves, each
 * using 198 blocks. */
TEST(finding_gemm_tiles) {
    struct verdict v = JUDGE("gemm-tiles", NAN, { gemm, 10, 100, 400, 128 });
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * (1 - 400.0 / 396 / 2), 1e-6);
    CHECK(strstr(v.evidence, "400 blocks make 1.01 waves, so 51% of 2 waves is used") != NULL);
    CHECK(!JUDGE("gemm-tiles", NAN, { gemm, 10, 100, 792, 128 }).found); /* two whole waves */
    /* less than one wave: another rule applies */
    CHECK(!JUDGE("gemm-tiles", NAN, { gemm, 10, 100, 300, 128 }).found);
    CHECK(!JUDGE("gemm-tiles", NAN, { add, 10, 100, 400, 128 }).found); /* not a product */
}

/* A chain of 10, 20 and 30 us could be one kernel of 30 us: saves 30 us in each of the 10 rounds. */
TEST(finding_unfused_elementwise) {
    struct verdict v = JUDGE("unfused-elementwise", NAN, { gemm, 1, 100, 0, 0 }, { add, 1, 10, 0, 0 },
                             { cat, 1, 20, 0, 0 }, { add, 1, 30, 0, 0 });
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 0.030, 1e-6);
    CHECK(strstr(v.evidence,
                 "30 kernels are in such chains; element-wise, copy and cast kernels take 600 us, 38%") !=
          NULL);
    CHECK(!JUDGE("unfused-elementwise", NAN, { gemm, 1, 100, 0, 0 }, { add, 1, 60, 0, 0 }).found); /* alone */
}

TEST(finding_unfused_elementwise_keeps_to_one_stream) {
    const struct act one = { add, 1, 30, 0, 0 };
    struct scene s;
    scene_start(&s);
    for (uint32_t i = 0; i < 100; i++) /* alternating between two streams, each after a GEMM on its stream */
        play_one(&s, i % 2 ? &one : &(struct act){ gemm, 1, 30, 0, 0 }, 7 + i % 4 / 2, i * US,
                 (i + 10) * 30 * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 110 * 30 * US);
    CHECK(!judge_with(&s, "unfused-elementwise", NULL).found);
}

/* Each GEMM is followed by two element-wise kernels; a copy runs between them on the given stream. */
static struct verdict judge_copies(uint32_t stream) {
    struct scene s;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t at = (1 + i) * MS;
        struct trace_copy copy = { .start_ns = at + 130 * US,
                                   .end_ns = at + 140 * US,
                                   .bytes = 1000,
                                   .stream = stream,
                                   .copy_kind = TRACE_COPY_HTOD };
        play_one(&s, &(struct act){ gemm, 1, 100, 0, 0 }, 7, at, at);
        play_one(&s, &(struct act){ add, 1, 30, 0, 0 }, 7, at, at + 100 * US);
        play_one(&s, &(struct act){ add, 1, 30, 0, 0 }, 7, at, at + 140 * US);
        timeline_builder_copy(s.b, &copy, 1);
    }
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 12 * MS);
    return judge_with(&s, "unfused-elementwise", NULL);
}

TEST(finding_unfused_elementwise_ends_a_chain_at_a_copy) {
    CHECK(!judge_copies(7).found);
    CHECK_NEAR(judge_copies(8).ms, 10 * 0.030, 1e-6);
}

/* While two streams run such chains, each kernel takes half of the time of the device. */
TEST(finding_unfused_elementwise_counts_owned_time) {
    struct scene s;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++)
        for (uint32_t k = 0; k < 8; k++)
            play_one(&s, &(struct act){ add, 1, 25, 0, 0 }, 7 + k % 2, i * 100 * US,
                     i * 100 * US + (4 + k / 2 * 25) * US);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 1004 * US);
    struct verdict v = judge_with(&s, "unfused-elementwise", NULL);
    CHECK(strstr(v.title, "saves up to 975 us") != NULL); /* of 1 ms: all but a kernel of each stream */
    CHECK_NEAR(v.ms, 0.975, 1e-6);
}

/* An optimiser handles its tensors in several launches of one kernel. */
TEST(finding_unfused_elementwise_counts_an_operation_on_many_tensors_once) {
    static const char adam[] =
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(long)";
    static const char scale[] =
        "void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor<float>>(long)";
    CHECK(!JUDGE("unfused-elementwise", NAN, { gemm, 1, 100, 0, 0 }, { adam, 4, 10, 0, 0 }).found);
    CHECK_NEAR(JUDGE("unfused-elementwise", NAN, { gemm, 1, 100, 0, 0 }, { adam, 4, 10, 0, 0 },
                     { scale, 2, 10, 0, 0 })
                   .ms,
               10 * 0.020, 1e-6);
}

TEST(finding_busy_wait) {
    const struct act barrier = { "persistent_up_barrier_bf16", 5, 4, 0, 0 };
    struct verdict v = JUDGE("busy-wait", NAN, { gemm, 1, 80, 0, 0 }, barrier);
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 5 * 0.004, 1e-6);
    CHECK(strstr(v.evidence, "20% of its GPU time are barriers") != NULL);
    CHECK(strstr(v.evidence, "persistent_up_barrier_bf16 (mean 4.00 us)") != NULL);
    CHECK(!JUDGE("busy-wait", NAN, { gemm, 1, 480, 0, 0 }, barrier).found); /* 4% */
    CHECK_NEAR(JUDGE("busy-wait", 0.9, { gemm, 1, 80, 0, 0 }, barrier).ms, 0.1,
               1e-6); /* 1 ms is 0.1 from the roof */
}

TEST(finding_cast_copy_traffic) {
    struct verdict v = JUDGE("cast-copy-traffic", NAN, { gemm, 1, 90, 0, 0 }, { cat, 1, 10, 0, 0 });
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 0.010, 1e-6);
    CHECK(strstr(v.evidence, "10% of its GPU time computes nothing") != NULL);
    CHECK(strstr(v.advice, "KV cache") != NULL); /* the stage "decode" */
    CHECK(!JUDGE("cast-copy-traffic", NAN, { gemm, 1, 96, 0, 0 }, { cat, 1, 4, 0, 0 }).found); /* 4% */
}

TEST(finding_unfused_attention) {
    const struct act product = { gemm, 1, 45, 0, 0 }, probabilities = { softmax, 1, 10, 0, 0 },
                     mask = { add, 1, 10, 0, 0 }, masked = { masked_softmax, 1, 20, 0, 0 };
    struct verdict v = JUDGE("unfused-attention", NAN, product, mask, probabilities, mask, product);
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 0.010, 1e-6);
    CHECK(!JUDGE("unfused-attention", NAN, product, probabilities, product, { flash, 1, 5, 0, 0 })
               .found); /* attention is fused: the softmax belongs to a router or the sampler */
    CHECK(!JUDGE("unfused-attention", NAN, probabilities).found); /* no products around it */
    CHECK(!JUDGE("unfused-attention", NAN, product, { log_softmax, 1, 10, 0, 0 }, product).found);
    CHECK(!JUDGE("unfused-attention", NAN, product, { log_softmax_small, 1, 10, 0, 0 }, product).found);
    v = JUDGE("unfused-attention", NAN, product, masked, product, { log_softmax, 1, 10, 0, 0 });
    CHECK_NEAR(v.ms, 10 * 0.020, 1e-6);
}

/* The next batch begins with a convolution, an embedding or the copy of its input. */
TEST(finding_unfused_attention_is_not_about_the_softmax_of_a_classifier) {
    static const char conv[] = "void cudnn::cnn::conv2d_grouped_direct_kernel<float>(int)";
    static const char lookup[] = "void at::native::(anonymous namespace)::indexSelectLargeIndex<float>(T1)";
    const struct act product = { gemm, 1, 45, 0, 0 }, head = { softmax, 1, 10, 0, 0 };
    CHECK(!JUDGE("unfused-attention", NAN, { conv, 1, 45, 0, 0 }, product, head).found);
    CHECK(!JUDGE("unfused-attention", NAN, { lookup, 1, 5, 0, 0 }, product, product, head).found);
    struct scene s;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t at = (1 + i) * MS;
        struct trace_copy copy = {
            .start_ns = at, .end_ns = at + 10 * US, .bytes = 1000, .stream = 7, .copy_kind = TRACE_COPY_HTOD
        };
        timeline_builder_copy(s.b, &copy, 1);
        play_one(&s, &product, 7, at, at + 20 * US);
        play_one(&s, &head, 7, at, at + 70 * US);
    }
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 12 * MS);
    CHECK(!judge_with(&s, "unfused-attention", NULL).found);
}

/* Batches that are on the device already: the product of the next batch follows directly. */
TEST(finding_unfused_attention_is_not_about_a_softmax_after_a_linear_layer) {
    struct scene s;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t at = (1 + i) * 100 * US;
        scene_operator(&s, "aten::linear", "", 1, at, at + 10 * US);
        scene_operator(&s, "aten::addmm", "", 1, at + US, at + 9 * US);
        play_one(&s, &(struct act){ gemm, 1, 45, 0, 0 }, 7, at + 2 * US, at + 20 * US);
        play_one(&s, &(struct act){ softmax, 1, 10, 0, 0 }, 7, at + 12 * US, at + 70 * US);
    }
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 2 * MS);
    CHECK(!judge_with(&s, "unfused-attention", NULL).found);
}

/* 10 tokens, each with a router and 120 GEMMs of 5 us; every kernel starts 5 us after the previous one,
 * because the host is slow. */
static struct verdict experts_in(bool stage_per_token, unsigned products, uint64_t us, bool routed) {
    const struct act product = { gemv, 1, us, 0, 0 }, top = { routed ? router : add, 1, us, 0, 0 };
    struct scene s;
    uint64_t at = 10 * US;
    scene_start(&s);
    for (uint64_t token = 0; token < 10; token++) {
        uint64_t from = at - 5 * US;
        for (unsigned i = 0; i <= products; i++, at += (us + 5) * US)
            play_one(&s, i ? &product : &top, 7, at - 4 * US, at);
        timeline_builder_token(
            s.b,
            &(struct trace_token){ .time_ns = at, .count = 1, .token_kind = TRACE_TOKEN_MADE, .thread = 1 },
            1);
        if (stage_per_token) scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, from, at - 5 * US);
    }
    if (!stage_per_token) scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, at);
    return judge_with(&s, "small-experts", NULL);
}

static struct verdict experts(unsigned products, uint64_t us, bool routed) {
    return experts_in(false, products, us, routed);
}

TEST(finding_small_experts) {
    struct verdict v = experts(120, 5, true);
    CHECK(v.found);
    /* gaps between 1,210 kernels and before the first; 1,200 of the kernels are products */
    CHECK_NEAR(v.ms, (0.010 + 1209 * 0.005) * 1200 / 1210, 1e-6);
    CHECK(strstr(v.title, "120 small GEMMs per token") != NULL);
    CHECK(strstr(v.evidence, "5.0 us each on average, 6.00 ms in total") != NULL);
    CHECK(!experts(120, 5, false).found); /* no router: a dense model */
    CHECK(!experts(80, 5, true).found);   /* as many as layers have */
    CHECK(!experts(120, 30, true).found); /* not small */
}

/* The duration of a call does not depend on the number of steps. The other values are per step. */
TEST(finding_small_experts_of_ten_steps) {
    struct verdict v = experts_in(true, 120, 5, true);
    CHECK(v.found);
    CHECK(strstr(v.evidence, "5.0 us each on average, 600 us per step") != NULL);
    CHECK(!experts_in(true, 120, 30, true).found); /* not small */
}

/* Four ProfilerSteps; each copies 1 MB, waits for the copy, runs a kernel and synchronises for 200 us. */
static struct verdict copy_and_wait(const char *rule, enum trace_copy_kind kind) {
    struct scene s;
    scene_start(&s);
    for (uint64_t step = 0, at = MS; step < 4; step++, at += 2 * MS) {
        struct trace_copy copy = { .start_ns = at + 100 * US,
                                   .end_ns = at + 300 * US,
                                   .bytes = 1000000,
                                   .correlation = ++s.correlation,
                                   .stream = 7,
                                   .copy_kind = kind };
        struct trace_launch call = { .start_ns = at + 50 * US,
                                     .end_ns = at + 60 * US,
                                     .thread = 1,
                                     .correlation = s.correlation,
                                     .api = timeline_builder_text(s.b, "cudaMemcpyAsync") };
        timeline_builder_launch(s.b, &call, 1);
        timeline_builder_copy(s.b, &copy, 1);
        scene_kernel(&s, gemm, 1, at + 70 * US, at + 80 * US, 7, at + 310 * US, at + 700 * US);
        scene_sync(&s, 1, at + 600 * US, at + 800 * US);
        scene_kernel(&s, gemm, 1, at + 900 * US, at + 910 * US, 7, at + 915 * US, at + 1000 * US);
        scene_range(&s, TRACE_CATEGORY_USER, "ProfilerStep#1", 1, at, at + MS);
    }
    return judge_with(&s, rule, NULL);
}

TEST(findings_on_waits_have_one_unit) {
    struct verdict v = copy_and_wait("host-copies", TRACE_COPY_HTOD);
    CHECK(v.found);
    CHECK(strstr(v.evidence, "copies: 1 per step; 1.00 MB to the device") != NULL);
    v = copy_and_wait("synchronisation", TRACE_COPY_HTOD);
    CHECK(v.found);
    CHECK(strstr(v.evidence, "1 synchronisation per step blocks the host for 200 us") != NULL);
    CHECK(strstr(v.advice, "sampling") == NULL); /* these steps are of no language model */
}

TEST(copies_on_the_device_are_no_copies_of_the_host) {
    CHECK_NEAR(copy_and_wait("host-copies", TRACE_COPY_DTOH).ms, 0.2, 1e-9);
    CHECK(!copy_and_wait("host-copies", TRACE_COPY_DTOD).found);
    CHECK(!copy_and_wait("host-copies", TRACE_COPY_MEMSET).found);
    struct verdict v = copy_and_wait("cast-copy-traffic", TRACE_COPY_DTOD);
    CHECK_NEAR(v.ms, 0.2, 1e-9);
    CHECK(strstr(v.evidence, "200 us of it in copies by memcpy") != NULL);
    CHECK(strstr(v.advice, "KV cache") == NULL);
    CHECK(!copy_and_wait("cast-copy-traffic", TRACE_COPY_HTOD).found);
    CHECK(!copy_and_wait("cast-copy-traffic", TRACE_COPY_MEMSET).found);
}

/* 100 us of communication in each of 10 rounds; `beside` us of it overlap a GEMM on another stream. */
static struct verdict communicate(uint64_t beside) {
    const struct act product = { gemm, 1, 900, 0, 0 }, reduce = { nccl, 1, 100, 16, 512 };
    struct scene s;
    scene_start(&s);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t at = (1 + i) * MS;
        play_one(&s, &product, 7, at - 50 * US, at);
        play_one(&s, &reduce, 13, at - 40 * US, at + (900 - beside) * US);
    }
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, 12 * MS);
    return judge_with(&s, "exposed-communication", NULL);
}

TEST(finding_exposed_communication) {
    struct verdict v = communicate(20);
    CHECK(v.found);
    CHECK_NEAR(v.ms, 10 * 0.080, 1e-6);
    CHECK(strstr(v.evidence, "communication kernels own 900 us of its GPU time") !=
          NULL);                    /* 80% + half of 20% */
    CHECK(!communicate(100).found); /* all of it hidden */
    CHECK(!communicate(60).found);  /* 0.4 ms of 9.4 busy: under 5% */
}

TEST(findings_come_by_saving_and_those_that_only_inform_last) {
    struct scene s;
    struct analysis a;
    const struct act acts[] = { { gemm, 4, 100, 33, 128 }, { add, 2, 30, 0, 0 }, { cat, 2, 40, 0, 0 } };
    const double ms[] = { 5, 6, 7, 8 };
    const struct analyze_timing timings[] = { { .stage = "decode", .n = 4, .ms = ms } };
    const struct analyze_input in = { .timings = timings, .ntimings = 1 };
    scene_start(&s);
    uint64_t end = play(&s, acts, 3, 10);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, end);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, &in, &a);
    CHECK(a.nfindings >= 4);
    bool informs = false;
    for (size_t i = 0; i < a.nfindings; i++) {
        informs |= isnan(a.findings[i].saving_ms);
        CHECK(!informs || isnan(a.findings[i].saving_ms));
        if (i && !informs) CHECK(a.findings[i].saving_ms <= a.findings[i - 1].saving_ms);
    }
    CHECK(informs); /* "unstable" */
    analysis_free(&a);
    timeline_close(tl);
}
