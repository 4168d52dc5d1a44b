/* Parameter structs of kernels, for the host code (C) and the kernels (CUDA). Pointers are device
 * addresses. */
#ifndef ENGINE_CUDA_KERNEL_ARGS_H
#define ENGINE_CUDA_KERNEL_ARGS_H

/* Where kernels store the times at which they have their inputs. Each module has one in constant memory,
 * named `stamps`. */
struct kernel_stamps {
    unsigned long long *ns; /* [most], %globaltimer; NULL: times are not stored */
    /* [most]: `last_end` at the time when a kernel stored its own time. If the kernel before it is one of a
     * library, which stores no time, this is the start of that kernel. */
    unsigned long long *ends;
    unsigned long long *last_end; /* the time at which the last block ended that calls end_kernel() */
    unsigned *n;                  /* number of kernels so far, may exceed `most` */
    unsigned most, pad;
};

/* The scales of an fp8 matrix, in `across` columns: the number in row r and group j of eight columns is
 * multiplied by v[r / rows][j >> shift]. */
struct scale_table {
    const float *v;
    int rows, across;
    int shift; /* 31: one scale per row */
};

enum { ACTIVATE_NONE, ACTIVATE_GELU, ACTIVATE_QUICK_GELU };
/* Output of a product: y = activation(x w^T + bias), or y += activation(x w^T + bias) with `accumulate`. */
struct gemm_out {
    const float *bias; /* NULL: none */
    void *y;
    long ldy;
    int n, type; /* type: enum dtype of y */
    int accumulate, activation;
    /* window 0: row r of x gives row r of y. Otherwise the rows of x are ordered by window, and the result
     * is stored at the row's place on the grid (struct windows in ops.h). */
    int grid, padded, window;
};

struct gemm_args {
    const void *x, *w;
    struct gemm_out out;
    int m, k, parts; /* x is [m][parts][k]; k is a multiple of 8 */
};

/* An fp8 matrix that is written with its scales as bf16 or float numbers. */
struct widen_args {
    const void *w;
    struct scale_table scale;
    int rows, cols; /* cols: a multiple of 8 */
    void *out;
};

#ifdef __cplusplus
#define ALIGNED_64 alignas(64)
#else
#define ALIGNED_64 _Alignas(64)
#endif
/* TMA descriptor of a matrix: its address, its shape and the shape of a tile. */
struct tensor_map {
    ALIGNED_64 unsigned long long words[16];
};

enum { MOST_MATRICES = 3 };
/* Arguments of gemm_wgmma.cu: products of x with one to three matrices on Hopper. */
struct wgmma_args {
    struct tensor_map x, w[MOST_MATRICES];
    struct gemm_out out[MOST_MATRICES];
    int m, k, matrices;
    int paired; /* true: out[0] = silu(x w[0]^T) (x w[1]^T) */
    /* Order of the tiles. true: columns vary fastest, so that x is read from memory only once. false: rows
     * vary fastest, so that the weights are read only once. */
    int by_columns;
    const struct tensor_map *experts; /* [experts][3]: gate, up, down; NULL: no experts */
    int which;                        /* 0: gate and up (paired); 2: down */
    const int *first, *tiles;         /* as in struct grouped_args */
};

/* The matrices of one expert. Kernels use arrays of a layer's experts; in a decoding step, the shared expert
 * comes after the routed experts. */
struct expert_pointers {
    const void *gate, *up, *down;
};

/* Arguments of the products of all experts of a layer in one launch. Rows are ordered by expert. */
struct grouped_args {
    struct gemm_args g; /* m: all rows */
    const struct expert_pointers *pointers;
    int which;        /* 0 gate, 1 up, 2 down */
    const int *first; /* [experts + 1]: first row of each expert */
    const int *tiles; /* [0]: number of tiles; then one pair (expert, first row) per tile */
};

struct attention_args {
    const float *q;
    const void *k, *v; /* float or bf16 */
    float *out;
    long q_row, k_head, v_head, k_row, v_row, out_row;
    long q_batch, k_batch, v_batch, out_batch;            /* distance between two sequences, in numbers */
    int heads, group, dim_k, dim_v, nq, nk, base, window; /* group: query heads per key head */
    float scale;
    const float *rel_h, *rel_w; /* tables of relative positions [2 side - 1][dim_k]; NULL: none */
    int side;
    int warps; /* warps per query: 1 or 8 */
};

struct flash_args {
    const void *q, *k, *v; /* bf16 */
    void *out;
    int narrow;                 /* true: out is bf16; false: float */
    const float *rel_h, *rel_w; /* SAM's tables [2 side - 1][dim]; NULL: no bias */
    long q_row, q_head, q_batch, k_row, k_head, k_batch, v_row, v_head, v_batch, out_row, out_head, out_batch;
    int group, nq, nk, base, window, side, heads;
    float scale;
};

enum { MOST_EXPERTS = 65 };
/* The experts of one token: at most 64 routed experts, and the shared expert. */
struct expert_list {
    const void *gate[MOST_EXPERTS], *up[MOST_EXPERTS], *down[MOST_EXPERTS];
    float weight[MOST_EXPERTS];
    int first[MOST_EXPERTS + 1]; /* the hidden rows of expert e are first[e] .. first[e + 1] - 1 */
    int n;
    /* fp8: scales, and their layout without `v`. The down matrices can have different widths, so kernels
     * compute down_scale.across. */
    const float *gate_scales[MOST_EXPERTS], *up_scales[MOST_EXPERTS], *down_scales[MOST_EXPERTS];
    struct scale_table up_scale, down_scale;
};

struct byte_table {
    float value[256];
};

/* ---- rows (rows.cu) */

/* Arguments of the norm kernels. With `window`, the rows of y are ordered by window, and rows outside of
 * the grid are zeros. */
struct norm_args {
    const float *x, *w, *b; /* b NULL: RMS norm, which does not subtract the mean */
    void *y;
    long ldx, ldy;
    int rows, n, type; /* type: enum dtype of y */
    float eps;
    int grid, padded, window;
};

/* Same fields as struct place_heads in ops.h; the caches are bf16. */
struct place_args {
    const float *q, *k, *v, *q_norm, *k_norm, *cosine, *sine;
    float eps;
    int dims, interleaved, n, position, heads, kv_heads, dim, max_context;
    void *queries, *keys, *values;
};

/* ---- a decoding step (decode.cu) */

/* Data that changes with every step, in device memory. */
struct decode_state {
    int token, position; /* the token that is being decoded, and its position */
    int step;            /* tokens generated since decode_begin() */
    int ticket;          /* blocks of the head kernel that are done */
    int banned;          /* ids in `ban_list` */
    int pad[3];
    unsigned long long best; /* best token so far: score and id */
};

struct decode_rules { /* rule against repeated n-grams (sampling/ngram.h) */
    int n, window;
    int first; /* the first position to which the rule applies: 0, or the length of the prompt */
    int nallow;
    int allow[4];
};

struct rows_args { /* y = [w0; w1; w2] (norm(x)) + bias */
    struct decode_state *state;
    const float *x;
    const void *embed; /* [vocab][k]: x is the row of the token in this table; NULL: x is given */
    float *x_out;      /* with embed: receives x for the following kernels */
    const float *norm;
    float eps;
    int k, matrices;
    const void *w[3];
    const float *bias[3];
    int rows[3]; /* even */
    float *y;
    /* With embed, the last block finds the banned ids. */
    const int *sequence; /* [max_context + 1] */
    const struct decode_rules *rules;
    unsigned *ban_bits;
    int *ban_list;
    struct scale_table scale[3]; /* fp8 */
};

struct decode_attention_args {
    struct decode_state *state;
    const float *qkv; /* [heads][dim], [kv_heads][dim] keys, [kv_heads][dim] values */
    const float *q_norm, *k_norm;
    float eps, scale;
    const float *cosine, *sine; /* [positions][dims / 2] */
    int dims, interleaved;
    void *keys, *values; /* [kv_heads][max_context][dim], float or bf16 */
    int heads, kv_heads, max_context, window;
    int splits;   /* blocks per key head */
    int cluster;  /* number of blocks whose sums are added in shared memory: 8 or 1 */
    float *parts; /* [splits / cluster][heads][dim + 4]: sums, maximum, sum of weights, 2 unused */
    /* With several sequences, this is the result as bf16 [sequences][heads][dim], and splits and cluster are
     * 8 or 1. The caches are [sequences][kv_heads][max_context][dim]. NULL: one sequence. */
    unsigned short *narrow;
};

/* Latent attention (decode_latent.cu), of one sequence or a batch. Most numbers of a row of the cache, of its
 * first part and of a query; most splits. */
enum { LATENT_MOST_ROW = 576, LATENT_MOST_RANK = 512, LATENT_MOST_QUERY = 512, LATENT_MOST_SPLITS = 32 };
/* Columns of U per block; blocks per head that apply V; sequences of a batch per block of these kernels. */
enum { LATENT_COLUMNS = 64, LATENT_END_BLOCKS = 4, LATENT_GROUP = 8 };
/* The sizes for which latent_attend_wide is made, and its heads per block. */
enum { LATENT_WIDE_RANK = 512, LATENT_WIDE_ROPE = 64, LATENT_WIDE_HEADS = 4 };
/* latent_attend_tiles: heads per block, rows of the cache per tile, numbers from one row of a tile to the
 * next. */
enum { LATENT_TILE_HEADS = 16, LATENT_TILE_KEYS = 32 };
enum { LATENT_TILE_ROW = LATENT_WIDE_RANK + LATENT_WIDE_ROPE + 8 };
/* Rows of numbers, one row per sequence. A number is the sum of `parts` parts (at most PARTS_MOST). */
struct latent_rows_in {
    const float *x;
    long row, part_stride; /* numbers from one sequence, or part, to the next */
    int parts;
};
struct latent_args {
    struct decode_state *state; /* [sequences] */
    int sequences;
    struct latent_rows_in q;    /* [heads][nope + rope] */
    struct latent_rows_in kept; /* [rank + rope]: the row of the new token, before norm and rotation */
    const float *norm;          /* [rank] */
    float eps, scale;
    const float *cosine, *sine; /* [positions][rope / 2] */
    int interleaved;
    const void *kv_b; /* [heads][nope + value][rank] */
    void *cache;      /* [sequences][max_context][rank + rope] */
    int narrow_cache; /* true: the cache is bf16; false: float */
    int heads, nope, value, rank, rope, splits, max_context;
    float *absorbed; /* [sequences][heads][rank + rope] */
    float *sums;     /* [sequences][splits][heads][rank + 2]: sums, maximum, sum of weights */
    float *parts;    /* one sequence: [heads][value + 4], the input of `out` */
    /* a batch: the result as bf16 [sequences][heads][value]; NULL: one sequence */
    unsigned short *narrow;
};

struct out_args { /* y = x + w (sum of parts) + bias, and the router's logits */
    const float *x, *parts;
    int nparts, heads, dim;
    const void *w;
    const float *bias;
    int rows;
    float *y;
    const void *router; /* [experts][rows]; NULL: none */
    const float *norm;  /* norm of the router's input */
    long long *logits;  /* [experts], fixed point, before the division by the root mean square */
    int experts;
    int prefetch;             /* true: the weights are copied to the L2 cache before the wait for attention */
    struct scale_table scale; /* fp8 */
};

/* Scales of the fp8 matrices of one expert. Their layout is in struct mlp_args. */
struct expert_scales {
    const float *gate, *up, *down;
};

struct mlp_args {
    const float *x; /* [hidden] */
    const float *norm;
    float eps;
    int hidden, inner;
    /* experts 0: dense layer. shared: the shared expert has `shared` times `inner` rows */
    int experts, k, shared;
    int groups, groups_kept; /* groups 1: every expert can be chosen */
    int normalise;
    float scale;
    const long long *logits;
    const struct expert_pointers *pointers; /* [experts + 1]; dense: [1] */
    float *h;                               /* [k + shared][inner] */
    float *y;                               /* [hidden] */
    /* fp8: [experts + 1] as `pointers`, and the layout of the scales; `v` is not used. shared_down: of the
     * shared expert, which has more columns. */
    const struct expert_scales *scales;
    struct scale_table up_scale, down_scale, shared_down;
};

struct head_args {
    struct decode_state *state;
    const float *x, *norm;
    float eps;
    int hidden, vocab;
    const void *w;
    float *logits;
    unsigned *ban_bits;
    int *ban_list;
    int *sequence;
    int *out;          /* host memory; receives one token per step */
    long long *router; /* router logits of all layers; the head clears them for the next step */
    int router_n;
};

/* ---- decoding steps of several sequences (decode_batch.cu) */
enum { BATCH_MOST = 32 };

struct batch_pick_args {
    const float *logits; /* [batch][vocab] */
    int vocab, max_context, steps;
    struct decode_state *state; /* [batch]: position and step */
    int *tokens;                /* [batch] */
    int *out;                   /* host memory [steps][BATCH_MOST] */
};

/* ---- products of such steps (skinny.cu) */
/* The columns are divided into at most PARTS_MOST slices, whose sums the next kernel adds. */
enum { PARTS_MOST = 4 };

struct skinny_args {                       /* y[batch][all_rows] = x [w0; w1; w2]^T + bias */
    struct tensor_map x, w[MOST_MATRICES]; /* paired: w[0] has both matrices */
    const float *bias[MOST_MATRICES];
    int rows[MOST_MATRICES], first_row[MOST_MATRICES], first_tile[MOST_MATRICES];
    int matrices, batch, all_rows, tiles;
    /* steps: of SKINNY_STEP columns of bf16, or twice as many of fp8; stages: of the ring */
    int steps, slices, tasks, stages;
    float *y; /* [slices][batch][all_rows] */
    long slice_stride;
    int paired;                              /* true: narrow[batch][rows] = silu(x w0^T) (x w1^T) */
    int swapped;                             /* paired: w1 comes first in w[0] */
    void *narrow;                            /* bf16 */
    struct scale_table scale[MOST_MATRICES]; /* fp8 */
};

struct skinny_norm_args { /* x += the parts; y = norm(x) */
    float *x;             /* [batch][n]; NULL: y is the norm of the sum of the parts */
    const float *parts;   /* [nparts][batch][part_row], of which the first n numbers of each row are used */
    int nparts, n;        /* n: a multiple of 4, at most 8192 */
    long part_row, part_stride;
    const float *w;
    float eps;
    void *y; /* bf16 [batch][n] */
};

struct decode_attention_parts_args { /* usual.qkv is the sum of `parts` parts, `stride` numbers apart */
    struct decode_attention_args usual;
    int parts; /* at most PARTS_MOST */
    long stride;
};

#endif
