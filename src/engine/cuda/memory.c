/* Opens a GPU, manages its memory and launches kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/embed.h"
#include "base/vec.h"
#include "engine/cuda/cublaslt.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/internal.h"

#define OLDEST_CUDA 12000 /* CUDA version of the oldest driver that runs the kernels: 12.0 */

static const char *const files[MODULE_COUNT] = {
#define X(file) #file,
    CUDA_MODULES(X)
#undef X
};
static const struct {
    const char *name;
    enum module_id module;
} kernels[KERNEL_COUNT] = {
#define X(name, file) { #name, MODULE_##file },
    CUDA_KERNELS(X)
#undef X
};

bool cuda_ok(struct cuda *c, int rc, const char *what) {
    const char *name = "unknown error", *text = "";
    if (rc == CU_OK) return true;
    if (c->failed) return false;
    c->failed = true;
    c->out_of_memory = rc == CU_OUT_OF_MEMORY;
    c->d->error_name(rc, &name);
    c->d->error_text(rc, &text);
    if (rc == CU_OUT_OF_MEMORY)
        err_set(&c->err,
                "%s: out of memory (%s): choose a smaller batch or max_context, end other programs on this "
                "GPU, or "
                "use another device",
                c->name, what);
    else
        err_set(&c->err, "%s: %s failed with %s (%s)", c->name, what, name, text);
    return false;
}

/* ---- memory. Freed blocks are kept and reused. This is safe because the stream runs in order. */
static size_t rounded(size_t bytes) {
    size_t to = bytes < (1u << 20) ? 512 : 1u << 20;
    return (MAX(bytes, (size_t)1) + to - 1) / to * to;
}

/* Gives the freed blocks back to the driver. Returns false if there are none, or if the device failed. */
static bool release_blocks(struct cuda *c) {
    size_t kept = 0, n = c->blocks.n;
    if (c->d->stream_wait(c->stream) != CU_OK) return false;
    for (size_t i = 0; i < n; i++)
        if (c->blocks.v[i].used)
            c->blocks.v[kept++] = c->blocks.v[i];
        else
            c->d->mem_free(c->blocks.v[i].data);
    c->blocks.n = kept;
    return kept < n;
}

int cuda_alloc(struct cuda *c, cu_ptr *p, size_t bytes) {
    int rc = c->d->mem_alloc(p, bytes);
    return rc == CU_OUT_OF_MEMORY && release_blocks(c) ? c->d->mem_alloc(p, bytes) : rc;
}

cu_ptr cuda_memory(struct cuda *c, size_t bytes) {
    struct block *best = NULL, fresh = { .bytes = rounded(bytes), .used = true };
    for (size_t i = 0; i < c->blocks.n; i++) {
        struct block *b = &c->blocks.v[i];
        if (!b->used && b->bytes >= bytes && b->bytes <= 2 * fresh.bytes && (!best || b->bytes < best->bytes))
            best = b;
    }
    if (best) {
        best->used = true;
        return best->data;
    }
    if (c->failed || !cuda_ok(c, cuda_alloc(c, &fresh.data, fresh.bytes), "allocating memory")) return 0;
    vec_push(&c->blocks, fresh);
    return fresh.data;
}

void cuda_memory_free(struct cuda *c, cu_ptr p) {
    for (size_t i = 0; p && i < c->blocks.n; i++)
        if (c->blocks.v[i].data == p) c->blocks.v[i].used = false;
}

void *cuda_scratch(struct cuda *c, enum scratch_id id, size_t bytes) {
    struct tensor *t = c->scratch[id];
    if (!t) t = c->scratch[id] = xcalloc(1, sizeof *t);
    if (bytes > t->bytes || !t->data) {
        cuda_memory_free(c, t->data);
        t->bytes = bytes + bytes / 4;
        t->data = cuda_memory(c, t->bytes);
    }
    return pointer_of(t);
}

/* ---- launches */
/* Kernels that store their end (end_kernel() in common.cuh): those before products of a library. */
static bool has_end(enum kernel_id id) {
    return (id >= KERNEL_norm_1024 && id <= KERNEL_norm_8192) ||
           (id >= KERNEL_flash_64 && id <= KERNEL_flash_grid_80) ||
           (id >= KERNEL_wgmma_bf16_128 && id <= KERNEL_wgmma_f16_256);
}

void cuda_launch(struct cuda *c, enum kernel_id id, struct cuda_grid g, void **params) {
    struct cu_launch l = { .grid_x = (unsigned)MIN(g.x, (size_t)0x7fffffff),
                           .grid_y = (unsigned)MAX(g.y, (size_t)1),
                           .grid_z = (unsigned)MAX(g.z, (size_t)1),
                           .block_x = g.threads,
                           .block_y = 1,
                           .block_z = 1,
                           .shared_bytes = g.shared_bytes,
                           .stream = c->stream };
    struct cu_attribute early = { .id = CU_LAUNCH_DEPENDENT };
    early.value.dependent = 1;
    if (c->hopper) { /* may start before the previous kernel has ended, see begin_kernel() */
        l.attrs = &early;
        l.nattrs = 1;
    }
    if (c->failed || g.x == 0) return;
    c->stamps.count++;
    c->stamps.ended = has_end(id);
    cuda_ok(c, c->d->launch(&l, c->kernels[id], params, NULL), kernels[id].name);
}

void cuda_launch_named(struct cuda *c, enum module_id module, const char *name, struct cuda_grid g,
                       int cluster, void *args) {
    cu_function f;
    struct cu_attribute attrs[2] = { { .id = CU_LAUNCH_DEPENDENT }, { .id = CU_LAUNCH_CLUSTER } };
    attrs[0].value.dependent = 1;
    attrs[1].value.cluster.x = (unsigned)cluster;
    attrs[1].value.cluster.y = attrs[1].value.cluster.z = 1;
    struct cu_launch l = { .grid_x = (unsigned)g.x,
                           .grid_y = (unsigned)MAX(g.y, (size_t)1),
                           .grid_z = 1,
                           .block_x = g.threads,
                           .block_y = 1,
                           .block_z = 1,
                           .shared_bytes = g.shared_bytes,
                           .stream = c->stream,
                           .attrs = attrs,
                           .nattrs = c->hopper ? cluster > 1 ? 2 : 1 : 0 };
    void *params[] = { args };
    if (c->failed || !cuda_ok(c, c->d->module_function(&f, c->modules[module], name), name)) return;
    if (g.shared_bytes > 40 << 10 &&
        !cuda_ok(c, c->d->function_set(f, CU_FUNC_MAX_SHARED, (int)g.shared_bytes), name))
        return;
    c->stamps.count++;
    c->stamps.ended = module == MODULE_gemm_wgmma;
    cuda_ok(c, c->d->launch(&l, f, params, NULL), name);
}

/* ---- opening */
static const struct embed_file *kernel_file(enum module_id m) {
    char path[64];
    snprintf(path, sizeof path, "cuda/%s.fatbin", files[m]);
    return embed_find(path);
}

bool cuda_built(void) { return kernel_file(MODULE_operators) != NULL; }

static int not_built(struct err *err) {
    return err_set(err,
                   "CUDA: this program was built without nvcc, so it has no GPU kernels: install the CUDA "
                   "toolkit (nvcc) and build again, or use device=cpu");
}

/* Returns NULL if the driver cannot run the kernels; err contains the reason and a remedy. */
static const struct driver *load_driver(struct err *err) {
    struct err why;
    const struct driver *d = driver_load(&why);
    const char *missing = d ? driver_missing(d) : NULL;
    if (d && driver_require(d, OLDEST_CUDA, "the engine", &why) < 0)
        d = NULL;
    else if (missing) {
        err_set(&why, "libcuda.so.1 has no %s: install a newer NVIDIA driver", missing);
        d = NULL;
    }
    if (!d) err_set(err, "CUDA: %s, or use device=cpu", why.msg);
    return d;
}

bool cuda_available(struct err *err) {
    int n = 0;
    if (!cuda_built()) {
        not_built(err);
        return false;
    }
    const struct driver *d = load_driver(err);
    if (!d) return false;
    if (d->device_count(&n) == CU_OK && n > 0) return true;
    err_set(err,
            "CUDA: the driver finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use device=cpu");
    return false;
}

static int load_modules(struct cuda *c) {
    int ptx = 0;
    for (int m = 0; m < MODULE_COUNT; m++)
        if (!cuda_ok(c, c->d->module_load(&c->modules[m], kernel_file((enum module_id)m)->data),
                     "loading the kernels"))
            return -1;
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (!cuda_ok(c, c->d->module_function(&c->kernels[i], c->modules[kernels[i].module], kernels[i].name),
                     kernels[i].name))
            return -1;
    c->d->device_attribute(&c->shared_bytes, CU_ATTR_SHARED_OPTIN, c->device);
    static const enum kernel_id large[] = {
        KERNEL_gemm_bf16,       KERNEL_gemm_f16,       KERNEL_gemm_grouped_bf16, KERNEL_gemm_grouped_f16,
        KERNEL_gemm_small_bf16, KERNEL_gemm_small_f16, KERNEL_wgmma_bf16_128,    KERNEL_wgmma_bf16_256,
        KERNEL_wgmma_f16_128,   KERNEL_wgmma_f16_256,  KERNEL_flash_64,          KERNEL_flash_128,
        KERNEL_flash_grid_16,   KERNEL_flash_grid_32,  KERNEL_flash_grid_40,     KERNEL_flash_grid_64,
        KERNEL_flash_grid_80,   KERNEL_attention_f32,  KERNEL_attention_bf16
    };
    for (size_t i = 0; i < COUNTOF(large); i++)
        if (!cuda_ok(
                c,
                c->d->function_set(c->kernels[large[i]], CU_FUNC_MAX_SHARED, MIN(c->shared_bytes, 200 << 10)),
                "shared memory"))
            return -1;
    c->d->function_get(&ptx, CU_FUNC_PTX_VERSION, c->kernels[KERNEL_gemm_bf16]);
    const char *products = getenv("INFERPROF_CUDA_PRODUCTS");
    c->hopper = ptx >= 90;
    c->wgmma = c->hopper && !(products && strcmp(products, "mma") == 0);
    if (!products || strcmp(products, "cublaslt") == 0) c->lt = cublaslt_open();
    return 0;
}

static int open_device(struct cuda *c, int index, struct err *err) {
    int n = 0, major = 0, minor = 0;
    cu_context context;
    c->d->device_count(&n);
    if (index >= n)
        return err_set(err, "cuda:%d: this machine has %d visible GPU%s: choose a number below %d", index, n,
                       n == 1 ? "" : "s", n);
    if (!cuda_ok(c, c->d->device_get(&c->device, index), "opening the device")) return -1;
    c->d->device_name(c->name, sizeof c->name, c->device);
    driver_uuid(c->d, c->device, c->uuid);
    c->d->device_attribute(&c->sms, CU_ATTR_SMS, c->device);
    c->d->device_attribute(&major, CU_ATTR_MAJOR, c->device);
    c->d->device_attribute(&minor, CU_ATTR_MINOR, c->device);
    if (major < 8)
        return err_set(
            err,
            "cuda:%d: %s has compute capability %d.%d, the engine needs 8.0 (Ampere) or newer: use "
            "device=cpu",
            index, c->name, major, minor);
    snprintf(c->about, sizeof c->about, "sm_%d%d", major, minor);
    if (!cuda_ok(c, c->d->context_retain(&context, c->device), "creating a context")) return -1;
    if (!cuda_ok(c, c->d->context_set(context), "using the context") ||
        !cuda_ok(c, c->d->stream_create(&c->stream, CU_STREAM_NONBLOCKING), "creating a stream"))
        return -1;
    return load_modules(c);
}

struct ops *cuda_open(struct threads *threads, int index, struct err *err) {
    (void)threads;
    if (!cuda_available(err)) return NULL;
    struct cuda *c = xcalloc(1, sizeof *c);
    const char *math = getenv("INFERPROF_CUDA_MATH");
    c->d = load_driver(err);
    c->exact = math && strcmp(math, "exact") == 0;
    snprintf(c->name, sizeof c->name, "cuda:%d", index);
    if (open_device(c, index, err) < 0) {
        if (c->failed) *err = c->err;
        cuda_backend.close(c);
        return NULL;
    }
    return ops_open(&cuda_backend, c);
}
