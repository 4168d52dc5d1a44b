#include "engine/ocr/clip.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/ocr/sam.h"

static const float eps = 1e-5f;
#define CLIP "model.vision_model"

static struct linear load_linear(struct weights *w, int out, int in, int layer, const char *name) {
    return (struct linear){ weights_matrix(w, out, in, CLIP ".transformer.layers.%d.%s.weight", layer, name),
                            weights_vector(w, out, WEIGHTS_BIAS, CLIP ".transformer.layers.%d.%s.bias", layer,
                                           name) };
}

static void load_layer(struct clip *c, struct weights *w, int i, int inner) {
    struct clip_layer *l = &c->layer[i];
    l->norm1_w =
        weights_vector(w, c->width, WEIGHTS_NORM, CLIP ".transformer.layers.%d.layer_norm1.weight", i);
    l->norm1_b = weights_vector(w, c->width, WEIGHTS_BIAS, CLIP ".transformer.layers.%d.layer_norm1.bias", i);
    l->norm2_w =
        weights_vector(w, c->width, WEIGHTS_NORM, CLIP ".transformer.layers.%d.layer_norm2.weight", i);
    l->norm2_b = weights_vector(w, c->width, WEIGHTS_BIAS, CLIP ".transformer.layers.%d.layer_norm2.bias", i);
    l->qkv = load_linear(w, 3 * c->width, c->width, i, "self_attn.qkv_proj");
    l->out = load_linear(w, c->width, c->width, i, "self_attn.out_proj");
    l->fc1 = load_linear(w, inner, c->width, i, "mlp.fc1");
    l->fc2 = load_linear(w, c->width, inner, i, "mlp.fc2");
}

struct clip *clip_open(const struct llm_vision *v, struct weights *w) {
    struct clip *c = xcalloc(1, sizeof *c);
    const struct llm_tower *t = &v->tower;
    c->width = (int)t->hidden;
    c->heads = (int)t->heads;
    c->layers = (int)t->layers;
    c->grid = (int)(t->image_size / t->patch);
    c->class_token = weights_vector(w, c->width, WEIGHTS_ROWS, CLIP ".embeddings.class_embedding");
    c->positions = weights_vector(w, (1 + c->grid * c->grid) * c->width, WEIGHTS_ROWS,
                                  CLIP ".embeddings.position_embedding.weight");
    c->pre_norm_w =
        weights_vector(w, c->width, WEIGHTS_NORM, CLIP ".pre_layrnorm.weight"); /* sic, in the files */
    c->pre_norm_b = weights_vector(w, c->width, WEIGHTS_BIAS, CLIP ".pre_layrnorm.bias");
    c->layer = xcalloc((size_t)c->layers, sizeof *c->layer);
    for (int i = 0; i < c->layers; i++) load_layer(c, w, i, (int)t->intermediate);
    return c;
}

void clip_close(struct clip *c) {
    if (!c) return;
    free(c->layer);
    free(c);
}

/* Tensors of one forward pass over t = n*n + 1 rows. */
struct pass {
    int t;
    struct tensor *x, *h, *mixed; /* [t, width] */
    struct tensor *wide;          /* [t, 3 width] or [t, inner] */
};

static void pass_init(struct pass *p, const struct clip *c, struct ops *o, int t) {
    size_t width = (size_t)c->width, rows = (size_t)t * width, inner = (size_t)c->layer[0].fc1.w.rows;
    *p = (struct pass){ .t = t,
                        .x = ops_alloc(o, rows, TENSOR_ANY),
                        .h = ops_alloc(o, rows, TENSOR_ANY),
                        .mixed = ops_alloc(o, rows, TENSOR_ANY),
                        .wide = ops_alloc(o, (size_t)t * MAX(3 * width, inner), TENSOR_ANY) };
}

static void pass_free(struct pass *p, struct ops *o) {
    ops_free(o, p->x);
    ops_free(o, p->h);
    ops_free(o, p->mixed);
    ops_free(o, p->wide);
}

/* x = [class; features] + positions, n x n features. */
static void embed_features(const struct clip *c, struct ops *o, struct view features, int n, struct view x,
                           struct view positions) {
    size_t width = (size_t)c->width, area = (size_t)n * (size_t)n * width;
    ops_copy(o, x, view_of(c->class_token), width);
    ops_copy(o, view_at(x, width), features, area);
    struct view table = view_of(c->positions);
    if (n != c->grid) {
        ops_copy(o, positions, table, width);
        ops_resample_grid(o, view_at(table, width), c->grid, n, c->width, view_at(positions, width));
        table = positions;
    }
    ops_add(o, "position_embedding", x, table, area + width);
}

static void run_layer(const struct clip *c, struct ops *o, const struct clip_layer *l, const struct pass *p) {
    int width = c->width, inner = l->fc1.w.rows, t = p->t;
    struct view x = view_of(p->x), h = view_of(p->h), mixed = view_of(p->mixed), wide = view_of(p->wide);
    ops_layernorm(o, "layer_norm1", x, l->norm1_w, l->norm1_b, t, width, eps, h);
    ops_linear(o, "qkv_proj", &l->qkv, h, width, t, wide, 3 * width, OPS_SET);
    struct qkv_attention a = {
        .qkv = wide, .out = mixed, .batch = 1, .n = t, .heads = c->heads, .dim = width / c->heads
    };
    ops_qkv_attention(o, "attention", &a);
    ops_linear(o, "out_proj", &l->out, mixed, width, t, x, width, OPS_ADD);
    ops_layernorm(o, "layer_norm2", x, l->norm2_w, l->norm2_b, t, width, eps, h);
    ops_linear(o, "fc1", &l->fc1, h, width, t, wide, inner, OPS_SET);
    ops_activate(o, OPS_QUICK_GELU, wide, (size_t)t * (size_t)inner);
    ops_linear(o, "fc2", &l->fc2, wide, inner, t, x, width, OPS_ADD);
}

void clip_forward(const struct clip *c, struct ops *o, struct view features, int n, struct view out) {
    struct pass p;
    size_t width = (size_t)c->width;
    pass_init(&p, c, o, n * n + 1);
    embed_features(c, o, features, n, view_of(p.h), view_of(p.mixed));
    ops_layernorm(o, "pre_layrnorm", view_of(p.h), c->pre_norm_w, c->pre_norm_b, p.t, c->width, eps,
                  view_of(p.x));
    for (int i = 0; i < c->layers; i++) {
        record_push(o->rec, RECORD_MODULES, "layer.%d", i);
        run_layer(c, o, &c->layer[i], &p);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, (1 - SAM_SHARE) / c->layers);
    }
    ops_copy(o, out, view_at(view_of(p.x), width), (size_t)(p.t - 1) * width); /* without the class token */
    pass_free(&p, o);
}
