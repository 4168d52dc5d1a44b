/* What devices can do: dense peaks from their makers' documents. Nothing here is measured, and no figure
 * counts 2:4 sparsity. */
#ifndef LLM_GPUS_H
#define LLM_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/dtype.h"

/* Peaks in TFLOP/s (TOP/s for int8), dense, tensor cores where the type has them, accumulating in fp32
 * (int32); 0 in the table means not known or not there, and is read as NAN. */
struct llm_gpu {
    const char *name;
    const char *aliases; /* other names, between bars, lower case */
    double fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4;
    double gbytes_per_s, memory_gb; /* 10^9 */
    double l2_mb, boost_mhz, tdp_w;
    int sms;
    const char *capability; /* "9.0" */
    const char *source;
};

size_t llm_gpus(void);
const struct llm_gpu *llm_gpu_at(size_t i);
/* By name as people and drivers write it: "h100", "NVIDIA H100 80GB HBM3", "a100-80gb", "4090". The name
 * alone picks the usual variant. NULL: err names the nearest. */
const struct llm_gpu *llm_gpu_find(const char *name, struct err *err);
double llm_gpu_flop_per_s(const struct llm_gpu *g, enum llm_dtype t); /* NAN: not known */
double llm_gpu_bytes_per_s(const struct llm_gpu *g);
double llm_gpu_known(double field); /* 0 -> NAN */

#endif
