#include "analyze/element_type.h"

#include <string.h>

#include "base/util.h"

enum llm_dtype element_type(const char *name, size_t len) {
    static const struct {
        const char *name;
        enum llm_dtype type;
    } rows[] = { { "bf16", LLM_BF16 }, { "fp16", LLM_F16 }, { "f16", LLM_F16 },  { "tf32", LLM_TF32 },
                 { "fp32", LLM_F32 },  { "f32", LLM_F32 },  { "fp64", LLM_F64 }, { "f64", LLM_F64 },
                 { "fp8", LLM_FP8 },   { "e4m3", LLM_FP8 }, { "e5m2", LLM_FP8 }, { "i8", LLM_INT8 },
                 { "s8", LLM_INT8 },   { "u8", LLM_INT8 },  { "fp4", LLM_FP4 },  { "e2m1", LLM_FP4 } };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (memmem(name, len, rows[i].name, strlen(rows[i].name))) return rows[i].type;
    return LLM_DTYPE_UNKNOWN;
}

double element_type_bytes(const char *name, size_t len) {
    enum llm_dtype type = element_type(name, len);
    return type == LLM_DTYPE_UNKNOWN ? 0 : llm_dtype_bytes(type);
}
