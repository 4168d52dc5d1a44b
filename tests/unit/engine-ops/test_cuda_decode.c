/* The kernels that decoding steps of one sequence (decode.c) and of several (decode_batch.c) launch,
 * recorded by a driver that launches nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/cuda/decode_batch.h"
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

struct launched {
    const char *name;
    unsigned blocks, blocks_y;
    union { /* the parameter of some kernels */
        struct rows_args rows;
        struct out_args out;
        struct mlp_args mlp;
        struct skinny_args skinny;
        struct skinny_norm_args norm;
        struct decode_attention_parts_args attention;
        struct latent_args latent;
    } args;
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
            char first[64]; /* its first bytes */
            size_t bytes;
        } * v;
        size_t n, cap;
    } copies;
    int loaded, hosts; /* hosts: blocks of host memory */
    cu_ptr next;       /* address of the next allocation */
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
    return f && attribute == CU_FUNC_MAX_SHARED && value <= 227 << 10 ? CU_OK : 1;
}
static int fake_alloc(cu_ptr *p, size_t bytes) {
    *p = fake.next;
    fake.next += bytes;
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
    struct copied v = { .to = to, .bytes = bytes };
    (void)s;
    memcpy(v.first, from, MIN(bytes, sizeof v.first));
    vec_push(&fake.copies, v);
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
    else if (begins(v.name, "latent_"))
        v.args.latent = *(struct latent_args *)params[0];
    else if (begins(v.name, "decode_rows"))
        v.args.rows = *(struct rows_args *)params[0];
    else if (begins(v.name, "decode_out"))
        v.args.out = *(struct out_args *)params[0];
    else if (begins(v.name, "decode_up"))
        v.args.mlp = *(struct mlp_args *)params[0];
    vec_push(&fake.launches, v);
    return CU_OK;
}
/* Checks the rules of TMA: strides are multiples of 16 bytes, a box has at most 256 rows. */
static int fake_map(void *map, int type, uint32_t rank, void *data, const uint64_t *sizes,
                    const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                    int swizzle, int promotion, int fill) {
    (void)map;
    (void)interleave;
    (void)promotion;
    (void)fill;
    bool good = type == CU_MAP_BF16 && swizzle == CU_MAP_SWIZZLE_128 && (uintptr_t)data % 16 == 0;
    for (uint32_t i = 0; i < rank; i++) good = good && sizes[i] && box[i] && box[i] <= 256 && steps[i] == 1;
    for (uint32_t i = 0; i + 1 < rank; i++) good = good && strides[i] % 16 == 0 && strides[i] < 1ull << 40;
    return good && box[0] * 2 == 128 ? CU_OK : 1;
}
static const struct driver driver = { .module_load = fake_load,
                                      .module_function = fake_function,
                                      .function_set = fake_function_set,
                                      .mem_alloc = fake_alloc,
                                      .host_alloc = fake_host_alloc,
                                      .host_free = fake_host_free,
                                      .host_pointer = fake_host_pointer,
                                      .set_words = fake_set_words,
                                      .copy_in = fake_copy_in,
                                      .stream_wait = fake_wait,
                                      .capture_begin = fake_capture,
                                      .capture_end = fake_capture_end,
                                      .graph_instantiate = fake_instantiate,
                                      .launch = fake_launch,
                                      .tensor_map = fake_map };

/* ---- a model of the shape of Qwen3-8B with few layers */
struct model {
    struct tensor tensors[64];
    int n;
    struct decode_layer layers[LAYERS];
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

/* Makes its matrices fp8, with one scale per 128 x 128 numbers. */
static void make_fp8(struct model *m) {
    for (int i = 0; i < LAYERS; i++) {
        struct decode_layer *l = &m->layers[i];
        struct linear *const all[] = { &l->q, &l->k, &l->v, &l->o, &l->mlp.gate, &l->mlp.up, &l->mlp.down };
        for (size_t j = 0; j < COUNTOF(all); j++) {
            struct matrix *w = &all[j]->w;
            w->type = w->data->type = DTYPE_F8_E4M3;
            w->scale_rows = w->scale_cols = 128;
            w->scale = tensor_of(m, (size_t)(w->rows / 128) * (size_t)(w->cols / 128) * 4);
        }
    }
}
enum kind { USUAL, FP8, LATENT, LATENT_TWO_STEPS };

/* A GPU with loaded kernels, and a model on it. */
static struct cuda *fake_open(enum kind kind, struct model *m) {
    static const char *const kernels[KERNEL_COUNT] = {
#define X(name, file) #name,
        CUDA_KERNELS(X)
#undef X
    };
    struct cuda *c = xcalloc(1, sizeof *c);
    fake.next = 1 << 20;
    c->d = &driver;
    c->sms = SMS;
    c->hopper = true;
    for (int i = 0; i < KERNEL_COUNT; i++) c->kernels[i] = (cu_function)kernels[i];
    for (int i = 0; i < MODULE_COUNT; i++) c->modules[i] = (cu_module)kernels;
    /* as if they were loaded: a program that was built without nvcc has no kernels */
    c->modules[MODULE_skinny] = c->modules[MODULE_decode_attention_parts] = (cu_module)kernels;
    model_init(m);
    if (kind == LATENT || kind == LATENT_TWO_STEPS) make_latent(m, kind == LATENT_TWO_STEPS ? Q_RANK : 0);
    if (kind == FP8) make_fp8(m);
    return c;
}
static void fake_close(struct cuda *c) {
    CHECK_INT(fake.loaded, 0);
    CHECK_INT(fake.hosts, 0);
    for (size_t i = 0; i < fake.names.n; i++) free(fake.names.v[i]);
    free(fake.names.v);
    free(fake.launches.v);
    free(fake.copies.v);
    memset(&fake, 0, sizeof fake);
    free(c->blocks.v);
    free(c);
}

/* Captures a step of `sequences` sequences and calls check(). */
static void with_step(enum kind kind, int sequences,
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
        with_step(LATENT_TWO_STEPS, sequences[i], check_latent_queries);
    }
}

/* ---- steps of one sequence */
/* Reads what was copied to this address last. */
static void read_copy(const void *from, void *to, size_t bytes) {
    for (size_t i = fake.copies.n; i-- > 0;)
        if (fake.copies.v[i].to == (cu_ptr)(uintptr_t)from) {
            CHECK(bytes <= sizeof fake.copies.v[i].first);
            CHECK_INT(fake.copies.v[i].bytes, bytes);
            memcpy(to, fake.copies.v[i].first, bytes);
            return;
        }
    fail_msg("nothing was copied there");
}
static void check_scales(const struct scale_table *t, const struct linear *l) {
    if (l->w.type == DTYPE_F8_E4M3) CHECK(t->v == pointer_of(l->w.scale));
}
static void check_out(const struct out_args *a, const struct linear *l) {
    CHECK(a->w == pointer_of(l->w.data));
    CHECK_INT(a->rows, l->w.rows);
    check_scales(&a->scale, l);
}
/* The kernels of a layer, from its first one on, read its matrices and their scales. */
static void check_layer(const struct cuda *c, const struct decode_layer *l, const struct launched *v) {
    const struct rows_args *rows = &v[0].args.rows;
    const struct mlp_args *up = &v[3].args.mlp;
    const struct linear *const in[] = { &l->q, &l->k, &l->v };
    CHECK_INT(rows->matrices, COUNTOF(in));
    for (size_t i = 0; i < COUNTOF(in); i++) {
        CHECK(rows->w[i] == pointer_of(in[i]->w.data) && rows->rows[i] == in[i]->w.rows);
        check_scales(&rows->scale[i], in[i]);
    }
    CHECK(allocated(c, rows->y, QKV_ROWS * 4));
    check_out(&v[2].args.out, &l->o);
    CHECK(up->x == v[2].args.out.y && allocated(c, up->h, INNER * 4));
    struct expert_pointers p;
    read_copy(up->pointers, &p, sizeof p);
    CHECK(p.gate == pointer_of(l->mlp.gate.w.data) && p.up == pointer_of(l->mlp.up.w.data));
    struct expert_scales s;
    read_copy(up->scales, &s, sizeof s);
    CHECK(s.gate == pointer_of(l->mlp.gate.w.scale) && s.up == pointer_of(l->mlp.up.w.scale));
    check_out(&v[4].args.out, &l->mlp.down);
    CHECK(v[4].args.out.parts == up->h);
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
static void check_one(enum kind kind, const char *const *layer, size_t n) {
    struct model m;
    struct cuda *c = fake_open(kind, &m);
    m.plan.path = DECODE_GRAPH;
    void *d = cuda_decode_calls.open(c, &m.plan);
    CHECK(d && !c->failed);
    CHECK_INT(fake.launches.n, LAYERS * n + 1);
    for (int l = 0; l < LAYERS; l++) {
        const struct launched *v = &fake.launches.v[(size_t)l * n];
        for (size_t i = 0; i < n; i++) CHECK_STR(v[i].name, layer[i]);
        check_layer(c, &m.layers[l], v);
    }
    CHECK_STR(fake.launches.v[LAYERS * n].name, "decode_head_bf16_4");
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

/* ---- times of kernels. Own kernels 0, 2, 3 and 5; kernels 1 and 4 are a library's. */
TEST(stamps_of_library_kernels_are_the_ends_of_the_kernels_before) {
    const uint64_t own[] = { 100, 200, 210, 400 }, ends[] = { 0, 140, 140, 260 };
    const unsigned at[] = { 1, 4 };
    uint64_t *all = cuda_stamps_merge(own, ends, COUNTOF(own), at, COUNTOF(at));
    static const uint64_t expected[] = { 100, 140, 200, 210, 260, 400 };
    for (size_t i = 0; i < COUNTOF(expected); i++) CHECK_INT(all[i], expected[i]);
    free(all);
}

/* A kernel that stored no end, and one whose end is later than the next start: starts stay in order. */
TEST(stamps_stay_in_order_without_an_end) {
    const uint64_t own[] = { 100, 200, 300 }, ends[] = { 0, 0, 999 };
    const unsigned at[] = { 1, 3 };
    uint64_t *all = cuda_stamps_merge(own, ends, COUNTOF(own), at, COUNTOF(at));
    static const uint64_t expected[] = { 100, 100, 200, 300, 300 };
    for (size_t i = 0; i < COUNTOF(expected); i++) CHECK_INT(all[i], expected[i]);
    free(all);
}
