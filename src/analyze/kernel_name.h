/* Parses a kernel's name: demangled name, short name for tables, library, and category. Library and category
 * come from patterns (kernel_rules.c, inductor_name.c).
 *     struct kernel_name kn;
 *     kernel_name_parse(&kn, "_ZN2at6native...");
 *     use(kn.short_name, kernel_library_name(kn.library));
 *     kernel_name_free(&kn); */
#ifndef ANALYZE_KERNEL_NAME_H
#define ANALYZE_KERNEL_NAME_H

#include <stdbool.h>

/* X(id, name in tables and files) */
#define KERNEL_LIBRARIES(X)              \
    X(USER, "user")                      \
    X(CUBLAS, "cuBLAS")                  \
    X(CUDNN, "cuDNN")                    \
    X(CUTLASS, "CUTLASS")                \
    X(FLASH_ATTENTION, "FlashAttention") \
    X(FLASHINFER, "FlashInfer")          \
    X(ATEN, "ATen")                      \
    X(TRITON, "Triton")                  \
    X(NCCL, "NCCL")                      \
    X(TENSORRT, "TensorRT")              \
    X(GGML, "ggml")                      \
    X(VLLM, "vLLM")                      \
    X(SGLANG, "SGLang")                  \
    X(DEEPEP, "DeepEP")                  \
    X(DEEPGEMM, "DeepGEMM")              \
    X(FBGEMM, "FBGEMM")                  \
    X(CUB, "CUB/Thrust")                 \
    X(ROCM, "ROCm")                      \
    X(NATIVE, "inferprof")               \
    X(DRIVER, "driver")
enum kernel_library {
#define X(id, name) KERNEL_LIBRARY_##id,
    KERNEL_LIBRARIES(X)
#undef X
        KERNEL_LIBRARY_END
};

#define KERNEL_CATEGORIES(X)          \
    X(OTHER, "other")                 \
    X(GEMM, "GEMM")                   \
    X(GEMV, "GEMV")                   \
    X(CONV, "convolution")            \
    X(ATTENTION, "attention")         \
    X(NORM, "norm")                   \
    X(ELEMENTWISE, "element-wise")    \
    X(REDUCTION, "reduction")         \
    X(SOFTMAX, "softmax")             \
    X(COPY, "copy/cast")              \
    X(EMBEDDING, "embedding")         \
    X(ROPE, "rotary embedding")       \
    X(KV_CACHE, "KV cache")           \
    X(MOE, "MoE routing")             \
    X(SORT, "sort/top-k")             \
    X(SAMPLING, "sampling")           \
    X(COMMUNICATION, "communication") \
    X(QUANT, "quantisation")          \
    X(GRAPH, "graph")                 \
    X(WAIT, "busy wait")
enum kernel_category {
#define X(id, name) KERNEL_CATEGORY_##id,
    KERNEL_CATEGORIES(X)
#undef X
        KERNEL_CATEGORY_END
};

struct kernel_name {
    char *demangled;  /* equals the input if it cannot be demangled */
    char *short_name; /* "gemv bf16", "elementwise add", "flash_fwd_splitkv": at most 60 bytes */
    enum kernel_library library;
    enum kernel_category category;
};
void kernel_name_parse(struct kernel_name *kn, const char *name);
void kernel_name_free(struct kernel_name *kn);
/* Returns true for kernels of a mixture of experts: routing, and the matrix products of the experts. */
bool kernel_name_of_experts(const struct kernel_name *kn);
/* Returns a form of the name that is the same for all tools: without return type, parameters, namespaces,
 * blanks, casts and suffixes of numbers; true and false become 1 and 0. For comparison, not for display.
 * The caller frees it. */
char *kernel_name_normalize(const char *name);
const char *kernel_library_name(enum kernel_library library);
const char *kernel_category_name(enum kernel_category category);

#endif
