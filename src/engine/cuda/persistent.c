/* Stores the weights in the persistent kernel's order, and starts the kernel. */
#include "engine/cuda/persistent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

enum {
    /* with fewer blocks, the tiles of `out` would not fit into a block's memory */
    FEWEST_BLOCKS = 10 * P_HEADS,
    THREADS = (P_CONSUMERS + P_PRODUCERS) * 32,
    COPIES = 1,     /* most copies in flight per producer */
    HEAD_COPIES = 3 /* the same, for the head */
};
#define LONGEST_WAIT_NS 10000000000ull /* a block that waits longer ends the kernel with an error */
#define SLOW_TOOL_WAIT_NS (1000 * LONGEST_WAIT_NS)
#define SPARE_BYTES ((size_t)1 << 30) /* memory that stays free for prompts and images */

struct shared_state { /* in host memory that the kernel can access */
    int stop;
    struct persistent_fault fault;
};

struct cuda_persistent {
    struct cuda *c;
    struct persistent_args args;
    cu_function kernel, store;
    cu_ptr memory, layers, sync, times;
    size_t used; /* bytes of `memory` that take() has given out */
    unsigned shared_bytes;
    struct shared_state *host;
    long steps; /* steps of all launches */
    bool dense[P_MOST_LAYERS];
};

/* ---- which models */
static bool layer_fits(const struct decode_layer *l) {
    if (l->q.bias || l->k.bias || l->v.bias || l->o.bias || l->q_norm || l->k_norm || l->window) return false;
    if (!l->keys || l->keys->type != DTYPE_BF16 || l->q.w.type != DTYPE_BF16) return false;
    if (!l->router) return l->mlp.gate.w.rows == P_DENSE;
    const struct routing *r = &l->routing;
    return r->n == P_EXPERTS && r->k == P_CHOSEN && r->groups <= 1 && !r->normalise && r->scale == 1.0f &&
           !r->sigmoid && l->experts[0].gate.w.rows == P_INNER && l->shared.gate.w.rows == 2 * P_INNER;
}

static const char *why_not(const struct cuda *c, const struct decode_plan *p) {
    if (p->rank || p->hidden != P_HIDDEN || p->heads != P_HEADS || p->kv_heads != P_HEADS || p->dim != P_DIM)
        return "it runs DeepSeek-OCR's decoder only";
    if (p->head.w.type != DTYPE_BF16) return "it needs bf16 weights";
    if (p->layers > P_MOST_LAYERS || p->vocab % 16 || p->rope->dims != P_DIM || p->rope->interleaved)
        return "it runs DeepSeek-OCR's decoder only";
    for (int i = 0; i < p->layers; i++)
        if (!layer_fits(&p->layer[i])) return "it runs DeepSeek-OCR's decoder with a bf16 cache only";
    if (!c->hopper) return "it needs a Hopper GPU";
    return c->sms < FEWEST_BLOCKS ? "the GPU has too few multiprocessors" : NULL;
}

/* Returns the number of experts that are stored for a layer. The shared expert counts as two, a dense
 * layer as P_SLOTS. */
static size_t experts_of(const struct decode_layer *l) {
    return l->router ? P_EXPERTS + P_SLOTS - P_CHOSEN : P_SLOTS;
}
static size_t bytes_of_layer(const struct decode_layer *l) {
    return (size_t)P_QKV_BYTES + P_OUT_BYTES + (l->router ? P_ROUTER_BYTES : 0) +
           experts_of(l) * (P_UP_BYTES + (size_t)P_DOWN_BYTES);
}
static size_t bytes_of(const struct decode_plan *p) {
    size_t n = (size_t)p->vocab * P_HIDDEN * 2;
    for (int i = 0; i < p->layers; i++) n += bytes_of_layer(&p->layer[i]);
    return n;
}

/* ---- the second copy of the weights */
static char *take(struct cuda_persistent *p, size_t bytes) {
    char *at = (char *)(uintptr_t)p->memory + p->used;
    p->used += bytes;
    return at;
}

/* Writes a matrix in the kernel's order. a.first and a.second point to the first number to store. */
static void store(struct cuda_persistent *p, struct persistent_pack a) {
    struct cu_launch l = { .grid_x = (unsigned)MIN((a.tiles * a.steps + 7) / 8, 4096),
                           .grid_y = 1,
                           .grid_z = 1,
                           .block_x = 256,
                           .block_y = 1,
                           .block_z = 1,
                           .stream = p->c->stream };
    void *params[] = { &a };
    if (!p->c->failed) cuda_ok(p->c, p->c->d->launch(&l, p->store, params, NULL), "persistent_store");
}

static const unsigned short *numbers(const struct linear *l) { return pointer_of(l->w.data); }

/* Stores rows `from` .. `from` + P_INNER - 1 of gate and up, and the same columns of down. Numbers outside
 * of the matrices become zeros. `all`: number of rows of gate, which is the width of down. */
static void store_expert(struct cuda_persistent *p, const struct expert *e, int from, int all, char *up,
                         char *down) {
    int rows = MIN(P_INNER, all - from);
    store(p, (struct persistent_pack){ .first = numbers(&e->gate) + (size_t)from * P_HIDDEN,
                                       .second = numbers(&e->up) + (size_t)from * P_HIDDEN,
                                       .to = (void *)up,
                                       .row = P_HIDDEN,
                                       .tiles = P_UP_TILES,
                                       .steps = P_STEPS,
                                       .rows = rows,
                                       .columns = P_HIDDEN });
    store(p, (struct persistent_pack){ .first = numbers(&e->down) + from,
                                       .to = (void *)down,
                                       .row = all,
                                       .tiles = P_OUT_TILES,
                                       .steps = P_DOWN_STEPS,
                                       .rows = P_HIDDEN,
                                       .columns = rows });
}

static void store_attention(struct cuda_persistent *p, const struct decode_layer *l, char *qkv, char *out) {
    const struct linear *const in[] = { &l->q, &l->k, &l->v };
    enum { TILES = P_DIM / 16 };
    for (int h = 0; h < P_HEADS; h++) {
        for (int m = 0; m < 3; m++)
            store(p, (struct persistent_pack){
                         .first = numbers(in[m]) + (size_t)h * P_DIM * P_HIDDEN,
                         .to = (void *)(qkv + (size_t)(h * 3 + m) * TILES * P_STEPS * P_BLOCK_BYTES),
                         .row = P_HIDDEN,
                         .tiles = TILES,
                         .steps = P_STEPS,
                         .rows = P_DIM,
                         .columns = P_HIDDEN });
        store(p, (struct persistent_pack){
                     .first = numbers(&l->o) + (size_t)h * P_DIM,
                     .to = (void *)(out + (size_t)h * P_OUT_TILES * P_OUT_STEPS * P_BLOCK_BYTES),
                     .row = P_HIDDEN,
                     .tiles = P_OUT_TILES,
                     .steps = P_OUT_STEPS,
                     .rows = P_HIDDEN,
                     .columns = P_DIM });
    }
}

static struct persistent_layer store_layer(struct cuda_persistent *p, const struct decode_layer *l) {
    int experts = (int)experts_of(l);
    char *qkv = take(p, P_QKV_BYTES), *out = take(p, P_OUT_BYTES),
         *router = l->router ? take(p, P_ROUTER_BYTES) : NULL, *up = take(p, (size_t)experts * P_UP_BYTES),
         *down = take(p, (size_t)experts * P_DOWN_BYTES);
    store_attention(p, l, qkv, out);
    if (l->router)
        store(p, (struct persistent_pack){ .first = numbers(l->router),
                                           .to = (void *)router,
                                           .row = P_HIDDEN,
                                           .tiles = P_EXPERTS / 16,
                                           .steps = P_STEPS,
                                           .rows = P_EXPERTS,
                                           .columns = P_HIDDEN,
                                           .paired_tiles = true });
    for (int e = 0; e < experts; e++) {
        char *u = up + (size_t)e * P_UP_BYTES, *d = down + (size_t)e * P_DOWN_BYTES;
        if (!l->router)
            store_expert(p, &l->mlp, e * P_INNER, P_DENSE, u, d);
        else if (e < P_EXPERTS)
            store_expert(p, &l->experts[e], 0, P_INNER, u, d);
        else
            store_expert(p, &l->shared, (e - P_EXPERTS) * P_INNER, 2 * P_INNER, u, d);
    }
    return (struct persistent_layer){ .qkv = qkv,
                                      .out = out,
                                      .router = router,
                                      .up = up,
                                      .down = down,
                                      .norm1 = pointer_of(l->norm1),
                                      .norm2 = pointer_of(l->norm2),
                                      .keys = pointer_of(l->keys),
                                      .values = pointer_of(l->values) };
}

static void store_weights(struct cuda_persistent *p, const struct decode_plan *plan) {
    struct persistent_layer *layers = xcalloc((size_t)plan->layers, sizeof *layers);
    size_t bytes = (size_t)plan->layers * sizeof *layers;
    char *head = take(p, (size_t)plan->vocab * P_HIDDEN * 2);
    for (int i = 0; i < plan->layers; i++) layers[i] = store_layer(p, &plan->layer[i]);
    store(p, (struct persistent_pack){ .first = numbers(&plan->head),
                                       .to = (void *)head,
                                       .row = P_HIDDEN,
                                       .tiles = plan->vocab / 16,
                                       .steps = P_STEPS,
                                       .rows = plan->vocab,
                                       .columns = P_HIDDEN });
    p->args.head = head;
    p->args.layer = (void *)(uintptr_t)p->layers;
    if (!p->c->failed && cuda_ok(p->c, p->c->d->copy_in(p->layers, layers, bytes, p->c->stream), "copying"))
        cuda_ok(p->c, p->c->d->stream_wait(p->c->stream), "persistent_store");
    free(layers);
}

/* ---- opening */
static bool allocate(struct cuda_persistent *p, const struct decode_plan *plan, char *why, size_t room) {
    const struct driver *d = p->c->d;
    size_t need = bytes_of(plan), free_bytes = 0, total = 0;
    void *host = NULL;
    cu_ptr there = 0;
    if (d->mem_info(&free_bytes, &total) != CU_OK || free_bytes < need + SPARE_BYTES) {
        snprintf(why, room, "its copy of the weights needs %.1f GB, but only %.1f GB are free",
                 (double)(need + SPARE_BYTES) / 1e9, (double)free_bytes / 1e9);
        return false;
    }
    if (d->mem_alloc(&p->memory, need) != CU_OK ||
        d->mem_alloc(&p->layers, (size_t)plan->layers * sizeof(struct persistent_layer)) != CU_OK ||
        d->mem_alloc(&p->sync, sizeof(struct persistent_sync)) != CU_OK ||
        d->host_alloc(&host, sizeof *p->host, CU_HOST_PORTABLE_MAPPED) != CU_OK) {
        snprintf(why, room, "the GPU has too little free memory");
        return false;
    }
    p->host = host;
    memset(p->host, 0, sizeof *p->host);
    if (d->host_pointer(&there, host, 0) != CU_OK) {
        snprintf(why, room, "the GPU cannot read host memory");
        return false;
    }
    p->args.host_stop = (const int *)(uintptr_t)there;
    p->args.fault = (void *)(uintptr_t)(there + offsetof(struct shared_state, fault));
    return true;
}

/* Clears the counters and starts the kernel. Returns the driver's result; CU_OK: started. */
static int start(struct cuda_persistent *p, int steps) {
    struct cu_attribute together = { .id = CU_LAUNCH_COOPERATIVE };
    together.value.cooperative = 1;
    struct cu_launch l = { .grid_x = (unsigned)p->c->sms,
                           .grid_y = 1,
                           .grid_z = 1,
                           .block_x = THREADS,
                           .block_y = 1,
                           .block_z = 1,
                           .shared_bytes = p->shared_bytes,
                           .stream = p->c->stream,
                           .attrs = &together,
                           .nattrs = 1 };
    void *params[] = { &p->args };
    p->args.steps = steps;
    int rc = p->c->d->set_words(p->sync, 0, sizeof(struct persistent_sync) / 4, p->c->stream);
    return rc != CU_OK ? rc : p->c->d->launch(&l, p->kernel, params, NULL);
}

static bool load_kernels(struct cuda_persistent *p, char *why, size_t room) {
    struct cuda *c = p->c;
    p->shared_bytes = P_SHARED_BYTES;
    if (c->d->module_function(&p->kernel, c->modules[MODULE_persistent], "persistent_decode") == CU_OK &&
        c->d->module_function(&p->store, c->modules[MODULE_persistent], "persistent_store") == CU_OK &&
        c->d->function_set(p->kernel, CU_FUNC_MAX_SHARED, (int)p->shared_bytes) == CU_OK)
        return true;
    snprintf(why, room, "the driver does not accept it");
    return false;
}

struct cuda_persistent *cuda_persistent_open(struct cuda *c, const struct decode_plan *plan,
                                             const struct persistent_args *buffers, char *why, size_t room) {
    const char *reason = why_not(c, plan);
    if (reason || c->failed) {
        snprintf(why, room, "%s", reason ? reason : "the GPU failed");
        return NULL;
    }
    struct cuda_persistent *p = xcalloc(1, sizeof *p);
    p->c = c;
    p->args = *buffers;
    p->args.layers = plan->layers;
    for (int i = 0; i < plan->layers; i++) p->dense[i] = !plan->layer[i].router;
    p->args.vocab = plan->vocab;
    p->args.max_context = plan->max_context;
    p->args.eps = plan->eps;
    p->args.scale = plan->scale;
    p->args.embed = pointer_of(plan->embed.data);
    p->args.norm = pointer_of(plan->norm);
    p->args.cosine = pointer_of(plan->rope->cosine);
    p->args.sine = pointer_of(plan->rope->sine);
    bool slow_tool = getenv("INFERPROF_CUDA_RACECHECK") != NULL;
    p->args.limit_ns = slow_tool ? SLOW_TOOL_WAIT_NS : LONGEST_WAIT_NS;
    p->args.arrivals = slow_tool ? 32 : 1;
    p->args.depth = COPIES;
    p->args.head_depth = HEAD_COPIES;
    p->args.delay = getenv("INFERPROF_CUDA_DELAY") != NULL;
    if (!load_kernels(p, why, room) || !allocate(p, plan, why, room)) {
        cuda_persistent_close(p);
        return NULL;
    }
    p->args.sync = (void *)(uintptr_t)p->sync;
    if (getenv("INFERPROF_CUDA_STAMPS")) {
        size_t bytes = (size_t)c->sms * P_PHASES * 8;
        if (c->d->mem_alloc(&p->times, bytes) == CU_OK &&
            c->d->set_words(p->times, 0, bytes / 4, c->stream) == CU_OK)
            p->args.times = (void *)(uintptr_t)p->times;
    }
    store_weights(p, plan);
    if (!c->failed && start(p, 0) != CU_OK) { /* tests whether all blocks can run at the same time */
        snprintf(why, room, "its blocks cannot all run at the same time (MPS, or another program?)");
        cuda_persistent_close(p);
        return NULL;
    }
    return p;
}

void cuda_persistent_close(struct cuda_persistent *p) {
    if (!p) return;
    const struct driver *d = p->c->d;
    cu_ptr all[] = { p->memory, p->layers, p->sync, p->times };
    d->stream_wait(p->c->stream);
    for (size_t i = 0; i < COUNTOF(all); i++)
        if (all[i]) d->mem_free(all[i]);
    if (p->host) d->host_free(p->host);
    free(p);
}

/* ---- running */
bool cuda_persistent_run(struct cuda_persistent *p, int steps) {
    int rc = p->c->failed ? CU_OK : start(p, steps);
    if (rc == CU_TOO_MANY_BLOCKS) return false;
    cuda_ok(p->c, rc, "persistent_decode");
    p->steps += steps;
    return true;
}

void cuda_persistent_stop(struct cuda_persistent *p, bool stop) {
    __atomic_store_n(&p->host->stop, stop, __ATOMIC_RELEASE);
}

bool cuda_persistent_fault(const struct cuda_persistent *p, char *to, size_t room) {
    static const char *const places[] = { "",           "all blocks",    "the blocks of its head", "weights",
                                          "free space", "a copy to end", "the choice of experts" };
    const struct persistent_fault *f = &p->host->fault;
    if (!__atomic_load_n(&f->set, __ATOMIC_ACQUIRE)) return false;
    snprintf(to, room, "block %d waited too long for %s (%d)", f->block,
             places[f->place >= 0 && f->place < (int)COUNTOF(places) ? f->place : 0], f->epoch);
    return true;
}

/* The phases T_NORM .. T_HEAD_BARRIER of persistent.cu, in that order. In traces, each one is a kernel. */
/* clang-format off */
#define PHASES(X) \
    X("norm") X("qkv") X("qkv_barrier") X("attention") X("parts_barrier") X("out") X("router") \
    X("out_barrier") X("choice") X("up") X("up_barrier") X("down") X("down_barrier") X("head") \
    X("head_barrier")
/* clang-format on */
#define NAME(phase) phase,
#define KERNEL_NAME(phase) "persistent_" phase,
static const char *const phases[] = { PHASES(NAME) };
static const char *const phase_kernels[] = { PHASES(KERNEL_NAME) };

size_t cuda_persistent_phases(const struct cuda_persistent *p, const char *names[DECODE_MOST_SPANS],
                              const char *kernels[DECODE_MOST_SPANS]) {
    enum { ROUTER = 6, HEAD = 13, PHASE_COUNT = COUNTOF(phases) };
    size_t n = 0;
    for (int i = 0; i < p->args.layers + 1; i++) { /* the last round is the head */
        int first = i < p->args.layers ? 0 : HEAD, end = i < p->args.layers ? HEAD : PHASE_COUNT;
        for (int phase = first; phase < end; phase++) {
            if (phase == ROUTER && p->dense[i]) continue; /* out() stores one time instead of two */
            names[n] = phases[phase];
            kernels[n++] = phase_kernels[phase];
        }
    }
    return n;
}

void cuda_persistent_print_times(struct cuda_persistent *p) {
    size_t n = (size_t)p->c->sms * P_PHASES;
    unsigned long long *v = xcalloc(n, sizeof *v);
    if (p->times && p->steps > 0 && p->c->d->copy_out(v, p->times, n * sizeof *v, p->c->stream) == CU_OK &&
        p->c->d->stream_wait(p->c->stream) == CU_OK) {
        fprintf(stderr, "persistent kernel, us per step (mean; least and most of the blocks):\n");
        for (size_t i = 0; i < COUNTOF(phases); i++) {
            double sum = 0, least = 1e30, most = 0;
            for (int b = 0; b < p->c->sms; b++) {
                double t = (double)v[(size_t)b * P_PHASES + i] / 1e3 / (double)p->steps;
                sum += t;
                least = MIN(least, t);
                most = MAX(most, t);
            }
            fprintf(stderr, "  %-14s %7.2f  %7.2f  %7.2f\n", phases[i], sum / p->c->sms, least, most);
        }
    }
    free(v);
}
