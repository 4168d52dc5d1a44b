#include "unit/engine-models/guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/die.h"
#include "base/vec.h"
#include "engine/cpu/cpu.h"

#define ARENA_BYTES ((size_t)8 << 30) /* address space; only used pages take memory */

struct block {
    struct tensor *tensor; /* NULL: freed */
    char *memory;
    size_t bytes;     /* whole pages */
    const void *host; /* wrapped memory, which commit() copies; else NULL */
    size_t host_bytes;
};

struct guarded {
    struct ops *cpu;
    char *arena;
    size_t used, calls;
    struct {
        struct block *v;
        size_t n, cap;
    } blocks; /* in the order of the arena */
};

static void set_access(char *memory, size_t bytes, int protection) {
    if (bytes && mprotect(memory, bytes, protection) < 0) die("mprotect failed");
}
static void unlock(struct guarded *g) {
    g->calls++;
    set_access(g->arena, g->used, PROT_READ | PROT_WRITE);
}
static void lock(struct guarded *g) { set_access(g->arena, g->used, PROT_NONE); }

/* Whole pages of the arena, which are zero. */
static struct tensor *block_alloc(struct guarded *g, size_t bytes, const void *host) {
    struct block b = { .memory = g->arena + g->used, .host = host, .host_bytes = bytes };
    b.bytes = (bytes + 4095) / 4096 * 4096;
    b.tensor = ops_wrap(g->cpu, b.memory, b.bytes);
    g->used += b.bytes;
    if (g->used > ARENA_BYTES) die("the arena is full");
    vec_push(&g->blocks, b);
    return b.tensor;
}

static struct block *block_of(struct guarded *g, const struct tensor *t) {
    for (size_t i = g->blocks.n; i-- > 0;)
        if (g->blocks.v[i].tensor == t) return &g->blocks.v[i];
    die("not a tensor of this backend");
}

static struct tensor *guarded_alloc(void *context, size_t floats, enum tensor_content content) {
    (void)content;
    return block_alloc(context, floats * sizeof(float), NULL);
}

static struct tensor *guarded_wrap(void *context, const void *host, size_t bytes) {
    return block_alloc(context, bytes, host);
}

static void guarded_commit(void *context, struct tensor *t) {
    const struct block *b = block_of(context, t);
    set_access(b->memory, b->bytes, PROT_READ | PROT_WRITE);
    memcpy(b->memory, b->host, b->host_bytes);
    set_access(b->memory, b->bytes, PROT_NONE);
}

/* The arena shrinks when its last blocks are free. */
static void guarded_free(void *context, struct tensor *t) {
    struct guarded *g = context;
    block_of(g, t)->tensor = NULL;
    ops_free(g->cpu, t);
    while (g->blocks.n > 0 && !g->blocks.v[g->blocks.n - 1].tensor) {
        const struct block *b = &g->blocks.v[--g->blocks.n];
        madvise(b->memory, b->bytes, MADV_DONTNEED); /* zero again */
        g->used -= b->bytes;
    }
}

static void guarded_close(void *context) {
    struct guarded *g = context;
    ops_close(g->cpu);
    munmap(g->arena, ARENA_BYTES);
    free(g->blocks.v);
    free(g);
}

static const char *guarded_device(void *context) { return ops_device(((struct guarded *)context)->cpu); }
static const char *guarded_name(void *context) { return ops_name(((struct guarded *)context)->cpu); }
size_t guarded_memory_bytes = (size_t)1 << 40;
static size_t guarded_bytes(void *context) {
    (void)context;
    return guarded_memory_bytes;
}
static int guarded_units(void *context) { return ops_units(((struct guarded *)context)->cpu); }
static void guarded_finish(void *context) { ops_finish(((struct guarded *)context)->cpu); }

/* Operators: access to the arena, the CPU's operator, no access. */
#define CPU(name) g->cpu->backend->name
#define VOID_OPERATOR(name, parameters, ...)     \
    static void guarded_##name parameters {      \
        struct guarded *g = context;             \
        unlock(g);                               \
        CPU(name)(g->cpu->context, __VA_ARGS__); \
        lock(g);                                 \
    }
#define OPERATOR(name, parameters, ...)                               \
    static const char *guarded_##name parameters {                    \
        struct guarded *g = context;                                  \
        unlock(g);                                                    \
        const char *kernel = CPU(name)(g->cpu->context, __VA_ARGS__); \
        lock(g);                                                      \
        return kernel;                                                \
    }

VOID_OPERATOR(upload, (void *context, struct view to, const float *from, size_t n), to, from, n)
VOID_OPERATOR(upload_planes, (void *context, struct view to, const float *from, int channels, size_t area),
              to, from, channels, area)
VOID_OPERATOR(download, (void *context, float *to, struct view from, size_t n), to, from, n)
OPERATOR(linear,
         (void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m, struct view y,
          ptrdiff_t ldy, enum ops_store store),
         l, x, ldx, m, y, ldy, store)
OPERATOR(linear_many, (void *context, const struct linear_out *v, int n, struct view x), v, n, x)
OPERATOR(experts_one,
         (void *context, const struct expert *const *experts, const float *weights, int n, struct view x,
          struct view y),
         experts, weights, n, x, y)
OPERATOR(rmsnorm,
         (void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n, float eps,
          struct view y, ptrdiff_t ldy),
         x, ldx, w, rows, n, eps, y, ldy)
OPERATOR(layernorm,
         (void *context, struct view x, struct tensor *w, struct tensor *b, int rows, int n, float eps,
          struct view y),
         x, w, b, rows, n, eps, y)
OPERATOR(activate, (void *context, enum ops_activation a, struct view x, size_t n), a, x, n)
OPERATOR(glu, (void *context, enum ops_glu kind, struct view gate, struct view up, size_t n), kind, gate, up,
         n)
OPERATOR(adjust, (void *context, enum ops_adjust kind, float by, struct view x, size_t n), kind, by, x, n)
OPERATOR(add, (void *context, struct view y, struct view x, size_t n), y, x, n)
OPERATOR(embed, (void *context, const struct matrix *table, const uint32_t *ids, int n, struct view out),
         table, ids, n, out)
OPERATOR(conv, (void *context, const struct conv *c, struct view x, int views, int h, int w, struct view y),
         c, x, views, h, w, y)
OPERATOR(attention, (void *context, const struct attention *a), a)
OPERATOR(qkv_attention, (void *context, const struct qkv_attention *a), a)
OPERATOR(latent_query, (void *context, const struct latent *l, struct view q, struct view out), l, q, out)
OPERATOR(latent_value, (void *context, const struct latent *l, struct view sums, struct view out), l, sums,
         out)
OPERATOR(window_partition, (void *context, const struct windows *s, struct view grid, struct view rows), s,
         grid, rows)
OPERATOR(window_merge, (void *context, const struct windows *s, struct view rows, struct view grid), s, rows,
         grid)
VOID_OPERATOR(route,
              (void *context, const struct routing *r, struct view logits, int m, struct routing_choice *out),
              r, logits, m, out)
VOID_OPERATOR(rope, (void *context, const struct rope_table *t, const struct rope_rows *r), t, r)
VOID_OPERATOR(cache_store, (void *context, const struct cache_rows *c), c)
VOID_OPERATOR(cache_load, (void *context, const struct cache_rows *c), c)
VOID_OPERATOR(latent_expand, (void *context, const struct latent *l, const struct latent_rows *r), l, r)
VOID_OPERATOR(copy_rows,
              (void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
               size_t n),
              to, ldt, from, ldf, rows, n)
VOID_OPERATOR(gather_rows,
              (void *context, struct view to, struct view from, const int *index, int n, size_t width), to,
              from, index, n, width)
VOID_OPERATOR(scatter_add,
              (void *context, struct view to, struct view from, const int *index, const float *weights, int n,
               size_t width),
              to, from, index, weights, n, width)
VOID_OPERATOR(resample_grid, (void *context, struct view in, int from, int to, int channels, struct view out),
              in, from, to, channels, out)
VOID_OPERATOR(resample_rows, (void *context, struct view in, int from, int to, int channels, struct view out),
              in, from, to, channels, out)

static const struct ops_backend guarded_operators = {
    .extras = OPS_EXTRAS_ALL,
    .close = guarded_close,
    .device = guarded_device,
    .name = guarded_name,
    .units = guarded_units,
    .memory_bytes = guarded_bytes,
    .finish = guarded_finish,
    .alloc = guarded_alloc,
    .wrap = guarded_wrap,
    .commit = guarded_commit,
    .free = guarded_free,
    .upload = guarded_upload,
    .upload_planes = guarded_upload_planes,
    .download = guarded_download,
    .linear = guarded_linear,
    .linear_many = guarded_linear_many,
    .experts_one = guarded_experts_one,
    .rmsnorm = guarded_rmsnorm,
    .layernorm = guarded_layernorm,
    .activate = guarded_activate,
    .glu = guarded_glu,
    .adjust = guarded_adjust,
    .add = guarded_add,
    .embed = guarded_embed,
    .conv = guarded_conv,
    .attention = guarded_attention,
    .qkv_attention = guarded_qkv_attention,
    .latent_query = guarded_latent_query,
    .latent_value = guarded_latent_value,
    .window_partition = guarded_window_partition,
    .window_merge = guarded_window_merge,
    .route = guarded_route,
    .rope = guarded_rope,
    .cache_store = guarded_cache_store,
    .cache_load = guarded_cache_load,
    .latent_expand = guarded_latent_expand,
    .copy_rows = guarded_copy_rows,
    .gather_rows = guarded_gather_rows,
    .scatter_add = guarded_scatter_add,
    .resample_grid = guarded_resample_grid,
    .resample_rows = guarded_resample_rows,
};

static struct ops *guarded_open(struct threads *threads, int index, struct err *err) {
    (void)index;
    (void)err;
    struct guarded *g = xcalloc(1, sizeof *g);
    g->cpu = cpu_open(threads, NULL);
    g->arena = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->arena == MAP_FAILED) die("no address space for the arena");
    return ops_open(&guarded_operators, g);
}

const struct engine_backend guarded_backend = { .name = "cpu", .open = guarded_open };

size_t guarded_calls(const struct ops *o) { return ((const struct guarded *)o->context)->calls; }
const void *guarded_memory(const struct ops *o) { return ((const struct guarded *)o->context)->arena; }
