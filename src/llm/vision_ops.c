/* Operator tables of image towers. */
#include <string.h>

#include "base/util.h"
#include "base/vec.h"
#include "llm/oprow.h"
#include "llm/parts.h"

enum number {
    NONE,
    ONE,
    HIDDEN,
    HIDDEN2,
    HIDDEN3,
    INTER,
    PATCH_IN,  /* channels * patch area * frames */
    POSITIONS, /* entries of the position table */
    HEADS,
    HEAD,
    LABELS,
    REL_GLOBAL, /* sam: both relative position tables of a layer */
    REL_WINDOW,
    NECK,
    NECK9, /* inputs of a 3x3 kernel: 9 * NECK */
    DOWN1,
    DOWN1_9,
    DOWN2,
    LAYERS,
    GLOBAL,
    WINDOWED,
};

enum condition {
    HAS_CLASS = 1 << 0,
    HAS_PATCH_BIAS = 1 << 1,
    HAS_PRE_NORM = 1 << 2,
    HAS_POST_NORM = 1 << 3,
    HAS_POSITIONS = 1 << 4,
    HAS_NORM_BIAS = 1 << 5,
    HAS_GATED = 1 << 6,
    HAS_QKV_BIAS = 1 << 7,
    HAS_LAYER_SCALE = 1 << 8,
    HAS_POOLER = 1 << 9,
    HAS_POOL_HEAD = 1 << 10,
    HAS_QK_NORM = 1 << 11,
    HAS_CLASSIFIER = 1 << 12,
    /* the input comes from SAM, so the patch embedding of this tower is not used */
    HAS_SAM_FIRST = 1 << 13,
    HAS_MASK_TOKEN = 1 << 14,
};

#define ROW(n, k, r, i, o, c, ...) \
    { .name = n, .kind = k, .rows = r, .in = i, .out = o, .count = c, __VA_ARGS__ }
#define LINEAR(n, r, i, o, c, ...) ROW(n, LLM_OP_LINEAR, r, i, o, c, __VA_ARGS__)
#define NORM(n, c, ...)                                                                                  \
    ROW(n, LLM_OP_NORM, LLM_ROWS_TOWER, HIDDEN, NONE, c, .vector = HIDDEN, .vector_when = HAS_NORM_BIAS, \
        __VA_ARGS__)
#define CORE(n, p, c)                                                                                   \
    ROW(n, LLM_OP_ATTENTION, LLM_ROWS_TOWER, NONE, NONE, c, .pairs = p, .heads = HEADS, .qk_dim = HEAD, \
        .v_dim = HEAD)

static const struct oprow vit[] = {
    ROW("patch_embed", LLM_OP_CONV, LLM_ROWS_PATCHES, PATCH_IN, HIDDEN, ONE, .vector = HIDDEN,
        .vector_when = HAS_PATCH_BIAS, .io = PATCH_IN, .unless = HAS_SAM_FIRST),
    ROW("patch_embed", LLM_OP_CONV, LLM_ROWS_NONE, PATCH_IN, HIDDEN, ONE, .idle = true,
        .when = HAS_SAM_FIRST),
    ROW("class_token", LLM_OP_PARAM, LLM_ROWS_VIEWS, HIDDEN, NONE, ONE, .when = HAS_CLASS),
    ROW("mask_token", LLM_OP_PARAM, LLM_ROWS_NONE, HIDDEN, NONE, ONE, .idle = true, .when = HAS_MASK_TOKEN),
    ROW("positions", LLM_OP_PARAM, LLM_ROWS_TOWER, HIDDEN, POSITIONS, ONE, .when = HAS_POSITIONS,
        .unless = HAS_SAM_FIRST),
    ROW("positions", LLM_OP_PARAM, LLM_ROWS_TOWER, HIDDEN, POSITIONS, ONE, .io = HIDDEN2,
        .when = HAS_SAM_FIRST),
    NORM("pre_norm", ONE, .when = HAS_PRE_NORM),
    NORM("norm1", LAYERS),
    LINEAR("qkv", LLM_ROWS_TOWER, HIDDEN, HIDDEN3, LAYERS, .vector = HIDDEN3, .vector_when = HAS_QKV_BIAS),
    ROW("q_norm", LLM_OP_NORM, LLM_ROWS_TOWER, HIDDEN, NONE, LAYERS, .when = HAS_QK_NORM),
    ROW("k_norm", LLM_OP_NORM, LLM_ROWS_TOWER, HIDDEN, NONE, LAYERS, .when = HAS_QK_NORM),
    CORE("attention", LLM_PAIRS_TOWER, GLOBAL),
    CORE("attention_window", LLM_PAIRS_WINDOWS, WINDOWED),
    LINEAR("proj", LLM_ROWS_TOWER, HIDDEN, HIDDEN, LAYERS, .vector = HIDDEN),
    ROW("layer_scale", LLM_OP_PARAM, LLM_ROWS_TOWER, HIDDEN2, NONE, LAYERS, .when = HAS_LAYER_SCALE),
    NORM("norm2", LAYERS),
    LINEAR("fc1", LLM_ROWS_TOWER, HIDDEN, INTER, LAYERS, .vector = INTER, .unless = HAS_GATED),
    LINEAR("fc2", LLM_ROWS_TOWER, INTER, HIDDEN, LAYERS, .vector = HIDDEN, .unless = HAS_GATED),
    LINEAR("gate_proj", LLM_ROWS_TOWER, HIDDEN, INTER, LAYERS, .vector = INTER, .when = HAS_GATED),
    LINEAR("up_proj", LLM_ROWS_TOWER, HIDDEN, INTER, LAYERS, .vector = INTER, .when = HAS_GATED),
    LINEAR("down_proj", LLM_ROWS_TOWER, INTER, HIDDEN, LAYERS, .vector = HIDDEN, .when = HAS_GATED),
    NORM("post_norm", ONE, .when = HAS_POST_NORM),
    LINEAR("pooler", LLM_ROWS_VIEWS, HIDDEN, HIDDEN, ONE, .vector = HIDDEN, .when = HAS_POOLER),
    LINEAR("classifier", LLM_ROWS_VIEWS, HIDDEN, LABELS, ONE, .vector = LABELS, .when = HAS_CLASSIFIER),
    /* siglip: one learned query attends to all patches, then an MLP */
    ROW("pool_probe", LLM_OP_PARAM, LLM_ROWS_VIEWS, HIDDEN, NONE, ONE, .when = HAS_POOL_HEAD),
    LINEAR("pool_q", LLM_ROWS_VIEWS, HIDDEN, HIDDEN, ONE, .vector = HIDDEN, .when = HAS_POOL_HEAD),
    LINEAR("pool_kv", LLM_ROWS_TOWER, HIDDEN, HIDDEN2, ONE, .vector = HIDDEN2, .when = HAS_POOL_HEAD),
    ROW("pool_attention", LLM_OP_ATTENTION, LLM_ROWS_VIEWS, NONE, NONE, ONE, .pairs = LLM_PAIRS_POOL,
        .heads = HEADS, .qk_dim = HEAD, .v_dim = HEAD, .when = HAS_POOL_HEAD),
    LINEAR("pool_proj", LLM_ROWS_VIEWS, HIDDEN, HIDDEN, ONE, .vector = HIDDEN, .when = HAS_POOL_HEAD),
    NORM("pool_norm", ONE, .when = HAS_POOL_HEAD),
    LINEAR("pool_fc1", LLM_ROWS_VIEWS, HIDDEN, INTER, ONE, .vector = INTER, .when = HAS_POOL_HEAD),
    LINEAR("pool_fc2", LLM_ROWS_VIEWS, INTER, HIDDEN, ONE, .vector = HIDDEN, .when = HAS_POOL_HEAD),
};

#define SAM_NORM(n, i, c) ROW(n, LLM_OP_NORM, LLM_ROWS_PATCHES, i, NONE, c, .vector = i)
#define SAM_CORE(n, r, p, v, c) \
    ROW(n, LLM_OP_ATTENTION, r, NONE, NONE, c, .pairs = p, .heads = HEADS, .qk_dim = HEAD, .v_dim = v)

/* Operators of sam. Windowed layers also project the padding, because it is added before the qkv layer. */
static const struct oprow sam[] = {
    ROW("patch_embed", LLM_OP_CONV, LLM_ROWS_PATCHES, PATCH_IN, HIDDEN, ONE, .vector = HIDDEN,
        .io = PATCH_IN),
    ROW("positions", LLM_OP_PARAM, LLM_ROWS_PATCHES, HIDDEN, POSITIONS, ONE),
    SAM_NORM("norm1", HIDDEN, LAYERS),
    LINEAR("qkv_window", LLM_ROWS_PADDED, HIDDEN, HIDDEN3, WINDOWED, .vector = HIDDEN3),
    LINEAR("qkv", LLM_ROWS_PATCHES, HIDDEN, HIDDEN3, GLOBAL, .vector = HIDDEN3),
    ROW("rel_pos_window", LLM_OP_PARAM, LLM_ROWS_PADDED, HEAD, REL_WINDOW, WINDOWED),
    ROW("rel_pos", LLM_OP_PARAM, LLM_ROWS_PATCHES, HEAD, REL_GLOBAL, GLOBAL),
    SAM_CORE("rel_bias_window", LLM_ROWS_PADDED, LLM_PAIRS_SAM_REL_WIN, NONE, WINDOWED),
    SAM_CORE("rel_bias", LLM_ROWS_PATCHES, LLM_PAIRS_SAM_REL, NONE, GLOBAL),
    SAM_CORE("attention_window", LLM_ROWS_PADDED, LLM_PAIRS_SAM_WIN, HEAD, WINDOWED),
    SAM_CORE("attention", LLM_ROWS_PATCHES, LLM_PAIRS_SAM, HEAD, GLOBAL),
    LINEAR("proj_window", LLM_ROWS_PADDED, HIDDEN, HIDDEN, WINDOWED, .vector = HIDDEN),
    LINEAR("proj", LLM_ROWS_PATCHES, HIDDEN, HIDDEN, GLOBAL, .vector = HIDDEN),
    SAM_NORM("norm2", HIDDEN, LAYERS),
    LINEAR("lin1", LLM_ROWS_PATCHES, HIDDEN, INTER, LAYERS, .vector = INTER),
    LINEAR("lin2", LLM_ROWS_PATCHES, INTER, HIDDEN, LAYERS, .vector = HIDDEN),
    ROW("neck_conv1", LLM_OP_CONV, LLM_ROWS_PATCHES, HIDDEN, NECK, ONE),
    SAM_NORM("neck_norm1", NECK, ONE),
    ROW("neck_conv2", LLM_OP_CONV, LLM_ROWS_PATCHES, NECK9, NECK, ONE),
    SAM_NORM("neck_norm2", NECK, ONE),
};

static const struct oprow compressor[] = {
    ROW("net_2", LLM_OP_CONV, LLM_ROWS_DOWN1, NECK9, DOWN1, ONE),
    ROW("net_3", LLM_OP_CONV, LLM_ROWS_DOWN2, DOWN1_9, DOWN2, ONE, .io = DOWN2),
};

static void fill_numbers(const struct llm_tower *t, bool class_token, uint64_t *n) {
    uint64_t side = t->image_size / t->patch;
    n[ONE] = 1;
    n[HIDDEN] = t->hidden;
    n[HIDDEN2] = 2 * t->hidden;
    n[HIDDEN3] = 3 * t->hidden;
    n[INTER] = t->intermediate;
    n[PATCH_IN] = t->channels * t->patch * t->patch * t->temporal_patch;
    n[POSITIONS] = side * side + class_token;
    n[HEADS] = t->heads;
    n[HEAD] = t->hidden / t->heads;
    n[REL_GLOBAL] = side ? 2 * (2 * side - 1) : 0;
    n[REL_WINDOW] = t->window ? 2 * (2 * (uint64_t)t->window - 1) : 0;
    n[LAYERS] = t->layers;
    n[GLOBAL] = t->global_layers;
    n[WINDOWED] = t->layers - t->global_layers;
}

static void add_rows(struct opbuild *b, const struct oprow *rows, size_t n, const char *module) {
    size_t from = b->model->nops;
    oprow_add(b, rows, n);
    for (size_t i = from; i < b->model->nops; i++) b->model->ops[i].module = module;
}

static uint32_t conditions(const struct vision_family *fam, struct llm_fields *f, const char *architecture) {
    uint32_t t = fam->traits, has = 0;
    bool pooler = architecture && strstr(architecture, "ForImageClassification") == NULL;
    if (t & VISION_CLASS_TOKEN) has |= HAS_CLASS;
    if (t & VISION_PATCH_BIAS) has |= HAS_PATCH_BIAS;
    if (t & VISION_PRE_NORM) has |= HAS_PRE_NORM;
    if (t & VISION_POSITIONS && fields_bool(f, "use_absolute_position_embeddings", true))
        has |= HAS_POSITIONS;
    if (!(t & VISION_RMS_NORM) && strncmp(fields_str(f, "norm_type", "layer_norm"), "rms", 3) != 0)
        has |= HAS_NORM_BIAS;
    if (t & VISION_GATED) has |= HAS_GATED;
    if (fields_bool(f, "qkv_bias|attention_bias", (t & VISION_QKV_BIAS) != 0)) has |= HAS_QKV_BIAS;
    if (t & VISION_LAYER_SCALE) has |= HAS_LAYER_SCALE;
    if (t & VISION_QK_NORM_KEY && fields_bool(f, "use_qk_norm|qk_normalization", false)) has |= HAS_QK_NORM;
    if (t & VISION_LAYER_SCALE && fields_bool(f, "use_mask_token", false)) has |= HAS_MASK_TOKEN;
    if (t & VISION_POST_NORM && !(t & VISION_LAYER_SCALE && fields_bool(f, "use_mean_pooling", true)))
        has |= HAS_POST_NORM;
    if (t & VISION_POOLER && pooler) has |= HAS_POOLER;
    if (t & VISION_CLASSIFIER && !pooler) has |= HAS_CLASSIFIER;
    if (t & VISION_HEAD && fields_bool(f, "vision_use_head", true)) has |= HAS_POOL_HEAD;
    return has;
}

/* Splits the operators of the layers: layers after the first `feature_layers` become idle operators. */
static void set_unused_layers(struct llm_model *m, size_t from) {
    uint64_t layers = m->vision.tower.layers, used = m->vision.feature_layers;
    const size_t all = m->nops;
    size_t cap = all;
    if (used == 0 || used >= layers) return;
    for (size_t i = from; i < all; i++) {
        if (m->ops[i].count != layers) continue;
        struct llm_op rest = m->ops[i];
        m->ops[i].count = used;
        rest.count = layers - used;
        rest.rows = LLM_ROWS_NONE;
        rest.pairs = LLM_PAIRS_NONE;
        rest.idle = true;
        m->ops = vec_fit(m->ops, m->nops + 1, &cap, sizeof *m->ops);
        m->ops[m->nops++] = rest;
    }
}

void vision_ops(struct llm_model *m, const struct vision_family *fam, struct llm_fields *f, int stage) {
    struct opbuild b = { .model = m, .stage = stage, .has = conditions(fam, f, m->architecture) };
    const json_t *labels = fields_find(f, "id2label", NULL);
    fill_numbers(&m->vision.tower, m->vision.class_token, b.numbers);
    b.numbers[LABELS] = json_is_object(labels) && json_object_size(labels) ? json_object_size(labels) : 2;
    size_t from = m->nops;
    add_rows(&b, vit, COUNTOF(vit), "vision");
    set_unused_layers(m, from);
}

void ocr_ops(struct llm_model *m, int sam_stage, int clip_stage) {
    const struct llm_vision *v = &m->vision;
    struct opbuild s = { .model = m, .stage = sam_stage };
    fill_numbers(&v->sam, false, s.numbers);
    s.numbers[NECK] = v->sam_neck;
    s.numbers[NECK9] = v->sam_neck * 9;
    s.numbers[DOWN1] = v->sam_down[0];
    s.numbers[DOWN1_9] = v->sam_down[0] * 9;
    s.numbers[DOWN2] = v->sam_down[1];
    add_rows(&s, sam, COUNTOF(sam), "sam");
    add_rows(&s, compressor, COUNTOF(compressor), "compressor");
    struct opbuild c = { .model = m,
                         .stage = clip_stage,
                         .has = HAS_CLASS | HAS_PRE_NORM | HAS_NORM_BIAS | HAS_QKV_BIAS | HAS_SAM_FIRST };
    fill_numbers(&v->tower, true, c.numbers);
    add_rows(&c, vit, COUNTOF(vit), "clip");
}
