#include "engine/vision/qwen_vl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "llm/image.h"

struct qwen_layer {
    struct tensor *norm1, *norm2; /* [width] */
    struct linear qkv, proj;
    struct expert mlp;
};

struct qwen_vl {
    const struct llm_model *m; /* borrowed */
    int width, heads, layers, merge, hidden;
    float eps;
    struct linear patches; /* [width, 3 * frames * patch * patch] */
    struct qwen_layer *layer;
    struct tensor *merger_norm; /* [width] */
    struct linear merger[2];    /* [merged, merged], [hidden, merged]; merged = merge * merge * width */
};

/* ---- loading */
static struct linear load_linear(struct weights *w, int out, int in, const char *name, int layer) {
    return (struct linear){ weights_matrix(w, out, in, "visual.blocks.%d.%s.weight", layer, name),
                            weights_vector(w, out, WEIGHTS_BIAS, "visual.blocks.%d.%s.bias", layer, name) };
}

static struct linear load_merger(struct weights *w, int out, int in, int index) {
    return (struct linear){ weights_matrix(w, out, in, "visual.merger.mlp.%d.weight", index),
                            weights_vector(w, out, WEIGHTS_BIAS, "visual.merger.mlp.%d.bias", index) };
}

static void load_layer(struct qwen_vl *q, struct weights *w, int i, int inner) {
    struct qwen_layer *l = &q->layer[i];
    int n = q->width;
    l->norm1 = weights_vector(w, n, WEIGHTS_NORM, "visual.blocks.%d.norm1.weight", i);
    l->norm2 = weights_vector(w, n, WEIGHTS_NORM, "visual.blocks.%d.norm2.weight", i);
    l->qkv = load_linear(w, 3 * n, n, "attn.qkv", i);
    l->proj = load_linear(w, n, n, "attn.proj", i);
    l->mlp = (struct expert){ load_linear(w, inner, n, "mlp.gate_proj", i),
                              load_linear(w, inner, n, "mlp.up_proj", i),
                              load_linear(w, n, inner, "mlp.down_proj", i) };
}

static int check(const struct llm_model *m, struct err *err) {
    const struct llm_tower *t = &m->vision.tower;
    if (t->activation && strcmp(t->activation, "silu") != 0)
        return err_set(err, "config.json: vision_config.hidden_act '%s' is not supported; silu is",
                       t->activation);
    if (t->channels != 3 || (t->hidden / t->heads) % 4)
        return err_set(err, "config.json: the native engine requires three channels and heads whose size is "
                            "a multiple of 4 in the image tower");
    if (m->text.rope.kind == LLM_ROPE_MROPE && m->text.rope.sections[0] == 0)
        return err_set(err, "config.json: mrope_section must have three numbers whose sum is half the size "
                            "of a head");
    return 0;
}

static void *open_encoder(const struct llm_model *m, int hidden, struct weights *w, struct err *err) {
    const struct llm_tower *t = &m->vision.tower;
    if (check(m, err) < 0) return NULL;
    struct qwen_vl *q = xcalloc(1, sizeof *q);
    q->m = m;
    q->width = (int)t->hidden;
    q->heads = (int)t->heads;
    q->layers = (int)t->layers;
    q->merge = (int)m->vision.merge;
    q->hidden = hidden;
    q->eps = (float)t->norm_eps;
    int merged = q->merge * q->merge * q->width;
    q->patches.w = weights_matrix(w, q->width, (int)(3 * t->temporal_patch * t->patch * t->patch),
                                  "visual.patch_embed.proj.weight");
    q->layer = xcalloc((size_t)q->layers, sizeof *q->layer);
    for (int i = 0; i < q->layers; i++) load_layer(q, w, i, (int)t->intermediate);
    q->merger_norm = weights_vector(w, q->width, WEIGHTS_NORM, "visual.merger.ln_q.weight");
    q->merger[0] = load_merger(w, merged, merged, 0);
    q->merger[1] = load_merger(w, hidden, merged, 2);
    return q;
}

static void close_encoder(void *state) {
    struct qwen_vl *q = state;
    free(q->layer);
    free(q);
}

/* ---- pixels */

/* Writes the patch whose corner is (x, y), for `frames` equal frames. */
static void write_patch(const struct image *im, int x, int y, int patch, int frames, float scale[3][256],
                        float *out) {
    for (int c = 0; c < 3; c++)
        for (int f = 0; f < frames; f++)
            for (int i = 0; i < patch * patch; i++) {
                size_t at = (size_t)(y + i / patch) * (size_t)im->width + (size_t)(x + i % patch);
                *out++ = scale[c][im->rgb[3 * at + (size_t)c]];
            }
}

int qwen_patches_make(const struct llm_model *m, const struct image *im, struct qwen_patches *out,
                      struct err *err) {
    struct llm_image_plan plan;
    struct image scaled;
    float scale[3][256];
    int patch = (int)m->vision.tower.patch, frames = (int)m->vision.tower.temporal_patch,
        merge = (int)m->vision.merge;
    size_t numbers = (size_t)(3 * frames * patch * patch), n = 0;
    const struct llm_image_opts none = { 0 };
    if (llm_image_plan(m, (uint64_t)im->width, (uint64_t)im->height, &none, &plan, err) < 0) return -1;
    int width = (int)plan.views[0].width, height = (int)plan.views[0].height;
    if (image_resize(im, width, height, &scaled, err) < 0) return -1;
    *out = (struct qwen_patches){ .grid_height = height / patch, .grid_width = width / patch };
    out->pixels = xcalloc((size_t)out->grid_height * (size_t)out->grid_width * numbers, sizeof *out->pixels);
    vision_scale(&m->vision, scale);
    for (int y = 0; y < out->grid_height; y += merge)
        for (int x = 0; x < out->grid_width; x += merge)
            for (int k = 0; k < merge * merge; k++, n++)
                write_patch(&scaled, (x + k % merge) * patch, (y + k / merge) * patch, patch, frames, scale,
                            out->pixels + n * numbers);
    image_free(&scaled);
    return 0;
}

static void free_patches(void *data) {
    struct qwen_patches *p = data;
    free(p->pixels);
    free(p);
}

static int prepare(const void *state, struct ops *o, const struct vision_settings *s, const struct image *im,
                   struct vision_prepared *out, struct err *err) {
    const struct qwen_vl *q = state;
    (void)o;
    (void)s;
    struct qwen_patches *p = xcalloc(1, sizeof *p);
    *out = (struct vision_prepared){ .data = p, .free = free_patches };
    if (qwen_patches_make(q->m, im, p, err) < 0) return -1;
    out->grid_height = p->grid_height / q->merge;
    out->grid_width = p->grid_width / q->merge;
    out->tokens = out->grid_height * out->grid_width;
    return 0;
}

/* ---- encoder */
int qwen_window_order(int rows, int cols, int window, int *order, int *sizes) {
    int windows = 0, n = 0;
    for (int top = 0; top < rows; top += window)
        for (int left = 0; left < cols; left += window, windows++) {
            int first = n;
            for (int y = top; y < MIN(top + window, rows); y++)
                for (int x = left; x < MIN(left + window, cols); x++) order[n++] = y * cols + x;
            sizes[windows] = n - first;
        }
    return windows;
}

/* One forward pass. */
struct pass {
    int rows;   /* number of patches */
    int *order; /* [rows / merge^2]: merged squares by window */
    int *sizes; /* [windows]: number of merged squares of each window */
    int windows;
    struct tensor *x, *h, *qkv, *mixed, *up;
    struct rope_table rope;
};

/* Fills the table of rotations: half of a head's pairs rotate by the row of the patch, half by its column. */
static void fill_rope(const struct qwen_vl *q, struct ops *o, const struct qwen_patches *g, struct pass *p) {
    int dim = q->width / q->heads, half = dim / 2, quarter = dim / 4, area = q->merge * q->merge;
    size_t n = (size_t)p->rows * (size_t)half;
    float *cosine = xcalloc(n, sizeof *cosine), *sine = xcalloc(n, sizeof *sine);
    for (int r = 0; r < p->rows; r++) {
        int square = p->order[r / area], across = g->grid_width / q->merge, k = r % area;
        int y = square / across * q->merge + k / q->merge, x = square % across * q->merge + k % q->merge;
        for (int i = 0; i < half; i++) {
            float f = (float)pow(10000.0, -2.0 * (i % quarter) / half);
            float angle = (float)(i < quarter ? y : x) * f;
            cosine[(size_t)r * (size_t)half + (size_t)i] = cosf(angle);
            sine[(size_t)r * (size_t)half + (size_t)i] = sinf(angle);
        }
    }
    p->rope = (struct rope_table){ .dims = dim,
                                   .cosine = ops_alloc(o, n, TENSOR_ANY),
                                   .sine = ops_alloc(o, n, TENSOR_ANY) };
    ops_upload(o, view_of(p->rope.cosine), cosine, n);
    ops_upload(o, view_of(p->rope.sine), sine, n);
    free(cosine);
    free(sine);
}

static void pass_init(struct pass *p, const struct qwen_vl *q, struct ops *o, const struct qwen_patches *g) {
    const struct llm_tower *t = &q->m->vision.tower;
    int rows = g->grid_height / q->merge, cols = g->grid_width / q->merge;
    size_t squares = (size_t)rows * (size_t)cols, n, width = (size_t)q->width;
    *p = (struct pass){ .rows = g->grid_height * g->grid_width };
    n = (size_t)p->rows;
    p->order = xcalloc(squares, sizeof *p->order);
    p->sizes = xcalloc(squares, sizeof *p->sizes);
    p->windows =
        qwen_window_order(rows, cols, t->window ? (int)t->window : MAX(rows, cols), p->order, p->sizes);
    p->x = ops_alloc(o, n * width, TENSOR_ANY);
    p->h = ops_alloc(o, n * width, TENSOR_ANY);
    p->mixed = ops_alloc(o, n * width, TENSOR_ANY);
    p->qkv = ops_alloc(o, n * MAX(3 * width, (size_t)t->intermediate), TENSOR_ANY);
    p->up = ops_alloc(o, n * (size_t)t->intermediate, TENSOR_ANY);
    fill_rope(q, o, g, p);
}

static void pass_free(struct pass *p, struct ops *o) {
    struct tensor *const all[] = { p->x, p->h, p->mixed, p->qkv, p->up, p->rope.cosine, p->rope.sine };
    for (size_t i = 0; i < COUNTOF(all); i++) ops_free(o, all[i]);
    free(p->order);
    free(p->sizes);
}

/* Writes the patches' projections, ordered by window, to p->x. */
static void embed_patches(const struct qwen_vl *q, struct ops *o, const struct qwen_patches *g,
                          const struct pass *p) {
    int in = q->patches.w.cols, area = q->merge * q->merge;
    size_t n = (size_t)p->rows;
    struct tensor *pixels = ops_alloc(o, n * (size_t)in, TENSOR_ANY);
    ops_upload(o, view_of(pixels), g->pixels, n * (size_t)in);
    ops_linear(o, "patch_embed", &q->patches, view_of(pixels), in, p->rows, view_of(p->h), q->width, OPS_SET);
    ops_gather_rows(o, view_of(p->x), view_of(p->h), p->order, p->rows / area,
                    (size_t)area * (size_t)q->width);
    ops_free(o, pixels);
}

static void rotate(const struct qwen_vl *q, struct ops *o, const struct pass *p, size_t offset) {
    ops_rope(o, &p->rope,
             &(struct rope_rows){ .x = view_at(view_of(p->qkv), offset),
                                  .row = 3 * (ptrdiff_t)q->width,
                                  .rows = p->rows,
                                  .heads = q->heads,
                                  .stride = q->width / q->heads });
}

/* Computes the attention of `batch` windows of n patches each, from row `first` on. */
static void attend_rows(const struct qwen_vl *q, struct ops *o, const struct pass *p, const char *name,
                        int first, int batch, int n) {
    size_t row = (size_t)first * (size_t)q->width;
    ops_qkv_attention(o, name,
                      &(struct qkv_attention){ .qkv = view_at(view_of(p->qkv), 3 * row),
                                               .out = view_at(view_of(p->mixed), row),
                                               .batch = batch,
                                               .n = n,
                                               .heads = q->heads,
                                               .dim = q->width / q->heads });
}

/* Computes the attention of all windows. Consecutive windows of the same size share one operator. */
static void attend_windows(const struct qwen_vl *q, struct ops *o, const struct pass *p) {
    int area = q->merge * q->merge, first = 0;
    for (int i = 0, same; i < p->windows; i += same) {
        for (same = 1; i + same < p->windows && p->sizes[i + same] == p->sizes[i];) same++;
        attend_rows(q, o, p, "window_attention", first, same, p->sizes[i] * area);
        first += same * p->sizes[i] * area;
    }
}

static void run_layer(const struct qwen_vl *q, struct ops *o, int i, const struct pass *p) {
    static const char *const names[] = { "gate_proj", "up_proj" };
    const struct qwen_layer *l = &q->layer[i];
    struct view x = view_of(p->x), h = view_of(p->h), wide = view_of(p->qkv);
    int n = p->rows, width = q->width;
    ops_rmsnorm(o, "norm1", x, width, l->norm1, n, width, q->eps, h, width);
    ops_linear(o, "qkv", &l->qkv, h, width, n, wide, 3 * width, OPS_SET);
    rotate(q, o, p, 0);
    rotate(q, o, p, (size_t)width);
    if (q->m->vision.tower.is_global[i])
        attend_rows(q, o, p, "global_attention", 0, 1, n);
    else
        attend_windows(q, o, p);
    ops_linear(o, "proj", &l->proj, view_of(p->mixed), width, n, x, width, OPS_ADD);
    ops_rmsnorm(o, "norm2", x, width, l->norm2, n, width, q->eps, h, width);
    ops_swiglu(o, "gate_up_proj", names, &l->mlp, h, n, wide, view_of(p->up));
    ops_linear(o, "down_proj", &l->mlp.down, wide, l->mlp.down.w.cols, n, x, width, OPS_ADD);
}

/* Merges squares of patches and writes the rows in the order of the image. */
static void merge_rows(const struct qwen_vl *q, struct ops *o, const struct pass *p, struct view rows) {
    int area = q->merge * q->merge, n = p->rows / area, merged = area * q->width;
    struct tensor *wide = ops_alloc(o, (size_t)n * (size_t)merged, TENSOR_ANY),
                  *out = ops_alloc(o, (size_t)n * (size_t)q->hidden, TENSOR_ANY);
    int *place = xcalloc((size_t)n, sizeof *place);
    for (int i = 0; i < n; i++) place[p->order[i]] = i;
    ops_rmsnorm(o, "merger_norm", view_of(p->x), q->width, q->merger_norm, p->rows, q->width, q->eps,
                view_of(p->h), q->width);
    ops_linear_act(o, "merger_fc1", &q->merger[0], view_of(p->h), n, view_of(wide), OPS_GELU);
    ops_linear(o, "merger_fc2", &q->merger[1], view_of(wide), merged, n, view_of(out), q->hidden, OPS_SET);
    ops_gather_rows(o, rows, view_of(out), place, n, (size_t)q->hidden);
    free(place);
    ops_free(o, wide);
    ops_free(o, out);
}

static bool encode(const void *state, struct ops *o, const struct vision_prepared *prepared, struct view rows,
                   struct vision_times *times, vision_progress *progress, void *context) {
    const struct qwen_vl *q = state;
    const struct qwen_patches *g = prepared->data;
    uint64_t patch = q->m->vision.tower.patch,
             pixels = (uint64_t)g->grid_height * (uint64_t)g->grid_width * patch * patch;
    struct pass p;
    if (progress && !progress(context, 0, pixels, pixels)) return false;
    struct vision_stage stage = vision_stage_begin(o, 0, "vision");
    pass_init(&p, q, o, g);
    embed_patches(q, o, g, &p);
    for (int i = 0; i < q->layers; i++) {
        record_push(o->rec, RECORD_MODULES, "block.%d", i);
        run_layer(q, o, i, &p);
        record_pop(o->rec, RECORD_MODULES);
        ops_step(o, 1.0 / q->layers);
    }
    merge_rows(q, o, &p, rows);
    vision_stage_end(o, stage, times);
    pass_free(&p, o);
    return true;
}

const struct vision_encoder qwen_vl_encoder = {
    .family = "qwen2_5_vl",
    .stages = { "vision" },
    .usual_prompt = VISION_MARK "Describe this image.",
    .open = open_encoder,
    .close = close_encoder,
    .prepare = prepare,
    .prompt = vision_prompt_whole,
    .encode = encode,
};
