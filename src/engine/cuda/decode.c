/* A decoding step as one CUDA graph of the kernels in decode.cu and decode_attention.cu. The token, its
 * position and the rules for the next token are in device memory. Therefore the same graph runs every
 * step, and the host can submit steps before it has their tokens. The persistent kernel (persistent.h)
 * replaces the graph if it supports the model and the request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/log.h"
#include "engine/cuda/fp8.h"
#include "engine/cuda/latent.h"
#include "engine/cuda/persistent.h"
#include "engine/cuda/pool.h"
#include "engine/ops/decode.h"

enum { THREADS = 256, WARPS = 8, CLUSTER = 8, MOST_SPLITS = 64 };
enum { WIDE_PIECE = 256 };       /* groups of eight numbers per warp in the pieces of single rows */
enum { STATIC_BYTES = 8 << 10 }; /* of shared memory: more than any of the kernels has */
/* Blocks per multiprocessor. */
enum { ROWS_BLOCKS = 2, OUT_BLOCKS = 2, UP_BLOCKS = 2, DOWN_BLOCKS = 2, HEAD_BLOCKS = 2 };
/* Up to this position, CLUSTER blocks per key head read the cache about as fast as more blocks, and the next
 * kernel has no sums to add. */
enum { SHORT_CONTEXT = 1536 };
/* Weights of an output projection that stay in the L2 cache until they are used. */
#define PREFETCH_BYTES ((size_t)40 << 20)

struct cuda_decode {
    struct cuda *c;
    struct decode_plan plan;
    struct decode_layer *layers; /* plan.layer */
    cu_exec exec, short_exec;    /* short_exec: for positions before SHORT_CONTEXT; NULL: as others */
    int splits, cluster, taken;  /* splits: blocks per key head */
    int position;                /* of the next step that is submitted */
    size_t first_stamp;          /* index of the first time of this request (stamps.c) */
    struct cuda_pool memory;
    struct decode_state *state;
    struct decode_rules *rules;
    float *x, *x2, *qkv, *parts, *h, *logits;
    float *q, *absorbed, *sums; /* latent attention; q: NULL if the queries are in qkv */
    long long *router;          /* [layers][experts] */
    int experts;                /* largest number of experts in a layer */
    int *sequence, *ban_list;
    unsigned *ban_bits;
    /* tokens of the request in host memory, and their address on the device; -1: not ready yet */
    int *out, *out_device;
    struct cuda_persistent *persistent; /* NULL: not opened yet, or steps run as graphs */
    bool tried;                         /* to open the persistent kernel */
    bool resident;                      /* the steps of this request run in the persistent kernel */
};

/* ---- pieces of vectors in shared memory */
/* Groups of eight numbers per lane and load of a row: 80 or 64 bytes, of fp8 weights 40 or 64. */
static int pieces(enum dtype type, int n8) {
    if (type != DTYPE_F32 && n8 % 160 == 0) return 5;
    return type == DTYPE_F8_E4M3 ? 8 : 4;
}
static unsigned vector_bytes(int n8, int piece) {
    int step = piece * 32;
    return (unsigned)((n8 + step - 1) / step * step * 32);
}

/* The numbers per lane of `down`, whose rows have n8 groups of eight. */
static int deep_pieces(enum dtype type, int n8) {
    if (type == DTYPE_F8_E4M3) return n8 % 448 == 0 ? 14 : 16;
    return type != DTYPE_F32 && n8 % 224 == 0 ? 7 : 8;
}

/* ---- which models */
/* The type of a layer's matrices, except for the router: the type of the head, or fp8 beside bf16. */
static enum dtype layer_type(const struct decode_layer *l) { return l->o.w.type; }

static bool same_type(enum dtype type, const struct linear *l) { return l->w.type == type; }

static bool attention_fits(const struct decode_plan *p, const struct decode_layer *l) {
    enum dtype type = layer_type(l);
    if (!p->rank) return same_type(type, &l->q) && same_type(type, &l->k) && same_type(type, &l->v);
    const struct linear *const all[] = { l->q_a.w.rows ? &l->q_a : &l->q, l->q_a.w.rows ? &l->q_b : &l->q,
                                         &l->kv_a };
    for (size_t i = 0; i < COUNTOF(all); i++)
        if (!same_type(type, all[i]) || all[i]->bias || all[i]->w.rows % 2 || all[i]->w.cols % 8)
            return false;
    return same_type(p->head.w.type, &l->kv_b) && !l->kv_b.bias && l->kv_b.w.cols % 8 == 0 && l->keys;
}

/* Groups of experts are chosen by one warp, which keeps all logits in registers. */
static bool routing_fits(const struct routing *r) {
    return r->groups <= 1 || (r->groups <= 32 && r->n <= 128 && r->n % r->groups == 0);
}

/* The layouts with which kernels read the scales of a layer's experts. */
struct mlp_scales {
    struct scale_table up, down, shared_down;
};
static struct mlp_scales mlp_scales_of(const struct decode_layer *l) {
    const struct expert *last = l->router ? &l->shared : &l->mlp,
                        *largest = l->router && !l->shared.gate.w.rows ? &l->experts[0] : last;
    return (struct mlp_scales){ cuda_scales(&largest->gate.w),
                                cuda_scales(l->router ? &l->experts[0].down.w : &l->mlp.down.w),
                                cuda_scales(&largest->down.w) };
}
static bool expert_fits(enum dtype type, const struct expert *e, const struct scale_table *up,
                        const struct scale_table *down) {
    return same_type(type, &e->gate) && same_type(type, &e->up) && same_type(type, &e->down) &&
           cuda_scales_serve(up, &e->gate.w) && cuda_scales_serve(up, &e->up.w) &&
           cuda_scales_serve(down, &e->down.w);
}

static bool layer_fits(const struct decode_plan *p, const struct decode_layer *l) {
    enum dtype type = layer_type(l), wide = p->head.w.type;
    const struct expert *first = l->router ? &l->experts[0] : &l->mlp;
    int inner = first->gate.w.rows, shared = l->shared.gate.w.rows;
    struct mlp_scales s = mlp_scales_of(l);
    if (type != wide && (type != DTYPE_F8_E4M3 || wide != DTYPE_BF16)) return false;
    if (!attention_fits(p, l) || !expert_fits(type, first, &s.up, &s.down)) return false;
    if (inner % 8 || first->gate.bias || first->down.bias) return false;
    if (!l->router) return inner / 8 < 1 << 16;
    for (int i = 1; i < l->routing.n; i++)
        if (!expert_fits(type, &l->experts[i], &s.up, &s.down)) return false;
    return routing_fits(&l->routing) && shared % inner == 0 && shared / inner < 64 &&
           same_type(wide, l->router) &&
           (shared == 0 || expert_fits(type, &l->shared, &s.up, &s.shared_down)) &&
           (l->routing.k + shared / inner) * (inner / 8) < 1 << 16;
}

/* The largest dynamic shared memory of the layer's kernels. It has their input vector as floats; that of
 * `out` also has the weights of the parts of attention. */
static unsigned most_shared(const struct decode_plan *p, const struct decode_layer *l) {
    enum dtype type = layer_type(l);
    const struct expert *first = l->router ? &l->experts[0] : &l->mlp;
    int inner = first->gate.w.rows, out8 = p->heads * (p->rank ? p->value : p->dim) / 8,
        down8 = (l->router ? l->routing.k + l->shared.gate.w.rows / inner : 1) * (inner / 8);
    unsigned down =
        MAX(vector_bytes(down8, deep_pieces(type, down8)), vector_bytes(down8, pieces(type, down8)));
    unsigned out = vector_bytes(out8, pieces(type, out8)) + (unsigned)(MOST_SPLITS * p->heads * 4);
    return MAX(MAX(down, out), vector_bytes(p->hidden / 8, WIDE_PIECE / 32));
}

static bool plan_fits(const struct cuda *c, const struct decode_plan *p) {
    if (p->rank ? !cuda_latent_fits(p) : p->dim != 16 && p->dim != 32 && p->dim != 64 && p->dim != 128)
        return false;
    if (p->hidden % 8 || p->embed.type != p->head.w.type || p->head.bias || p->rope->dims > p->dim)
        return false;
    for (int i = 0; i < p->layers; i++)
        if (!layer_fits(p, &p->layer[i]) ||
            most_shared(p, &p->layer[i]) + STATIC_BYTES > (unsigned)c->shared_bytes)
            return false;
    return true;
}

/* ---- memory */
static void *device_memory(struct cuda_decode *d, size_t bytes) {
    return cuda_pool_add(&d->memory, d->c, bytes);
}

/* In d->qkv: the queries, or their latent vector, and the new row of the cache. */
static size_t first_rows(const struct decode_plan *p) {
    const struct decode_layer *l = &p->layer[0];
    return (size_t)(l->q_a.w.rows ? l->q_a.w.rows : l->q.w.rows);
}

static void allocate_latent(struct cuda_decode *d) {
    const struct decode_plan *p = &d->plan;
    size_t heads = (size_t)p->heads, row = (size_t)(p->rank + p->rotated);
    d->qkv = device_memory(d, (first_rows(p) + row) * 4);
    if (p->layer[0].q_a.w.rows) d->q = device_memory(d, heads * (size_t)p->dim * 4);
    d->absorbed = device_memory(d, heads * row * 4);
    d->sums = device_memory(d, LATENT_MOST_SPLITS * heads * ((size_t)p->rank + 2) * 4);
    d->parts = device_memory(d, heads * ((size_t)p->value + 4) * 4);
}

static void allocate(struct cuda_decode *d) {
    const struct decode_plan *p = &d->plan;
    size_t heads = (size_t)p->heads, dim = (size_t)p->dim, hidden = (size_t)p->hidden;
    size_t widest = (size_t)P_SLOTS * P_INNER; /* the persistent kernel pads dense layers to this width */
    for (int i = 0; i < p->layers; i++) {
        const struct decode_layer *l = &p->layer[i];
        size_t inner = (size_t)(l->router ? l->experts[0].gate.w.rows * l->routing.k + l->shared.gate.w.rows
                                          : l->mlp.gate.w.rows);
        widest = MAX(widest, inner);
        if (l->router) d->experts = MAX(d->experts, l->routing.n);
    }
    d->state = device_memory(d, sizeof *d->state);
    d->rules = device_memory(d, sizeof *d->rules);
    d->x = device_memory(d, hidden * 4);
    d->x2 = device_memory(d, hidden * 4);
    d->qkv = device_memory(d, (heads + 2 * (size_t)p->kv_heads) * dim * 4);
    d->parts = device_memory(d, (size_t)d->splits * heads * (dim + 4) * 4);
    if (p->rank) allocate_latent(d);
    d->h = device_memory(d, widest * 4);
    d->logits = device_memory(d, (size_t)p->vocab * 4);
    d->router = device_memory(d, (size_t)p->layers * (size_t)MAX(d->experts, 1) * 8);
    d->sequence = device_memory(d, ((size_t)p->max_context + 2) * 4);
    d->ban_list = device_memory(d, ((size_t)p->max_context + 2) * 4);
    d->ban_bits = device_memory(d, ((size_t)p->vocab / 32 + 1) * 4);
    void *there;
    d->out = cuda_shared_memory(d->c, ((size_t)p->max_context + 2) * sizeof *d->out, &there);
    d->out_device = there;
}

/* ---- launches, which the stream captures */
/* Returns the number of blocks for `items` items: at most `each` per multiprocessor, with about the same
 * number of items per block. */
static size_t even_grid(const struct cuda *c, int items, int each) {
    int most = each * c->sms, rounds = (items + most - 1) / most;
    return (size_t)((items + rounds - 1) / rounds);
}

static void launch_named(struct cuda_decode *d, const char *name, size_t blocks, unsigned shared, int cluster,
                         void *args) {
    cuda_launch_named(d->c, cluster ? MODULE_decode_attention : MODULE_decode, name,
                      GRID(blocks, .threads = THREADS, .shared_bytes = shared), cluster, args);
}

static const char *kernel_name(char *to, size_t room, const char *name, enum dtype type, int piece) {
    snprintf(to, room, "decode_%s_%s_%d", name, dtype_name(type), piece);
    return to;
}

/* Launches y = [w0; w1; w2] norm(x) for the matrices in[n]. */
static void launch_products(struct cuda_decode *d, struct rows_args *a, const struct linear *const *in,
                            int n) {
    char name[64];
    enum dtype type = in[0]->w.type;
    int n8 = a->k / 8, piece = pieces(type, n8), total = 0;
    a->matrices = n;
    for (int m = 0; m < n; m++) {
        a->w[m] = pointer_of(in[m]->w.data);
        a->bias[m] = pointer_of(in[m]->bias);
        a->rows[m] = in[m]->w.rows;
        a->scale[m] = cuda_scales(&in[m]->w);
        total += in[m]->w.rows;
    }
    int together = 2; /* rows per warp and turn */
    if ((type == DTYPE_BF16 || type == DTYPE_F16) && n8 % WIDE_PIECE == 0) {
        piece = WIDE_PIECE / 32;
        together = 1;
    }
    size_t blocks = MIN((size_t)(total / together + WARPS - 1) / WARPS, (size_t)(ROWS_BLOCKS * d->c->sms));
    launch_named(d, kernel_name(name, sizeof name, "rows", type, piece), blocks + (a->embed ? 1 : 0),
                 vector_bytes(n8, piece), 0, a);
}

static void launch_rows(struct cuda_decode *d, int i) {
    const struct decode_plan *p = &d->plan;
    const struct decode_layer *l = &p->layer[i];
    const struct linear *const heads[] = { &l->q, &l->k, &l->v }, *const latent[] = { l->q_a.w.rows ? &l->q_a
                                                                                                    : &l->q,
                                                                                      &l->kv_a };
    struct rows_args a = { .state = d->state,
                           .x = d->x,
                           .embed = i == 0 ? pointer_of(p->embed.data) : NULL,
                           .x_out = d->x,
                           .norm = pointer_of(l->norm1),
                           .eps = p->eps,
                           .k = p->hidden,
                           .y = d->qkv,
                           .sequence = d->sequence,
                           .rules = d->rules,
                           .ban_bits = d->ban_bits,
                           .ban_list = d->ban_list };
    launch_products(d, &a, p->rank ? latent : heads, p->rank ? 2 : 3);
}

static void launch_latent(struct cuda_decode *d, int i) {
    const struct decode_plan *p = &d->plan;
    const struct decode_layer *l = &p->layer[i];
    const struct linear *const q_b[] = { &l->q_b };
    struct latent_args a = cuda_latent_args(d->c, p, l, 1);
    a.state = d->state;
    a.q = (struct latent_rows_in){ .x = d->q ? d->q : d->qkv, .parts = 1 };
    a.kept = (struct latent_rows_in){ .x = d->qkv + first_rows(p), .parts = 1 };
    a.absorbed = d->absorbed;
    a.sums = d->sums;
    a.parts = d->parts;
    if (d->q)
        launch_products(d,
                        &(struct rows_args){ .state = d->state,
                                             .x = d->qkv,
                                             .norm = pointer_of(l->q_a_norm),
                                             .eps = p->latent_eps,
                                             .k = l->q_a.w.rows,
                                             .y = d->q },
                        q_b, 1);
    cuda_launch_latent(d->c, &a, l->kv_b.w.type);
}

struct decode_attention_args cuda_attention_args(const struct decode_plan *p, const struct decode_layer *l) {
    return (struct decode_attention_args){ .q_norm = pointer_of(l->q_norm),
                                           .k_norm = pointer_of(l->k_norm),
                                           .eps = p->eps,
                                           .scale = p->scale,
                                           .cosine = pointer_of(p->rope->cosine),
                                           .sine = pointer_of(p->rope->sine),
                                           .dims = p->rope->dims,
                                           .interleaved = p->rope->interleaved,
                                           .keys = pointer_of(l->keys),
                                           .values = pointer_of(l->values),
                                           .heads = p->heads,
                                           .kv_heads = p->kv_heads,
                                           .max_context = p->max_context,
                                           .window = l->window };
}

static void launch_attention(struct cuda_decode *d, int i) {
    const struct decode_plan *p = &d->plan;
    const struct decode_layer *l = &p->layer[i];
    struct decode_attention_args a = cuda_attention_args(p, l);
    char name[64];
    a.state = d->state;
    a.qkv = d->qkv;
    a.splits = d->splits;
    a.cluster = d->cluster;
    a.parts = d->parts;
    snprintf(name, sizeof name, "decode_attention_%s_%d_%d", dtype_name(l->keys->type), p->dim,
             p->heads == p->kv_heads ? 1 : 4);
    launch_named(d, name, (size_t)(p->kv_heads * d->splits), 0, d->cluster, &a);
}

/* Pairs of rows need half the reads of the vector, but with too few of them many warps would have none. */
static bool in_pairs(const struct cuda_decode *d, int rows) {
    return rows % 2 == 0 && rows / 2 >= d->c->sms * WARPS;
}

/* Launches y = x + w (sum of parts) + bias. */
static void launch_add(struct cuda_decode *d, const struct linear *l, struct out_args *a) {
    char name[64];
    enum dtype type = l->w.type;
    int n8 = a->heads * a->dim / 8, piece = pieces(type, n8);
    bool pairs = !a->router && in_pairs(d, l->w.rows);
    a->w = pointer_of(l->w.data);
    a->bias = pointer_of(l->bias);
    a->rows = l->w.rows;
    a->scale = cuda_scales(&l->w);
    /* a prefetch copies multiples of 16 bytes */
    a->prefetch = !pairs && (size_t)a->rows * (size_t)n8 * 8 * dtype_bytes(type) <= PREFETCH_BYTES &&
                  (type != DTYPE_F8_E4M3 || n8 % 2 == 0);
    launch_named(d, kernel_name(name, sizeof name, pairs ? "out_pairs" : "out", type, piece),
                 even_grid(d->c, (a->rows / (pairs ? 2 : 1) + WARPS - 1) / WARPS, OUT_BLOCKS),
                 vector_bytes(n8, piece) + (unsigned)(a->nparts * a->heads * 4), 0, a);
}

static void launch_out(struct cuda_decode *d, int i) {
    const struct decode_plan *p = &d->plan;
    const struct decode_layer *l = &p->layer[i];
    launch_add(d, &l->o,
               &(struct out_args){ .x = d->x,
                                   .parts = d->parts,
                                   .nparts = p->rank ? 1 : d->splits / d->cluster,
                                   .heads = p->heads,
                                   .dim = p->rank ? p->value : p->dim,
                                   .y = d->x2,
                                   .router = l->router ? pointer_of(l->router->w.data) : NULL,
                                   .norm = pointer_of(l->norm2),
                                   .logits = d->router + (size_t)i * (size_t)d->experts,
                                   .experts = l->router ? l->routing.n : 0 });
}

static struct expert_pointers pointers_of(const struct expert *e) {
    return (struct expert_pointers){ pointer_of(e->gate.w.data), pointer_of(e->up.w.data),
                                     pointer_of(e->down.w.data) };
}

static struct expert_scales scales_of(const struct expert *e) {
    return (struct expert_scales){ pointer_of(e->gate.w.scale), pointer_of(e->up.w.scale),
                                   pointer_of(e->down.w.scale) };
}

/* A layer's experts in device memory; the last one is the shared expert, or the block of a dense layer. */
struct expert_tables {
    struct expert_pointers *pointers;
    struct expert_scales *scales;
};

static struct expert_tables upload_tables(struct cuda_decode *d, const struct decode_layer *l) {
    size_t n = l->router ? (size_t)l->routing.n : 0;
    struct expert_pointers *pointers = xcalloc(n + 1, sizeof *pointers);
    struct expert_scales *scales = xcalloc(n + 1, sizeof *scales);
    for (size_t i = 0; i <= n; i++) {
        const struct expert *e = i < n ? &l->experts[i] : l->router ? &l->shared : &l->mlp;
        pointers[i] = pointers_of(e);
        scales[i] = scales_of(e);
    }
    struct expert_tables t = { device_memory(d, (n + 1) * sizeof *pointers),
                               device_memory(d, (n + 1) * sizeof *scales) };
    cuda_copy_in(d->c, t.pointers, pointers, (n + 1) * sizeof *pointers);
    cuda_copy_in(d->c, t.scales, scales, (n + 1) * sizeof *scales);
    if (!d->c->failed) cuda_ok(d->c, d->c->d->stream_wait(d->c->stream), "copying to the GPU");
    free(pointers);
    free(scales);
    return t;
}

static void launch_mlp(struct cuda_decode *d, int i, struct expert_tables tables) {
    const struct decode_plan *p = &d->plan;
    const struct decode_layer *l = &p->layer[i];
    char name[64];
    enum dtype type = layer_type(l);
    int n8 = p->hidden / 8, piece = pieces(type, n8);
    struct mlp_scales s = mlp_scales_of(l);
    int inner = l->router ? l->experts[0].gate.w.rows : l->mlp.gate.w.rows;
    struct mlp_args a = { .x = d->x2,
                          .norm = pointer_of(l->norm2),
                          .eps = p->eps,
                          .hidden = p->hidden,
                          .inner = inner,
                          .experts = l->router ? l->routing.n : 0,
                          .k = l->router ? l->routing.k : 0,
                          .shared = l->router ? l->shared.gate.w.rows / inner : 1,
                          .groups = l->router ? l->routing.groups : 1,
                          .groups_kept = l->routing.groups_kept,
                          .normalise = l->routing.normalise,
                          .scale = l->routing.scale,
                          .logits = d->router + (size_t)i * (size_t)d->experts,
                          .pointers = tables.pointers,
                          .h = d->h,
                          .y = d->x,
                          .scales = tables.scales,
                          .up_scale = s.up,
                          .down_scale = s.down,
                          .shared_down = s.shared_down };
    int units = (a.k + a.shared) * inner, down8 = (a.k + a.shared) * (inner / 8);
    int deep = deep_pieces(type, down8);
    launch_named(d, kernel_name(name, sizeof name, "up", type, piece),
                 MIN((size_t)(units + WARPS - 1) / WARPS, (size_t)(UP_BLOCKS * d->c->sms)),
                 vector_bytes(n8, piece), 0, &a);
    if (!l->router && in_pairs(d, p->hidden)) {
        launch_add(d, &l->mlp.down,
                   &(struct out_args){
                       .x = d->x2, .parts = d->h, .nparts = 1, .heads = 1, .dim = inner, .y = d->x });
        return;
    }
    launch_named(d, kernel_name(name, sizeof name, "down", type, deep),
                 even_grid(d->c, (p->hidden + WARPS - 1) / WARPS, DOWN_BLOCKS), vector_bytes(down8, deep), 0,
                 &a);
}

static void launch_head(struct cuda_decode *d) {
    const struct decode_plan *p = &d->plan;
    char name[64];
    enum dtype type = p->head.w.type;
    int n8 = p->hidden / 8, piece = pieces(type, n8);
    struct head_args a = { .state = d->state,
                           .x = d->x,
                           .norm = pointer_of(p->norm),
                           .eps = p->eps,
                           .hidden = p->hidden,
                           .vocab = p->vocab,
                           .w = pointer_of(p->head.w.data),
                           .logits = d->logits,
                           .ban_bits = d->ban_bits,
                           .ban_list = d->ban_list,
                           .sequence = d->sequence,
                           .out = d->out_device,
                           .router = d->router,
                           .router_n = p->layers * d->experts };
    size_t blocks = MIN((size_t)((p->vocab + 1) / 2 + WARPS - 1) / WARPS, (size_t)(HEAD_BLOCKS * d->c->sms));
    launch_named(d, kernel_name(name, sizeof name, "head", type, piece), blocks, vector_bytes(n8, piece), 0,
                 &a);
}

/* Captures a step whose attention runs in `splits` blocks per key head. */
static cu_exec capture_step(struct cuda_decode *d, int splits, const struct expert_tables *tables) {
    struct cuda *c = d->c;
    const struct decode_plan *p = &d->plan;
    cu_graph graph = NULL;
    cu_exec exec = NULL;
    unsigned launched = c->stamps.count;
    d->splits = splits;
    if (!c->failed &&
        cuda_ok(c, c->d->capture_begin(c->stream, CU_CAPTURE_THREAD_LOCAL), "capturing a graph")) {
        for (int i = 0; i < p->layers; i++) {
            launch_rows(d, i);
            if (p->rank)
                launch_latent(d, i);
            else
                launch_attention(d, i);
            launch_out(d, i);
            launch_mlp(d, i, tables[i]);
        }
        launch_head(d);
        int rc = c->d->capture_end(c->stream, &graph);
        if (!c->failed && cuda_ok(c, rc, "capturing a graph"))
            cuda_ok(c, c->d->graph_instantiate(&exec, graph, 0), "building a graph");
        if (graph) c->d->graph_destroy(graph);
    }
    c->stamps.count = launched; /* captured kernels did not run */
    return exec;
}

static void capture(struct cuda_decode *d) {
    struct expert_tables *tables = xcalloc((size_t)d->plan.layers, sizeof *tables);
    for (int i = 0; i < d->plan.layers; i++) tables[i] = upload_tables(d, &d->plan.layer[i]);
    int splits = d->splits;
    bool enough = 2 * CLUSTER * d->plan.kv_heads > d->c->sms; /* blocks for half of the GPU */
    if (d->cluster == CLUSTER && splits > CLUSTER && enough && !d->plan.rank)
        d->short_exec = capture_step(d, CLUSTER, tables);
    d->exec = capture_step(d, splits, tables);
    free(tables);
}

/* ---- the persistent kernel. Opened by the first request that can use it, because it needs a second copy of
 * the weights. */
static void open_persistent(struct cuda_decode *d) {
    char why[160];
    if (d->tried) return;
    d->tried = true;
    struct persistent_args buffers = { .state = d->state,
                                       .rules = d->rules,
                                       .qkv = d->qkv,
                                       .parts = d->parts,
                                       .h = d->h,
                                       .x = d->x,
                                       .logits = d->logits,
                                       .sequence = d->sequence,
                                       .ban_list = d->ban_list,
                                       .ban_bits = d->ban_bits,
                                       .out = d->out_device };
    d->persistent = cuda_persistent_open(d->c, &d->plan, &buffers, why, sizeof why);
    if (!d->persistent && d->plan.path == DECODE_PERSISTENT)
        log_warn("decode=persistent: the kernel is not used, because %s; steps run as graphs", why);
}

/* ---- calls */
static void decode_close(void *decode) {
    struct cuda_decode *d = decode;
    if (!d) return;
    d->c->d->stream_wait(d->c->stream);
    if (d->persistent && !d->c->failed) cuda_persistent_print_times(d->persistent);
    cuda_persistent_close(d->persistent);
    if (d->exec) d->c->d->exec_destroy(d->exec);
    if (d->short_exec) d->c->d->exec_destroy(d->short_exec);
    if (d->out) d->c->d->host_free(d->out);
    cuda_pool_free(&d->memory, d->c);
    free(d->layers);
    free(d);
}

static void *decode_open(void *context, const struct decode_plan *plan) {
    struct cuda *c = context;
    if (!plan_fits(c, plan)) return NULL;
    struct cuda_decode *d = xcalloc(1, sizeof *d);
    d->c = c;
    d->plan = *plan;
    d->layers = xmalloc((size_t)plan->layers * sizeof *d->layers);
    memcpy(d->layers, plan->layer, (size_t)plan->layers * sizeof *d->layers);
    d->plan.layer = d->layers;
    d->cluster = c->hopper ? CLUSTER : 1;
    int wanted = (c->sms + plan->kv_heads / 2) / plan->kv_heads;
    d->splits = MIN(MAX((wanted + CLUSTER - 1) / CLUSTER * CLUSTER, CLUSTER), MOST_SPLITS);
    allocate(d);
    capture(d);
    if (!c->failed) return d;
    decode_close(d);
    return NULL;
}

static void decode_prepare(void *decode) {
    struct cuda_decode *d = decode;
    if (!d->c->failed && d->plan.path != DECODE_GRAPH) open_persistent(d);
}

static void decode_begin(void *decode, const struct decode_start *s) {
    struct cuda_decode *d = decode;
    struct decode_state state = { .token = (int)s->ids[s->n - 1], .position = s->n - 1 };
    struct decode_rules rules = { .n = s->no_repeat, .window = s->window, .first = s->first };
    for (int i = 0; i < s->nallow && i < DECODE_MOST_ALLOWED; i++)
        rules.allow[rules.nallow++] = (int)s->allow[i];
    if (d->c->failed || !cuda_ok(d->c, d->c->d->stream_wait(d->c->stream), "a kernel")) return;
    d->taken = 0;
    d->position = s->n - 1;
    d->first_stamp = cuda_stamps_mark(d->c);
    d->resident = d->persistent;
    if (d->persistent) cuda_persistent_stop(d->persistent, false);
    memset(d->out, 0xff, ((size_t)d->plan.max_context + 2) * sizeof *d->out);
    cuda_copy_in(d->c, d->state, &state, sizeof state);
    cuda_copy_in(d->c, d->rules, &rules, sizeof rules);
    cuda_copy_in(d->c, d->sequence, s->ids, (size_t)s->n * sizeof *s->ids);
    if (!d->c->failed) /* a request that ended early may not have cleared its banned ids */
        cuda_ok(d->c,
                d->c->d->set_words((cu_ptr)(uintptr_t)d->ban_bits, 0, (size_t)d->plan.vocab / 32 + 1,
                                   d->c->stream),
                "clearing memory");
}

static int decode_portion(void *decode) { return ((struct cuda_decode *)decode)->resident ? 64 : 1; }

static void decode_stop(void *decode) {
    struct cuda_decode *d = decode;
    if (d->resident) cuda_persistent_stop(d->persistent, true);
}

static void decode_submit(void *decode, int steps) {
    struct cuda_decode *d = decode;
    if (d->resident) {
        if (cuda_persistent_run(d->persistent, steps)) return;
        cuda_persistent_close(d->persistent);
        d->persistent = NULL;
        d->resident = false;
    }
    for (int i = 0; i < steps && !d->c->failed; i++) {
        cu_exec exec = d->short_exec && d->position < SHORT_CONTEXT ? d->short_exec : d->exec;
        cuda_ok(d->c, d->c->d->graph_launch(exec, d->c->stream), "a decoding step");
        d->position++;
    }
}

static bool decode_take(void *decode, uint32_t *token) {
    struct cuda_decode *d = decode;
    if (d->c->failed) return false;
    const int *at = &d->out[d->taken];
    for (unsigned spins = 0;; spins++) {
        int v = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (v >= 0) {
            *token = (uint32_t)v;
            d->taken++;
            return true;
        }
        if (d->c->failed) return false;
        if (spins % 4096 != 4095) continue;
        int rc = d->c->d->stream_query(d->c->stream);
        if (rc == CU_NOT_READY) continue;
        if (rc == CU_OK && __atomic_load_n(at, __ATOMIC_ACQUIRE) >= 0) continue;
        char why[160] = "";
        if (d->resident && cuda_persistent_fault(d->persistent, why, sizeof why))
            log_warn("the persistent kernel gave up: %s", why);
        cuda_ok(d->c, rc == CU_OK ? 999 : rc, "a decoding step");
    }
}

/* The kernels of a step in the order of capture_step(): those of each layer, and the head. Returns their
 * number; 0: too many. */
static size_t graph_parts(const struct cuda_decode *d, const char *names[DECODE_MOST_SPANS],
                          const char *kernels[DECODE_MOST_SPANS]) {
    enum { USUAL = 1, LATENT = 2, TWO_STEPS = 4, ALL = USUAL | LATENT }; /* TWO_STEPS: with q_a and q_b */
    static const struct {
        const char *name, *kernel;
        unsigned where;
    } parts[] = { { "qkv", "decode_rows", ALL },        { "q_b", "decode_rows", TWO_STEPS },
                  { "absorb", "latent_begin", LATENT }, { "attention", "latent_attend", LATENT },
                  { "value", "latent_end", LATENT },    { "attention", "decode_attention", USUAL },
                  { "out", "decode_out", ALL },         { "up", "decode_up", ALL },
                  { "down", "decode_down", ALL } };
    unsigned here = (d->plan.rank ? LATENT : USUAL) | (d->q ? TWO_STEPS : 0);
    size_t n = 0;
    for (int layer = 0; layer < d->plan.layers; layer++)
        for (size_t i = 0; i < COUNTOF(parts); i++) {
            if (!(parts[i].where & here)) continue;
            if (n + 1 >= DECODE_MOST_SPANS) return 0;
            names[n] = parts[i].name;
            kernels[n++] = parts[i].kernel;
        }
    names[n] = "head";
    kernels[n] = "decode_head";
    return n + 1;
}

/* The type of the numbers that a part of a step reads. */
static enum dtype part_type(const struct cuda_decode *d, const char *name) {
    const struct decode_layer *l = &d->plan.layer[0];
    if (strcmp(name, "attention") == 0) return l->keys->type;
    if (strcmp(name, "absorb") == 0 || strcmp(name, "value") == 0) return l->kv_b.w.type;
    return d->resident || strcmp(name, "head") == 0 ? d->plan.head.w.type : layer_type(l);
}

static size_t decode_spans(void *decode, struct decode_span **spans) {
    struct cuda_decode *d = decode;
    const char *names[DECODE_MOST_SPANS], *kernels[DECODE_MOST_SPANS];
    struct step_part parts[DECODE_MOST_SPANS];
    size_t n =
        d->resident ? cuda_persistent_phases(d->persistent, names, kernels) : graph_parts(d, names, kernels);
    for (size_t i = 0; i < n; i++)
        parts[i] = (struct step_part){ names[i], kernels[i], part_type(d, names[i]), i };
    /* the persistent kernel also stores the end of each step */
    return cuda_stamps_spans(d->c,
                             &(struct stamped_steps){ .first = d->first_stamp,
                                                      .steps = (size_t)d->taken,
                                                      .parts = parts,
                                                      .nparts = n,
                                                      .times = d->resident ? n + 1 : n,
                                                      .end = n },
                             spans);
}

static void decode_read(void *decode, enum decode_vector which, float *to, size_t n) {
    struct cuda_decode *d = decode;
    const float *const from[] = { d->qkv, d->h, d->x, d->logits }; /* in the order of enum decode_vector */
    cuda_copy_out(d->c, to, from[which], n * sizeof *to);
}

const struct ops_decode_calls cuda_decode_calls = {
    .open = decode_open,
    .close = decode_close,
    .prepare = decode_prepare,
    .begin = decode_begin,
    .portion = decode_portion,
    .submit = decode_submit,
    .stop = decode_stop,
    .take = decode_take,
    .spans = decode_spans,
    .read = decode_read,
};
