/* Copies of tiles by Hopper's TMA unit, and the barriers in shared memory that signal their end. */
#ifndef ENGINE_CUDA_TMA_CUH
#define ENGINE_CUDA_TMA_CUH

#include "wgmma.cuh"

#if HAS_WGMMA
__device__ __forceinline__ void barrier_init(unsigned bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void barrier_expect(unsigned bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned bar, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra finished;\n"
                 "bra again;\n"
                 "finished:\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}
/* Copies the rows of the map's box from `row` on, 64 columns from `column` on. */
__device__ __forceinline__ void copy_tile(unsigned to, const tensor_map *map, unsigned bar, int column,
                                          int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(column), "r"(row)
                 : "memory");
}
#endif

#endif
