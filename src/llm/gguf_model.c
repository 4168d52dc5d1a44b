#include "llm/gguf_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "llm/parts.h"

/* ---- Metadata to config fields */

struct source {
    const struct gguf *g;
    char arch[64];
    json_t *config;
};

/* Reads the value of "<arch>.<key>", or the largest value if the file has one per layer. */
static bool arch_u64(const struct source *s, const char *key, uint64_t *out) {
    char name[160];
    uint64_t v, most = 0;
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    if (gguf_u64(s->g, name, out)) return true;
    const struct gguf_value *list = gguf_value(s->g, name);
    for (uint64_t i = 0; list && i < MIN(list->count, LLM_LAYERS_MAX); i++)
        if (gguf_array_u64(list, i, &v)) most = MAX(most, v);
    *out = most;
    return most > 0;
}

static bool arch_f64(const struct source *s, const char *key, double *out) {
    char name[160];
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    return gguf_f64(s->g, name, out) && isfinite(*out);
}

static void put_u64(struct source *s, const char *field, uint64_t v) {
    if (v <= INT64_MAX) json_object_set_new(s->config, field, json_integer((json_int_t)v));
}

static void put_bool(struct source *s, const char *field, bool v) {
    json_object_set_new(s->config, field, json_boolean(v));
}

static bool copy_u64(struct source *s, const char *key, const char *field) {
    uint64_t v;
    if (!arch_u64(s, key, &v)) return false;
    put_u64(s, field, v);
    return true;
}

static void copy_f64(struct source *s, const char *key, const char *field) {
    double v;
    if (arch_f64(s, key, &v)) json_object_set_new(s->config, field, json_real(v));
}

static void copy_bool(struct source *s, const char *key, const char *field) {
    char name[160];
    bool v;
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    if (gguf_bool(s->g, name, &v)) put_bool(s, field, v);
}

/* Returns dimension `dim` of the tensor in the first layer that has it, because some models have no
 * experts in their first layers. 0: no layer has the tensor. */
static uint64_t tensor_dim(const struct gguf *g, const char *base, int dim) {
    size_t n = strlen(base);
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        const char *at = strstr(t->name, base);
        if (at && (at == t->name || at[-1] == '.') && strcmp(at + n, ".weight") == 0) return t->dims[dim];
    }
    return 0;
}

static bool has_tensor(const struct gguf *g, const char *base, const char *ending) {
    size_t n = strlen(base);
    for (size_t i = 0; i < gguf_count(g); i++) {
        const char *name = gguf_at(g, i)->name, *at = strstr(name, base);
        if (at && (at == name || at[-1] == '.') && strcmp(at + n, ending) == 0) return true;
    }
    return false;
}

/* Architectures of GGUF files, and the config.json families that describe them. */
static const struct arch_row {
    const char *arch, *family, *with_experts;
} archs[] = {
    { "llama", "llama", "mixtral" },      { "qwen2", "qwen2", NULL },
    { "qwen2moe", "qwen2_moe", NULL },    { "qwen3", "qwen3", NULL },
    { "qwen3moe", "qwen3_moe", NULL },    { "deepseek", "deepseek", NULL },
    { "deepseek2", "deepseek_v2", NULL }, { "deepseek2-ocr", "deepseek_v2", NULL },
    { "gemma", "gemma", NULL },           { "gemma2", "gemma2", NULL },
    { "gemma3", "gemma3_text", NULL },    { "phi3", "phi3", NULL },
    { "gpt-oss", "gpt_oss", NULL },       { "gpt2", "gpt2", NULL },
    { "gptneox", "gpt_neox", NULL },      { "internlm2", "internlm2", NULL },
};

static int choose_family(struct source *s, const char *what, struct err *err) {
    struct strbuf known = STRBUF_INIT;
    uint64_t experts = 0;
    arch_u64(s, "expert_count", &experts);
    for (size_t i = 0; i < COUNTOF(archs); i++) {
        strbuf_addf(&known, "%s%s", i ? ", " : "", archs[i].arch);
        if (strcmp(archs[i].arch, s->arch) != 0) continue;
        const char *family = experts && archs[i].with_experts ? archs[i].with_experts : archs[i].family;
        if (strcmp(s->arch, "deepseek2") == 0 && has_tensor(s->g, "exp_probs_b", ".bias"))
            family = "deepseek_v3";
        json_object_set_new(s->config, "model_type", json_string(family));
        strbuf_free(&known);
        return 0;
    }
    err_set(err, "%s: unknown architecture '%s'; known: %s", what, s->arch, known.buf);
    strbuf_free(&known);
    return -1;
}

static void put_experts(struct source *s) {
    uint64_t experts;
    if (!arch_u64(s, "expert_count", &experts) || experts == 0) return;
    put_u64(s, "num_experts", experts);
    copy_u64(s, "expert_used_count", "num_experts_per_tok");
    uint64_t width = tensor_dim(s->g, "ffn_gate_exps", 1), shared = tensor_dim(s->g, "ffn_gate_shexp", 1);
    if (width)
        put_u64(s, "moe_intermediate_size", width);
    else
        copy_u64(s, "expert_feed_forward_length", "moe_intermediate_size");
    put_u64(s, "shared_expert_intermediate_size", shared);
    put_u64(s, "n_shared_experts", width ? shared / width : 0);
    uint64_t dense = 0;
    arch_u64(s, "leading_dense_block_count", &dense);
    put_u64(s, "first_k_dense_replace", dense);
    copy_f64(s, "expert_weights_scale", "routed_scaling_factor");
    copy_u64(s, "expert_group_count", "n_group");
    copy_u64(s, "expert_group_used_count", "topk_group");
    copy_bool(s, "expert_weights_norm", "norm_topk_prob");
}

/* Sets the fields of latent attention. In newer files, the head sizes without the latent are in keys with
 * "_mla". */
static void put_latent(struct source *s) {
    uint64_t latent, key, rope, value;
    if (!arch_u64(s, "attention.kv_lora_rank", &latent)) {
        put_bool(s, "use_mla", false);
        return;
    }
    put_u64(s, "kv_lora_rank", latent);
    if (!copy_u64(s, "attention.q_lora_rank", "q_lora_rank"))
        json_object_set_new(s->config, "q_lora_rank", json_null());
    if (!arch_u64(s, "attention.key_length_mla", &key) && !arch_u64(s, "attention.key_length", &key)) return;
    if (arch_u64(s, "rope.dimension_count", &rope) && rope < key) {
        put_u64(s, "qk_rope_head_dim", rope);
        put_u64(s, "qk_nope_head_dim", key - rope);
    }
    if (arch_u64(s, "attention.value_length_mla", &value) || arch_u64(s, "attention.value_length", &value))
        put_u64(s, "v_head_dim", value);
}

/* Reads a list of floats from a tensor, for example the divisors of longrope. */
static json_t *tensor_list(const struct gguf *g, const char *name) {
    const struct gguf_tensor *t = gguf_find(g, name);
    const char *data = t && t->type == GGML_F32 && t->numbers <= LLM_ROPE_PAIRS ? gguf_data(g, t) : NULL;
    json_t *out = json_array();
    for (uint64_t i = 0; data && i < t->numbers; i++) {
        float v;
        memcpy(&v, data + i * sizeof v, sizeof v);
        json_array_append_new(out, json_real(isfinite(v) ? (double)v : 0));
    }
    return out;
}

/* Files of phi3 contain the divisors of the frequencies as tensors. */
static void put_longrope(struct source *s, json_t *scaling) {
    double factor;
    json_object_set_new(scaling, "rope_type", json_string("longrope"));
    json_object_set_new(scaling, "short_factor", tensor_list(s->g, "rope_factors_short.weight"));
    json_object_set_new(scaling, "long_factor", tensor_list(s->g, "rope_factors_long.weight"));
    if (arch_f64(s, "rope.scaling.attn_factor", &factor) && factor > 0)
        json_object_set_new(scaling, "attention_factor", json_real(factor));
}

static void put_rope(struct source *s) {
    char name[160];
    struct bytes kind;
    bool longrope = gguf_find(s->g, "rope_factors_long.weight") != NULL;
    copy_f64(s, "rope.freq_base", "rope_theta");
    snprintf(name, sizeof name, "%s.rope.scaling.type", s->arch);
    bool named = gguf_str(s->g, name, &kind);
    if (!named && !longrope) return;
    json_t *scaling = json_object();
    double factor;
    uint64_t positions;
    if (named)
        json_object_set_new(scaling, "rope_type", json_stringn((const char *)kind.p, bytes_left(&kind)));
    if (longrope) put_longrope(s, scaling);
    /* the file contains a tenth of mscale */
    if (arch_f64(s, "rope.scaling.yarn_log_multiplier", &factor) && factor > 0) {
        json_object_set_new(scaling, "mscale", json_real(10 * factor));
        json_object_set_new(scaling, "mscale_all_dim", json_real(10 * factor));
    }
    if (strcmp(s->arch, "gpt-oss") == 0) json_object_set_new(scaling, "truncate", json_false());
    if (arch_f64(s, "rope.scaling.factor", &factor) && factor > 0)
        json_object_set_new(scaling, "factor", json_real(factor));
    if (arch_u64(s, "rope.scaling.original_context_length", &positions) && positions <= INT64_MAX)
        json_object_set_new(scaling, "original_max_position_embeddings", json_integer((json_int_t)positions));
    json_object_set_new(s->config, "rope_scaling", scaling);
}

/* Sets the soft caps of gemma and the divisor of its scores. The divisor is the head size, except in the
 * models with 27 billion parameters. These are recognised by their number of layers. */
static void put_gemma(struct source *s) {
    uint64_t layers = 0, dim = 0, hidden = 0, heads = 0;
    if (strncmp(s->arch, "gemma", 5) != 0) return;
    copy_f64(s, "attn_logit_softcapping", "attn_logit_softcapping");
    copy_f64(s, "final_logit_softcapping", "final_logit_softcapping");
    if (!arch_u64(s, "block_count", &layers) || !arch_u64(s, "embedding_length", &hidden) ||
        !arch_u64(s, "attention.head_count", &heads) || heads == 0)
        return;
    if (!arch_u64(s, "attention.key_length", &dim)) dim = hidden / heads;
    bool largest = layers == (strcmp(s->arch, "gemma2") == 0 ? 46 : 62);
    put_u64(s, "query_pre_attn_scalar", largest ? hidden / heads : dim);
}

static const char *config_dtype(const struct gguf *g) {
    uint64_t numbers[GGML_TYPES_END] = { 0 };
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        if (t->ndims > 1) numbers[t->type] += t->numbers;
    }
    if (numbers[GGML_BF16] > numbers[GGML_F16] && numbers[GGML_BF16] >= numbers[GGML_F32]) return "bfloat16";
    bool narrow = numbers[GGML_F16] > 0;
    for (int t = 0; t < GGML_TYPES_END; t++)
        if (numbers[t] && ggml_type_info((uint32_t)t).numbers > 1) narrow = true;
    return !narrow && numbers[GGML_F32] ? "float32" : "float16";
}

static void put_sizes(struct source *s) {
    uint64_t vocab = tensor_dim(s->g, "token_embd", 1);
    copy_u64(s, "embedding_length", "hidden_size");
    copy_u64(s, "block_count", "num_hidden_layers");
    copy_u64(s, "context_length", "max_position_embeddings");
    if (!copy_u64(s, "feed_forward_length", "intermediate_size"))
        copy_u64(s, "expert_feed_forward_length", "intermediate_size");
    copy_u64(s, "attention.head_count", "num_attention_heads");
    copy_u64(s, "attention.head_count_kv", "num_key_value_heads");
    copy_u64(s, "attention.key_length", "head_dim");
    copy_u64(s, "attention.sliding_window", "sliding_window");
    copy_f64(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    copy_f64(s, "attention.layer_norm_epsilon", "layer_norm_epsilon");
    if (vocab)
        put_u64(s, "vocab_size", vocab);
    else
        copy_u64(s, "vocab_size", "vocab_size");
    put_bool(s, "tie_word_embeddings", gguf_find(s->g, "output.weight") == NULL);
    put_bool(s, "qkv_bias", has_tensor(s->g, "attn_q", ".bias") || has_tensor(s->g, "attn_qkv", ".bias"));
    put_bool(s, "attention_bias", has_tensor(s->g, "attn_output", ".bias"));
    json_object_set_new(s->config, "torch_dtype", json_string(config_dtype(s->g)));
}

/* Sets the ids that begin and end a text. The ends of a text, of a turn and of a message all stop a
 * generation. */
static void put_special_ids(struct source *s) {
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    json_t *list = json_array();
    uint64_t id;
    for (size_t i = 0; i < COUNTOF(ends); i++)
        if (gguf_u64(s->g, ends[i], &id) && id < UINT32_MAX)
            json_array_append_new(list, json_integer((json_int_t)id));
    json_object_set_new(s->config, "eos_token_id", list);
    if (gguf_u64(s->g, "tokenizer.ggml.bos_token_id", &id) && id < UINT32_MAX) put_u64(s, "bos_token_id", id);
}

static int read_arch(struct source *s, const char *what, struct err *err) {
    struct bytes arch;
    if (!gguf_str(s->g, "general.architecture", &arch))
        return err_set(err, "%s: general.architecture is missing", what);
    size_t n = bytes_left(&arch);
    if (n >= sizeof s->arch || memchr(arch.p, '\0', n))
        return err_set(err, "%s: general.architecture is not a name", what);
    for (size_t i = 0; i < n; i++) s->arch[i] = arch.p[i] >= 32 && arch.p[i] < 127 ? (char)arch.p[i] : '?';
    return 0;
}

/* ---- Tensors to operators */

/* Names of tensors of a layer (after "blk.N.") and of the model, and the operators whose weights they
 * contain. If a tensor contains the weights of several operators, its bytes are divided among them in
 * proportion to their parameters. */
static const struct tensor_row {
    const char *base, *ops; /* "a|b" */
} tensor_rows[] = {
    { "token_embd", "embed_tokens" },
    { "position_embd", "embed_positions" },
    { "output", "lm_head" },
    { "output_norm", "final_norm" },
    { "attn_norm", "input_norm" },
    { "attn_q", "q_proj" },
    { "attn_k", "k_proj" },
    { "attn_v", "v_proj" },
    { "attn_qkv", "q_proj|k_proj|v_proj" },
    { "attn_output", "o_proj" },
    { "attn_q_norm", "q_norm" },
    { "attn_k_norm", "k_norm" },
    { "attn_q_a", "q_a_proj" },
    { "attn_q_a_norm", "q_a_norm" },
    { "attn_q_b", "q_b_proj" },
    { "attn_kv_a_mqa", "kv_a_proj" },
    { "attn_kv_a_norm", "kv_a_norm" },
    { "attn_kv_b", "kv_b_proj" },
    { "attn_k_b", "kv_b_proj" },
    { "attn_v_b", "kv_b_proj" },
    { "attn_sinks", "attention|attention_window" },
    { "post_attention_norm", "post_attention_norm" },
    { "attn_post_norm", "post_attention_norm" },
    { "ffn_norm", "pre_mlp_norm|post_attention_norm" }, /* the first operator that exists is used */
    { "post_ffw_norm", "post_mlp_norm" },
    { "ffn_post_norm", "post_mlp_norm" },
    { "ffn_gate", "gate_proj" },
    { "ffn_up", "up_proj|fc1" },
    { "ffn_down", "down_proj|fc2" },
    { "ffn_gate_inp", "router" },
    { "exp_probs_b", "router_correction" },
    { "ffn_gate_exps", "experts_gate" },
    { "ffn_up_exps", "experts_up" },
    { "ffn_down_exps", "experts_down" },
    { "ffn_gate_up_exps", "experts_gate|experts_up" },
    { "ffn_gate_shexp", "shared_gate_proj" },
    { "ffn_up_shexp", "shared_up_proj" },
    { "ffn_down_shexp", "shared_down_proj" },
    { "ffn_gate_inp_shexp", "shared_expert_gate" },
};

int gguf_layer_of(const char *tensor) {
    if (strncmp(tensor, "blk.", 4) != 0 || tensor[4] < '0' || tensor[4] > '9') return -1;
    unsigned long n = strtoul(tensor + 4, NULL, 10);
    return n < LLM_LAYERS_MAX ? (int)n : -1;
}

/* Writes the name without layer and ending. "blk.3.ffn_gate.7.weight" becomes "ffn_gate_exps", because
 * older files have one tensor per expert instead of one tensor for all experts. */
static void base_of(const char *tensor, char *out, size_t cap) {
    const char *p = tensor;
    if (gguf_layer_of(tensor) >= 0) p = strchr(tensor + 4, '.');
    p = !p ? tensor : p == tensor ? p : p + 1;
    size_t n = strcspn(p, ".");
    bool expert = p[n] == '.' && p[n + 1] >= '0' && p[n + 1] <= '9';
    snprintf(out, cap, "%.*s%s", (int)MIN(n, 80), p, expert ? "_exps" : "");
}

struct assignment {
    struct llm_model *m;
    double *bytes, *quantized; /* by operator */
    uint64_t *numbers;
    double other_bytes;
    uint64_t other_numbers;
    bool fused_gate; /* ffn_up contains both gate and up */
};

static bool in_ops(const char *ops, const char *name) {
    size_t n = strlen(name);
    for (const char *p = ops; *p;) {
        size_t k = strcspn(p, "|");
        if (k == n && strncmp(p, name, n) == 0) return true;
        p += k + (p[k] == '|');
    }
    return false;
}

static bool model_has(const struct llm_model *m, const char *name) {
    for (size_t i = 0; i < m->nops; i++)
        if (strcmp(m->ops[i].name, name) == 0) return true;
    return false;
}

static const char *ops_of(const struct assignment *a, const char *base) {
    if (strcmp(base, "ffn_norm") == 0)
        return model_has(a->m, "pre_mlp_norm") ? "pre_mlp_norm" : "post_attention_norm";
    if (strcmp(base, "ffn_up") == 0 && a->fused_gate) return "gate_proj|up_proj";
    for (size_t i = 0; i < COUNTOF(tensor_rows); i++)
        if (strcmp(tensor_rows[i].base, base) == 0) return tensor_rows[i].ops;
    return "";
}

static void assign_tensor(struct assignment *a, const struct gguf_tensor *t) {
    char base[100];
    base_of(t->name, base, sizeof base);
    const char *ops = ops_of(a, base);
    double sum = 0, bytes = (double)t->bytes;
    bool quantized = ggml_type_info(t->type).numbers > 1;
    for (size_t i = 0; i < a->m->nops; i++)
        if (in_ops(ops, a->m->ops[i].name)) sum += (double)llm_op_params(&a->m->ops[i]);
    if (sum == 0) {
        a->other_bytes += bytes;
        a->other_numbers += t->numbers;
        return;
    }
    for (size_t i = 0; i < a->m->nops; i++) {
        if (!in_ops(ops, a->m->ops[i].name)) continue;
        double share = (double)llm_op_params(&a->m->ops[i]) / sum;
        a->bytes[i] += bytes * share;
        a->quantized[i] += quantized ? bytes * share : 0;
        a->numbers[i] += (uint64_t)((double)t->numbers * share + 0.5);
    }
}

/* Adds an operator for the tensors that have none, for example the factors of rotary positions. */
static void add_other(struct assignment *a) {
    struct llm_model *m = a->m;
    if (a->other_numbers == 0) return;
    size_t cap = m->nops;
    m->ops = vec_fit(m->ops, m->nops + 1, &cap, sizeof *m->ops);
    m->ops[m->nops++] = (struct llm_op){ .name = "other",
                                         .module = "other",
                                         .stage = LLM_STAGE_DECODER,
                                         .kind = LLM_OP_PARAM,
                                         .count = 1,
                                         .in = a->other_numbers,
                                         .idle = true,
                                         .instance_bytes = a->other_bytes };
}

static void set_op_bytes(struct assignment *a, struct llm_notes *notes) {
    struct llm_model *m = a->m;
    double embedding = 0;
    for (size_t i = 0; i < m->nops; i++) {
        struct llm_op *op = &m->ops[i];
        if (strcmp(op->name, "embed_tokens") == 0) embedding = a->bytes[i];
        uint64_t expected = llm_op_params(op);
        if (op->tied) op->instance_bytes = embedding;
        if (expected == 0) continue;
        if (a->numbers[i] != expected)
            notes_add(notes, "%s: the tensors have %" PRIu64 " numbers, but the metadata describes %" PRIu64,
                      op->name, a->numbers[i], expected);
        if (a->bytes[i] > 0)
            op->instance_bytes = a->bytes[i] / ((double)op->count * (double)MAX(1, op->experts));
        if (a->quantized[i] * 2 > a->bytes[i]) op->weight = m->pack.type;
    }
    for (size_t i = 0; i < m->nops; i++)
        if (m->ops[i].tied && m->ops[0].weight) m->ops[i].weight = m->ops[0].weight;
}

/* Describes the block types by their share of the bytes. The type with the most bytes determines the type
 * of the products. */
static void set_types(struct llm_model *m, const struct gguf *g, struct llm_notes *notes) {
    double bytes[GGML_TYPES_END] = { 0 }, all = 0;
    struct strbuf s = STRBUF_INIT;
    uint32_t most = GGML_F32;
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        if (ggml_type_info(t->type).numbers > 1) bytes[t->type] += (double)t->bytes;
        all += (double)t->bytes;
    }
    for (uint32_t t = 0; t < GGML_TYPES_END; t++) {
        if (bytes[t] > bytes[most]) most = t;
        if (bytes[t] > 0)
            strbuf_addf(&s, "%s%s %.0f%%", s.len ? ", " : "ggml ", ggml_type_info(t).name,
                        100 * bytes[t] / all);
    }
    if (s.len) {
        m->pack = (struct llm_pack){ .type = most == GGML_MXFP4   ? LLM_MXFP4
                                             : most == GGML_NVFP4 ? LLM_NVFP4
                                                                  : LLM_INT8,
                                     .activations = true };
        m->quantization = strbuf_detach(&s);
        notes_add(notes, "%s",
                  "ggml's block types are multiplied with 8-bit activations, as in llama.cpp (mxfp4 and "
                  "nvfp4: in their own type)");
    } else {
        strbuf_free(&s);
    }
}

static void assign_tensors(struct llm_model *m, const struct gguf *g, struct llm_notes *notes) {
    size_t n = MAX(1, m->nops);
    struct assignment a = { .m = m,
                            .bytes = xcalloc(n, sizeof *a.bytes),
                            .quantized = xcalloc(n, sizeof *a.quantized),
                            .numbers = xcalloc(n, sizeof *a.numbers),
                            .fused_gate = m->text.gated_mlp && !has_tensor(g, "ffn_gate", ".weight") };
    uint64_t total = 0;
    set_types(m, g, notes);
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        assign_tensor(&a, t);
        total = total > UINT64_MAX - t->numbers ? UINT64_MAX : total + t->numbers;
    }
    set_op_bytes(&a, notes);
    add_other(&a);
    m->params.total = total;
    free(a.bytes);
    free(a.quantized);
    free(a.numbers);
}

struct llm_model *llm_model_of_gguf(const struct gguf *g, const char *what, const struct llm_load *how,
                                    struct err *err) {
    struct source s = { .g = g, .config = json_object() };
    struct llm_model *m = NULL;
    if (read_arch(&s, what, err) == 0 && choose_family(&s, what, err) == 0) {
        put_sizes(&s);
        put_experts(&s);
        put_latent(&s);
        put_rope(&s);
        put_gemma(&s);
        put_special_ids(&s);
        m = model_of_config(s.config, what, how, err);
    }
    if (m) {
        struct llm_notes notes = { m->notes, m->nnotes, m->nnotes };
        if (how->dtype)
            notes_add(&notes, "the types of the GGUF file are ignored: --dtype sets the weight type");
        else
            assign_tensors(m, g, &notes);
        m->notes = notes.v;
        m->nnotes = notes.n;
        m->architecture = xstrdup(s.arch);
        /* Converters of the llama architecture reorder the rows of q and k so that pairs are neighbours. */
        m->text.rope.interleaved = strcmp(s.arch, "llama") == 0;
    }
    json_decref(s.config);
    return m;
}
