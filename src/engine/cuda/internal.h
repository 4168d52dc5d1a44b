/* Internal to the files of the CUDA backend. */
#ifndef ENGINE_CUDA_INTERNAL_H
#define ENGINE_CUDA_INTERNAL_H

#include "base/err.h"
#include "base/util.h"
#include "driver/cuda.h"
#include "engine/cuda/kernel_args.h"
#include "engine/ops/ops.h"

struct tensor {
    cu_ptr data; /* 0: the allocation failed or was not made yet */
    size_t bytes;
    /* type of the numbers of caches and activations; for weights, see struct matrix */
    enum dtype type;
    const void *host; /* wrapped memory; else NULL */
};

/* X(kernel, file). Not listed: the kernels of decode.cu, decode_attention.cu and persistent.cu, which
 * decode.c and persistent.c look up by name. */
/* clang-format off */
#define TYPED(X, name, file) X(name##_f32, file) X(name##_bf16, file) X(name##_f16, file)
#define CUDA_KERNELS(X) \
    X(rmsnorm, operators) X(layernorm, operators) X(gelu, operators) X(quick_gelu, operators) \
    X(silu_mul, operators) X(add, operators) TYPED(X, embed, operators) X(rope, operators) \
    X(cache_store_f32, operators) X(cache_store_bf16, operators) X(cache_load_f32, operators) \
    X(cache_load_bf16, operators) X(copy_rows, operators) X(gather_rows, operators) \
    X(scatter_add, operators) X(planes_last, operators) X(window_copy, operators) X(unfold_f32, operators) \
    X(unfold_f32_bf16, operators) X(unfold_bf16, operators) X(unfold_channels, operators) \
    X(resample_grid, operators) X(resample_rows, operators) X(route, operators) \
    X(norm_1024, rows) X(norm_2048, rows) X(norm_8192, rows) X(silu_mul_bf16, rows) \
    X(place_heads, rows) X(map_bytes, rows) X(nothing, rows) \
    TYPED(X, few_rows, linear) X(few_rows_f8_e4m3, linear) TYPED(X, one_row, linear) \
    TYPED(X, experts_up, linear) X(experts_up_f8_e4m3, linear) \
    TYPED(X, experts_down, linear) X(experts_down_f8_e4m3, linear) \
    TYPED(X, latent_query, linear) TYPED(X, latent_value, linear) X(latent_expand, linear) \
    X(convert_bf16, gemm) X(convert_f16, gemm) X(widen_bf16, gemm) X(widen_f32, gemm) \
    X(gemm_bf16, gemm) X(gemm_f16, gemm) X(gemm_small_bf16, gemm) X(gemm_small_f16, gemm) \
    TYPED(X, gemm_any, gemm) X(attention_f32, attention) X(attention_bf16, attention) \
    X(flash_64, flash) X(flash_128, flash) X(flash_grid_16, flash) X(flash_grid_32, flash) \
    X(flash_grid_40, flash) X(flash_grid_64, flash) X(flash_grid_80, flash) X(group_choices, experts) \
    TYPED(X, gather, experts) X(gather_narrow, experts) TYPED(X, silu_convert, experts) X(combine, experts) \
    X(gemm_grouped_bf16, gemm) X(gemm_grouped_f16, gemm) \
    X(wgmma_bf16_128, gemm_wgmma) X(wgmma_bf16_256, gemm_wgmma) X(wgmma_f16_128, gemm_wgmma) \
    X(wgmma_f16_256, gemm_wgmma)
/* clang-format on */
enum kernel_id {
#define X(name, file) KERNEL_##name,
    CUDA_KERNELS(X)
#undef X
        KERNEL_COUNT
};
/* The files of kernels (*.cu). */
/* clang-format off */
#define CUDA_MODULES(X) \
    X(operators) X(rows) X(linear) X(gemm) X(gemm_wgmma) X(attention) X(flash) X(decode) X(decode_attention) \
    X(decode_batch) X(decode_latent) X(experts) X(persistent)
/* clang-format on */
enum module_id {
#define X(file) MODULE_##file,
    CUDA_MODULES(X)
#undef X
        MODULE_COUNT, /* the others are loaded when they are used (skinny.c) */
    MODULE_skinny = MODULE_COUNT,
    MODULE_decode_attention_parts,
    MODULE_ALL
};

enum scratch_id {
    SCRATCH_CONVERTED,
    SCRATCH_UNFOLDED,
    SCRATCH_INDEX,
    SCRATCH_HIDDEN,
    SCRATCH_GROUPS,
    SCRATCH_GATE,
    SCRATCH_UP,
    SCRATCH_WIDE, /* copies of fp8 matrices */
    SCRATCH_COUNT = SCRATCH_WIDE + MOST_MATRICES
};

struct block { /* of device memory */
    cu_ptr data;
    size_t bytes;
    bool used;
};

struct host_block { /* a block of pinned host memory */
    void *data;
    size_t bytes;
    bool used;
    cu_ptr there; /* copy of the first `sent` bytes in device memory; 0: none */
    size_t sent;
};

struct wide_experts;
struct known_experts {
    const struct expert *experts;
    struct wide_experts *wide; /* of fp8 experts: `there` and `maps` are those of the copy; else NULL */
    void *there;               /* struct expert_pointers [n] */
    void *maps;                /* struct tensor_map [n][3]; NULL: not made yet */
};

/* A kernel that the host waited for: its time on the device is between the two times of the host. */
struct stamp_pair {
    uint64_t before_ns, after_ns;
};

struct cuda {
    const struct driver *d;
    int device, sms;
    bool hopper; /* the machine code for Hopper is used: clusters and dependent launches are available */
    /* float caches; in bf16 products, activations have 16 bits of mantissa, at twice the work */
    bool exact;
    bool wgmma;          /* products of 16-bit weights use gemm_wgmma.cu, unless `exact`; requires `hopper` */
    struct cublaslt *lt; /* NULL: products do not use cuBLASLt */
    int shared_bytes;    /* largest shared memory of a block */
    char name[96], about[96], uuid[DRIVER_UUID_MAX];
    cu_stream stream;
    cu_module modules[MODULE_ALL]; /* NULL: not loaded */
    cu_function kernels[KERNEL_COUNT];
    struct {
        struct block *v;
        size_t n, cap;
    } blocks;
    struct {
        cu_ptr *v;
        size_t n, cap;
    } arenas; /* memory of the weights */
    struct {
        struct known_experts *v;
        size_t n, cap;
    } known; /* pointers to the experts of each layer, in device memory */
    struct {
        struct host_block *v;
        size_t n, cap;
    } host;
    cu_ptr wide; /* copies of fp8 experts (fp8.c) */
    size_t wide_bytes;
    cu_ptr arena;
    size_t arena_left, pending; /* pending: bytes of tensors that are wrapped but not committed */
    struct tensor *scratch[SCRATCH_COUNT];
    /* type of the weights of the last linear layer; DTYPE_F32: attention also uses float arithmetic */
    enum dtype last_type;
    struct {
        bool on;
        unsigned count; /* kernels launched since the last cuda_stamps_take() */
        bool ended;     /* the last kernel stores its end */
        cu_ptr memory;  /* 0: not allocated yet */
        uint64_t *times;
        struct stamp_pair pair[3]; /* of the first kernels since then */
        struct {
            unsigned *v;
            size_t n, cap;
        } library; /* which of the `count` kernels are a library's and begin where the previous one ends */
    } stamps;
    struct {
        cu_event *v;
        size_t n, cap;
        size_t used; /* events that mark a time */
    } events;
    bool failed;
    bool out_of_memory; /* the failure: after the request the device can be used again */
    struct err err;
};

/* Returns true if rc, the result of a driver call, is success. After the first failure, operators do
 * nothing, and check() reports the error. */
bool cuda_ok(struct cuda *c, int rc, const char *what);
cu_ptr cuda_memory(struct cuda *c, size_t bytes); /* 0: failed */
/* Allocates memory that cuda_memory() does not manage. If there is too little, first frees the blocks that
 * cuda_memory() keeps for reuse. Not while the stream captures. */
int cuda_alloc(struct cuda *c, cu_ptr *p, size_t bytes);
void cuda_memory_free(struct cuda *c, cu_ptr p);
void *cuda_scratch(struct cuda *c, enum scratch_id id, size_t bytes);

struct cuda_grid {
    size_t x, y, z;
    unsigned threads, shared_bytes;
};
void cuda_launch(struct cuda *c, enum kernel_id id, struct cuda_grid g, void **params);
/* Does the same for kernels that are not in CUDA_KERNELS. The kernel's parameter is the struct `args`, and
 * `cluster` neighbouring blocks form a cluster. */
void cuda_launch_named(struct cuda *c, enum module_id module, const char *name, struct cuda_grid g,
                       int cluster, void *args);
#define LAUNCH(c, id, grid, ...)                          \
    do {                                                  \
        void *launch_params[] = { __VA_ARGS__ };          \
        cuda_launch(c, KERNEL_##id, grid, launch_params); \
    } while (0)
#define GRID(...) ((struct cuda_grid){ __VA_ARGS__ })

static inline void *pointer_of(const struct tensor *t) { return t ? (void *)(uintptr_t)t->data : NULL; }
static inline void *view_address(struct view v) { /* address in a tensor of any type */
    return v.tensor ? (char *)(uintptr_t)v.tensor->data + v.at * dtype_bytes(v.tensor->type) : NULL;
}
/* address in a tensor of floats */
static inline float *view_pointer(struct view v) { return view_address(v); }
static inline bool is_narrow(struct view v) { return v.tensor && v.tensor->type == DTYPE_BF16; }

enum { CUDA_THREADS = 256, CUDA_FEW_ROWS = 8, GEMM_TILE = 128, GEMM_SHARED = 3 * 2 * GEMM_TILE * 64 * 2 };

static inline size_t cuda_blocks(size_t items) {
    return MIN((items + CUDA_THREADS - 1) / CUDA_THREADS, (size_t)1 << 16);
}
/* Rows are divided over blockIdx.y (at most 65535, so kernels loop), the n numbers of a row over the threads
 * of the blocks in x. */
static inline struct cuda_grid cuda_rows_grid(size_t rows, size_t n) {
    return (struct cuda_grid){ cuda_blocks(n), MIN(rows, (size_t)65535), .threads = CUDA_THREADS };
}
/* Kernels of one name are in the order f32, bf16, f16, f8_e4m3; not all have the last one. */
static inline enum kernel_id cuda_typed(enum kernel_id f32, enum dtype type) {
    return (enum kernel_id)((int)f32 + (type == DTYPE_F8_E4M3 ? 3 : (int)type));
}

/* Allocates memory and copies to it; waits for the copy. NULL: failed. */
void *cuda_upload(struct cuda *c, const void *from, size_t bytes);
void cuda_copy_in(struct cuda *c, void *to, const void *from, size_t bytes);
void cuda_copy_out(struct cuda *c, void *to, const void *from, size_t bytes);
/* Converts x[m, k] to 16-bit numbers [m][parts][k] in SCRATCH_CONVERTED. */
void *cuda_converted(struct cuda *c, enum dtype type, struct view x, ptrdiff_t ldx, int m, int k, int parts);
bool cuda_has_wgmma(const struct cuda *c, enum dtype type);
void cuda_tensor_map(struct cuda *c, struct tensor_map *map, enum dtype type, const void *data, int rows,
                     int cols);
/* The caller has set the maps and outputs of `a`. */
void cuda_run_wgmma(struct cuda *c, enum dtype type, struct wgmma_args *a);

struct decode_plan;
struct decode_span;
/* Times of kernels (stamps.c). start() makes the kernels store the time at which they have their inputs. */
void cuda_stamps_start(void *context);
void cuda_stamps_stop(void *context);
size_t cuda_stamps_mark(void *context);
/* Waits for the device. *ns receives the times since the last call, in ns of clock_wall_ns(): the start of
 * each kernel, and then the end of the last kernel. Returns their number; of very many kernels, only the
 * first ones have a time. They are valid until the next call. */
size_t cuda_stamps_take(void *context, const uint64_t **ns);
/* Called before a kernel of a library is launched: makes sure that its start is known. */
void cuda_stamps_library(struct cuda *c);
/* Called after kernels were loaded late: they store their times too, if the others do. */
void cuda_stamps_loaded(struct cuda *c);

/* A part of a decoding step: one kernel, or several ones up to the next part. */
struct step_part {
    const char *name, *kernel;
    enum dtype type; /* of the weights, or of the cache in attention */
    size_t at;       /* index of its first time among those of the step */
};
struct stamped_steps {
    size_t first; /* cuda_stamps_mark() before the first step */
    size_t steps;
    const struct step_part *parts; /* [nparts] */
    size_t nparts, times, end;     /* times per step; index of the end of the last part */
};
/* Does what ops_decode_calls.spans does, for these steps. */
size_t cuda_stamps_spans(struct cuda *c, const struct stamped_steps *s, struct decode_span **spans);
/* Returns the starts of all kernels, and their number in *count. own[n], ends[n]: what own kernels stored;
 * at[m]: which kernels are a library's. */
uint64_t *cuda_stamps_merge(const uint64_t *own, const uint64_t *ends, size_t n, const unsigned *at, size_t m,
                            size_t *count);

/* Returns true if cuda_experts_many() can run these experts: all of their matrices have one 16-bit or fp8
 * type. */
bool cuda_experts_alike(const struct expert *experts, int n, int hidden);
const char *cuda_experts_many(void *context, const struct expert *experts, const struct routing *r,
                              struct view logits, struct view x, int m, int hidden, struct view y);

extern const struct ops_backend cuda_backend;
extern const struct ops_decode_calls cuda_decode_calls;
extern const struct ops_batch_calls cuda_batch_calls;
struct decode_layer;
/* The arguments that follow from the plan. The caller sets state, qkv, splits and cluster, and parts or
 * narrow. */
struct decode_attention_args cuda_attention_args(const struct decode_plan *p, const struct decode_layer *l);

#endif
