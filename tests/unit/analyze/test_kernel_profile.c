/* Profiles of single kernels are matched with the kernel classes of a run by name, grid and block. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/kernel_profile.h"
#include "base/util.h"
#include "unit/test.h"

static void check_same_name(const char *a, const char *b) {
    char *la = kernel_name_normalize(a), *lb = kernel_name_normalize(b);
    CHECK_STR(la, lb);
    free(la);
    free(lb);
}

TEST(kernel_looks_agree_however_a_tool_prints_them) {
    /* torch.profiler on the left, Nsight Compute on the right */
    check_same_name("void cutlass::Kernel2<cutlass_80_tn_align8>(cutlass_80_tn_align8::Params)",
                    "void Kernel2<cutlass_80_tn_align8>(Params)");
    check_same_name("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, "
                    "std::array<char*, 1ul> >(int, "
                    "at::native::FillFunctor<int>, std::array<char*, 1ul>)",
                    "void vectorized_elementwise_kernel<4, FillFunctor<int>, array<char *, 1>>(int, T2, T3)");
    check_same_name(
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float, false, true, 7, "
        "cublasGemvParamsEx<int, float> >(cublasGemvParamsEx<int, float>)",
        "enable_if<!T7, void>::type kernel<int, float, (bool)0, (bool)1, (int)7, cublasGemvParamsEx<int, "
        "float>>(T13)");
    check_same_name("void at::native::(anonymous namespace)::softmax<float, 2>(float*)",
                    "void at::native::<unnamed>::softmax<float, (int)2>(float *)");
    check_same_name("_ZN2at6native4copyIfEEvPT_", "void at::native::copy<float>(float*)");
    check_same_name("triton_poi_fused_add_0", "triton_poi_fused_add_0");
}

TEST(kernel_looks_keep_template_arguments_apart) {
    char *a = kernel_name_normalize("void f<int, 4>(int)"), *b = kernel_name_normalize("void f<int, 8>(int)");
    CHECK_STR(a, "f<int,4>");
    CHECK_STR(b, "f<int,8>");
    free(a);
    free(b);
}

struct run_kernel {
    const char *name;
    uint32_t grid_x, block_x;
};

static struct timeline *make_run(const struct run_kernel *v, size_t n) {
    struct timeline_builder *b = timeline_builder_open();
    timeline_builder_process(b, "a.ipt");
    for (size_t i = 0; i < n; i++) {
        struct trace_kernel k = { .start_ns = 1000 + i * 1000,
                                  .end_ns = 1900 + i * 1000 - i * 100, /* fixes the order of the classes */
                                  .name = timeline_builder_text(b, v[i].name),
                                  .grid_x = v[i].grid_x,
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = v[i].block_x,
                                  .block_y = 1,
                                  .block_z = 1 };
        timeline_builder_kernel(b, &k, 1);
    }
    return timeline_builder_finish(b);
}

static const char *profile_name(const struct analysis *a, size_t kernel) {
    const struct kernel_profile *p = kernel_profile_of(a, (uint32_t)kernel);
    return p ? p->name : "none";
}

TEST(kernel_profiles_meet_classes_by_name_and_geometry) {
    static const struct run_kernel kernels[] = {
        { "void ns::gemm<float>(float*)", 64, 128 }, /* by name */
        { "void ns::gemm<float>(float*)", 32, 128 }, /* other grid: not profiled */
        /* template arguments are printed differently: matched by function */
        { "void ns::copy<lambda#1>(int)", 16, 256 },
        { "void ns::map<lambda#1>(int)", 8, 64 }, /* ambiguous: same function and geometry */
        { "void ns::map<lambda#2>(int)", 8, 64 },
        { "plain", 7, 32 }, /* the profile knows no geometry */
    };
    static const struct kernel_profile profiles[] = {
        { .name = "void gemm<float>(float *)", .grid = { 64, 1, 1 }, .block = { 128, 1, 1 } },
        { .name = "void copy<[lambda (instance 1)]>(int)", .grid = { 16, 1, 1 }, .block = { 256, 1, 1 } },
        { .name = "void map<[lambda (instance 1)]>(int)", .grid = { 8, 1, 1 }, .block = { 64, 1, 1 } },
        { .name = "plain" },
        { .name = "absent", .grid = { 1, 1, 1 }, .block = { 32, 1, 1 } },
    };
    struct timeline *tl = make_run(kernels, COUNTOF(kernels));
    struct analyze_input input = {
        .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN, .profiles = profiles, .nprofiles = COUNTOF(profiles)
    };
    struct analysis a;
    analyze_run(tl, &input, &a);
    CHECK_INT(a.nkernels, 6);
    CHECK_STR(profile_name(&a, 0), profiles[0].name);
    CHECK_STR(profile_name(&a, 1), "none");
    CHECK_STR(profile_name(&a, 2), profiles[1].name);
    CHECK_STR(profile_name(&a, 3), "none");
    CHECK_STR(profile_name(&a, 4), "none");
    CHECK_STR(profile_name(&a, 5), "plain");
    CHECK_INT(a.profiles->matches[0], KERNEL_PROFILE_NAME);
    CHECK_INT(a.profiles->matches[1], KERNEL_PROFILE_FUNCTION);
    CHECK_INT(a.profiles->matches[2], KERNEL_PROFILE_NO_MATCH);
    CHECK_INT(a.profiles->unmatched, 2);
    CHECK_NEAR(a.profiles->covered_share, a.kernels[0].share + a.kernels[2].share + a.kernels[5].share,
               1e-12);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(kernel_profiles_with_a_product_for_a_grid_compare_products) {
    static const struct run_kernel kernels[] = { { "f", 12, 64 } };
    static const struct kernel_profile fits = { .name = "f", .grid = { 12 }, .block = { 64 } },
                                       other = { .name = "f", .grid = { 13 }, .block = { 64 } };
    struct timeline *tl = make_run(kernels, 1);
    struct analyze_input input = { .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN, .nprofiles = 1 };
    struct analysis a;
    input.profiles = &fits;
    analyze_run(tl, &input, &a);
    CHECK_STR(profile_name(&a, 0), "f");
    analysis_free(&a);
    input.profiles = &other;
    analyze_run(tl, &input, &a);
    CHECK_STR(profile_name(&a, 0), "none");
    analysis_free(&a);
    timeline_close(tl);
}
