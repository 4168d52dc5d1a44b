/* Helpers of the kernels: number types, loads of eight numbers, reductions, times of kernels, dependent
 * launches. */
#ifndef ENGINE_CUDA_COMMON_CUH
#define ENGINE_CUDA_COMMON_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#include "kernel_args.h"

typedef unsigned short bf16; /* the bits of a bfloat16 */
typedef unsigned long long u64;
/* An e4m3 number of 8 bits. The scales of a matrix are separate (struct scale_table). */
struct f8 {
    unsigned char bits;
};
/* The type of the embedding and of routers in a model whose other matrices are T. */
template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<f8> { typedef bf16 type; };

#define KERNEL extern "C" __global__ void

/* ---- numbers */
__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bf16 v) { return __uint_as_float((unsigned)v << 16); }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }

/* Two e4m3 numbers, the first one in the low byte. */
__device__ __forceinline__ float2 f8_pair(unsigned short u) {
    unsigned h;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(u));
#else /* moves sign, exponent and fraction to their places in a half, whose exponent is larger by 8 */
    unsigned x = (unsigned)(u & 0xff) << 8 | (unsigned)(u & 0xff00) << 16;
    unsigned bits = (x & 0x80008000u) | (x & 0x7f007f00u) >> 1;
    __half2 v;
    memcpy(&v, &bits, 4);
    v = __hmul2(v, __float2half2_rn(256.0f));
    memcpy(&h, &v, 4);
    if ((x & 0x7f00u) == 0x7f00u) h |= 0x7e00u; /* NaN */
    if ((x & 0x7f000000u) == 0x7f000000u) h |= 0x7e000000u;
#endif
    __half2 pair;
    memcpy(&pair, &h, 4);
    return __half22float2(pair);
}

/* Rounds to nearest, ties to even. NaN stays NaN. */
__device__ __forceinline__ bf16 to_bf16(float f) {
    unsigned u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (bf16)0x7fc0;
    return (bf16)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
template <class T> __device__ __forceinline__ T from_float(float f);
template <> __device__ __forceinline__ float from_float<float>(float f) { return f; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float f) { return to_bf16(f); }
template <> __device__ __forceinline__ __half from_float<__half>(float f) {
    return __float2half_rn(fminf(fmaxf(f, -65504.0f), 65504.0f));
}

/* Eight numbers in registers: 16 bytes if T is a 16-bit type, 32 bytes if T is float, 8 bytes if T is f8. */
template <class T> struct eight { uint4 v; };
template <> struct eight<float> { float4 a, b; };
template <> struct eight<f8> { uint2 v; };

/* Loads 16 bytes without storing them in the L1 cache: a kernel reads each weight only once. */
__device__ __forceinline__ uint4 load_stream(const void *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
template <class T> __device__ __forceinline__ eight<T> load8(const T *p) {
    eight<T> w;
    w.v = load_stream(p);
    return w;
}
template <> __device__ __forceinline__ eight<float> load8<float>(const float *p) {
    uint4 a = load_stream(p), b = load_stream(p + 4);
    eight<float> w;
    w.a = make_float4(__uint_as_float(a.x), __uint_as_float(a.y), __uint_as_float(a.z), __uint_as_float(a.w));
    w.b = make_float4(__uint_as_float(b.x), __uint_as_float(b.y), __uint_as_float(b.z), __uint_as_float(b.w));
    return w;
}
template <> __device__ __forceinline__ eight<f8> load8<f8>(const f8 *p) {
    eight<f8> w;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(w.v.x), "=r"(w.v.y) : "l"(p));
    return w;
}
template <class T> __device__ __forceinline__ eight<T> zero8() {
    eight<T> w;
    w.v = make_uint4(0, 0, 0, 0);
    return w;
}
template <> __device__ __forceinline__ eight<float> zero8<float>() {
    eight<float> w;
    w.a = w.b = make_float4(0, 0, 0, 0);
    return w;
}
template <> __device__ __forceinline__ eight<f8> zero8<f8>() {
    eight<f8> w;
    w.v = make_uint2(0, 0);
    return w;
}
__device__ __forceinline__ void unpack2(bf16, unsigned u, float &a, float &b) {
    a = __uint_as_float(u << 16);
    b = __uint_as_float(u & 0xffff0000u);
}
__device__ __forceinline__ void unpack2(__half, unsigned u, float &a, float &b) {
    __half2 h;
    memcpy(&h, &u, 4);
    float2 f = __half22float2(h);
    a = f.x;
    b = f.y;
}
template <class T> __device__ __forceinline__ void unpack8(const eight<T> &w, float *f) {
    unpack2(T(), w.v.x, f[0], f[1]);
    unpack2(T(), w.v.y, f[2], f[3]);
    unpack2(T(), w.v.z, f[4], f[5]);
    unpack2(T(), w.v.w, f[6], f[7]);
}
template <> __device__ __forceinline__ void unpack8<float>(const eight<float> &w, float *f) {
    f[0] = w.a.x;
    f[1] = w.a.y;
    f[2] = w.a.z;
    f[3] = w.a.w;
    f[4] = w.b.x;
    f[5] = w.b.y;
    f[6] = w.b.z;
    f[7] = w.b.w;
}
template <> __device__ __forceinline__ void unpack8<f8>(const eight<f8> &w, float *f) {
    const unsigned short pairs[4] = { (unsigned short)w.v.x, (unsigned short)(w.v.x >> 16),
                                      (unsigned short)w.v.y, (unsigned short)(w.v.y >> 16) };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 v = f8_pair(pairs[i]);
        f[2 * i] = v.x;
        f[2 * i + 1] = v.y;
    }
}
/* sum + w . [lo | hi] */
template <class T>
__device__ __forceinline__ float dot8(const eight<T> &w, const float4 &lo, const float4 &hi, float sum) {
    float f[8];
    unpack8<T>(w, f);
    sum = fmaf(f[0], lo.x, sum);
    sum = fmaf(f[1], lo.y, sum);
    sum = fmaf(f[2], lo.z, sum);
    sum = fmaf(f[3], lo.w, sum);
    sum = fmaf(f[4], hi.x, sum);
    sum = fmaf(f[5], hi.y, sum);
    sum = fmaf(f[6], hi.z, sum);
    sum = fmaf(f[7], hi.w, sum);
    return sum;
}

/* The scales of row r. The scale of the row's group j of eight numbers is at j >> s.shift. */
__device__ __forceinline__ const float *scale_row(const scale_table &s, int r) {
    return s.v + (size_t)(r / s.rows) * s.across;
}

/* ---- sums and maxima; every lane or thread gets the same result */
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    return v;
}
/* For blocks of up to 1024 threads. `room` is shared memory with space for one float per warp. */
__device__ __forceinline__ float block_sum(float v, float *room) {
    int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    v = warp_sum(v);
    __syncthreads(); /* other threads may still read `room` */
    if (threadIdx.x % 32 == 0) room[warp] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < warps; i++) v += room[i];
    return v;
}

/* One instruction each: numbers below 2^-126 count as 0. exp2f() and a division also scale such numbers. */
__device__ __forceinline__ float exp2_short(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
__device__ __forceinline__ float reciprocal(float v) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ __forceinline__ float silu(float v) { return v * reciprocal(1.0f + exp2_short(-1.4426950f * v)); }

/* ---- times of kernels */
extern "C" {
__constant__ kernel_stamps stamps; /* set by stamps.c */
}

__device__ __forceinline__ u64 now_ns() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}
/* ---- programmatic dependent launch. Every kernel waits before it reads results of other kernels, and then
 * lets the next one start. Only kernels compiled for Hopper use it; memory.c checks whether these were loaded
 * (cuda.hopper). */
__device__ __forceinline__ void wait_for_previous() {
    u64 *to = nullptr;
    /* Only the first thread reads the constant, and before the wait, because reading it takes long. */
    if (!(threadIdx.x | blockIdx.x | blockIdx.y | blockIdx.z)) to = stamps.ns;
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (!to) return;
    u64 t = now_ns();
    /* Kernels run one after the other, so no atomics. Both loads come before the first use, because the warp
     * waits for them. */
    unsigned i = *(volatile unsigned *)stamps.n;
    u64 end = *(volatile u64 *)stamps.last_end;
    if (i < stamps.most) {
        to[i] = t;
        stamps.ends[i] = end;
    }
    *(volatile unsigned *)stamps.n = i + 1;
}
/* Stores the end of the block. Called at the end of the kernels that has_end() in memory.c lists, by one
 * thread or a few, for which `me` is true. */
__device__ __forceinline__ void end_kernel(bool me) {
    if (me && stamps.ns) atomicMax(stamps.last_end, now_ns());
}
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void begin_kernel() {
    wait_for_previous();
    let_next_start();
}

#endif
