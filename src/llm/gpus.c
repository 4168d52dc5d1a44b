#include "llm/gpus.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/util.h"

#define SRC_V100_SXM2 "NVIDIA V100 datasheet (no bf16, no sparsity on Volta)"
#define SRC_V100 "NVIDIA V100 datasheet"
#define SRC_T4 "NVIDIA T4 datasheet (no bf16, no sparsity on Turing)"
#define SRC_A10 "NVIDIA A10 datasheet"
#define SRC_A10G "NVIDIA A10G datasheet of AWS G5"
#define SRC_A30 "NVIDIA A30 datasheet"
#define SRC_A40 "NVIDIA A40 datasheet"
#define SRC_A100 "NVIDIA A100 datasheet and GA100 whitepaper"
#define SRC_A800 "NVIDIA A800 datasheet: an A100 with slower links"
#define SRC_L4 "NVIDIA L4 datasheet; tensor figures listed with sparsity, halved here"
#define SRC_L40 "NVIDIA L40 datasheet (first of the two figures)"
#define SRC_L40S "NVIDIA L40S datasheet (first of the two figures)"
#define SRC_3090 "NVIDIA GA102 whitepaper, fp16 with fp32 accumulate"
#define SRC_4090 "NVIDIA Ada whitepaper, fp16 and fp8 with fp32 accumulate"
#define SRC_5090 "NVIDIA RTX Blackwell whitepaper, fp16 and fp8 with fp32 accumulate"
#define SRC_GA102 "NVIDIA GA102 whitepaper"
#define SRC_ADA "NVIDIA Ada whitepaper"
#define SRC_PRO "NVIDIA RTX Blackwell PRO whitepaper (188 SMs x 1024 x 2.617 GHz)"
#define SRC_PRO_SERVER \
    "NVIDIA RTX PRO 6000 Server Edition datasheet; tensor peaks by the ratios of RTX PRO 6000"
#define SRC_H100 "NVIDIA H100 datasheet and GH100 whitepaper (tables without sparsity)"
#define SRC_H100_NVL "NVIDIA H100 NVL datasheet; listed with sparsity, halved here"
#define SRC_H800 "NVIDIA H800 datasheet: an H100 with less fp64 and slower links"
#define SRC_H20 "NVIDIA H20 product brief"
#define SRC_H20_3E "NVIDIA H20 product brief, with 141 GB of HBM3e; bandwidth and power not published"
#define SRC_H200 "NVIDIA H200 datasheet; tensor figures listed with sparsity, halved here"
#define SRC_GH200 "NVIDIA GH200 datasheet (power: the whole superchip); halved from sparse"
#define SRC_B100 "NVIDIA Blackwell architecture brief; listed with sparsity, halved here"
#define SRC_B200 "NVIDIA Blackwell datasheet, HGX B200, one GPU; listed with sparsity, halved here"
#define SRC_GB200 "NVIDIA Blackwell datasheet, one GPU of the superchip; halved from sparse"
#define SRC_B300 "NVIDIA HGX B300 datasheet, an eighth; halved from sparse but fp4, which is given dense"
#define SRC_MI210 "AMD Instinct MI210 data sheet (104 CUs x 1.7 GHz)"
#define SRC_MI250 "AMD Instinct MI250 data sheet, one of its two dies (GCDs): a program sees each as a device"
#define SRC_MI250X \
    "AMD Instinct MI250X data sheet, one of its two dies (GCDs): a program sees each as a device"
#define SRC_MI300A "AMD Instinct MI300A data sheet (228 CUs x 2.1 GHz)"
#define SRC_MI300X "AMD Instinct MI300X data sheet (304 CUs x 2.1 GHz)"
#define SRC_MI325X "AMD Instinct MI325X data sheet (304 CUs x 2.1 GHz)"
#define SRC_MI350 "AMD CDNA 4 white paper and MI350 Series data sheets (256 CUs; no tf32)"

/* One row per GPU. Peaks are dense TFLOP/s (int8: TOP/s); 0: unknown or not supported. GB/s and GB are
 * memory bandwidth and size (10^9 bytes). L2 is in MiB, which datasheets write as MB. MHz is the boost
 * clock, for which the fp32 peak is specified. tMHz is the clock for which the 16-bit tensor peak is
 * specified; on Hopper and B200 it is lower. W is the board power, cc the compute capability. AMD rows
 * have the gfx target as cc, compute units as SMs, and matrix-core peaks for all types. If a datasheet
 * only lists the figure with sparsity, the dense figure is half of it. The most common variant of a GPU
 * comes first, because a short name such as "h100" finds the first row. */
/* clang-format off */
static const struct llm_gpu gpus[] = {
    /* name                   fp64   fp32   tf32    fp16    bf16     fp8    int8      fp4    GB/s   GB
     * L2   MHz  tMHz     W  SMs  cc        source */
    { "V100 SXM2",              7.8,  15.7,     0,    125,      0,      0,      0,       0,    900,  32,     6, 1530, 1530,  300,  80, "7.0",    SRC_V100_SXM2 },
    { "V100 SXM2 16GB",         7.8,  15.7,     0,    125,      0,      0,      0,       0,    900,  16,     6, 1530, 1530,  300,  80, "7.0",    SRC_V100_SXM2 },
    { "V100 PCIe",                7,    14,     0,    112,      0,      0,      0,       0,    900,  32,     6, 1380, 1380,  250,  80, "7.0",    SRC_V100 },
    { "V100 PCIe 16GB",           7,    14,     0,    112,      0,      0,      0,       0,    900,  16,     6, 1380, 1380,  250,  80, "7.0",    SRC_V100 },
    { "T4",                       0,   8.1,     0,     65,      0,      0,    130,       0,    320,  16,     4, 1590, 1590,   70,  40, "7.5",    SRC_T4 },
    { "A10",                      0,  31.2,  62.5,    125,    125,      0,    250,       0,    600,  24,     6, 1695, 1695,  150,  72, "8.6",    SRC_A10 },
    { "A10G",                     0,    35,    35,     70,     70,      0,    140,       0,    600,  24,     6, 1710, 1710,  300,  80, "8.6",    SRC_A10G },
    { "A30",                   10.3,  10.3,    82,    165,    165,      0,    330,       0,    933,  24,    24, 1440, 1440,  165,  56, "8.0",    SRC_A30 },
    { "A40",                      0,  37.4,  74.8,  149.7,  149.7,      0,  299.3,       0,    696,  48,     6, 1740, 1740,  300,  84, "8.6",    SRC_A40 },
    { "A100 80GB SXM",         19.5,  19.5,   156,    312,    312,      0,    624,       0,   2039,  80,    40, 1410, 1410,  400, 108, "8.0",    SRC_A100 },
    { "A100 80GB PCIe",        19.5,  19.5,   156,    312,    312,      0,    624,       0,   1935,  80,    40, 1410, 1410,  300, 108, "8.0",    SRC_A100 },
    { "A100 40GB SXM",         19.5,  19.5,   156,    312,    312,      0,    624,       0,   1555,  40,    40, 1410, 1410,  400, 108, "8.0",    SRC_A100 },
    { "A100 40GB PCIe",        19.5,  19.5,   156,    312,    312,      0,    624,       0,   1555,  40,    40, 1410, 1410,  250, 108, "8.0",    SRC_A100 },
    { "A800 80GB SXM",         19.5,  19.5,   156,    312,    312,      0,    624,       0,   2039,  80,    40, 1410, 1410,  400, 108, "8.0",    SRC_A800 },
    { "A800 80GB PCIe",        19.5,  19.5,   156,    312,    312,      0,    624,       0,   1935,  80,    40, 1410, 1410,  300, 108, "8.0",    SRC_A800 },
    { "L4",                       0,  30.3,    60,    121,    121,  242.5,  242.5,       0,    300,  24,    48, 2040, 2040,   72,  58, "8.9",    SRC_L4 },
    { "L40",                      0,  90.5,  90.5, 181.05, 181.05,    362,    362,       0,    864,  48,    96, 2490,    0,  300, 142, "8.9",    SRC_L40 },
    { "L40S",                     0,  91.6,   183, 362.05, 362.05,    733,    733,       0,    864,  48,    96, 2520, 2520,  350, 142, "8.9",    SRC_L40S },
    { "RTX 3090",                 0,  35.6,  35.6,     71,     71,      0,    284,       0,    936,  24,     6, 1695, 1695,  350,  82, "8.6",    SRC_3090 },
    { "RTX 4090",                 0,  82.6,  82.6,  165.2,  165.2,  330.3,  660.6,       0,   1008,  24,    72, 2520, 2520,  450, 128, "8.9",    SRC_4090 },
    { "RTX 5090",                 0, 104.8, 104.8,  209.5,  209.5,    419,    838,    1676,   1792,  32,    96, 2407, 2407,  575, 170, "12.0",   SRC_5090 },
    { "RTX A6000",                0,  38.7,  77.4,  154.8,  154.8,      0,  309.7,       0,    768,  48,     6, 1800, 1800,  300,  84, "8.6",    SRC_GA102 },
    { "RTX 6000 Ada",             0,  91.1, 182.1,  364.2,  364.2,  728.5,  728.5,       0,    960,  48,    96, 2505, 2505,  300, 142, "8.9",    SRC_ADA },
    { "RTX PRO 6000",             0,   126, 251.9,  503.8,  503.8, 1007.6, 1007.6,  2015.2,   1792,  96,   128, 2617, 2617,  600, 188, "12.0",   SRC_PRO },
    { "RTX PRO 6000 Server",      0,   120,   240,    480,    480,    960,    960,    1920,   1597,  96,   128, 2493, 2493,  600, 188, "12.0",   SRC_PRO_SERVER },
    { "H100 SXM",              66.9,  66.9, 494.7,  989.4,  989.4, 1978.9, 1978.9,       0,   3352,  80,    50, 1980, 1830,  700, 132, "9.0",    SRC_H100 },
    { "H100 PCIe",             51.2,  51.2,   378,    756,    756,   1513,   1513,       0,   2039,  80,    50, 1755, 1619,  350, 114, "9.0",    SRC_H100 },
    { "H100 NVL",                60,    60, 417.5,  835.5,  835.5, 1670.5, 1670.5,       0,   3938,  94,    50, 1785, 1545,  400, 132, "9.0",    SRC_H100_NVL },
    { "H800 SXM",                 1,  66.9, 494.7,  989.4,  989.4, 1978.9, 1978.9,       0,   3352,  80,    50, 1980, 1830,  700, 132, "9.0",    SRC_H800 },
    { "H800 PCIe",              0.8,  51.2,   378,    756,    756,   1513,   1513,       0,   2039,  80,    50, 1755, 1619,  350, 114, "9.0",    SRC_H800 },
    { "H20",                      1,    44,    74,    148,    148,    296,    296,       0,   4000,  96,    60, 1980,    0,  400,  78, "9.0",    SRC_H20 },
    { "H20-3e",                   1,    44,    74,    148,    148,    296,    296,       0,      0, 141,     0, 1980,    0,    0,  78, "9.0",    SRC_H20_3E },
    { "H200 SXM",              66.9,  66.9, 494.7,  989.4,  989.4, 1978.9, 1978.9,       0,   4800, 141,    60, 1980, 1830,  700, 132, "9.0",    SRC_H200 },
    { "H200 NVL",                60,    60, 417.5,  835.5,  835.5, 1670.5, 1670.5,       0,   4800, 141,     0, 1785, 1545,  600, 132, "9.0",    SRC_H200 },
    { "GH200 96GB",            66.9,  66.9, 494.7,  989.4,  989.4, 1978.9, 1978.9,       0,   4000,  96,    50, 1980, 1830, 1000, 132, "9.0",    SRC_GH200 },
    { "GH200 144GB",           66.9,  66.9, 494.7,  989.4,  989.4, 1978.9, 1978.9,       0,   4900, 144,    50, 1980, 1830, 1000, 132, "9.0",    SRC_GH200 },
    { "B100",                    30,    60,   900,   1750,   1750,   3500,   3500,    7000,   8000, 192,     0,    0,    0,  700,   0, "10.0",   SRC_B100 },
    { "B200",                    37,    75,  1100,   2250,   2250,   4500,   4500,    9000,   7700, 180,   126, 1965, 1856, 1000, 148, "10.0",   SRC_B200 },
    { "GB200",                   40,    80,  1250,   2500,   2500,   5000,   5000,   10000,   8000, 186,   126,    0, 2062, 1200, 148, "10.0",   SRC_GB200 },
    { "B300",                  1.25,    75,  1125,   2250,   2250,   4500,      0,   13125,   8000, 288,     0,    0,    0, 1400,   0, "10.3",   SRC_B300 },
    /* AMD, checked against: rocm.docs.amd.com reference/gpu-specs (CUs, L2) and gpu-arch/mi250 (per GCD:
     * 104 CUs, 1.7 GHz, 1.6 TB/s; the package has 362.1 and 383.0 TFLOP/s in 16 bits); docs.vultr.com
     * inference-cookbook/rocm (MI300X 5.3 TB/s; MI325X 6.0 TB/s, 1,307 TFLOP/s); AMD at ISSCC and Hot
     * Chips 2025 (MI355X: 256 CUs of 8,192 fp8 FLOP per clock at 2.4 GHz, MI350X at 2.2 GHz, 8 TB/s, 1,400
     * and 1,000 W). */
    { "MI210",                 45.3,  45.3,     0,    181,    181,      0,    181,       0, 1638.4,  64,     8, 1700, 1700,  300, 104, "gfx90a", SRC_MI210 },
    { "MI250 GCD",            45.25, 45.25,     0, 181.05, 181.05,      0, 181.05,       0, 1638.4,  64,     8, 1700, 1700,    0, 104, "gfx90a", SRC_MI250 },
    { "MI250X GCD",           47.85, 47.85,     0,  191.5,  191.5,      0,  191.5,       0, 1638.4,  64,     8, 1700, 1700,    0, 110, "gfx90a", SRC_MI250X },
    { "MI300A",               122.6, 122.6, 490.3,  980.6,  980.6, 1961.2, 1961.2,       0,   5300, 128,    24, 2100, 2100,  550, 228, "gfx942", SRC_MI300A },
    { "MI300X",               163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9,       0,   5300, 192,    32, 2100, 2100,  750, 304, "gfx942", SRC_MI300X },
    { "MI325X",               163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9,       0,   6000, 256,    32, 2100, 2100, 1000, 304, "gfx942", SRC_MI325X },
    { "MI350X",                72.1, 144.2,     0, 2306.9, 2306.9, 4613.7, 4613.7,  9227.5,   8000, 288,    32, 2200, 2200, 1000, 256, "gfx950", SRC_MI350 },
    { "MI355X",                78.6, 157.3,     0, 2516.6, 2516.6, 5033.2, 5033.2, 10066.3,   8000, 288,    32, 2400, 2400, 1400, 256, "gfx950", SRC_MI350 },
};

/* Additional names for lookup, in lower case. */
static const struct gpu_alias {
    const char *alias, *gpu;
} gpu_aliases[] = {
    { "v100",                                       "V100 SXM2" },
    { "v100 sxm2 32gb",                             "V100 SXM2" },
    { "v100 pcie 32gb",                             "V100 PCIe" },
    { "v100 16gb",                                  "V100 SXM2 16GB" },
    { "v100 32gb",                                  "V100 SXM2" },
    { "tesla t4",                                   "T4" },
    { "a100",                                       "A100 80GB SXM" },
    { "a100 sxm",                                   "A100 80GB SXM" },
    { "a100 80gb",                                  "A100 80GB SXM" },
    { "a100 sxm4 80gb",                             "A100 80GB SXM" },
    { "a100 pcie",                                  "A100 80GB PCIe" },
    { "a100 40gb",                                  "A100 40GB SXM" },
    { "a100 sxm4 40gb",                             "A100 40GB SXM" },
    { "a800",                                       "A800 80GB SXM" },
    { "a800 sxm",                                   "A800 80GB SXM" },
    { "a800 sxm4 80gb",                             "A800 80GB SXM" },
    { "a800 pcie",                                  "A800 80GB PCIe" },
    { "3090",                                       "RTX 3090" },
    { "geforce rtx 3090",                           "RTX 3090" },
    { "4090",                                       "RTX 4090" },
    { "geforce rtx 4090",                           "RTX 4090" },
    { "5090",                                       "RTX 5090" },
    { "geforce rtx 5090",                           "RTX 5090" },
    { "a6000",                                      "RTX A6000" },
    { "rtx 6000 ada generation",                    "RTX 6000 Ada" },
    { "6000 ada",                                   "RTX 6000 Ada" },
    { "rtx pro 6000 blackwell",                     "RTX PRO 6000" },
    { "rtx pro 6000 blackwell workstation edition", "RTX PRO 6000" },
    { "pro 6000",                                   "RTX PRO 6000" },
    { "rtx pro 6000 blackwell server edition",      "RTX PRO 6000 Server" },
    { "rtx pro 6000 server edition",                "RTX PRO 6000 Server" },
    { "h100",                                       "H100 SXM" },
    { "h100 sxm5",                                  "H100 SXM" },
    { "h100 80gb",                                  "H100 SXM" },
    { "h100 80gb hbm3",                             "H100 SXM" },
    { "h100 sxm5 80gb",                             "H100 SXM" },
    { "h100 pcie 80gb",                             "H100 PCIe" },
    { "h100 nvl 94gb",                              "H100 NVL" },
    { "h800",                                       "H800 SXM" },
    { "h800 sxm5",                                  "H800 SXM" },
    { "h20 96gb",                                   "H20" },
    { "h20 141gb",                                  "H20-3e" },
    { "h200",                                       "H200 SXM" },
    { "h200 sxm5",                                  "H200 SXM" },
    { "h200 141gb",                                 "H200 SXM" },
    { "gh200",                                      "GH200 96GB" },
    { "gh200 480gb",                                "GH200 96GB" },
    { "b200 sxm",                                   "B200" },
    { "b300 sxm",                                   "B300" },
    { "mi250",                                      "MI250 GCD" },
    { "mi250x",                                     "MI250X GCD" },
    /* the driver reports this name for both MI250X and MI250 */
    { "mi250x mi250",                               "MI250X GCD" },
};
/* clang-format on */

size_t llm_gpus(void) { return COUNTOF(gpus); }

const struct llm_gpu *llm_gpu_at(size_t i) { return i < COUNTOF(gpus) ? &gpus[i] : NULL; }

double llm_gpu_known(double field) { return field > 0 ? field : NAN; }

double llm_gpu_bytes_per_s(const struct llm_gpu *g) { return llm_gpu_known(g->gbytes_per_s) * 1e9; }

static double tflops_of(const struct llm_gpu *g, enum llm_dtype t) {
    switch (t) {
    case LLM_F64: return g->fp64;
    case LLM_F32: return g->fp32;
    case LLM_TF32: return g->tf32;
    case LLM_F16: return g->fp16;
    case LLM_BF16: return g->bf16;
    case LLM_FP8: return g->fp8;
    case LLM_INT8: return g->int8;
    case LLM_FP4:
    case LLM_MXFP4:
    case LLM_NVFP4: return g->fp4;
    default: return 0; /* int4 and others: the table has no peak; llm_gpu_peak() uses 16 bits for int4 */
    }
}

struct llm_gpu_peak llm_gpu_peak(const struct llm_gpu *g, enum llm_dtype t, bool activations_too) {
    struct llm_gpu_peak p = { llm_gpu_known(tflops_of(g, t)) * 1e12, t, "the GPU has units for this type" };
    bool narrow = llm_dtype_bytes(t) < 2;
    if (!narrow || (activations_too && !isnan(p.flop_per_s))) return p;
    p.type = g->bf16 > 0 ? LLM_BF16 : LLM_F16;
    p.flop_per_s = llm_gpu_known(tflops_of(g, p.type)) * 1e12;
    p.reason = !isnan(llm_gpu_known(tflops_of(g, t)))
                   ? "only the weights are quantised: they are converted to 16 bits"
               : t == LLM_INT4 ? "4-bit integers are converted to 16 bits"
                               : "the GPU has no units for this type: weights are converted to 16 bits";
    return p;
}

double llm_gpu_flop_per_s(const struct llm_gpu *g, enum llm_dtype t) {
    return llm_gpu_peak(g, t, true).flop_per_s;
}

/* ---- Lookup by name */

/* Converts to lower case, replaces everything except letters and digits by single spaces, and removes
 * vendor names at the start. */
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
    static const char *const makers[] = { "nvidia ", "tesla ", "amd ", "instinct " };
    for (size_t i = 0; i < COUNTOF(makers); i++) {
        size_t len = strlen(makers[i]);
        if (strncmp(out, makers[i], len) == 0) memmove(out, out + len, strlen(out + len) + 1);
    }
}

/* Compares names without their spaces: "rtx5090" is the same as "rtx 5090". */
static bool same_without_spaces(const char *a, const char *b) {
    for (;;) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (!*a || !*b) return *a == *b;
        if (*a++ != *b++) return false;
    }
}

static bool has_word(const char *text, const char *word, size_t n) {
    for (const char *p = text; (p = strstr(p, word)); p++)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

/* Returns the number of words in `words` if `text` contains all of them, otherwise -1. "sxm" also matches
 * sxm4 and sxm5. */
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

static const struct llm_gpu *find_name(const char *key) {
    char name[64];
    for (size_t i = 0; i < COUNTOF(gpus); i++) {
        simplify(gpus[i].name, name, sizeof name);
        if (same_without_spaces(name, key)) return &gpus[i];
    }
    return NULL;
}

static const struct llm_gpu *find_alias(const char *key) {
    char name[64];
    for (size_t i = 0; i < COUNTOF(gpu_aliases); i++) {
        if (!same_without_spaces(gpu_aliases[i].alias, key)) continue;
        simplify(gpu_aliases[i].gpu, name, sizeof name);
        return find_name(name);
    }
    return NULL;
}

/* Returns true for a word that marks a part of a card: "mig", "vgpu" or "grid", "1g" in "MIG 1g.5gb", or
 * "10c" in "GRID A100-10C" (gigabytes and the vGPU series). */
static bool is_slice_word(const char *word, size_t n) {
    static const char *const names[] = { "mig", "vgpu", "grid" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (n == strlen(names[i]) && strncmp(word, names[i], n) == 0) return true;
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && digits + 1 == n && strchr("gabcq", word[n - 1]);
}

/* Returns true for a part of a card: a MIG instance or a vGPU. A part does not reach the peaks of the
 * card, and its own peaks cannot be derived from the name. */
static bool is_slice(const char *key) {
    for (const char *p = key; *p;) {
        size_t n = strcspn(p, " ");
        if (is_slice_word(p, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* Returns true if the key contains a variant word, such as "laptop" or "ti", that the name lacks. The
 * device is then a different one, although the other words match. */
static bool other_variant(const char *key, const char *name) {
    static const char *const words[] = { "laptop", "mobile", "max", "ti", "super", "d", "server" };
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (has_word(key, words[i], strlen(words[i])) && !has_word(name, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Finds a row whose name contains all words of the key, or whose words are all in the key. The match with
 * the most words wins. If matches are equal, the first row wins. */
static const struct llm_gpu *find_by_words(const char *key) {
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
    if (!*key) {
        err_set(err, "the device has no name, so its peaks are unknown");
        return NULL;
    }
    if (is_slice(key)) {
        err_set(err,
                "'%s' is a slice of a GPU (MIG or vGPU), so its peaks are unknown; use --peak-tflops and "
                "--peak-gbps",
                name);
        return NULL;
    }
    const struct llm_gpu *g = find_name(key);
    if (!g) g = find_alias(key);
    if (!g) g = find_by_words(key);
    if (g) return g;
    suggest_start(&near, key);
    for (size_t i = 0; i < COUNTOF(gpus); i++) {
        size_t before = near.best_distance;
        simplify(gpus[i].name, row, sizeof row);
        suggest_try(&near, row);
        if (near.best_distance != before) snprintf(near_name, sizeof near_name, "%s", gpus[i].name);
    }
    if (*near_name)
        err_set(err, "no GPU '%s' in the table; did you mean %s? See `--gpu list` for all", name, near_name);
    else
        err_set(err,
                "no GPU '%s' in the table; see `--gpu list` for all; for other devices use --peak-tflops and "
                "--peak-gbps",
                name);
    return NULL;
}
