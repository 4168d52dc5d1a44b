/* The CUDA backend: device, tensors, and the table of operators. The operators launch kernels on one
 * stream (products.c, attention.c, rows.c, experts.c, decode.c). */
#include "engine/cuda/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"
#include "engine/cuda/cublaslt.h"
#include "engine/cuda/fp8.h"

/* ---- device */
static void backend_close(void *context) {
    struct cuda *c = context;
    if (c->stream) c->d->stream_wait(c->stream);
    cublaslt_close(c->lt, c);
    for (size_t i = 0; i < c->blocks.n; i++) c->d->mem_free(c->blocks.v[i].data);
    if (c->stamps.memory) c->d->mem_free(c->stamps.memory);
    for (size_t i = 0; i < c->arenas.n; i++) c->d->mem_free(c->arenas.v[i]);
    for (size_t i = 0; i < c->host.n; i++) c->d->host_free(c->host.v[i].data);
    for (size_t i = 0; i < c->events.n; i++) c->d->event_destroy(c->events.v[i]);
    for (int i = 0; i < SCRATCH_COUNT; i++) free(c->scratch[i]);
    for (int i = 0; i < MODULE_ALL; i++)
        if (c->modules[i]) c->d->module_unload(c->modules[i]);
    if (c->stream) {
        c->d->stream_destroy(c->stream);
        c->d->context_release(c->device);
    }
    free(c->stamps.times);
    free(c->stamps.library.v);
    free(c->blocks.v);
    free(c->arenas.v);
    for (size_t i = 0; i < c->known.n; i++) cuda_wide_experts_free(c->known.v[i].wide);
    free(c->known.v);
    free(c->host.v);
    free(c->events.v);
    free(c);
}

static const char *backend_device(void *context) { return ((struct cuda *)context)->about; }
static const char *backend_name(void *context) { return ((struct cuda *)context)->name; }
static const char *backend_uuid(void *context) { return ((struct cuda *)context)->uuid; }
static int backend_units(void *context) { return ((struct cuda *)context)->sms; }
static void backend_finish(void *context) {
    struct cuda *c = context;
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "a kernel");
}

/* ---- times on the device's clock */
static int backend_mark(void *context) {
    struct cuda *c = context;
    cu_event fresh;
    if (c->failed) return -1;
    if (c->events.used == c->events.n) {
        if (!cuda_ok(c, c->d->event_create(&fresh, 0), "creating an event")) return -1;
        vec_push(&c->events, fresh);
    }
    if (!cuda_ok(c, c->d->event_record(c->events.v[c->events.used], c->stream), "recording an event"))
        return -1;
    return (int)c->events.used++;
}

static uint64_t backend_marked_ns(void *context, int from, int to) {
    struct cuda *c = context;
    float ms = 0;
    if (c->failed || from < 0 || to < 0) return 0;
    if (!cuda_ok(c, c->d->event_elapsed(&ms, c->events.v[from], c->events.v[to]), "reading an event"))
        return 0;
    return (uint64_t)(ms * 1e6f);
}

static void backend_forget_marks(void *context) { ((struct cuda *)context)->events.used = 0; }

static int backend_check(void *context, struct err *err) {
    struct cuda *c = context;
    size_t free_bytes = 0, total = 0;
    backend_finish(c);
    if (c->failed) {
        *err = c->err;
        return -1;
    }
    if (c->pending == 0) return 0;
    if (!cuda_ok(c, c->d->mem_info(&free_bytes, &total), "reading the amount of free memory"))
        return err_set(err, "%s", c->err.msg);
    if (c->pending <= free_bytes) return 0;
    return err_set(
        err,
        "%s: the weights need %.1f GB, but only %.1f of %.1f GB are free: choose a smaller model or "
        "max_context, end other programs on this GPU, or use device=cpu",
        c->name, (double)c->pending / 1e9, (double)free_bytes / 1e9, (double)total / 1e9);
}

static void backend_recover(void *context) {
    struct cuda *c = context;
    if (c->out_of_memory) c->failed = c->out_of_memory = false;
}

static size_t backend_memory_bytes(void *context) {
    struct cuda *c = context;
    size_t free_bytes = 0, total = 0;
    return cuda_ok(c, c->d->mem_info(&free_bytes, &total), "reading the amount of memory") ? total : 0;
}

/* ---- tensors */
static struct tensor *new_tensor(struct cuda *c, size_t bytes, enum dtype type, bool zero) {
    struct tensor *t = xcalloc(1, sizeof *t);
    t->bytes = bytes;
    t->type = type;
    t->data = cuda_memory(c, bytes);
    if (zero && t->data)
        cuda_ok(c, c->d->set_words(t->data, 0, (bytes + 3) / 4, c->stream), "clearing memory");
    return t;
}

static struct tensor *tensor_alloc(void *context, size_t floats, enum tensor_content content) {
    return new_tensor(context, floats * sizeof(float), DTYPE_F32, content == TENSOR_ZERO);
}

static struct tensor *tensor_alloc_cache(void *context, size_t numbers, enum dtype type) {
    if (((struct cuda *)context)->exact) type = DTYPE_F32;
    return new_tensor(context, numbers * dtype_bytes(type), type, true);
}

static bool has_narrow(void *context, enum dtype weights) {
    return !((struct cuda *)context)->exact && (weights == DTYPE_BF16 || weights == DTYPE_F8_E4M3);
}
static struct tensor *tensor_alloc_narrow(void *context, size_t numbers) {
    return new_tensor(context, numbers * 2, DTYPE_BF16, false);
}

static struct tensor *tensor_wrap(void *context, const void *host, size_t bytes) {
    struct tensor *t = xcalloc(1, sizeof *t);
    t->host = host;
    t->bytes = (bytes + 255) / 256 * 256;
    ((struct cuda *)context)->pending += t->bytes;
    t->type = DTYPE_F32;
    t->data = 0;
    t->bytes = bytes;
    return t;
}

/* Copies a wrapped tensor to the device. If the arena has too little space left, allocates a new one for all
 * tensors that are wrapped but not committed. */
static void tensor_commit(void *context, struct tensor *t) {
    struct cuda *c = context;
    size_t bytes = (t->bytes + 255) / 256 * 256;
    if (c->failed || t->data) return;
    if (bytes > c->arena_left) {
        cu_ptr fresh;
        int rc = cuda_alloc(c, &fresh, MAX(c->pending, (size_t)1));
        if (!cuda_ok(c, rc, "allocating memory for weights")) return;
        vec_push(&c->arenas, fresh);
        c->arena = fresh;
        c->arena_left = c->pending;
    }
    t->data = c->arena;
    c->arena += bytes;
    c->arena_left -= bytes;
    c->pending -= bytes;
    cuda_ok(c, c->d->copy_in(t->data, t->host, t->bytes, c->stream), "copying weights");
}

static void tensor_free(void *context, struct tensor *t) {
    struct cuda *c = context;
    if (!t->host)
        cuda_memory_free(c, t->data);
    else if (!t->data)
        c->pending -= (t->bytes + 255) / 256 * 256;
    free(t);
}

void cuda_copy_in(struct cuda *c, void *to, const void *from, size_t bytes) {
    if (!c->failed && bytes)
        cuda_ok(c, c->d->copy_in((cu_ptr)(uintptr_t)to, from, bytes, c->stream), "copying to the GPU");
}
void cuda_copy_out(struct cuda *c, void *to, const void *from, size_t bytes) {
    if (c->failed) {
        memset(to, 0, bytes);
        return;
    }
    if (cuda_ok(c, c->d->copy_out(to, (cu_ptr)(uintptr_t)from, bytes, c->stream), "copying from the GPU"))
        backend_finish(c);
}

static void tensor_upload(void *context, struct view to, const float *from, size_t n) {
    cuda_copy_in(context, view_pointer(to), from, n * sizeof *from);
}
static void tensor_upload_planes(void *context, struct view to, const float *from, int channels,
                                 size_t area) {
    struct cuda *c = context;
    size_t n = (size_t)channels * area;
    float *out = view_pointer(to), *planes = cuda_scratch(c, SCRATCH_UNFOLDED, n * sizeof *planes);
    cuda_copy_in(c, planes, from, n * sizeof *from);
    LAUNCH(c, planes_last, GRID(cuda_blocks(n), .threads = CUDA_THREADS), &out, &planes, &channels, &area);
}
/* Returns the address of the copy of from[n] that host_send() made; NULL: there is none. */
static const void *sent_bytes(const struct cuda *c, const uint8_t *from, size_t n) {
    for (size_t i = 0; i < c->host.n; i++) {
        const struct host_block *h = &c->host.v[i];
        const uint8_t *first = h->data;
        if (h->sent && from >= first && from + n <= first + h->sent)
            return (const char *)(uintptr_t)h->there + (from - first);
    }
    return NULL;
}

static void tensor_upload_bytes(void *context, struct view to, const uint8_t *from, size_t n,
                                const float table[256]) {
    struct cuda *c = context;
    float *out = view_pointer(to);
    struct byte_table t;
    const void *bytes = sent_bytes(c, from, n);
    memcpy(t.value, table, sizeof t.value);
    if (!bytes) {
        void *room = cuda_scratch(c, SCRATCH_UNFOLDED, n);
        cuda_copy_in(c, room, from, n);
        bytes = room;
    }
    LAUNCH(c, map_bytes, GRID(cuda_blocks(n / 4 + 1), .threads = CUDA_THREADS), &bytes, &n, &out, &t);
}
static void tensor_download(void *context, float *to, struct view from, size_t n) {
    cuda_copy_out(context, to, view_pointer(from), n * sizeof *to);
}

/* ---- pinned host memory. Freed blocks are kept for reuse, because allocating pinned memory is slow. */
static void *host_alloc(void *context, size_t bytes) {
    struct cuda *c = context;
    struct host_block fresh = { .bytes = bytes, .used = true };
    for (size_t i = 0; i < c->host.n; i++) {
        struct host_block *h = &c->host.v[i];
        if (h->used || h->bytes < bytes || h->bytes > 2 * bytes) continue;
        h->used = true;
        return h->data;
    }
    if (c->failed || c->d->host_alloc(&fresh.data, bytes, CU_HOST_PORTABLE_MAPPED) != CU_OK) return NULL;
    vec_push(&c->host, fresh);
    return fresh.data;
}

/* Waits for the device, which may still copy from the block, and marks the block as free. */
static void host_free(void *context, void *p) {
    struct cuda *c = context;
    if (!p) return;
    backend_finish(c);
    for (size_t i = 0; i < c->host.n; i++) {
        struct host_block *h = &c->host.v[i];
        if (h->data != p) continue;
        cuda_memory_free(c, h->there);
        h->there = 0;
        h->sent = 0;
        h->used = false;
    }
}

static void host_send(void *context, const void *p, size_t bytes) {
    struct cuda *c = context;
    for (size_t i = 0; i < c->host.n; i++) {
        struct host_block *h = &c->host.v[i];
        if (h->data != p || h->bytes < bytes || h->there) continue;
        h->there = cuda_memory(c, h->bytes);
        if (!h->there) return;
        cuda_copy_in(c, (void *)(uintptr_t)h->there, p, bytes);
        h->sent = bytes;
    }
}

const struct ops_backend cuda_backend = {
    .fp8 = true,
    .bf16_cache = true,
    .rows = 2048,
    .views = 32,
    .few_rows = CUDA_FEW_ROWS,
    .has_narrow = has_narrow,
    .alloc_narrow = tensor_alloc_narrow,
    .linear_act = cuda_linear_act,
    .linear_rows = cuda_linear_rows,
    .linear_merge = cuda_linear_merge,
    .layernorm_windows = cuda_layernorm_windows,
    .swiglu = cuda_swiglu,
    .place_heads = cuda_place_heads,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_send = host_send,
    .close = backend_close,
    .device = backend_device,
    .name = backend_name,
    .uuid = backend_uuid,
    .units = backend_units,
    .memory_bytes = backend_memory_bytes,
    .finish = backend_finish,
    .mark = backend_mark,
    .marked_ns = backend_marked_ns,
    .forget_marks = backend_forget_marks,
    .check = backend_check,
    .recover = backend_recover,
    .alloc = tensor_alloc,
    .alloc_cache = tensor_alloc_cache,
    .wrap = tensor_wrap,
    .commit = tensor_commit,
    .free = tensor_free,
    .upload = tensor_upload,
    .upload_planes = tensor_upload_planes,
    .upload_bytes = tensor_upload_bytes,
    .download = tensor_download,
    .linear = cuda_linear,
    .linear_many = cuda_linear_many,
    .experts_one = cuda_experts_one,
    .experts_many = cuda_experts_many,
    .rmsnorm = cuda_rmsnorm,
    .layernorm = cuda_layernorm,
    .activate = cuda_activate,
    .glu = cuda_glu,
    .add = cuda_add,
    .embed = cuda_embed,
    .conv = cuda_conv,
    .attention = cuda_attention,
    .qkv_attention = cuda_qkv_attention,
    .latent_query = cuda_latent_query,
    .latent_value = cuda_latent_value,
    .window_partition = cuda_window_partition,
    .window_merge = cuda_window_merge,
    .route = cuda_route,
    .rope = cuda_rope,
    .cache_store = cuda_cache_store,
    .cache_load = cuda_cache_load,
    .latent_expand = cuda_latent_expand,
    .copy_rows = cuda_copy_rows,
    .gather_rows = cuda_gather_rows,
    .scatter_add = cuda_scatter_add,
    .resample_grid = cuda_resample_grid,
    .resample_rows = cuda_resample_rows,
    .decode = &cuda_decode_calls,
    .batch = &cuda_batch_calls,
    .stamps_start = cuda_stamps_start,
    .stamps_stop = cuda_stamps_stop,
    .stamps_mark = cuda_stamps_mark,
    .stamps_take = cuda_stamps_take,
};
