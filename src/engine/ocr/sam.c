#include "engine/ocr/sam.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

static const float eps = 1e-6f;
#define SAM "model.sam_model"

static struct linear load_linear(struct weights *w, int out, int in, int block, const char *name) {
    return (struct linear){ weights_matrix(w, out, in, SAM ".blocks.%d.%s.weight", block, name),
                            weights_vector(w, out, WEIGHTS_BIAS, SAM ".blocks.%d.%s.bias", block, name) };
}

static void load_block(struct sam *s, struct weights *w, int i, int inner) {
    struct sam_block *b = &s->block[i];
    int dim = s->width / s->heads, side = b->global ? s->grid : s->window;
    b->norm1_w = weights_vector(w, s->width, WEIGHTS_NORM, SAM ".blocks.%d.norm1.weight", i);
    b->norm1_b = weights_vector(w, s->width, WEIGHTS_BIAS, SAM ".blocks.%d.norm1.bias", i);
    b->norm2_w = weights_vector(w, s->width, WEIGHTS_NORM, SAM ".blocks.%d.norm2.weight", i);
    b->norm2_b = weights_vector(w, s->width, WEIGHTS_BIAS, SAM ".blocks.%d.norm2.bias", i);
    b->qkv = load_linear(w, 3 * s->width, s->width, i, "attn.qkv");
    b->proj = load_linear(w, s->width, s->width, i, "attn.proj");
    b->rel_h = weights_vector(w, (2 * side - 1) * dim, WEIGHTS_BIAS, SAM ".blocks.%d.attn.rel_pos_h", i);
    b->rel_w = weights_vector(w, (2 * side - 1) * dim, WEIGHTS_BIAS, SAM ".blocks.%d.attn.rel_pos_w", i);
    b->lin1 = load_linear(w, inner, s->width, i, "mlp.lin1");
    b->lin2 = load_linear(w, s->width, inner, i, "mlp.lin2");
}

static struct conv load_conv(struct weights *w, int out, int in, int side, int stride, int pad,
                             const char *name) {
    return (struct conv){ .w = weights_matrix(w, out, in * side * side, SAM ".%s.weight", name),
                          .c_in = in,
                          .side = side,
                          .stride = stride,
                          .pad = pad };
}

struct sam *sam_open(const struct llm_vision *c, struct weights *w) {
    struct sam *s = xcalloc(1, sizeof *s);
    const struct llm_tower *t = &c->sam;
    s->width = (int)t->hidden;
    s->heads = (int)t->heads;
    s->layers = (int)t->layers;
    s->patch = (int)t->patch;
    s->grid = (int)(t->image_size / t->patch);
    s->window = (int)t->window;
    s->neck_width = (int)c->sam_neck;
    s->out_width = (int)c->sam_down[1];
    s->block = xcalloc((size_t)s->layers, sizeof *s->block);
    s->patch_embed = load_conv(w, s->width, 3, s->patch, s->patch, 0, "patch_embed.proj");
    s->patch_embed.bias = weights_vector(w, s->width, WEIGHTS_BIAS, SAM ".patch_embed.proj.bias");
    s->positions = weights_vector(w, s->grid * s->grid * s->width, WEIGHTS_ROWS, SAM ".pos_embed");
    for (int i = 0; i < s->layers; i++) {
        s->block[i].global = t->is_global[i];
        load_block(s, w, i, (int)t->intermediate);
    }
    s->neck0 = load_conv(w, s->neck_width, s->width, 1, 1, 0, "neck.0");
    s->neck1_w = weights_vector(w, s->neck_width, WEIGHTS_NORM, SAM ".neck.1.weight");
    s->neck1_b = weights_vector(w, s->neck_width, WEIGHTS_BIAS, SAM ".neck.1.bias");
    s->neck2 = load_conv(w, s->neck_width, s->neck_width, 3, 1, 1, "neck.2");
    s->neck3_w = weights_vector(w, s->neck_width, WEIGHTS_NORM, SAM ".neck.3.weight");
    s->neck3_b = weights_vector(w, s->neck_width, WEIGHTS_BIAS, SAM ".neck.3.bias");
    s->net2 = load_conv(w, (int)c->sam_down[0], s->neck_width, 3, 2, 1, "net_2");
    s->net3 = load_conv(w, s->out_width, (int)c->sam_down[0], 3, 2, 1, "net_3");
    return s;
}

void sam_close(struct sam *s) {
    if (!s) return;
    free(s->block);
    free(s);
}

int sam_tokens(const struct sam *s, int side) { return side / s->patch / 4; }

/* Tensors of one forward pass over a g x g grid. */
struct pass {
    int g, padded;            /* padded: g rounded up to whole windows */
    struct tensor *x;         /* [g*g, width] */
    struct tensor *h, *mixed; /* [padded*padded, width] */
    struct tensor *wide;      /* [padded*padded, 3 width], [g*g, inner] or images of the neck */
    struct tensor *rel_h, *rel_w;
};

static void pass_init(struct pass *p, const struct sam *s, struct ops *o, int g) {
    size_t inner = (size_t)s->block[0].lin1.w.rows, width = (size_t)s->width, n = (size_t)g * (size_t)g;
    p->g = g;
    p->padded = (g + s->window - 1) / s->window * s->window;
    size_t padded = (size_t)p->padded * (size_t)p->padded;
    size_t wide = MAX(MAX(padded * 3 * width, n * inner), n * (size_t)s->neck_width);
    p->x = ops_alloc(o, n * width, TENSOR_ANY);
    p->h = ops_alloc(o, MAX(padded * width, n * (size_t)s->neck_width), TENSOR_ANY);
    p->mixed = ops_alloc(o, MAX(padded * width, n * (size_t)s->net2.w.rows / 4), TENSOR_ANY);
    p->wide = ops_alloc(o, wide, TENSOR_ANY);
    p->rel_h = ops_alloc(o, (size_t)(2 * g) * width, TENSOR_ANY);
    p->rel_w = ops_alloc(o, (size_t)(2 * g) * width, TENSOR_ANY);
}

static void pass_free(struct pass *p, struct ops *o) {
    struct tensor *const all[] = { p->x, p->h, p->mixed, p->wide, p->rel_h, p->rel_w };
    for (size_t i = 0; i < COUNTOF(all); i++) ops_free(o, all[i]);
}

static void embed_patches(const struct sam *s, struct ops *o, struct pass *p, const float *pixels, int side) {
    size_t area = (size_t)side * (size_t)side, n = (size_t)p->g * (size_t)p->g * (size_t)s->width;
    struct tensor *image = ops_alloc(o, area * 3, TENSOR_ANY); /* channels last */
    ops_upload_planes(o, view_of(image), pixels, 3, area);
    ops_conv(o, "patch_embed", &s->patch_embed, view_of(image), side, side, view_of(p->x));
    ops_free(o, image);
    struct tensor *positions = s->positions;
    if (p->g != s->grid) {
        ops_resample_grid(o, view_of(s->positions), s->grid, p->g, s->width, view_of(p->wide));
        positions = p->wide;
    }
    ops_add(o, "pos_embed", view_of(p->x), view_of(positions), n);
}

static void attend_windows(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p) {
    int m = s->window, across = p->padded / m, n = p->padded * p->padded, width = s->width;
    struct windows shape = { .grid = p->g, .padded = p->padded, .window = m, .width = width };
    struct view h = view_of(p->h), mixed = view_of(p->mixed), wide = view_of(p->wide);
    ops_window_partition(o, &shape, h, mixed);
    ops_linear(o, "qkv", &b->qkv, mixed, width, n, wide, 3 * width, OPS_SET);
    struct qkv_attention a = { .qkv = wide,
                               .out = h,
                               .batch = across * across,
                               .n = m * m,
                               .heads = s->heads,
                               .dim = width / s->heads,
                               .rel_h = view_of(b->rel_h),
                               .rel_w = view_of(b->rel_w),
                               .side = m };
    ops_qkv_attention(o, "window_attention", &a);
    ops_linear(o, "proj", &b->proj, h, width, n, mixed, width, OPS_SET);
    ops_window_merge(o, &shape, mixed, view_of(p->x));
}

static void attend_globally(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p) {
    int n = p->g * p->g, width = s->width, dim = width / s->heads;
    struct qkv_attention a = { .qkv = view_of(p->wide),
                               .out = view_of(p->mixed),
                               .batch = 1,
                               .n = n,
                               .heads = s->heads,
                               .dim = dim,
                               .rel_h = view_of(b->rel_h),
                               .rel_w = view_of(b->rel_w),
                               .side = p->g };
    if (p->g != s->grid) { /* the tables have a different grid size */
        ops_resample_rows(o, a.rel_h, 2 * s->grid - 1, 2 * p->g - 1, dim, view_of(p->rel_h));
        ops_resample_rows(o, a.rel_w, 2 * s->grid - 1, 2 * p->g - 1, dim, view_of(p->rel_w));
        a.rel_h = view_of(p->rel_h);
        a.rel_w = view_of(p->rel_w);
    }
    ops_linear(o, "qkv", &b->qkv, view_of(p->h), width, n, a.qkv, 3 * width, OPS_SET);
    ops_qkv_attention(o, "global_attention", &a);
    ops_linear(o, "proj", &b->proj, a.out, width, n, view_of(p->x), width, OPS_ADD);
}

static void run_block(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p) {
    int n = p->g * p->g, inner = b->lin1.w.rows;
    struct view x = view_of(p->x), h = view_of(p->h), wide = view_of(p->wide);
    ops_layernorm(o, "norm1", x, b->norm1_w, b->norm1_b, n, s->width, eps, h);
    if (b->global)
        attend_globally(s, o, b, p);
    else
        attend_windows(s, o, b, p);
    ops_layernorm(o, "norm2", x, b->norm2_w, b->norm2_b, n, s->width, eps, h);
    ops_linear(o, "lin1", &b->lin1, h, s->width, n, wide, inner, OPS_SET);
    ops_activate(o, OPS_GELU, wide, (size_t)n * (size_t)inner);
    ops_linear(o, "lin2", &b->lin2, wide, inner, n, x, s->width, OPS_ADD);
}

static void run_neck(const struct sam *s, struct ops *o, struct pass *p, struct view out) {
    int g = p->g, n = g * g, c = s->neck_width;
    struct view h = view_of(p->h), mixed = view_of(p->mixed), wide = view_of(p->wide);
    ops_conv(o, "neck.0", &s->neck0, view_of(p->x), g, g, h);
    ops_layernorm(o, "neck.1", h, s->neck1_w, s->neck1_b, n, c, eps, wide);
    ops_conv(o, "neck.2", &s->neck2, wide, g, g, h);
    ops_layernorm(o, "neck.3", h, s->neck3_w, s->neck3_b, n, c, eps, wide);
    ops_conv(o, "net_2", &s->net2, wide, g, g, mixed);
    ops_conv(o, "net_3", &s->net3, mixed, (g + 1) / 2, (g + 1) / 2, out);
}

void sam_forward(const struct sam *s, struct ops *o, const float *pixels, int side, struct view out) {
    struct pass p;
    pass_init(&p, s, o, side / s->patch);
    record_push(o->rec, RECORD_MODULES, "patch_embed", -1);
    embed_patches(s, o, &p, pixels, side);
    record_pop(o->rec, RECORD_MODULES);
    for (int i = 0; i < s->layers; i++) {
        record_push(o->rec, RECORD_MODULES, s->block[i].global ? "block.%d.global" : "block.%d.window", i);
        run_block(s, o, &s->block[i], &p);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, SAM_SHARE / s->layers);
    }
    record_push(o->rec, RECORD_MODULES, "neck", -1);
    run_neck(s, o, &p, out);
    record_pop(o->rec, RECORD_MODULES);
    pass_free(&p, o);
}
