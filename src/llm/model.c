#include "llm/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "llm/gguf_model.h"
#include "llm/oprow.h"
#include "llm/parts.h"

#define CONFIG_BYTES_MAX (16u << 20)

/* Result of recognising a config: a decoder, a tower, or a multi-part model. */
struct kind {
    const struct text_family *text;
    const struct vision_family *vision;
    const struct joint_family *joint;
};

struct reading {
    struct llm_model *m;
    const json_t *root;
    const json_t *quant; /* content of ModelOpt's own file; NULL: none */
    const char *what;
    struct llm_notes notes;
    struct err *err;
};

void llm_model_free(struct llm_model *m) {
    if (!m) return;
    for (size_t i = 0; i < m->nnotes; i++) free(m->notes[i]);
    free(m->notes);
    free(m->name);
    free(m->model_type);
    free(m->architecture);
    free(m->quantization);
    free(m->ops);
    free(m);
}

/* ---- File structure: checks the keys that are used before the family is known. The family's reader
 * checks the others. */
static int check_shape(const struct reading *r, const json_t *object, const char *prefix) {
    static const struct {
        const char *key;
        json_type type;
        const char *expected;
    } rows[] = {
        { "model_type", JSON_STRING, "a text" },          { "architectures", JSON_ARRAY, "a list" },
        { "torch_dtype", JSON_STRING, "a text" },         { "dtype", JSON_STRING, "a text" },
        { "text_config", JSON_OBJECT, "an object" },      { "llm_config", JSON_OBJECT, "an object" },
        { "vision_config", JSON_OBJECT, "an object" },    { "language_config", JSON_OBJECT, "an object" },
        { "projector_config", JSON_OBJECT, "an object" }, { "quantization_config", JSON_OBJECT, "an object" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const json_t *v = json_object_get(object, rows[i].key);
        if (v && !json_is_null(v) && json_typeof(v) != rows[i].type)
            return err_set(r->err, "%s: %s%s is not %s", r->what, prefix, rows[i].key, rows[i].expected);
    }
    return 0;
}

/* ---- Family */
static const char *string_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static const char *architecture_of(const json_t *object) {
    return json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
}

static bool find_kind(const char *type, const char *architecture, struct kind *k) {
    *k = (struct kind){ .joint = joint_family_find(type, architecture) };
    if (!k->joint) k->text = text_family_find(type, architecture);
    if (!k->joint && !k->text) k->vision = vision_family_find(type, architecture);
    return k->joint || k->text || k->vision;
}

bool llm_family_known(const char *name) {
    struct kind k;
    return find_kind(name, NULL, &k);
}

static int choose_family(struct reading *r, const char *assume, struct kind *k) {
    const char *type = string_at(r->root, "model_type"), *architecture = architecture_of(r->root);
    r->m->model_type = type ? xstrdup(type) : NULL;
    r->m->architecture = architecture ? xstrdup(architecture) : NULL;
    if (assume) {
        if (!find_kind(assume, NULL, k))
            return err_set(r->err, "--assume: '%s' is not a known family; known: %s", assume, llm_families());
        r->m->assumed = k->joint ? k->joint->name : k->text ? k->text->name : k->vision->name;
        notes_add(&r->notes, "read as %s because of --assume; the config has %s, %s", r->m->assumed,
                  type ? type : "no model_type", architecture ? architecture : "no architecture");
        return 0;
    }
    if (find_kind(type, architecture, k)) return 0;
    if (!type && !architecture)
        return err_set(r->err,
                       "%s: has neither model_type nor architectures: is it the config.json of a model?",
                       r->what);
    return err_set(r->err,
                   "%s: unknown architecture '%.80s' (model_type '%.80s'); known: %s. --assume NAME reads it "
                   "as one of them",
                   r->what, architecture ? architecture : "none", type ? type : "none", llm_families());
}

/* ---- Sections */
static struct llm_fields fields_of(struct reading *r, const json_t *section, const char *prefix,
                                   bool fall_back, const char *family) {
    return (struct llm_fields){ .section = section,
                                .top = fall_back ? r->root : NULL,
                                .what = r->what,
                                .prefix = prefix,
                                .family = family,
                                .notes = &r->notes,
                                .err = r->err };
}

/* Returns the nested text section, under any of its names; NULL: the file has no sections. */
static const json_t *text_section(const json_t *root, const char **prefix) {
    static const char *const keys[] = { "text_config", "llm_config", "language_config" };
    static const char *const prefixes[] = { "text_config.", "llm_config.", "language_config." };
    for (size_t i = 0; i < COUNTOF(keys); i++) {
        const json_t *v = json_object_get(root, keys[i]);
        if (!json_is_object(v)) continue;
        *prefix = prefixes[i];
        return v;
    }
    *prefix = "";
    return NULL;
}

static void set_dtype(struct reading *r, enum llm_dtype override) {
    const char *prefix;
    const json_t *text = text_section(r->root, &prefix);
    const char *name = string_at(r->root, "torch_dtype");
    if (!name) name = string_at(r->root, "dtype");
    if (!name && text) name = string_at(text, "torch_dtype");
    if (!name && text) name = string_at(text, "dtype");
    enum llm_dtype t = name ? llm_dtype_parse(name) : LLM_DTYPE_UNKNOWN;
    r->m->dtype = override ? override : t ? t : LLM_BF16;
    if (!override && !t)
        notes_add(&r->notes, "the config %s%s: assuming bf16 weights and arithmetic (override with --dtype)",
                  name ? "has an unknown torch_dtype " : "has no torch_dtype", name ? name : "");
}

static const json_t *quant_section(const struct reading *r) {
    const char *prefix;
    const json_t *text = text_section(r->root, &prefix), *c = json_object_get(r->root, "quantization_config");
    if (!json_is_object(c) && text) c = json_object_get(text, "quantization_config");
    return json_is_object(c) ? c : r->quant;
}

static void set_quant(struct reading *r, const struct llm_load *how, struct llm_quant *q) {
    const json_t *c = quant_section(r);
    const char *method = string_at(c, "quant_method");
    if (how->dtype) {
        if (method)
            notes_add(&r->notes,
                      "the %.40s quantisation of the config is ignored: --dtype sets the weight type",
                      method);
        return;
    }
    bool found = c && quant_read(c, q, &r->notes);
    if (!c && how->weights && quant_from_tensors(how->weights, q)) {
        found = true;
        notes_add(&r->notes, "the config does not mention quantisation, but the weight files are quantised");
    }
    if (!found) return;
    r->m->pack = q->pack;
    r->m->quantization = quant_describe(q);
    notes_add(&r->notes, "weights stored as %s, others as %s", r->m->quantization,
              llm_dtype_name(r->m->dtype));
}

/* ---- Parts */
static int add_stage(struct llm_model *m, const char *name) {
    m->stages[m->nstages] = name;
    return m->nstages++;
}

static int read_text(struct reading *r, const struct text_family *fam, bool tied) {
    const char *prefix;
    const json_t *section = text_section(r->root, &prefix);
    struct llm_fields f = fields_of(r, section ? section : r->root, prefix, section != NULL, fam->name);
    return text_read(&r->m->text, fam, &f, section == NULL, tied);
}

/* Returns the family of the text section, or `usual` if the section names no family; NULL: see err. llava,
 * for example, contains a llama or a mistral. */
static const struct text_family *text_family_of(struct reading *r, const char *usual) {
    const char *prefix, *type = NULL, *architecture = NULL;
    const json_t *section = text_section(r->root, &prefix);
    if (section) {
        type = string_at(section, "model_type");
        architecture = architecture_of(section);
    }
    const struct text_family *fam = text_family_find(type, architecture);
    if (!fam && type)
        err_set(r->err, "%s: %smodel_type '%.80s' is not a known decoder; known: %s", r->what, prefix, type,
                llm_families());
    else if (!fam)
        fam = text_family_find(usual, NULL);
    return fam;
}

static const struct vision_family *vision_family_of(struct reading *r, const json_t *section,
                                                    const struct joint_family *joint) {
    const char *type = string_at(section, "model_type"), *architecture = architecture_of(section);
    const struct vision_family *fam = vision_family_find(type, architecture);
    if (!fam && type)
        err_set(r->err, "%s: vision_config.model_type '%.80s' is not a known image tower; known: %s", r->what,
                type, llm_families());
    else if (!fam)
        fam =
            vision_family_find(!section && joint->vision_absent ? joint->vision_absent : joint->vision, NULL);
    return fam;
}

static void read_image_rules(struct llm_vision *v, const struct joint_family *joint, struct llm_fields *top) {
    v->rule = joint->rule;
    v->merge = joint->merge;
    v->tokens_per_view = joint->tokens_per_view;
    v->max_pixels = joint->max_pixels;
    v->min_pixels = joint->max_pixels ? 56 * 56 : 0;
    v->max_tiles = joint->max_tiles;
    v->image_attends_both_ways = joint->both_ways;
    if (joint->tokens_per_view)
        v->tokens_per_view = fields_uint(top, "mm_tokens_per_image", joint->tokens_per_view, 1 << 20);
    if (joint->rule == LLM_IMAGE_INTERNVL) {
        double ratio = fields_number(top, "downsample_ratio", 0.5);
        if (!(ratio > 0.01 && ratio <= 1))
            fields_fail(top, "downsample_ratio is %g; expected a value near 0.5", ratio);
        else
            v->merge = (uint64_t)(1 / ratio + 0.5);
        if (fields_has(top, "max_dynamic_patch"))
            v->max_tiles = fields_uint(top, "max_dynamic_patch", 12, 1024);
    }
}

/* Sets the values that only an engine needs: mean and deviation of pixels, image token, bias and
 * activation of the projector, layer of the features. */
static void read_engine_fields(struct llm_vision *v, const struct joint_family *joint,
                               struct llm_fields *top) {
    static const float mean[3] = { 0.48145466f, 0.4578275f, 0.40821073f },
                       deviation[3] = { 0.26862954f, 0.26130258f, 0.27577711f }; /* of CLIP */
    memcpy(v->image_mean, mean, sizeof mean);
    memcpy(v->image_std, deviation, sizeof deviation);
    v->image_id = fields_id(top, "image_token_id|image_token_index");
    if (v->image_id < 0 && joint->rule == LLM_IMAGE_QWEN) v->image_id = 151655;
    if (joint->projector != PROJECTOR_MLP2) return;
    if (v->image_id < 0) v->image_id = 32000;
    v->projector_bias = fields_bool(top, "multimodal_projector_bias", true);
    v->projector_activation = activation_named(fields_str(top, "projector_hidden_act", "gelu"));
    const json_t *layer = fields_find(top, "vision_feature_layer", NULL);
    if (json_array_size(layer) == 1) layer = json_array_get(layer, 0);
    json_int_t at = layer && !json_is_null(layer) ? json_integer_value(layer) : -2;
    if (layer && json_is_array(layer)) return;
    if (at < 0) at += (json_int_t)v->tower.layers + 1;
    if (at >= 0 && at <= (json_int_t)v->tower.layers) v->feature_layers = (uint32_t)at;
}

/* Sets the input and output width of the projector, and *common, the width of clip's common space. */
static int projector_sizes(struct reading *r, const struct joint_family *joint, const json_t *vision,
                           struct llm_fields *top, uint64_t *common) {
    struct llm_vision *v = &r->m->vision;
    struct llm_fields f = fields_of(r, vision, "vision_config.", false, joint->name);
    v->projector_in = v->tower.hidden;
    v->projector_out = r->m->text.hidden;
    if (joint->projector == PROJECTOR_MERGER || joint->projector == PROJECTOR_NORM_MLP2)
        v->projector_in *= v->merge * v->merge;
    if (joint->projector == PROJECTOR_MERGER && fields_has(&f, "out_hidden_size"))
        v->projector_out = fields_uint(&f, "out_hidden_size", 1, 1 << 20);
    const json_t *layers = fields_find(top, "vision_feature_layer", NULL);
    if (joint->projector == PROJECTOR_MLP2 && json_array_size(layers) > 1)
        v->projector_in *= MIN(json_array_size(layers), 64);
    if (joint->projector == PROJECTOR_LINEAR) {
        struct llm_fields p = fields_of(r, json_object_get(r->root, "projector_config"), "projector_config.",
                                        false, joint->name);
        v->projector_in = fields_uint(&p, "input_dim", v->tower.hidden + v->sam_down[1], 1 << 20);
        v->projector_out = fields_uint(&p, "n_embed", r->m->text.hidden, 1 << 20);
        if (p.failed) return -1;
    }
    if (joint->projector == PROJECTOR_DUAL) *common = fields_uint(top, "projection_dim", 512, 1 << 20);
    if (!f.failed && !top->failed && joint->projector != PROJECTOR_DUAL &&
        v->projector_out != r->m->text.hidden)
        return err_set(r->err, "%s: the projector's output width is %u, but the decoder's hidden_size is %u",
                       r->what, (unsigned)v->projector_out, (unsigned)r->m->text.hidden);
    return f.failed || top->failed ? -1 : 0;
}

static int build_joint(struct reading *r, const struct joint_family *joint, const struct llm_quant *quant) {
    struct llm_model *m = r->m;
    const json_t *section = json_object_get(r->root, "vision_config");
    bool ocr = joint->rule == LLM_IMAGE_DEEPSEEK_OCR, dual = joint->projector == PROJECTOR_DUAL;
    struct llm_fields top = fields_of(r, r->root, "", false, joint->name);
    struct llm_fields vf =
        fields_of(r, json_is_object(section) ? section : NULL, "vision_config.", false, joint->name);
    const struct text_family *text = text_family_of(r, joint->text);
    const struct vision_family *vision = text ? vision_family_of(r, ocr ? NULL : section, joint) : NULL;
    uint64_t common = 0;
    if (!text || !vision) return -1;
    vf.family = vision->name;
    read_image_rules(&m->vision, joint, &top);
    if (top.failed || read_text(r, text, joint->tied) < 0) return -1;
    if (fields_has(&vf, "spatial_merge_size"))
        m->vision.merge = fields_uint(&vf, "spatial_merge_size", 2, 16);
    if ((ocr ? ocr_read(&m->vision, &vf) : vision_read(&m->vision, vision, &vf, false)) < 0) return -1;
    read_engine_fields(&m->vision, joint, &top);
    if (projector_sizes(r, joint, section, &top, &common) < 0) return -1;
    const char *select = fields_str(&top, "vision_feature_select_strategy", "default");
    if (joint->projector == PROJECTOR_MLP2 && m->vision.class_token && strcmp(select, "full") == 0)
        m->vision.tokens_per_view = (m->vision.tower.image_size / m->vision.tower.patch) *
                                        (m->vision.tower.image_size / m->vision.tower.patch) +
                                    1;
    m->stages[0] = dual ? "text" : "decoder";
    m->decodes = !dual;
    if (ocr) {
        int sam = add_stage(m, "sam"), clip = add_stage(m, "clip"), last = add_stage(m, "projector");
        ocr_ops(m, sam, clip);
        projector_ops(m, joint->projector, vision->traits, common, last, 0);
    } else {
        int stage = add_stage(m, "vision");
        vision_ops(m, vision, &vf, stage);
        projector_ops(m, joint->projector, vision->traits, common, stage, 0);
    }
    text_ops(m, text, LLM_STAGE_DECODER, quant);
    return vf.failed ? -1 : 0;
}

static int build_model(struct reading *r, const struct kind *k, const struct llm_quant *quant) {
    struct llm_model *m = r->m;
    m->stages[0] = "decoder";
    m->nstages = 1;
    m->family = k->joint ? k->joint->name : k->text ? k->text->name : k->vision->name;
    if (k->joint) return build_joint(r, k->joint, quant);
    if (k->text) {
        m->decodes = !(k->text->traits & TEXT_CLIP);
        if (!m->decodes) m->stages[0] = "text";
        if (read_text(r, k->text, false) < 0) return -1;
        text_ops(m, k->text, LLM_STAGE_DECODER, quant);
        return 0;
    }
    const json_t *nested = json_object_get(r->root, "vision_config");
    struct llm_fields f = fields_of(r, json_is_object(nested) ? nested : r->root,
                                    json_is_object(nested) ? "vision_config." : "", false, k->vision->name);
    m->vision.rule = LLM_IMAGE_SQUARE;
    m->vision.merge = 1;
    if (vision_read(&m->vision, k->vision, &f, !json_is_object(nested)) < 0) return -1;
    vision_ops(m, k->vision, &f, add_stage(m, "vision"));
    return f.failed ? -1 : 0;
}

/* ---- Parameter counts */
static uint64_t clamp_mul(uint64_t a, uint64_t b) {
    uint64_t out;
    return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX : out;
}

static uint64_t clamp_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t params_of_op(const struct llm_op *op) {
    uint64_t one = clamp_add(clamp_mul(op->in, MAX(1, op->out)), op->vector);
    return clamp_mul(clamp_mul(op->count, MAX(1, op->experts)), one);
}

uint64_t llm_op_params(const struct llm_op *op) { return op->tied ? 0 : params_of_op(op); }

double llm_op_expert_share(const struct llm_op *op) { return op->expert_share > 0 ? op->expert_share : 1; }
double llm_op_row_scale(const struct llm_op *op) { return op->row_scale > 0 ? op->row_scale : 1; }

double llm_op_weight_bytes(const struct llm_op *op) {
    if (op->tied) return 0;
    return op->instance_bytes * (double)op->count * (double)MAX(1, op->experts) * llm_op_expert_share(op);
}

uint64_t llm_module_params(const struct llm_model *m, const char *module) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->nops; i++)
        if (strcmp(m->ops[i].module, module) == 0) sum += llm_op_params(&m->ops[i]);
    return sum;
}

double llm_weight_bytes(const struct llm_model *m) {
    double sum = 0;
    for (size_t i = 0; i < m->nops; i++) sum += llm_op_weight_bytes(&m->ops[i]);
    return sum;
}

static int count_params(struct llm_model *m, const char *what, struct err *err) {
    struct llm_params *p = &m->params;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        uint64_t n = llm_op_params(op), all = params_of_op(op);
        p->total = clamp_add(p->total, n);
        if (op->stage != LLM_STAGE_DECODER || !m->decodes) continue;
        bool head = op->rows == LLM_ROWS_HEAD;
        if (op->kind == LLM_OP_EMBEDDING) {
            if (strcmp(op->module, "embedding") == 0) p->embedding += n;
            continue;
        }
        if (head) p->head += n;
        uint64_t active = op->experts ? all / op->experts * op->topk : all;
        p->active = clamp_add(p->active, active);
        if (!head) p->active_inner = clamp_add(p->active_inner, active);
    }
    if (p->total > (uint64_t)1 << 60)
        return err_set(err, "%s: describes more than 10^18 parameters: some field has an invalid value",
                       what);
    return 0;
}

/* ---- Bytes */
static void set_bytes(struct llm_model *m) {
    double width = llm_dtype_bytes(m->dtype);
    for (size_t i = 0; i < m->nops; i++) {
        struct llm_op *op = &m->ops[i];
        double matrix = (double)op->in * (double)MAX(1, op->out) * width;
        if (op->weight) matrix = llm_pack_bytes(&m->pack, op->in, op->out);
        op->instance_bytes = matrix + (double)op->vector * width;
    }
}

/* Each layer for multi-token prediction (DeepSeek-V3) is a decoder layer with its own embedding table and
 * head, three norms, and a matrix that joins two hidden states. Checkpoints contain these layers, but
 * plain decoding does not use them. */
static void count_mtp(struct reading *r) {
    struct llm_model *m = r->m;
    const json_t *v = json_object_get(r->root, "num_nextn_predict_layers");
    json_int_t layers = json_integer_value(v);
    if (layers < 1 || layers > LLM_LAYERS_MAX || !m->decodes || !m->text.kv_lora_rank) return;
    uint64_t hidden = m->text.hidden, own = hidden * (2 * m->text.vocab + 2 * hidden + 3), params = own;
    double bytes = (double)own * llm_dtype_bytes(m->dtype);
    bool moe = m->text.layer[m->text.layers - 1].moe;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        bool layered = op->stage == LLM_STAGE_DECODER && op->kind != LLM_OP_EMBEDDING &&
                       op->rows != LLM_ROWS_HEAD && strcmp(op->name, "final_norm") != 0;
        if (!layered || (strcmp(op->module, "mlp") == 0 && moe) || op->count == 0) continue;
        params = clamp_add(params, params_of_op(op) / op->count);
        bytes += op->instance_bytes * (double)MAX(1, op->experts);
    }
    m->mtp.layers = (uint32_t)layers;
    m->mtp.params = clamp_mul(params, (uint64_t)layers);
    m->mtp.bytes = bytes * (double)layers;
    notes_add(
        &r->notes,
        "the checkpoint also has %u layer(s) for multi-token prediction with %.3g parameters (%.3g GB): not "
        "counted, because plain decoding does not use them",
        m->mtp.layers, (double)m->mtp.params, m->mtp.bytes / 1e9);
}

/* ---- Loading */
static struct llm_model *from_root(const json_t *root, const json_t *quant_file, const char *what,
                                   const struct llm_load *how, struct err *err) {
    struct reading r = {
        .m = xcalloc(1, sizeof *r.m), .root = root, .quant = quant_file, .what = what, .err = err
    };
    struct llm_quant quant = { 0 };
    struct kind kind;
    int rc = json_is_object(root) ? 0 : err_set(err, "%s: not a JSON object", what);
    const char *prefix;
    const json_t *text = text_section(root, &prefix);
    if (rc == 0) rc = check_shape(&r, root, "");
    if (rc == 0 && text) rc = check_shape(&r, text, prefix);
    if (rc == 0) rc = choose_family(&r, how->assume, &kind);
    if (rc == 0) {
        set_dtype(&r, how->dtype);
        set_quant(&r, how, &quant);
        rc = build_model(&r, &kind, &quant);
    }
    if (rc == 0) {
        quant_exclude(r.m, &quant, &r.notes);
        set_bytes(r.m);
        rc = count_params(r.m, what, err);
    }
    if (rc == 0) count_mtp(&r);
    r.m->notes = r.notes.v;
    r.m->nnotes = r.notes.n;
    if (rc == 0) return r.m;
    llm_model_free(r.m);
    return NULL;
}

struct llm_model *model_of_config(const json_t *root, const char *what, const struct llm_load *how,
                                  struct err *err) {
    return from_root(root, NULL, what, how, err);
}

struct llm_model *llm_model_parse(const char *text, size_t n, const char *what, const struct llm_load *how,
                                  struct err *err) {
    json_t *root = jsonr_load_text(text, n, what, err);
    if (!root) return NULL;
    struct llm_model *m = from_root(root, NULL, what, how, err);
    json_decref(root);
    if (m) m->name = xstrdup(what);
    return m;
}

static char *folder_of(const char *path) {
    const char *base = file_basename(path);
    return base == path ? xstrdup(".") : xstrndup(path, (size_t)(base - path));
}

/* Returns the name of a model: the name of the folder for a config.json, otherwise the name of the file. */
static char *name_of(const char *config) {
    const char *base = file_basename(config);
    if (strcmp(base, "config.json") != 0) return xstrndup(base, file_stem_bytes(base, ".json"));
    char *folder = folder_of(config), *real = realpath(folder, NULL);
    char *name = xstrdup(real && *file_basename(real) ? file_basename(real) : "model");
    free(folder);
    free(real);
    return name;
}

static void add_limits_note(struct llm_model *m, const char *path, const char *what) {
    struct llm_notes notes = { m->notes, m->nnotes, m->nnotes };
    notes_add(&notes, "%s: %s: using the limits of %s", file_basename(path), what, m->family);
    m->notes = notes.v;
    m->nnotes = notes.n;
}

/* Returns the value of `key`; if it is missing or null, the value of size.<edge>, which newer files have
 * instead. */
static const json_t *pixels_of(const json_t *root, const char *key, const char *edge) {
    const json_t *v = json_object_get(root, key);
    return v && !json_is_null(v) ? v : json_object_get(json_object_get(root, "size"), edge);
}

/* Reads three numbers, one per channel. Keeps the values in `out` if the list is missing or invalid. */
static void read_channels(const json_t *list, bool positive, float out[3]) {
    float v[3];
    if (json_array_size(list) != 3) return;
    for (size_t i = 0; i < 3; i++) {
        v[i] = (float)json_number_value(json_array_get(list, i));
        if (!isfinite(v[i]) || (positive && !(v[i] > 0))) return;
    }
    memcpy(out, v, sizeof v);
}

static void read_limits(struct llm_model *m, const json_t *root, const char *path) {
    const json_t *least = pixels_of(root, "min_pixels", "shortest_edge"),
                 *most = pixels_of(root, "max_pixels", "longest_edge");
    json_int_t min = json_integer_value(least), max = json_integer_value(most);
    if (min > 0 && max >= min) {
        m->vision.min_pixels = (uint64_t)min;
        m->vision.max_pixels = (uint64_t)max;
    } else if (least || most) {
        add_limits_note(m, path, "min_pixels and max_pixels are not whole numbers with min <= max");
    }
}

/* Reads the pixel limits (qwen2_vl), mean and deviation of the image processor if its config is in the same
 * folder. */
static void read_processor(struct llm_model *m, const char *config) {
    char *folder = folder_of(config), *path = file_join(folder, "preprocessor_config.json");
    if (m->vision.rule && file_exists(path)) {
        struct err err;
        json_t *root = jsonr_load_path(path, CONFIG_BYTES_MAX, &err);
        if (root && m->vision.max_pixels) read_limits(m, root, path);
        if (!root && m->vision.max_pixels) add_limits_note(m, path, err.msg);
        read_channels(json_object_get(root, "image_mean"), false, m->vision.image_mean);
        read_channels(json_object_get(root, "image_std"), true, m->vision.image_std);
        json_decref(root);
    }
    free(folder);
    free(path);
}

/* Reads the end tokens of generation_config.json if that file is in the same folder and lists end tokens.
 * Chat models list the end of a turn there; their config.json has only the end of a text. */
static int read_generation(struct llm_model *m, const char *config, struct err *err) {
    char *folder = folder_of(config), *path = file_join(folder, "generation_config.json");
    bool own_folder = strcmp(file_basename(config), "config.json") == 0;
    int rc = 0;
    if (own_folder && file_exists(path)) {
        json_t *root = jsonr_load_path(path, CONFIG_BYTES_MAX, err);
        struct llm_fields f = { .section = root, .what = path, .prefix = "", .err = err };
        uint32_t ids[LLM_EOS_MAX], n = root ? fields_ids(&f, "eos_token_id", ids, LLM_EOS_MAX) : 0;
        if (!root || f.failed) rc = -1;
        if (n) {
            memcpy(m->text.eos_ids, ids, sizeof ids[0] * n);
            m->text.neos = n;
        }
        json_decref(root);
    }
    free(folder);
    free(path);
    return rc;
}

static char *config_path(const char *path) {
    if (file_is_dir(path)) return file_join(path, "config.json");
    if (file_has_ending(path, ".safetensors")) {
        char *folder = folder_of(path), *config = file_join(folder, "config.json");
        free(folder);
        return config;
    }
    return xstrdup(path);
}

/* Older ModelOpt checkpoints describe the quantisation only in hf_quant_config.json, next to config.json.
 * Returns NULL if there is no such file or it is not valid. */
static json_t *load_quant_file(const char *config) {
    char *folder = folder_of(config), *path = file_join(folder, "hf_quant_config.json");
    struct err ignored;
    bool own_folder = strcmp(file_basename(config), "config.json") == 0;
    json_t *root = own_folder && file_exists(path) ? jsonr_load_path(path, CONFIG_BYTES_MAX, &ignored) : NULL;
    free(folder);
    free(path);
    return root;
}

static struct llm_model *load_gguf(const char *path, const struct llm_load *how, struct err *err) {
    struct gguf *g = gguf_open(path, err);
    struct llm_model *m = g ? llm_model_of_gguf(g, path, how, err) : NULL;
    const char *base = file_basename(path);
    if (m) m->name = xstrndup(base, file_stem_bytes(base, ".gguf"));
    gguf_close(g);
    return m;
}

struct llm_model *llm_model_of_heads(const struct gguf_head *heads, size_t n, const struct llm_load *how,
                                     struct err *err) {
    struct gguf *g = gguf_parse_heads(heads, n, err);
    struct llm_model *m = g ? llm_model_of_gguf(g, heads[0].path, how, err) : NULL;
    struct bytes title;
    if (m && gguf_str(g, "general.name", &title) && bytes_left(&title))
        m->name = xstrndup((const char *)title.p, bytes_left(&title));
    else if (m)
        m->name = xstrdup(file_basename(heads[0].path));
    gguf_close(g);
    return m;
}

static struct llm_model *load_config(const char *path, const struct llm_load *how, struct err *err) {
    char *config = config_path(path);
    json_t *root = jsonr_load_path(config, CONFIG_BYTES_MAX, err), *quant = load_quant_file(config);
    const json_t *section = json_object_get(quant, "quantization");
    struct llm_model *m = root ? from_root(root, section, config, how, err) : NULL;
    if (m) {
        m->name = name_of(config);
        read_processor(m, config);
        if (read_generation(m, config, err) < 0) {
            llm_model_free(m);
            m = NULL;
        }
    }
    json_decref(quant);
    json_decref(root);
    free(config);
    return m;
}

struct llm_model *llm_model_load(const char *path, const struct llm_load *how, struct err *err) {
    char *found = gguf_in_folder(path);
    struct llm_model *m =
        file_has_ending(found, ".gguf") ? load_gguf(found, how, err) : load_config(path, how, err);
    free(found);
    return m;
}
