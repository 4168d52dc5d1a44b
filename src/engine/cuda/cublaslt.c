#include "engine/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"

enum {
    LT_FLOAT = 0, /* CUDA_R_32F */
    LT_F16 = 2,
    LT_BF16 = 14,
    LT_COMPUTE_FLOAT = 68,
    LT_TRANSPOSE_A = 3, /* attributes of a product */
    LT_EPILOGUE = 7,
    LT_BIAS_POINTER = 8,
    LT_TRANSPOSED = 1,
    LT_WITH_BIAS = 4,     /* value of LT_EPILOGUE */
    LT_MOST_WORKSPACE = 1 /* attribute of a preference */
};
#define WORKSPACE_BYTES ((size_t)32 << 20)
#define MOST_SHAPES 256 /* that are kept */

struct lt_algorithm { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

/* X(name in our table, name in the library, parameters). All functions return an error number. */
#define LT_CALLS(X)                                                                                          \
    X(create, cublasLtCreate, (void **handle))                                                               \
    X(destroy, cublasLtDestroy, (void *handle))                                                              \
    X(product_create, cublasLtMatmulDescCreate, (void **product, int compute, int scale))                    \
    X(product_set, cublasLtMatmulDescSetAttribute,                                                           \
      (void *product, int attribute, const void *value, size_t bytes))                                       \
    X(product_destroy, cublasLtMatmulDescDestroy, (void *product))                                           \
    X(layout_create, cublasLtMatrixLayoutCreate,                                                             \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                            \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, (void *layout))                                           \
    X(preference_create, cublasLtMatmulPreferenceCreate, (void **preference))                                \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                  \
      (void *preference, int attribute, const void *value, size_t bytes))                                    \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, (void *preference))                               \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                                                \
      (void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, int wanted,        \
       struct lt_algorithm *out, int *found))                                                                \
    X(run, cublasLtMatmul,                                                                                   \
      (void *handle, void *product, const void *alpha, const void *a, void *la, const void *b, void *lb,     \
       const void *beta, const void *c, void *lc, void *d, void *ld, const void *algorithm, void *workspace, \
       size_t workspace_bytes, cu_stream stream))

struct shape {
    enum dtype type, to;
    int m, n, k;
    long ldy;
    bool bias;
};
/* A bias as bf16. The library adds biases of the type of the output. */
struct narrow_bias {
    const float *from;
    void *there;
};
/* The library's matrices are column-major: y^T[n, m] = w[n, k] x^T[k, m]. */
struct plan {
    struct shape shape;
    void *product, *w, *x, *y;
    struct lt_algorithm best;
    bool found; /* false: the library has no kernel */
};

struct cublaslt {
#define X(name, symbol, parameters) int(*name) parameters;
    LT_CALLS(X)
#undef X
    void *handle;
    cu_ptr workspace;
    struct {
        struct narrow_bias *v;
        size_t n, cap;
    } biases;
    struct {
        struct plan *v;
        size_t n, cap;
    } plans;
};

static bool load(struct cublaslt *lt) {
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
    static const struct {
        const char *symbol;
        size_t at;
    } symbols[] = {
#define X(name, symbol, parameters) { #symbol, offsetof(struct cublaslt, name) },
        LT_CALLS(X)
#undef X
    };
    void *library = NULL;
    for (size_t i = 0; i < COUNTOF(names) && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < COUNTOF(symbols); i++) {
        void *f = dlsym(library, symbols[i].symbol);
        if (!f) return false;
        memcpy((char *)lt + symbols[i].at, &f, sizeof f);
    }
    return library;
}

struct cublaslt *cublaslt_open(void) {
    struct cublaslt *lt = xcalloc(1, sizeof *lt);
    if (load(lt) && lt->create(&lt->handle) == 0) return lt;
    free(lt);
    return NULL;
}

static void forget_plans(struct cublaslt *lt) {
    for (size_t i = 0; i < lt->plans.n; i++) {
        struct plan *p = &lt->plans.v[i];
        void *const layouts[] = { p->w, p->x, p->y };
        for (size_t j = 0; j < COUNTOF(layouts); j++)
            if (layouts[j]) lt->layout_destroy(layouts[j]);
        if (p->product) lt->product_destroy(p->product);
    }
    lt->plans.n = 0;
}

void cublaslt_close(struct cublaslt *lt, struct cuda *c) {
    if (!lt) return;
    forget_plans(lt);
    if (lt->workspace) c->d->mem_free(lt->workspace);
    lt->destroy(lt->handle);
    free(lt->plans.v);
    free(lt->biases.v);
    free(lt);
}

static int lt_type(enum dtype t) { return t == DTYPE_F32 ? LT_FLOAT : t == DTYPE_F16 ? LT_F16 : LT_BF16; }

static void find_kernel(struct cublaslt *lt, struct plan *p) {
    const struct shape *s = &p->shape;
    int transposed = LT_TRANSPOSED, type = lt_type(s->type), with_bias = LT_WITH_BIAS, found = 0;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    size_t room = WORKSPACE_BYTES;
    void *preference = NULL;
    if (lt->product_create(&p->product, LT_COMPUTE_FLOAT, LT_FLOAT) == 0 &&
        lt->product_set(p->product, LT_TRANSPOSE_A, &transposed, sizeof transposed) == 0 &&
        (!s->bias || lt->product_set(p->product, LT_EPILOGUE, &with_bias, sizeof with_bias) == 0) &&
        lt->layout_create(&p->w, type, k, n, s->k) == 0 && lt->layout_create(&p->x, type, k, m, s->k) == 0 &&
        lt->layout_create(&p->y, lt_type(s->to), n, m, s->ldy) == 0 &&
        lt->preference_create(&preference) == 0 &&
        lt->preference_set(preference, LT_MOST_WORKSPACE, &room, sizeof room) == 0 &&
        lt->choose(lt->handle, p->product, p->w, p->x, p->y, p->y, preference, 1, &p->best, &found) == 0)
        p->found = found > 0 && p->best.state == 0 && p->best.workspace_bytes <= room;
    if (preference) lt->preference_destroy(preference);
}

static struct plan *plan_of(struct cublaslt *lt, const struct shape *s) {
    for (size_t i = 0; i < lt->plans.n; i++) {
        const struct shape *o = &lt->plans.v[i].shape;
        if (o->type == s->type && o->to == s->to && o->m == s->m && o->n == s->n && o->k == s->k &&
            o->ldy == s->ldy && o->bias == s->bias)
            return &lt->plans.v[i];
    }
    if (lt->plans.n == MOST_SHAPES) forget_plans(lt);
    struct plan fresh = { .shape = *s };
    find_kernel(lt, &fresh);
    vec_push(&lt->plans, fresh);
    return &lt->plans.v[lt->plans.n - 1];
}

static const void *bias_of(struct cuda *c, const struct gemm_out *out) {
    struct cublaslt *lt = c->lt;
    if (out->type == DTYPE_F32) return out->bias;
    for (size_t i = 0; i < lt->biases.n; i++)
        if (lt->biases.v[i].from == out->bias) return lt->biases.v[i].there;
    struct narrow_bias b = { out->bias, (void *)(uintptr_t)cuda_memory(c, (size_t)out->n * 2) };
    long width = out->n;
    int rows = 1, n = out->n, aligned = (uintptr_t)out->bias % 16 == 0, parts = 1;
    if (!b.there) return NULL;
    LAUNCH(c, convert_bf16, cuda_rows_grid(1, (size_t)n / 8), &b.from, &width, &rows, &n, &aligned, &parts,
           &b.there);
    vec_push(&lt->biases, b);
    return b.there;
}

bool cublaslt_run(struct cuda *c, enum dtype type, const void *x, const void *w, const struct gemm_out *out,
                  int m, int k) {
    struct cublaslt *lt = c->lt;
    struct shape s = { type, (enum dtype)out->type, m, out->n, k, out->ldy, out->bias };
    float one = 1, beta = out->accumulate ? 1 : 0;
    if (!lt || c->failed || out->activation != ACTIVATE_NONE || out->window) return false;
    if (out->bias && (out->n % 8 || out->type == DTYPE_F16)) return false;
    struct plan *p = plan_of(lt, &s);
    if (!p->found) return false;
    if (!lt->workspace && c->d->mem_alloc(&lt->workspace, WORKSPACE_BYTES) != CU_OK) {
        lt->workspace = 0;
        return false;
    }
    const void *bias = out->bias ? bias_of(c, out) : NULL;
    if (out->bias && (!bias || lt->product_set(p->product, LT_BIAS_POINTER, &bias, sizeof bias) != 0))
        return false;
    cuda_stamps_library(c);
    int rc = lt->run(lt->handle, p->product, &one, w, p->w, x, p->x, &beta, out->y, p->y, out->y, p->y,
                     p->best.algorithm, (void *)(uintptr_t)lt->workspace, WORKSPACE_BYTES, c->stream);
    if (rc != 0) p->found = false;
    return rc == 0;
}
