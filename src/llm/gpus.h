/* Peak performance of GPUs, from the manufacturers' documents. Nothing is measured, and all peaks are dense
 * (without 2:4 sparsity). */
#ifndef LLM_GPUS_H
#define LLM_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/dtype.h"

/* Peaks are in TFLOP/s (TOP/s for int8), dense, with tensor cores if they support the type, accumulating in
 * fp32 (int32). 0 means unknown or not supported; the functions below return NAN for it. */
struct llm_gpu {
    const char *name;
    double fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4;
    double gbytes_per_s, memory_gb; /* in 10^9 bytes */
    double l2_mb;                   /* MiB */
    double boost_mhz;               /* clock for which the fp32 peak is specified */
    double tensor_mhz;              /* clock for which the 16-bit peak is specified */
    double tdp_w;
    int sms;                /* AMD: compute units */
    const char *capability; /* "9.0", "gfx942" */
    const char *source;
};

size_t llm_gpus(void);
const struct llm_gpu *llm_gpu_at(size_t i);
/* Finds a GPU by any common spelling: "h100", "NVIDIA H100 80GB HBM3", "a100-80gb", "4090". A name without a
 * variant finds the most common variant. Returns NULL if the name is unknown, empty, or names a part of a
 * card (MIG, vGPU). err then contains the reason, and the nearest name if there is one. */
const struct llm_gpu *llm_gpu_find(const char *name, struct err *err);
struct llm_gpu_peak {
    double flop_per_s;   /* NAN: unknown */
    enum llm_dtype type; /* the type whose peak is used */
    const char *reason;
};
/* Returns the peak for weights of type `t`. Types of at least 16 bits have their own peak. A narrower type
 * has its own peak only if the GPU has units for it and activations have the same type (activations_too).
 * Otherwise weights are converted to 16-bit numbers before the product, and the 16-bit peak applies. */
struct llm_gpu_peak llm_gpu_peak(const struct llm_gpu *g, enum llm_dtype t, bool activations_too);
/* llm_gpu_peak(g, t, true).flop_per_s */
double llm_gpu_flop_per_s(const struct llm_gpu *g, enum llm_dtype t);
double llm_gpu_bytes_per_s(const struct llm_gpu *g);
double llm_gpu_known(double field); /* NAN for 0 */

#endif
