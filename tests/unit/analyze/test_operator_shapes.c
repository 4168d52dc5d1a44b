#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/operator_shapes.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

static void check_work(const char *name, const char *detail, double flops, double bytes) {
    struct operator_work work = { NAN, NAN, LLM_DTYPE_UNKNOWN };
    bool known = operator_shapes_work(name, detail, &work);
    double f = work.flops, b = work.bytes;
    if (!known || f != flops || (b != bytes && !(isnan(b) && isnan(bytes))))
        fprintf(stderr, "%s %s: %d %.0f FLOPs %.0f bytes\n", name, detail, known, f, b);
    CHECK(known);
    CHECK(f == flops);
    CHECK(b == bytes || (isnan(b) && isnan(bytes)));
}

TEST(operator_shapes_count_products) {
    check_work("aten::mm", "[3,5]bf16 [5,7]bf16", 2 * 3 * 5 * 7, 2 * (15 + 35 + 21));
    check_work("aten::addmm", "[7]f32 [3,5]f32 [5,7]f32", 210, 4 * (7 + 15 + 35 + 21));
    check_work("aten::linear", "[2,3,5]bf16 [7,5]bf16 [7]bf16", 2 * 210, 2 * (30 + 35 + 7 + 42));
    check_work("aten::bmm", "[4,3,5]f16 [4,5,7]f16", 4 * 210, 2 * 4 * (15 + 35 + 21));
    check_work("aten::baddbmm", "[4,3,7]f16 [4,3,5]f16 [4,5,7]f16", 4 * 210, 2 * 4 * (21 + 15 + 35 + 21));
    check_work("aten::matmul", "[4,1,3,5]f32 [6,5,7]f32", 24 * 210, 4 * (60 + 210 + 24 * 21));
    check_work("aten::mv", "[3,5]f32 [5]f32", 30, 4 * (15 + 5 + 3));
    check_work("aten::_scaled_mm", "[3,5]f8e4m3 [5,7]f8e4m3 [1]f32 [1]f32", 210, NAN);
    check_work("aten::mm", "sizes = [[3, 5], [5, 7]]", 210, NAN);
    check_work("aten::addmm", "sizes = [[7], [3, 5], [5, 7], [], []]", 210, NAN);
}

TEST(operator_shapes_count_convolutions) {
    /* 224 x 224, 7 x 7, stride 2, padding 3: 112 x 112 */
    double flops = 2.0 * 32 * 64 * 112 * 112 * 3 * 49,
           bytes = 2.0 * (32 * 3 * 224 * 224 + 64 * 3 * 49 + 32 * 64 * 112 * 112);
    check_work("aten::conv2d", "[32,3,224,224]bf16 [64,3,7,7]bf16; [2,2] [3,3] [1,1] 1", flops, bytes);
    check_work("aten::convolution", "[32,3,224,224]bf16 [64,3,7,7]bf16; [2,2] [3,3] [1,1] False [0,0] 1",
               flops, bytes);
    check_work("aten::cudnn_convolution",
               "[32,3,224,224]bf16 [64,3,7,7]bf16; [3,3] [2,2] [1,1] 1 False False True", flops, bytes);
    check_work("aten::conv1d", "[2,8,10]f32 [16,4,3]f32; [1] [1] [2] 2", 2.0 * 2 * 16 * 8 * 4 * 3,
               4.0 * (160 + 192 + 2 * 16 * 8)); /* groups 2; dilation 2 reaches over 5 */
    /* transposed, stride 2: 4 x 4 becomes 8 x 8 with a 2 x 2 kernel */
    check_work("aten::convolution", "[1,3,4,4]f32 [3,5,2,2]f32; [2,2] [0,0] [1,1] True [0,0] 1",
               2.0 * 3 * 16 * 5 * 4, 4.0 * (48 + 60 + 5 * 64));
    /* transposed with 3 groups, dilation 2 and output padding 1: (4 - 1) 2 + 2 + 1 + 1 = 10 */
    check_work("aten::convolution", "[1,3,4,4]f32 [3,5,2,2]f32 [15]f32; [2,2] [0,0] [2,2] True [1,1] 3",
               2.0 * 3 * 16 * 5 * 4, 4.0 * (48 + 60 + 15 + 15 * 100));
    /* both gradients together cost twice the forward pass */
    check_work(
        "aten::convolution_backward",
        "[1,8,4,4]f32 [1,3,4,4]f32 [8,3,3,3]f32; [0] [1,1] [1,1] [1,1] False [0,0] 1 [True,True,False]",
        2 * 2.0 * 8 * 16 * 27, 4.0 * (128 + 2 * (48 + 216)));
}

TEST(operator_shapes_count_attention) {
    const char *three = "[2,4,10,8]f16 [2,4,10,8]f16 [2,4,10,8]f16",
               *flash = "[2,10,4,8]f16 [2,10,4,8]f16 [2,10,4,8]f16";
    char text[200];
    double bytes = 2.0 * 4 * 640;
    snprintf(text, sizeof text, "%s; 0. False 0.125 False", three);
    check_work("aten::scaled_dot_product_attention", text, 2.0 * 2 * 4 * 100 * 16, bytes);
    snprintf(text, sizeof text, "%s; 0. True False 0.125", three);
    check_work("aten::_scaled_dot_product_flash_attention", text, 2.0 * 2 * 4 * 55 * 16, bytes);
    snprintf(text, sizeof text, "%s; False 0. True", three);
    check_work("aten::_scaled_dot_product_efficient_attention", text, 2.0 * 2 * 4 * 55 * 16, bytes);
    snprintf(text, sizeof text, "%s; 10 10 0. True False 0.125", flash);
    check_work("aten::_flash_attention_forward", text, 2.0 * 2 * 4 * 55 * 16, bytes);
    snprintf(text, sizeof text, "%s; 10 10 0. 1 True 0.125", flash);
    check_work("aten::_efficient_attention_forward", text, 2.0 * 2 * 4 * 55 * 16, bytes);
    snprintf(text, sizeof text, "%s; 10 10 0. 0 True 0.125", flash);
    check_work("aten::_efficient_attention_forward", text, 2.0 * 2 * 4 * 100 * 16, bytes);
    /* 2 queries at the end of 10 keys attend to 9 and 10 of them */
    check_work("aten::_flash_attention_forward",
               "[1,2,4,8]f16 [1,10,1,8]f16 [1,10,1,8]f16; 2 10 0. True False", 2.0 * 4 * 19 * 16,
               2.0 * (64 + 80 + 80 + 64));
}

TEST(operator_shapes_count_the_backward_pass_of_attention) {
    /* 5 products per pair: 3 with the size of the query (8), 2 with that of the value (4) */
    double pairs = 2 * 4 * 55, flops = 2 * pairs * (3 * 8 + 2 * 4),
           bytes = 2 * 2.0 * (2 * 640 + 320 + 320); /* inputs and gradients, the result and its gradient */
    const char *tensors = "[2,4,10,4]f16 [2,4,10,8]f16 [2,4,10,8]f16 [2,4,10,4]f16 [2,4,10,4]f16 [2,4,10]f32",
               *rows = "[2,10,4,4]f16 [2,10,4,8]f16 [2,10,4,8]f16 [2,10,4,4]f16 [2,10,4,4]f16 [2,4,10]f32";
    char text[300];
    snprintf(text, sizeof text, "%s; 10 10 0. True 0.125", tensors);
    check_work("aten::_scaled_dot_product_flash_attention_backward", text, flops, bytes);
    check_work("aten::_scaled_dot_product_cudnn_attention_backward", text, flops, bytes);
    snprintf(text, sizeof text, "%s; 0. [True,True,True,False] True", tensors);
    check_work("aten::_scaled_dot_product_efficient_attention_backward", text, flops, bytes);
    snprintf(text, sizeof text, "%s; 10 10 0. True", rows);
    check_work("aten::_flash_attention_backward", text, flops, bytes);
    snprintf(text, sizeof text, "%s; 10 10 0. 1 False", rows);
    check_work("aten::_efficient_attention_backward", text, flops, bytes);
    snprintf(text, sizeof text, "%s [2,10,4,8]f16 [2,10,4,8]f16 [2,10,4,4]f16; 0. 0.125 True -1 -1 0. False",
             rows);
    check_work("flash_attn::_flash_attn_backward", text, flops, bytes);
}

TEST(operator_shapes_count_windows_and_packed_sequences) {
    const char *dense = "[1,4,2,8]f16 [1,10,1,8]f16 [1,10,1,8]f16";
    double bytes = 2.0 * (2 * 64 + 2 * 80);
    char text[200];
    /* positions 6 to 9 of 10 keys; a window of 3 before and 1 after: 5, 5, 5, 4 */
    snprintf(text, sizeof text, "%s; 0. 0.1 False 3 1 0. False", dense);
    check_work("flash_attn::_flash_attn_forward", text, 2.0 * 2 * 19 * 16, bytes);
    /* causal: 4 keys each */
    snprintf(text, sizeof text, "%s; 0. 0.1 True 3 0 0. False", dense);
    check_work("aiter::mha_fwd", text, 2.0 * 2 * 16 * 16, bytes);
    /* two sequences of 5 tokens */
    check_work("flash_attn::_flash_attn_varlen_forward",
               "[10,2,8]f16 [10,1,8]f16 [10,1,8]f16 [3]i32 [3]i32; 5 5 0. 0.1 True -1 -1 0.",
               2.0 * 2 * 2 * 15 * 16, 2.0 * (2 * 160 + 2 * 80));
    check_work("aten::_flash_attention_forward",
               "[10,2,8]f16 [10,1,8]f16 [10,1,8]f16 [3]i32 [3]i32; 5 5 0. False False", 2.0 * 2 * 2 * 25 * 16,
               2.0 * (2 * 160 + 2 * 80));
}

TEST(operator_shapes_refuse_what_they_do_not_know) {
    static const char *const calls[][2] = {
        { "aten::add", "[3,5]f32 [3,5]f32" },
        { "aten::mm", "" },
        { "aten::mm", "[3,5]f32" },
        { "aten::mm", "[3,5]f32 [6,7]f32" },
        { "aten::mm", "[[3,5],[3]]f32 [5,7]f32" },
        { "aten::mm", "[3,5" },
        { "aten::mm", "[1,1,1,1,1,1,1,1,1,1,1]f32 [1,1]f32" },
        { "aten::conv2d", "[32,3,224,224]bf16 [64,3,7,7]bf16" }, /* stride and padding are not recorded */
        { "aten::conv2d", "[32,3,2,2]bf16 [64,3,7,7]bf16; [1,1] [0,0] [1,1] 1" },
        { "aten::convolution_backward", "[1,8,4,4]f32 [1,3,4,4]f32 [8,3,3,3]f32; [1,1] False" },
        { "aten::scaled_dot_product_attention", "[2,4,10,8]f16 [2,4,10,8]f16 [2,4,10,8]f16" },
        { "aten::_flash_attention_forward",
          "[20,4,8]f16 [20,4,8]f16 [20,4,8]f16; 10 10 0. True" }, /* ragged */
        { "flash_attn::_flash_attn_varlen_forward", /* lengths differ: 2 sequences, 12 tokens, at most 10 */
          "[12,2,8]f16 [12,1,8]f16 [12,1,8]f16 [3]i32 [3]i32; 10 10 0. 0.1 True -1 -1 0." },
        { "aten::_efficient_attention_forward", /* a window after the type of the mask */
          "[2,10,4,8]f16 [2,10,4,8]f16 [2,10,4,8]f16; 10 10 0. 1 True 0.125 4" },
        { "aten::convolution", "[1,3,4,4]f32 [3,5,2,2]f32; [2,2] [0,0] [1,1] True [0,0]" }, /* no groups */
        { "vllm::unified_attention", "[32,64,64]bf16 [32,8,64]bf16 [32,8,64]bf16" }, /* needs a label */
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct operator_work work = { 1, 2, LLM_F64 };
        bool known = operator_shapes_work(calls[i][0], calls[i][1], &work);
        if (known) fprintf(stderr, "%s %s: %.0f FLOPs\n", calls[i][0], calls[i][1], work.flops);
        CHECK(!known);
        CHECK(work.flops == 1 && work.bytes == 2);
    }
}

static const struct analysis_operator *operator_row(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->noperators; i++)
        if (strcmp(a->operators[i].name, name) == 0) return &a->operators[i];
    fail_msg("no operator %s", name);
    return NULL;
}

static const struct analysis_kernel *kernel_row(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->nkernels; i++)
        if (strcmp(a->kernels[i].name, name) == 0) return &a->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

TEST(operator_work_goes_to_the_innermost_operator_and_its_dominant_kernel) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    /* linear calls addmm: one GEMM of 9 us, and the reduction of its split K of 1 us */
    scene_operator(&s, "aten::linear", "[3,5]bf16 [7,5]bf16 [7]bf16", 1, 0, 1000);
    scene_operator(&s, "aten::addmm", "[7]bf16 [3,5]bf16 [5,7]bf16", 1, 100, 900);
    scene_kernel(&s, "gemm", 1, 200, 300, 7, 1000, 10000);
    scene_kernel(&s, "splitKreduce", 1, 400, 500, 7, 10000, 11000);
    /* two equal kernels: the operator has FLOPs, neither kernel does */
    scene_operator(&s, "aten::bmm", "[4,3,5]f16 [4,5,7]f16", 1, 2000, 3000);
    scene_kernel(&s, "half_one", 1, 2100, 2200, 7, 12000, 13000);
    scene_kernel(&s, "half_two", 1, 2300, 2400, 7, 13000, 14000);
    /* no kernel in the trace: not counted, neither in FLOPs nor in time */
    scene_operator(&s, "aten::bmm", "[4,3,5]f16 [4,5,7]f16", 1, 4000, 5000);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    const struct analysis_operator *linear = operator_row(&a, "aten::linear"),
                                   *addmm = operator_row(&a, "aten::addmm"),
                                   *bmm = operator_row(&a, "aten::bmm");
    CHECK(isnan(linear->flops));
    CHECK_NEAR(addmm->flops, 210, 0);
    CHECK_NEAR(addmm->work_ns, 10000, 0);
    CHECK_STR(addmm->work_source, "operator shapes");
    CHECK_NEAR(bmm->flops, 840, 0);
    CHECK_NEAR(bmm->work_ns, 2000, 0);
    CHECK_NEAR(kernel_row(&a, "gemm")->flops, 210, 0);
    CHECK_NEAR(kernel_row(&a, "gemm")->work_ns, 9000, 0);
    CHECK_STR(kernel_row(&a, "gemm")->work_source, "operator shapes");
    CHECK(isnan(kernel_row(&a, "splitKreduce")->flops));
    CHECK(isnan(kernel_row(&a, "half_one")->flops));
    CHECK(isnan(kernel_row(&a, "half_two")->flops));
    CHECK_INT(a.nroofline, 3); /* gemm, addmm, bmm */
    for (size_t i = 0; i < a.nroofline; i++) CHECK_STR(a.roofline[i].source, "operator shapes");
    analysis_free(&a);
    timeline_close(tl);
}

TEST(an_operator_that_calls_itself_has_rates_if_the_inner_call_is_counted) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    for (uint64_t at = 0; at < 2000; at += 1000) {
        scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, at, at + 900); /* of the dispatcher */
        scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, at + 100, at + 800);
        scene_kernel(&s, "gemm", 1, at + 200, at + 300, 7, 5000 + at, 5500 + at);
    }
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(operator_row(&a, "aten::mm")->flops, 2 * 210, 0);
    CHECK_NEAR(operator_row(&a, "aten::mm")->work_ns, 2 * 500, 0);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(an_operator_has_no_rates_if_its_longest_call_is_not_counted) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, 0, 900);
    scene_kernel(&s, "gemm", 1, 200, 300, 7, 5000, 5500);
    scene_range(&s, TRACE_CATEGORY_OP, "aten::mm", 1, 1000, 1900); /* without shapes */
    scene_kernel(&s, "gemm", 1, 1200, 1300, 7, 6000, 6700);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK(isnan(operator_row(&a, "aten::mm")->flops));
    CHECK(operator_row(&a, "aten::mm")->work_source == NULL);
    analysis_free(&a);
    timeline_close(tl);
}

/* Two layers of a step: one call of attention each, for all of its sequences. */
static double attention_flops_of_layers(const char *label, const char *detail, uint64_t first_ns,
                                        uint64_t second_ns) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_USER, label, 1, 0, 5000);
    scene_operator(&s, "vllm::unified_attention_with_output", detail, 1, 100, 900);
    scene_kernel(&s, "kernel_unified_attention_2d", 1, 200, 300, 7, 10000, 10000 + first_ns);
    scene_operator(&s, "vllm::unified_attention_with_output", detail, 1, 1100, 1900);
    scene_kernel(&s, "kernel_unified_attention_2d", 1, 1200, 1300, 7, 50000, 50000 + second_ns);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    double flops = operator_row(&a, "vllm::unified_attention_with_output")->flops;
    analysis_free(&a);
    timeline_close(tl);
    return flops;
}

TEST(attention_of_a_server_is_counted_by_the_label_of_its_step) {
    /* a chunk of 4 tokens after 6 others: 7 + 8 + 9 + 10 pairs; two generated tokens: 20 and 30 keys */
    const char *label = "execute_6_context_1(sq4sk10sqsq16sqsk40)_generation_2(sq2sk50sqsq2sqsk50)",
               *detail = "[8,4,16]bf16 [8,2,16]bf16 [8,2,16]bf16 [8,4,16]bf16";
    CHECK_NEAR(attention_flops_of_layers(label, detail, 9000, 9100), 2 * (2.0 * 4 * (34 + 50) * 32), 0);
    /* one of the layers has a sliding window, which is in no argument */
    CHECK(isnan(attention_flops_of_layers(label, detail, 4000, 9100)));
    /* the label has no keys */
    CHECK(isnan(attention_flops_of_layers("execute_context_1(4_16)_generation_0(0)", detail, 9000, 9000)));
}

/* A product of 10 us runs together with a kernel of another stream. Its rate is that of its own duration. */
TEST(rates_of_products_are_over_their_own_duration) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, 0, 1000);
    scene_kernel(&s, "gemm", 1, 200, 300, 7, 2000, 12000);
    scene_kernel(&s, "ncclKernel_SendRecv", 2, 250, 350, 8, 2000, 12000);
    struct timeline *tl = timeline_builder_finish(s.b);
    analyze_run(tl, NULL, &a);
    CHECK_NEAR(operator_row(&a, "aten::mm")->gpu_ns, 5000, 0); /* half of the time in which both run */
    CHECK_NEAR(operator_row(&a, "aten::mm")->work_ns, 10000, 0);
    CHECK_INT(a.ngemms, 1);
    CHECK_NEAR(a.gemms[0].total_ns, 10000, 0);
    analysis_free(&a);
    timeline_close(tl);
}

static const char *gemm_text(const char *name, const char *detail) {
    static char text[96];
    struct operator_gemm g;
    if (!operator_shapes_gemm(name, detail, &g)) return "none";
    snprintf(text, sizeof text, "%.0f %.0f %.0f x%.0f %s", g.m, g.n, g.k, g.batch, g.types);
    return text;
}

TEST(operator_shapes_give_the_sizes_of_products) {
    CHECK_STR(gemm_text("aten::mm", "[8944,1024]bf16 [1024,2816]bf16"), "8944 2816 1024 x1 bf16,bf16");
    CHECK_STR(gemm_text("aten::addmm", "[7]bf16 [3,5]bf16 [5,7]bf16"), "3 7 5 x1 bf16,bf16");
    CHECK_STR(gemm_text("aten::linear", "sizes = [[2, 3, 5]f16, [7, 5]f16]"), "6 7 5 x1 fp16,fp16");
    CHECK_STR(gemm_text("aten::bmm", "[4,3,5]f16 [4,5,7]f16"), "3 7 5 x4 fp16,fp16");
    CHECK_STR(gemm_text("aten::mm", "sizes = [[2, 3], [3, 4]]"), "2 4 3 x1 ");
    CHECK_STR(gemm_text("q_proj", "x[512,1280]f32 w[640,1280]bf16"), "512 640 1280 x1 fp32,bf16");
    CHECK_STR(gemm_text("aten::mm", "[2,3]f16 [4,5]f16"), "none");
    CHECK_STR(gemm_text("aten::mm", "[1e300,3]f16 [3,5]f16"), "none");
    CHECK_STR(gemm_text("aten::mm", "[0,3]f16 [3,5]f16"), "none");
    CHECK_STR(gemm_text("aten::conv2d", "[1,3,8,8]f16 [4,3,2,2]f16; [1,1] [0,0] [1,1]"), "none");
    CHECK_STR(gemm_text("attention", "q[1,2]f32 kv[3,2]f32"), "none");
}

TEST(gemm_table_counts_each_product_once) {
    struct scene s;
    struct analysis a;
    scene_start(&s);
    scene_operator(&s, "aten::linear", "[3,5]bf16 [7,5]bf16", 1, 0, 1000);
    scene_operator(&s, "aten::addmm", "[7]bf16 [3,5]bf16 [5,7]bf16", 1, 100, 900);
    scene_kernel(&s, "gemm", 1, 200, 300, 7, 1000, 10000);
    scene_kernel(&s, "splitKreduce", 1, 400, 500, 7, 10000, 11000);
    scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, 2000, 3000);
    scene_kernel(&s, "gemm", 1, 2100, 2200, 7, 12000, 13000);
    scene_operator(&s, "aten::mm", "[3,5]bf16 [5,7]bf16", 1, 4000, 5000); /* its kernel is not recorded */
    struct timeline *tl = timeline_builder_finish(s.b);
    struct analyze_input in = { .peak_flops_per_s = 210e9, .peak_bytes_per_s = 1e9 };
    analyze_run(tl, &in, &a);
    CHECK_INT(a.ngemms, 1); /* linear calls addmm, and mm has the same sizes and the same kernel */
    CHECK_INT(a.gemms[0].m * 10000 + a.gemms[0].n * 100 + a.gemms[0].k, 30705);
    CHECK_INT(a.gemms[0].calls, 2);
    CHECK_NEAR(a.gemms[0].total_ns, 11000, 0);
    CHECK_NEAR(a.gemms[0].flops, 420, 0);
    CHECK_NEAR(a.gemms[0].compute_ns, 2, 1e-9);
    CHECK_STR(a.gemms[0].algorithm, "gemm");
    CHECK_STR(a.gemms[0].types, "bf16,bf16");
    analysis_free(&a);
    timeline_close(tl);
}
