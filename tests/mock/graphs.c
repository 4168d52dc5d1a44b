/* A library that launches graphs through the runtime, as libggml-cuda.so and libtorch_cuda.so do. */
#include <stdint.h>
#include <string.h>

#include "mock/mock.h"

#define EXPORT __attribute__((visibility("default")))

int cudaGraphLaunch(void *exec, void *stream);
int cudaGraphExecDestroy(void *exec);

EXPORT long mock_launch_graphs(void *exec, uint32_t stream, long n);
long mock_launch_graphs(void *exec, uint32_t stream, long n) {
    long failed = 0;
    for (long i = 0; i < n; i++) failed += cudaGraphLaunch(exec, (void *)(uintptr_t)stream) != 0;
    return failed;
}

EXPORT void *mock_launch_target(void);
void *mock_launch_target(void) {
    int (*f)(void *, void *) = cudaGraphLaunch;
    void *address;
    memcpy(&address, &f, sizeof f);
    return address;
}

EXPORT void mock_destroy_graph(void *exec);
void mock_destroy_graph(void *exec) { cudaGraphExecDestroy(exec); }
