/* The kernels that decoding steps of one sequence (decode.c) and of several (decode_batch.c) launch,
 * recorded by a driver that launches nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/cuda/calls.h"
#include "engine/cuda/decode_batch.h"
#include "engine/cuda/fp8.h"
#include "engine/cuda/skinny.h"
#include "unit/test.h"

enum { SEQUENCES = 32, LAYERS = 2, HIDDEN = 4096, INNER = 12288, HEADS = 32, KV_HEADS = 8, DIM = 128 };
enum { QKV_ROWS = (HEADS + 2 * KV_HEADS) * DIM, VOCAB = 1024, CONTEXT = 64, SMS = 132 };

/* Sizes of the models with latent attention. */
enum {
    RANK = 512,
    ROPE = 64,
    NOPE = 128,
    VALUE = 128,
    LATENT_HEADS = 16,
    QUERY = NOPE + ROPE,
    Q_RANK = 1536
};

/* Routed experts: their number, those of a token, their rows; the shared expert counts as SHARED of them. */
enum { EXPERTS = 16, CHOSEN = 4, EXPERT_INNER = 768, SHARED = 2 };

enum { STAMP_NS = 1000, MOST_SHARED = 227 << 10 };

struct launched {
    const char *name;
    unsigned blocks, blocks_y;
    union { /* the parameter of some kernels */
        struct rows_args rows;
        struct out_args out;
        struct mlp_args mlp;
        struct skinny_args skinny;
        struct skinny_norm_args norm;
        struct decode_attention_args one_attention;
        struct decode_attention_parts_args attention;
        struct latent_args latent;
        struct grouped_args grouped;
        struct wgmma_args wgmma;
        struct widen_args widen;
    } args;
    void *second; /* the second parameter, if it is a pointer */
};
static struct {
    struct {
        struct launched *v;
        size_t n, cap;
    } launches;
    struct {
        char **v;
        size_t n, cap;
    } names;
    struct {
        struct copied {
            cu_ptr to;
            char *data;
            size_t bytes;
        } * v;
        size_t n, cap;
    } copies;
    int loaded, hosts; /* hosts: blocks of host memory */
    cu_ptr next;       /* address of the next allocation */
    size_t room, used; /* bytes of memory; room 0: unlimited */
    struct {
        struct allocated {
            cu_ptr p;
            size_t bytes;
        } * v;
        size_t n, cap;
    } allocated;
    unsigned stamps; /* times that the kernels stored, STAMP_NS apart */
} fake;

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* ---- the driver. A function is its name. */
static int fake_load(cu_module *m, const void *image) {
    *m = (cu_module)image;
    fake.loaded++;
    return CU_OK;
}
static int fake_function(cu_function *f, cu_module m, const char *name) {
    if (!m) return 1;
    vec_push(&fake.names, xstrdup(name));
    *f = (cu_function)fake.names.v[fake.names.n - 1];
    return CU_OK;
}
static int fake_function_set(cu_function f, int attribute, int value) {
    return f && attribute == CU_FUNC_MAX_SHARED && value <= MOST_SHARED ? CU_OK : 1;
}
static int fake_alloc(cu_ptr *p, size_t bytes) {
    struct allocated a = { fake.next, bytes };
    if (fake.room && fake.used + bytes > fake.room) return CU_OUT_OF_MEMORY;
    vec_push(&fake.allocated, a);
    fake.used += bytes;
    *p = fake.next;
    fake.next += bytes;
    return CU_OK;
}
static int fake_free(cu_ptr p) {
    for (size_t i = 0; i < fake.allocated.n; i++)
        if (fake.allocated.v[i].p == p) fake.used -= fake.allocated.v[i].bytes;
    return CU_OK;
}
static int fake_error(int error, const char **text) {
    (void)error;
    *text = "an error";
    return CU_OK;
}
static int fake_host_alloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    *p = xcalloc(1, bytes);
    fake.hosts++;
    return CU_OK;
}
static int fake_host_free(void *p) {
    free(p);
    fake.hosts--;
    return CU_OK;
}
static int fake_host_pointer(cu_ptr *p, void *host, unsigned flags) {
    (void)flags;
    *p = (cu_ptr)(uintptr_t)host;
    return CU_OK;
}
static int fake_set_words(cu_ptr to, unsigned word, size_t n, cu_stream s) {
    (void)to;
    (void)word;
    (void)n;
    (void)s;
    return CU_OK;
}
static int fake_copy_in(cu_ptr to, const void *from, size_t bytes, cu_stream s) {
    struct copied v = { .to = to, .data = xmalloc(bytes), .bytes = bytes };
    (void)s;
    memcpy(v.data, from, bytes);
    vec_push(&fake.copies, v);
    return CU_OK;
}
/* What stamps.c reads: the number of times, or times. */
static int fake_copy_out(void *to, cu_ptr from, size_t bytes, cu_stream s) {
    uint64_t *ns = to;
    (void)from;
    (void)s;
    if (bytes == sizeof fake.stamps) memcpy(to, &fake.stamps, bytes);
    for (size_t i = 0; i < bytes / sizeof *ns; i++) ns[i] = STAMP_NS * i;
    return CU_OK;
}
static int fake_wait(cu_stream s) {
    (void)s;
    return CU_OK;
}
static int fake_capture(cu_stream s, int mode) {
    (void)s;
    (void)mode;
    return CU_OK;
}
static int fake_capture_end(cu_stream s, cu_graph *g) {
    (void)s;
    *g = NULL;
    return CU_OK;
}
static int fake_instantiate(cu_exec *e, cu_graph g, uint64_t flags) {
    (void)g;
    (void)flags;
    *e = NULL;
    return CU_OK;
}
static int fake_launch(const struct cu_launch *l, cu_function f, void **params, void **extra) {
    (void)extra;
    struct launched v = { .name = (const char *)f, .blocks = l->grid_x, .blocks_y = l->grid_y };
    if (begins(v.name, "skinny_norm"))
        v.args.norm = *(struct skinny_norm_args *)params[0];
    else if (begins(v.name, "skinny"))
        v.args.skinny = *(struct skinny_args *)params[0];
    else if (begins(v.name, "decode_attention_parts"))
        v.args.attention = *(struct decode_attention_parts_args *)params[0];
    else if (begins(v.name, "decode_attention"))
        v.args.one_attention = *(struct decode_attention_args *)params[0];
    else if (begins(v.name, "latent_"))
        v.args.latent = *(struct latent_args *)params[0];
    else if (begins(v.name, "decode_rows"))
        v.args.rows = *(struct rows_args *)params[0];
    else if (begins(v.name, "decode_out"))
        v.args.out = *(struct out_args *)params[0];
    else if (begins(v.name, "gemm_grouped"))
        v.args.grouped = *(struct grouped_args *)params[0];
    else if (begins(v.name, "wgmma"))
        v.args.wgmma = *(struct wgmma_args *)params[0];
    else if (begins(v.name, "widen"))
        v.args.widen = *(struct widen_args *)params[0];
    else if (begins(v.name, "decode_up") || begins(v.name, "decode_down"))
        v.args.mlp = *(struct mlp_args *)params[0];
    if (begins(v.name, "widen")) memcpy(&v.second, params[1], sizeof v.second);
    vec_push(&fake.launches, v);
    return CU_OK;
}
/* Checks the rules of TMA: strides are multiples of 16 bytes, a box has at most 256 rows. Stores the address
 * and, of a map of two matrices, the distance between them. */
static int fake_map(void *map, int type, uint32_t rank, void *data, const uint64_t *sizes,
                    const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                    int swizzle, int promotion, int fill) {
    (void)interleave;
    (void)promotion;
    (void)fill;
    bool fp8 = type == CU_MAP_U8,
         good = (fp8 || type == CU_MAP_BF16) && swizzle == CU_MAP_SWIZZLE_128 && (uintptr_t)data % 16 == 0;
    for (uint32_t i = 0; i < rank; i++) good = good && sizes[i] && box[i] && box[i] <= 256 && steps[i] == 1;
    for (uint32_t i = 0; i + 1 < rank; i++) good = good && strides[i] % 16 == 0 && strides[i] < 1ull << 40;
    struct tensor_map made = { .words = { (uintptr_t)data, rank == 4 ? strides[1] : 0 } };
    memcpy(map, &made, sizeof made);
    return good && box[0] * (fp8 ? 1 : 2) == 128 ? CU_OK : 1;
}
static const struct driver driver = { .module_load = fake_load,
                                      .module_function = fake_function,
                                      .function_set = fake_function_set,
                                      .mem_alloc = fake_alloc,
                                      .mem_free = fake_free,
                                      .error_name = fake_error,
                                      .error_text = fake_error,
                                      .host_alloc = fake_host_alloc,
                                      .host_free = fake_host_free,
                                      .host_pointer = fake_host_pointer,
                                      .set_words = fake_set_words,
                                      .copy_in = fake_copy_in,
                                      .copy_out = fake_copy_out,
                                      .stream_wait = fake_wait,
                                      .capture_begin = fake_capture,
                                      .capture_end = fake_capture_end,
                                      .graph_instantiate = fake_instantiate,
                                      .launch = fake_launch,
                                      .tensor_map = fake_map };

/* ---- a model of the shape of Qwen3-8B with few layers */
struct model {
    struct tensor tensors[512];
    int n;
    struct decode_layer layers[LAYERS];
    struct expert experts[LAYERS][EXPERTS];
    struct linear routers[LAYERS];
    struct rope_table rope;
    struct decode_plan plan;
};
static struct tensor *tensor_of(struct model *m, size_t bytes) {
    struct tensor *t = &m->tensors[m->n++];
    *t = (struct tensor){ .bytes = bytes, .type = DTYPE_BF16 };
    fake_alloc(&t->data, bytes);
    return t;
}
static struct linear linear_of(struct model *m, int rows, int cols) {
    struct tensor *t = tensor_of(m, (size_t)rows * (size_t)cols * 2);
    return (struct linear){ .w = { .data = t, .type = DTYPE_BF16, .rows = rows, .cols = cols } };
}
static void model_init(struct model *m) {
    *m = (struct model){ .rope = { .dims = DIM } };
    m->rope.cosine = tensor_of(m, CONTEXT * DIM * 2);
    m->rope.sine = tensor_of(m, CONTEXT * DIM * 2);
    for (int i = 0; i < LAYERS; i++) {
        struct decode_layer *l = &m->layers[i];
        struct linear up = linear_of(m, INNER, HIDDEN); /* lies before gate */
        *l = (struct decode_layer){
            .norm1 = tensor_of(m, HIDDEN * 4),
            .norm2 = tensor_of(m, HIDDEN * 4),
            .q = linear_of(m, HEADS * DIM, HIDDEN),
            .k = linear_of(m, KV_HEADS * DIM, HIDDEN),
            .v = linear_of(m, KV_HEADS * DIM, HIDDEN),
            .o = linear_of(m, HIDDEN, HEADS * DIM),
            .keys = tensor_of(m, 512),
            .values = tensor_of(m, 512),
            .mlp = { .gate = linear_of(m, INNER, HIDDEN), .up = up, .down = linear_of(m, HIDDEN, INNER) }
        };
    }
    m->plan = (struct decode_plan){ .hidden = HIDDEN,
                                    .heads = HEADS,
                                    .kv_heads = KV_HEADS,
                                    .dim = DIM,
                                    .vocab = VOCAB,
                                    .max_context = CONTEXT,
                                    .embed = linear_of(m, VOCAB, HIDDEN).w,
                                    .head = linear_of(m, VOCAB, HIDDEN),
                                    .norm = tensor_of(m, HIDDEN * 4),
                                    .rope = &m->rope,
                                    .layer = m->layers,
                                    .layers = LAYERS };
}

/* Replaces its attention by latent attention. q_rank 0: one product makes the queries. */
static void make_latent(struct model *m, int q_rank) {
    for (int i = 0; i < LAYERS; i++) {
        struct decode_layer *l = &m->layers[i];
        l->k = l->v = (struct linear){ 0 };
        l->values = NULL;
        l->q = linear_of(m, LATENT_HEADS * QUERY, HIDDEN);
        if (q_rank) {
            l->q = (struct linear){ 0 };
            l->q_a = linear_of(m, q_rank, HIDDEN);
            l->q_b = linear_of(m, LATENT_HEADS * QUERY, q_rank);
            l->q_a_norm = tensor_of(m, (size_t)q_rank * 4);
        }
        l->kv_a = linear_of(m, RANK + ROPE, HIDDEN);
        l->kv_b = linear_of(m, LATENT_HEADS * (NOPE + VALUE), RANK);
        l->kv_a_norm = tensor_of(m, RANK * 4);
        l->o = linear_of(m, HIDDEN, LATENT_HEADS * VALUE);
    }
    m->rope.dims = ROPE;
    m->plan.heads = m->plan.kv_heads = LATENT_HEADS;
    m->plan.dim = QUERY;
    m->plan.nope = NOPE;
    m->plan.value = VALUE;
    m->plan.rank = RANK;
    m->plan.rotated = ROPE;
}

static struct expert expert_of(struct model *m, int inner) {
    struct expert e = { .gate = linear_of(m, inner, HIDDEN), .up = linear_of(m, inner, HIDDEN) };
    e.down = linear_of(m, HIDDEN, inner);
    return e;
}
/* Replaces its feed-forward blocks by experts. */
static void make_routed(struct model *m) {
    for (int i = 0; i < LAYERS; i++) {
        struct decode_layer *l = &m->layers[i];
        l->mlp = (struct expert){ 0 };
        for (int e = 0; e < EXPERTS; e++) m->experts[i][e] = expert_of(m, EXPERT_INNER);
        m->routers[i] = linear_of(m, EXPERTS, HIDDEN);
        l->router = &m->routers[i];
        l->experts = m->experts[i];
        l->shared = expert_of(m, SHARED * EXPERT_INNER);
        l->routing = (struct routing){ .n = EXPERTS, .k = CHOSEN, .scale = 1 };
    }
}

/* Makes a matrix fp8, with one scale per 128 x 128 numbers. */
static void narrow_matrix(struct model *m, struct linear *l) {
    struct matrix *w = &l->w;
    if (!w->rows) return;
    w->type = w->data->type = DTYPE_F8_E4M3;
    w->scale_rows = w->scale_cols = 128;
    w->scale = tensor_of(m, (size_t)((w->rows + 127) / 128) * (size_t)(w->cols / 128) * 4);
}
static void narrow_expert(struct model *m, struct expert *e) {
    narrow_matrix(m, &e->gate);
    narrow_matrix(m, &e->up);
    narrow_matrix(m, &e->down);
}
/* Makes all matrices of its layers fp8 that stay fp8 on the device. */
static void make_fp8(struct model *m) {
    for (int i = 0; i < LAYERS; i++) {
        struct decode_layer *l = &m->layers[i];
        struct linear *const all[] = { &l->q, &l->k, &l->v, &l->q_a, &l->q_b, &l->kv_a, &l->o };
        for (size_t j = 0; j < COUNTOF(all); j++) narrow_matrix(m, all[j]);
        narrow_expert(m, &l->mlp);
        narrow_expert(m, &l->shared);
        for (int e = 0; l->router && e < EXPERTS; e++) narrow_expert(m, &m->experts[i][e]);
    }
}
/* Bits: what differs from the usual model. WGMMA: of the GPU. */
enum kind { USUAL, FP8 = 1, LATENT = 2, TWO_STEPS = 4, ROUTED = 8, WGMMA = 16 };

/* A GPU with loaded kernels, and a model on it. */
static struct cuda *fake_open(unsigned kind, struct model *m) {
    static const char *const kernels[KERNEL_COUNT] = {
#define X(name, file) #name,
        CUDA_KERNELS(X)
#undef X
    };
    struct cuda *c = xcalloc(1, sizeof *c);
    fake.next = 1 << 20;
    c->d = &driver;
    c->sms = SMS;
    c->shared_bytes = MOST_SHARED;
    c->hopper = true;
    c->wgmma = kind & WGMMA;
    for (int i = 0; i < KERNEL_COUNT; i++) c->kernels[i] = (cu_function)kernels[i];
    for (int i = 0; i < MODULE_COUNT; i++) c->modules[i] = (cu_module)kernels;
    /* as if they were loaded: a program that was built without nvcc has no kernels */
    c->modules[MODULE_skinny] = c->modules[MODULE_decode_attention_parts] = (cu_module)kernels;
    model_init(m);
    if (kind & LATENT) make_latent(m, kind & TWO_STEPS ? Q_RANK : 0);
    if (kind & ROUTED) make_routed(m);
    if (kind & FP8) make_fp8(m);
    return c;
}
static void fake_close(struct cuda *c) {
    CHECK_INT(fake.loaded, 0);
    CHECK_INT(fake.hosts, 0);
    for (size_t i = 0; i < fake.names.n; i++) free(fake.names.v[i]);
    free(fake.names.v);
    for (size_t i = 0; i < fake.copies.n; i++) free(fake.copies.v[i].data);
    for (size_t i = 0; i < c->known.n; i++) cuda_wide_experts_free(c->known.v[i].wide);
    free(fake.launches.v);
    free(fake.copies.v);
    free(fake.allocated.v);
    free(c->known.v);
    memset(&fake, 0, sizeof fake);
    free(c->blocks.v);
    free(c);
}

/* Captures a step of `sequences` sequences and calls check(). */
static void with_step(unsigned kind, int sequences,
                      void (*check)(struct cuda *c, const struct cuda_batch *b)) {
    struct model m;
    struct cuda *c = fake_open(kind, &m);
    struct cuda_batch *b = cuda_batch_calls.open(c, &m.plan, sequences);
    CHECK(b && !c->failed);
    check(c, b);
    cuda_batch_calls.close(b);
    fake_close(c);
}

static void check_names(const char *const *layer, size_t n, const char *norm, const char *rows) {
    size_t at = 0;
    CHECK_INT(fake.launches.n, 1 + LAYERS * n + 3);
    CHECK_STR(fake.launches.v[at++].name, "embed_bf16");
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < n; i++) CHECK_STR(fake.launches.v[at++].name, layer[i]);
    CHECK_STR(fake.launches.v[at++].name, norm);
    CHECK_STR(fake.launches.v[at++].name, rows);
    CHECK_STR(fake.launches.v[at].name, "batch_pick");
}

/* Returns true if [p, p + bytes) is within one allocation. */
static bool allocated(const struct cuda *c, const void *p, size_t bytes) {
    for (size_t i = 0; i < c->blocks.n; i++) {
        const struct block *b = &c->blocks.v[i];
        if ((cu_ptr)(uintptr_t)p >= b->data && (cu_ptr)(uintptr_t)p + bytes <= b->data + b->bytes)
            return true;
    }
    return false;
}
static void check_parts(struct cuda *c, const struct cuda_batch *b) {
    static const char *const layer[] = { "skinny_norm", "skinny_32_3", "decode_attention_parts_bf16_128_4",
                                         "skinny_32_2", "skinny_norm", "skinny_32_3",
                                         "skinny_32_2" };
    check_names(layer, COUNTOF(layer), "skinny_norm", "skinny_32_1");
    int pending = 0; /* parts that the next norm must add */
    for (size_t i = 0; i < fake.launches.n; i++) {
        const struct launched *v = &fake.launches.v[i];
        const struct skinny_args *s = &v->args.skinny;
        if (strcmp(v->name, "skinny_norm") == 0) {
            CHECK_INT(v->args.norm.nparts, pending);
            CHECK(v->args.norm.parts == b->parts && v->args.norm.x == b->x && v->args.norm.y == b->h);
            CHECK_INT(v->args.norm.part_stride, SEQUENCES * HIDDEN);
            pending = 0;
        } else if (begins(v->name, "skinny")) {
            size_t bytes = (size_t)s->slices * SEQUENCES * (size_t)s->all_rows * 4;
            CHECK(s->stages >= 3 && v->blocks <= SMS);
            CHECK(s->paired ? allocated(c, s->narrow, (size_t)SEQUENCES * INNER * 2)
                            : allocated(c, s->y, bytes));
            if (s->y && s->y == b->parts) pending = s->slices;
            if (s->paired) CHECK(s->swapped); /* model_init() */
        } else if (begins(v->name, "decode_attention_parts")) {
            CHECK_INT(v->args.attention.parts, fake.launches.v[i - 1].args.skinny.slices);
            CHECK_INT(v->args.attention.stride, SEQUENCES * QKV_ROWS);
        }
    }
    CHECK_INT(pending, 0);
}
TEST(batch_adds_all_parts_of_a_product_once) { with_step(USUAL, SEQUENCES, check_parts); }

/* The rows are the sum of all parts of the product `s`, from row `first` of its matrices on. */
static void check_rows(const struct latent_rows_in *in, const struct skinny_args *s, int first) {
    CHECK(in->x == s->y + first);
    CHECK_INT(in->row, s->all_rows);
    CHECK_INT(in->parts, s->slices);
    CHECK_INT(in->part_stride, s->slice_stride);
}
/* `v` is the first of the three kernels; first: the product with q or q_a and kv_a; q: with q or q_b. */
static void check_latent(struct cuda *c, const struct cuda_batch *b, const struct launched *v,
                         const struct skinny_args *first, const struct skinny_args *q) {
    const struct latent_args *a = &v->args.latent;
    size_t n = (size_t)b->n, heads = LATENT_HEADS, splits = (size_t)a->splits;
    unsigned groups = ((unsigned)b->n + LATENT_GROUP - 1) / LATENT_GROUP;
    CHECK_STR(v[0].name, "latent_begin_many_bf16");
    CHECK_STR(v[1].name, "latent_attend_tiles");
    CHECK_STR(v[2].name, "latent_end_many_bf16");
    CHECK_INT(v[0].blocks, LATENT_HEADS * RANK / LATENT_COLUMNS + LATENT_GROUP);
    CHECK_INT(v[0].blocks_y, groups);
    CHECK_INT(v[1].blocks, LATENT_HEADS / LATENT_TILE_HEADS * a->splits);
    CHECK_INT(v[1].blocks_y, b->n);
    CHECK_INT(v[2].blocks, LATENT_HEADS * LATENT_END_BLOCKS);
    CHECK_INT(v[2].blocks_y, groups);
    check_rows(&a->q, q, 0);
    check_rows(&a->kept, first, first->first_row[1]);
    CHECK_INT(first->rows[1], RANK + ROPE);
    CHECK(a->splits >= 1 && a->splits <= LATENT_MOST_SPLITS);
    CHECK(v[1].blocks * v[1].blocks_y > SMS / 3 && v[1].blocks * v[1].blocks_y <= SMS);
    CHECK(allocated(c, a->absorbed, n * heads * (RANK + ROPE) * 4));
    CHECK(allocated(c, a->sums, n * splits * heads * (RANK + 2) * 4));
    CHECK(allocated(c, a->narrow, n * heads * VALUE * 2));
    CHECK(a->narrow == b->mixed && a->narrow_cache && a->max_context == CONTEXT && a->sequences == b->n);
}
static void check_latent_step(struct cuda *c, const struct cuda_batch *b) {
    const struct launched *v = &fake.launches.v[2]; /* after the embedding and the norm */
    check_latent(c, b, v + 1, &v->args.skinny, &v->args.skinny);
    CHECK_INT(fake.launches.n, 1 + LAYERS * 9 + 3);
}
/* Queries in two steps: the norm between them adds the parts of the first product. */
static void check_latent_queries(struct cuda *c, const struct cuda_batch *b) {
    const struct launched *v = &fake.launches.v[2];
    const struct skinny_args *first = &v->args.skinny;
    const struct skinny_norm_args *norm = &v[1].args.norm;
    CHECK_STR(v[1].name, "skinny_norm");
    CHECK(!norm->x && norm->parts == first->y && norm->y == b->q_latent);
    CHECK_INT(norm->nparts, first->slices);
    CHECK_INT(norm->n, Q_RANK);
    CHECK_INT(norm->part_row, first->all_rows);
    CHECK_INT(norm->part_stride, first->slice_stride);
    CHECK(allocated(c, norm->y, (size_t)b->n * Q_RANK * 2));
    check_latent(c, b, v + 3, first, &v[2].args.skinny);
    CHECK_INT(fake.launches.n, 1 + LAYERS * 11 + 3);
}
TEST(batch_with_latents_adds_all_parts_of_its_products) {
    static const int sequences[] = { 2, 8, 9, SEQUENCES };
    for (size_t i = 0; i < COUNTOF(sequences); i++) {
        with_step(LATENT, sequences[i], check_latent_step);
        with_step(LATENT | TWO_STEPS, sequences[i], check_latent_queries);
    }
}

/* ---- what the kernels read */
/* Reads what was copied to this address last. */
static void read_copy(const void *from, void *to, size_t bytes) {
    for (size_t i = fake.copies.n; i-- > 0;)
        if (fake.copies.v[i].to == (cu_ptr)(uintptr_t)from) {
            CHECK_INT(fake.copies.v[i].bytes, bytes);
            memcpy(to, fake.copies.v[i].data, bytes);
            return;
        }
    fail_msg("nothing was copied there");
}
/* Blocks of 128 x 128. */
static void check_scales(const struct scale_table *t, const struct linear *l) {
    if (l->w.type != DTYPE_F8_E4M3) return;
    CHECK(t->v == pointer_of(l->w.scale));
    CHECK_INT(t->rows, 128);
    CHECK_INT(t->across, l->w.cols / 128);
    CHECK_INT(t->shift, 4);
}
/* A table of experts' matrices. */
static void check_pointers(const struct expert_pointers *p, const struct expert *e) {
    CHECK(p->gate == pointer_of(e->gate.w.data));
    CHECK(p->up == pointer_of(e->up.w.data));
    CHECK(p->down == pointer_of(e->down.w.data));
}

/* ---- matrices of a batch */
/* A product with the matrices l[n]: y of each, or `paired` silu(y0) y1. */
static void check_product(const struct launched *v, const struct linear *const *l, int n, bool paired) {
    const struct skinny_args *a = &v->args.skinny;
    const struct matrix *w = &l[0]->w;
    CHECK(begins(v->name, w->type == DTYPE_F8_E4M3 ? "skinny_fp8_" : "skinny_") &&
          (w->type == DTYPE_F8_E4M3 || !begins(v->name, "skinny_fp8")));
    CHECK_INT(a->matrices, paired ? 1 : n);
    CHECK_INT(a->paired, paired);
    int step_columns = SKINNY_STEP * (w->type == DTYPE_F8_E4M3 ? 2 : 1);
    CHECK_INT(a->steps, (w->cols + step_columns - 1) / step_columns);
    for (int i = 0; i < n; i++) {
        uint64_t low = a->w[0].words[0], apart = a->w[0].words[1],
                 at = !paired                  ? a->w[i].words[0]
                      : (i == 1) != a->swapped ? low + apart
                                               : low;
        CHECK(at == (uintptr_t)pointer_of(l[i]->w.data));
        CHECK_INT(a->rows[i], l[i]->w.rows);
        check_scales(&a->scale[i], l[i]);
    }
}
/* Returns the next product from launch *at on. */
static const struct launched *next_product(size_t *at) {
    while (*at < fake.launches.n && (!begins(fake.launches.v[*at].name, "skinny") ||
                                     strcmp(fake.launches.v[*at].name, "skinny_norm") == 0))
        ++*at;
    CHECK(*at < fake.launches.n);
    return &fake.launches.v[(*at)++];
}
static void check_next(size_t *at, const struct linear *const *l, int n, bool paired) {
    check_product(next_product(at), l, n, paired);
}
static void check_batch_expert(size_t *at, const struct expert *e) {
    const struct linear *const up[] = { &e->gate, &e->up }, *const down[] = { &e->down };
    check_next(at, up, 2, true);
    check_next(at, down, 1, false);
}
static const struct launched *next_named(size_t *at, const char *name) {
    CHECK(*at < fake.launches.n);
    CHECK_STR(fake.launches.v[*at].name, name);
    return &fake.launches.v[(*at)++];
}
/* The matrices that the grouped products read: those of the experts, or the copies of fp8 ones that a kernel
 * writes right before. */
static void read_experts(size_t *at, const struct expert *experts, struct expert_pointers *p) {
    bool fp8 = experts[0].gate.w.type == DTYPE_F8_E4M3;
    struct widen_args list[EXPERTS * 3];
    if (fp8) read_copy(next_named(at, "widen_bf16")->second, list, sizeof list);
    for (int i = 0; i < EXPERTS; i++) {
        const struct linear *const l[] = { &experts[i].gate, &experts[i].up, &experts[i].down };
        const void *v[COUNTOF(l)];
        for (size_t j = 0; j < COUNTOF(l); j++) {
            const struct widen_args *w = &list[(size_t)i * COUNTOF(l) + j];
            v[j] = fp8 ? w->out : pointer_of(l[j]->w.data);
            if (!fp8) continue;
            CHECK(w->w == pointer_of(l[j]->w.data) && w->rows == l[j]->w.rows && w->cols == l[j]->w.cols);
            check_scales(&w->scale, l[j]);
        }
        p[i] = (struct expert_pointers){ v[0], v[1], v[2] };
    }
}
static void check_grouped(size_t *at, const struct expert_pointers *expected) {
    static const int which[] = { 0, 1, 2 }; /* gate, up, down */
    struct expert_pointers got[EXPERTS];
    for (size_t i = 0; i < COUNTOF(which); i++) {
        if (i == 2) next_named(at, "silu_convert_bf16");
        const struct grouped_args *g = &next_named(at, "gemm_grouped_bf16")->args.grouped;
        CHECK_INT(g->which, which[i]);
        CHECK_INT(g->g.k, i == 2 ? EXPERT_INNER : HIDDEN);
        CHECK_INT(g->g.out.n, i == 2 ? HIDDEN : EXPERT_INNER);
        read_copy(g->pointers, got, sizeof got);
        CHECK(memcmp(got, expected, sizeof got) == 0);
    }
}
static void check_wgmma(size_t *at, const struct expert_pointers *expected) {
    struct tensor_map maps[EXPERTS][3];
    for (int i = 0; i < 2; i++) {
        const struct launched *v = &fake.launches.v[(*at)++];
        const struct wgmma_args *g = &v->args.wgmma;
        CHECK(begins(v->name, "wgmma_bf16"));
        CHECK(g->paired == (i == 0) && g->which == (i ? 2 : 0));
        CHECK_INT(g->k, i ? EXPERT_INNER : HIDDEN);
        CHECK_INT(g->out[0].n, i ? HIDDEN : EXPERT_INNER);
        read_copy(g->experts, maps, sizeof maps);
        for (int e = 0; e < EXPERTS; e++) {
            CHECK(maps[e][0].words[0] == (uintptr_t)expected[e].gate);
            CHECK(maps[e][1].words[0] == (uintptr_t)expected[e].up);
            CHECK(maps[e][2].words[0] == (uintptr_t)expected[e].down);
        }
    }
}
static void check_batch_routed(size_t *at, const struct cuda_batch *b, const struct decode_layer *l,
                               bool wgmma) {
    struct expert_pointers expected[EXPERTS];
    const struct linear *const router[] = { l->router };
    const struct launched *v = next_product(at);
    check_product(v, router, 1, false);
    CHECK(v->args.skinny.y == b->router);
    read_experts(at, l->experts, expected);
    next_named(at, "route");
    next_named(at, "group_choices");
    next_named(at, "gather_narrow");
    if (wgmma)
        check_wgmma(at, expected);
    else
        check_grouped(at, expected);
    next_named(at, "combine");
    check_batch_expert(at, &l->shared);
}
/* All matrices of a step, in order. */
static void check_batch_matrices(unsigned kind) {
    struct model m;
    struct cuda *c = fake_open(kind, &m);
    struct cuda_batch *b = cuda_batch_calls.open(c, &m.plan, SEQUENCES);
    CHECK(b && !c->failed);
    size_t at = 0;
    while (at < fake.launches.n && strcmp(fake.launches.v[at].name, "embed_bf16") != 0) at++;
    for (int i = 0; i < LAYERS; i++) {
        const struct decode_layer *l = &m.layers[i];
        const struct linear *const usual[] = { &l->q, &l->k, &l->v }, *const o[] = { &l->o },
                                   *const latent[] = { kind & TWO_STEPS ? &l->q_a : &l->q, &l->kv_a },
                                   *const q_b[] = { &l->q_b };
        check_next(&at, kind & LATENT ? latent : usual, kind & LATENT ? 2 : 3, false);
        if (kind & TWO_STEPS) check_next(&at, q_b, 1, false);
        if (kind & LATENT) CHECK(fake.launches.v[at].args.latent.kv_b == pointer_of(l->kv_b.w.data));
        check_next(&at, o, 1, false);
        if (kind & ROUTED)
            check_batch_routed(&at, b, l, kind & WGMMA);
        else
            check_batch_expert(&at, &l->mlp);
    }
    const struct linear *const head[] = { &m.plan.head };
    check_next(&at, head, 1, false);
    cuda_batch_calls.close(b);
    fake_close(c);
}
TEST(batch_reads_each_matrix_of_its_layers) {
    static const unsigned kinds[] = { USUAL, LATENT, LATENT | TWO_STEPS, ROUTED, ROUTED | WGMMA };
    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        check_batch_matrices(kinds[i]);
        check_batch_matrices(kinds[i] | FP8);
    }
}

/* ---- steps of one sequence */
static void check_out(const struct out_args *a, const struct linear *l) {
    CHECK(a->w == pointer_of(l->w.data));
    CHECK_INT(a->rows, l->w.rows);
    check_scales(&a->scale, l);
}
static void check_rows_in(const struct rows_args *a, const struct linear *const *l, int n) {
    CHECK_INT(a->matrices, n);
    for (int i = 0; i < n; i++) {
        CHECK(a->w[i] == pointer_of(l[i]->w.data));
        CHECK_INT(a->rows[i], l[i]->w.rows);
        check_scales(&a->scale[i], l[i]);
    }
}
/* Returns the number of kernels. `first` has made the queries, or their latents, and the row of the cache. */
static size_t check_attention(const struct cuda *c, const struct decode_layer *l, const struct launched *v,
                              const struct rows_args *first) {
    const struct decode_attention_args *a = &v[0].args.one_attention;
    CHECK(a->qkv == first->y && a->keys == pointer_of(l->keys) && a->values == pointer_of(l->values));
    CHECK(allocated(c, a->qkv, QKV_ROWS * 4) && a->window == l->window);
    CHECK(v[1].args.out.parts == a->parts);
    return 1;
}
static size_t check_latent_one(const struct cuda *c, const struct decode_layer *l, const struct launched *v,
                               const struct rows_args *first) {
    size_t n = 0;
    const float *q = first->y;
    if (l->q_a.w.rows) {
        const struct rows_args *second = &v[n++].args.rows;
        const struct linear *const q_b[] = { &l->q_b };
        check_rows_in(second, q_b, 1);
        CHECK(second->x == first->y && !second->embed && second->norm == pointer_of(l->q_a_norm));
        CHECK_INT(second->k, Q_RANK);
        CHECK(allocated(c, second->y, LATENT_HEADS * QUERY * 4));
        q = second->y;
    }
    const struct latent_args *a = &v[n].args.latent;
    CHECK_STR(v[n].name, "latent_begin_bf16");
    CHECK_STR(v[n + 1].name, "latent_attend_wide");
    CHECK_STR(v[n + 2].name, "latent_end_bf16");
    CHECK(a->q.x == q && a->q.parts == 1);
    CHECK(a->kept.x == first->y + first->rows[0] && a->kept.parts == 1);
    CHECK(a->kv_b == pointer_of(l->kv_b.w.data) && a->cache == pointer_of(l->keys));
    CHECK(a->norm == pointer_of(l->kv_a_norm) && a->sequences == 1 && !a->narrow);
    CHECK(allocated(c, a->absorbed, LATENT_HEADS * (RANK + ROPE) * 4));
    CHECK(allocated(c, a->sums, (size_t)a->splits * LATENT_HEADS * (RANK + 2) * 4));
    CHECK(allocated(c, a->parts, LATENT_HEADS * (VALUE + 4) * 4));
    CHECK(v[n + 3].args.out.parts == a->parts && v[n + 3].args.out.dim == VALUE);
    return n + 3;
}
/* The tables of `up` and `down`: the experts of a layer, and the shared expert after them; or its block. */
static void check_tables(const struct mlp_args *a, const struct decode_layer *l) {
    enum { MOST = EXPERTS + 1 };
    size_t n = l->router ? EXPERTS : 0;
    struct expert_pointers p[MOST];
    struct expert_scales s[MOST];
    read_copy(a->pointers, p, (n + 1) * sizeof *p);
    read_copy(a->scales, s, (n + 1) * sizeof *s);
    for (size_t i = 0; i <= n; i++) {
        const struct expert *e = i < n ? &l->experts[i] : l->router ? &l->shared : &l->mlp;
        check_pointers(&p[i], e);
        CHECK(s[i].gate == pointer_of(e->gate.w.scale) && s[i].up == pointer_of(e->up.w.scale));
        CHECK(s[i].down == pointer_of(e->down.w.scale));
    }
}
static void check_routed(const struct cuda *c, const struct decode_layer *l, const struct out_args *out,
                         const struct mlp_args *up, const struct launched *last) {
    const struct mlp_args *down = &last->args.mlp;
    CHECK(begins(last->name, "decode_down"));
    CHECK(out->router == pointer_of(l->router->w.data) && out->norm == pointer_of(l->norm2));
    CHECK(out->experts == EXPERTS && out->logits == up->logits);
    CHECK(allocated(c, out->logits, EXPERTS * 8));
    CHECK(up->experts == EXPERTS && up->k == CHOSEN && up->shared == SHARED && up->inner == EXPERT_INNER);
    CHECK(allocated(c, up->h, (CHOSEN + SHARED) * EXPERT_INNER * 4));
    CHECK(memcmp(up, down, sizeof *up) == 0); /* both kernels have the same tables */
    if (l->experts[0].gate.w.type != DTYPE_F8_E4M3) return;
    CHECK_INT(up->up_scale.across, HIDDEN / 128);
    CHECK_INT(up->down_scale.across, EXPERT_INNER / 128);
    CHECK_INT(up->shared_down.across, SHARED * EXPERT_INNER / 128);
}
static void check_dense(const struct cuda *c, const struct decode_layer *l, const struct mlp_args *up,
                        const struct launched *last) {
    CHECK(allocated(c, up->h, INNER * 4));
    check_out(&last->args.out, &l->mlp.down);
    CHECK(last->args.out.parts == up->h);
}
/* The kernels of a layer, from its first one on, read its matrices and their scales. Returns their number. */
static size_t check_layer(const struct cuda *c, const struct decode_layer *l, const struct launched *v) {
    const struct rows_args *rows = &v[0].args.rows;
    bool latent = l->kv_a.w.rows;
    const struct linear *const usual[] = { &l->q, &l->k, &l->v }, *const latents[] = { l->q_a.w.rows ? &l->q_a
                                                                                                     : &l->q,
                                                                                       &l->kv_a };
    check_rows_in(rows, latent ? latents : usual, latent ? 2 : 3);
    CHECK(rows->norm == pointer_of(l->norm1));
    size_t n = 1 + (latent ? check_latent_one : check_attention)(c, l, v + 1, rows);
    const struct out_args *out = &v[n].args.out;
    const struct mlp_args *up = &v[n + 1].args.mlp;
    check_out(out, &l->o);
    CHECK(up->x == out->y && up->norm == pointer_of(l->norm2));
    check_tables(up, l);
    if (l->router)
        check_routed(c, l, out, up, &v[n + 2]);
    else
        check_dense(c, l, up, &v[n + 2]);
    return n + 3;
}
/* A request starts at its last id. */
static void check_begin(void *decode, const struct launched *first) {
    static const uint32_t ids[] = { 7, 8, 9 };
    cuda_decode_calls.begin(decode, &(struct decode_start){ .ids = ids, .n = COUNTOF(ids) });
    struct decode_state state;
    read_copy(first->args.rows.state, &state, sizeof state);
    CHECK_INT(state.token, 9);
    CHECK_INT(state.position, 2);
    uint32_t sent[COUNTOF(ids)];
    read_copy(first->args.rows.sequence, sent, sizeof sent);
    CHECK(memcmp(sent, ids, sizeof ids) == 0);
}
/* names[n]: of the kernels of a layer; NULL: any. */
static void check_one(unsigned kind, const char *const *names, size_t n) {
    struct model m;
    struct cuda *c = fake_open(kind, &m);
    m.plan.path = DECODE_GRAPH;
    void *d = cuda_decode_calls.open(c, &m.plan);
    CHECK(d && !c->failed);
    const struct launched *v = fake.launches.v;
    for (int l = 0; l < LAYERS; l++) {
        for (size_t i = 0; i < n; i++) CHECK_STR(v[i].name, names[i]);
        v += check_layer(c, &m.layers[l], v);
    }
    CHECK_STR(v->name, "decode_head_bf16_4");
    CHECK_INT(v - fake.launches.v + 1, fake.launches.n);
    check_begin(d, fake.launches.v);
    cuda_decode_calls.close(d);
    fake_close(c);
}
TEST(one_sequence_reads_each_matrix_of_its_layers) {
    static const char *const bf16[] = { "decode_rows_bf16_8", "decode_attention_bf16_128_4",
                                        "decode_out_pairs_bf16_4", "decode_up_bf16_4",
                                        "decode_out_pairs_bf16_4" };
    static const char *const fp8[] = { "decode_rows_f8_e4m3_8", "decode_attention_bf16_128_4",
                                       "decode_out_pairs_f8_e4m3_8", "decode_up_f8_e4m3_8",
                                       "decode_out_pairs_f8_e4m3_8" };
    check_one(USUAL, bf16, COUNTOF(bf16));
    check_one(FP8, fp8, COUNTOF(fp8));
}
TEST(one_sequence_reads_its_experts_and_latents) {
    static const unsigned kinds[] = { ROUTED, LATENT, LATENT | TWO_STEPS, LATENT | ROUTED };
    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        check_one(kinds[i], NULL, 0);
        check_one(kinds[i] | FP8, NULL, 0);
    }
}

/* Changes the scales of a matrix to one per row. */
static void scale_rows(struct model *m, struct linear *l) {
    l->w.scale_rows = 1;
    l->w.scale_cols = l->w.cols;
    l->w.scale = tensor_of(m, (size_t)l->w.rows * 4);
}
static bool has_graph(struct cuda *c, struct model *m) {
    void *d = cuda_decode_calls.open(c, &m->plan);
    if (d) cuda_decode_calls.close(d);
    return d;
}
/* The kernels of feed-forward blocks read all matrices with one layout of scales. */
TEST(experts_with_unlike_matrices_have_no_kernels) {
    static const float one[] = { 1, 1 };
    struct view x = { 0 };
    struct model m;
    struct cuda *c = fake_open(FP8, &m);
    struct expert *e = &m.layers[1].mlp;
    const struct expert *list[] = { &m.layers[0].mlp, e };
    m.plan.path = DECODE_GRAPH;
    CHECK(has_graph(c, &m));
    struct linear before = e->up;
    scale_rows(&m, &e->up);
    CHECK(!has_graph(c, &m));
    CHECK(!cuda_experts_one(c, list, one, 2, x, x));
    e->up = before;
    e->down.w.type = DTYPE_BF16;
    CHECK(!has_graph(c, &m));
    CHECK(!cuda_experts_one(c, list, one, 2, x, x));
    fake_close(c);
}

static bool has_batch_graph(struct cuda *c, struct model *m) {
    void *b = cuda_batch_calls.open(c, &m->plan, 9);
    if (b) cuda_batch_calls.close(b);
    return b;
}
/* The routed experts of a batch are one product, of matrices of one type. */
TEST(batch_with_experts_of_several_types_has_no_graph) {
    struct model m;
    struct cuda *c = fake_open(FP8 | ROUTED, &m);
    CHECK(has_batch_graph(c, &m));
    m.experts[0][3].down.w.type = DTYPE_BF16;
    CHECK(!has_batch_graph(c, &m));
    CHECK(!c->failed);
    fake_close(c);
}

TEST(batch_has_a_graph_with_any_number_of_experts_and_tokens) {
    enum { FEW = 8, ODD = 1003 };
    struct model m;
    struct cuda *c = fake_open(ROUTED, &m);
    for (int i = 0; i < LAYERS; i++) {
        m.routers[i] = linear_of(&m, FEW, HIDDEN);
        m.layers[i].routing.n = FEW;
    }
    m.plan.vocab = ODD;
    m.plan.head = linear_of(&m, ODD, HIDDEN);
    CHECK(has_batch_graph(c, &m));
    CHECK(!c->failed);
    fake_close(c);
}

static void set_inner(struct model *m, int inner) {
    for (int i = 0; i < LAYERS; i++) m->layers[i].mlp = expert_of(m, inner);
}
/* The kernels keep their input vector in shared memory, of which other GPUs have less. */
TEST(one_sequence_has_no_graph_if_a_vector_does_not_fit_into_shared_memory) {
    enum { WIDE = 25600, SMALL_GPU = 99 << 10 }; /* Qwen3-32B on compute capability 8.9 */
    struct model m;
    struct cuda *c = fake_open(USUAL, &m);
    m.plan.path = DECODE_GRAPH;
    set_inner(&m, WIDE);
    CHECK(has_graph(c, &m));
    c->shared_bytes = SMALL_GPU;
    CHECK(!has_graph(c, &m));
    CHECK(!c->failed);
    set_inner(&m, INNER);
    CHECK(has_graph(c, &m));
    fake_close(c);
}

/* Rows of kv_b are read 16 bytes at a time. */
TEST(latents_whose_rank_is_no_multiple_of_eight_have_no_graph) {
    struct model m;
    struct cuda *c = fake_open(LATENT, &m);
    m.plan.path = DECODE_GRAPH;
    CHECK(has_graph(c, &m));
    m.plan.rank = 36;
    for (int i = 0; i < LAYERS; i++) m.layers[i].kv_b.w.cols = 36;
    CHECK(!has_graph(c, &m));
    fake_close(c);
}

/* ---- memory */
TEST(blocks_that_nothing_uses_are_given_back_when_memory_is_short) {
    enum { MB = 1 << 20 };
    struct model m;
    struct cuda *c = fake_open(USUAL, &m);
    fake.used = 0;
    fake.room = 64 * MB;
    cu_ptr first = cuda_memory(c, 40 * MB);
    cuda_memory_free(c, first);
    cu_ptr kept = cuda_memory(c, 15 * MB), second = cuda_memory(c, 18 * MB);
    CHECK(first && kept && second && !c->failed);
    CHECK_INT(fake.used, 33 * MB);
    CHECK(!cuda_memory(c, 40 * MB));
    CHECK(c->failed && c->out_of_memory);
    CHECK(strstr(c->err.msg, "out of memory"));
    cuda_memory_free(c, second);
    cuda_backend.recover(c);
    CHECK(cuda_memory(c, 40 * MB) && !c->failed);
    fake_close(c);
}

/* Steps that do not fit are not opened, and nothing of them stays in use. */
TEST(steps_without_memory_are_not_opened) {
    struct model m;
    struct cuda *c = fake_open(ROUTED | FP8, &m);
    m.plan.path = DECODE_GRAPH;
    for (size_t room = 1; room < 600; room += 37) {
        fake.room = fake.used + (room << 10);
        CHECK(!has_graph(c, &m) == c->failed);
        cuda_backend.recover(c);
        CHECK(!has_batch_graph(c, &m) == c->failed);
        cuda_backend.recover(c);
    }
    fake.room = 0;
    CHECK(has_graph(c, &m) && has_batch_graph(c, &m) && !c->failed);
    for (int i = 0; i < SCRATCH_COUNT; i++) free(c->scratch[i]);
    fake_close(c);
}

/* After a failure no token is invented: memory of zeros looks like ready tokens. */
TEST(a_failed_device_returns_no_tokens) {
    uint32_t tokens[SEQUENCES];
    struct model m;
    struct cuda *c = fake_open(USUAL, &m);
    m.plan.path = DECODE_GRAPH;
    void *one = cuda_decode_calls.open(c, &m.plan), *several = cuda_batch_calls.open(c, &m.plan, SEQUENCES);
    CHECK(one && several);
    c->failed = true;
    CHECK(!cuda_decode_calls.take(one, tokens));
    CHECK(!cuda_batch_calls.take(several, tokens));
    cuda_decode_calls.close(one);
    cuda_batch_calls.close(several);
    fake_close(c);
}

/* ---- times of kernels. Own kernels 0, 2, 3 and 5; kernels 1 and 4 are a library's. */
TEST(stamps_of_library_kernels_are_the_ends_of_the_kernels_before) {
    const uint64_t own[] = { 100, 200, 210, 400 }, ends[] = { 0, 140, 140, 260 };
    const unsigned at[] = { 1, 4 };
    size_t n;
    uint64_t *all = cuda_stamps_merge(own, ends, COUNTOF(own), at, COUNTOF(at), &n);
    static const uint64_t expected[] = { 100, 140, 200, 210, 260, 400 };
    CHECK_INT(n, COUNTOF(expected));
    for (size_t i = 0; i < n; i++) CHECK_INT(all[i], expected[i]);
    free(all);
}

/* A kernel that stored no end, and one whose end is later than the next start: starts stay in order. */
TEST(stamps_stay_in_order_without_an_end) {
    const uint64_t own[] = { 100, 200, 300 }, ends[] = { 0, 0, 999 };
    const unsigned at[] = { 1, 3 };
    size_t n;
    uint64_t *all = cuda_stamps_merge(own, ends, COUNTOF(own), at, COUNTOF(at), &n);
    static const uint64_t expected[] = { 100, 100, 200, 300, 300 };
    CHECK_INT(n, COUNTOF(expected));
    for (size_t i = 0; i < n; i++) CHECK_INT(all[i], expected[i]);
    free(all);
}

/* ---- the times of a recorded batch */
/* The kernels of part i of a step, launches [from, to), are those that its name says. */
static void check_part(const struct cuda_batch *b, size_t i, const struct launched *step) {
    const struct step_part *p = &b->named.v[i];
    size_t end = i + 1 < b->named.n ? p[1].at : b->launches;
    CHECK(end > p->at);
    if (strcmp(p->name, "experts") == 0) {
        CHECK(begins(step[p->at].name, p->type == DTYPE_F8_E4M3 ? "widen" : "route"));
        CHECK_STR(step[end - 1].name, "combine");
        return;
    }
    bool pair = strcmp(p->kernel, "skinny_pair") == 0;
    CHECK_INT(end - p->at, 1);
    CHECK(begins(step[p->at].name, pair ? "skinny" : p->kernel));
    if (pair) CHECK(step[p->at].args.skinny.paired);
}
/* Each step takes as long as its kernels, and its parts follow each other. The times of the steps after
 * `known` are unknown. */
static void check_spans(const struct cuda_batch *b, const struct decode_span *v, size_t n, size_t steps,
                        size_t known) {
    CHECK_INT(n, steps * b->named.n);
    for (size_t i = 0; i < n; i++) {
        const struct step_part *p = &b->named.v[i % b->named.n];
        size_t end = (i + 1) % b->named.n ? p[1].at : b->launches;
        CHECK_STR(v[i].name, p->name);
        CHECK(v[i].kernel == p->kernel && v[i].type == p->type);
        CHECK((v[i].end_ns > 0) == (i < known * b->named.n));
        if (!v[i].end_ns) continue;
        CHECK_INT(v[i].end_ns - v[i].start_ns, (end - p->at) * STAMP_NS);
        if (i) CHECK(v[i].start_ns == v[i - 1].end_ns);
    }
}
static void check_recorded(unsigned kind) {
    enum { STEPS = 3, EARLIER = 5, AFTER = 1 }; /* AFTER: kernels of cuda_stamps_take() */
    static const uint32_t tokens[SEQUENCES];
    static const int positions[SEQUENCES];
    struct model m;
    struct decode_span *v;
    struct cuda *c = fake_open(kind, &m);
    c->stamps.on = true;
    c->stamps.count = EARLIER;
    struct cuda_batch *b = cuda_batch_calls.open(c, &m.plan, SEQUENCES);
    CHECK(b && !c->failed && fake.launches.n >= b->launches);
    const struct launched *step = &fake.launches.v[fake.launches.n - b->launches];
    CHECK_STR(step->name, "embed_bf16");
    for (size_t i = 0; i < b->named.n; i++) check_part(b, i, step);
    for (size_t missing = 0; missing < 2; missing++) { /* the last kernel did not store its time */
        cuda_batch_calls.begin(b, tokens, positions);
        b->taken = STEPS;
        fake.stamps = (unsigned)(b->first_stamp + STEPS * b->launches + AFTER - missing);
        size_t n = cuda_batch_calls.spans(b, &v);
        check_spans(b, v, n, STEPS, STEPS - missing);
        free(v);
    }
    cuda_batch_calls.close(b);
    free(c->stamps.times);
    fake_close(c);
}
TEST(recorded_batch_names_each_kernel_of_a_step) {
    static const unsigned kinds[] = { USUAL, LATENT, LATENT | TWO_STEPS, ROUTED, ROUTED | WGMMA };
    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        check_recorded(kinds[i]);
        check_recorded(kinds[i] | FP8);
    }
}

/* More kernels than there is room for their times: the first steps have theirs. */
TEST(recording_of_very_long_answers_keeps_the_first_steps) {
    enum { MOST_TIMES = 1 << 20 };
    static const uint32_t tokens[SEQUENCES];
    static const int positions[SEQUENCES];
    struct model m;
    struct decode_span *v;
    struct cuda *c = fake_open(USUAL, &m);
    c->stamps.on = true;
    struct cuda_batch *b = cuda_batch_calls.open(c, &m.plan, SEQUENCES);
    cuda_batch_calls.begin(b, tokens, positions);
    size_t known = (MOST_TIMES - 1 - b->first_stamp) / b->launches, steps = known + 9;
    b->taken = (int)steps;
    fake.stamps = (unsigned)(b->first_stamp + steps * b->launches + 1);
    size_t n = cuda_batch_calls.spans(b, &v);
    check_spans(b, v, n, steps, known);
    free(v);
    cuda_batch_calls.close(b);
    free(c->stamps.times);
    fake_close(c);
}
