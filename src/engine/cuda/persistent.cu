/* Decoding steps of DeepSeek-OCR in one kernel that stays on the GPU, batch 1. One block per
 * multiprocessor: four warps copy weights into a ring in shared memory, ten warps multiply them on tensor
 * cores. Copies run ahead of the products, also across barriers. The phases of a layer end with barriers:
 *     qkv        each block computes rows of one head            barrier of the head's blocks
 *     attention  each block takes a part of the head's keys      barrier of the head's blocks
 *     out        output projection, and the router's logits      barrier of all blocks
 *     up         every block chooses the experts; silu(gate) up  barrier of all blocks
 *     down       x += down                                       barrier of all blocks
 * After the layers, each block computes a part of the logits, and the blocks find the best token. Every
 * block keeps the whole vector x. If the number of blocks is not a multiple of the number of heads, the
 * last blocks skip qkv, attention and out. Sums over blocks have a fixed order or are sums of integers
 * (fixed point), so the same input gives the same bits. */
#include "fragments.cuh"
#include "kernel_args.h"
#include "persistent_layout.h"

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

enum { CONSUMERS = P_CONSUMERS * 32, THREADS = (P_CONSUMERS + P_PRODUCERS) * 32, RING = P_RING };

/* struct persistent_fault, `place`: reason of the wait */
enum { WAIT_GRID = 1, WAIT_HEAD, WAIT_FULL, WAIT_EMPTY, WAIT_LANDED, WAIT_CHOICE };
/* measured phases; a barrier's phase ends when the block continues */
enum {
    T_NORM,
    T_QKV,
    T_QKV_BARRIER,
    T_ATTENTION,
    T_PARTS_BARRIER,
    T_OUT,
    T_ROUTER,
    T_OUT_BARRIER,
    T_CHOOSE,
    T_UP,
    T_UP_BARRIER,
    T_DOWN,
    T_DOWN_BARRIER,
    T_HEAD,
    T_HEAD_BARRIER
};

struct memory {
    char ring[RING][P_SLOT_BYTES];
    union {
        float parts[2][P_ROUND_UNITS][16]; /* sums of units; two buffers in turn */
        float sums[P_CONSUMERS][P_DIM];    /* attention */
    };
    float x[P_HIDDEN];
    /* the vector that is multiplied: at most 2 x 896 numbers */
    uint2 vector[2 * P_DOWN_STEPS * 8];
    uint2 head_vector[P_OUT_STEPS * 8], router_vector[8 * 8];
    float q[P_DIM], key[P_DIM], value[P_DIM], own[8 * 16], tops[P_CONSUMERS], totals[P_CONSUMERS],
        room[P_CONSUMERS];
    float weight[P_SLOTS];
    int expert[P_SLOTS];
    u64 full[RING], empty[RING];
    u64 chosen; /* its phase ends when the experts of a layer are chosen */
    u64 best[P_CONSUMERS];
    persistent_layer layer[P_MOST_LAYERS];
    int ended; /* only with atomics */
};

/* ---- barriers in shared memory */
__device__ __forceinline__ void barrier_init(u64 *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
__device__ __forceinline__ bool barrier_passed(u64 *b, int parity) {
    int done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(b)), "r"(parity)
        : "memory");
    return done;
}
__device__ __forceinline__ void barrier_arrive(u64 *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
/* The warp has ended its accesses to the memory that barrier b guards. One arrival is enough, because
 * __syncwarp() orders the accesses of all lanes before it. Racecheck does not follow that order; for it,
 * every lane arrives. */
__device__ __forceinline__ void warp_arrive(u64 *b, int arrivals) {
    __syncwarp();
    if (arrivals == 32 || threadIdx.x % 32 == 0) barrier_arrive(b);
}
/* Starts a copy to shared memory. The end of the copy completes a phase of the mbarrier `b`. */
__device__ __forceinline__ void copy_bulk(char *to, const char *from, int bytes, u64 *b) {
    unsigned bar = shared_address(b);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(bar)
        : "memory");
}
/* Makes the initialised barriers visible to copies. */
__device__ __forceinline__ void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void consumers_sync() { asm volatile("bar.sync 1, 320;" ::: "memory"); }

/* ---- barriers between blocks. Only consumers take part. */
__device__ __forceinline__ void arrive(unsigned *counter) {
    asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ __forceinline__ unsigned read_counter(const unsigned *counter) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
    return v;
}
__device__ __forceinline__ void add_fixed(long long *to, float v) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(to),
                 "l"((u64)__float2ll_rn(v * 4294967296.0f))
                 : "memory");
}

/* Timeout of a wait. After a.limit_ns, check() writes a.fault and ends the kernel. */
struct patience {
    u64 start;
    unsigned spins;
    __device__ __forceinline__ patience() : start(0), spins(0) {}
    __device__ __forceinline__ void check(const persistent_args &a, int place, int epoch) {
        if (++spins & 1023) return;
        u64 t = now_ns();
        if (!start) start = t;
        if (t - start < a.limit_ns) return;
        a.fault->block = blockIdx.x;
        a.fault->place = place;
        a.fault->epoch = epoch;
        __threadfence_system();
        a.fault->set = 1;
        __threadfence_system();
        __trap();
    }
};

__device__ __forceinline__ float from_fixed(long long v) {
    return __ll2float_rn(v) * 2.3283064365386963e-10f;
}

/* ---- producers */
struct producer {
    const persistent_args &a;
    memory &m;
    int index;               /* number of this warp */
    int unit;                /* next unit of the block */
    int last, flying, depth; /* last unit of this warp, copies in flight, most copies in flight */
    bool ended;
    __device__ __forceinline__ producer(const persistent_args &args, memory &mem, int i)
        : a(args), m(mem), index(i), unit(0), last(0), flying(0), depth(args.depth), ended(false) {}

    __device__ __forceinline__ bool has_ended() { return atomicOr(&m.ended, 0); }
    __device__ __forceinline__ void landed(int u) {
        patience p;
        while (!barrier_passed(&m.full[u % RING], u / RING & 1)) p.check(a, WAIT_LANDED, u);
    }
    __device__ __forceinline__ void copy(const char *from, int bytes) {
        int u = unit++, slot = u % RING;
        if (u % P_PRODUCERS != index || ended) return;
        while (flying >= depth) take_oldest();
        if (u >= RING) {
            patience p;
            while (!barrier_passed(&m.empty[slot], (u / RING - 1) & 1)) {
                if (has_ended()) {
                    ended = true;
                    return;
                }
                p.check(a, WAIT_EMPTY, u);
            }
        }
        copy_bulk(m.ring[slot], from, bytes, &m.full[slot]);
        last = u;
        flying++;
    }
    __device__ __forceinline__ void take_oldest() {
        flying--;
        landed(last - flying * P_PRODUCERS);
    }
    /* copies the units of a tile of width 1280 */
    __device__ __forceinline__ void tile(const char *from) {
        for (int i = 0; i < P_TILE_UNITS; i++) copy(from + i * P_SLOT_BYTES, P_SLOT_BYTES);
    }
    __device__ __forceinline__ bool wait_for_choice(int epoch) {
        patience p;
        while (!barrier_passed(&m.chosen, (epoch - 1) & 1)) {
            if (has_ended()) return false;
            p.check(a, WAIT_CHOICE, epoch);
        }
        return true;
    }
    __device__ void layer(const persistent_layer &l, const persistent_share &s, int epoch) {
        int first =
            l.router ? P_EXPERTS : P_CHOSEN; /* index of the shared expert, or of slot 6 of a dense layer */
        if (s.head >= 0) {
            for (int t = s.qkv.first; t < s.qkv.end; t++)
                tile(l.qkv + (size_t)(s.head * P_HEAD_TILES + t) * P_STEPS * P_BLOCK_BYTES);
            for (int t = s.out.first; t < s.out.end; t += 2)
                copy(l.out + (size_t)(s.head * P_OUT_TILES + t) * P_OUT_STEPS * P_BLOCK_BYTES,
                     min(2, s.out.end - t) * P_OUT_STEPS * P_BLOCK_BYTES);
            if (l.router)
                for (int i = 0; i < 2; i++)
                    copy(l.router + (size_t)(i * P_STEPS + s.out.first) * 2 * P_BLOCK_BYTES,
                         (s.out.end - s.out.first) * 2 * P_BLOCK_BYTES);
        }
        for (int t = s.shared.first; t < s.shared.end; t++)
            tile(l.up + (size_t)first * P_UP_BYTES + (size_t)t * P_STEPS * P_BLOCK_BYTES);
        if (ended || !wait_for_choice(epoch)) {
            ended = true;
            return;
        }
        for (int t = s.chosen.first; t < s.chosen.end; t++)
            tile(l.up + (size_t)m.expert[t / P_UP_TILES] * P_UP_BYTES +
                 (size_t)(t % P_UP_TILES) * P_STEPS * P_BLOCK_BYTES);
        for (int t = s.down.first; t < s.down.end; t++) {
            const char *from = l.down + (size_t)m.expert[t / P_OUT_TILES] * P_DOWN_BYTES +
                               (size_t)(t % P_OUT_TILES) * P_DOWN_STEPS * P_BLOCK_BYTES;
            for (int i = 0; i < P_TILE_UNITS; i++)
                copy(from + i * P_DOWN_UNIT_STEPS * P_BLOCK_BYTES, P_DOWN_UNIT_STEPS * P_BLOCK_BYTES);
        }
    }
    __device__ void run(const persistent_share &s) {
        for (int step = 0; step < a.steps && !ended; step++) {
            depth = a.depth;
            for (int i = 0; i < a.layers && !ended; i++) layer(m.layer[i], s, step * a.layers + i + 1);
            depth = a.head_depth;
            for (int t = s.vocab.first; t < s.vocab.end && !ended; t++)
                tile(a.head + (size_t)t * P_STEPS * P_BLOCK_BYTES);
        }
        while (flying > 0) take_oldest(); /* a block must not end while copies arrive in its memory */
    }
};

/* ---- consumers */
struct consumer {
    const persistent_args &a;
    memory &m;
    const persistent_share s;
    int tid, lane, warp;
    int unit;             /* first unit of the phase */
    int turn;             /* which of m.parts is next */
    unsigned grid, heads; /* expected arrivals at the last barriers */
    unsigned random;
    float4 x;    /* elements 4 tid .. 4 tid + 3 */
    float4 gain; /* weights of these elements in the next norm */
    u64 clock;
    unsigned stamped; /* entries of `stamps`, in thread 0 of block 0 */
    int position;

    __device__ __forceinline__ consumer(const persistent_args &args, memory &mem,
                                        const persistent_share &share)
        : a(args), m(mem), s(share), tid(threadIdx.x), lane(threadIdx.x % 32), warp(threadIdx.x / 32),
          unit(0), turn(0), grid(0), heads(0), random(blockIdx.x * 7919 + 1), clock(0), stamped(0),
          position(0) {}

    /* ---- measurements and barriers */
    /* The first block stores the times at which its phases end; persistent.c knows their order. */
    __device__ __forceinline__ void store_time(u64 t) {
        if (!stamps.ns || blockIdx.x) return;
        if (stamped < stamps.most) stamps.ns[stamped] = t;
        stamped++;
    }
    __device__ __forceinline__ void phase_done(int phase) {
        if (tid || !(a.times || stamps.ns)) return;
        u64 t = now_ns();
        if (a.times) a.times[blockIdx.x * P_PHASES + phase] += t - clock;
        clock = t;
        store_time(t);
    }
    __device__ __forceinline__ void step_starts() {
        if (tid || !(a.times || stamps.ns)) return;
        clock = now_ns();
        store_time(clock);
    }
    __device__ __forceinline__ void random_delay() {
        if (!a.delay) return;
        random = random * 1664525u + 1013904223u;
        u64 until = now_ns() + (random >> 18);
        while (now_ns() < until) {}
    }
    /* The writes of a block's consumers before signal() are visible to all blocks that have returned from
     * wait(). */
    __device__ __forceinline__ void signal(unsigned *counter) {
        consumers_sync();
        if (tid) return;
        random_delay();
        arrive(counter);
    }
    __device__ __forceinline__ void wait(const unsigned *counter, unsigned target, int place) {
        if (tid == 0) {
            patience p;
            while ((int)(read_counter(counter) - target) < 0) p.check(a, place, (int)target);
        }
        consumers_sync();
    }
    __device__ __forceinline__ void signal_grid() {
        signal(a.sync->grid);
        grid += gridDim.x;
    }
    __device__ __forceinline__ void wait_grid() { wait(a.sync->grid, grid, WAIT_GRID); }
    __device__ __forceinline__ void signal_head() {
        signal(a.sync->heads[s.head]);
        heads += s.ranks;
    }
    __device__ __forceinline__ void wait_head() { wait(a.sync->heads[s.head], heads, WAIT_HEAD); }

    /* ---- units. Warp w processes the units w, w + 10, ... of the block. */
    __device__ __forceinline__ const uint4 *unit_begin(int u) {
        patience p;
        while (!barrier_passed(&m.full[u % RING], u / RING & 1)) p.check(a, WAIT_FULL, u);
        __syncwarp();
        return (const uint4 *)m.ring[u % RING] + lane;
    }
    __device__ __forceinline__ void unit_end(int u) { warp_arrive(&m.empty[u % RING], a.arrivals); }
    /* Multiplies n <= N blocks, which are `apart` blocks apart, with the vector v. Lane 4 i gets the sums
     * of rows i (low) and i + 8 (high). */
    template <int N>
    __device__ __forceinline__ void multiply(const uint4 *w, int apart, int n, const uint2 *v, float &low,
                                             float &high) {
        float sum[2][4] = {};
#pragma unroll
        for (int i = 0; i < N; i++) {
            uint4 r = i < n ? w[i * apart * 32] : make_uint4(0, 0, 0, 0);
            uint2 b = lane < 8 ? v[i * 8 + lane] : make_uint2(0, 0);
            unsigned rows[4] = { r.x, r.y, r.z, r.w };
            mma(bf16(), sum[i & 1], rows, b.x, b.y);
        }
        low = sum[0][0] + sum[0][1] + sum[1][0] + sum[1][1];
        high = sum[0][2] + sum[0][3] + sum[1][2] + sum[1][3];
    }
    /* Processes n units of N blocks each; vector_of(i) is the vector of unit i. Ends with a barrier of the
     * consumers. Returns the sums, one row per unit. They stay valid during the next call. */
    template <int N, class F> __device__ __forceinline__ const float (*units(int n, const F &vector_of))[16] {
        float(*to)[16] = m.parts[turn];
        for (int i = (warp + P_CONSUMERS * 2 - unit % P_CONSUMERS) % P_CONSUMERS; i < n; i += P_CONSUMERS) {
            float low, high;
            const uint4 *w = unit_begin(unit + i);
            multiply<N>(w, 1, N, vector_of(i), low, high);
            unit_end(unit + i);
            if (lane % 4 == 0) {
                to[i][lane / 4] = low;
                to[i][8 + lane / 4] = high;
            }
        }
        unit += n;
        turn ^= 1;
        consumers_sync();
        return to;
    }

    /* ---- the vector x */
    /* sets elements i and i + 1; i is even */
    __device__ __forceinline__ void put_pair(uint2 *to, int i, float v0, float v1) {
        unsigned hi = pack2(v0, v1);
        float r0 = v0 - __uint_as_float(hi << 16), r1 = v1 - __uint_as_float(hi & 0xffff0000u);
        ((unsigned *)to)[persistent_vector_place(i, 0) / 2] = hi;
        ((unsigned *)to)[persistent_vector_place(i, 1) / 2] = pack2(r0, r1);
    }
    /* Writes x to m.x and x times the norm's weights to m.vector. Returns 1 / sqrt(mean(x^2) + eps). */
    __device__ __forceinline__ float norm(const float4 &g) {
        float sum = warp_sum(x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w);
        if (lane == 0) m.room[warp] = sum;
        *(float4 *)&m.x[tid * 4] = x;
        put_pair(m.vector, tid * 4, x.x * g.x, x.y * g.y);
        put_pair(m.vector, tid * 4 + 2, x.z * g.z, x.w * g.w);
        consumers_sync();
        sum = 0;
#pragma unroll
        for (int i = 0; i < P_CONSUMERS; i++) sum += m.room[i];
        return rsqrtf(sum / P_HIDDEN + a.eps);
    }
    __device__ __forceinline__ void add_sums(const long long *from) {
        longlong2 u = __ldcg((const longlong2 *)from + tid * 2),
                  v = __ldcg((const longlong2 *)from + tid * 2 + 1);
        x.x += from_fixed(u.x);
        x.y += from_fixed(u.y);
        x.z += from_fixed(v.x);
        x.w += from_fixed(v.y);
    }
    __device__ __forceinline__ bool is_last() const {
        return blockIdx.x == gridDim.x - 1;
    } /* usually has the least work */

    /* ---- phases */
    __device__ void qkv(float scale) {
        int tiles = s.qkv.end - s.qkv.first;
        const float(*sums)[16] = units<P_UNIT_STEPS>(
            tiles * P_TILE_UNITS, [&](int i) { return m.vector + i % P_TILE_UNITS * P_UNIT_STEPS * 8; });
        if (tid < tiles * 16) {
            int t = tid / 16, r = tid % 16, tile = s.qkv.first + t;
            float v = sums[t * 4][r] + sums[t * 4 + 1][r] + sums[t * 4 + 2][r] + sums[t * 4 + 3][r];
            a.qkv[(tile / 8 * P_HEADS + s.head) * P_DIM + tile % 8 * 16 + r] = v * scale;
        }
    }

    /* Rotates the new query and key. With `newest`, also stores the new key and value in the cache. */
    __device__ __forceinline__ void prepare_heads(const persistent_layer &l, bool newest) {
        const float *q = a.qkv + s.head * P_DIM, *k = q + P_HIDDEN, *v = k + P_HIDDEN;
        size_t at = ((size_t)s.head * a.max_context + position) * P_DIM;
        if (tid < 2 * (P_DIM / 2)) {
            int i = tid % (P_DIM / 2);
            float c = __ldg(a.cosine + (size_t)position * (P_DIM / 2) + i),
                  n = __ldg(a.sine + (size_t)position * (P_DIM / 2) + i);
            const float *from = tid < P_DIM / 2 ? q : k;
            float u = __ldcg(from + i), w = __ldcg(from + i + P_DIM / 2), y = u * c - w * n,
                  z = w * c + u * n;
            if (tid < P_DIM / 2) {
                m.q[i] = y * a.scale;
                m.q[i + P_DIM / 2] = z * a.scale;
            } else {
                bf16 b = to_bf16(y), d = to_bf16(z);
                m.key[i] = to_float(b);
                m.key[i + P_DIM / 2] = to_float(d);
                if (newest) {
                    l.keys[at + i] = b;
                    l.keys[at + i + P_DIM / 2] = d;
                }
            }
        } else if (tid >= 2 * P_DIM / 2 + 32 && tid < P_DIM + 32 + P_DIM) {
            int i = tid - P_DIM - 32;
            bf16 b = to_bf16(__ldcg(v + i));
            m.value[i] = to_float(b);
            if (newest) l.values[at + i] = b;
        }
    }

    enum {
        LANES = 16,
        TOGETHER = CONSUMERS / LANES,
        BATCH = 4
    }; /* lanes per key, keys at once, loads in flight */
    struct keys {
        uint4 k[BATCH], v[BATCH];
    };
    __device__ __forceinline__ void load_keys(const persistent_layer &l, int at, int end, keys &r) {
        size_t base = (size_t)s.head * a.max_context * P_DIM + tid % LANES * 8;
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int key = at + tid / LANES + j * TOGETHER;
            bool there = key < end && key < position; /* the newest key is not in the cache yet */
            r.k[j] =
                there ? __ldcg((const uint4 *)(l.keys + base + (size_t)key * P_DIM)) : make_uint4(0, 0, 0, 0);
            r.v[j] = there ? __ldcg((const uint4 *)(l.values + base + (size_t)key * P_DIM))
                           : make_uint4(0, 0, 0, 0);
        }
    }
    __device__ void attention(const persistent_layer &l, keys &r, int first, int end) {
        prepare_heads(l, end == position + 1 && s.rank == s.ranks - 1);
        consumers_sync();
        int part = tid % LANES * 8;
        float top = -INFINITY, total = 0, o[8] = {}, q[8];
#pragma unroll
        for (int i = 0; i < 8; i++) q[i] = m.q[part + i];
        for (int at = first; at < end; at += TOGETHER * BATCH) {
            if (at != first) load_keys(l, at, end, r);
            float score[BATCH], most = top;
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                int key = at + tid / LANES + j * TOGETHER;
                float f[8], d = 0;
                eight<bf16> e;
                e.v = r.k[j];
                unpack8<bf16>(e, f);
                if (key == position)
#pragma unroll
                    for (int i = 0; i < 8; i++) f[i] = m.key[part + i];
#pragma unroll
                for (int i = 0; i < 8; i++) d = fmaf(f[i], q[i], d);
#pragma unroll
                for (int i = LANES / 2; i; i >>= 1) d += __shfl_xor_sync(~0u, d, i);
                score[j] = key < end ? d : -INFINITY;
                most = fmaxf(most, score[j]);
            }
            float base = most == -INFINITY ? 0.0f : most, keep = __expf(top - base);
            top = most;
            total *= keep;
#pragma unroll
            for (int i = 0; i < 8; i++) o[i] *= keep;
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                int key = at + tid / LANES + j * TOGETHER;
                float f[8], w = __expf(score[j] - base);
                eight<bf16> e;
                e.v = r.v[j];
                unpack8<bf16>(e, f);
                if (key == position)
#pragma unroll
                    for (int i = 0; i < 8; i++) f[i] = m.value[part + i];
                total += w;
#pragma unroll
                for (int i = 0; i < 8; i++) o[i] = fmaf(w, f[i], o[i]);
            }
        }
        float t = __shfl_xor_sync(~0u, top, LANES), z = __shfl_xor_sync(~0u, total, LANES);
        float most = fmaxf(top, t), base = most == -INFINITY ? 0.0f : most, c = __expf(top - base),
              d = __expf(t - base);
        total = total * c + z * d;
#pragma unroll
        for (int i = 0; i < 8; i++) o[i] = o[i] * c + __shfl_xor_sync(~0u, o[i], LANES) * d;
        if (lane < LANES) {
#pragma unroll
            for (int i = 0; i < 8; i++) m.sums[warp][part + i] = o[i];
            if (lane == 0) {
                m.tops[warp] = most;
                m.totals[warp] = total;
            }
        }
        consumers_sync();
        if (tid < P_DIM) {
            float *to = a.parts + (size_t)(s.head * s.ranks + s.rank) * (P_DIM + 4), sum = 0;
            most = -INFINITY;
            total = 0;
#pragma unroll
            for (int i = 0; i < P_CONSUMERS; i++) most = fmaxf(most, m.tops[i]);
            base = most == -INFINITY ? 0.0f : most;
#pragma unroll
            for (int i = 0; i < P_CONSUMERS; i++) {
                float f = __expf(m.tops[i] - base);
                sum += f * m.sums[i][tid];
                total += f * m.totals[i];
            }
            to[tid] = sum;
            if (tid == 0) {
                to[P_DIM] = most;
                to[P_DIM + 1] = total;
            }
        }
    }

    /* Computes the head's attention from the sums of its blocks and writes it to m.head_vector, the input of
     * the output projection. */
    __device__ __forceinline__ void combine() {
        if (tid < P_DIM) {
            const float *from = a.parts + (size_t)s.head * s.ranks * (P_DIM + 4);
            float most = -INFINITY, total = 0, sum = 0;
            for (int p0 = 0; p0 < s.ranks; p0 += 16) {
                float2 tops[16];
                float v[16];
#pragma unroll
                for (int p = 0; p < 16; p++) {
                    tops[p] = make_float2(-INFINITY, 0);
                    v[p] = 0;
                    if (p0 + p >= s.ranks) continue;
                    tops[p] = __ldcg((const float2 *)(from + (size_t)(p0 + p) * (P_DIM + 4) + P_DIM));
                    v[p] = __ldcg(from + (size_t)(p0 + p) * (P_DIM + 4) + tid);
                }
#pragma unroll
                for (int p = 0; p < 16; p++) {
                    float next = fmaxf(most, tops[p].x), base = next == -INFINITY ? 0.0f : next;
                    float keep = __expf(most - base), f = __expf(tops[p].x - base);
                    total = total * keep + tops[p].y * f;
                    sum = sum * keep + v[p] * f;
                    most = next;
                }
            }
            float v = sum / total, other = __shfl_xor_sync(~0u, v, 1);
            if (tid % 2 == 0) put_pair(m.head_vector, tid, v, other);
        }
        consumers_sync();
    }
    __device__ void out(const persistent_layer &l) {
        int tiles = s.out.end - s.out.first, n = (tiles + 1) / 2;
        combine();
        for (int i = (warp + P_CONSUMERS * 2 - unit % P_CONSUMERS) % P_CONSUMERS; i < n; i += P_CONSUMERS) {
            const uint4 *w = unit_begin(unit + i);
            for (int t = i * 2; t < min(i * 2 + 2, tiles); t++) {
                float low, high;
                multiply<P_OUT_STEPS>(w + (t - i * 2) * P_OUT_STEPS * 32, 1, P_OUT_STEPS, m.head_vector, low,
                                      high);
                if (lane % 4 == 0) {
                    int row = t * 16 + lane / 4;
                    m.own[row] = low;
                    m.own[row + 8] = high;
                    add_fixed(&a.sync->out_sums[s.out.first * 16 + row], low);
                    add_fixed(&a.sync->out_sums[s.out.first * 16 + row + 8], high);
                }
                __syncwarp();
            }
            unit_end(unit + i);
        }
        unit += n;
        if (!l.router) return;
        consumers_sync();
        phase_done(T_OUT);
        if (tid < 8 * 8) { /* the block's share of the router's input; head 0 adds x itself */
            float v[2] = { 0, 0 };
            int row = tid * 2;
            if (row < tiles * 16)
                for (int i = 0; i < 2; i++) {
                    int at = s.out.first * 16 + row + i;
                    v[i] = (m.own[row + i] + (s.head == 0 ? m.x[at] : 0.0f)) * __ldg(l.norm2 + at);
                }
            put_pair(m.router_vector, row, v[0], v[1]);
        }
        consumers_sync();
        for (int i = (warp + P_CONSUMERS * 2 - unit % P_CONSUMERS) % P_CONSUMERS; i < 2; i += P_CONSUMERS) {
            const uint4 *w = unit_begin(unit + i);
            for (int t = 0; t < 2; t++) {
                float low, high;
                multiply<8>(w + t * 32, 2, tiles, m.router_vector, low, high);
                if (lane % 4 == 0) {
                    int expert = (i * 2 + t) * 16 + lane / 4;
                    add_fixed(&a.sync->logits[expert], low);
                    add_fixed(&a.sync->logits[expert + 8], high);
                }
                __syncwarp();
            }
            unit_end(unit + i);
        }
        unit += 2;
    }

    /* One warp chooses the experts. A dense layer uses all slots. `scale`: the result of norm(). */
    __device__ __forceinline__ void choose(bool dense, float scale, const float (&logit)[2]) {
        if (dense) {
            if (lane < P_SLOTS) {
                m.expert[lane] = lane;
                m.weight[lane] = 1.0f;
            }
        } else {
            unsigned key[2];
            float most = warp_max(fmaxf(logit[0], logit[1]));
            float total = warp_sum(__expf((logit[0] - most) * scale) + __expf((logit[1] - most) * scale));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                unsigned u = __float_as_uint(logit[i]);
                key[i] = u & 0x80000000u ? ~u : u | 0x80000000u;
            }
            for (int c = 0; c < P_CHOSEN; c++) {
                unsigned top = __reduce_max_sync(~0u, max(key[0], key[1]));
                unsigned low = __ballot_sync(~0u, key[0] == top), high = __ballot_sync(~0u, key[1] == top);
                int e = low ? __ffs(low) - 1 : 31 + __ffs(high);
                if (lane == e) key[0] = 0;
                if (lane + 32 == e) key[1] = 0;
                float v = __uint_as_float(top & 0x80000000u ? top & 0x7fffffffu : ~top);
                if (lane == 0) {
                    m.expert[c] = e;
                    m.weight[c] = __expf((v - most) * scale) / total;
                }
            }
            if (lane < P_SLOTS - P_CHOSEN) {
                m.expert[P_CHOSEN + lane] = P_EXPERTS + lane;
                m.weight[P_CHOSEN + lane] = 1.0f;
            }
        }
        warp_arrive(&m.chosen, a.arrivals);
    }

    __device__ void up(float scale) {
        int early = s.shared.end - s.shared.first, tiles = early + s.chosen.end - s.chosen.first;
        const float(*sums)[16] = units<P_UNIT_STEPS>(
            tiles * P_TILE_UNITS, [&](int i) { return m.vector + i % P_TILE_UNITS * P_UNIT_STEPS * 8; });
        if (tid < tiles * 8) {
            int t = tid / 8, r = tid % 8;
            int tile = t < early ? P_CHOSEN * P_UP_TILES + s.shared.first + t : s.chosen.first + t - early;
            float gate = 0, high = 0;
#pragma unroll
            for (int i = 0; i < P_TILE_UNITS; i++) {
                gate += sums[t * 4 + i][r];
                high += sums[t * 4 + i][r + 8];
            }
            a.h[tile * 8 + r] = silu(gate * scale) * (high * scale);
        }
    }

    __device__ void down() {
        int first = s.down.first / P_OUT_TILES, last = (s.down.end - 1) / P_OUT_TILES;
        for (int i = tid; i < (last - first + 1) * (P_INNER / 4); i += CONSUMERS) {
            float4 v = __ldcg((const float4 *)(a.h + (size_t)first * P_INNER) + i);
            float w = m.weight[first + i / (P_INNER / 4)];
            put_pair(m.vector, i * 4, v.x * w, v.y * w);
            put_pair(m.vector, i * 4 + 2, v.z * w, v.w * w);
        }
        consumers_sync();
        int tiles = s.down.end - s.down.first;
        const float(*sums)[16] = units<P_DOWN_UNIT_STEPS>(tiles * P_TILE_UNITS, [&](int i) {
            int slot = (s.down.first + i / P_TILE_UNITS) / P_OUT_TILES - first;
            return m.vector + (slot * P_DOWN_STEPS + i % P_TILE_UNITS * P_DOWN_UNIT_STEPS) * 8;
        });
        if (tid < tiles * 16) {
            int t = tid / 16, r = tid % 16;
            float v = sums[t * 4][r] + sums[t * 4 + 1][r] + sums[t * 4 + 2][r] + sums[t * 4 + 3][r];
            add_fixed(&a.sync->down_sums[(s.down.first + t) % P_OUT_TILES * 16 + r], v);
        }
    }

    /* Computes the block's logits and returns the best one: score and id. */
    __device__ u64 head(float scale) {
        u64 best = 0;
        int banned = __ldcg(&a.state->banned);
        enum { ROUND = P_ROUND_UNITS / P_TILE_UNITS };
        for (int t0 = s.vocab.first; t0 < s.vocab.end; t0 += ROUND) {
            int tiles = min((int)ROUND, s.vocab.end - t0);
            const float(*sums)[16] = units<P_UNIT_STEPS>(
                tiles * P_TILE_UNITS, [&](int i) { return m.vector + i % P_TILE_UNITS * P_UNIT_STEPS * 8; });
            if (tid < tiles * 16) {
                int t = tid / 16, r = tid % 16, id = (t0 + t) * 16 + r;
                float v =
                    (sums[t * 4][r] + sums[t * 4 + 1][r] + sums[t * 4 + 2][r] + sums[t * 4 + 3][r]) * scale;
                a.logits[id] = v;
                if ((banned && (__ldcg(&a.ban_bits[id >> 5]) >> (id & 31) & 1)) || v != v) v = -INFINITY;
                unsigned f = __float_as_uint(v);
                f = f & 0x80000000u ? ~f : f | 0x80000000u;
                u64 key = (u64)f << 32 | (0xffffffffu - id);
                best = key > best ? key : best;
            }
        }
#pragma unroll
        for (int d = 16; d; d >>= 1) {
            u64 other = __shfl_xor_sync(~0u, best, d);
            best = other > best ? other : best;
        }
        if (lane == 0) m.best[warp] = best;
        consumers_sync();
#pragma unroll
        for (int i = 0; i < P_CONSUMERS; i++) best = m.best[i] > best ? m.best[i] : best;
        return best;
    }

    /* ---- banned ids (sampling/ngram.h), in the last block: clears the bans of the previous step and
     * finds the bans of this step. This block also passes the host's stop request to all blocks. */
    __device__ void find_bans(int step) {
        int old = __ldcg(&a.state->banned);
        for (int i = tid; i < old; i += CONSUMERS) a.ban_bits[__ldcg(a.ban_list + i) >> 5] = 0;
        consumers_sync();
        if (tid == 0) {
            a.state->banned = 0;
            if (*(const volatile int *)a.host_stop) a.sync->stop = (unsigned)step + 1;
        }
        __threadfence();
        consumers_sync();
        const decode_rules *r = a.rules;
        int length = position + 1 - r->first, gram = r->n - 1;
        if (r->n == 0 || length < r->n) return;
        const int *ids = a.sequence + r->first, *last = ids + length - gram;
        int start = r->window > 0 && length > r->window ? length - r->window : 0;
        for (int i = start + tid; i + gram < length; i += CONSUMERS) {
            bool same = true;
            for (int j = gram - 1; same && j >= 0; j--) same = __ldcg(ids + i + j) == __ldcg(last + j);
            int id = __ldcg(ids + i + gram);
            for (int j = 0; j < r->nallow; j++) same = same && id != r->allow[j];
            if (!same) continue;
            unsigned bit = 1u << (id & 31);
            if (!(atomicOr(&a.ban_bits[id >> 5], bit) & bit)) a.ban_list[atomicAdd(&a.state->banned, 1)] = id;
        }
    }

    __device__ void layer(int index, int step) {
        const persistent_layer &l = m.layer[index];
        int epoch = step * a.layers + index + 1; /* number of the layer over all steps */
        float scale = norm(gain);
        gain = __ldg((const float4 *)l.norm2 + tid);
        phase_done(T_NORM);
        if (epoch == step * a.layers + 1 && is_last()) find_bans(step);
        if (s.head >= 0) {
            keys r;
            persistent_range part = persistent_part(position + 1, s.rank, s.ranks);
            load_keys(l, part.first, part.end, r);
            qkv(scale);
            signal_head();
            phase_done(T_QKV);
            wait_head();
            phase_done(T_QKV_BARRIER);
            attention(l, r, part.first, part.end);
            signal_head();
            phase_done(T_ATTENTION);
            wait_head();
            phase_done(T_PARTS_BARRIER);
            out(l);
        }
        signal_grid();
        phase_done(T_ROUTER);
        wait_grid();
        phase_done(T_OUT_BARRIER);
        bool chooses = warp == P_CONSUMERS - 1;
        long long raw[2] = { 0, 0 };
        if (chooses && l.router)
            for (int i = 0; i < 2; i++) raw[i] = __ldcg(&a.sync->logits[lane + i * 32]);
        add_sums(a.sync->out_sums);
        scale = norm(gain);
        gain = __ldg((const float4 *)(index + 1 < a.layers ? m.layer[index + 1].norm1 : a.norm) + tid);
        if (chooses) {
            float logit[2];
            for (int i = 0; i < 2; i++) logit[i] = (float)((double)raw[i] * 2.3283064365386963e-10);
            choose(!l.router, scale, logit);
        }
        if (is_last()) { /* safe: all blocks have read down_sums and this `best` before the last barrier */
            for (int i = tid; i < P_HIDDEN; i += CONSUMERS) a.sync->down_sums[i] = 0;
            if (tid == 0 && epoch == step * a.layers + 1) a.sync->best[(step + 1) & 1] = 0;
        }
        phase_done(T_CHOOSE);
        up(scale);
        signal_grid();
        phase_done(T_UP);
        wait_grid();
        phase_done(T_UP_BARRIER);
        if (is_last()) {
            for (int i = tid; i < P_HIDDEN; i += CONSUMERS) a.sync->out_sums[i] = 0;
            for (int i = tid; i < P_EXPERTS; i += CONSUMERS) a.sync->logits[i] = 0;
        }
        down();
        signal_grid();
        phase_done(T_DOWN);
        wait_grid();
        phase_done(T_DOWN_BARRIER);
        add_sums(a.sync->down_sums);
    }

    __device__ void run() {
        int token = a.state->token, start = a.state->position, first = a.state->step, step = 0;
        bool stop = false;
        if (stamps.ns && blockIdx.x == 0 && tid == 0) stamped = *stamps.n;
        for (; step < a.steps && !stop; step++) {
            position = start + step;
            step_starts();
            uint2 row = __ldg((const uint2 *)(a.embed + (size_t)token * P_HIDDEN) + tid);
            unpack2(bf16(), row.x, x.x, x.y);
            unpack2(bf16(), row.y, x.z, x.w);
            gain = __ldg((const float4 *)m.layer[0].norm1 + tid);
            for (int i = 0; i < a.layers; i++) layer(i, step);
            float scale = norm(gain);
            if (blockIdx.x == 0) *(float4 *)(a.x + tid * 4) = x;
            u64 best = head(scale);
            if (tid == 0) atomicMax(&a.sync->best[step & 1], best);
            signal_grid();
            phase_done(T_HEAD);
            wait_grid();
            best = __ldcg(&a.sync->best[step & 1]);
            unsigned after = __ldcg(&a.sync->stop);
            stop = after && after <= (unsigned)step + 1; /* the stop may already be set for a later step */
            token = (int)(0xffffffffu - (unsigned)best);
            if (blockIdx.x == 0 && tid == 0) {
                a.out[first + step] = token;
                __threadfence_system();
            }
            if (is_last() && tid == 0) a.sequence[position + 1] = token; /* this block finds the banned ids */
            phase_done(T_HEAD_BARRIER);
        }
        if (tid == 0) atomicExch(&m.ended, 1);
        if (blockIdx.x == 0 && tid == 0) {
            a.state->token = token;
            a.state->position = start + step;
            a.state->step = first + step;
            if (stamps.ns) *stamps.n = stamped;
        }
    }
};

extern __shared__ __align__(128) char shared_bytes[];

KERNEL __launch_bounds__(THREADS, 1) persistent_decode(const __grid_constant__ persistent_args a) {
    memory &m = *(memory *)shared_bytes;
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING; i++) {
            barrier_init(&m.full[i], 1);
            barrier_init(&m.empty[i], a.arrivals);
        }
        barrier_init(&m.chosen, a.arrivals);
        m.ended = 0;
        barriers_ready();
    }
    for (int i = threadIdx.x; i < a.layers; i += THREADS) m.layer[i] = a.layer[i];
    __syncthreads();
    persistent_share s = persistent_share_of(blockIdx.x, gridDim.x, a.vocab);
    if (threadIdx.x < CONSUMERS) {
        consumer c(a, m, s);
        c.run();
    } else if (threadIdx.x % 32 == 0) {
        producer p(a, m, threadIdx.x / 32 - P_CONSUMERS);
        p.run(s);
    }
}
static_assert(sizeof(memory) <= P_SHARED_BYTES,
              "the kernel needs more shared memory than a multiprocessor has");
static_assert(CONSUMERS * 4 == P_HIDDEN, "one thread holds four elements of x");

/* ---- the order of the weights */
KERNEL persistent_store(const __grid_constant__ persistent_pack a) {
    int lane = threadIdx.x % 32;
    long blocks = (long)a.tiles * a.steps;
    for (long b = ((long)blockIdx.x * blockDim.x + threadIdx.x) / 32; b < blocks;
         b += (long)gridDim.x * (blockDim.x / 32)) {
        int tile = (int)(b / a.steps), step = (int)(b % a.steps);
        unsigned v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) { /* rows and columns of the lane's registers: see persistent_place() */
            int row = lane / 4 + i % 2 * 8, column = step * 16 + lane % 4 * 2 + i / 2 * 8;
            const unsigned short *from = a.first;
            if (a.second) {
                if (row >= 8) from = a.second;
                row = tile * 8 + row % 8;
            } else {
                row += tile * 16;
            }
            v[i] = row < a.rows && column < a.columns ? *(const unsigned *)(from + row * a.row + column) : 0u;
        }
        long at = a.paired_tiles ? ((long)(tile / 2) * a.steps + step) * 2 + tile % 2 : b;
        ((uint4 *)a.to)[at * 32 + lane] = make_uint4(v[0], v[1], v[2], v[3]);
    }
}
#endif
