/* Decoding steps of up to 32 sequences at once on Hopper: norms of the sums of products (skinny.cu), and the
 * choice of the next tokens. Attention is that of decode_attention.cu. */
#include "fragments.cuh"
#include "kernel_args.h"

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

/* One block per sequence. */
KERNEL __launch_bounds__(512) batch_norm(const __grid_constant__ batch_norm_args a) {
    constexpr int THREADS = 512, ROUNDS = 4;
    __shared__ float room[THREADS / 32];
    size_t row = (size_t)blockIdx.x * a.n;
    float4 v[ROUNDS], g[ROUNDS];
    float sum = 0;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        g[r] = at < a.n ? __ldg((const float4 *)(a.w + at)) : make_float4(0, 0, 0, 0);
    }
    wait_for_previous();
    let_next_start();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        float4 p[PARTS_MOST];
        v[r] = make_float4(0, 0, 0, 0);
        if (at >= a.n) continue;
        v[r] = __ldcg((const float4 *)(a.x + row + at));
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++)
            p[i] = i < a.nparts ? __ldcg((const float4 *)(a.parts + i * a.part_stride + row + at))
                                : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < PARTS_MOST; i++) {
            v[r].x += p[i].x;
            v[r].y += p[i].y;
            v[r].z += p[i].z;
            v[r].w += p[i].w;
        }
        sum += v[r].x * v[r].x + v[r].y * v[r].y + v[r].z * v[r].z + v[r].w * v[r].w;
    }
    float scale = rsqrtf(block_sum(sum, room) / a.n + a.eps);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int at = (r * THREADS + threadIdx.x) * 4;
        if (at >= a.n) continue;
        if (a.nparts) *(float4 *)(a.x + row + at) = v[r];
        *(uint2 *)((bf16 *)a.y + row + at) = make_uint2(pack2(v[r].x * scale * g[r].x, v[r].y * scale * g[r].y),
                                                        pack2(v[r].z * scale * g[r].z, v[r].w * scale * g[r].w));
    }
}

/* One block per sequence: finds the best token and prepares the next step. */
KERNEL __launch_bounds__(1024) batch_pick(const __grid_constant__ batch_pick_args a) {
    __shared__ u64 room[32];
    begin_kernel();
    const float *logits = a.logits + (size_t)blockIdx.x * a.vocab;
    u64 best = 0;
    for (int i = threadIdx.x; i < a.vocab; i += 1024) {
        float v = __ldcg(logits + i);
        if (v != v) v = -INFINITY;
        unsigned f = __float_as_uint(v);
        f = f & 0x80000000u ? ~f : f | 0x80000000u;
        u64 key = (u64)f << 32 | (0xffffffffu - i);
        best = key > best ? key : best;
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        u64 other = __shfl_xor_sync(~0u, best, d);
        best = other > best ? other : best;
    }
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 32; i++) best = room[i] > best ? room[i] : best;
    decode_state *s = a.state + blockIdx.x;
    int token = (int)(0xffffffffu - (unsigned)best);
    a.tokens[blockIdx.x] = token;
    if (s->step < a.steps) a.out[(size_t)s->step * BATCH_MOST + blockIdx.x] = token;
    s->step++;
    s->position =
        min(s->position + 1, a.max_context - 1); /* a sequence that has ended goes on until the batch ends */
    __threadfence_system();
}
#endif
