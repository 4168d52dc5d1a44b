/* Builds traces from arbitrary bytes: each byte selects a record, a value or a text, so that nearly every
 * input gives a trace that the reader accepts. The values include extreme and unordered times, unknown
 * numbers and hostile names.
 *     struct trace_maker m = { .p = data, .end = data + size };
 *     while (trace_maker_record(&m)) ...                 -- until the input or the file ends
 *     trace_maker_write(&m, "0.ipt");                    -- and starts the next file */
#ifndef TESTS_FUZZ_TRACE_MAKER_H
#define TESTS_FUZZ_TRACE_MAKER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "trace/writer.h"

#define MAKER_RECORDS 1500 /* per file */
#define MAKER_TEXTS 64     /* texts from the input, per file */
#define MAKER_OPEN 16      /* ranges that are open at the same time */

struct trace_maker {
    const uint8_t *p, *end;
    struct {
        enum trace_kind kind;
        union trace_record r; /* texts are indices into `texts`; see maker_text_of() */
    } v[MAKER_RECORDS];
    size_t n;
    struct {
        const char *p;
        size_t len;
    } texts[MAKER_TEXTS];
    size_t ntexts;
    uint64_t now, correlation;
    struct {
        uint64_t start_ns;
        uint32_t name, thread, category;
    } open[MAKER_OPEN];
    size_t nopen;
    bool file_ends;
};

/* Names that the program knows, and names that attack the documents. */
static const char *const maker_names[] = {
    "",
    "decode",
    "prefill",
    "decode_step",
    "execute_context_1(300)_generation_0(0)",
    "execute_context_0(0)_generation_4(4)",
    "execute_2_context_1(sq300sk600sqsq90000sqsk180000)_generation_2(sq2sk800sqsq2sqsk800)",
    "step[DECODE bs=4 g_sq=4 g_sk=900 g_sqsq=4 g_sqsk=900]",
    "step[EXTEND bs=1 toks=1025 c_sq=1025 c_sk=1025 c_sqsq=1050625 c_sqsk=1050625]",
    "ProfilerStep#3",
    "vision_tower",
    "sam",
    "lm_head",
    "aten::linear",
    "aten::mm",
    "aten::scaled_dot_product_attention",
    "x[8,16]bf16 w[32,16]bf16",
    "[3,5]f32 [5,7]f32",
    "[1,16,9223372036854775807,64]bf16 [1,16,300,64]bf16",
    "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)",
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)",
    "void vllm::paged_attention_v2_kernel<__nv_bfloat16, 128, 16>(float*)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>()",
    "void at::native::cunn_SoftMaxForward<8, float, float>(T1)",
    "void at::native::elementwise_kernel<1, silu_kernel>(int)",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
    "_ZN5aiter4normIDF16b3fooLi128EEEvPT_S1_PKDF16b",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "fused_moe_kernel",
    "nccl:all_reduce",
    "AllReduce",
    "Send",
    "Recv",
    "AllToAll",
    "bf16",
    "ncclFloat8e4m3",
    "RING",
    "SIMPLE",
    "cudaLaunchKernel",
    "cudaGraphLaunch",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "cudaStreamBeginCapture_v2",
    "cudaStreamEndCapture",
    "cuLaunchHostFunc",
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed;dram__read_throughput.avg.pct_of_peak_sustained_"
    "elapsed;dram__write_throughput.avg.pct_of_peak_sustained_elapsed;sm__pipe_tensor_cycles_active.avg.pct_"
    "of_peak_sustained_elapsed;gpc__cycles_elapsed.avg.per_second;sm__warps_active.avg.pct_of_peak_sustained_"
    "elapsed",
    "dram__read_throughput.avg.pct_of_peak_sustained_elapsed;;x",
    "bf16,bf16->bf16 compute f32",
    "TN",
    "run.py:main:3;model.py:forward:71;</script>;\x1b[31m:x:1",
    "config.json",
    "safetensors",
    "gguf",
    "/models/llama/config.json",
    "/models/llama/model-00001-of-00002.safetensors",
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":128,"
    "\"vocab_size\":1000,\"torch_dtype\":\"bfloat16\"}",
    "torch",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "](javascript:alert(1)) | [a](b) `x` $y$ <!--",
    "=cmd|' /C calc'!A0,\"\r\n",
    "\xff\xfe\xed\xa0\x80\xc0\x80 \xe2\x80\xae\xef\xbb\xbf",
    "\x1b]0;title\x07\x01\x7f\xc2\x85",
    "%s%n%*d",
    "a/../../b",
};
enum { MAKER_NAMES = sizeof maker_names / sizeof *maker_names };

static const char *const maker_keys[] = { "rank",
                                          "world_size",
                                          "local_rank",
                                          "local_size",
                                          "node_rank",
                                          "node",
                                          "launcher",
                                          "job",
                                          "host",
                                          "source",
                                          "clock",
                                          "clock.offset_ns",
                                          "process.pid",
                                          "process.command",
                                          "problem",
                                          "capture.window",
                                          "capture.from",
                                          "capture.to",
                                          "cut.clipped",
                                          "device.0.name",
                                          "device.0.uuid",
                                          "device.0.sms",
                                          "device.0.cc",
                                          "device.0.max_threads_per_sm",
                                          "device.0.max_blocks_per_sm",
                                          "device.0.regs_per_sm",
                                          "device.0.smem_per_sm_bytes",
                                          "device.0.warp_size",
                                          "device.0.sm_clock_khz",
                                          "device.0.memory_bytes",
                                          "device.0.l2_bytes",
                                          "device.0.peak_gbps",
                                          "device.1.name",
                                          "device.1.uuid",
                                          "thread.1.name",
                                          "stream.0.name",
                                          "cuda.runtime",
                                          "nccl" };
static const char *const maker_values[] = { "0",
                                            "1",
                                            "2",
                                            "4",
                                            "32",
                                            "132",
                                            "2048",
                                            "65536",
                                            "1048576",
                                            "4294967294",
                                            "4294967295",
                                            "18446744073709551615",
                                            "-1",
                                            "9.0",
                                            "1e308",
                                            "nan",
                                            "",
                                            "relative",
                                            "torchrun",
                                            "import: torch.profiler",
                                            "NVIDIA H200",
                                            "NVIDIA A100-SXM4-80GB",
                                            "cpu",
                                            "GPU-00000000-1111-2222-3333-444444444444",
                                            "node1",
                                            "1000000000 1001000000",
                                            "1000000000",
                                            "0 18446744073709551615",
                                            "--api-key=secret https://user:pass@host/" };

static inline uint8_t maker_byte(struct trace_maker *m) { return m->p < m->end ? *m->p++ : 0; }

/* ---- values */

static inline uint32_t maker_u32(struct trace_maker *m) {
    static const uint32_t special[] = { 256,     512,     1024,      4095,     65535,      65536,
                                        1 << 20, 1 << 24, INT32_MAX, 1u << 31, UINT32_MAX, UINT32_MAX - 1 };
    uint8_t b = maker_byte(m);
    return b < 0xf0 ? b & 0x3f : special[(b & 15) % COUNTOF(special)];
}

static inline uint64_t maker_u64(struct trace_maker *m) {
    uint8_t b = maker_byte(m);
    if (b < 0x80) return b;
    if (b < 0xf0) return (uint64_t)(b & 15) << (b >> 4 & 7) * 9;
    return (uint64_t)0 - (b & 15);
}

static inline uint64_t maker_time(struct trace_maker *m) {
    uint8_t b = maker_byte(m);
    if (b < 0x60) return m->now += b * 500u;
    if (b < 0xa0) return m->now;
    if (b < 0xc0) return m->now - (uint64_t)(b & 31) * 1000u;
    if (b < 0xe0) return m->now += (uint64_t)(b & 31) * 1000000u;
    static const uint64_t special[] = { 0, 1, 1000, INT64_MAX, UINT64_MAX, UINT64_MAX - 1, 1ull << 53 };
    if (b < 0xf0) return special[b % COUNTOF(special)];
    return m->now += (uint64_t)(b & 15) << 36;
}

static inline uint64_t maker_duration(struct trace_maker *m) {
    uint8_t b = maker_byte(m);
    if (b < 0xc0) return b * 500u;
    if (b < 0xe0) return (uint64_t)(b & 31) * 1000000u;
    if (b < 0xf0) return (uint64_t)1 << (b & 15) * 4;
    return (uint64_t)0 - (b & 15) * 1000u; /* usually ends before it starts */
}

static inline double maker_f64(struct trace_maker *m) {
    static const double special[] = { NAN,    0.0,    -0.0, 1.0,  -1.0, INFINITY, -INFINITY, 1e300,
                                      1e-300, 5e-324, 1e9,  1e12, 0.5,  100,      -1e18,     1.7e308 };
    uint8_t b = maker_byte(m);
    return b < 0xf0 ? b : special[b & 15];
}

/* A name of the table, or the next bytes of the input. 0 is the empty text. */
static inline uint32_t maker_text(struct trace_maker *m) {
    uint8_t b = maker_byte(m);
    if (b < 0xf0) return b % MAKER_NAMES;
    if (b == 0xf0) return UINT32_MAX - 1; /* a text that does not exist */
    size_t len = maker_byte(m), left = (size_t)(m->end - m->p);
    if (len > left) len = left;
    if (m->ntexts == MAKER_TEXTS) return 0;
    m->texts[m->ntexts].p = (const char *)m->p;
    m->texts[m->ntexts].len = len;
    m->p += len;
    return MAKER_NAMES + (uint32_t)m->ntexts++;
}

static inline void maker_put(struct trace_maker *m, enum trace_kind kind, const union trace_record *r) {
    if (m->n == MAKER_RECORDS) return;
    m->v[m->n].kind = kind;
    m->v[m->n++].r = *r;
}

/* ---- records */

/* One byte per field. */
static inline void maker_any(struct trace_maker *m) {
    static const enum trace_kind kinds[] = {
#define X(ID, name, number) TRACE_##ID,
        TRACE_EVENTS(X)
#undef X
    };
    enum trace_kind kind = kinds[maker_byte(m) % COUNTOF(kinds)];
    const struct trace_schema *s = trace_schema(kind);
    union trace_record r;
    memset(&r, 0, sizeof r);
    uint64_t last = 0;
    for (size_t i = 0; i < s->nfields; i++) {
        char *at = (char *)&r + s->fields[i].offset;
        uint64_t wide = 0;
        uint32_t narrow = 0;
        double real;
        switch (s->fields[i].type) {
        case TRACE_FIELD_TIME: last = wide = maker_time(m); break;
        case TRACE_FIELD_AFTER: wide = last + maker_duration(m); break;
        case TRACE_FIELD_SEQ: wide = m->correlation + maker_u64(m); break;
        case TRACE_FIELD_U64: wide = maker_u64(m); break;
        case TRACE_FIELD_U32: narrow = maker_u32(m); break;
        case TRACE_FIELD_STR: narrow = maker_text(m); break;
        case TRACE_FIELD_F64:
            real = maker_f64(m);
            memcpy(&wide, &real, sizeof wide);
            break;
        }
        if (s->fields[i].type == TRACE_FIELD_U32 || s->fields[i].type == TRACE_FIELD_STR)
            memcpy(at, &narrow, sizeof narrow);
        else
            memcpy(at, &wide, sizeof wide);
    }
    maker_put(m, kind, &r);
}

static inline uint32_t maker_number_of(const char *name) {
    for (uint32_t i = 0; i < MAKER_NAMES; i++)
        if (strcmp(maker_names[i], name) == 0) return i;
    abort();
}

/* A launch call and its kernel, one after the other. */
static inline void maker_kernel(struct trace_maker *m, uint32_t name, uint32_t grid, uint8_t how) {
    union trace_record r;
    memset(&r, 0, sizeof r);
    r.launch =
        (struct trace_launch){ .start_ns = m->now,
                               .end_ns = m->now + 2000,
                               .thread = 1 + (how >> 6),
                               .correlation = ++m->correlation,
                               .api = maker_number_of(how & 8 ? "cudaGraphLaunch" : "cudaLaunchKernel") };
    if (!(how & 16)) maker_put(m, TRACE_LAUNCH, &r);
    m->now += 3000;
    memset(&r, 0, sizeof r);
    r.kernel = (struct trace_kernel){ .start_ns = m->now + (how & 32 ? 40000 : 0),
                                      .end_ns = m->now + (how & 32 ? 60000 : 5000),
                                      .correlation = m->correlation,
                                      .device = how & 1,
                                      .stream = how >> 1 & 3,
                                      .graph = how & 8 ? 3 : 0,
                                      .graph_node = how & 8 ? 7 : 0,
                                      .name = name,
                                      .grid_x = grid,
                                      .grid_y = 1,
                                      .grid_z = 1,
                                      .block_x = 128,
                                      .block_y = 1,
                                      .block_z = 1,
                                      .registers = 64 };
    maker_put(m, TRACE_KERNEL, &r);
    m->now += 4000;
}

static inline void maker_copy(struct trace_maker *m, enum trace_copy_kind kind, uint64_t bytes) {
    union trace_record r;
    memset(&r, 0, sizeof r);
    r.copy = (struct trace_copy){
        .start_ns = m->now, .end_ns = m->now + 1000, .bytes = bytes, .copy_kind = kind, .correlation = 0
    };
    maker_put(m, TRACE_COPY, &r);
    m->now += 2000;
}

/* A step of a language model. */
static inline void maker_step(struct trace_maker *m) {
    static const char *const layer[] = {
        "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
        "void at::native::elementwise_kernel<1, silu_kernel>(int)",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
    };
    uint8_t layers = maker_byte(m) % 6, how = maker_byte(m), steps = 1 + maker_byte(m) % 12;
    uint32_t tokens = maker_u32(m);
    for (unsigned s = 0; s < steps; s++, tokens = how & 4 ? tokens : 1) {
        maker_copy(m, TRACE_COPY_HTOD, 8 * (uint64_t)tokens);
        maker_kernel(
            m, maker_number_of("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"),
            tokens, how);
        for (unsigned i = 0; i < layers; i++)
            for (size_t k = 0; k < COUNTOF(layer); k++)
                maker_kernel(m, maker_number_of(layer[k]), k == 0 ? tokens : 40 + (uint32_t)k, how);
        maker_kernel(m,
                     maker_number_of("void at::native::reduce_kernel<512, 1, "
                                     "at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>()"),
                     tokens, how);
        maker_copy(m, TRACE_COPY_DTOH, 8);
    }
}

static inline void maker_open(struct trace_maker *m) {
    if (m->nopen == MAKER_OPEN) return;
    m->open[m->nopen].start_ns = maker_time(m);
    m->open[m->nopen].name = maker_text(m);
    uint8_t how = maker_byte(m);
    m->open[m->nopen].thread = 1 + (how >> 6);
    m->open[m->nopen++].category = how & 3;
}

static inline void maker_close(struct trace_maker *m) {
    union trace_record r;
    memset(&r, 0, sizeof r);
    if (!m->nopen) return;
    m->nopen--;
    r.range = (struct trace_range){ .start_ns = m->open[m->nopen].start_ns,
                                    .end_ns = maker_time(m),
                                    .thread = m->open[m->nopen].thread,
                                    .depth = (uint32_t)m->nopen,
                                    .category = m->open[m->nopen].category,
                                    .flags = maker_byte(m),
                                    .name = m->open[m->nopen].name,
                                    .detail = maker_text(m),
                                    .flops = maker_f64(m),
                                    .bytes = maker_f64(m),
                                    .payload = NAN };
    maker_put(m, TRACE_RANGE, &r);
}

/* Repeats the last records, each time later: as a program does in every step. */
static inline void maker_repeat(struct trace_maker *m) {
    size_t most = maker_byte(m) % 64 + 1, n = MIN(most, m->n);
    uint64_t shift = maker_duration(m);
    unsigned times = maker_byte(m) % 16;
    for (size_t left = n * times; left-- && m->n < MAKER_RECORDS;) {
        enum trace_kind kind = m->v[m->n - n].kind;
        union trace_record r = m->v[m->n - n].r;
        const struct trace_schema *s = trace_schema(kind);
        for (size_t i = 0; i < s->nfields; i++) {
            char *at = (char *)&r + s->fields[i].offset;
            uint64_t v;
            if (s->fields[i].type != TRACE_FIELD_TIME && s->fields[i].type != TRACE_FIELD_AFTER) continue;
            memcpy(&v, at, sizeof v);
            v += shift;
            memcpy(at, &v, sizeof v);
        }
        if (kind == TRACE_LAUNCH) r.launch.correlation += n;
        if (kind == TRACE_KERNEL) r.kernel.correlation += n;
        maker_put(m, kind, &r);
    }
    m->now += shift * times;
}

/* Samples of hardware counters or of the power. */
static inline void maker_samples(struct trace_maker *m) {
    union trace_record r;
    uint8_t how = maker_byte(m), n = maker_byte(m) % 32;
    uint64_t at = m->now - maker_duration(m) % 1000000000u, every = maker_duration(m);
    uint32_t metrics = maker_text(m), watts = maker_u32(m);
    for (unsigned i = 0; i < n; i++, at += every) {
        memset(&r, 0, sizeof r);
        if (how & 1)
            r.power = (struct trace_power){ .time_ns = at,
                                            .energy_mj = how & 2 ? (uint64_t)watts * i : 0,
                                            .throttle_reasons = how & 4 ? 0x4u << (i & 7) : 0,
                                            .device = how >> 6,
                                            .sm_mhz = 1000 + i,
                                            .memory_mhz = TRACE_UNKNOWN_U32,
                                            .temperature_c = 40,
                                            .power_mw = watts };
        else
            r.sample = (struct trace_sample){ .start_ns = at,
                                              .end_ns = at + every,
                                              .device = how >> 6,
                                              .metrics = metrics,
                                              .v0 = i,
                                              .v1 = watts,
                                              .v2 = 100,
                                              .v3 = 3.0 * i,
                                              .v4 = 1.5e9,
                                              .v5 = NAN };
        maker_put(m, how & 1 ? TRACE_POWER : TRACE_SAMPLE, &r);
    }
}

/* Calls that several ranks make, and their kernels. */
static inline void maker_collectives(struct trace_maker *m) {
    static const char *const names[] = { "AllReduce", "Send", "Recv", "AllToAll" };
    uint8_t how = maker_byte(m), n = maker_byte(m) % 16;
    for (unsigned i = 0; i < n; i++) {
        union trace_record r;
        memset(&r, 0, sizeof r);
        maker_kernel(m,
                     maker_number_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL("
                                     "ncclDevKernelArgsStorage<4096ul>)"),
                     8, how);
        r.collective = (struct trace_collective){ .start_ns = m->now - 7000,
                                                  .end_ns = m->now - 6000,
                                                  .kernel_start_ns = m->now - 4000,
                                                  .kernel_end_ns = m->now,
                                                  .sequence = how & 64 ? TRACE_UNKNOWN_U64 : i,
                                                  .correlation = how & 128 ? 0 : m->correlation,
                                                  .communicator = 7,
                                                  .bytes = 1 << 20,
                                                  .count = 1 << 19,
                                                  .op = TRACE_OP_ALL_REDUCE + (how & 3),
                                                  .flags = how >> 2 & 15,
                                                  .thread = 1,
                                                  .rank = maker_u32(m),
                                                  .size = 2,
                                                  .root = TRACE_UNKNOWN_U32,
                                                  .peer = i & 1,
                                                  .channels = 4,
                                                  .nodes = 1,
                                                  .name = maker_number_of(names[how & 3]),
                                                  .data_type = maker_number_of("bf16") };
        maker_put(m, TRACE_COLLECTIVE, &r);
    }
}

static inline void maker_meta(struct trace_maker *m) {
    union trace_record r;
    memset(&r, 0, sizeof r);
    r.meta.key = maker_byte(m) % COUNTOF(maker_keys);
    uint8_t b = maker_byte(m);
    /* A value is an index into maker_values, or a text. */
    if (b < 0xe0) {
        r.meta.value = b % COUNTOF(maker_values);
    } else {
        uint32_t text = maker_text(m);
        r.meta.value = text < UINT32_MAX - 1000 ? 1000 + text : UINT32_MAX;
    }
    maker_put(m, TRACE_META, &r);
}

/* Returns false at the end of the input or of the file. */
static inline bool trace_maker_record(struct trace_maker *m) {
    if (m->p >= m->end || m->file_ends) return false;
    if (!m->now) m->now = 1000000000;
    switch (maker_byte(m) % 16) {
    case 0:
    case 1: maker_any(m); break;
    case 2:
    case 3: {
        uint32_t name = maker_text(m), grid = maker_u32(m);
        maker_kernel(m, name, grid, maker_byte(m));
        break;
    }
    case 4: maker_step(m); break;
    case 5:
    case 6: maker_open(m); break;
    case 7:
    case 8: maker_close(m); break;
    case 9: maker_repeat(m); break;
    case 10: maker_samples(m); break;
    case 11: maker_collectives(m); break;
    case 12: maker_copy(m, maker_byte(m) % TRACE_COPY_KIND_END, maker_u64(m)); break;
    case 13:
    case 14: maker_meta(m); break;
    default: m->file_ends = maker_byte(m) & 1; break;
    }
    return true;
}

/* ---- the file */

static inline uint32_t maker_text_of(const struct trace_maker *m, struct trace_writer *w, uint32_t text) {
    if (text < MAKER_NAMES) return trace_writer_str(w, maker_names[text]);
    size_t i = text - MAKER_NAMES;
    return i < m->ntexts ? trace_writer_string(w, m->texts[i].p, m->texts[i].len) : text;
}

static inline void maker_write_record(const struct trace_maker *m, struct trace_writer *w, size_t at) {
    enum trace_kind kind = m->v[at].kind;
    union trace_record r = m->v[at].r;
    const struct trace_schema *s = trace_schema(kind);
    if (kind == TRACE_META) {
        r.meta.key = trace_writer_str(w, maker_keys[r.meta.key]);
        r.meta.value = r.meta.value < 1000 ? trace_writer_str(w, maker_values[r.meta.value])
                                           : maker_text_of(m, w, r.meta.value - 1000);
    } else {
        for (size_t i = 0; i < s->nfields; i++) {
            if (s->fields[i].type != TRACE_FIELD_STR) continue;
            uint32_t *text = (uint32_t *)(void *)((char *)&r + s->fields[i].offset);
            *text = maker_text_of(m, w, *text);
        }
    }
    trace_writer_put(w, kind, &r, 1);
}

/* Writes the records so far. Ranges that are still open are left out, as after a crash. */
static inline void trace_maker_write(struct trace_maker *m, const char *path) {
    struct err err;
    struct trace_writer *w =
        trace_writer_open(path, &(struct trace_writer_options){ .file_id = 1, .store = true }, &err);
    if (!w) abort();
    for (size_t i = 0; i < m->n; i++) maker_write_record(m, w, i);
    if (trace_writer_close(w, &err) < 0) abort();
    m->n = m->ntexts = m->nopen = 0;
    m->file_ends = false;
}

#endif
