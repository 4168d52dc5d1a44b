#include "llm/gpus.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/util.h"

#define AMPERE_WP "NVIDIA A100 datasheet and GA100 whitepaper"
#define HOPPER_WP "NVIDIA H100 datasheet and GH100 whitepaper (tables without sparsity)"
#define HGX_B "NVIDIA HGX B200/B100 datasheet; listed with sparsity, halved here"

/* Ordered so that of several variants the usual one comes first: a bare "h100" finds it.
 * Where a datasheet prints only the sparse figure the dense one is half of it, and the source says so. */
static const struct llm_gpu gpus[] = {
    { .name = "V100 SXM2",
      .aliases = "|v100|tesla v100 sxm2 16gb|tesla v100 sxm2 32gb|",
      .fp64 = 7.8,
      .fp32 = 15.7,
      .fp16 = 125,
      .gbytes_per_s = 900,
      .memory_gb = 32,
      .l2_mb = 6,
      .sms = 80,
      .boost_mhz = 1530,
      .tdp_w = 300,
      .capability = "7.0",
      .source = "NVIDIA V100 datasheet (no bf16, no sparsity on Volta)" },
    { .name = "V100 PCIe",
      .aliases = "|tesla v100 pcie 16gb|tesla v100 pcie 32gb|",
      .fp64 = 7,
      .fp32 = 14,
      .fp16 = 112,
      .gbytes_per_s = 900,
      .memory_gb = 32,
      .l2_mb = 6,
      .sms = 80,
      .boost_mhz = 1380,
      .tdp_w = 250,
      .capability = "7.0",
      .source = "NVIDIA V100 datasheet" },
    { .name = "T4",
      .aliases = "|tesla t4|",
      .fp32 = 8.1,
      .fp16 = 65,
      .int8 = 130,
      .gbytes_per_s = 320,
      .memory_gb = 16,
      .l2_mb = 4,
      .sms = 40,
      .boost_mhz = 1590,
      .tdp_w = 70,
      .capability = "7.5",
      .source = "NVIDIA T4 datasheet (no bf16, no sparsity on Turing)" },
    { .name = "A10",
      .aliases = "|",
      .fp32 = 31.2,
      .tf32 = 62.5,
      .fp16 = 125,
      .bf16 = 125,
      .int8 = 250,
      .gbytes_per_s = 600,
      .memory_gb = 24,
      .l2_mb = 6,
      .sms = 72,
      .boost_mhz = 1695,
      .tdp_w = 150,
      .capability = "8.6",
      .source = "NVIDIA A10 datasheet" },
    { .name = "A10G",
      .aliases = "|",
      .fp32 = 35,
      .tf32 = 35,
      .fp16 = 70,
      .bf16 = 70,
      .int8 = 140,
      .gbytes_per_s = 600,
      .memory_gb = 24,
      .l2_mb = 6,
      .sms = 80,
      .boost_mhz = 1710,
      .tdp_w = 300,
      .capability = "8.6",
      .source = "NVIDIA A10G datasheet of AWS G5" },
    { .name = "A30",
      .aliases = "|",
      .fp64 = 10.3,
      .fp32 = 10.3,
      .tf32 = 82,
      .fp16 = 165,
      .bf16 = 165,
      .int8 = 330,
      .gbytes_per_s = 933,
      .memory_gb = 24,
      .l2_mb = 24,
      .sms = 56,
      .boost_mhz = 1440,
      .tdp_w = 165,
      .capability = "8.0",
      .source = "NVIDIA A30 datasheet" },
    { .name = "A40",
      .aliases = "|",
      .fp32 = 37.4,
      .tf32 = 74.8,
      .fp16 = 149.7,
      .bf16 = 149.7,
      .int8 = 299.3,
      .gbytes_per_s = 696,
      .memory_gb = 48,
      .l2_mb = 6,
      .sms = 84,
      .boost_mhz = 1740,
      .tdp_w = 300,
      .capability = "8.6",
      .source = "NVIDIA A40 datasheet" },
    { .name = "A100 80GB SXM",
      .aliases = "|a100|a100 sxm|a100 80gb|a100 sxm4 80gb|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 2039,
      .memory_gb = 80,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 400,
      .capability = "8.0",
      .source = AMPERE_WP },
    { .name = "A100 80GB PCIe",
      .aliases = "|a100 pcie|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 1935,
      .memory_gb = 80,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 300,
      .capability = "8.0",
      .source = AMPERE_WP },
    { .name = "A100 40GB SXM",
      .aliases = "|a100 40gb|a100 sxm4 40gb|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 1555,
      .memory_gb = 40,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 400,
      .capability = "8.0",
      .source = AMPERE_WP },
    { .name = "A100 40GB PCIe",
      .aliases = "|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 1555,
      .memory_gb = 40,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 250,
      .capability = "8.0",
      .source = AMPERE_WP },
    { .name = "A800 80GB SXM",
      .aliases = "|a800|a800 sxm|a800 sxm4 80gb|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 2039,
      .memory_gb = 80,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 400,
      .capability = "8.0",
      .source = "NVIDIA A800 datasheet: an A100 with slower links" },
    { .name = "A800 80GB PCIe",
      .aliases = "|a800 pcie|",
      .fp64 = 19.5,
      .fp32 = 19.5,
      .tf32 = 156,
      .fp16 = 312,
      .bf16 = 312,
      .int8 = 624,
      .gbytes_per_s = 1935,
      .memory_gb = 80,
      .l2_mb = 40,
      .sms = 108,
      .boost_mhz = 1410,
      .tdp_w = 300,
      .capability = "8.0",
      .source = "NVIDIA A800 datasheet: an A100 with slower links" },
    { .name = "L4",
      .aliases = "|",
      .fp32 = 30.3,
      .tf32 = 60,
      .fp16 = 121,
      .bf16 = 121,
      .fp8 = 242.5,
      .int8 = 242.5,
      .gbytes_per_s = 300,
      .memory_gb = 24,
      .l2_mb = 48,
      .sms = 58,
      .boost_mhz = 2040,
      .tdp_w = 72,
      .capability = "8.9",
      .source = "NVIDIA L4 datasheet; tensor figures listed with sparsity, halved here" },
    { .name = "L40",
      .aliases = "|",
      .fp32 = 90.5,
      .tf32 = 90.5,
      .fp16 = 181.05,
      .bf16 = 181.05,
      .fp8 = 362,
      .int8 = 362,
      .gbytes_per_s = 864,
      .memory_gb = 48,
      .l2_mb = 96,
      .sms = 142,
      .boost_mhz = 2490,
      .tdp_w = 300,
      .capability = "8.9",
      .source = "NVIDIA L40 datasheet (first of the two figures)" },
    { .name = "L40S",
      .aliases = "|",
      .fp32 = 91.6,
      .tf32 = 183,
      .fp16 = 362.05,
      .bf16 = 362.05,
      .fp8 = 733,
      .int8 = 733,
      .gbytes_per_s = 864,
      .memory_gb = 48,
      .l2_mb = 96,
      .sms = 142,
      .boost_mhz = 2520,
      .tdp_w = 350,
      .capability = "8.9",
      .source = "NVIDIA L40S datasheet (first of the two figures)" },
    { .name = "RTX 3090",
      .aliases = "|3090|geforce rtx 3090|",
      .fp32 = 35.6,
      .tf32 = 35.6,
      .fp16 = 71,
      .bf16 = 71,
      .int8 = 284,
      .gbytes_per_s = 936,
      .memory_gb = 24,
      .l2_mb = 6,
      .sms = 82,
      .boost_mhz = 1695,
      .tdp_w = 350,
      .capability = "8.6",
      .source = "NVIDIA GA102 whitepaper, fp16 with fp32 accumulate" },
    { .name = "RTX 4090",
      .aliases = "|4090|geforce rtx 4090|",
      .fp32 = 82.6,
      .tf32 = 82.6,
      .fp16 = 165.2,
      .bf16 = 165.2,
      .fp8 = 330.3,
      .int8 = 660.6,
      .gbytes_per_s = 1008,
      .memory_gb = 24,
      .l2_mb = 72,
      .sms = 128,
      .boost_mhz = 2520,
      .tdp_w = 450,
      .capability = "8.9",
      .source = "NVIDIA Ada whitepaper, fp16 and fp8 with fp32 accumulate" },
    { .name = "RTX 5090",
      .aliases = "|5090|geforce rtx 5090|",
      .fp32 = 104.8,
      .tf32 = 104.8,
      .fp16 = 209.5,
      .bf16 = 209.5,
      .fp8 = 419,
      .int8 = 838,
      .fp4 = 1676,
      .gbytes_per_s = 1792,
      .memory_gb = 32,
      .l2_mb = 96,
      .sms = 170,
      .boost_mhz = 2407,
      .tdp_w = 575,
      .capability = "12.0",
      .source = "NVIDIA RTX Blackwell whitepaper, fp16 and fp8 with fp32 accumulate" },
    { .name = "RTX A6000",
      .aliases = "|a6000|",
      .fp32 = 38.7,
      .tf32 = 77.4,
      .fp16 = 154.8,
      .bf16 = 154.8,
      .int8 = 309.7,
      .gbytes_per_s = 768,
      .memory_gb = 48,
      .l2_mb = 6,
      .sms = 84,
      .boost_mhz = 1800,
      .tdp_w = 300,
      .capability = "8.6",
      .source = "NVIDIA GA102 whitepaper" },
    { .name = "RTX 6000 Ada",
      .aliases = "|rtx 6000 ada generation|6000 ada|",
      .fp32 = 91.1,
      .tf32 = 182.1,
      .fp16 = 364.2,
      .bf16 = 364.2,
      .fp8 = 728.5,
      .int8 = 728.5,
      .gbytes_per_s = 960,
      .memory_gb = 48,
      .l2_mb = 96,
      .sms = 142,
      .boost_mhz = 2505,
      .tdp_w = 300,
      .capability = "8.9",
      .source = "NVIDIA Ada whitepaper" },
    { .name = "RTX PRO 6000",
      .aliases = "|rtx pro 6000 blackwell|rtx pro 6000 blackwell workstation edition|pro 6000|",
      .fp32 = 126,
      .tf32 = 251.9,
      .fp16 = 503.8,
      .bf16 = 503.8,
      .fp8 = 1007.6,
      .int8 = 1007.6,
      .fp4 = 2015.2,
      .gbytes_per_s = 1792,
      .memory_gb = 96,
      .l2_mb = 128,
      .sms = 188,
      .boost_mhz = 2617,
      .tdp_w = 600,
      .capability = "12.0",
      .source = "NVIDIA RTX Blackwell PRO whitepaper (188 SMs x 1024 x 2.617 GHz)" },
    { .name = "H100 SXM",
      .aliases = "|h100|h100 sxm5|h100 80gb|h100 80gb hbm3|h100 sxm5 80gb|",
      .fp64 = 66.9,
      .fp32 = 66.9,
      .tf32 = 494.7,
      .fp16 = 989.4,
      .bf16 = 989.4,
      .fp8 = 1978.9,
      .int8 = 1978.9,
      .gbytes_per_s = 3352,
      .memory_gb = 80,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1980,
      .tdp_w = 700,
      .capability = "9.0",
      .source = HOPPER_WP },
    { .name = "H100 PCIe",
      .aliases = "|h100 pcie 80gb|",
      .fp64 = 51.2,
      .fp32 = 51.2,
      .tf32 = 378,
      .fp16 = 756,
      .bf16 = 756,
      .fp8 = 1513,
      .int8 = 1513,
      .gbytes_per_s = 2039,
      .memory_gb = 80,
      .l2_mb = 50,
      .sms = 114,
      .boost_mhz = 1755,
      .tdp_w = 350,
      .capability = "9.0",
      .source = HOPPER_WP },
    { .name = "H100 NVL",
      .aliases = "|h100 nvl 94gb|",
      .fp64 = 60,
      .fp32 = 60,
      .tf32 = 417.5,
      .fp16 = 835.5,
      .bf16 = 835.5,
      .fp8 = 1670.5,
      .int8 = 1670.5,
      .gbytes_per_s = 3938,
      .memory_gb = 94,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1785,
      .tdp_w = 400,
      .capability = "9.0",
      .source = "NVIDIA H100 NVL datasheet; listed with sparsity, halved here" },
    { .name = "H800 SXM",
      .aliases = "|h800|h800 sxm5|",
      .fp64 = 1,
      .fp32 = 66.9,
      .tf32 = 494.7,
      .fp16 = 989.4,
      .bf16 = 989.4,
      .fp8 = 1978.9,
      .int8 = 1978.9,
      .gbytes_per_s = 3352,
      .memory_gb = 80,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1980,
      .tdp_w = 700,
      .capability = "9.0",
      .source = "NVIDIA H800 datasheet: an H100 with less fp64 and slower links" },
    { .name = "H800 PCIe",
      .aliases = "|",
      .fp64 = 0.8,
      .fp32 = 51.2,
      .tf32 = 378,
      .fp16 = 756,
      .bf16 = 756,
      .fp8 = 1513,
      .int8 = 1513,
      .gbytes_per_s = 2039,
      .memory_gb = 80,
      .l2_mb = 50,
      .sms = 114,
      .boost_mhz = 1755,
      .tdp_w = 350,
      .capability = "9.0",
      .source = "NVIDIA H800 datasheet: an H100 with less fp64 and slower links" },
    { .name = "H20",
      .aliases = "|h20 96gb|",
      .fp64 = 1,
      .fp32 = 44,
      .tf32 = 74,
      .fp16 = 148,
      .bf16 = 148,
      .fp8 = 296,
      .int8 = 296,
      .gbytes_per_s = 4000,
      .memory_gb = 96,
      .l2_mb = 60,
      .sms = 78,
      .boost_mhz = 1980,
      .tdp_w = 400,
      .capability = "9.0",
      .source = "NVIDIA H20 product brief" },
    { .name = "H200 SXM",
      .aliases = "|h200|h200 sxm5|h200 141gb|",
      .fp64 = 66.9,
      .fp32 = 66.9,
      .tf32 = 494.7,
      .fp16 = 989.4,
      .bf16 = 989.4,
      .fp8 = 1978.9,
      .int8 = 1978.9,
      .gbytes_per_s = 4800,
      .memory_gb = 141,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1980,
      .tdp_w = 700,
      .capability = "9.0",
      .source = "NVIDIA H200 datasheet; tensor figures listed with sparsity, halved here" },
    { .name = "H200 NVL",
      .aliases = "|",
      .fp64 = 60,
      .fp32 = 60,
      .tf32 = 417.5,
      .fp16 = 835.5,
      .bf16 = 835.5,
      .fp8 = 1670.5,
      .int8 = 1670.5,
      .gbytes_per_s = 4800,
      .memory_gb = 141,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1785,
      .tdp_w = 600,
      .capability = "9.0",
      .source = "NVIDIA H200 datasheet; tensor figures listed with sparsity, halved here" },
    { .name = "GH200 96GB",
      .aliases = "|gh200|gh200 480gb|",
      .fp64 = 66.9,
      .fp32 = 66.9,
      .tf32 = 494.7,
      .fp16 = 989.4,
      .bf16 = 989.4,
      .fp8 = 1978.9,
      .int8 = 1978.9,
      .gbytes_per_s = 4000,
      .memory_gb = 96,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1980,
      .tdp_w = 1000,
      .capability = "9.0",
      .source = "NVIDIA GH200 datasheet (power: the whole superchip); halved from sparse" },
    { .name = "GH200 144GB",
      .aliases = "|",
      .fp64 = 66.9,
      .fp32 = 66.9,
      .tf32 = 494.7,
      .fp16 = 989.4,
      .bf16 = 989.4,
      .fp8 = 1978.9,
      .int8 = 1978.9,
      .gbytes_per_s = 4900,
      .memory_gb = 144,
      .l2_mb = 50,
      .sms = 132,
      .boost_mhz = 1980,
      .tdp_w = 1000,
      .capability = "9.0",
      .source = "NVIDIA GH200 datasheet (power: the whole superchip); halved from sparse" },
    { .name = "B100",
      .aliases = "|",
      .fp64 = 30,
      .fp32 = 60,
      .tf32 = 900,
      .fp16 = 1750,
      .bf16 = 1750,
      .fp8 = 3500,
      .int8 = 3500,
      .fp4 = 7000,
      .gbytes_per_s = 8000,
      .memory_gb = 192,
      .tdp_w = 700,
      .capability = "10.0",
      .source = HGX_B },
    { .name = "B200",
      .aliases = "|b200 sxm|",
      .fp64 = 40,
      .fp32 = 80,
      .tf32 = 1100,
      .fp16 = 2250,
      .bf16 = 2250,
      .fp8 = 4500,
      .int8 = 4500,
      .fp4 = 9000,
      .gbytes_per_s = 8000,
      .memory_gb = 180,
      .l2_mb = 126,
      .sms = 148,
      .boost_mhz = 1965,
      .tdp_w = 1000,
      .capability = "10.0",
      .source = HGX_B },
    { .name = "GB200",
      .aliases = "|",
      .fp64 = 45,
      .fp32 = 90,
      .tf32 = 1250,
      .fp16 = 2500,
      .bf16 = 2500,
      .fp8 = 5000,
      .int8 = 5000,
      .fp4 = 10000,
      .gbytes_per_s = 8000,
      .memory_gb = 186,
      .l2_mb = 126,
      .sms = 148,
      .tdp_w = 1200,
      .capability = "10.0",
      .source = "NVIDIA Blackwell architecture brief, one GPU of the superchip; halved from sparse" },
    { .name = "B300",
      .aliases = "|b300 sxm|",
      .fp64 = 1.25,
      .fp32 = 75,
      .tf32 = 1125,
      .fp16 = 2250,
      .bf16 = 2250,
      .fp8 = 4500,
      .fp4 = 13125,
      .gbytes_per_s = 8000,
      .memory_gb = 288,
      .tdp_w = 1400,
      .capability = "10.3",
      .source = "NVIDIA HGX B300 datasheet, an eighth; halved from sparse but fp4, which is given dense" },
};

size_t llm_gpus(void) { return COUNTOF(gpus); }

const struct llm_gpu *llm_gpu_at(size_t i) { return i < COUNTOF(gpus) ? &gpus[i] : NULL; }

double llm_gpu_known(double field) { return field > 0 ? field : NAN; }

double llm_gpu_bytes_per_s(const struct llm_gpu *g) { return llm_gpu_known(g->gbytes_per_s) * 1e9; }

/* Weights of 4 bits without hardware for them are widened first: they are computed in 16 bits. */
double llm_gpu_flop_per_s(const struct llm_gpu *g, enum llm_dtype t) {
    double tflops = 0;
    switch (t) {
    case LLM_F64: tflops = g->fp64; break;
    case LLM_F32: tflops = g->fp32; break;
    case LLM_TF32: tflops = g->tf32; break;
    case LLM_F16: tflops = g->fp16; break;
    case LLM_BF16: tflops = g->bf16; break;
    case LLM_FP8: tflops = g->fp8; break;
    case LLM_INT8: tflops = g->int8; break;
    case LLM_FP4: tflops = g->fp4; break;
    case LLM_MXFP4:
    case LLM_INT4: tflops = g->bf16 > 0 ? g->bf16 : g->fp16; break;
    default: break;
    }
    return llm_gpu_known(tflops) * 1e12;
}

/* ---- finding */

/* Lower case, one space for every run of other characters, the maker's name left out. */
static void simplify(const char *text, char *out, size_t cap) {
    size_t n = 0;
    for (; *text && n + 2 < cap; text++) {
        if (isalnum((unsigned char)*text))
            out[n++] = (char)tolower((unsigned char)*text);
        else if (n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    while (n && out[n - 1] == ' ') n--;
    out[n] = '\0';
    if (strncmp(out, "nvidia ", 7) == 0) memmove(out, out + 7, n - 6);
    if (strncmp(out, "tesla ", 6) == 0) memmove(out, out + 6, strlen(out) - 5);
}

/* The n characters at a equal b when spaces are left out of both: "rtx5090" is "rtx 5090". */
static bool same(const char *a, size_t n, const char *b) {
    const char *end = a + n;
    for (;;) {
        while (a < end && *a == ' ') a++;
        while (*b == ' ') b++;
        if (a == end || !*b) return a == end && !*b;
        if (*a++ != *b++) return false;
    }
}

static bool is_alias(const char *list, const char *key) {
    for (const char *p = list + 1; *p; p += strcspn(p, "|") + 1)
        if (same(p, strcspn(p, "|"), key)) return true;
    return false;
}

static bool has_word(const char *text, const char *word, size_t n) {
    for (const char *p = text; (p = strstr(p, word)); p++)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

/* How many words of the short name the long one has; -1 when one is missing. "sxm" also stands for sxm4,
 * sxm5. */
static int words_in(const char *words, const char *text) {
    int n = 0;
    for (const char *p = words; *p;) {
        size_t len = strcspn(p, " ");
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)MIN(len, sizeof word - 1), p);
        bool sxm = strcmp(word, "sxm") == 0 && strstr(text, "sxm");
        if (!sxm && !has_word(text, word, strlen(word))) return -1;
        n++;
        p += len + (p[len] == ' ');
    }
    return n;
}

static const struct llm_gpu *exact(const char *key) {
    char name[64];
    for (size_t i = 0; i < COUNTOF(gpus); i++) {
        simplify(gpus[i].name, name, sizeof name);
        if (same(name, strlen(name), key) || is_alias(gpus[i].aliases, key)) return &gpus[i];
    }
    return NULL;
}

/* A laptop's chip, a Ti or a slice of a card is another device than the one it shares its name with. */
static bool other_variant(const char *key, const char *name) {
    static const char *const words[] = { "laptop", "mobile", "max", "ti", "super", "d", "mig" };
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (has_word(key, words[i], strlen(words[i])) && !has_word(name, words[i], strlen(words[i])))
            return true;
    return false;
}

/* All of one's words in the other: the longest match wins, and of equals the first row. */
static const struct llm_gpu *by_words(const char *key) {
    const struct llm_gpu *best = NULL;
    int most = 0;
    char name[64];
    for (size_t i = 0; i < COUNTOF(gpus); i++) {
        simplify(gpus[i].name, name, sizeof name);
        int n = other_variant(key, name) ? -1 : MAX(words_in(name, key), words_in(key, name));
        if (n > most) {
            most = n;
            best = &gpus[i];
        }
    }
    return best;
}

const struct llm_gpu *llm_gpu_find(const char *name, struct err *err) {
    char key[64], row[64], near_name[64] = "";
    struct suggest near;
    simplify(name, key, sizeof key);
    const struct llm_gpu *g = *key ? exact(key) : NULL;
    if (!g && *key) g = by_words(key);
    if (g) return g;
    suggest_start(&near, key);
    for (size_t i = 0; i < COUNTOF(gpus); i++) {
        size_t before = near.best_distance;
        simplify(gpus[i].name, row, sizeof row);
        suggest_try(&near, row);
        if (near.best_distance != before) snprintf(near_name, sizeof near_name, "%s", gpus[i].name);
    }
    if (*near_name)
        err_set(err, "no GPU '%s' in the table; did you mean %s? `--gpu list` shows all", name, near_name);
    else
        err_set(err,
                "no GPU '%s' in the table; `--gpu list` shows all, --peak-tflops and --peak-gbps describe "
                "another",
                name);
    return NULL;
}
