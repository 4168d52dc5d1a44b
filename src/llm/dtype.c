#include "llm/dtype.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

static const struct dtype_row {
    const char *name;
    double bits;
    const char *aliases; /* lower case, as "|a|b|" */
} dtypes[LLM_DTYPES] = {
    [LLM_DTYPE_UNKNOWN] = { "unknown", NAN, "" },
    [LLM_F64] = { "fp64", 64, "|f64|float64|double|" },
    [LLM_F32] = { "fp32", 32, "|f32|float32|float|" },
    [LLM_TF32] = { "tf32", 32, "|" },
    [LLM_F16] = { "fp16", 16, "|f16|float16|half|" },
    [LLM_BF16] = { "bf16", 16, "|bfloat16|" },
    [LLM_FP8] = { "fp8", 8,
                  "|float8|f8|f8_e4m3|f8_e5m2|float8_e4m3fn|float8_e5m2|fp8_e4m3|fp8_e5m2|f8_e8m0|" },
    [LLM_INT8] = { "int8", 8, "|i8|" },
    [LLM_FP4] = { "fp4", 4, "|f4|float4|" },
    [LLM_MXFP4] = { "mxfp4", 4.25, "|" },
    [LLM_NVFP4] = { "nvfp4", 4.5, "|" },
    [LLM_INT4] = { "int4", 4 + 20.0 / 128, "|i4|" },
    [LLM_I64] = { "int64", 64, "|i64|u64|uint64|long|" },
    [LLM_I32] = { "int32", 32, "|i32|u32|uint32|int|" },
    [LLM_I16] = { "int16", 16, "|i16|u16|uint16|short|" },
    [LLM_U8] = { "uint8", 8, "|u8|" },
    [LLM_BOOL] = { "bool", 8, "|" },
};

enum llm_dtype llm_dtype_parse(const char *text) {
    if (strncasecmp(text, "torch.", 6) == 0) text += 6;
    size_t n = strlen(text);
    if (n == 0 || strchr(text, '|')) return LLM_DTYPE_UNKNOWN;
    for (int t = LLM_DTYPE_UNKNOWN + 1; t < LLM_DTYPES; t++) {
        if (strcasecmp(text, dtypes[t].name) == 0) return (enum llm_dtype)t;
        for (const char *p = strchr(dtypes[t].aliases, '|'); p && p[1]; p = strchr(p + 1, '|'))
            if (strncasecmp(p + 1, text, n) == 0 && p[1 + n] == '|') return (enum llm_dtype)t;
    }
    return LLM_DTYPE_UNKNOWN;
}

static const struct dtype_row *row_of(enum llm_dtype t) {
    return &dtypes[(unsigned)t < LLM_DTYPES ? t : LLM_DTYPE_UNKNOWN];
}

const char *llm_dtype_name(enum llm_dtype t) { return row_of(t)->name; }

double llm_dtype_bytes(enum llm_dtype t) { return row_of(t)->bits / 8; }
