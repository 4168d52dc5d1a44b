#include "unit/report/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

#define MS 1000000ull
#define US 1000ull
#define T0 1763170000000000000ull

static const struct {
    const char *name, *short_name;
    enum kernel_library library;
    enum kernel_category category;
    uint32_t grid, block;
    uint64_t ns;
} kinds[] = {
    { "void gemv_bf16<128, 4>(__nv_bfloat16 const*, __nv_bfloat16 const*, __nv_bfloat16*, int, int)",
      "gemv bf16", KERNEL_LIBRARY_CUBLAS, KERNEL_CATEGORY_GEMV, 160, 128, 6100 },
    { "nvjet_tst_176x128_64x4_2x1_v_bz_coopA_TNT", "gemm 176x128 TNT", KERNEL_LIBRARY_CUBLAS,
      KERNEL_CATEGORY_GEMM, 132, 384, 5200 },
    { "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(Flash_fwd_params)",
      "flash_fwd_splitkv", KERNEL_LIBRARY_FLASH_ATTENTION, KERNEL_CATEGORY_ATTENTION, 80, 128, 4300 },
    { "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >(int, float, char*)",
      "elementwise mul", KERNEL_LIBRARY_ATEN, KERNEL_CATEGORY_ELEMENTWISE, 12, 128, 1500 },
    { "void rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, float)", "rms_norm", KERNEL_LIBRARY_VLLM,
      KERNEL_CATEGORY_NORM, 1, 1024, 2100 },
    { "void at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)", "direct_copy", KERNEL_LIBRARY_ATEN,
      KERNEL_CATEGORY_COPY, 40, 128, 1700 },
    { "moe_align_block_size_kernel", "moe_align_block_size", KERNEL_LIBRARY_VLLM, KERNEL_CATEGORY_MOE, 1, 64,
      3900 },
    { SAMPLE_HOSTILE, SAMPLE_HOSTILE, KERNEL_LIBRARY_USER, KERNEL_CATEGORY_OTHER, 0, 0, 900 },
};
#define KINDS COUNTOF(kinds)

static void *own(struct sample *s, void *p) {
    if (s->nowned == COUNTOF(s->owned)) die("sample owns too much");
    return s->owned[s->nowned++] = p;
}

static void add_range(struct timeline_builder *b, const char *name, uint64_t start, uint64_t end,
                      uint32_t depth, enum trace_range_category category) {
    struct trace_range r = {
        .start_ns = start, .end_ns = end, .thread = 77, .depth = depth, .category = category
    };
    r.name = timeline_builder_text(b, name);
    r.flops = r.bytes = r.payload = NAN;
    timeline_builder_range(b, &r, 1);
}

/* Consecutive operators, each with one launch whose kernel runs a little later, so that the GPU waits. */
static uint64_t add_work(struct timeline_builder *b, uint64_t at, size_t n, uint64_t pace,
                         uint64_t *correlation) {
    static const char *const ops[] = { "aten::linear", "aten::mm",    "aten::scaled_dot_product_attention",
                                       "aten::mul",    "rms_norm",    "aten::copy_",
                                       "moe::align",   SAMPLE_HOSTILE };
    for (size_t i = 0; i < n; i++, at += pace) {
        size_t k = (i * 5 + i / 7) % KINDS;
        add_range(b, ops[k], at, at + pace - 200, 1, TRACE_CATEGORY_OP);
        struct trace_launch l = {
            .start_ns = at + 500, .end_ns = at + 2500, .correlation = ++*correlation, .thread = 77
        };
        l.api = timeline_builder_text(b, "cudaLaunchKernel");
        timeline_builder_launch(b, &l, 1);
        struct trace_kernel r = { .start_ns = at + 4000,
                                  .end_ns = at + 4000 + kinds[k].ns,
                                  .correlation = l.correlation,
                                  .stream = 7,
                                  .grid_x = kinds[k].grid,
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = kinds[k].block,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .registers = 96 };
        r.name = timeline_builder_text(b, kinds[k].name);
        timeline_builder_kernel(b, &r, 1);
    }
    return at;
}

static struct timeline *build(size_t tokens, size_t kernels, uint64_t bounds[4]) {
    struct timeline_builder *b = timeline_builder_open();
    uint64_t correlation = 0, at = T0;
    timeline_builder_process(b, "sample.ipt");
    timeline_builder_meta(b, "clock", "unix");
    timeline_builder_meta(b, "device.0.name", "NVIDIA H200");
    timeline_builder_meta(b, "device.0.sms", "132");
    timeline_builder_meta(b, "thread.77.name", "MainThread");
    bounds[0] = at;
    at = add_work(b, at + 20 * US, kernels, 14 * US, &correlation);
    bounds[1] = at + 20 * US;
    add_range(b, "prefill", bounds[0], bounds[1], 0, TRACE_CATEGORY_STAGE);
    bounds[2] = at + 40 * US;
    at = bounds[2];
    for (size_t i = 0; i < tokens; i++) at = add_work(b, at, kernels, 14 * US, &correlation);
    bounds[3] = at;
    add_range(b, "decode", bounds[2], bounds[3], 0, TRACE_CATEGORY_STAGE);
    struct trace_copy c = { .start_ns = bounds[2] + 9 * US,
                            .end_ns = bounds[2] + 10 * US,
                            .bytes = 4096,
                            .stream = 7,
                            .copy_kind = TRACE_COPY_DTOH };
    timeline_builder_copy(b, &c, 1);
    for (int i = 0; i < 40; i++) {
        struct trace_power p = { .time_ns = T0 + (uint64_t)i * (bounds[3] - T0) / 39,
                                 .sm_mhz = 1980,
                                 .memory_mhz = 3201,
                                 .temperature_c = 51,
                                 .power_mw = 300000 + 4000 * (uint32_t)(i % 9),
                                 .energy_mj = 1000 + 90 * (uint64_t)i };
        timeline_builder_power(b, &p, 1);
    }
    return timeline_builder_finish(b);
}

/* ---- the analysis, by hand */
static struct stats spread(double median) {
    const double v[] = { median * 0.99, median, median * 1.01 };
    return stats_of(v, 3);
}

static void stage_unknown(struct analysis_stage *t, const char *name) {
    memset(t, 0, sizeof *t);
    t->name = t->path = name;
    t->parent = ANALYSIS_NONE;
    t->occurrences = 1;
    t->device_requests = 1;
    t->wall_ns = t->busy_ns = t->token_ns = t->timing_ms = stats_none();
    t->tokens_in = t->tokens_out = t->kernels_per_token = t->launches_per_token = NAN;
    t->time_ms = t->busy_ms = t->busy_share = t->kernels_each = t->tokens = t->tokens_per_s = NAN;
    t->flops = t->bytes = t->floor_ms = t->mfu = t->mbu = t->distance = NAN;
    t->recorded_mfu = t->recorded_mbu = t->overhead_ratio = t->recording_cost = NAN;
    t->joules = t->joules_per_token = t->tokens_per_joule = t->watts = NAN;
    t->idle_refused = "the trace has no launches";
}

/* Gives the stage its timed repeats. */
static void stage_timed(struct sample *s, struct analysis_stage *t, size_t timing) {
    t->timing = &s->timings[timing];
    t->timing_ms = stats_of(t->timing->ms, t->timing->n);
    t->time_ms = t->timing_ms.median;
    t->time_source = "median of the timed repeats";
    t->recording_cost = t->timing->work->recorded_ms / t->time_ms;
}

static void fill_timings(struct sample *s) {
    static const double prefill[] = { 41.2, 41.0, 41.5, 41.1, 41.3 },
                        decode[] = { 629, 631, 628.5, NAN, 632 };
    static const double sam[] = { 16.1, 16.0, 16.2, 16.1, 16.0 };
    static const struct analyze_work works[] = {
        { .tokens = NAN, .flops = 4.1e12, .bytes = 6.6e9, .floor_ms = 12.9, .recorded_ms = 44.0 },
        { NAN, NAN, NAN, NAN, NAN },
        { .tokens = NAN, .flops = 6.1e11, .bytes = 1.1e11, .floor_ms = 38.4, .recorded_ms = 707 },
    };
    s->timings[0] = (struct analyze_timing){ .stage = "prefill", .ms = prefill, .n = 5, .work = &works[0] };
    s->timings[1] =
        (struct analyze_timing){ .stage = "sam", .parent = "prefill", .ms = sam, .n = 5, .work = &works[1] };
    s->timings[2] = (struct analyze_timing){ .stage = "decode", .ms = decode, .n = 5, .work = &works[2] };
    s->timings[3] = (struct analyze_timing){ .stage = "tokenize", .work = &works[1] };
    s->input = (struct analyze_input){ .timings = s->timings,
                                       .ntimings = 4,
                                       .one_run = true,
                                       .peak_flops_per_s = NAN,
                                       .peak_bytes_per_s = NAN };
}

static void fill_stages(struct sample *s, const uint64_t b[4], size_t tokens, size_t kernels) {
    struct analysis_stage *t = own(s, xcalloc(4, sizeof *t));
    double prefill_ns = (double)(b[1] - b[0]), decode_ns = (double)(b[3] - b[2]);
    stage_unknown(&t[0], "prefill");
    stage_timed(s, &t[0], 0);
    t[0].wall_ns = spread(prefill_ns);
    t[0].busy_ns = spread(prefill_ns * 0.82);
    t[0].wall_total_ns = prefill_ns;
    t[0].gpu_busy_ns = prefill_ns * 0.82;
    t[0].busy_share = 0.82;
    t[0].busy_ms = 0.82 * t[0].time_ms;
    t[0].kernels = t[0].launches = kernels;
    t[0].kernels_each = (double)kernels;
    t[0].tokens_in = t[0].tokens = 913;
    t[0].mfu = 0.312;
    t[0].mbu = 0.094;
    t[0].floor_ms = 12.9;
    t[0].distance = 3.19;
    t[0].flops = 4.1e12;
    t[0].bytes = 6.6e9;
    stage_unknown(&t[1], "sam");
    stage_timed(s, &t[1], 1);
    t[1].path = "prefill/sam";
    t[1].parent = 0;
    t[1].parent_name = "prefill";
    t[1].depth = 1;
    t[1].busy_ns = spread(prefill_ns * 0.36);
    stage_unknown(&t[2], "decode");
    stage_timed(s, &t[2], 2);
    t[2].wall_ns = spread(decode_ns);
    t[2].busy_ns = spread(decode_ns * 0.28);
    t[2].wall_total_ns = decode_ns;
    t[2].gpu_busy_ns = decode_ns * 0.28;
    t[2].busy_share = 0.28;
    t[2].busy_ms = 0.28 * t[2].time_ms;
    t[2].idle_ns = decode_ns * 0.71;
    t[2].kernels = t[2].launches = tokens * kernels;
    t[2].kernels_each = (double)(tokens * kernels);
    t[2].tokens_out = t[2].tokens = (double)tokens;
    t[2].kernels_per_token = t[2].launches_per_token = (double)kernels;
    t[2].floor_ms = 38.4;
    t[2].distance = 16.4;
    t[2].mbu = 0.058;
    t[2].mfu = 0.004;
    t[2].flops = 6.1e11;
    t[2].bytes = 1.1e11;
    t[2].joules_per_token = 1.93;
    t[2].joules = 1.93 * (double)tokens;
    t[2].idle_known = true;
    t[2].idle_refused = NULL;
    t[2].idle.ns[ANALYSIS_IDLE_LAUNCH] = t[2].idle_ns * 0.93;
    t[2].idle.ns[ANALYSIS_IDLE_SYNC] = t[2].idle_ns * 0.07;
    t[2].idle.graph_removable_ns = t[2].idle_ns * 0.9;
    stage_unknown(&t[3], "between steps");
    t[3].outside = true;
    s->analysis.stages = t;
    s->analysis.nstages = 4;
    struct analysis_occurrence *o = own(s, xcalloc(2, sizeof *o));
    o[0] = (struct analysis_occurrence){
        .stage = 0, .parent = ANALYSIS_NONE, .start_ns = b[0], .end_ns = b[1], .wall_end_ns = b[1]
    };
    o[1] = (struct analysis_occurrence){
        .stage = 2, .parent = ANALYSIS_NONE, .start_ns = b[2], .end_ns = b[3], .wall_end_ns = b[3]
    };
    for (size_t i = 0; i < s->timeline->ranges.n; i++)
        for (int k = 0; k < 2; k++)
            if (s->timeline->ranges.category[i] == TRACE_CATEGORY_STAGE &&
                s->timeline->ranges.start_ns[i] == o[k].start_ns)
                o[k].range = (uint32_t)i;
    s->analysis.occurrences = o;
    s->analysis.noccurrences = 2;
}

static int by_owned(const void *a, const void *b) {
    double x = ((const struct analysis_kernel *)a)->owned_ns,
           y = ((const struct analysis_kernel *)b)->owned_ns;
    return (x < y) - (x > y);
}

static void fill_kernels(struct sample *s) {
    const struct timeline *tl = s->timeline;
    struct analysis_kernel *k = own(s, xcalloc(tl->nshapes, sizeof *k));
    uint32_t *row = own(s, xcalloc(tl->nshapes, sizeof *row));
    double busy = 0;
    for (uint32_t i = 0; i < tl->nshapes; i++)
        for (size_t j = 0; j < KINDS; j++)
            if (strcmp(timeline_text(tl, tl->shapes[i].name), kinds[j].name) == 0) {
                k[i] = (struct analysis_kernel){ .shape = i,
                                                 .name = kinds[j].name,
                                                 .short_name = kinds[j].short_name,
                                                 .library = kinds[j].library,
                                                 .category = kinds[j].category,
                                                 .stage = 2 };
                k[i].mean_ns = k[i].min_ns = k[i].p50_ns = k[i].p99_ns = k[i].max_ns = (double)kinds[j].ns;
                k[i].occupancy = j % 3 ? 0.25 * (double)(j % 4) : NAN;
                k[i].waves = NAN;
                k[i].blocks = kinds[j].grid;
                k[i].flops = k[i].bytes = NAN;
            }
    for (size_t i = 0; i < tl->kernels.n; i++) {
        k[tl->kernels.shape[i]].calls++;
        k[tl->kernels.shape[i]].total_ns += (double)(tl->kernels.end_ns[i] - tl->kernels.start_ns[i]);
    }
    for (size_t i = 0; i < tl->nshapes; i++) busy += k[i].owned_ns = k[i].total_ns;
    for (size_t i = 0; i < tl->nshapes; i++) k[i].share = k[i].owned_ns / busy;
    qsort(k, tl->nshapes, sizeof *k, by_owned);
    for (uint32_t i = 0; i < tl->nshapes; i++) row[k[i].shape] = i;
    struct analysis_group *g = own(s, xcalloc(tl->nshapes, sizeof *g));
    for (size_t i = 0; i < tl->nshapes; i++)
        g[i] = (struct analysis_group){ (int)k[i].category, kernel_category_name(k[i].category),
                                        k[i].calls,         1,
                                        k[i].owned_ns,      k[i].share };
    s->analysis.kernels = k;
    s->analysis.nkernels = tl->nshapes;
    s->analysis.shape_kernel = row;
    s->analysis.categories = g;
    s->analysis.ncategories = tl->nshapes;
    s->analysis.conservation.busy = busy;
    s->analysis.kernels_total = tl->kernels.n;
    s->analysis.launches_total = tl->launches.n;
}

static void fill_rest(struct sample *s, const uint64_t b[4]) {
    static struct analysis_operator ops[] = {
        { .name = "aten::linear",
          .calls = 900,
          .kernels = 900,
          .total_ns = 9e6,
          .self_ns = 8e6,
          .mean_ns = 1e4,
          .gpu_ns = 5e6,
          .gpu_self_ns = 5e6,
          .flops = NAN,
          .bytes = NAN,
          .stage = 2 },
        { .name = SAMPLE_HOSTILE,
          .calls = 3,
          .total_ns = 1e5,
          .self_ns = 1e5,
          .mean_ns = 3e4,
          .gpu_ns = 0,
          .gpu_self_ns = 0,
          .flops = NAN,
          .bytes = NAN,
          .stage = ANALYSIS_NONE },
    };
    static struct analysis_finding findings[] = {
        { "launch-bound", "Decode is launch-bound: the GPU waits 451 ms of 630 ms",
          "1,219 launches per token at 0.37 ms between tokens; mean kernel 2.3 us, queue empty before 96% of "
          "them.",
          "Capture the decode step in a CUDA graph, or compile it: the launches of a token become one.", 2,
          451, 71.6, ANALYSIS_HIGH },
        { "memory-roof", "Decode is 16x from the memory roof", "It moves 110 GB in 630 ms: 0.17 of 4.8 TB/s.",
          "After the launches: fuse the element-wise chains, batch requests.", 2, 120, 19, ANALYSIS_MEDIUM },
        { "copy-traffic", SAMPLE_HOSTILE, SAMPLE_HOSTILE, "Keep the cache in bf16.", 2, 21.5, 3.4,
          ANALYSIS_MEDIUM },
        { "clocks", "Clocks were steady", "1,980 MHz throughout", "Nothing to do.", ANALYSIS_NONE, NAN, NAN,
          ANALYSIS_LOW },
    };
    static struct analysis_note notes[] = { { ANALYSIS_INFO, "kernels met their operators through launches" },
                                            { ANALYSIS_WARNING, SAMPLE_HOSTILE } };
    static struct analysis_point points[] = {
        { "decode", 2, ANALYSIS_NONE, 6.1e11, 1.1e11, 6e8, 5.5, 1e12, 1.8e11, 2.6e13, 0.04, true, "model" },
        { "prefill", 0, ANALYSIS_NONE, 4.1e12, 6.6e9, 1.4e7, 620, 2.9e14, 4.7e11, 9.9e14, 0.31, false,
          "model" },
        { "gemm", ANALYSIS_NONE, 1, 1e12, 2e9, 3e6, 500, 4.5e14, 4e11, 9.9e14, 0.45, false, "gemm records" },
        { SAMPLE_HOSTILE, ANALYSIS_NONE, 0, 1e9, 1e9, 9e6, 1, 2.2e12, 2.2e12, 4.8e12, 0.46, true,
          "gemm records" },
        { "unknown", ANALYSIS_NONE, 0, NAN, NAN, 1, NAN, NAN, NAN, NAN, NAN, true, "counters" },
    };
    struct analysis_power_point *series = own(s, xcalloc(40, sizeof *series));
    for (size_t i = 0; i < 40; i++)
        series[i] = (struct analysis_power_point){ T0 + i * (b[3] - T0) / 39,
                                                   300 + 4 * (float)(i % 9),
                                                   1980 - 20 * (float)(i > 30),
                                                   3201,
                                                   51,
                                                   i > 30 ? 4 : 0 };
    struct analysis_power *p = own(s, xcalloc(1, sizeof *p));
    *p = (struct analysis_power){ 0,   series,      40,  190.5, 316, 332, 1980, 1975, (double)(b[3] - T0),
                                  1e6, "power cap", 42.5 };
    struct analysis *a = &s->analysis;
    a->operators = ops;
    a->noperators = COUNTOF(ops);
    a->findings = findings;
    a->nfindings = COUNTOF(findings);
    a->notes = notes;
    a->nnotes = COUNTOF(notes);
    a->roofline = points;
    a->nroofline = COUNTOF(points);
    a->powers = p;
    a->npowers = 1;
    a->peak_flops_per_s = 989e12;
    a->peak_bytes_per_s = 4.8e12;
    a->peak_source = "datasheet, dense bf16";
    a->model_mfu = 0.0173;
    a->wall_ns = (double)(b[3] - b[0]);
    a->lost_share = 0;
}

static void fill_input(struct sample *s) {
    static const double ttft[] = { 44.1, 44.0, 44.4, 44.2, 44.3 };
    static const double rate[] = { 101.7, 101.4, 101.8, NAN, 101.2 };
    static const struct run_kv env[] = { { "Machine", "OS", "Debian GNU/Linux 12" },
                                         { NULL, "CPU", "Intel Xeon Platinum 8480C, 16 cores" },
                                         { NULL, "Memory", "128 GiB" },
                                         { "GPU", "Name", "NVIDIA H200" },
                                         { NULL, "Driver", "580.159" },
                                         { NULL, "SM clock", "1,980 MHz" },
                                         { "Software", "PyTorch", "2.11+cu130" },
                                         { NULL, "Odd value", SAMPLE_HOSTILE },
                                         { NULL, "Unknown", NULL } };
    static const char *const assumptions[] = { "Multiply-add counts as 2 FLOPs.",
                                               "Causal attention counts the real context.", SAMPLE_HOSTILE };
    static const char *const warnings[] = {
        "Repeat 4: the engine did not answer within 60 s and was started again."
    };
    static const struct run_answer answers[] = {
        { "page_01.png", "Convert to Markdown.",
          "# Quarterly report\n\n| a | b |\n```\ncode\n```\n" SAMPLE_HOSTILE, NULL, 913, 64, 671 }
    };
    s->figures[0] = (struct run_figure){ "time_to_first_token", "Time to first token", "ms", ttft, 5, false };
    s->figures[1] = (struct run_figure){ "tokens_per_s", "Decode rate", "tok/s", rate, 5, true };
    run_info_init(&s->in);
    s->in.run_id = "20261115-024500-deepseek-ocr";
    s->in.title = "DeepSeek-OCR (bf16) on NVIDIA H200";
    s->in.model = "deepseek-ocr";
    s->in.engine = "hf";
    s->in.version = "0.1.0";
    s->in.command = "inferprof profile --rerun runs/" SAMPLE_HOSTILE;
    s->in.started_wall_ns = T0;
    s->in.analysis = &s->analysis;
    s->in.timeline = s->timeline;
    s->in.figures = s->figures;
    s->in.nfigures = 2;
    s->in.repeats = 5;
    s->in.failed_repeats = 1;
    s->in.env = env;
    s->in.nenv = COUNTOF(env);
    s->in.config = "model:\n  path: " SAMPLE_HOSTILE "\n";
    s->in.assumptions = assumptions;
    s->in.nassumptions = COUNTOF(assumptions);
    s->in.warnings = warnings;
    s->in.nwarnings = 1;
    s->in.answers = answers;
    s->in.nanswers = s->in.answers_total = 1;
}

void sample_init(struct sample *s, size_t tokens, size_t kernels) {
    uint64_t bounds[4];
    memset(s, 0, sizeof *s);
    s->timeline = build(tokens, kernels, bounds);
    s->analysis.timeline = s->timeline;
    fill_timings(s);
    fill_stages(s, bounds, tokens, kernels);
    fill_kernels(s);
    fill_rest(s, bounds);
    uint32_t *occurrence = own(s, xcalloc(s->timeline->ranges.n + 1, sizeof *occurrence));
    for (size_t i = 0; i < s->timeline->ranges.n; i++)
        occurrence[i] = s->timeline->ranges.start_ns[i] < bounds[2] ? 0 : 1;
    s->analysis.range_occurrence = occurrence;
    fill_input(s);
    view_init(&s->view, &s->in);
}

void sample_free(struct sample *s) {
    view_free(&s->view);
    for (size_t i = 0; i < s->nowned; i++) free(s->owned[i]);
    timeline_close(s->timeline);
}
