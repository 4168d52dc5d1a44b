/* Number types of weights, caches and arithmetic, with the many names they go by. */
#ifndef LLM_DTYPE_H
#define LLM_DTYPE_H

#include <stddef.h>

enum llm_dtype {
    LLM_DTYPE_UNKNOWN,
    LLM_F64,
    LLM_F32,
    LLM_TF32, /* stored as F32, multiplied by tensor cores */
    LLM_F16,
    LLM_BF16,
    LLM_FP8,
    LLM_INT8,
    LLM_FP4,   /* 4 bits and nothing else */
    LLM_MXFP4, /* 4 bits and one 8-bit scale for 32 of them */
    LLM_INT4,  /* 4 bits, and a 16-bit scale and 4-bit zero for 128 of them (GPTQ, AWQ) */
    LLM_I64,
    LLM_I32,
    LLM_I16,
    LLM_U8,
    LLM_BOOL,
    LLM_DTYPES,
};

/* "bfloat16", "torch.bfloat16", "bf16" and "BF16" are one; safetensors' names are known too.
 * LLM_DTYPE_UNKNOWN: not known. */
enum llm_dtype llm_dtype_parse(const char *text);
const char *llm_dtype_name(enum llm_dtype t); /* "bf16" */
double llm_dtype_bytes(enum llm_dtype t); /* per number, scales included: 0.53125 for mxfp4; NAN if unknown */

#endif
