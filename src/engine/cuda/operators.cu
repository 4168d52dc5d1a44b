/* Operators on rows and single numbers, copies, and routing. Activations are float unless noted. */
#include "common.cuh"

#define EACH(i, n)                                                          \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \
         i += (size_t)gridDim.x * blockDim.x)

/* ---- norms: one block per row. With `narrow`, y is bf16. rows.cu has faster kernels for aligned rows of up
 * to 8192 numbers */
KERNEL rmsnorm(const float *x, long ldx, const float *w, int n, float eps, void *y, long ldy, int narrow) {
    begin_kernel();
    __shared__ float room[33];
    const float *in = x + blockIdx.x * ldx;
    float *out = (float *)y + blockIdx.x * ldy, sum = 0;
    bf16 *out16 = (bf16 *)y + blockIdx.x * ldy;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i] * in[i];
    float scale = rsqrtf(block_sum(sum, room) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = in[i] * scale * w[i];
        if (narrow)
            out16[i] = to_bf16(v);
        else
            out[i] = v;
    }
}

KERNEL layernorm(const float *x, const float *w, const float *b, int n, float eps, float *y) {
    begin_kernel();
    __shared__ float room[33];
    const float *in = x + (size_t)blockIdx.x * n;
    float *out = y + (size_t)blockIdx.x * n, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
    float mean = block_sum(sum, room) / n;
    sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += (in[i] - mean) * (in[i] - mean);
    float scale = rsqrtf(block_sum(sum, room) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (in[i] - mean) * scale * w[i] + b[i];
}

/* ---- elements */
KERNEL gelu(float *x, size_t n) {
    begin_kernel();
    EACH(i, n) x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
}
KERNEL quick_gelu(float *x, size_t n) {
    begin_kernel();
    EACH(i, n) x[i] = x[i] / (1.0f + __expf(-1.702f * x[i]));
}
KERNEL silu_mul(float *gate, const float *up, size_t n) {
    begin_kernel();
    EACH(i, n) gate[i] = silu(gate[i]) * up[i];
}
KERNEL add(float *y, const float *x, size_t n) {
    begin_kernel();
    EACH(i, n) y[i] += x[i];
}

template <class T> __device__ void embed_rows(const T *table, const unsigned *ids, int cols, float *out) {
    const T *row = table + (size_t)ids[blockIdx.x] * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(size_t)blockIdx.x * cols + i] = to_float(row[i]);
}
KERNEL embed_f32(const float *t, const unsigned *ids, int cols, float *out) {
    begin_kernel();
    embed_rows(t, ids, cols, out);
}
KERNEL embed_bf16(const bf16 *t, const unsigned *ids, int cols, float *out) {
    begin_kernel();
    embed_rows(t, ids, cols, out);
}
KERNEL embed_f16(const __half *t, const unsigned *ids, int cols, float *out) {
    begin_kernel();
    embed_rows(t, ids, cols, out);
}

/* ---- rotary positions: one block per row */
KERNEL rope(float *x, long row, int heads, int stride, int offset, int position, int dims, int interleaved,
            const float *cosine, const float *sine) {
    begin_kernel();
    int half = dims / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
    size_t at = (size_t)(position + blockIdx.x) * half;
    for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
        int h = i / half, d = i % half;
        float *v = x + blockIdx.x * row + offset + (long)h * stride + d * step;
        float a = v[0], b = v[apart], c = cosine[at + d], s = sine[at + d];
        v[0] = a * c - b * s;
        v[apart] = b * c + a * s;
    }
}

/* ---- caches: rows[n][heads][dim] into cache[heads][max_context][dim], which is float or bf16, and back */
template <class T>
__device__ void store_rows(T *cache, const float *rows, int n, int heads, int dim, int max_context,
                           int position) {
    EACH(i, (size_t)n * heads * dim) {
        int d = (int)(i % dim), h = (int)(i / dim % heads), r = (int)(i / dim / heads);
        cache[((size_t)h * max_context + position + r) * dim + d] = from_float<T>(rows[i]);
    }
}
KERNEL cache_store_f32(float *c, const float *r, int n, int heads, int dim, int most, int at) {
    begin_kernel();
    store_rows(c, r, n, heads, dim, most, at);
}
KERNEL cache_store_bf16(bf16 *c, const float *r, int n, int heads, int dim, int most, int at) {
    begin_kernel();
    store_rows(c, r, n, heads, dim, most, at);
}
template <class T>
__device__ void load_rows(const T *cache, float *rows, int n, int heads, int dim, int max_context,
                          int position) {
    EACH(i, (size_t)n * heads * dim) {
        int d = (int)(i % dim), h = (int)(i / dim % heads), r = (int)(i / dim / heads);
        rows[i] = to_float(cache[((size_t)h * max_context + position + r) * dim + d]);
    }
}
KERNEL cache_load_f32(const float *c, float *r, int n, int heads, int dim, int most, int at) {
    begin_kernel();
    load_rows(c, r, n, heads, dim, most, at);
}
KERNEL cache_load_bf16(const bf16 *c, float *r, int n, int heads, int dim, int most, int at) {
    begin_kernel();
    load_rows(c, r, n, heads, dim, most, at);
}

/* ---- moves */
/* ROWS loops over rows, which are divided over blockIdx.y; COLUMNS over the numbers of a row, one per
 * thread. */
#define ROWS(r, n) for (int r = blockIdx.y; r < (n); r += gridDim.y)
#define COLUMNS(i, n) \
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)
KERNEL copy_rows(float *to, long ldt, const float *from, long ldf, int rows, size_t n) {
    begin_kernel();
    ROWS(r, rows) COLUMNS(i, n) to[r * ldt + i] = from[r * ldf + i];
}
KERNEL gather_rows(float *to, const float *from, const int *index, int n, size_t width) {
    begin_kernel();
    ROWS(r, n) COLUMNS(i, width) to[r * width + i] = from[index[r] * width + i];
}
/* The row indices of one call are distinct, so no two threads add to the same number. */
KERNEL scatter_add(float *to, const float *from, const int *index, const float *weights, int n,
                   size_t width) {
    begin_kernel();
    ROWS(r, n) COLUMNS(i, width) to[index[r] * width + i] += weights[r] * from[r * width + i];
}
KERNEL planes_last(float *to, const float *from, int channels, size_t area) {
    begin_kernel();
    EACH(i, area * channels) to[i] = from[i % channels * area + i / channels];
}
/* merge 0: copies the grid to rows ordered by window, with zeros outside of the grid; 1: adds the rows to
 * the grid */
KERNEL window_copy(float *grid, float *rows, int g, int padded, int window, int width, int views, int merge) {
    begin_kernel();
    int across = padded / window, cells = window * window, area = padded * padded;
    ROWS(r, views * area) {
        int view = r / area, cell = r % cells, w = (r - view * area) / cells;
        int y = w / across * window + cell / window, x = w % across * window + cell % window;
        bool inside = y < g && x < g;
        float *row = rows + (size_t)r * width, *there = grid + (((size_t)view * g + y) * g + x) * width;
        COLUMNS(c, width) {
            if (!merge)
                row[c] = inside ? there[c] : 0.0f;
            else if (inside)
                there[c] += row[c];
        }
    }
}
/* Unfolds the patches of a convolution: out[view][pixel][c_in][side][side], with zeros outside of the
 * image. Input and output are float or bf16. */
template <class I, class O>
__device__ void unfold(const I *x, int h, int w, int c_in, int side, int stride, int pad, int out_w, int area,
                       int pixels, O *out) {
    int cells = side * side, n = c_in * cells;
    ROWS(p, pixels) {
        int view = p / area, at = p - view * area, y0 = at / out_w * stride - pad,
            x0 = at % out_w * stride - pad;
        const I *image = x + (size_t)view * h * w * c_in;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            int cell = i % cells, c = i / cells, yy = y0 + cell / side, xx = x0 + cell % side;
            bool inside = yy >= 0 && yy < h && xx >= 0 && xx < w;
            out[(size_t)p * n + i] =
                from_float<O>(inside ? to_float(image[((size_t)yy * w + xx) * c_in + c]) : 0.0f);
        }
    }
}
/* Like unfold(), for bf16 images with a multiple of eight channels. One block per pixel reads all channels
 * of a cell at once and transposes cells and channels in shared memory. */
KERNEL unfold_channels(const bf16 *x, int h, int w, int c_in, int side, int stride, int pad, int out_w,
                       int area, int pixels, bf16 *out) {
    begin_kernel();
    extern __shared__ __align__(16) bf16 cells_memory[]; /* [cell][c_in] */
    int cells = side * side, n = c_in * cells, groups = c_in / 8;
    unsigned magic = 0xffffffffu / cells + 1; /* __umulhi(i, magic) is i / cells for i below 2^16 */
    for (int p = blockIdx.x; p < pixels; p += gridDim.x) {
        int view = p / area, at = p - view * area, y0 = at / out_w * stride - pad,
            x0 = at % out_w * stride - pad;
        const bf16 *image = x + (size_t)view * h * w * c_in;
        __syncthreads();
        for (int i = threadIdx.x; i < cells * groups; i += blockDim.x) {
            int cell = i / groups, c = (i - cell * groups) * 8, yy = y0 + cell / side, xx = x0 + cell % side;
            bool inside = yy >= 0 && yy < h && xx >= 0 && xx < w;
            uint4 v =
                inside ? *(const uint4 *)(image + ((size_t)yy * w + xx) * c_in + c) : make_uint4(0, 0, 0, 0);
            *(uint4 *)(cells_memory + cell * c_in + c) = v;
        }
        __syncthreads();
        for (int i = threadIdx.x * 8; i < n; i += blockDim.x * 8) {
            __align__(16) bf16 v[8];
#pragma unroll
            for (int e = 0; e < 8; e++) {
                int c = cells == 1 ? i + e : (int)__umulhi(i + e, magic);
                v[e] = cells_memory[(i + e - c * cells) * c_in + c];
            }
            *(uint4 *)(out + (size_t)p * n + i) = *(const uint4 *)v;
        }
    }
}
#define UNFOLD(name, I, O)                                                                             \
    KERNEL unfold_##name(const I *x, int h, int w, int c_in, int side, int stride, int pad, int out_w, \
                         int area, int pixels, O *out) {                                               \
        begin_kernel();                                                                                \
        unfold(x, h, w, c_in, side, stride, pad, out_w, area, pixels, out);                            \
    }
UNFOLD(f32, float, float)
UNFOLD(f32_bf16, float, bf16)
UNFOLD(bf16, bf16, bf16)

/* ---- position tables resampled to another size */
__device__ float cubic(float x) {
    const float a = -0.5f;
    x = fabsf(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}
struct taps {
    int lo, hi;
    float centre, wide, inverse;
};
__device__ taps taps_of(int i, int from, int to) {
    taps t;
    double scale = (double)from / to, wide = scale > 1 ? scale : 1, centre = (i + 0.5) * scale;
    t.lo = max(0, (int)(centre - 2 * wide + 0.5));
    t.hi = min(from, (int)(centre + 2 * wide + 0.5));
    t.centre = (float)centre;
    t.wide = (float)wide;
    float total = 0;
    for (int j = t.lo; j < t.hi; j++) total += cubic((j - t.centre + 0.5f) / t.wide);
    t.inverse = 1 / total;
    return t;
}
/* One block per output cell; its threads divide the channels. */
KERNEL resample_grid(const float *in, int from, int to, int channels, float *out) {
    begin_kernel();
    enum { MOST = 64 };
    /* weights of the first MOST taps; the others are computed again for each channel */
    __shared__ float wx[MOST], wy[MOST];
    taps ty = taps_of(blockIdx.x / to, from, to), tx = taps_of(blockIdx.x % to, from, to);
    auto weight = [](const taps &t, int i) { return cubic((i - t.centre + 0.5f) / t.wide) * t.inverse; };
    int i = threadIdx.x;
    if (i < MOST && tx.lo + i < tx.hi) wx[i] = weight(tx, tx.lo + i);
    if (i < MOST && ty.lo + i < ty.hi) wy[i] = weight(ty, ty.lo + i);
    __syncthreads();
    for (int c = threadIdx.x; c < channels; c += blockDim.x) {
        float sum = 0;
        for (int y = ty.lo; y < ty.hi; y++) {
            float row = 0;
            for (int x = tx.lo; x < tx.hi; x++)
                row += (x - tx.lo < MOST ? wx[x - tx.lo] : weight(tx, x)) *
                       in[((size_t)y * from + x) * channels + c];
            sum += (y - ty.lo < MOST ? wy[y - ty.lo] : weight(ty, y)) * row;
        }
        out[(size_t)blockIdx.x * channels + c] = sum;
    }
}
KERNEL resample_rows(const float *in, int from, int to, int channels, float *out) {
    begin_kernel();
    EACH(i, (size_t)to * channels) {
        int r = (int)(i / channels), c = (int)(i % channels);
        float at = fmaxf(0.0f, ((float)r + 0.5f) * ((float)from / (float)to) - 0.5f);
        int lo = min((int)at, from - 1), hi = min(lo + 1, from - 1);
        float w = at - (float)lo;
        out[i] = in[(size_t)lo * channels + c] * (1 - w) + in[(size_t)hi * channels + c] * w;
    }
}

/* ---- routing to at most 1024 experts: one warp per token. `choices` are pairs of expert and weight, k per
 * token. */
struct choice {
    int expert;
    float weight;
};
KERNEL route(float *logits, int n, int k, int groups, int groups_kept, int normalise, float scale,
             choice *choices) {
    begin_kernel();
    __shared__ float p[1024];
    __shared__ int kept[1024];
    int lane = threadIdx.x;
    const float *row = logits + (size_t)blockIdx.x * n;
    choice *out = choices + (size_t)blockIdx.x * k;
    float most = -INFINITY, sum = 0, total = 0;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, row[i]);
    most = warp_max(most);
    for (int i = lane; i < n; i += 32) sum += p[i] = expf(row[i] - most);
    sum = warp_sum(sum);
    for (int i = lane; i < n; i += 32) p[i] /= sum;
    __syncwarp();
    if (groups > 1) { /* the score of a group is the score of its best expert */
        int size = n / groups;
        for (int i = lane; i < groups; i += 32) kept[i] = 0;
        __syncwarp();
        if (lane == 0)
            for (int round = 0; round < groups_kept; round++) {
                int best = -1;
                float score = -1.0f;
                for (int i = 0; i < n; i++)
                    if (!kept[i / size] && p[i] > score) {
                        best = i / size;
                        score = p[i];
                    }
                if (best >= 0) kept[best] = 1;
            }
        __syncwarp();
        for (int i = lane; i < n; i += 32)
            if (!kept[i / size]) p[i] = 0.0f;
        __syncwarp();
    }
    for (int c = 0; c < k; c++) {
        int best = n;
        float score = -2.0f;
        for (int i = lane; i < n; i += 32)
            if (p[i] > score) {
                best = i;
                score = p[i];
            }
        float top = warp_max(score);
        int mine = score == top ? best : n; /* if scores are equal, the lower number comes first */
#pragma unroll
        for (int d = 16; d; d >>= 1) mine = min(mine, __shfl_xor_sync(~0u, mine, d));
        if (mine == n) mine = 0; /* all scores are NaN */
        __syncwarp();            /* all lanes have read the scores */
        if (lane == 0) {
            out[c].expert = mine;
            out[c].weight = top;
            p[mine] = -1.0f;
        }
        total += top;
        __syncwarp();
    }
    float factor = scale / (normalise ? total : 1.0f);
    for (int c = lane; c < k; c += 32) out[c].weight *= factor;
}
