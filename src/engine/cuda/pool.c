#include "engine/cuda/pool.h"

#include <stdlib.h>

#include "base/vec.h"

void *cuda_pool_add(struct cuda_pool *p, struct cuda *c, size_t bytes) {
    cu_ptr there = cuda_memory(c, bytes);
    vec_push(p, there);
    if (there) cuda_ok(c, c->d->set_words(there, 0, (bytes + 3) / 4, c->stream), "clearing memory");
    return (void *)(uintptr_t)there;
}

void cuda_pool_free(struct cuda_pool *p, struct cuda *c) {
    for (size_t i = 0; i < p->n; i++) cuda_memory_free(c, p->v[i]);
    free(p->v);
}

void *cuda_shared_memory(struct cuda *c, size_t bytes, void **there) {
    void *host = NULL;
    cu_ptr address = 0;
    if (cuda_ok(c, c->d->host_alloc(&host, bytes, CU_HOST_PORTABLE_MAPPED), "allocating host memory"))
        cuda_ok(c, c->d->host_pointer(&address, host, 0), "mapping host memory");
    *there = (void *)(uintptr_t)address;
    return host;
}
