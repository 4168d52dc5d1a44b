#include "llm/quant.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/words.h"
#include "base/vec.h"
#include "llm/oprow.h"

/* ---- Layouts. There is one scale per block_in x block_out weights; 0 means the whole dimension. */

static uint64_t blocks_of(uint64_t size, uint32_t block) {
    return block ? size / block + (size % block != 0) : size != 0;
}

double llm_pack_bytes(const struct llm_pack *p, uint64_t in, uint64_t out) {
    double blocks = (double)blocks_of(in, p->block_in) * (double)blocks_of(out, p->block_out);
    double bits = (double)p->bits * (double)in * (double)out + blocks * (p->scale_bits + p->zero_bits) +
                  (double)p->column_bits * (double)in + (double)p->matrix_bits;
    return bits / 8;
}

static bool is_true(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Returns the value if it is a whole number in 1..max; otherwise `fallback`. */
static uint32_t size_of(const json_t *v, uint32_t fallback, int64_t max) {
    int64_t n = json_is_integer(v) ? json_integer_value(v) : 0;
    return n >= 1 && n <= max ? (uint32_t)n : fallback;
}

/* Returns group_size. Values of 0 or less (usually -1) mean one group per output; the result is then 0. */
static uint32_t group_of(const json_t *o, uint32_t fallback) {
    const json_t *v = json_object_get(o, "group_size");
    if (json_is_integer(v) && json_integer_value(v) <= 0) return 0;
    return size_of(v, fallback, 1 << 20);
}

static bool names_head(const json_t *ignore) {
    for (size_t i = 0; i < json_array_size(ignore); i++) {
        const char *s = json_string_value(json_array_get(ignore, i));
        if (s && strstr(s, "lm_head")) return true;
    }
    return false;
}

static void set_scope(struct llm_quant *q, const json_t *c, bool head) {
    static const char *const keys[] = { "modules_to_not_convert", "ignore", "exclude_modules",
                                        "ignored_layers" };
    for (size_t i = 0; i < COUNTOF(keys) && !q->ignore; i++) {
        const json_t *v = json_object_get(c, keys[i]);
        if (json_is_array(v)) q->ignore = v;
    }
    q->scope = OPROW_QUANT_LINEAR | (head && !names_head(q->ignore) ? OPROW_QUANT_HEAD : 0);
}

/* ---- Methods */

/* 4 bits with an 8-bit power-of-two scale per 32 weights. */
static const struct llm_pack pack_mxfp4 = {
    .type = LLM_MXFP4, .bits = 4, .block_in = 32, .block_out = 1, .scale_bits = 8, .activations = true
};
/* 4 bits with an fp8 scale per 16 weights, and an fp32 scale for the weights and one for the inputs. */
static const struct llm_pack pack_nvfp4 = { .type = LLM_NVFP4,
                                            .bits = 4,
                                            .block_in = 16,
                                            .block_out = 1,
                                            .scale_bits = 8,
                                            .matrix_bits = 64,
                                            .activations = true };

/* Reads weight_block_size [rows, columns]: there is one fp32 scale per block. If the key is missing, there
 * is one fp32 scale per matrix, and one for its inputs if the activation scheme is static. */
static bool read_fp8(const json_t *c, struct llm_quant *q) {
    const json_t *block = json_object_get(c, "weight_block_size");
    q->pack = (struct llm_pack){ .type = LLM_FP8, .bits = 8, .activations = true };
    if (json_array_size(block) == 2) {
        q->pack.block_out = size_of(json_array_get(block, 0), 128, 1 << 20);
        q->pack.block_in = size_of(json_array_get(block, 1), 128, 1 << 20);
        q->pack.scale_bits = 32;
    } else {
        q->pack.matrix_bits = strcmp(text_of(c, "activation_scheme"), "static") == 0 ? 64 : 32;
    }
    set_scope(q, c, false);
    return true;
}

static bool read_fbgemm(const json_t *c, struct llm_quant *q) {
    q->pack = (struct llm_pack){
        .type = LLM_FP8, .bits = 8, .block_out = 1, .scale_bits = 32, .activations = true
    };
    set_scope(q, c, false);
    return true;
}

static bool read_mxfp4(const json_t *c, struct llm_quant *q) {
    q->pack = pack_mxfp4;
    set_scope(q, c, false);
    q->scope = OPROW_QUANT_EXPERTS;
    return true;
}

/* Reads a layout with groups of inputs. Each group has an fp16 scale and a zero point with as many bits as
 * a weight. */
static bool read_groups(const json_t *c, struct llm_quant *q, bool column_index) {
    uint32_t bits = size_of(json_object_get(c, "bits"), size_of(json_object_get(c, "w_bit"), 4, 8), 8);
    q->pack =
        (struct llm_pack){ .type = bits > 4 ? LLM_INT8 : LLM_INT4,
                           .bits = bits,
                           .block_in = group_of(c, size_of(json_object_get(c, "q_group_size"), 128, 1 << 20)),
                           .block_out = 1,
                           .scale_bits = 16,
                           .zero_bits = bits,
                           .column_bits = column_index ? 32 : 0 };
    set_scope(q, c, is_true(c, "lm_head"));
    return true;
}

static bool read_gptq(const json_t *c, struct llm_quant *q) { return read_groups(c, q, true); }
static bool read_awq(const json_t *c, struct llm_quant *q) { return read_groups(c, q, false); }

/* 4-bit weights have one fp32 scale per 64 weights. With double quantisation, each scale has 8 bits, and
 * there is one fp32 number per 256 scales. 8-bit weights have one fp32 scale per output. */
static bool read_bitsandbytes(const json_t *c, struct llm_quant *q) {
    bool four = is_true(c, "load_in_4bit"), twice = is_true(c, "bnb_4bit_use_double_quant");
    if (!four && !is_true(c, "load_in_8bit")) return false;
    q->pack = four ? (struct llm_pack){ .type = LLM_FP4,
                                        .bits = 4,
                                        .block_in = 64,
                                        .block_out = 1,
                                        .scale_bits = twice ? 8 + 32.0 / 256 : 32 }
                   : (struct llm_pack){
                         .type = LLM_INT8, .bits = 8, .block_out = 1, .scale_bits = 32, .activations = true
                     };
    set_scope(q, c, false);
    return true;
}

static enum llm_dtype number_type(uint32_t bits, bool is_float, uint32_t group) {
    if (bits == 8) return is_float ? LLM_FP8 : LLM_INT8;
    if (bits > 4) return LLM_DTYPE_UNKNOWN;
    return !is_float ? LLM_INT4 : group == 32 ? LLM_MXFP4 : LLM_NVFP4;
}

/* Reads the first group of config_groups: {weights: {num_bits, type, strategy, group_size, ...}}. Scales
 * have 16 bits, except in NVFP4 and MXFP4. Packed integers also store the shape of the matrix (two 64-bit
 * numbers). */
static bool read_group_config(const json_t *c, struct llm_quant *q) {
    void *first = json_object_iter((json_t *)json_object_get(c, "config_groups"));
    const json_t *group = first ? json_object_iter_value(first) : NULL,
                 *w = json_object_get(group, "weights"), *in = json_object_get(group, "input_activations");
    uint32_t bits = size_of(json_object_get(w, "num_bits"), 0, 8), size = group_of(w, 0);
    const char *strategy = text_of(w, "strategy");
    bool is_float = strcmp(text_of(w, "type"), "float") == 0;
    enum llm_dtype type = bits ? number_type(bits, is_float, size) : LLM_DTYPE_UNKNOWN;
    if (!type) return false;
    struct llm_pack p = { .type = type, .bits = bits, .block_in = size, .block_out = 1, .scale_bits = 16 };
    if (type == LLM_NVFP4) p = pack_nvfp4;
    if (type == LLM_MXFP4) p = pack_mxfp4;
    if (strcmp(strategy, "tensor") == 0) {
        p.block_out = 0;
        if (json_is_object(in) && !is_true(in, "dynamic")) p.matrix_bits = 16;
    }
    if (strcmp(strategy, "block") == 0) {
        const json_t *block = json_object_get(w, "block_structure");
        p.block_out = size_of(json_array_get(block, 0), 128, 1 << 20);
        p.block_in = size_of(json_array_get(block, 1), 128, 1 << 20);
    }
    bool packed = !is_float && strcmp(text_of(c, "format"), "pack-quantized") == 0;
    if (packed) p.matrix_bits = 128;
    if (!is_float && json_is_false(json_object_get(w, "symmetric"))) p.zero_bits = bits;
    const json_t *order = json_object_get(w, "actorder");
    if (json_is_true(order) || (json_is_string(order) && strcmp(json_string_value(order), "group") == 0))
        p.column_bits = 32;
    p.activations = json_is_object(in);
    q->pack = p;
    set_scope(q, c, true);
    return true;
}

static bool read_modelopt(const json_t *c, struct llm_quant *q) {
    const char *algo = text_of(c, "quant_algo");
    if (strstr(algo, "NVFP4"))
        q->pack = pack_nvfp4;
    else if (strcmp(algo, "FP8") == 0)
        q->pack = (struct llm_pack){ .type = LLM_FP8, .bits = 8, .matrix_bits = 64, .activations = true };
    else
        return read_group_config(c, q);
    if (strstr(algo, "W4A16") || strstr(algo, "A16")) q->pack.activations = false;
    set_scope(q, c, true);
    return true;
}

bool quant_read(const json_t *c, struct llm_quant *q, struct llm_notes *notes) {
    static const struct {
        const char *method;
        bool (*read)(const json_t *c, struct llm_quant *q);
    } methods[] = {
        { "mxfp4", read_mxfp4 },
        { "fp8", read_fp8 },
        { "fbgemm_fp8", read_fbgemm },
        { "gptq", read_gptq },
        { "awq", read_awq },
        { "bitsandbytes", read_bitsandbytes },
        { "compressed-tensors", read_group_config },
        { "modelopt", read_modelopt },
        { "modelopt_fp4", read_modelopt },
    };
    const char *method = text_of(c, "quant_method");
    if (!*method && *text_of(c, "quant_algo")) method = "modelopt";
    if (!*method) return false;
    for (size_t i = 0; i < COUNTOF(methods); i++) {
        if (strcmp(methods[i].method, method) != 0) continue;
        if (!methods[i].read(c, q)) break;
        if (json_object_size(json_object_get(c, "config_groups")) > 1)
            notes_add(notes, "the quantisation has several config_groups: the first is used for all layers");
        return true;
    }
    notes_add(notes, "quantisation '%.40s' is not modelled: weights are counted in the config's type",
              method);
    return false;
}

char *quant_describe(const struct llm_quant *q) {
    struct strbuf s = STRBUF_INIT;
    const struct llm_pack *p = &q->pack;
    strbuf_addstr(&s, llm_dtype_name(p->type));
    if (p->type == LLM_INT4 && p->bits != 4) strbuf_addf(&s, " with %u bits", p->bits);
    if (p->type == LLM_MXFP4 || p->type == LLM_NVFP4)
        ; /* the format defines the group size */
    else if (p->block_in && p->block_out > 1)
        strbuf_addf(&s, " in %ux%u blocks", p->block_out, p->block_in);
    else if (p->block_in)
        strbuf_addf(&s, " in groups of %u", p->block_in);
    else
        strbuf_addstr(&s, p->block_out == 1 ? " per channel" : " per tensor");
    strbuf_addstr(&s, q->scope == OPROW_QUANT_EXPERTS ? " (experts)"
                      : q->scope & OPROW_QUANT_HEAD   ? " (linear layers of the decoder and the head)"
                                                      : " (linear layers of the decoder)");
    return strbuf_detach(&s);
}

/* ---- Modules that are not quantised */

/* Name of the operator's module in Hugging Face models, after "model.layers.N." (lm_head: the whole name);
 * alternatives are written as "a|b". */
static const struct module_path {
    const char *name, *paths;
} module_paths[] = {
    { "q_proj", "self_attn.q_proj" },
    { "q_a_proj", "self_attn.q_a_proj" },
    { "q_b_proj", "self_attn.q_b_proj" },
    { "k_proj", "self_attn.k_proj" },
    { "v_proj", "self_attn.v_proj" },
    { "kv_a_proj", "self_attn.kv_a_proj_with_mqa" },
    { "kv_b_proj", "self_attn.kv_b_proj" },
    { "o_proj", "self_attn.o_proj" },
    { "fc1", "mlp.fc1" },
    { "fc2", "mlp.fc2" },
    { "gate_proj", "mlp.gate_proj" },
    { "up_proj", "mlp.up_proj" },
    { "down_proj", "mlp.down_proj" },
    { "experts_gate", "mlp.experts.0.gate_proj|block_sparse_moe.experts.0.w1" },
    { "experts_up", "mlp.experts.0.up_proj|block_sparse_moe.experts.0.w3" },
    { "experts_down", "mlp.experts.0.down_proj|block_sparse_moe.experts.0.w2" },
    { "shared_gate_proj", "mlp.shared_experts.gate_proj|mlp.shared_expert.gate_proj" },
    { "shared_up_proj", "mlp.shared_experts.up_proj|mlp.shared_expert.up_proj" },
    { "shared_down_proj", "mlp.shared_experts.down_proj|mlp.shared_expert.down_proj" },
    { "shared_expert_gate", "mlp.shared_expert_gate" },
    { "lm_head", "lm_head" },
};

/* Maximum number of steps of one match. A pattern that needs more steps does not match, so that malicious
 * input cannot take long. */
#define MATCH_STEPS 20000

/* Returns true if the pattern matches the beginning of `name`, up to a dot or the end. */
static bool glob_here(const char *p, const char *name, int *steps) {
    for (; *p; p++, name++) {
        if (--*steps < 0) return false;
        if (*p == '*') {
            while (p[1] == '*') p++;
            for (;; name++) {
                if (glob_here(p + 1, name, steps)) return true;
                if (!*name || *steps < 0) return false;
            }
        }
        if (*p != *name) return false;
    }
    return *name == '\0' || *name == '.';
}

/* Returns true if the pattern matches whole components anywhere in the name. Examples of patterns:
 * "mlp.gate", "model.layers.*.mlp". */
static bool glob_matches(const char *pattern, const char *name) {
    int steps = MATCH_STEPS;
    for (const char *p = name; *p; p++)
        if ((p == name || p[-1] == '.') && glob_here(pattern, p, &steps)) return true;
    return false;
}

static size_t atom_bytes(const char *p) {
    if (*p == '\\' && p[1]) return 2;
    if (*p != '[') return 1;
    const char *end = strchr(p + 1 + (p[1] == ']'), ']');
    return end ? (size_t)(end - p) + 1 : 1;
}

static bool in_class(const char *p, size_t n, char c) {
    bool inverted = n > 2 && p[1] == '^', found = false;
    for (size_t i = 1 + inverted; i + 1 < n; i++) {
        if (i + 3 < n && p[i + 1] == '-') {
            found = found || (c >= p[i] && c <= p[i + 2]);
            i += 2;
        } else {
            found = found || p[i] == c;
        }
    }
    return found != inverted;
}

static bool atom_matches(const char *p, size_t n, char c) {
    if (c == '\0') return false;
    if (n == 2 && *p == '\\') {
        if (p[1] == 'd') return isdigit((unsigned char)c);
        if (p[1] == 'w') return isalnum((unsigned char)c) || c == '_';
        return p[1] == c;
    }
    if (n > 1) return in_class(p, n, c);
    return *p == '.' || *p == c;
}

/* Supports the subset of regular expressions that ignore lists use: no groups, alternatives or counts.
 * Matches at the start of the name, like Python's re.match. */
static bool regex_here(const char *p, const char *name, int *steps) {
    for (;;) {
        if (--*steps < 0) return false;
        if (!*p) return true;
        if (*p == '$' && !p[1]) return !*name;
        if (*p == '^') {
            p++;
            continue;
        }
        size_t n = atom_bytes(p);
        char count = p[n];
        if (count != '*' && count != '+' && count != '?') {
            if (!atom_matches(p, n, *name)) return false;
            p += n;
            name++;
            continue;
        }
        const char *rest = p + n + 1 + (p[n + 1] == '?');
        if (count == '+') {
            if (!atom_matches(p, n, *name)) return false;
            name++;
        }
        for (int k = 0;; k++) {
            if (regex_here(rest, name, steps)) return true;
            if ((count == '?' && k == 1) || !atom_matches(p, n, *name) || *steps < 0) return false;
            name++;
        }
    }
}

static bool pattern_matches(const char *pattern, const char *name) {
    int steps = MATCH_STEPS;
    return strncmp(pattern, "re:", 3) == 0 ? regex_here(pattern + 3, name, &steps)
                                           : glob_matches(pattern, name);
}

/* Removes the prefix before "layers.", which differs in multi-part models. Patterns for image and audio
 * towers are not changed, because towers have their own layers. */
static const char *without_prefix(const char *pattern) {
    const char *layers = strstr(pattern, "layers.");
    if (strncmp(pattern, "re:", 3) == 0 || !layers) return pattern;
    for (const char *p = pattern; p < layers; p++)
        if (strncmp(p, "vis", 3) == 0 || strncmp(p, "audio", 5) == 0) return pattern;
    return layers;
}

static bool op_matches(const struct module_path *path, const char *pattern, uint32_t layer) {
    for (const char *p = path->paths; *p;) {
        char name[160];
        size_t n = strcspn(p, "|");
        if (strcmp(path->name, "lm_head") == 0)
            snprintf(name, sizeof name, "%.*s", (int)n, p);
        else
            snprintf(name, sizeof name, "model.layers.%" PRIu32 ".%.*s", layer, (int)n, p);
        if (pattern_matches(pattern, name)) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static bool layer_has(const struct llm_model *m, const struct llm_op *op, uint32_t layer) {
    if (strcmp(op->module, "mlp") == 0) return !m->text.layer[layer].moe;
    if (strcmp(op->module, "experts") == 0 || strcmp(op->module, "shared_experts") == 0)
        return m->text.layer[layer].moe;
    return true;
}

/* Marks the layers of one operator that a pattern excludes. If the pattern has no digits, the result is
 * the same for all layers. */
static void mark_layers(const struct llm_model *m, const struct module_path *path, const char *pattern,
                        bool *skip) {
    const char *number = strstr(pattern, "layers.");
    bool plain = !strpbrk(pattern, "*") && strncmp(pattern, "re:", 3) != 0;
    uint32_t from = 0, to = m->text.layers;
    pattern = without_prefix(pattern);
    if (plain && number && isdigit((unsigned char)number[7])) {
        unsigned long layer = strtoul(number + 7, NULL, 10);
        if (layer >= m->text.layers) return;
        from = (uint32_t)layer;
        to = from + 1;
    } else if (!strpbrk(pattern, "0123456789")) {
        if (op_matches(path, pattern, 0))
            for (uint32_t i = 0; i < m->text.layers; i++) skip[i] = true;
        return;
    }
    for (uint32_t i = from; i < to; i++) skip[i] = skip[i] || op_matches(path, pattern, i);
}

static void split_op(struct llm_model *m, size_t i, uint64_t excluded) {
    struct llm_op *op = &m->ops[i];
    if (excluded >= op->count) {
        op->weight = LLM_DTYPE_UNKNOWN;
        return;
    }
    size_t cap = m->nops;
    m->ops = vec_fit(m->ops, m->nops + 1, &cap, sizeof *m->ops);
    memmove(&m->ops[i + 1], &m->ops[i], (m->nops - i) * sizeof *m->ops);
    m->nops++;
    m->ops[i].count -= excluded;
    m->ops[i + 1].count = excluded;
    m->ops[i + 1].weight = LLM_DTYPE_UNKNOWN;
}

static void exclude_op(struct llm_model *m, size_t i, const struct module_path *path, const json_t *ignore) {
    bool *skip = xcalloc(MAX(1, m->text.layers), sizeof *skip);
    uint64_t excluded = 0;
    size_t k;
    json_t *v;
    json_array_foreach((json_t *)ignore, k, v) {
        if (json_is_string(v)) mark_layers(m, path, json_string_value(v), skip);
    }
    bool head = strcmp(path->name, "lm_head") == 0;
    for (uint32_t layer = 0; layer < m->text.layers; layer++)
        excluded += skip[layer] && (!head || layer == 0) && layer_has(m, &m->ops[i], layer);
    free(skip);
    if (excluded) split_op(m, i, excluded);
}

void quant_exclude(struct llm_model *m, const struct llm_quant *q, struct llm_notes *notes) {
    size_t k;
    json_t *v;
    if (!q->pack.type || !q->ignore) return;
    json_array_foreach((json_t *)q->ignore, k, v) {
        const char *s = json_string_value(v);
        if (s && strncmp(s, "re:", 3) == 0 && strpbrk(s, "(){}|"))
            notes_add(notes, "the pattern '%.80s' of modules without quantisation is not supported", s);
    }
    for (size_t i = 0; i < m->nops; i++)
        for (size_t p = 0; p < COUNTOF(module_paths) && m->ops[i].weight; p++)
            if (strcmp(module_paths[p].name, m->ops[i].name) == 0)
                exclude_op(m, i, &module_paths[p], q->ignore);
}

/* ---- From tensors */

static const struct safetensors_tensor *sibling(const struct safetensors *st, const char *name,
                                                const char *ending, const char *other) {
    char *text = xasprintf("%.*s%s", (int)(strlen(name) - strlen(ending)), name, other);
    const struct safetensors_tensor *t = safetensors_find(st, text);
    free(text);
    return t;
}

static uint32_t ratio_of(uint64_t size, uint64_t parts) {
    uint64_t each = parts ? (size + parts - 1) / parts : 0;
    return each > 1 && each <= UINT32_MAX ? (uint32_t)each : 1;
}

/* Finds the layout of grouped weights. With 4 bits per weight, qweight is [in / 8, out] in GPTQ, which
 * also has a g_idx, and [in, out / 8] in AWQ. */
static bool pack_of_groups(const struct safetensors *st, const struct safetensors_tensor *t,
                           struct llm_pack *p) {
    const struct safetensors_tensor *scales = sibling(st, t->name, ".qweight", ".scales"),
                                    *index = sibling(st, t->name, ".qweight", ".g_idx");
    if (!scales || scales->ndims != 2 || t->ndims != 2 || !scales->shape[0] || !t->shape[0]) return false;
    uint64_t out = scales->shape[1], in = index ? index->numbers : t->shape[0];
    uint64_t bits = in && out ? t->bytes * 8 / in / out : 0;
    if (bits < 2 || bits > 8) return false;
    *p = (struct llm_pack){ .type = bits > 4 ? LLM_INT8 : LLM_INT4,
                            .bits = (uint32_t)bits,
                            .block_in = ratio_of(in, scales->shape[0]),
                            .block_out = 1,
                            .scale_bits = llm_dtype_bytes(scales->dtype) * 8,
                            .zero_bits = sibling(st, t->name, ".qweight", ".qzeros") ? (double)bits : 0,
                            .column_bits = index ? 32 : 0 };
    return true;
}

/* Finds the layout of 8-bit weights with weight_scale_inv (per block) or weight_scale (per channel or
 * tensor). */
static void pack_of_bytes(const struct safetensors *st, const struct safetensors_tensor *t,
                          struct llm_pack *p) {
    const struct safetensors_tensor *scale = sibling(st, t->name, ".weight", ".weight_scale_inv");
    if (!scale) scale = sibling(st, t->name, ".weight", ".weight_scale");
    *p = (struct llm_pack){ .type = t->dtype, .bits = 8, .activations = true };
    if (!scale) return;
    p->scale_bits = llm_dtype_bytes(scale->dtype) * 8;
    if (scale->numbers <= 1 || scale->ndims < 1) return;
    p->block_out = ratio_of(t->shape[0], scale->shape[0]);
    if (scale->ndims == 2 && scale->shape[1] > 1) p->block_in = ratio_of(t->shape[1], scale->shape[1]);
}

static bool pack_of_tensor(const struct safetensors *st, const struct safetensors_tensor *t,
                           struct llm_pack *p) {
    if (words_end_with(t->name, strlen(t->name), ".qweight") && t->dtype == LLM_I32)
        return pack_of_groups(st, t, p);
    if (words_end_with(t->name, strlen(t->name), "_blocks") && t->dtype == LLM_U8 &&
        sibling(st, t->name, "_blocks", "_scales")) {
        *p = pack_mxfp4;
        return true;
    }
    if (!words_end_with(t->name, strlen(t->name), ".weight") || t->ndims != 2) return false;
    if (t->dtype == LLM_U8 && sibling(st, t->name, ".weight", ".weight_scale_2")) {
        *p = pack_nvfp4;
        return true;
    }
    if (t->dtype != LLM_FP8 && t->dtype != LLM_INT8) return false;
    pack_of_bytes(st, t, p);
    return true;
}

bool quant_from_tensors(const struct safetensors *st, struct llm_quant *q) {
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensors_tensor *t = safetensors_at(st, i);
        if (!pack_of_tensor(st, t, &q->pack)) continue;
        q->scope = q->pack.type == LLM_MXFP4 ? OPROW_QUANT_EXPERTS : OPROW_QUANT_LINEAR;
        return true;
    }
    return false;
}
