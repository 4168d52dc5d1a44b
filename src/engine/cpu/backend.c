/* Opens the CPU backend, manages its memory and defines its table of operators. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/internal.h"
#include "engine/cpu/resample.h"

static void backend_close(void *context) {
    struct cpu *c = context;
    for (int i = 0; i < threads_count(c->threads); i++) free(c->own[i].v);
    free(c->shared.v);
    free(c->unfolded.v);
    free(c->own);
    free(c->indices.v);
    free(c->rounded.v);
    free(c);
}

static const char *backend_device(void *context) { return ((struct cpu *)context)->k->name; }
static const char *backend_name(void *context) {
    (void)context;
    return "cpu";
}
static int backend_units(void *context) { return threads_count(((struct cpu *)context)->threads); }
/* Does nothing, because operators are complete when they return. */
static void backend_finish(void *context) { (void)context; }

/* ---- scratch. Large parts are huge pages where the system has them: products read many rows at once, more
 * than the first-level TLB has entries. */
enum { HUGE_PAGE = 2 << 20 };
static void scratch_fit(struct scratch *s, size_t floats) {
    if (floats <= s->cap) return;
    free(s->v); /* the old contents are no longer needed */
    *s = (struct scratch){ 0 };
    size_t cap = floats + floats / 4, align = cap * sizeof(float) < HUGE_PAGE / 8 ? 64 : HUGE_PAGE;
    void *v = NULL;
    if (align == HUGE_PAGE)
        cap = (cap * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE / sizeof(float);
    if (alloc_guard_refuses() || posix_memalign(&v, align, cap * sizeof(float)) != 0)
        alloc_failed(cap * sizeof(float));
    if (align == HUGE_PAGE) madvise(v, cap * sizeof(float), MADV_HUGEPAGE); /* only a hint */
    *s = (struct scratch){ v, cap };
}

float *cpu_shared(struct cpu *c, size_t floats) {
    scratch_fit(&c->shared, floats);
    return c->shared.v;
}

int *cpu_indices(struct cpu *c, size_t n) {
    scratch_fit(&c->indices, n); /* an int has the size of a float */
    return (int *)(void *)c->indices.v;
}

float *cpu_rounded(struct cpu *c, size_t floats) {
    scratch_fit(&c->rounded, floats);
    return c->rounded.v;
}

float *cpu_unfolded(struct cpu *c, size_t floats) {
    scratch_fit(&c->unfolded, floats);
    return c->unfolded.v;
}

void cpu_reserve_own(struct cpu *c, size_t floats) {
    for (int i = 0; i < threads_count(c->threads); i++) scratch_fit(&c->own[i], floats);
}

void cpu_test_bf16(struct ops *o) { ((struct cpu *)o->context)->test_bf16 = true; }

size_t cpu_scratch_bytes(const struct ops *o) {
    const struct cpu *c = o->context;
    size_t floats = c->shared.cap + c->unfolded.cap + c->indices.cap + c->rounded.cap;
    for (int i = 0; i < threads_count(c->threads); i++) floats += c->own[i].cap;
    return floats * sizeof(float);
}

/* ---- tensors */
static struct tensor *tensor_new(void *data, bool owned) {
    struct tensor *t = xmalloc(sizeof *t);
    *t = (struct tensor){ data, owned };
    return t;
}

static struct tensor *tensor_alloc(void *context, size_t floats, enum tensor_content content) {
    struct tensor *t = tensor_new(NULL, true);
    bool refused = alloc_guard_refuses();
    (void)context;
    if (!refused)
        t->data = content == TENSOR_ZERO ? calloc(floats ? floats : 1, sizeof(float))
                                         : malloc(floats ? floats * sizeof(float) : 1);
    if (t->data) return t;
    free(t);
    alloc_failed(floats * sizeof(float));
}

/* Nothing writes to a wrapped tensor, so casting away const is safe. */
static struct tensor *tensor_wrap(void *context, const void *host, size_t bytes) {
    (void)context;
    (void)bytes;
    return tensor_new((void *)host, false);
}

static void tensor_commit(void *context, struct tensor *t) {
    (void)context;
    (void)t; /* the tensor already is host memory */
}

static void tensor_free(void *context, struct tensor *t) {
    (void)context;
    if (t->owned) free(t->data);
    free(t);
}

static void tensor_upload(void *context, struct view to, const float *from, size_t n) {
    (void)context;
    memcpy(view_floats(to), from, n * sizeof(float));
}

static void tensor_upload_planes(void *context, struct view to, const float *from, int channels,
                                 size_t area) {
    (void)context;
    float *out = view_floats(to);
    size_t n = (size_t)channels;
    for (size_t i = 0; i < area; i++)
        for (size_t c = 0; c < n; c++) out[i * n + c] = from[c * area + i];
}

static void tensor_download(void *context, float *to, struct view from, size_t n) {
    (void)context;
    memcpy(to, view_floats(from), n * sizeof(float));
}

static void resample_grid(void *context, struct view in, int from, int to, int channels, struct view out) {
    (void)context;
    resample_bicubic(view_floats(in), from, to, channels, view_floats(out));
}

static void resample_rows(void *context, struct view in, int from, int to, int channels, struct view out) {
    (void)context;
    resample_linear(view_floats(in), from, to, channels, view_floats(out));
}

static void backend_set_exact(void *context, bool exact) { ((struct cpu *)context)->exact = exact; }

static const struct ops_backend cpu_backend = {
    .quantised = true,
    .extras = OPS_EXTRAS_ALL,
    .set_exact = backend_set_exact,
    .bf16_cache = true,
    .close = backend_close,
    .device = backend_device,
    .name = backend_name,
    .units = backend_units,
    .finish = backend_finish,
    .alloc = tensor_alloc,
    .wrap = tensor_wrap,
    .commit = tensor_commit,
    .free = tensor_free,
    .upload = tensor_upload,
    .upload_planes = tensor_upload_planes,
    .download = tensor_download,
    .linear = cpu_linear,
    .linear_many = cpu_linear_many,
    .experts_one = cpu_experts_one,
    .rmsnorm = cpu_rmsnorm,
    .layernorm = cpu_layernorm,
    .activate = cpu_activate,
    .glu = cpu_glu,
    .adjust = cpu_adjust,
    .add = cpu_add,
    .embed = cpu_embed,
    .conv = cpu_conv,
    .attention = cpu_attention,
    .attention_many = cpu_attention_many,
    .qkv_attention = cpu_qkv_attention,
    .latent_query = cpu_latent_query,
    .latent_value = cpu_latent_value,
    .window_partition = cpu_window_partition,
    .window_merge = cpu_window_merge,
    .route = cpu_route,
    .rope = cpu_rope,
    .cache_store = cpu_cache_store,
    .cache_load = cpu_cache_load,
    .latent_expand = cpu_latent_expand,
    .copy_rows = cpu_copy_rows,
    .gather_rows = cpu_gather_rows,
    .scatter_add = cpu_scatter_add,
    .resample_grid = resample_grid,
    .resample_rows = resample_rows,
};

struct ops *cpu_open(struct threads *threads, const char *isa) {
    const struct kernels *k = isa ? kernels_named(isa) : kernels_pick();
    if (!k) return NULL;
    struct cpu *c = xcalloc(1, sizeof *c);
    c->k = k;
    c->threads = threads;
    c->own = xcalloc((size_t)threads_count(threads), sizeof *c->own);
    return ops_open(&cpu_backend, c);
}
