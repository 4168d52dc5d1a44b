/* Latent attention of decoding steps of one or several sequences (decode.cu, decode_batch.c), in three
 * kernels. The cache has one row [c | r] per position, which all heads share (decoder/latent.h).
 *     begin   applies norm and rotation to the new rows, stores them, rotates the queries, applies U to them
 *     attend  scores and weighted sums of the rows, with the positions split over blocks
 *     end     adds the sums of the blocks and applies V
 * In begin and end, blockIdx.y is a group of S sequences that use the same weights in registers; in attend
 * it is the sequence. The weights do not depend on earlier kernels, so they are loaded before the wait. */
#include "fragments.cuh"
#include "kernel_args.h"

enum { THREADS = 256, WARPS = 8 };

/* ---- numbers that skinny.cu computed as the sum of parts */
__device__ __forceinline__ float read_number(const latent_rows_in &in, int sequence, int i) {
    const float *p = in.x + (size_t)sequence * in.row + i;
    float v[PARTS_MOST], sum = 0;
#pragma unroll
    for (int k = 0; k < PARTS_MOST; k++) v[k] = k < in.parts ? __ldcg(p + k * in.part_stride) : 0.0f;
#pragma unroll
    for (int k = 0; k < PARTS_MOST; k++) sum += v[k];
    return sum;
}

/* Rotates pair i of the numbers from `at` on and calls put(index, number) for both. */
template <class Put>
__device__ __forceinline__ void rotate_pair(const latent_args &a, const latent_rows_in &in, int sequence,
                                            int at, int position, int i, const Put &put) {
    int half = a.rope / 2, first = a.interleaved ? 2 * i : i, second = first + (a.interleaved ? 1 : half);
    float u = read_number(in, sequence, at + first), w = read_number(in, sequence, at + second);
    float c = __ldg(a.cosine + (size_t)position * half + i), s = __ldg(a.sine + (size_t)position * half + i);
    put(first, u * c - w * s);
    put(second, w * c + u * s);
}

/* ---- begin */

/* Two numbers of neighbouring columns. */
template <class T> struct two { unsigned v; };
template <> struct two<float> { float2 v; };
template <class T> __device__ __forceinline__ two<T> load2(const T *p) {
    two<T> w;
    w.v = __ldg((const unsigned *)p);
    return w;
}
template <> __device__ __forceinline__ two<float> load2<float>(const float *p) {
    two<float> w;
    w.v = __ldg((const float2 *)p);
    return w;
}
template <class T> __device__ __forceinline__ float2 floats_of(const two<T> &w) {
    float2 f;
    unpack2(T(), w.v, f.x, f.y);
    return f;
}
template <> __device__ __forceinline__ float2 floats_of<float>(const two<float> &w) { return w.v; }

/* One block stores the new row of one sequence in the cache. */
__device__ void store_row(const latent_args &a, int sequence) {
    constexpr int EACH = LATENT_MOST_RANK / THREADS;
    __shared__ float room[WARPS];
    int position = __ldcg(&a.state[sequence].position), width = a.rank + a.rope;
    size_t to = ((size_t)sequence * a.max_context + position) * width;
    auto put = [&](int i, float v) {
        if (a.narrow_cache)
            ((bf16 *)a.cache)[to + i] = to_bf16(v);
        else
            ((float *)a.cache)[to + i] = v;
    };
    float v[EACH], sum = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int i = threadIdx.x + k * THREADS;
        v[k] = i < a.rank ? read_number(a.kept, sequence, i) : 0.0f;
        sum += v[k] * v[k];
    }
    float scale = rsqrtf(block_sum(sum, room) / a.rank + a.eps);
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int i = threadIdx.x + k * THREADS;
        if (i < a.rank) put(i, v[k] * scale * __ldg(a.norm + i));
    }
    for (int i = threadIdx.x; i < a.rope / 2; i += THREADS)
        rotate_pair(a, a.kept, sequence, a.rank, position, i, [&](int j, float r) { put(a.rank + j, r); });
}

/* Blocks of x: [heads][slices] apply U, a slice is LATENT_COLUMNS columns; the S blocks after them store the
 * rows of the cache. A warp multiplies DEEP rows of U at a time with all S queries; then the sums of the
 * warps are added. */
template <class T, int S> __device__ void latent_begin(const latent_args &a) {
    constexpr int DEEP = 16, TURN = WARPS * DEEP;
    __shared__ __align__(16) float q[S][LATENT_MOST_QUERY];
    __shared__ __align__(8) float sums[WARPS][S][LATENT_COLUMNS];
    int slices = (a.rank + LATENT_COLUMNS - 1) / LATENT_COLUMNS, first = blockIdx.y * S;
    int head = blockIdx.x / slices, slice = blockIdx.x % slices, lane = threadIdx.x % 32,
        warp = threadIdx.x / 32;
    if (head >= a.heads) {
        int sequence = first + blockIdx.x - a.heads * slices;
        wait_for_previous();
        let_next_start();
        if (sequence < a.sequences) store_row(a, sequence);
        return;
    }
    int column = slice * LATENT_COLUMNS + 2 * lane, here = min(S, a.sequences - first);
    const T *u = (const T *)a.kv_b + (size_t)head * (a.nope + a.value) * a.rank + column;
    two<T> w[DEEP];
    auto load = [&](int turn) { /* rows from nope on count as zeros */
#pragma unroll
                                for (int k = 0; k < DEEP; k++) {
                                    int i = turn * TURN + warp * DEEP + k;
                                    w[k] = two<T>();
                                    if (i < a.nope && column < a.rank)
                                        w[k] = load2<T>(u + (size_t)i * a.rank);
                                }
    };
    load(0);
    wait_for_previous();
    let_next_start();
    int turns = (a.nope + TURN - 1) / TURN, width = a.nope + a.rope;
#pragma unroll
    for (int s = 0; s < S; s++)
        for (int i = threadIdx.x; i < turns * TURN; i += THREADS)
            q[s][i] = s < here && i < a.nope ? read_number(a.q, first + s, head * width + i) : 0.0f;
    __syncthreads();
    float sum[S][2];
#pragma unroll
    for (int s = 0; s < S; s++) sum[s][0] = sum[s][1] = 0;
    for (int turn = 0; turn < turns; turn++) {
        if (turn) load(turn);
#pragma unroll
        for (int k = 0; k < DEEP; k += 4) {
            float2 f[4];
#pragma unroll
            for (int i = 0; i < 4; i++) f[i] = floats_of<T>(w[k + i]);
#pragma unroll
            for (int s = 0; s < S; s++) {
                float4 x = *(const float4 *)&q[s][turn * TURN + warp * DEEP + k];
                sum[s][0] =
                    fmaf(x.w, f[3].x, fmaf(x.z, f[2].x, fmaf(x.y, f[1].x, fmaf(x.x, f[0].x, sum[s][0]))));
                sum[s][1] =
                    fmaf(x.w, f[3].y, fmaf(x.z, f[2].y, fmaf(x.y, f[1].y, fmaf(x.x, f[0].y, sum[s][1]))));
            }
        }
    }
#pragma unroll
    for (int s = 0; s < S; s++) *(float2 *)&sums[warp][s][2 * lane] = make_float2(sum[s][0], sum[s][1]);
    __syncthreads();
    for (int i = threadIdx.x; i < here * LATENT_COLUMNS; i += THREADS) {
        int s = i / LATENT_COLUMNS, c = i % LATENT_COLUMNS;
        float all = 0;
#pragma unroll
        for (int k = 0; k < WARPS; k++) all += sums[k][s][c];
        if (slice * LATENT_COLUMNS + c < a.rank)
            a.absorbed[((size_t)(first + s) * a.heads + head) * (a.rank + a.rope) + slice * LATENT_COLUMNS +
                       c] = all;
    }
    if (slice) return;
    for (int i = threadIdx.x; i < here * (a.rope / 2); i += THREADS) { /* the rotated part of the queries */
        int s = first + i / (a.rope / 2);
        float *to = a.absorbed + ((size_t)s * a.heads + head) * (a.rank + a.rope) + a.rank;
        rotate_pair(a, a.q, s, head * width + a.nope, __ldcg(&a.state[s].position), i % (a.rope / 2),
                    [&](int j, float v) { to[j] = v; });
    }
}

/* ---- attend */

/* The positions [first, end) of a block. */
struct key_range {
    int first, end;
};
__device__ __forceinline__ key_range range_of(int split, int splits, int n) {
    return { (int)((long)split * n / splits), (int)((long)(split + 1) * n / splits) };
}

/* Adds the sums of the block's warps, in shared memory, and writes them. Called by all threads after a
 * barrier. */
__device__ __forceinline__ void write_sums(const latent_args &a, int split, int head,
                                           const float (*sums)[LATENT_MOST_RANK], const float *tops,
                                           const float *totals) {
    float most = -INFINITY, all = 0, factor[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, tops[w]);
    float base = most == -INFINITY ? 0.0f : most;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        factor[w] = __expf(tops[w] - base);
        all += factor[w] * totals[w];
    }
    float *to = a.sums + (((size_t)blockIdx.y * a.splits + split) * a.heads + head) * (a.rank + 2);
    for (int c = threadIdx.x; c < a.rank; c += THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += factor[w] * sums[w][c];
        to[c] = sum;
    }
    if (threadIdx.x) return;
    to[a.rank] = most;
    to[a.rank + 1] = all;
}

/* Any sizes. Blocks [splits][heads] of x. A warp takes one position at a time, its lanes share the numbers of
 * the row. */
template <class T> __device__ void latent_attend(const latent_args &a) {
    constexpr int PER_LANE = LATENT_MOST_ROW / 32;
    __shared__ float sums[WARPS][LATENT_MOST_RANK], tops[WARPS], totals[WARPS];
    int head = blockIdx.x % a.heads, split = blockIdx.x / a.heads, lane = threadIdx.x % 32,
        warp = threadIdx.x / 32;
    int width = a.rank + a.rope;
    wait_for_previous();
    let_next_start();
    key_range keys = range_of(split, a.splits, __ldcg(&a.state[blockIdx.y].position) + 1);
    const float *from = a.absorbed + ((size_t)blockIdx.y * a.heads + head) * width;
    const T *cache = (const T *)a.cache + (size_t)blockIdx.y * a.max_context * width;
    float q[PER_LANE], o[PER_LANE], top = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        q[i] = lane + i * 32 < width ? __ldcg(from + lane + i * 32) * a.scale : 0.0f;
        o[i] = 0;
    }
    for (int key = keys.first + warp; key < keys.end; key += WARPS) {
        const T *row = cache + (size_t)key * width;
        float v[PER_LANE], d = 0;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            v[i] = lane + i * 32 < width ? to_float(__ldcg(row + lane + i * 32)) : 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) d = fmaf(q[i], v[i], d);
        d = warp_sum(d);
        float most = fmaxf(top, d), keep = __expf(top - most), w = __expf(d - most);
        top = most;
        total = total * keep + w;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) o[i] = fmaf(w, v[i], o[i] * keep);
    }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + i * 32 < a.rank) sums[warp][lane + i * 32] = o[i];
    if (lane == 0) {
        tops[warp] = top;
        totals[warp] = total;
    }
    __syncthreads();
    write_sums(a, split, head, sums, tops, totals);
}
KERNEL __launch_bounds__(THREADS) latent_attend_f32(const __grid_constant__ latent_args a) {
    latent_attend<float>(a);
}
KERNEL __launch_bounds__(THREADS) latent_attend_bf16(const __grid_constant__ latent_args a) {
    latent_attend<bf16>(a);
}

/* The numbers of a row that a lane has: 8 from 8 lane on, 8 from 256 + 8 lane on, 2 from 512 + 2 lane on. The
 * first 16 are four quads. */
struct wide_piece {
    uint4 a, b;
    unsigned r;
};
__device__ __forceinline__ void unpack_quad(const wide_piece &p, int quad, float *f) {
    const uint4 &v = quad < 2 ? p.a : p.b;
    unpack2(bf16(), quad % 2 ? v.z : v.x, f[0], f[1]);
    unpack2(bf16(), quad % 2 ? v.w : v.y, f[2], f[3]);
}

/* A cache of bf16 with rank 512 and 64 rotated numbers, as all DeepSeek models have them. Blocks
 * [splits][heads / G] of x. A warp takes BATCH positions at a time and reads each row once for G heads. */
KERNEL __launch_bounds__(THREADS, 1) latent_attend_wide(const __grid_constant__ latent_args a) {
    constexpr int G = LATENT_WIDE_HEADS, BATCH = 4, RANK = LATENT_WIDE_RANK, WIDTH = RANK + LATENT_WIDE_ROPE;
    static_assert(RANK == 512 && LATENT_WIDE_ROPE == 64 && RANK == LATENT_MOST_RANK, "the pieces of a lane");
    __shared__ __align__(16) float sums[WARPS][RANK];
    __shared__ float tops[G][WARPS], totals[G][WARPS];
    __shared__ float4 quads[G][4][32]; /* the queries: the quads of each lane, and its rotated numbers */
    __shared__ float2 rotated[G][32];
    int groups = a.heads / G, head = blockIdx.x % groups * G, split = blockIdx.x / groups,
        lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int position = __ldcg(&a.state[blockIdx.y].position);
    key_range keys = range_of(split, a.splits, position + 1);
    const bf16 *cache = (const bf16 *)a.cache + (size_t)blockIdx.y * a.max_context * WIDTH;
    wide_piece row[BATCH];
    auto load = [&](wide_piece &to, int key, bool there) {
        const bf16 *p = cache + (size_t)key * WIDTH;
        to.a = there ? __ldcg((const uint4 *)(p + 8 * lane)) : make_uint4(0, 0, 0, 0);
        to.b = there ? __ldcg((const uint4 *)(p + 256 + 8 * lane)) : make_uint4(0, 0, 0, 0);
        to.r = there ? __ldcg((const unsigned *)(p + RANK + 2 * lane)) : 0;
    };
    /* Rows before `position` are in the cache since earlier steps; begin, the previous kernel, writes the
     * newest one. */
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        int key = keys.first + warp + j * WARPS;
        load(row[j], key, key < keys.end && key < position);
    }
    wait_for_previous();
    let_next_start();
    const float *from = a.absorbed + ((size_t)blockIdx.y * a.heads + head) * WIDTH;
    for (int i = threadIdx.x; i < G * 4 * 32; i += THREADS) {
        int g = i / 128, quad = i / 32 % 4, l = i % 32;
        float4 x = __ldcg((const float4 *)(from + g * WIDTH + quad / 2 * 256 + 8 * l + quad % 2 * 4));
        quads[g][quad][l] = make_float4(x.x * a.scale, x.y * a.scale, x.z * a.scale, x.w * a.scale);
    }
    for (int i = threadIdx.x; i < G * 32; i += THREADS) {
        float2 x = __ldcg((const float2 *)(from + i / 32 * WIDTH + RANK + 2 * (i % 32)));
        rotated[i / 32][i % 32] = make_float2(x.x * a.scale, x.y * a.scale);
    }
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        int key = keys.first + warp + j * WARPS;
        if (key < keys.end && key == position) load(row[j], key, true);
    }
    float o[G][16], top[G], total[G];
#pragma unroll
    for (int g = 0; g < G; g++) {
        top[g] = -INFINITY;
        total[g] = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) o[g][i] = 0;
    }
    __syncthreads();
    for (int at = keys.first + warp; at < keys.end; at += WARPS * BATCH) {
        float score[G][BATCH];
#pragma unroll
        for (int g = 0; g < G; g++) {
            float2 x = rotated[g][lane];
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                float u, v;
                unpack2(bf16(), row[j].r, u, v);
                score[g][j] = x.x * u + x.y * v;
            }
        }
#pragma unroll
        for (int quad = 0; quad < 4; quad++) {
            float f[BATCH][4];
#pragma unroll
            for (int j = 0; j < BATCH; j++) unpack_quad(row[j], quad, f[j]);
#pragma unroll
            for (int g = 0; g < G; g++) {
                float4 x = quads[g][quad][lane];
#pragma unroll
                for (int j = 0; j < BATCH; j++)
                    score[g][j] =
                        fmaf(x.w, f[j][3],
                             fmaf(x.z, f[j][2], fmaf(x.y, f[j][1], fmaf(x.x, f[j][0], score[g][j]))));
            }
        }
#pragma unroll
        for (int g = 0; g < G; g++) { /* scores become weights; score[g][0] is finite */
            float most = top[g];
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                float d = warp_sum(score[g][j]);
                score[g][j] = at + j * WARPS < keys.end ? d : -INFINITY;
                most = fmaxf(most, score[g][j]);
            }
            float keep = __expf(top[g] - most);
            top[g] = most;
            total[g] *= keep;
#pragma unroll
            for (int i = 0; i < 16; i++) o[g][i] *= keep;
#pragma unroll
            for (int j = 0; j < BATCH; j++) total[g] += score[g][j] = __expf(score[g][j] - most);
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
#pragma unroll
            for (int quad = 0; quad < 4; quad++) {
                float f[4];
                unpack_quad(row[j], quad, f);
#pragma unroll
                for (int g = 0; g < G; g++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        o[g][quad * 4 + i] = fmaf(score[g][j], f[i], o[g][quad * 4 + i]);
            }
            int next = at + (j + BATCH) * WARPS;
            load(row[j], next, next < keys.end);
        }
    }
#pragma unroll
    for (int g = 0; g < G; g++) {
        if (g) __syncthreads(); /* other warps may still read the sums of the last head */
#pragma unroll
        for (int quad = 0; quad < 4; quad++)
            *(float4 *)&sums[warp][quad / 2 * 256 + 8 * lane + quad % 2 * 4] =
                make_float4(o[g][4 * quad], o[g][4 * quad + 1], o[g][4 * quad + 2], o[g][4 * quad + 3]);
        if (lane == 0) {
            tops[g][warp] = top[g];
            totals[g][warp] = total[g];
        }
        __syncthreads();
        write_sums(a, split, head + g, sums, tops[g], totals[g]);
    }
}

/* The same sizes for batches, on tensor cores: queries and weights are rounded to bf16. Blocks
 * [splits][heads / HEADS] of x. Tiles of KEYS rows are copied to shared memory, the next one during the
 * products of this one. Scores: a warp has eight keys and half of the columns of a row. Weights: a warp has
 * two heads. Sums: a warp has 64 columns. */
template <int N> __device__ __forceinline__ void wait_copies() { /* except for the last N tiles */
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

KERNEL __launch_bounds__(THREADS, 2) latent_attend_tiles(const __grid_constant__ latent_args a) {
    constexpr int HEADS = LATENT_TILE_HEADS, KEYS = LATENT_TILE_KEYS, RANK = LATENT_WIDE_RANK,
                  WIDTH = RANK + LATENT_WIDE_ROPE, PIECES = WIDTH / 8, COLUMNS = RANK / WARPS;
    /* bytes between rows in shared memory: odd multiples of 16, so that eight rows are in different banks */
    constexpr int ROW = LATENT_TILE_ROW * 2, WEIGHTS_ROW = (KEYS + 8) * 2;
    static_assert(HEADS == 2 * WARPS && KEYS == 32 && COLUMNS == 64 && WIDTH % 64 == 0, "work of a warp");
    extern __shared__ __align__(128) unsigned char tiles[]; /* bf16 [2][KEYS][LATENT_TILE_ROW] */
    __shared__ __align__(16) bf16 q[HEADS][LATENT_TILE_ROW];
    __shared__ __align__(16) bf16 weights[HEADS][KEYS + 8];
    __shared__ __align__(8) float scores[2][HEADS][KEYS + 8]; /* of the two halves of the columns */
    __shared__ float keep[HEADS];
    int groups = a.heads / HEADS, head = blockIdx.x % groups * HEADS, split = blockIdx.x / groups,
        lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int position = __ldcg(&a.state[blockIdx.y].position);
    key_range keys = range_of(split, a.splits, position + 1);
    int count = (keys.end - keys.first + KEYS - 1) / KEYS;
    const bf16 *cache = (const bf16 *)a.cache + (size_t)blockIdx.y * a.max_context * WIDTH;
    unsigned tiles_at = shared_address(tiles), q_at = shared_address(q), weights_at = shared_address(weights);
    auto copy = [&](int tile) { /* rows from keys.end on become zeros */
                                int first = keys.first + tile * KEYS;
                                unsigned to = tiles_at + tile % 2 * (KEYS * ROW);
                                for (int i = threadIdx.x; i < KEYS * PIECES; i += THREADS) {
                                    int r = i / PIECES, c = i % PIECES;
                                    bool inside = first + r < keys.end;
                                    copy16(to + r * ROW + c * 16,
                                           cache + (size_t)(inside ? first + r : 0) * WIDTH + c * 8, inside);
                                }
                                commit_copies();
    };
    /* Rows before `position` are in the cache since earlier steps; begin, the previous kernel, writes the
     * newest one. */
    bool early = keys.first + KEYS <= position;
    if (early) copy(0);
    wait_for_previous();
    let_next_start();
    if (!early) copy(0);
    const float *from = a.absorbed + ((size_t)blockIdx.y * a.heads + head) * WIDTH;
    for (int i = threadIdx.x; i < HEADS * (WIDTH / 2); i += THREADS) {
        int h = i / (WIDTH / 2), c = i % (WIDTH / 2) * 2;
        float2 x = __ldcg((const float2 *)(from + h * WIDTH + c));
        *(unsigned *)&q[h][c] = pack2(x.x * a.scale, x.y * a.scale);
    }
    float o[COLUMNS / 8][4], top[2], total[2]; /* top, total: of heads 2 warp and 2 warp + 1 */
#pragma unroll
    for (int t = 0; t < COLUMNS / 8; t++) o[t][0] = o[t][1] = o[t][2] = o[t][3] = 0;
    top[0] = top[1] = -INFINITY;
    total[0] = total[1] = 0;
    for (int tile = 0; tile < count; tile++) {
        unsigned at = tiles_at + tile % 2 * (KEYS * ROW);
        if (tile + 1 < count)
            copy(tile + 1);
        else
            commit_copies();
        wait_copies<1>();
        __syncthreads();
        int half = warp / 4, key = warp % 4 * 8;
        float d[4] = { 0, 0, 0, 0 };
#pragma unroll
        for (int s = 0; s < WIDTH / 64; s++) {
            int k = half * (WIDTH / 2) + s * 32;
            unsigned x[4], r[4];
            load_matrix(at + (key + lane % 8) * ROW + (k + lane / 8 * 8) * 2, r);
            load_matrix(q_at + lane % 16 * ROW + (k + lane / 16 * 8) * 2, x);
            mma(bf16(), d, x, r[0], r[1]);
            load_matrix(q_at + lane % 16 * ROW + (k + 16 + lane / 16 * 8) * 2, x);
            mma(bf16(), d, x, r[2], r[3]);
        }
        *(float2 *)&scores[half][lane / 4][key + lane % 4 * 2] = make_float2(d[0], d[1]);
        *(float2 *)&scores[half][lane / 4 + 8][key + lane % 4 * 2] = make_float2(d[2], d[3]);
        __syncthreads();
        bool there = keys.first + tile * KEYS + lane < keys.end; /* true for lane 0 */
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int h = 2 * warp + j;
            float s = there ? scores[0][h][lane] + scores[1][h][lane] : -INFINITY;
            float most = fmaxf(top[j], warp_max(s)), factor = __expf(top[j] - most);
            bf16 w = to_bf16(__expf(s - most));
            weights[h][lane] = w;
            total[j] = total[j] * factor + warp_sum(to_float(w));
            top[j] = most;
            if (lane == 0) keep[h] = factor;
        }
        __syncthreads();
        float low = keep[lane / 4], high = keep[lane / 4 + 8];
#pragma unroll
        for (int t = 0; t < COLUMNS / 8; t++) {
            o[t][0] *= low;
            o[t][1] *= low;
            o[t][2] *= high;
            o[t][3] *= high;
        }
#pragma unroll
        for (int k = 0; k < KEYS; k += 16) {
            unsigned w[4], v[4];
            load_matrix(weights_at + lane % 16 * WEIGHTS_ROW + (k + lane / 16 * 8) * 2, w);
#pragma unroll
            for (int t = 0; t < COLUMNS / 8; t += 2) {
                load_transposed(at + (k + lane % 16) * ROW + (warp * COLUMNS + t * 8 + lane / 16 * 8) * 2, v);
                mma(bf16(), o[t], w, v[0], v[1]);
                mma(bf16(), o[t + 1], w, v[2], v[3]);
            }
        }
        __syncthreads(); /* the next turn overwrites this tile, the scores and the weights */
    }
    wait_copies<0>();
    size_t first = ((size_t)blockIdx.y * a.splits + split) * a.heads + head;
#pragma unroll
    for (int t = 0; t < COLUMNS / 8; t++) {
        int c = warp * COLUMNS + t * 8 + lane % 4 * 2;
        *(float2 *)(a.sums + (first + lane / 4) * (RANK + 2) + c) = make_float2(o[t][0], o[t][1]);
        *(float2 *)(a.sums + (first + lane / 4 + 8) * (RANK + 2) + c) = make_float2(o[t][2], o[t][3]);
    }
    if (lane) return;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float *to = a.sums + (first + 2 * warp + j) * (RANK + 2) + RANK;
        to[0] = top[j];
        to[1] = total[j];
    }
}

/* ---- end */

/* Blocks [heads][LATENT_END_BLOCKS] of x: the blocks of a head divide its rows of V. A warp has ROWS rows at
 * a time, a lane 16 numbers of each. */
template <class T, int S> __device__ void latent_end(const latent_args &a) {
    constexpr int ROWS = 4;
    __shared__ __align__(16) float sum[S][LATENT_MOST_RANK];
    __shared__ float factor[S][LATENT_MOST_SPLITS];
    int head = blockIdx.x / LATENT_END_BLOCKS, part = blockIdx.x % LATENT_END_BLOCKS, lane = threadIdx.x % 32,
        warp = threadIdx.x / 32;
    int first = blockIdx.y * S, here = min(S, a.sequences - first);
    const T *v = (const T *)a.kv_b + ((size_t)head * (a.nope + a.value) + a.nope) * a.rank;
    eight<T> w[ROWS][2];
    int row = (part * WARPS + warp) * ROWS;
    auto load = [&] {
#pragma unroll
        for (int k = 0; k < ROWS; k++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int c = (lane + 32 * j) * 8;
                w[k][j] = row + k < a.value && c < a.rank ? load8<T>(v + (size_t)(row + k) * a.rank + c)
                                                          : zero8<T>();
            }
    };
    load();
    wait_for_previous();
    let_next_start();
    /* of split k of a sequence: sums, maximum, sum of weights */
    auto sums_of = [&](int s, int k) {
        return a.sums + (((size_t)(first + s) * a.splits + k) * a.heads + head) * (a.rank + 2);
    };
    for (int s = warp; s < here; s += WARPS) {
        bool there = lane < a.splits;
        float top = there ? __ldcg(sums_of(s, lane) + a.rank) : -INFINITY,
              total = there ? __ldcg(sums_of(s, lane) + a.rank + 1) : 0.0f;
        float weight = __expf(top - warp_max(top)), all = warp_sum(weight * total);
        if (there) factor[s][lane] = weight / all;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < a.rank; c += THREADS)
#pragma unroll
        for (int s = 0; s < S; s++) {
            if (s >= here) break;
            float all = 0;
#pragma unroll 4
            for (int k = 0; k < a.splits; k++) all = fmaf(factor[s][k], __ldcg(sums_of(s, k) + c), all);
            sum[s][c] = all;
        }
    __syncthreads();
    while (row < a.value) {
#pragma unroll
        for (int s = 0; s < S; s++) {
            if (s >= here) break;
            float d[ROWS];
#pragma unroll
            for (int k = 0; k < ROWS; k++) d[k] = 0;
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int c = (lane + 32 * j) * 8;
                if (c >= a.rank) break;
                float4 lo = *(const float4 *)&sum[s][c], hi = *(const float4 *)&sum[s][c + 4];
#pragma unroll
                for (int k = 0; k < ROWS; k++) d[k] = dot8<T>(w[k][j], lo, hi, d[k]);
            }
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                d[k] = warp_sum(d[k]);
                if (lane || row + k >= a.value) continue;
                if (a.narrow)
                    a.narrow[((size_t)(first + s) * a.heads + head) * a.value + row + k] = to_bf16(d[k]);
                else
                    a.parts[(size_t)head * (a.value + 4) + row + k] = d[k];
            }
        }
        row += LATENT_END_BLOCKS * WARPS * ROWS;
        if (row < a.value) load();
    }
}

#define LATENT(name, T, S)                                                                         \
    KERNEL __launch_bounds__(THREADS) latent_begin_##name(const __grid_constant__ latent_args a) { \
        latent_begin<T, S>(a);                                                                     \
    }                                                                                              \
    KERNEL __launch_bounds__(THREADS) latent_end_##name(const __grid_constant__ latent_args a) {   \
        latent_end<T, S>(a);                                                                       \
    }
LATENT(f32, float, 1)
LATENT(bf16, bf16, 1)
LATENT(f16, __half, 1)
LATENT(many_bf16, bf16, LATENT_GROUP) /* batches */
