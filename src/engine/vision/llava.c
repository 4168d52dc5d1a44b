/* LLaVA: CLIP over one square view, two linear layers as the projector, one row per patch. */
#include "engine/vision/llava.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/vision/clip.h"

struct llava {
    const struct llm_vision *c; /* borrowed */
    struct clip *clip;
    struct conv patches;       /* [width, 3 * patch * patch] */
    struct linear first, last; /* [hidden, width], [hidden, hidden] */
    int hidden, side;          /* side: of the view, in pixels */
};

static int check(const struct llm_model *m, struct err *err) {
    const struct llm_vision *v = &m->vision;
    const char *activation = v->tower.activation ? v->tower.activation : "quick_gelu";
    if (strncmp(v->family, "clip", 4) != 0)
        return err_set(err, "%s: the image tower '%s' is not supported by the native engine; clip is",
                       m->name, v->family);
    if (strcmp(activation, "quick_gelu") != 0)
        return err_set(err, "config.json: vision_config.hidden_act '%s' is not supported; quick_gelu is",
                       activation);
    if (strcmp(v->projector_activation, "gelu") != 0)
        return err_set(err, "config.json: projector_hidden_act '%s' is not supported; gelu is",
                       v->projector_activation);
    if (v->feature_layers == 0 || v->tokens_per_view || v->tower.channels != 3)
        return err_set(err, "config.json: the native engine supports one vision_feature_layer above 0, the "
                            "strategy 'default' and three channels");
    return 0;
}

static struct linear load_projector(const struct llm_vision *c, struct weights *w, int out, int in,
                                    const char *name) {
    struct linear l = { .w = weights_matrix(w, out, in, "multi_modal_projector.%s.weight", name) };
    if (c->projector_bias)
        l.bias = weights_vector(w, out, WEIGHTS_BIAS, "multi_modal_projector.%s.bias", name);
    return l;
}

static void *open_encoder(const struct llm_model *m, int hidden, struct weights *w, struct err *err) {
    static const struct clip_names names = { "vision_tower.vision_model", "encoder.layers", .fused = false };
    const struct llm_tower *t = &m->vision.tower;
    if (check(m, err) < 0) return NULL;
    struct llava *l = xcalloc(1, sizeof *l);
    struct llm_vision used = m->vision;
    used.tower.layers = m->vision.feature_layers; /* later layers have no effect on the features */
    int width = (int)t->hidden, patch = (int)t->patch;
    l->c = &m->vision;
    l->hidden = hidden;
    l->side = (int)(t->image_size / t->patch * t->patch);
    l->patches = (struct conv){ .w = weights_matrix(w, width, 3 * patch * patch,
                                                    "%s.embeddings.patch_embedding.weight", names.prefix),
                                .c_in = 3,
                                .side = patch,
                                .stride = patch };
    l->clip = clip_open(&used, &names, w);
    l->first = load_projector(l->c, w, hidden, width, "linear_1");
    l->last = load_projector(l->c, w, hidden, hidden, "linear_2");
    return l;
}

static void close_encoder(void *state) {
    struct llava *l = state;
    clip_close(l->clip);
    free(l);
}

int llava_view(const struct llm_vision *c, int side, const struct image *im, float *planes, struct err *err) {
    struct image scaled;
    float scale[3][256];
    bool wide = im->width > im->height;
    size_t area = (size_t)side * (size_t)side;
    int shorter = wide ? im->height : im->width, longer = wide ? im->width : im->height;
    long long other = (long long)side * longer / shorter;
    if (other > INT32_MAX / 4)
        return err_set(err, "image %dx%d: it is too narrow to be scaled", im->width, im->height);
    int width = wide ? (int)other : side, height = wide ? side : (int)other;
    if (image_resize(im, width, height, &scaled, err) < 0) return -1;
    vision_scale(c, scale);
    int left = (width - side) / 2, top = (height - side) / 2;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const uint8_t *p = scaled.rgb + 3 * ((size_t)(y + top) * (size_t)width + (size_t)(x + left));
            for (size_t k = 0; k < 3; k++)
                planes[k * area + (size_t)y * (size_t)side + (size_t)x] = scale[k][p[k]];
        }
    image_free(&scaled);
    return 0;
}

static int prepare(const void *state, struct ops *o, const struct vision_settings *s, const struct image *im,
                   struct vision_prepared *out, struct err *err) {
    const struct llava *l = state;
    (void)o;
    (void)s;
    size_t side = (size_t)l->side;
    *out = (struct vision_prepared){ .tokens = l->clip->grid * l->clip->grid, .free = free };
    out->data = xcalloc(3 * side * side, sizeof(float));
    return llava_view(l->c, l->side, im, out->data, err);
}

static bool encode(const void *state, struct ops *o, const struct vision_prepared *p, struct view rows,
                   struct vision_times *times, vision_progress *progress, void *context) {
    const struct llava *l = state;
    size_t area = (size_t)l->side * (size_t)l->side, n = (size_t)p->tokens, width = (size_t)l->clip->width;
    if (progress && !progress(context, 0, area, area)) return false;
    struct vision_stage stage = vision_stage_begin(o, 0, "vision");
    struct tensor *image = ops_alloc(o, area * 3, TENSOR_ANY), *x = ops_alloc(o, n * width, TENSOR_ANY),
                  *wide = ops_alloc(o, n * (size_t)l->hidden, TENSOR_ANY);
    ops_upload_planes(o, view_of(image), p->data, 3, area);
    ops_conv(o, "patch_embed", &l->patches, view_of(image), 1, l->side, l->side, view_of(x));
    clip_forward(l->clip, o, &(struct clip_part){ 1, l->clip->grid }, 1, view_of(x), view_of(x), 1);
    ops_linear_act(o, "linear_1", &l->first, view_of(x), (int)n, view_of(wide), OPS_GELU);
    ops_linear(o, "linear_2", &l->last, view_of(wide), l->hidden, (int)n, rows, l->hidden, OPS_SET);
    vision_stage_end(o, stage, times);
    ops_free(o, image);
    ops_free(o, x);
    ops_free(o, wide);
    return true;
}

const struct vision_encoder llava_encoder = {
    .family = "llava",
    .stages = { "vision" },
    .usual_prompt = VISION_MARK "\nDescribe this image.",
    .open = open_encoder,
    .close = close_encoder,
    .prepare = prepare,
    .prompt = vision_prompt_whole,
    .encode = encode,
};
