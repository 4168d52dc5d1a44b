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
    /* type of a cache's numbers; other tensors contain floats, and a matrix states its own type */
    enum dtype type;
    const void *host; /* wrapped memory; else NULL */
};

/* X(kernel, file). decode.c looks up the kernels of decode.cu by name. */
/* clang-format off */
#define TYPED(X, name, file) X(name##_f32, file) X(name##_bf16, file) X(name##_f16, file)
#define CUDA_KERNELS(X) \
    X(rmsnorm, operators) X(layernorm, operators) X(gelu, operators) X(quick_gelu, operators) \
    X(silu_mul, operators) X(add, operators) TYPED(X, embed, operators) X(rope, operators) \
    X(cache_store_f32, operators) \
    X(cache_store_bf16, operators) X(copy_rows, operators) X(gather_rows, operators) \
    X(scatter_add, operators) X(planes_last, operators) X(window_copy, operators) X(unfold, operators) \
    X(resample_grid, operators) X(resample_rows, operators) X(route, operators) \
    TYPED(X, few_rows, linear) TYPED(X, experts_up, linear) TYPED(X, experts_down, linear) \
    TYPED(X, latent_query, linear) TYPED(X, latent_value, linear) X(latent_expand, linear) \
    X(convert_bf16, gemm) X(convert_f16, gemm) X(gemm_bf16, gemm) X(gemm_f16, gemm) \
    X(gemm_small_bf16, gemm) X(gemm_small_f16, gemm) \
    TYPED(X, gemm_any, gemm) X(attention_f32, attention) X(attention_bf16, attention) \
    X(rel_bias, attention) X(flash_64, attention) X(flash_128, attention) X(group_choices, experts) \
    TYPED(X, gather, experts) TYPED(X, silu_convert, experts) X(combine, experts) \
    X(gemm_grouped_bf16, gemm) X(gemm_grouped_f16, gemm)
/* clang-format on */
enum kernel_id {
#define X(name, file) KERNEL_##name,
    CUDA_KERNELS(X)
#undef X
        KERNEL_COUNT
};
enum module_id {
    MODULE_operators,
    MODULE_linear,
    MODULE_gemm,
    MODULE_attention,
    MODULE_decode,
    MODULE_decode_attention,
    MODULE_experts,
    MODULE_COUNT
};

enum scratch_id {
    SCRATCH_CONVERTED,
    SCRATCH_UNFOLDED,
    SCRATCH_BIAS,
    SCRATCH_INDEX,
    SCRATCH_HIDDEN,
    SCRATCH_GROUPS,
    SCRATCH_GATE,
    SCRATCH_UP,
    SCRATCH_COUNT
};

struct block { /* of device memory */
    cu_ptr data;
    size_t bytes;
    bool used;
};

struct known_experts {
    const struct expert *experts;
    void *there; /* struct expert_pointers [n] */
};

struct cuda {
    const struct driver *d;
    int device, sms;
    bool hopper; /* the machine code for Hopper is used: clusters and dependent launches are available */
    bool exact;  /* products have the accuracy of float, at twice the work */
    char name[96], about[96];
    cu_stream stream;
    cu_module modules[MODULE_COUNT];
    cu_function kernels[KERNEL_COUNT];
    struct {
        struct block *v;
        size_t n, cap;
    } blocks;
    struct {
        cu_ptr *v;
        size_t n, cap;
    } arenas; /* of weights */
    struct {
        struct known_experts *v;
        size_t n, cap;
    } known; /* pointers to the experts of each layer, in device memory */
    cu_ptr arena;
    size_t arena_left, pending; /* pending: bytes of tensors that are wrapped but not committed */
    struct tensor *scratch[SCRATCH_COUNT];
    enum dtype last_type; /* type of the last linear layer's weights; attention uses the same precision */
    bool failed;
    struct err err;
};

/* Checks the result of a driver call. After the first failure, operators do nothing until check() reports
 * it. */
bool cuda_ok(struct cuda *c, int rc, const char *what);
cu_ptr cuda_memory(struct cuda *c, size_t bytes); /* 0: failed */
void cuda_memory_free(struct cuda *c, cu_ptr p);
void *cuda_scratch(struct cuda *c, enum scratch_id id, size_t bytes);

struct cuda_grid {
    size_t x, y, z;
    unsigned threads, shared_bytes;
};
void cuda_launch(struct cuda *c, enum kernel_id id, struct cuda_grid g, void **params);
#define LAUNCH(c, id, grid, ...)                          \
    do {                                                  \
        void *launch_params[] = { __VA_ARGS__ };          \
        cuda_launch(c, KERNEL_##id, grid, launch_params); \
    } while (0)
#define GRID(...) ((struct cuda_grid){ __VA_ARGS__ })

static inline void *pointer_of(const struct tensor *t) { return t ? (void *)(uintptr_t)t->data : NULL; }
static inline float *view_pointer(struct view v) {
    return v.tensor ? (float *)(uintptr_t)v.tensor->data + v.at : NULL;
}

const char *cuda_experts_many(void *context, const struct expert *experts, const struct routing *r,
                              struct view logits, struct view x, int m, int hidden, struct view y);

extern const struct ops_backend cuda_backend;
extern const struct ops_decode_calls cuda_decode_calls;

#endif
