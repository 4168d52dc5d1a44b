/* A synthetic but realistic decode trace for tests and benchmarks. Header-only, because three programs share
 * it. */
#ifndef TESTS_PROGRAMS_DECODE_TRACE_H
#define TESTS_PROGRAMS_DECODE_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "base/hash.h"
#include "trace/writer.h"

#define DECODE_KERNELS 535 /* per token, as in an eager 12-layer model */
#define DECODE_NAMES 60
#define DECODE_START_NS 1700000000000000000u

static inline void decode_name(uint32_t i, char *out, size_t cap) {
    snprintf(out, cap,
             "_ZN2at6native29vectorized_elementwise_kernelILi%uENS0_15CUDAFunctor_"
             "addIN3c108BFloat16EEESt5arrayIPcLm3EEEEviT0_T1_",
             i);
}

/* Kernel k of token t. Durations and gaps vary slightly from token to token. */
static inline struct trace_kernel decode_kernel(uint32_t t, uint32_t k, uint64_t *now_ns,
                                                const uint32_t *names) {
    uint64_t shape = hash_u64(k + 1), jitter = hash_u64((uint64_t)t << 32 | k);
    uint64_t start = *now_ns + 2000 + jitter % 6000;
    uint64_t end = start + 1500 + shape % 9000 + jitter % 256;
    *now_ns = end;
    return (struct trace_kernel){
        .start_ns = start,
        .end_ns = end,
        .correlation = (uint64_t)t * DECODE_KERNELS * 3 + k * 3 + 1000,
        .context = 1,
        .stream = 7,
        .name = names[shape % DECODE_NAMES],
        .grid_x = 1 + (uint32_t)(shape % 300),
        .grid_y = 1 + (uint32_t)(shape >> 20) % 4,
        .grid_z = 1,
        .block_x = 32u << shape % 5,
        .block_y = 1,
        .block_z = 1,
        .registers = 16 + (uint32_t)(shape >> 8) % 100,
        .dynamic_smem_bytes = (uint32_t)(shape >> 12) % 3 * 4096,
    };
}

static inline void decode_names(struct trace_writer *w, uint32_t *names) {
    char text[256];
    for (uint32_t i = 0; i < DECODE_NAMES; i++) {
        decode_name(i, text, sizeof text);
        names[i] = trace_writer_str(w, text);
    }
}

static inline void decode_step(struct trace_writer *w, uint32_t t, uint64_t *now_ns, const uint32_t *names,
                               uint32_t stage) {
    struct trace_kernel kernels[DECODE_KERNELS];
    struct trace_launch launches[DECODE_KERNELS];
    uint64_t begin = *now_ns;
    for (uint32_t k = 0; k < DECODE_KERNELS; k++) {
        kernels[k] = decode_kernel(t, k, now_ns, names);
        uint64_t at = kernels[k].start_ns - 5000;
        launches[k] = (struct trace_launch){ at, at + 3000, kernels[k].correlation, 4242, stage + 1 };
    }
    struct trace_range r = {
        .start_ns = begin, .end_ns = *now_ns, .thread = 4242, .category = TRACE_CATEGORY_STAGE, .name = stage
    };
    struct trace_token tok = {
        .time_ns = *now_ns, .request = 1, .count = 1, .token_kind = TRACE_TOKEN_MADE, .thread = 4242
    };
    r.flops = r.bytes = r.payload = __builtin_nan("");
    trace_writer_kernel(w, kernels, DECODE_KERNELS);
    trace_writer_launch(w, launches, DECODE_KERNELS);
    trace_writer_range(w, &r, 1);
    trace_writer_token(w, &tok, 1);
}

static inline void decode_trace_write(struct trace_writer *w, uint32_t tokens) {
    uint32_t names[DECODE_NAMES];
    uint64_t now_ns = DECODE_START_NS;
    trace_writer_meta(w, "clock", "unix");
    trace_writer_meta(w, "source", "made up");
    trace_writer_meta(w, "process.pid", "4242");
    trace_writer_meta(w, "process.command", "python3 generate.py");
    trace_writer_meta(w, "device.0.name", "NVIDIA H200");
    uint32_t stage = trace_writer_str(w, "decode");
    trace_writer_str(w, "cudaLaunchKernel");
    decode_names(w, names);
    for (uint32_t t = 0; t < tokens; t++) decode_step(w, t, &now_ns, names, stage);
}

#endif
