/* Tiles of matrices in shared memory and registers, for kernels that use tensor cores. */
#ifndef ENGINE_CUDA_FRAGMENTS_CUH
#define ENGINE_CUDA_FRAGMENTS_CUH

#include "common.cuh"

__device__ __forceinline__ unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
/* Starts a copy of 16 bytes to shared memory; writes zeros if `inside` is false. */
__device__ __forceinline__ void copy16(unsigned to, const void *from, bool inside) {
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void load_matrix(unsigned a, unsigned (&r)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
__device__ __forceinline__ void load_transposed(unsigned a, unsigned (&r)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
/* d[16, 8] += a[16, 16] b[8, 16]^T */
__device__ __forceinline__ void mma(bf16, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(__half, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Packs two floats as bf16, `lo` in the lower half. */
__device__ __forceinline__ unsigned pack2(float lo, float hi) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

/* Before the call, lane q of each group of four lanes holds columns 2q and 2q + 1 of four tiles of eight
 * columns, packed. After the call, it holds the eight columns of tile q. */
__device__ __forceinline__ void exchange4(unsigned (&u)[4]) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        unsigned got = __shfl_xor_sync(~0u, q & 1 ? u[i] : u[i + 1], 1);
        if (q & 1)
            u[i] = got;
        else
            u[i + 1] = got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned got = __shfl_xor_sync(~0u, q & 2 ? u[i] : u[i + 2], 2);
        if (q & 2)
            u[i] = got;
        else
            u[i + 2] = got;
    }
}

#endif
