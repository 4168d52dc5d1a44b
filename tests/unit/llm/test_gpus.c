/* The GPU table: lookup by the names that users and drivers use, and no figures with sparsity. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "llm/gpus.h"
#include "unit/test.h"

TEST(gpus_are_found_as_people_and_drivers_write_them) {
    static const struct {
        const char *asked, *name;
    } cases[] = {
        { "h100", "H100 SXM" },
        { "H200", "H200 SXM" },
        { "NVIDIA H200", "H200 SXM" },
        { "NVIDIA H100 80GB HBM3", "H100 SXM" },
        { "NVIDIA H100 PCIe", "H100 PCIe" },
        { "NVIDIA H100 NVL", "H100 NVL" },
        { "NVIDIA A100-SXM4-80GB", "A100 80GB SXM" },
        { "NVIDIA A100-PCIE-40GB", "A100 40GB PCIe" },
        { "NVIDIA A100 80GB PCIe", "A100 80GB PCIe" },
        { "a100-40gb", "A100 40GB SXM" },
        { "Tesla V100-SXM2-32GB", "V100 SXM2" },
        { "Tesla V100-PCIE-16GB", "V100 PCIe 16GB" },
        { "Tesla V100-SXM2-16GB", "V100 SXM2 16GB" },
        { "v100", "V100 SXM2" },
        { "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Server" },
        { "NVIDIA H20-3e", "H20-3e" },
        { "AMD Instinct MI300X", "MI300X" },
        { "AMD Instinct MI300X OAM", "MI300X" },
        { "AMD Instinct MI300X VF", "MI300X" },
        { "mi300x", "MI300X" },
        { "AMD Instinct MI300A", "MI300A" },
        { "AMD Instinct MI325X", "MI325X" },
        { "AMD Instinct MI350X", "MI350X" },
        { "AMD Instinct MI355X", "MI355X" },
        { "AMD Instinct MI210", "MI210" },
        { "AMD Instinct MI250", "MI250 GCD" },
        { "AMD Instinct MI250X / MI250", "MI250X GCD" },
        { "Tesla T4", "T4" },
        { "NVIDIA GeForce RTX 4090", "RTX 4090" },
        { "4090", "RTX 4090" },
        { "rtx5090", "RTX 5090" },
        { "NVIDIA RTX A6000", "RTX A6000" },
        { "NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada" },
        { "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000" },
        { "NVIDIA L40S", "L40S" },
        { "l4", "L4" },
        { "NVIDIA GH200 480GB", "GH200 96GB" },
        { "NVIDIA B200", "B200" },
        { "gb200", "GB200" },
        { "NVIDIA A10G", "A10G" },
        { "h20", "H20" },
        { "h800", "H800 SXM" },
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err err = { "" };
        const struct llm_gpu *g = llm_gpu_find(cases[i].asked, &err);
        const char *found = g ? g->name : err.msg;
        if (strcmp(found, cases[i].name) == 0) continue;
        fprintf(stderr, "%s: found %s, not %s\n", cases[i].asked, found, cases[i].name);
        wrong++;
    }
    CHECK_INT(wrong, 0);
}

TEST(devices_with_similar_names_are_not_found) {
    static const char *const names[] = { "NVIDIA GeForce RTX 4090 Laptop GPU",
                                         "NVIDIA GeForce RTX 3090 Ti",
                                         "RTX 4090 D",
                                         "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                                         "Quadro RTX 6000",
                                         "AMD Radeon Graphics",
                                         "AMD Instinct MI308X" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        struct err err = { "" };
        CHECK(llm_gpu_find(names[i], &err) == NULL);
        CHECK(err.msg[0] != '\0');
    }
}

TEST(slices_of_a_card_do_not_get_its_peaks) {
    static const char *const names[] = { "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                                         "GRID A100-10C",
                                         "GRID A100-1-5C",
                                         "NVIDIA A10-24Q",
                                         "NVIDIA L40S-48Q",
                                         "NVIDIA H100 vGPU",
                                         "NVIDIA H100 80GB HBM3 MIG 3g.40gb" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        struct err err = { "" };
        CHECK(llm_gpu_find(names[i], &err) == NULL);
        CHECK(strstr(err.msg, "is a slice of a GPU (MIG or vGPU), so its peaks are unknown") != NULL);
    }
}

TEST(device_without_a_name_has_no_peaks) {
    struct err err = { "" };
    CHECK(llm_gpu_find("", &err) == NULL);
    CHECK_STR(err.msg, "the device has no name, so its peaks are unknown");
}

TEST(misspelt_gpu_suggests_the_nearest) {
    struct err err = { "" };
    CHECK(llm_gpu_find("L40X", &err) == NULL);
    CHECK(strstr(err.msg, "did you mean L40") != NULL);
}

/* Dense FLOPs per clock and SM of each architecture's tensor cores: a figure with sparsity would be twice as
 * large. */
TEST(sixteen_bit_peaks_are_dense) {
    static const struct {
        const char *name;
        double per_clock; /* FLOP/clock/SM, dense, fp32 accumulate */
    } rows[] = { { "V100 SXM2", 1024 },    { "T4", 1024 },
                 { "A10", 1024 },          { "A40", 1024 },
                 { "A30", 2048 },          { "A100 80GB SXM", 2048 },
                 { "L4", 1024 },           { "L40S", 1024 },
                 { "RTX 3090", 512 },      { "RTX 4090", 512 },
                 { "RTX 5090", 512 },      { "RTX A6000", 1024 },
                 { "RTX 6000 Ada", 1024 }, { "RTX PRO 6000", 1024 },
                 { "H100 PCIe", 4096 },    { "H100 SXM", 4096 },
                 { "H200 SXM", 4096 },     { "H100 NVL", 4096 },
                 { "B200", 8192 },         { "MI210", 1024 },
                 { "MI250 GCD", 1024 },    { "MI250X GCD", 1024 },
                 { "MI300A", 2048 },       { "MI300X", 2048 },
                 { "MI325X", 2048 },       { "MI350X", 4096 },
                 { "MI355X", 4096 },       { "RTX PRO 6000 Server", 1024 } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct err err;
        const struct llm_gpu *g = llm_gpu_find(rows[i].name, &err);
        CHECK(g != NULL);
        double peak = g->sms * g->tensor_mhz * 1e6 * rows[i].per_clock / 1e12;
        if (fabs(g->fp16 / peak - 1) > 0.012)
            fprintf(stderr, "%s: %g, by clocks %g\n", g->name, g->fp16, peak);
        CHECK(fabs(g->fp16 / peak - 1) <= 0.012);
        CHECK(g->boost_mhz == 0 || g->tensor_mhz <= g->boost_mhz);
    }
}

TEST(every_row_is_complete_and_consistent) {
    for (size_t i = 0; i < llm_gpus(); i++) {
        const struct llm_gpu *g = llm_gpu_at(i);
        bool amd = strncmp(g->capability, "gfx", 3) == 0, unpublished = strcmp(g->name, "H20-3e") == 0;
        CHECK(g->fp32 > 0 && g->fp16 > 0 && g->memory_gb > 0);
        CHECK(unpublished || g->gbytes_per_s > 0);
        CHECK(unpublished || strstr(g->name, "GCD") || g->tdp_w > 0);
        CHECK(g->source && *g->source && g->capability && *g->capability);
        CHECK(g->bf16 == 0 || g->bf16 == g->fp16);
        CHECK(g->fp8 == 0 || fabs(g->fp8 / g->fp16 - 2) < 0.03);
        CHECK(g->tf32 == 0 || g->tf32 < g->fp16 * 0.52);
        CHECK(g->fp4 == 0 || g->fp4 >= g->fp8 * 2 * 0.99);
        CHECK(amd || atof(g->capability) >= 8.9 || g->fp8 == 0);
        CHECK(amd || atof(g->capability) >= 8.0 || (g->bf16 == 0 && g->tf32 == 0));
        CHECK(g->fp4 == 0 || amd || atof(g->capability) >= 10);
        struct err err;
        CHECK(llm_gpu_find(g->name, &err) == g);
    }
    CHECK(isnan(llm_gpu_flop_per_s(llm_gpu_at(0), LLM_BF16)));
}
