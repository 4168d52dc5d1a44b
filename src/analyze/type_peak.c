/* Peak FLOP rate by data type, and the data type that the name of a kernel shows. */
#include <string.h>

#include "analyze/internal.h"
#include "base/util.h"
#include "llm/gpus.h"

double type_peak(const struct context *c, enum llm_dtype type) {
    if (type == LLM_DTYPE_UNKNOWN || !c->in->gpu) return c->a->peak_flops_per_s;
    return llm_gpu_flop_per_s(c->in->gpu, type);
}

enum llm_dtype type_in_kernel(enum llm_dtype type, const char *kernel_name) {
    /* cuDNN and CUTLASS include the type in the name; s1688 is the shape of CUTLASS's products in TF32. */
    static const char *const tf32[] = { "tf32", "TF32", "tensorop_s1688" };
    for (size_t i = 0; type == LLM_F32 && i < COUNTOF(tf32); i++)
        if (strstr(kernel_name, tf32[i])) return LLM_TF32;
    return type;
}
