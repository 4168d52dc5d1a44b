/* Decoding steps of several sequences as one CUDA graph, for models with bf16 or fp8 weights and bf16
 * caches on Hopper. Products and norms are in skinny.cu. Routed experts run as in prompts (experts.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"
#include "engine/cuda/decode_batch.h"
#include "engine/cuda/fp8.h"
#include "engine/cuda/latent.h"
#include "engine/cuda/skinny.h"

enum { THREADS = 256, NORM_THREADS = 512, CLUSTER = 8 };
enum { MOST_PARTS = 16 }; /* of a layer, and of what is outside of the layers */

/* ---- which models */
/* The fp8 kernels read 128 columns with one scale. */
static bool columns_fit(const struct linear *l) {
    enum { SHIFT_128 = 4 };
    return (l->w.type == DTYPE_BF16 ||
            (l->w.type == DTYPE_F8_E4M3 && cuda_scales(&l->w).shift >= SHIFT_128)) &&
           l->w.cols % 32 == 0;
}
/* Vectors that other kernels read in pieces of 16 bytes. Routers and heads may have any number of rows. */
static bool linear_fits(const struct linear *l) { return columns_fit(l) && l->w.rows % 16 == 0; }
/* One launch multiplies with both. */
static bool pair_fits(const struct linear *a, const struct linear *b) {
    return linear_fits(a) && linear_fits(b) && a->w.type == b->w.type;
}
static bool expert_fits(const struct expert *e) {
    return pair_fits(&e->gate, &e->up) && linear_fits(&e->down) && !e->gate.bias && !e->down.bias;
}
static bool latent_fits(const struct decode_layer *l) {
    bool steps = l->q_a.w.rows; /* queries are q_b norm(q_a x) */
    return (steps ? pair_fits(&l->q_a, &l->kv_a) && linear_fits(&l->q_b) && l->q_a.w.rows <= 8192
                  : pair_fits(&l->q, &l->kv_a)) &&
           l->kv_b.w.type == DTYPE_BF16 && !l->kv_b.bias && l->kv_b.w.cols % 8 == 0;
}
static bool layer_fits(const struct decode_plan *p, const struct decode_layer *l) {
    if (!l->keys || l->keys->type != DTYPE_BF16 || !linear_fits(&l->o)) return false;
    if (p->rank ? !latent_fits(l) : !pair_fits(&l->q, &l->k) || !pair_fits(&l->q, &l->v)) return false;
    if (!l->router) return expert_fits(&l->mlp);
    for (int i = 0; i < l->routing.n; i++)
        if (!expert_fits(&l->experts[i])) return false;
    if (!cuda_experts_alike(l->experts, l->routing.n, p->hidden)) return false;
    return columns_fit(l->router) && l->router->w.type == DTYPE_BF16 && !l->routing.sigmoid &&
           (!l->shared.gate.w.rows || expert_fits(&l->shared));
}
static bool plan_fits(const struct cuda *c, const struct decode_plan *p, int n) {
    if (!c->hopper || n > BATCH_MOST || p->hidden > 8192 || p->head.bias || !columns_fit(&p->head))
        return false;
    if (p->rank ? !cuda_latent_fits(p) : p->dim != 16 && p->dim != 32 && p->dim != 64 && p->dim != 128)
        return false;
    if (p->embed.type != DTYPE_BF16 || p->rope->dims > p->dim) return false;
    for (int i = 0; i < p->layers; i++)
        if (!layer_fits(p, &p->layer[i])) return false;
    return true;
}

/* ---- memory */
static void *device_memory(struct cuda_batch *b, size_t bytes) {
    return cuda_pool_add(&b->memory, b->c, bytes);
}

static size_t out_numbers(const struct cuda_batch *b) { return (size_t)b->max_context * BATCH_MOST; }

/* The first product of latent attention: queries or their latents, and the new row of the cache. */
static const struct linear *first_of(const struct decode_layer *l) { return l->q_a.w.rows ? &l->q_a : &l->q; }
static size_t latent_rows(const struct decode_layer *l) {
    return (size_t)(first_of(l)->w.rows + l->kv_a.w.rows);
}

/* All layers have the same sizes. */
static void allocate_latent(struct cuda_batch *b, const struct decode_plan *p) {
    const struct decode_layer *l = &p->layer[0];
    size_t n = (size_t)b->n, heads = (size_t)p->heads, q_rank = (size_t)l->q_a.w.rows,
           splits = (size_t)cuda_latent_splits(b->c, p, l->keys->type, b->n);
    b->qkv = device_memory(b, PARTS_MOST * n * latent_rows(l) * 4);
    b->mixed = device_memory(b, n * heads * (size_t)p->value * 2);
    b->absorbed = device_memory(b, n * heads * (size_t)(p->rank + p->rotated) * 4);
    b->sums = device_memory(b, n * splits * heads * ((size_t)p->rank + 2) * 4);
    if (!q_rank) return;
    b->q_latent = device_memory(b, n * q_rank * 2);
    b->q = device_memory(b, PARTS_MOST * n * heads * (size_t)p->dim * 4);
}

static void allocate(struct cuda_batch *b, const struct decode_plan *p) {
    size_t n = (size_t)b->n, heads = (size_t)p->heads * (size_t)p->dim, widest = 0, experts = 1;
    void *there;
    for (int i = 0; i < p->layers; i++) {
        const struct decode_layer *l = &p->layer[i];
        widest = MAX(widest, (size_t)MAX(l->mlp.gate.w.rows, l->shared.gate.w.rows));
        if (l->router) experts = MAX(experts, (size_t)l->routing.n);
    }
    b->router = device_memory(b, n * experts * 4);
    b->state = device_memory(b, n * sizeof *b->state);
    b->tokens = device_memory(b, n * sizeof *b->tokens);
    b->x = device_memory(b, n * (size_t)p->hidden * 4);
    b->h = device_memory(b, n * (size_t)p->hidden * 2);
    b->parts = device_memory(b, PARTS_MOST * n * (size_t)p->hidden * 4);
    if (p->rank) {
        allocate_latent(b, p);
    } else {
        b->qkv = device_memory(b, PARTS_MOST * n * (heads + 2 * (size_t)(p->kv_heads * p->dim)) * 4);
        b->mixed = device_memory(b, n * heads * 2);
    }
    b->inner = device_memory(b, n * widest * 2);
    b->logits = device_memory(b, n * (size_t)p->vocab * 4);
    b->out = cuda_shared_memory(b->c, out_numbers(b) * sizeof *b->out, &there);
    b->out_device = there;
}

/* ---- launches, which the stream captures */
/* Names the kernels that are launched next, up to the next part, after the first `ahead` of them. */
static void name_part(struct cuda_batch *b, size_t ahead, const char *name, const char *kernel,
                      enum dtype type) {
    vec_push(&b->named,
             ((struct step_part){ name, kernel, type, b->c->stamps.count - b->first_launch + ahead }));
}

static void launch_norm_kernel(struct cuda_batch *b, struct skinny_norm_args *a) {
    name_part(b, 0, "norm", "skinny_norm", DTYPE_F32);
    cuda_launch_named(b->c, MODULE_skinny, "skinny_norm", GRID((size_t)b->n, .threads = NORM_THREADS), 1, a);
}

/* x += the parts of the last product; h = norm(x) */
static void launch_norm(struct cuda_batch *b, const struct decode_plan *p, const struct tensor *w) {
    struct skinny_norm_args a = { .x = b->x,
                                  .parts = b->parts,
                                  .nparts = b->nparts,
                                  .n = p->hidden,
                                  .part_row = p->hidden,
                                  .part_stride = (long)b->n * p->hidden,
                                  .w = pointer_of(w),
                                  .eps = p->eps,
                                  .y = b->h };
    launch_norm_kernel(b, &a);
    b->nparts = 0;
}

/* y = x [l[0]; l[1]; ...]^T + bias. y has room for `parts` parts, whose sum is the result. Returns their
 * number. */
static int launch_rows(struct cuda_batch *b, const char *name, const void *x, const struct linear *const *l,
                       int n, int parts, float *y) {
    name_part(b, 0, name, "skinny", l[0]->w.type);
    return cuda_skinny(b->c,
                       &(struct skinny){ .x = x, .l = l, .n = n, .batch = b->n, .y = y, .parts = parts });
}

/* b->x += x l^T + bias, in the next norm */
static void launch_add(struct cuda_batch *b, const char *name, const void *x, const struct linear *l) {
    b->nparts = launch_rows(b, name, x, &l, 1, PARTS_MOST, b->parts);
}

/* inner = silu(h l[0]^T) (h l[1]^T) */
static void launch_pair(struct cuda_batch *b, const char *name, const struct linear *const *l) {
    name_part(b, 0, name, "skinny_pair", l[0]->w.type);
    cuda_skinny(b->c, &(struct skinny){ .x = b->h, .l = l, .n = 2, .batch = b->n, .narrow = b->inner });
}

static void launch_attention(struct cuda_batch *b, const struct decode_plan *p,
                             const struct decode_layer *l) {
    char name[64];
    int blocks = p->kv_heads * b->n >= b->c->sms ? 1 : CLUSTER; /* per sequence and key head */
    struct decode_attention_args usual = cuda_attention_args(p, l);
    usual.state = b->state;
    usual.qkv = b->qkv;
    usual.splits = usual.cluster = blocks;
    usual.narrow = b->mixed;
    struct decode_attention_parts_args a = { usual, b->qkv_parts,
                                             (long)b->n * (p->heads + 2 * p->kv_heads) * p->dim };
    snprintf(name, sizeof name, "decode_attention_parts_bf16_%d_%d", p->dim, p->heads == p->kv_heads ? 1 : 4);
    name_part(b, 0, "attention", "decode_attention", l->keys->type);
    cuda_launch_named(b->c, MODULE_decode_attention_parts, name,
                      GRID((size_t)(p->kv_heads * blocks), (size_t)b->n, .threads = THREADS), blocks, &a);
}

/* Queries q_b norm(q_a x). The first product has computed q_a x. */
static struct latent_rows_in launch_queries(struct cuda_batch *b, const struct decode_plan *p,
                                            const struct decode_layer *l) {
    const struct linear *const q_b[] = { &l->q_b };
    long row = (long)latent_rows(l), width = (long)p->heads * p->dim;
    struct skinny_norm_args a = { .parts = b->qkv,
                                  .nparts = b->qkv_parts,
                                  .n = l->q_a.w.rows,
                                  .part_row = row,
                                  .part_stride = b->n * row,
                                  .w = pointer_of(l->q_a_norm),
                                  .eps = p->latent_eps,
                                  .y = b->q_latent };
    launch_norm_kernel(b, &a);
    int parts = launch_rows(b, "q_b", b->q_latent, q_b, 1, PARTS_MOST, b->q);
    return (struct latent_rows_in){ b->q, width, b->n * width, parts };
}

static void launch_latent(struct cuda_batch *b, const struct decode_plan *p, const struct decode_layer *l) {
    const struct linear *const in[] = { first_of(l), &l->kv_a };
    long row = (long)latent_rows(l);
    struct latent_args a = cuda_latent_args(b->c, p, l, b->n);
    b->qkv_parts = launch_rows(b, "qkv", b->h, in, 2, PARTS_MOST, b->qkv);
    a.kept = (struct latent_rows_in){ b->qkv + in[0]->w.rows, row, b->n * row, b->qkv_parts };
    a.q = (struct latent_rows_in){ b->qkv, row, b->n * row, b->qkv_parts };
    if (l->q_a.w.rows) a.q = launch_queries(b, p, l);
    a.state = b->state;
    a.absorbed = b->absorbed;
    a.sums = b->sums;
    a.narrow = b->mixed;
    name_part(b, 0, "absorb", "latent_begin", l->kv_b.w.type);
    name_part(b, 1, "attention", "latent_attend", l->keys->type);
    name_part(b, 2, "value", "latent_end", l->kv_b.w.type);
    cuda_launch_latent(b->c, &a, l->kv_b.w.type);
}

/* x += the expert of h. Used for dense layers and shared experts. */
static void launch_expert(struct cuda_batch *b, const char *up_name, const char *down_name,
                          const struct expert *e) {
    const struct linear *const up[] = { &e->gate, &e->up };
    launch_pair(b, up_name, up);
    launch_add(b, down_name, b->inner, &e->down);
}

static struct tensor tensor_at(const void *p, enum dtype type) {
    return (struct tensor){ .data = (cu_ptr)(uintptr_t)p, .type = type };
}

static void launch_routed(struct cuda_batch *b, const struct decode_plan *p, const struct decode_layer *l) {
    struct tensor x = tensor_at(b->x, DTYPE_F32), h = tensor_at(b->h, DTYPE_BF16),
                  logits = tensor_at(b->router, DTYPE_F32);
    launch_rows(b, "router", b->h, &l->router, 1, 1, b->router);
    name_part(b, 0, "experts", "experts_grouped", l->experts[0].gate.w.type);
    cuda_experts_many(b->c, l->experts, &l->routing, view_of(&logits), view_of(&h), b->n, p->hidden,
                      view_of(&x));
    if (l->shared.gate.w.rows) launch_expert(b, "shared_up", "shared_down", &l->shared);
}

static void launch_layer(struct cuda_batch *b, const struct decode_plan *p, const struct decode_layer *l) {
    const struct linear *const qkv[] = { &l->q, &l->k, &l->v };
    launch_norm(b, p, l->norm1);
    if (p->rank) {
        launch_latent(b, p, l);
    } else {
        b->qkv_parts = launch_rows(b, "qkv", b->h, qkv, 3, PARTS_MOST, b->qkv);
        launch_attention(b, p, l);
    }
    launch_add(b, "out", b->mixed, &l->o);
    launch_norm(b, p, l->norm2);
    if (l->router)
        launch_routed(b, p, l);
    else
        launch_expert(b, "up", "down", &l->mlp);
}

static void launch_step(struct cuda_batch *b, const struct decode_plan *p) {
    const struct linear *const head[] = { &p->head };
    void *table = pointer_of(p->embed.data);
    int columns = p->hidden;
    struct batch_pick_args pick = { .logits = b->logits,
                                    .vocab = p->vocab,
                                    .max_context = p->max_context,
                                    .steps = b->max_context,
                                    .state = b->state,
                                    .tokens = b->tokens,
                                    .out = b->out_device };
    b->nparts = 0; /* prepare_routed() may have left some */
    b->named.n = 0;
    b->first_launch = b->c->stamps.count;
    name_part(b, 0, "embed", "embed", p->embed.type);
    LAUNCH(b->c, embed_bf16, GRID((size_t)b->n, .threads = THREADS), &table, &b->tokens, &columns, &b->x);
    for (int i = 0; i < p->layers; i++) launch_layer(b, p, &p->layer[i]);
    launch_norm(b, p, p->norm);
    launch_rows(b, "head", b->h, head, 1, 1, b->logits);
    name_part(b, 0, "pick", "batch_pick", DTYPE_F32);
    cuda_launch_named(b->c, MODULE_decode_batch, "batch_pick", GRID((size_t)b->n, .threads = 1024), 1, &pick);
    b->launches = b->c->stamps.count - b->first_launch;
}

/* Exchanges the backend's scratch memory and the one of the batch. */
static void swap_scratch(struct cuda_batch *b) {
    for (int i = 0; i < SCRATCH_COUNT; i++) {
        struct tensor *t = b->c->scratch[i];
        b->c->scratch[i] = b->scratch[i];
        b->scratch[i] = t;
    }
}

/* Runs the routed experts once, on zeros, so that everything they allocate exists before the capture. */
static void prepare_routed(struct cuda_batch *b, const struct decode_plan *p) {
    for (int i = 0; i < p->layers; i++)
        if (p->layer[i].router) launch_routed(b, p, &p->layer[i]);
    if (!b->c->failed) cuda_ok(b->c, b->c->d->stream_wait(b->c->stream), "a kernel");
}

static void capture(struct cuda_batch *b, const struct decode_plan *p) {
    struct cuda *c = b->c;
    cu_graph graph = NULL;
    unsigned launched = c->stamps.count;
    if (c->failed ||
        !cuda_ok(c, c->d->capture_begin(c->stream, CU_CAPTURE_THREAD_LOCAL), "capturing a graph"))
        return;
    launch_step(b, p);
    c->stamps.count = launched; /* captured kernels did not run */
    int rc = c->d->capture_end(c->stream, &graph);
    if (!c->failed && cuda_ok(c, rc, "capturing a graph"))
        cuda_ok(c, c->d->graph_instantiate(&b->exec, graph, 0), "building a graph");
    if (graph) c->d->graph_destroy(graph);
}

/* ---- calls */
static void batch_close(void *batch) {
    struct cuda_batch *b = batch;
    if (!b) return;
    b->c->d->stream_wait(b->c->stream);
    if (b->exec) b->c->d->exec_destroy(b->exec);
    if (b->out) b->c->d->host_free(b->out);
    cuda_pool_free(&b->memory, b->c);
    for (int i = 0; i < SCRATCH_COUNT; i++) {
        if (b->scratch[i]) cuda_memory_free(b->c, b->scratch[i]->data);
        free(b->scratch[i]);
    }
    free(b->named.v);
    free(b);
}

static void *batch_open(void *context, const struct decode_plan *plan, int n) {
    struct cuda *c = context;
    if (!plan_fits(c, plan, n) || !cuda_skinny_load(c)) return NULL;
    struct cuda_batch *b = xcalloc(1, sizeof *b);
    b->c = c;
    b->n = n;
    b->vocab = plan->vocab;
    b->max_context = plan->max_context;
    allocate(b, plan);
    vec_reserve(&b->named,
                (size_t)plan->layers * MOST_PARTS + MOST_PARTS); /* the capture must not end here */
    swap_scratch(b);
    prepare_routed(b, plan);
    capture(b, plan);
    swap_scratch(b);
    if (!c->failed) return b;
    batch_close(b);
    return NULL;
}

static void batch_begin(void *batch, const uint32_t *tokens, const int *positions) {
    struct cuda_batch *b = batch;
    struct decode_state state[BATCH_MOST] = { 0 };
    if (b->c->failed || !cuda_ok(b->c, b->c->d->stream_wait(b->c->stream), "a kernel")) return;
    for (int i = 0; i < b->n; i++) state[i].position = positions[i];
    b->taken = 0;
    b->first_stamp = cuda_stamps_mark(b->c);
    memset(b->out, 0xff, out_numbers(b) * sizeof *b->out);
    cuda_copy_in(b->c, b->state, state, (size_t)b->n * sizeof *state);
    cuda_copy_in(b->c, b->tokens, tokens, (size_t)b->n * sizeof *tokens);
}

static void batch_submit(void *batch, int steps) {
    struct cuda_batch *b = batch;
    for (int i = 0; i < steps && !b->c->failed; i++)
        cuda_ok(b->c, b->c->d->graph_launch(b->exec, b->c->stream), "a decoding step");
}

static bool batch_take(void *batch, uint32_t *tokens) {
    struct cuda_batch *b = batch;
    if (b->c->failed) return false;
    const int *at = b->out + (size_t)b->taken * BATCH_MOST;
    for (int i = 0; i < b->n; i++) {
        int v;
        for (unsigned spins = 0; (v = __atomic_load_n(at + i, __ATOMIC_ACQUIRE)) < 0; spins++) {
            if (b->c->failed) return false;
            if (spins % 4096 != 4095) continue;
            int rc = b->c->d->stream_query(b->c->stream);
            if (rc == CU_NOT_READY || (rc == CU_OK && __atomic_load_n(at + i, __ATOMIC_ACQUIRE) >= 0))
                continue;
            cuda_ok(b->c, rc == CU_OK ? 999 : rc, "a decoding step");
        }
        tokens[i] = (uint32_t)v;
    }
    b->taken++;
    return true;
}

static size_t batch_spans(void *batch, struct decode_span **spans) {
    struct cuda_batch *b = batch;
    return cuda_stamps_spans(b->c,
                             &(struct stamped_steps){ .first = b->first_stamp,
                                                      .steps = (size_t)b->taken,
                                                      .parts = b->named.v,
                                                      .nparts = b->named.n,
                                                      .times = b->launches,
                                                      .end = b->launches },
                             spans);
}

const struct ops_batch_calls cuda_batch_calls = { .open = batch_open,
                                                  .close = batch_close,
                                                  .begin = batch_begin,
                                                  .submit = batch_submit,
                                                  .take = batch_take,
                                                  .spans = batch_spans };
