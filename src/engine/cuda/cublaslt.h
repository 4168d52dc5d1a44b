/* Products by NVIDIA's library cuBLASLt, which is loaded at run time. The declarations are our own, so that
 * the build needs no CUDA headers. */
#ifndef ENGINE_CUDA_CUBLASLT_H
#define ENGINE_CUDA_CUBLASLT_H

#include "engine/cuda/internal.h"

struct cublaslt *cublaslt_open(void); /* NULL: there is no usable library */
void cublaslt_close(struct cublaslt *lt, struct cuda *c);
/* y[m, out->n] = x[m, k] w^T + bias, or y += it, for 16-bit x and w[out->n, k]. Returns false without doing
 * anything if the library has no kernel for it, or if `out` has an activation or windows. */
bool cublaslt_run(struct cuda *c, enum dtype type, const void *x, const void *w, const struct gemm_out *out,
                  int m, int k);

#endif
