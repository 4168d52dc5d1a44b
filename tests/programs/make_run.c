/* make_run FILE.ipt [TOKENS [KERNELS [SLOWER_PERCENT [MORE]]]]: writes a trace like that of a GPU run:
 * prefill, then TOKENS decode steps of KERNELS kernels each. Kernels are launched one by one, so that the GPU
 * waits. One kernel name contains HTML and JavaScript. If MORE is not 0, the trace also has hardware counters
 * every 50 us and GEMM shapes. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "trace/writer.h"

#define US 1000ull
#define HOSTILE "</script><img src=x onerror=alert(1)>|`'\"&\xe2\x80\xa8"

static const struct {
    const char *name, *op;
    uint32_t grid;
    uint64_t ns;
} kinds[] = {
    { "_Z9gemv_bf16PKfS0_Pfii", "aten::linear", 160, 6100 },
    { "nvjet_tst_176x128_64x4_2x1_v_bz_coopA_TNT", "aten::mm", 132, 5200 },
    { "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(Flash_fwd_params)",
      "aten::sdpa", 80, 4300 },
    { "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >(int)", "aten::mul",
      12, 1500 },
    { "void rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, float)", "rms_norm", 1, 2100 },
    { "void at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)", "aten::copy_", 40, 1700 },
    { "moe_align_block_size_kernel", "moe::align", 1, 3900 },
    { HOSTILE, HOSTILE, 2, 900 },
};

struct maker {
    struct trace_writer *w;
    uint64_t at, correlation;
    bool more;
};

static void range(struct maker *m, const char *name, uint64_t start, uint64_t end, uint32_t depth,
                  uint32_t category) {
    struct trace_range r = { .start_ns = start,
                             .end_ns = end,
                             .thread = 77,
                             .depth = depth,
                             .category = category,
                             .name = trace_writer_str(m->w, name),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    if (m->more && category == TRACE_CATEGORY_OP)
        r.detail = trace_writer_str(m->w, "x[1,8,1280]bf16 w[1280,1280]bf16");
    trace_writer_range(m->w, &r, 1);
}

/* Without a correlation id, as in a library's log. */
static void gemm(struct maker *m, uint64_t at) {
    struct trace_gemm g = { .start_ns = at,
                            .thread = 77,
                            .m = 1280,
                            .n = 8,
                            .k = 1280,
                            .batch = 1,
                            .types = trace_writer_str(m->w, "bf16,bf16->bf16 compute f32"),
                            .layout = trace_writer_str(m->w, "TN"),
                            .algorithm = trace_writer_str(m->w, "nvjet") };
    trace_writer_gemm(m->w, &g, 1);
}

static void counters(struct maker *m, uint64_t start) {
    for (uint64_t t = start; t + 50 * US <= m->at; t += 50 * US) {
        struct trace_sample s = { .start_ns = t, .end_ns = t + 50 * US, .v0 = 25.5, .v1 = 12.25 };
        s.metrics = trace_writer_str(m->w, "sm__throughput.avg.pct_of_peak_sustained_elapsed;"
                                           "dram__read_throughput.avg.pct_of_peak_sustained_elapsed");
        trace_writer_sample(m->w, &s, 1);
    }
}

static void work(struct maker *m, size_t n, uint64_t pace) {
    for (size_t i = 0; i < n; i++, m->at += pace) {
        size_t k = (i * 5 + i / 7) % COUNTOF(kinds);
        range(m, kinds[k].op, m->at, m->at + pace - 200, 1, TRACE_CATEGORY_OP);
        struct trace_launch l = { .start_ns = m->at + 500,
                                  .end_ns = m->at + 2500,
                                  .correlation = ++m->correlation,
                                  .thread = 77,
                                  .api = trace_writer_str(m->w, "cudaLaunchKernel") };
        trace_writer_launch(m->w, &l, 1);
        struct trace_kernel r = { .start_ns = m->at + 4000,
                                  .end_ns = m->at + 4000 + kinds[k].ns,
                                  .correlation = l.correlation,
                                  .stream = 7,
                                  .context = 1,
                                  .name = trace_writer_str(m->w, kinds[k].name),
                                  .grid_x = kinds[k].grid,
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = 128,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .registers = 96 };
        trace_writer_kernel(m->w, &r, 1);
        if (m->more && strncmp(kinds[k].name, "nvjet", 5) == 0) gemm(m, m->at + 300);
    }
}

static void token(struct maker *m, uint32_t count, uint32_t kind) {
    struct trace_token t = {
        .time_ns = m->at, .request = 1, .count = count, .token_kind = kind, .thread = 77
    };
    trace_writer_token(m->w, &t, 1);
}

static void meta(struct trace_writer *w) {
    static const char *const rows[][2] = {
        { "clock", "unix" },
        { "source", "collector" },
        { "process.pid", "4242" },
        { "process.command", "python ocr.py page.png" },
        { "host", "gpu-1" },
        { "thread.77.name", "MainThread" },
        { "device.0.name", "NVIDIA H200" },
        { "device.0.cc", "9.0" },
        { "device.0.sms", "132" },
        { "device.0.max_threads_per_sm", "2048" },
        { "device.0.max_blocks_per_sm", "32" },
        { "device.0.regs_per_sm", "65536" },
        { "device.0.smem_per_sm_bytes", "233472" },
        { "device.0.warp_size", "32" },
        { "cuda.driver", "13.0" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) trace_writer_meta(w, rows[i][0], "%s", rows[i][1]);
}

static void power(struct maker *m, uint64_t start) {
    for (uint64_t i = 0; i < 40; i++) {
        struct trace_power p = { .time_ns = start + i * (m->at - start) / 39,
                                 .sm_mhz = i > 30 ? 1755 : 1980,
                                 .memory_mhz = 3201,
                                 .temperature_c = 51,
                                 .power_mw = 300000 + 4000 * (uint32_t)(i % 9),
                                 .energy_mj = 1000 + 90 * i,
                                 .throttle_reasons = i > 30 ? 4 : 0 };
        trace_writer_power(m->w, &p, 1);
    }
}

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise) {
    return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    struct err err;
    uint64_t tokens = argument(argc, argv, 2, 12), kernels = argument(argc, argv, 3, 40);
    uint64_t pace = 14 * US * (100 + argument(argc, argv, 4, 0)) / 100;
    struct trace_writer_options big = { .memory_bytes = 1ull << 30 };
    struct maker m = { .w = argc > 1 ? trace_writer_open(argv[1], &big, &err) : NULL,
                       .at = 1763170000000000000ull,
                       .more = argument(argc, argv, 5, 0) };
    if (!m.w) return 1;
    uint64_t start = m.at;
    meta(m.w);
    m.at += 20 * US;
    token(&m, 913, TRACE_TOKEN_CONSUMED);
    work(&m, kernels, pace);
    range(&m, "prefill", start, m.at, 0, TRACE_CATEGORY_STAGE);
    m.at += 20 * US;
    uint64_t decode = m.at;
    for (uint64_t i = 0; i < tokens; i++) {
        work(&m, kernels, pace);
        token(&m, 1, TRACE_TOKEN_MADE);
    }
    struct trace_copy c = { .start_ns = m.at - 2 * US,
                            .end_ns = m.at - US,
                            .bytes = 4096,
                            .stream = 7,
                            .context = 1,
                            .copy_kind = TRACE_COPY_DTOH };
    trace_writer_copy(m.w, &c, 1);
    struct trace_sync s = { .start_ns = m.at - 3 * US,
                            .end_ns = m.at - US / 2,
                            .thread = 77,
                            .sync_kind = TRACE_SYNC_STREAM,
                            .context = 1,
                            .stream = 7 };
    trace_writer_sync(m.w, &s, 1);
    range(&m, "decode", decode, m.at, 0, TRACE_CATEGORY_STAGE);
    power(&m, start);
    if (m.more) counters(&m, start);
    return trace_writer_close(m.w, &err) < 0;
}
