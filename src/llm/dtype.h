/* Number types of weights, caches and arithmetic, and their aliases. */
#ifndef LLM_DTYPE_H
#define LLM_DTYPE_H

#include <stddef.h>

enum llm_dtype {
    LLM_DTYPE_UNKNOWN,
    LLM_F64,
    LLM_F32,
    LLM_TF32, /* stored as F32, multiplied in reduced precision by tensor cores */
    LLM_F16,
    LLM_BF16,
    LLM_FP8,
    LLM_INT8,
    LLM_FP4,   /* 4 bits, no scales */
    LLM_MXFP4, /* 4 bits, one 8-bit scale per 32 */
    LLM_NVFP4, /* 4 bits, one 8-bit scale per 16 */
    LLM_INT4,  /* 4 bits, one 16-bit scale and 4-bit zero point per 128 weights (GPTQ, AWQ) */
    LLM_I64,
    LLM_I32,
    LLM_I16,
    LLM_U8,
    LLM_BOOL,
    LLM_DTYPES,
};

/* Parses "bfloat16", "torch.bfloat16", "bf16" and "BF16" alike, and the names used by safetensors. Returns
 * LLM_DTYPE_UNKNOWN for other names. */
enum llm_dtype llm_dtype_parse(const char *text);
const char *llm_dtype_name(enum llm_dtype t); /* "bf16" */
/* Returns the bytes per number, including scales: 0.53125 for mxfp4, for example. NAN: unknown. */
double llm_dtype_bytes(enum llm_dtype t);

#endif
