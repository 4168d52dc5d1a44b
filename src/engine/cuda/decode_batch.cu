/* The choice of the next tokens of up to 32 sequences. The products are in skinny.cu, attention is in
 * decode_attention_parts.cu. */
#include "common.cuh"
#include "kernel_args.h"

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
