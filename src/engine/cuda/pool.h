/* Memory of the graphs of decoding steps: a graph keeps its addresses, so all is freed together. */
#ifndef ENGINE_CUDA_POOL_H
#define ENGINE_CUDA_POOL_H

#include "engine/cuda/internal.h"

struct cuda_pool {
    cu_ptr *v;
    size_t n, cap;
};

/* Device memory with zeros. NULL: failed, as in cuda_memory(). */
void *cuda_pool_add(struct cuda_pool *p, struct cuda *c, size_t bytes);
void cuda_pool_free(struct cuda_pool *p, struct cuda *c);

/* Host memory that kernels write at *there; freed with host_free(). NULL: failed. */
void *cuda_shared_memory(struct cuda *c, size_t bytes, void **there);

#endif
