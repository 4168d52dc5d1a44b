#include <stdlib.h>
#include <string.h>

#include "analyze/demangle.h"
#include "analyze/kernel_name.h"
#include "base/file.h"
#include "base/util.h"
#include "unit/test.h"

static size_t fields(char *line, char **out, size_t max) {
    size_t n = 0;
    for (char *p = line; p && n < max; n++) {
        out[n] = p;
        p = strchr(p, '\t');
        if (p && n + 1 < max) *p++ = '\0';
    }
    return n;
}

TEST(kernel_names_of_real_profiles_are_understood) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    CHECK_INT(file_read("tests/data/kernels/names.tsv", 1 << 20, &text, &err), 0);
    size_t seen = 0, wrong = 0;
    char *save, *f[5];
    for (char *line = strtok_r(text.buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct kernel_name kn;
        if (line[0] == '#') continue;
        CHECK_INT(fields(line, f, 5), 5);
        kernel_name_parse(&kn, f[4]);
        bool same = strcmp(kernel_library_name(kn.library), f[0]) == 0 &&
                    strcmp(kernel_category_name(kn.category), f[1]) == 0 && strcmp(kn.short_name, f[2]) == 0;
        if (!same)
            fprintf(stderr, "%s / %s / %s, wanted %s / %s / %s: %.200s\n", kernel_library_name(kn.library),
                    kernel_category_name(kn.category), kn.short_name, f[0], f[1], f[2], f[4]);
        wrong += !same;
        seen++;
        kernel_name_free(&kn);
    }
    strbuf_free(&text);
    CHECK_INT(wrong, 0);
    CHECK(seen > 300);
}

/* tests/oracle/kernel_labels.tsv contains the category that a person assigned to each kernel. */
TEST(kernels_get_the_category_a_person_gives_them) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    CHECK_INT(file_read("tests/oracle/kernel_labels.tsv", 1 << 20, &text, &err), 0);
    size_t seen = 0, wrong = 0;
    char *save, *f[3];
    for (char *line = strtok_r(text.buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct kernel_name kn;
        if (line[0] == '#') continue;
        CHECK_INT(fields(line, f, 3), 3);
        kernel_name_parse(&kn, f[2]);
        bool same = strcmp(kernel_category_name(kn.category), f[0]) == 0;
        if (!same) fprintf(stderr, "%s, not %s: %.200s\n", kernel_category_name(kn.category), f[0], f[2]);
        wrong += !same;
        seen++;
        kernel_name_free(&kn);
    }
    strbuf_free(&text);
    CHECK_INT(wrong, 0);
    CHECK(seen >= 548);
}

TEST(sizes_and_references_in_mangled_names_are_no_identifiers) {
    static const char *const cases[][2] = {
        { "_ZN5aiter4normI3fooE", "aiter::norm<foo>" },
        { "_ZN5aiter4normIDF16b3fooLi128EEEvPT_S1_PKDF16b", "aiter::norm<foo>" },
        { "_ZN5aiter4normIDF16_NS_3fooELS1_2EEEvDv4_fDF16b", "aiter::norm<foo>" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text = demangle_roughly(cases[i][0]);
        CHECK_STR(text, cases[i][1]);
        free(text);
    }
}

TEST(kernel_names_of_servers_are_understood) {
    static const struct {
        const char *name;
        enum kernel_library library;
        enum kernel_category category;
        const char *short_name;
    } rows[] = {
        { "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, float, int)", KERNEL_LIBRARY_VLLM,
          KERNEL_CATEGORY_NORM, "rms_norm_kernel bf16" },
        { "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16>(int)", KERNEL_LIBRARY_VLLM,
          KERNEL_CATEGORY_KV_CACHE, "concat_and_cache_mla_kernel bf16" },
        { "set_mla_kv_buffer_kernel", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_KV_CACHE,
          "set_mla_kv_buffer_kernel" },
        { "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int)", KERNEL_LIBRARY_TENSORRT,
          KERNEL_CATEGORY_COMMUNICATION, "moeA2ADispatchKernel" },
        { "void grouped_topk_fused_kernel<float, int>(float*)", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_MOE,
          "grouped_topk_fused_kernel f32" },
        /* the native engine */
        { "cublaslt_bf16_bf16", KERNEL_LIBRARY_CUBLAS, KERNEL_CATEGORY_GEMM, "cublaslt_bf16_bf16" },
        { "wgmma_swiglu_bf16", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_GEMM, "wgmma_swiglu_bf16" },
        { "swiglu_gemv_bf16", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_GEMV, "swiglu_gemv_bf16" },
        { "experts_grouped_bf16", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_GEMM, "experts_grouped_bf16" },
        { "persistent_choice_bf16", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_MOE, "persistent_choice_bf16" },
        { "batch_pick_f32", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_SAMPLING, "batch_pick_f32" },
        { "_bmm_kernel", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_GEMM, "_bmm_kernel" },
        { "void vllm::cvt_fp16_to_fp4<__nv_bfloat16>(int)", KERNEL_LIBRARY_VLLM, KERNEL_CATEGORY_QUANT,
          "cvt_fp16_to_fp4 bf16" },
        { "void flashinfer::sampling::TopPRenormProbKernel<1024u>(float*)", KERNEL_LIBRARY_FLASHINFER,
          KERNEL_CATEGORY_SAMPLING, "TopPRenormProbKernel" },
        { "fp8_mqa_logits_kernel", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_ATTENTION, "fp8_mqa_logits_kernel" },
        { "_chunk_scan_fwd_kernel", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_ATTENTION,
          "_chunk_scan_fwd_kernel" },
        { "void selective_scan_fwd_kernel<float>(int)", KERNEL_LIBRARY_USER, KERNEL_CATEGORY_ATTENTION,
          "selective_scan_fwd_kernel f32" },
        { "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(int)", KERNEL_LIBRARY_VLLM,
          KERNEL_CATEGORY_KV_CACHE, "reshape_and_cache_flash_kernel bf16" },
        { "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)", KERNEL_LIBRARY_VLLM,
          KERNEL_CATEGORY_COMMUNICATION, "cross_device_reduce_1stage bf16" },
        { "void vllm::moe::topkGatingSoftmax<8, 64, 4, 16>(float const*)", KERNEL_LIBRARY_VLLM,
          KERNEL_CATEGORY_MOE, "topkGatingSoftmax" },
        { "fused_moe_kernel", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_GEMM, "fused_moe_kernel" },
        { "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>(int)",
          KERNEL_LIBRARY_FLASHINFER, KERNEL_CATEGORY_ATTENTION, "BatchDecodeWithPagedKVCacheKernel" },
        { "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, float>(float*)",
          KERNEL_LIBRARY_FLASHINFER, KERNEL_CATEGORY_SAMPLING, "TopKTopPSamplingFromProbKernel f32" },
        { "void mul_mat_vec_q<(ggml_type)12, 1, false>(void const*)", KERNEL_LIBRARY_GGML,
          KERNEL_CATEGORY_GEMV, "mul_mat_vec_q" },
        { "void mul_mat_q<(ggml_type)12, 64, false>(char const*)", KERNEL_LIBRARY_GGML, KERNEL_CATEGORY_GEMM,
          "mul_mat_q" },
        { "void flash_attn_ext_f16<128, 128, 16, 4>(char const*)", KERNEL_LIBRARY_GGML,
          KERNEL_CATEGORY_ATTENTION, "flash_attn_ext_f16" },
        { "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_NORM,
          "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3" },
        { "triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_view_1", KERNEL_LIBRARY_TRITON,
          KERNEL_CATEGORY_COPY, "triton_poi_fused__scaled_dot_product_flash_attention_cat_tra" },
        { "triton_poi_fused_convolution_relu_0", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_ELEMENTWISE,
          "triton_poi_fused_convolution_relu_0" },
        { "triton_tem_fused_addmm_3", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_GEMM,
          "triton_tem_fused_addmm_3" },
        { "void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*, float*)", KERNEL_LIBRARY_DEEPEP,
          KERNEL_CATEGORY_COMMUNICATION, "dispatch" },
        { "std::enable_if<(((0)>(0)))||!vllm::_typeConvert<c10::Half>::exists, void>::type "
          "vllm::rms_norm_static_fp8_quant_kernel<c10::Half, 0>(int)",
          KERNEL_LIBRARY_VLLM, KERNEL_CATEGORY_NORM, "rms_norm_static_fp8_quant_kernel f16" },
        { "void rope_norm<true, false, float>(float const*)", KERNEL_LIBRARY_GGML, KERNEL_CATEGORY_ROPE,
          "rope_norm f32" },
        { "void convert_unary<__half, float>(void const*)", KERNEL_LIBRARY_GGML, KERNEL_CATEGORY_COPY,
          "convert_unary f16" },
        { "void at::native::(anonymous namespace)::grid_sampler_2d_kernel<float, int>(int)",
          KERNEL_LIBRARY_ATEN, KERNEL_CATEGORY_ELEMENTWISE, "grid_sampler_2d_kernel f32" },
        { "_silu_mul_fp8_quant_deep_gemm", KERNEL_LIBRARY_TRITON, KERNEL_CATEGORY_ELEMENTWISE,
          "_silu_mul_fp8_quant_deep_gemm" },
        { "Custom_Cijk_Alik_Bljk_BBS_BH_MT256x256x64", KERNEL_LIBRARY_ROCM, KERNEL_CATEGORY_GEMM,
          "Custom_Cijk_Alik_Bljk_BBS_BH_MT256x256x64" },
        { "__amd_rocclr_copyBuffer", KERNEL_LIBRARY_DRIVER, KERNEL_CATEGORY_COPY, "__amd_rocclr_copyBuffer" },
        { "_ZN8nvinfer115genericReformat3runEv", KERNEL_LIBRARY_TENSORRT, KERNEL_CATEGORY_COPY, "run" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kernel_name kn;
        kernel_name_parse(&kn, rows[i].name);
        if (strcmp(kn.short_name, rows[i].short_name) != 0 || kn.library != rows[i].library ||
            kn.category != rows[i].category)
            fprintf(stderr, "%s: %s %s %s\n", rows[i].name, kernel_library_name(kn.library),
                    kernel_category_name(kn.category), kn.short_name);
        CHECK_STR(kn.short_name, rows[i].short_name);
        CHECK_INT(kn.library, rows[i].library);
        CHECK_INT(kn.category, rows[i].category);
        kernel_name_free(&kn);
    }
}

TEST(kernel_names_that_are_no_names_do_no_harm) {
    /* each level refers to the previous one twice, so the full name would have 2^60 letters */
    char bomb[2000] = "_Z1fN1a1bE";
    for (int i = 0; i < 60; i++) {
        char level[32];
        snprintf(level, sizeof level, i ? "1hIS%c_S%c_E" : "1hIS_S_E",
                 i <= 10 ? '0' + i - 1 : 'A' + (i - 11) % 26, i <= 10 ? '0' + i - 1 : 'A' + (i - 11) % 26);
        strcat(bomb, level);
    }
    static const char *const names[] = { "",         "_Z",    "_ZN",      "_ZN999999999999999999999foo",
                                         "<<<<",     ">>>>(", "a<b(c)>d", "::",
                                         "\xff\xfe", "void ", "f(",       "_ZNK3aIXE" };
    for (size_t i = 0; i <= sizeof names / sizeof names[0]; i++) {
        struct kernel_name kn;
        kernel_name_parse(&kn, i < sizeof names / sizeof names[0] ? names[i] : bomb);
        CHECK(kn.short_name[0] != '\0');
        CHECK(strlen(kn.short_name) <= 60);
        CHECK(strlen(kn.demangled) <= 40000);
        kernel_name_free(&kn);
    }
}
