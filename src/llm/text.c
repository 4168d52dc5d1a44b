/* Reads the decoder's section of the config into struct llm_text. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "llm/parts.h"

#define SIZE_LIMIT (1u << 22) /* maximum width */
#define COUNT_LIMIT (1u << 28)

static void read_sizes(struct llm_text *t, const struct text_family *fam, struct llm_fields *f, bool own) {
    t->hidden =
        fields_uint(f, "hidden_size|n_embd|d_model|dim", own ? FIELDS_REQUIRED : fam->hidden, SIZE_LIMIT);
    t->layers = (uint32_t)fields_uint(f, "num_hidden_layers|n_layer|num_layers|n_layers",
                                      own ? FIELDS_REQUIRED : fam->layers, LLM_LAYERS_MAX);
    t->heads = fields_uint(f, "num_attention_heads|n_head|num_heads|n_heads",
                           own ? FIELDS_REQUIRED : fam->heads, 1 << 16);
    t->vocab =
        fields_uint(f, "vocab_size|padded_vocab_size", own ? FIELDS_REQUIRED : fam->vocab, COUNT_LIMIT);
    t->max_positions =
        fields_uint(f, "max_position_embeddings|n_positions|max_seq_len|seq_length|context_window_size|n_ctx",
                    fam->positions, COUNT_LIMIT);
    if (fam->intermediate)
        t->intermediate = fields_uint(f, "intermediate_size|ffn_dim|n_inner|ffn_hidden_size",
                                      own ? FIELDS_REQUIRED : fam->intermediate, SIZE_LIMIT);
    else if (!(t->intermediate = fields_uint_if_set(f, "n_inner|intermediate_size", SIZE_LIMIT)))
        t->intermediate = 4 * t->hidden;
}

static void read_heads(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    t->kv_heads = fields_uint_if_set(f, "num_key_value_heads|multi_query_group_num|n_kv_heads", 1 << 16);
    if (!t->kv_heads && !fields_find(f, "num_key_value_heads", NULL) && fam->kv_heads &&
        t->heads % fam->kv_heads == 0) {
        t->kv_heads = fam->kv_heads;
        notes_add(f->notes, "%snum_key_value_heads is not in the config: %u, the default of %s", f->prefix,
                  (unsigned)fam->kv_heads, fam->name);
    }
    if (!t->kv_heads) t->kv_heads = t->heads;
    t->head_dim = fields_uint_if_set(f, "head_dim|attention_head_dim|kv_channels", 1 << 16);
    if (!t->head_dim && fam->head_dim && !fields_find(f, "head_dim", NULL)) {
        t->head_dim = fam->head_dim;
        notes_add(f->notes, "%shead_dim is not in the config: %u, the default of %s", f->prefix,
                  (unsigned)fam->head_dim, fam->name);
    }
    if (!f->failed && t->heads % t->kv_heads)
        fields_fail(f, "%snum_attention_heads is %u, which %snum_key_value_heads %u does not divide",
                    f->prefix, (unsigned)t->heads, f->prefix, (unsigned)t->kv_heads);
    if (!f->failed && !t->head_dim && t->hidden % t->heads)
        fields_fail(f, "%shidden_size is %u, which %snum_attention_heads %u does not divide", f->prefix,
                    (unsigned)t->hidden, f->prefix, (unsigned)t->heads);
    if (!t->head_dim) t->head_dim = MAX(1, t->hidden / t->heads);
    t->v_head_dim = t->head_dim;
}

/* Reads the fields of MLA. Both use_mla: false (DeepSeek-OCR) and a null kv_lora_rank mean plain heads;
 * the other MLA fields are then ignored. */
static void read_mla(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    if (!(fam->traits & TEXT_MLA) || !fields_bool(f, "use_mla", true)) return;
    t->kv_lora_rank = fields_uint_or_none(f, "kv_lora_rank", fam->kv_lora, SIZE_LIMIT);
    if (!t->kv_lora_rank) return;
    t->q_lora_rank = fields_uint_or_none(f, "q_lora_rank", fam->q_lora, SIZE_LIMIT);
    t->qk_nope_dim = fields_uint(f, "qk_nope_head_dim", fam->nope, 1 << 16);
    t->qk_rope_dim = fields_uint(f, "qk_rope_head_dim", fam->rope, 1 << 16);
    t->v_head_dim = fields_uint(f, "v_head_dim", fam->v_dim, 1 << 16);
    t->head_dim = t->qk_nope_dim + t->qk_rope_dim;
    t->kv_heads = t->heads;
}

static void read_biases(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    bool attention = fields_bool(f, "attention_bias", (fam->traits & TEXT_BIAS_DEFAULT) != 0);
    if (fam->traits & TEXT_NO_ATTENTION_BIAS) attention = false;
    t->qkv_bias = attention;
    t->o_bias = attention;
    if (fam->traits & TEXT_QKV_BIAS) {
        t->qkv_bias = fields_bool(f, "qkv_bias", true);
        t->o_bias = (fam->traits & TEXT_ALL_BIAS) != 0;
    } else if ((fam->traits & TEXT_ALL_BIAS) && !(fam->traits & TEXT_BIAS_DEFAULT)) {
        t->qkv_bias = t->o_bias = true;
    }
    t->mlp_bias = (fam->traits & TEXT_ALL_BIAS) || fields_bool(f, "mlp_bias", false);
}

static void read_tied(struct llm_text *t, const struct text_family *fam, struct llm_fields *f, bool tied) {
    bool fallback = tied || (fam->traits & TEXT_TIED);
    t->tied_head = fields_bool(f, "tie_word_embeddings", fallback);
    if (!fields_has(f, "tie_word_embeddings") && !(fam->traits & TEXT_CLIP))
        notes_add(f->notes, "%stie_word_embeddings is not in the config: %s, the default of %s", f->prefix,
                  fallback ? "true" : "false", fam->name);
}

/* ---- Experts */
static bool in_list(const json_t *list, uint32_t layer) {
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)list, i,
                       v) if (json_is_integer(v) && json_integer_value(v) == layer) return true;
    return false;
}

static bool layer_has_experts(const struct llm_text *t, const struct text_family *fam, struct llm_fields *f,
                              uint32_t i, uint64_t first, uint64_t every) {
    if (fam->traits & TEXT_MOE_EVERYWHERE) return true;
    if (in_list(fields_list(f, "mlp_only_layers"), i)) return false;
    const json_t *freq = fields_find(f, "moe_layer_freq", NULL);
    if (json_is_array(freq)) return json_number_value(json_array_get(freq, i)) > 0;
    if (fields_has(f, "decoder_sparse_step")) return (i + 1) % every == 0;
    return t->experts > 0 && i >= first && i % every == 0;
}

static void read_experts(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    bool could = fam->experts || fam->topk;
    if (!could) return;
    t->experts =
        fields_uint_or_none(f, "num_experts|num_local_experts|n_routed_experts", fam->experts, 1 << 16);
    if (!t->experts || f->failed) return;
    t->experts_per_token = fields_uint(
        f, "num_experts_per_tok|experts_per_token|moe_topk|num_experts_per_token", fam->topk, 1 << 16);
    t->expert_intermediate =
        fam->traits & TEXT_MOE_EVERYWHERE
            ? t->intermediate
            : fields_uint(f, "moe_intermediate_size", fam->expert_intermediate, SIZE_LIMIT);
    if (fam->traits & TEXT_SHARED_GATE)
        t->shared_intermediate =
            fields_uint_or_none(f, "shared_expert_intermediate_size", fam->shared, SIZE_LIMIT);
    else
        t->shared_intermediate =
            fields_uint_or_none(f, "n_shared_experts", fam->shared, 1 << 12) * t->expert_intermediate;
    if (!f->failed && t->experts_per_token > t->experts)
        fields_fail(f, "%snum_experts_per_tok is %u, but there are only %u experts", f->prefix,
                    (unsigned)t->experts_per_token, (unsigned)t->experts);
    t->norm_topk = fields_bool(f, "norm_topk_prob", (fam->traits & TEXT_NORM_TOPK) != 0);
    t->sigmoid_scores =
        strcmp(fields_str(f, "scoring_func", fam->traits & TEXT_SIGMOID ? "sigmoid" : "softmax"),
               "sigmoid") == 0;
    t->routed_scaling = fields_number(f, "routed_scaling_factor", 1.0);
    t->expert_groups = fields_uint_or_none(f, "n_group", 0, 1 << 12);
    t->groups_per_token = fields_uint_or_none(f, "topk_group", 0, 1 << 12);
}

static void place_experts(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    if (!t->experts || f->failed) return;
    uint64_t first = fields_uint_or_none(f, "first_k_dense_replace", fam->first_dense, LLM_LAYERS_MAX);
    const json_t *freq = fields_find(f, "moe_layer_freq", NULL);
    uint64_t every = fields_has(f, "decoder_sparse_step")
                         ? fields_uint(f, "decoder_sparse_step", 1, LLM_LAYERS_MAX)
                     : json_is_array(freq) || !fields_has(f, "moe_layer_freq")
                         ? 1
                         : fields_uint(f, "moe_layer_freq", 1, LLM_LAYERS_MAX);
    if (json_is_array(freq) && json_array_size(freq) < t->layers)
        fields_fail(f, "%smoe_layer_freq lists %zu layers; there are %u", f->prefix, json_array_size(freq),
                    t->layers);
    for (uint32_t i = 0; i < t->layers && !f->failed; i++) {
        t->layer[i].moe = layer_has_experts(t, fam, f, i, first, every);
        t->moe_layers += t->layer[i].moe;
    }
}

/* ---- Sliding windows */
static bool is_sliding(const char *type) { return strstr(type, "sliding") != NULL; }

/* Checks layer_types, a list with one text per layer. Types other than full and sliding count as full
 * attention, with a note. */
static void check_types(const struct llm_text *t, const json_t *types, struct llm_fields *f) {
    if (json_array_size(types) < t->layers)
        fields_fail(f, "%slayer_types lists %zu layers; there are %u", f->prefix, json_array_size(types),
                    t->layers);
    const char *odd = NULL;
    for (uint32_t i = 0; i < t->layers && !f->failed; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type)
            fields_fail(f, "%slayer_types[%u] is not a text", f->prefix, i);
        else if (!is_sliding(type) && strcmp(type, "full_attention") != 0)
            odd = odd ? odd : type;
    }
    if (odd && !f->failed)
        notes_add(f->notes,
                  "%slayer_types contains '%.40s', which is not modelled: counted as full attention",
                  f->prefix, odd);
}

static bool layer_slides(const struct text_family *fam, const json_t *types, uint32_t i, uint64_t late,
                         uint64_t pattern) {
    if (types) return is_sliding(json_string_value(json_array_get(types, i)));
    switch (fam->windows) {
    case WINDOW_ALL: return true;
    case WINDOW_LATE: return i >= late;
    case WINDOW_EVEN: return i % 2 == 0;
    case WINDOW_PATTERN: return (i + 1) % pattern != 0;
    }
    return false;
}

static void place_windows(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    if (!fields_bool(f, "use_sliding_window", fam->windows != WINDOW_LATE)) return;
    uint64_t window = fields_uint_or_none(f, "sliding_window|sliding_window_size", fam->window, COUNT_LIMIT);
    uint64_t late =
        fam->windows == WINDOW_LATE ? fields_uint_or_none(f, "max_window_layers", 28, LLM_LAYERS_MAX) : 0;
    uint64_t pattern =
        fam->windows == WINDOW_PATTERN && !fields_has(f, "layer_types")
            ? fields_uint(f, "sliding_window_pattern|_sliding_window_pattern", 6, LLM_LAYERS_MAX)
            : 6;
    const json_t *types = fields_list(f, "layer_types");
    if (types) check_types(t, types, f);
    if (!window || f->failed) return;
    for (uint32_t i = 0; i < t->layers; i++)
        if (layer_slides(fam, types, i, late, pattern)) t->layer[i].window = (uint32_t)window;
}

/* ---- Rotary positions */
static enum llm_rope_kind rope_kind(const char *name) {
    static const struct {
        const char *name;
        enum llm_rope_kind kind;
    } rows[] = {
        { "default", LLM_ROPE_PLAIN }, { "linear", LLM_ROPE_LINEAR },      { "dynamic", LLM_ROPE_DYNAMIC },
        { "llama3", LLM_ROPE_LLAMA3 }, { "yarn", LLM_ROPE_YARN },          { "longrope", LLM_ROPE_LONGROPE },
        { "su", LLM_ROPE_LONGROPE },   { "deepseek_yarn", LLM_ROPE_YARN }, { "mrope", LLM_ROPE_MROPE },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strcasecmp(rows[i].name, name) == 0) return rows[i].kind;
    return LLM_ROPE_OTHER;
}

/* Reads the divisors of the frequencies, one per pair. Ignores lists of another length or with values that
 * are not positive; the engine then refuses the model. */
static void read_rope_factors(struct llm_rope *r, struct llm_fields *f) {
    const json_t *shorts = fields_list(f, "short_factor"), *longs = fields_list(f, "long_factor");
    size_t n = r->dims / 2;
    if (!shorts || json_array_size(shorts) != n || json_array_size(longs) != n || n > LLM_ROPE_PAIRS) return;
    for (size_t i = 0; i < n; i++) {
        r->short_factor[i] = (float)json_number_value(json_array_get(shorts, i));
        r->long_factor[i] = (float)json_number_value(json_array_get(longs, i));
        if (!(r->short_factor[i] > 0) || !(r->long_factor[i] > 0)) return;
    }
    r->factors = (uint32_t)n;
}

/* Reads the sections of mrope. Newer files have the type "default" with sections. */
static void read_rope_sections(struct llm_rope *r, struct llm_fields *f) {
    const json_t *list = fields_list(f, "mrope_section");
    json_int_t sum = 0;
    if (json_array_size(list) != 3) return;
    for (size_t i = 0; i < 3; i++) {
        json_int_t n = json_integer_value(json_array_get(list, i));
        if (n < 0 || n > LLM_ROPE_PAIRS) return;
        sum += n;
    }
    if (sum * 2 != (json_int_t)r->dims) return;
    for (size_t i = 0; i < 3; i++) r->sections[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    if (r->kind == LLM_ROPE_PLAIN) r->kind = LLM_ROPE_MROPE;
}

/* Reads rope_scaling (older files) or rope_parameters (newer files). rope_parameters also contains the
 * base; in gemma3, it has one section per layer type. */
static void read_rope(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    struct llm_rope *r = &t->rope;
    const json_t *scaling = fields_section(f, "rope_parameters|rope_scaling");
    const json_t *full = json_object_get(scaling, "full_attention");
    struct llm_fields in = *f;
    in.section = json_is_object(full) ? full : json_is_object(scaling) ? scaling : f->section;
    in.top = f->section;
    r->theta = fields_positive(&in, "rope_theta|rotary_emb_base", fam->theta);
    struct llm_fields local = *f;
    const json_t *sliding = json_object_get(scaling, "sliding_attention");
    if (json_is_object(sliding)) local.section = sliding;
    r->local_theta = fields_positive(&local, json_is_object(sliding) ? "rope_theta" : "rope_local_base_freq",
                                     fam->windows == WINDOW_PATTERN ? 10000 : r->theta);
    double part = fields_positive(&in, "partial_rotary_factor|rotary_pct", fam->rotary);
    if (part > 1 && !in.failed)
        fields_fail(&in, "%spartial_rotary_factor is %g; expected 1 or less", f->prefix, part);
    in.top = NULL;
    bool scaled = in.section != f->section;
    if (scaled) in.prefix = fields_has(f, "rope_parameters") ? "rope_parameters." : "rope_scaling.";
    r->kind = fam->theta == 0 ? LLM_ROPE_NONE : LLM_ROPE_PLAIN;
    if (scaled) r->kind = rope_kind(fields_str(&in, "rope_type|type", "default"));
    if (r->kind == LLM_ROPE_OTHER)
        notes_add(f->notes, "%srope_scaling has the unknown type '%.40s'", f->prefix,
                  fields_str(&in, "rope_type|type", ""));
    r->factor = scaled ? fields_positive(&in, "factor", NAN) : NAN;
    r->low_freq_factor = scaled ? fields_number(&in, "low_freq_factor", NAN) : NAN;
    r->high_freq_factor = scaled ? fields_number(&in, "high_freq_factor", NAN) : NAN;
    r->beta_fast = scaled ? fields_number(&in, "beta_fast", NAN) : NAN;
    r->beta_slow = scaled ? fields_number(&in, "beta_slow", NAN) : NAN;
    r->mscale = scaled ? fields_number(&in, "mscale", NAN) : NAN;
    r->mscale_all_dim = scaled ? fields_number(&in, "mscale_all_dim", NAN) : NAN;
    r->attention_factor = scaled ? fields_number(&in, "attention_factor", NAN) : NAN;
    r->whole_dimensions = !scaled || fields_bool(&in, "truncate", true);
    /* phi3 has original_max_position_embeddings next to rope_scaling, not in it */
    if (r->kind == LLM_ROPE_LONGROPE) in.top = f->section;
    r->original_max_positions =
        scaled ? fields_uint_if_set(&in, "original_max_position_embeddings", COUNT_LIMIT) : 0;
    in.top = NULL;
    r->max_positions = t->max_positions;
    r->local_plain = fam->windows == WINDOW_PATTERN;
    double dims = t->kv_lora_rank ? (double)t->qk_rope_dim : (double)t->head_dim * part;
    r->dims = r->kind == LLM_ROPE_NONE || !(dims > 0) ? 0 : (uint32_t)MIN(dims, (double)t->head_dim);
    if (r->kind == LLM_ROPE_LONGROPE) read_rope_factors(r, &in);
    if (scaled) read_rope_sections(r, &in);
    f->failed = f->failed || in.failed || local.failed;
}

/* Returns a static text, because the text in the config is freed with the config. */
const char *activation_named(const char *name) {
    static const char *const names[] = { "silu",       "swish", "gelu", "gelu_new", "gelu_pytorch_tanh",
                                         "quick_gelu", "relu" };
    for (size_t i = 0; name && i < COUNTOF(names); i++)
        if (strcmp(name, names[i]) == 0) return strcmp(name, "swish") == 0 ? "silu" : names[i];
    return name ? "other" : NULL;
}

/* Reads a soft cap. Returns NAN if the field is null, and `fallback` if it is missing. */
static double read_cap(struct llm_fields *f, const char *name, double fallback) {
    if (fields_has(f, name)) return fields_positive(f, name, NAN);
    return fields_find(f, name, NULL) ? NAN : fallback;
}

/* Reads the features that only the engine needs; they do not change the cost. gemma2 has soft caps by
 * default, gemma3 does not. */
static void read_arithmetic(struct llm_text *t, const struct text_family *fam, struct llm_fields *f) {
    uint32_t traits = fam->traits;
    bool scaled_scores = (traits & TEXT_GEMMA) && (traits & TEXT_SANDWICH), capped = !(traits & TEXT_QK_NORM);
    t->expert_bias = traits & TEXT_EXPERT_BIAS;
    t->shared_gate = traits & TEXT_SHARED_GATE;
    t->correction_bias = traits & TEXT_CORRECTION_BIAS;
    t->fused_projections = traits & TEXT_FUSED;
    t->sinks = traits & TEXT_SINKS;
    t->clamped_glu = traits & TEXT_CLAMPED_GLU;
    t->scaled_embedding = t->norm_plus_one = traits & TEXT_GEMMA;
    t->glu_limit = t->clamped_glu ? fields_positive(f, "swiglu_limit", 7.0) : NAN;
    t->score_dim = scaled_scores ? fields_positive(f, "query_pre_attn_scalar", 256) : NAN;
    t->attention_softcap = scaled_scores ? read_cap(f, "attn_logit_softcapping", capped ? 50 : NAN) : NAN;
    t->logit_softcap = scaled_scores ? read_cap(f, "final_logit_softcapping", capped ? 30 : NAN) : NAN;
}

int text_read(struct llm_text *t, const struct text_family *fam, struct llm_fields *f, bool own, bool tied) {
    t->family = fam->name;
    read_sizes(t, fam, f, own);
    if (f->failed) return -1;
    read_heads(t, fam, f);
    read_mla(t, fam, f);
    read_biases(t, fam, f);
    read_tied(t, fam, f, tied);
    read_experts(t, fam, f);
    place_experts(t, fam, f);
    place_windows(t, fam, f);
    read_rope(t, fam, f);
    t->norm_eps = fields_positive(f, "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_eps", fam->eps);
    t->activation =
        activation_named(fields_str(f, "hidden_act|hidden_activation|activation_function", fam->activation));
    read_arithmetic(t, fam, f);
    t->bos_id = fields_id(f, "bos_token_id");
    t->neos = fields_ids(f, "eos_token_id", t->eos_ids, LLM_EOS_MAX);
    t->layer_norm = fam->traits & TEXT_LAYER_NORM;
    t->gated_mlp = !(fam->traits & TEXT_PLAIN_MLP);
    t->qk_norm = fam->traits & TEXT_QK_NORM;
    t->sandwich_norms = fam->traits & TEXT_SANDWICH;
    t->learned_positions = fam->traits & TEXT_POSITIONS;
    t->parallel_residual = (fam->traits & TEXT_PARALLEL) && fields_bool(f, "use_parallel_residual", true);
    return f->failed ? -1 : 0;
}
