#include "engine/ocr/sam.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/ocr/preprocess.h"

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

/* Tensors of a forward pass. The parts use them in turn, so `views` and `padded` are those of the largest
 * part; `rows` is the sum over all parts. Tensors that only products read are 16-bit numbers if the device
 * supports them. */
struct scratch {
    size_t rows;              /* sum of views * g * g */
    struct tensor *x;         /* [rows, width] */
    struct tensor *h, *mixed; /* [views, padded*padded, width]; h also [rows, width] */
    struct tensor *wide;      /* [views, padded*padded, 3 width], [rows, inner] or images of the neck */
    struct tensor *image;     /* images of the neck */
    struct tensor *rel_h, *rel_w;
};

/* The forward pass of one part: `views` grids of g x g. */
struct pass {
    int views, g, padded; /* padded: g rounded up to whole windows */
    struct view x;        /* its rows of scratch.x */
    const struct scratch *t;
};

/* sizes of heads and grids for which attention has 16-bit kernels */
enum { NARROW_DIM = 64, NARROW_SIDE = 80 };

static bool all_narrow(const struct sam *s, const struct ops *o) {
    const struct conv *const convs[] = { &s->neck0, &s->neck2, &s->net2, &s->net3 };
    bool all = true;
    for (size_t i = 0; i < COUNTOF(convs); i++) all = all && ops_has_narrow(o, convs[i]->w.type);
    for (int i = 0; i < s->layers; i++) {
        const struct sam_block *b = &s->block[i];
        all = all && ops_has_narrow(o, b->qkv.w.type) && ops_has_narrow(o, b->proj.w.type) &&
              ops_has_narrow(o, b->lin1.w.type) && ops_has_narrow(o, b->lin2.w.type);
    }
    return all;
}

static bool is_narrow(const struct sam *s, const struct ops *o, int g) {
    return s->width / s->heads == NARROW_DIM && MAX(g, s->window) <= NARROW_SIDE &&
           s->block[0].lin1.w.rows % 8 == 0 && s->neck_width % 8 == 0 && s->net2.w.rows % 8 == 0 &&
           all_narrow(s, o);
}

static void scratch_init(struct scratch *t, const struct sam *s, struct ops *o, const struct pass *p, int n) {
    size_t inner = (size_t)s->block[0].lin1.w.rows, width = (size_t)s->width, h = 0, mixed = 0, wide = 0,
           neck = 0;
    int g = 0;
    for (int i = 0; i < n; i++) {
        size_t rows = (size_t)p[i].views * (size_t)p[i].g * (size_t)p[i].g,
               padded = (size_t)p[i].views * (size_t)p[i].padded * (size_t)p[i].padded,
               image = rows * (size_t)s->neck_width;
        t->rows += rows;
        h = MAX(h, padded * width);
        mixed = MAX(mixed, MAX(padded * width, rows * (size_t)s->net2.w.rows / 4));
        wide = MAX(wide, MAX(padded * 3 * width, image));
        neck = MAX(neck, image);
        g = MAX(g, p[i].g);
    }
    const size_t sizes[] = { MAX(MAX(h, neck), t->rows * width), mixed, MAX(wide, t->rows * inner) };
    struct tensor **const tensors[] = { &t->h, &t->mixed, &t->wide };
    bool narrow = is_narrow(s, o, g);
    t->x = ops_alloc(o, t->rows * width, TENSOR_ANY);
    for (size_t i = 0; i < COUNTOF(sizes); i++)
        *tensors[i] = narrow ? ops_alloc_narrow(o, sizes[i]) : ops_alloc(o, sizes[i], TENSOR_ANY);
    t->image = ops_alloc(o, neck, TENSOR_ANY);
    t->rel_h = ops_alloc(o, (size_t)(2 * g) * width, TENSOR_ANY);
    t->rel_w = ops_alloc(o, (size_t)(2 * g) * width, TENSOR_ANY);
}

static void scratch_free(struct scratch *t, struct ops *o) {
    struct tensor *const all[] = { t->x, t->h, t->mixed, t->wide, t->image, t->rel_h, t->rel_w };
    for (size_t i = 0; i < COUNTOF(all); i++) ops_free(o, all[i]);
}

/* Uploads the views to image[views, side, side, 3]. */
static void upload(struct ops *o, struct sam_pixels pixels, size_t views, size_t area, struct view image) {
    float scale[256];
    if (!pixels.planes) {
        dsocr_scale(scale);
        o->backend->upload_bytes(o->context, image, pixels.bytes, views * area * 3, scale);
        return;
    }
    for (size_t i = 0; i < views; i++)
        ops_upload_planes(o, view_at(image, i * area * 3), pixels.planes + i * area * 3, 3, area);
}

static void embed_patches(const struct sam *s, struct ops *o, struct pass *p, struct sam_pixels pixels,
                          int side) {
    size_t area = (size_t)side * (size_t)side, n = (size_t)p->g * (size_t)p->g * (size_t)s->width;
    struct tensor *image = ops_alloc(o, (size_t)p->views * area * 3, TENSOR_ANY); /* channels last */
    upload(o, pixels, (size_t)p->views, area, view_of(image));
    ops_conv(o, "patch_embed", &s->patch_embed, view_of(image), p->views, side, side, p->x);
    ops_free(o, image);
    struct tensor *positions = s->positions, *resampled = NULL;
    if (p->g != s->grid) {
        positions = resampled = ops_alloc(o, n, TENSOR_ANY);
        ops_resample_grid(o, view_of(s->positions), s->grid, p->g, s->width, view_of(positions));
    }
    for (size_t i = 0; i < (size_t)p->views; i++)
        ops_add(o, "pos_embed", view_at(p->x, i * n), view_of(positions), n);
    ops_free(o, resampled);
}

static void attend_windows(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p) {
    int m = s->window, across = p->padded / m, width = s->width;
    struct windows shape = {
        .grid = p->g, .padded = p->padded, .window = m, .width = width, .views = p->views
    };
    struct view h = view_of(p->t->h), mixed = view_of(p->t->mixed), wide = view_of(p->t->wide);
    ops_layernorm_windows(o, "norm1", p->x, b->norm1_w, b->norm1_b, eps, &shape, h, mixed);
    ops_linear(o, "qkv", &b->qkv, mixed, width, p->views * p->padded * p->padded, wide, 3 * width, OPS_SET);
    struct qkv_attention a = { .qkv = wide,
                               .out = h,
                               .batch = p->views * across * across,
                               .n = m * m,
                               .heads = s->heads,
                               .dim = width / s->heads,
                               .rel_h = view_of(b->rel_h),
                               .rel_w = view_of(b->rel_w),
                               .side = m };
    ops_qkv_attention(o, "window_attention", &a);
    ops_linear_merge(o, "proj", &b->proj, h, &shape, mixed, p->x);
}

static void attend_globally(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p) {
    int n = p->g * p->g, width = s->width, dim = width / s->heads, all = p->views * n;
    struct qkv_attention a = { .qkv = view_of(p->t->wide),
                               .out = view_of(p->t->mixed),
                               .batch = p->views,
                               .n = n,
                               .heads = s->heads,
                               .dim = dim,
                               .rel_h = view_of(b->rel_h),
                               .rel_w = view_of(b->rel_w),
                               .side = p->g };
    if (p->g != s->grid) { /* the tables have a different grid size */
        ops_resample_rows(o, a.rel_h, 2 * s->grid - 1, 2 * p->g - 1, dim, view_of(p->t->rel_h));
        ops_resample_rows(o, a.rel_w, 2 * s->grid - 1, 2 * p->g - 1, dim, view_of(p->t->rel_w));
        a.rel_h = view_of(p->t->rel_h);
        a.rel_w = view_of(p->t->rel_w);
    }
    ops_layernorm(o, "norm1", p->x, b->norm1_w, b->norm1_b, all, width, eps, view_of(p->t->h));
    ops_linear(o, "qkv", &b->qkv, view_of(p->t->h), width, all, a.qkv, 3 * width, OPS_SET);
    ops_qkv_attention(o, "global_attention", &a);
    ops_linear(o, "proj", &b->proj, a.out, width, all, p->x, width, OPS_ADD);
}

static void run_block(const struct sam *s, struct ops *o, const struct sam_block *b, struct pass *p, int n) {
    const struct scratch *t = p->t;
    struct view x = view_of(t->x), h = view_of(t->h), wide = view_of(t->wide);
    for (int i = 0; i < n; i++) {
        if (b->global)
            attend_globally(s, o, b, &p[i]);
        else
            attend_windows(s, o, b, &p[i]);
    }
    ops_layernorm(o, "norm2", x, b->norm2_w, b->norm2_b, (int)t->rows, s->width, eps, h);
    ops_linear_act(o, "lin1", &b->lin1, h, (int)t->rows, wide, OPS_GELU);
    ops_linear(o, "lin2", &b->lin2, wide, b->lin1.w.rows, (int)t->rows, x, s->width, OPS_ADD);
}

static void run_neck(const struct sam *s, struct ops *o, struct pass *p, struct view out) {
    int g = p->g, n = p->views * g * g, c = s->neck_width;
    struct view image = view_of(p->t->image), mixed = view_of(p->t->mixed), wide = view_of(p->t->wide);
    ops_conv(o, "neck.0", &s->neck0, p->x, p->views, g, g, image);
    ops_layernorm(o, "neck.1", image, s->neck1_w, s->neck1_b, n, c, eps, wide);
    ops_conv(o, "neck.2", &s->neck2, wide, p->views, g, g, image);
    ops_layernorm(o, "neck.3", image, s->neck3_w, s->neck3_b, n, c, eps, wide);
    ops_conv(o, "net_2", &s->net2, wide, p->views, g, g, mixed);
    ops_conv(o, "net_3", &s->net3, mixed, p->views, (g + 1) / 2, (g + 1) / 2, out);
}

void sam_forward(const struct sam *s, struct ops *o, const struct sam_part *parts, int n) {
    struct scratch t = { 0 };
    struct pass p[SAM_MOST_PARTS];
    size_t row = 0;
    for (int i = 0; i < n; i++) {
        int g = parts[i].side / s->patch;
        p[i] = (struct pass){
            .views = parts[i].views, .g = g, .padded = (g + s->window - 1) / s->window * s->window, .t = &t
        };
    }
    scratch_init(&t, s, o, p, n);
    record_push(o->rec, RECORD_MODULES, "patch_embed", -1);
    for (int i = 0; i < n; i++) {
        p[i].x = view_at(view_of(t.x), row * (size_t)s->width);
        row += (size_t)p[i].views * (size_t)p[i].g * (size_t)p[i].g;
        embed_patches(s, o, &p[i], parts[i].pixels, parts[i].side);
    }
    record_pop(o->rec, RECORD_MODULES);
    for (int i = 0; i < s->layers; i++) {
        record_push(o->rec, RECORD_MODULES, s->block[i].global ? "block.%d.global" : "block.%d.window", i);
        run_block(s, o, &s->block[i], p, n);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, SAM_SHARE / s->layers);
    }
    record_push(o->rec, RECORD_MODULES, "neck", -1);
    for (int i = 0; i < n; i++) run_neck(s, o, &p[i], parts[i].out);
    record_pop(o->rec, RECORD_MODULES);
    scratch_free(&t, o);
}
