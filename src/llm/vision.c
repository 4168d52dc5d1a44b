/* Reads an image tower's section of the config into struct llm_vision. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "llm/parts.h"

#define SIZE_LIMIT (1u << 20)
#define TOWER_LAYERS_MAX (sizeof(((struct llm_tower *)0)->is_global) / sizeof(bool))

/* Reads the list of global layers. All other layers use windows. */
static void read_global_layers(struct llm_tower *t, struct llm_fields *f, const char *key,
                               const int *fallback, size_t nfallback) {
    const json_t *list = fields_list(f, key);
    if (list) {
        size_t i;
        json_t *v;
        json_array_foreach((json_t *)list, i, v) {
            json_int_t at = json_integer_value(v);
            if (!json_is_integer(v) || at < 0 || at >= (json_int_t)t->layers) {
                fields_fail(f, "%s%s lists layer %lld; the tower has %u", f->prefix, key, (long long)at,
                            t->layers);
                return;
            }
            t->is_global[at] = true;
        }
    } else {
        for (size_t i = 0; i < nfallback; i++)
            if ((uint32_t)fallback[i] < t->layers) t->is_global[fallback[i]] = true;
    }
    t->global_layers = 0;
    for (uint32_t i = 0; i < t->layers; i++) t->global_layers += t->is_global[i];
}

static void read_windows(struct llm_tower *t, const struct vision_family *fam, struct llm_fields *f,
                         uint64_t merge) {
    static const int qwen_global[] = { 7, 15, 23, 31 };
    if (!(fam->traits & VISION_WINDOWS)) {
        t->global_layers = t->layers;
        memset(t->is_global, 1, sizeof t->is_global);
        return;
    }
    uint64_t pixels = fields_uint(f, "window_size", 112, SIZE_LIMIT);
    t->window = (uint32_t)MAX(1, pixels / t->patch / merge);
    read_global_layers(t, f, "fullatt_block_indexes", qwen_global, COUNTOF(qwen_global));
}

static void check_heads(const struct llm_tower *t, struct llm_fields *f) {
    if (!f->failed && t->hidden % t->heads)
        fields_fail(f, "%shidden_size is %u, which %snum_attention_heads %u does not divide", f->prefix,
                    (unsigned)t->hidden, f->prefix, (unsigned)t->heads);
    if (!f->failed && t->image_size && t->image_size < t->patch)
        fields_fail(f, "%simage_size is %u, smaller than %spatch_size %u", f->prefix, (unsigned)t->image_size,
                    f->prefix, (unsigned)t->patch);
}

int vision_read(struct llm_vision *v, const struct vision_family *fam, struct llm_fields *f, bool own) {
    struct llm_tower *t = &v->tower;
    bool qwen = fam->traits & VISION_QWEN_NAMES;
    v->family = fam->name;
    t->hidden =
        fields_uint(f, qwen ? "embed_dim" : "hidden_size", own ? FIELDS_REQUIRED : fam->hidden, SIZE_LIMIT);
    t->layers = (uint32_t)fields_uint(f, "num_hidden_layers|depth|num_layers",
                                      own ? FIELDS_REQUIRED : fam->layers, TOWER_LAYERS_MAX);
    t->heads = fields_uint(f, "num_attention_heads|num_heads", own ? FIELDS_REQUIRED : fam->heads, 1 << 12);
    double ratio = qwen ? fields_number(f, "mlp_ratio", 4) : NAN;
    if (qwen && (!(ratio > 0) || ratio > 1024))
        return fields_fail(f, "%smlp_ratio is %g; expected a value near 4", f->prefix, ratio);
    t->intermediate =
        qwen ? (uint64_t)((double)t->hidden * ratio)
             : fields_uint(f, "intermediate_size", own ? FIELDS_REQUIRED : fam->intermediate, SIZE_LIMIT);
    t->patch = fields_edge(f, "patch_size|spatial_patch_size", fam->patch, 1 << 12);
    t->temporal_patch = fam->temporal ? fields_uint(f, "temporal_patch_size", fam->temporal, 64) : 1;
    t->channels = fields_uint_if_set(f, "num_channels|in_channels|in_chans", 64);
    if (!t->channels) t->channels = 3;
    if (fam->image_size) t->image_size = fields_edge(f, "image_size", fam->image_size, 1 << 16);
    t->norm_eps = fields_positive(f, "layer_norm_eps|rms_norm_eps", fam->eps);
    t->activation = activation_named(fields_str(f, "hidden_act", NULL));
    v->class_token = fam->traits & VISION_CLASS_TOKEN;
    check_heads(t, f);
    if (!f->failed) read_windows(t, fam, f, v->merge);
    return f->failed ? -1 : 0;
}

/* ---- DeepSeek-OCR: SAM, then CLIP. Each has a section in vision_config.width, such as "sam_vit_b". */
static void ocr_tower(struct llm_tower *t, struct llm_fields *f, const char *key,
                      const struct llm_tower *usual) {
    struct llm_fields in = *f;
    const json_t *width = json_object_get(f->section, "width"), *section = json_object_get(width, key);
    in.section = json_is_object(section) ? section : NULL;
    in.top = NULL;
    *t = *usual;
    if (in.section) {
        t->hidden = fields_uint(&in, "width", usual->hidden, SIZE_LIMIT);
        t->layers = (uint32_t)fields_uint(&in, "layers", usual->layers, TOWER_LAYERS_MAX);
        t->heads = fields_uint(&in, "heads", usual->heads, 1 << 12);
        if (fields_has(&in, "patch_size")) t->patch = fields_edge(&in, "patch_size", usual->patch, 1 << 12);
        if (fields_has(&in, "image_size"))
            t->image_size = fields_edge(&in, "image_size", usual->image_size, 1 << 16);
    } else if (!in.failed) {
        notes_add(f->notes,
                  "vision_config.width.%s is not in the config: using the sizes of the released model", key);
    }
    t->intermediate = 4 * t->hidden;
    f->failed = f->failed || in.failed;
    check_heads(t, f);
}

int ocr_read(struct llm_vision *v, struct llm_fields *f) {
    static const struct llm_tower usual_sam = { .hidden = 768,
                                                .layers = 12,
                                                .heads = 12,
                                                .channels = 3,
                                                .patch = 16,
                                                .temporal_patch = 1,
                                                .image_size = 1024,
                                                .norm_eps = 1e-6,
                                                .window = 14 };
    static const struct llm_tower usual_clip = { .hidden = 1024,
                                                 .layers = 24,
                                                 .heads = 16,
                                                 .channels = 3,
                                                 .patch = 14,
                                                 .temporal_patch = 1,
                                                 .image_size = 224,
                                                 .norm_eps = 1e-5 };
    static const int global[] = { 2, 5, 8, 11 };
    v->family = "deepseek_ocr";
    v->class_token = true;
    ocr_tower(&v->sam, f, "sam_vit_b", &usual_sam);
    ocr_tower(&v->tower, f, "clip-l-14-224", &usual_clip);
    struct llm_fields sam = *f;
    const json_t *width = json_object_get(f->section, "width"),
                 *section = json_object_get(width, "sam_vit_b");
    sam.section = section;
    sam.top = NULL;
    if (!f->failed) read_global_layers(&v->sam, &sam, "global_attn_indexes", global, COUNTOF(global));
    const json_t *down = fields_list(&sam, "downsample_channels");
    v->sam_neck =
        fields_has(&sam, "neck_channels") ? fields_uint(&sam, "neck_channels", 256, SIZE_LIMIT) : 256;
    v->sam_down[0] = 512;
    v->sam_down[1] = 1024;
    for (size_t i = 0; i < 2 && down; i++) {
        json_int_t n = json_integer_value(json_array_get(down, i));
        if (n < 1 || n > (json_int_t)SIZE_LIMIT)
            return fields_fail(f, "downsample_channels[%zu] is %lld", i, (long long)n);
        v->sam_down[i] = (uint64_t)n;
    }
    f->failed = f->failed || sam.failed;
    v->tower.global_layers = v->tower.layers;
    memset(v->tower.is_global, 1, sizeof v->tower.is_global);
    return f->failed ? -1 : 0;
}
