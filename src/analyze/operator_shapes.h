/* FLOPs and bytes of one call of a PyTorch operator, from the shapes that the profiler recorded:
 *     operator_shapes_work("aten::mm", "[8944,1024]bf16 [1024,2816]bf16", &work)
 * The format of `detail` is described in operator_call.h. Formulas: docs/metrics.md. */
#ifndef ANALYZE_OPERATOR_SHAPES_H
#define ANALYZE_OPERATOR_SHAPES_H

#include <stdbool.h>

#include "llm/dtype.h"

struct operator_work {
    double flops, bytes;
    enum llm_dtype type; /* type of the operands; LLM_DTYPE_UNKNOWN: not recorded */
};

/* Returns false if the operator is not supported or its shapes are not valid for it. Bytes are NaN if the
 * type of an operand or of the result is unknown. */
bool operator_shapes_work(const char *name, const char *detail, struct operator_work *out);

/* A matrix product [m, k] x [k, n], `batch` times. */
struct operator_gemm {
    double m, n, k, batch;
    char types[32]; /* types of both operands: "bf16,bf16"; empty: not recorded */
};
/* Sets *out to the sizes of a product. Also accepts the native engine's "x[512,1280]f32 w[1280,1280]bf16" for
 * any name. Returns false for other operators and invalid sizes. */
bool operator_shapes_gemm(const char *name, const char *detail, struct operator_gemm *out);

#endif
