#include "engine/vision/clip.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

static struct tensor *load_vector(struct weights *w, const struct clip_names *m, int n,
                                  enum weights_fill fill, int layer, const char *name) {
    return weights_vector(w, n, fill, "%s.%s.%d.%s", m->prefix, m->layers, layer, name);
}

static struct linear load_linear(struct weights *w, const struct clip_names *m, int out, int in, int layer,
                                 const char *name) {
    return (struct linear){
        weights_matrix(w, out, in, "%s.%s.%d.%s.weight", m->prefix, m->layers, layer, name),
        weights_vector(w, out, WEIGHTS_BIAS, "%s.%s.%d.%s.bias", m->prefix, m->layers, layer, name)
    };
}

static void load_layer(struct clip *c, const struct clip_names *m, struct weights *w, int i, int inner) {
    static const char *const parts[] = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj" };
    struct clip_layer *l = &c->layer[i];
    l->norm1_w = load_vector(w, m, c->width, WEIGHTS_NORM, i, "layer_norm1.weight");
    l->norm1_b = load_vector(w, m, c->width, WEIGHTS_BIAS, i, "layer_norm1.bias");
    l->norm2_w = load_vector(w, m, c->width, WEIGHTS_NORM, i, "layer_norm2.weight");
    l->norm2_b = load_vector(w, m, c->width, WEIGHTS_BIAS, i, "layer_norm2.bias");
    for (int k = 0; k < c->matrices; k++)
        l->qkv[k] = load_linear(w, m, 3 * c->width / c->matrices, c->width, i,
                                m->fused ? "self_attn.qkv_proj" : parts[k]);
    l->out = load_linear(w, m, c->width, c->width, i, "self_attn.out_proj");
    l->fc1 = load_linear(w, m, inner, c->width, i, "mlp.fc1");
    l->fc2 = load_linear(w, m, c->width, inner, i, "mlp.fc2");
}

struct clip *clip_open(const struct llm_vision *v, const struct clip_names *m, struct weights *w) {
    struct clip *c = xcalloc(1, sizeof *c);
    const struct llm_tower *t = &v->tower;
    c->width = (int)t->hidden;
    c->heads = (int)t->heads;
    c->layers = (int)t->layers;
    c->matrices = m->fused ? 1 : 3;
    c->eps = (float)t->norm_eps;
    c->grid = (int)(t->image_size / t->patch);
    c->class_token = weights_vector(w, c->width, WEIGHTS_ROWS, "%s.embeddings.class_embedding", m->prefix);
    c->positions = weights_vector(w, (1 + c->grid * c->grid) * c->width, WEIGHTS_ROWS,
                                  "%s.embeddings.position_embedding.weight", m->prefix);
    /* the files contain this spelling */
    c->pre_norm_w = weights_vector(w, c->width, WEIGHTS_NORM, "%s.pre_layrnorm.weight", m->prefix);
    c->pre_norm_b = weights_vector(w, c->width, WEIGHTS_BIAS, "%s.pre_layrnorm.bias", m->prefix);
    c->layer = xcalloc((size_t)c->layers, sizeof *c->layer);
    for (int i = 0; i < c->layers; i++) load_layer(c, m, w, i, (int)t->intermediate);
    return c;
}

void clip_close(struct clip *c) {
    if (!c) return;
    free(c->layer);
    free(c);
}

/* Tensors of one forward pass over the views of all parts; a view has n*n + 1 rows. h, mixed and wide are
 * 16-bit numbers if the device supports them. */
struct pass {
    const struct clip_part *part;
    int parts, rows;
    struct tensor *x, *h, *mixed; /* [rows, width] */
    struct tensor *wide;          /* [rows, 3 width] or [rows, inner] */
};

enum { NARROW_DIM = 64 }; /* size of heads for which attention has 16-bit kernels */

static bool all_narrow(const struct clip *c, const struct ops *o) {
    bool all = true;
    for (int i = 0; i < c->layers; i++) {
        const struct clip_layer *l = &c->layer[i];
        for (int k = 0; k < c->matrices; k++) all = all && ops_has_narrow(o, l->qkv[k].w.type);
        all = all && ops_has_narrow(o, l->out.w.type) && ops_has_narrow(o, l->fc1.w.type) &&
              ops_has_narrow(o, l->fc2.w.type);
    }
    return all;
}

static int part_rows(const struct clip_part *p) { return p->views * (p->n * p->n + 1); }

static void pass_init(struct pass *p, const struct clip *c, struct ops *o, const struct clip_part *part,
                      int parts) {
    size_t width = (size_t)c->width, inner = (size_t)c->layer[0].fc1.w.rows;
    bool narrow = c->width / c->heads == NARROW_DIM && inner % 8 == 0 && all_narrow(c, o);
    *p = (struct pass){ .part = part, .parts = parts };
    for (int i = 0; i < parts; i++) p->rows += part_rows(&part[i]);
    size_t n = (size_t)p->rows;
    const size_t sizes[] = { n * width, n * width, n * MAX(3 * width, inner) };
    struct tensor **const tensors[] = { &p->h, &p->mixed, &p->wide };
    p->x = ops_alloc(o, n * width, TENSOR_ANY);
    for (size_t i = 0; i < COUNTOF(sizes); i++)
        *tensors[i] = narrow ? ops_alloc_narrow(o, sizes[i]) : ops_alloc(o, sizes[i], TENSOR_ANY);
}

static void pass_free(struct pass *p, struct ops *o) {
    ops_free(o, p->x);
    ops_free(o, p->h);
    ops_free(o, p->mixed);
    ops_free(o, p->wide);
}

/* x = [class; features] + positions, for every view of a part. */
static void embed_features(const struct clip *c, struct ops *o, const struct clip_part *p,
                           struct view features, struct view x) {
    size_t width = (size_t)c->width, area = (size_t)p->n * (size_t)p->n * width, all = area + width;
    ops_copy_rows(o, x, (ptrdiff_t)all, view_of(c->class_token), 0, p->views, width);
    ops_copy_rows(o, view_at(x, width), (ptrdiff_t)all, features, (ptrdiff_t)area, p->views, area);
    struct view table = view_of(c->positions);
    struct tensor *resampled = NULL;
    if (p->n != c->grid) {
        resampled = ops_alloc(o, all, TENSOR_ANY);
        ops_copy(o, view_of(resampled), table, width);
        ops_resample_grid(o, view_at(table, width), c->grid, p->n, c->width,
                          view_at(view_of(resampled), width));
        table = view_of(resampled);
    }
    for (size_t i = 0; i < (size_t)p->views; i++)
        ops_add(o, "position_embedding", view_at(x, i * all), table, all);
    ops_free(o, resampled);
}

/* Each view attends only to its own rows. */
static void attend(const struct clip *c, struct ops *o, const struct pass *p) {
    size_t row = 0, width = (size_t)c->width;
    for (int i = 0; i < p->parts; i++) {
        struct qkv_attention a = { .qkv = view_at(view_of(p->wide), row * 3 * width),
                                   .out = view_at(view_of(p->mixed), row * width),
                                   .batch = p->part[i].views,
                                   .n = p->part[i].n * p->part[i].n + 1,
                                   .heads = c->heads,
                                   .dim = c->width / c->heads };
        ops_qkv_attention(o, "attention", &a);
        row += (size_t)part_rows(&p->part[i]);
    }
}

static void run_layer(const struct clip *c, struct ops *o, const struct clip_layer *l, const struct pass *p) {
    static const char *const fused[] = { "qkv_proj" }, *const parts[] = { "q_proj", "k_proj", "v_proj" };
    const char *const *names = c->matrices == 1 ? fused : parts;
    int width = c->width, n = p->rows;
    float eps = c->eps;
    struct view x = view_of(p->x), h = view_of(p->h), wide = view_of(p->wide);
    ops_layernorm(o, "layer_norm1", x, l->norm1_w, l->norm1_b, n, width, eps, h);
    for (int k = 0; k < c->matrices; k++)
        ops_linear(o, names[k], &l->qkv[k], h, width, n, view_at(wide, (size_t)(k * width)), 3 * width,
                   OPS_SET);
    attend(c, o, p);
    ops_linear(o, "out_proj", &l->out, view_of(p->mixed), width, n, x, width, OPS_ADD);
    ops_layernorm(o, "layer_norm2", x, l->norm2_w, l->norm2_b, n, width, eps, h);
    ops_linear_act(o, "fc1", &l->fc1, h, n, wide, OPS_QUICK_GELU);
    ops_linear(o, "fc2", &l->fc2, wide, l->fc1.w.rows, n, x, width, OPS_ADD);
}

/* For every part, calls embed_features() if `embed` is set. Otherwise copies the results without the class
 * tokens. */
static void each_part(const struct clip *c, struct ops *o, const struct pass *p, struct view features,
                      bool embed) {
    size_t row = 0, at = 0, width = (size_t)c->width;
    for (int i = 0; i < p->parts; i++) {
        const struct clip_part *part = &p->part[i];
        ptrdiff_t area = (ptrdiff_t)part->n * part->n * c->width;
        struct view x = view_at(view_of(p->x), row * width), here = view_at(features, at);
        if (embed)
            embed_features(c, o, part, here, x);
        else
            ops_copy_rows(o, here, area, view_at(x, width), area + c->width, part->views, (size_t)area);
        row += (size_t)part_rows(part);
        at += (size_t)part->views * (size_t)area;
    }
}

void clip_forward(const struct clip *c, struct ops *o, const struct clip_part *parts, int nparts,
                  struct view features, struct view out, double share) {
    struct pass p;
    pass_init(&p, c, o, parts, nparts);
    each_part(c, o, &p, features, true);
    ops_layernorm(o, "pre_layrnorm", view_of(p.x), c->pre_norm_w, c->pre_norm_b, p.rows, c->width, c->eps,
                  view_of(p.x));
    for (int i = 0; i < c->layers; i++) {
        record_push(o->rec, RECORD_MODULES, "layer.%d", i);
        run_layer(c, o, &c->layer[i], &p);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, share / c->layers);
    }
    each_part(c, o, &p, out, false);
    pass_free(&p, o);
}
