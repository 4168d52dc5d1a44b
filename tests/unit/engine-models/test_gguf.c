/* Models in GGUF files: the fixtures' synthetic weights under GGUF's names, with the rows of q and k
 * reordered as converters do it, give the tokens of transformers. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "engine/weights/weights.h"
#include "llm/gguf.h"
#include "unit/engine-models/fixture.h"
#include "unit/engine-models/mapping.h"
#include "unit/test.h"

/* A file being written. */
struct out {
    const struct fixture *f;
    const char *arch;
    struct strbuf values, tensors, data;
    uint64_t nvalues, ntensors;
};

static void put(struct strbuf *s, const void *p, size_t n) { strbuf_add(s, p, n); }
static void put_u32(struct strbuf *s, uint32_t v) { put(s, &v, 4); }
static void put_u64(struct strbuf *s, uint64_t v) { put(s, &v, 8); }
static void put_text(struct strbuf *s, const char *v) {
    put_u64(s, strlen(v));
    put(s, v, strlen(v));
}

static void put_key(struct out *o, const char *key, uint32_t kind) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", key[0] == '.' ? o->arch : "", key);
    put_text(&o->values, name);
    put_u32(&o->values, kind);
    o->nvalues++;
}

static uint32_t config_int(const struct out *o, const char *key) {
    return (uint32_t)json_integer_value(json_object_get(json_object_get(o->f->root, "config"), key));
}

static void copy_int(struct out *o, const char *theirs, const char *key) {
    put_key(o, theirs, GGUF_U32);
    put_u32(&o->values, config_int(o, key));
}

static void copy_float(struct out *o, const char *theirs, const char *key) {
    float v = (float)json_number_value(json_object_get(json_object_get(o->f->root, "config"), key));
    put_key(o, theirs, GGUF_F32);
    put(&o->values, &v, 4);
}

static float *synthetic(const struct out *o, const char *name, size_t n, float scale, float offset) {
    struct weights_stream s = weights_stream_make((uint64_t)fixture_int(o->f, "seed"), name, scale, offset);
    float *v = xcalloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = weights_stream_at(&s, (uint32_t)i);
    return v;
}

static void put_info(struct out *o, const char *name, uint32_t d0, uint32_t d1, uint32_t d2) {
    const uint32_t dims[] = { d0, d1, d2 };
    uint32_t n = d2 ? 3 : d1 ? 2 : 1;
    while (o->data.len % 32) strbuf_addch(&o->data, '\0');
    put_text(&o->tensors, name);
    put_u32(&o->tensors, n);
    for (uint32_t i = 0; i < n; i++) put_u64(&o->tensors, dims[i]);
    put_u32(&o->tensors, GGML_F32);
    put_u64(&o->tensors, o->data.len);
    o->ntensors++;
}

/* Rows of a matrix; heads > 0: row i of the first half of a head becomes row 2i, the others 2i + 1. */
static void put_rows(struct out *o, const char *ours, uint32_t rows, uint32_t cols, uint32_t heads) {
    float *v = synthetic(o, ours, (size_t)rows * cols, (float)sqrt(3.0 / cols), 0);
    uint32_t dim = heads ? rows / heads : 0;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t from = heads ? r / dim * dim + r % dim / 2 + r % 2 * (dim / 2) : r;
        put(&o->data, v + (size_t)from * cols, cols * sizeof *v);
    }
    free(v);
}

static void put_matrix(struct out *o, const char *theirs, const char *ours, uint32_t rows, uint32_t cols,
                       uint32_t heads) {
    put_info(o, theirs, cols, rows, 0);
    put_rows(o, ours, rows, cols, heads);
}

static void put_vector(struct out *o, const char *theirs, const char *ours, uint32_t n, float scale) {
    float *v = synthetic(o, ours, n, scale, 0);
    put_info(o, theirs, n, 0, 0);
    put(&o->data, v, n * sizeof *v);
    free(v);
}

static void put_norm(struct out *o, const char *theirs, const char *ours, uint32_t n) {
    float *v = synthetic(o, ours, n, 0.1f, 1.0f);
    put_info(o, theirs, n, 0, 0);
    put(&o->data, v, n * sizeof *v);
    free(v);
}

static const char *layer_name(char *out, const char *fmt, int layer) {
    snprintf(out, 128, fmt, layer);
    return out;
}
#define OURS_BARE(name) layer_name(ours, "model.layers.%d." name, i)
#define THEIRS_BIAS(name) layer_name(theirs, "blk.%d." name ".bias", i)
#define OURS(name) layer_name(ours, "model.layers.%d." name ".weight", i)
#define THEIRS(name) layer_name(theirs, "blk.%d." name ".weight", i)

static void put_experts(struct out *o, int i, const char *const names[3], uint32_t hidden, uint32_t inner) {
    static const char *const stacked[3] = { "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps" };
    uint32_t n = config_int(o, "num_local_experts") + config_int(o, "n_routed_experts");
    for (int k = 0; k < 3; k++) {
        char theirs[128], ours[128];
        uint32_t rows = k == 2 ? hidden : inner, cols = k == 2 ? inner : hidden;
        snprintf(theirs, sizeof theirs, "blk.%d.%s.weight", i, stacked[k]);
        put_info(o, theirs, cols, rows, n);
        for (uint32_t e = 0; e < n; e++) {
            snprintf(ours, sizeof ours, names[k], i, e);
            put_rows(o, ours, rows, cols, 0);
        }
    }
}

/* Biases of all experts, [experts][rows]. */
static void put_expert_biases(struct out *o, int i, uint32_t hidden, uint32_t inner) {
    static const char *const names[3] = { "gate", "up", "down" };
    uint32_t n = config_int(o, "num_local_experts");
    for (int k = 0; k < 3; k++) {
        char theirs[128], ours[128];
        uint32_t rows = k == 2 ? hidden : inner;
        snprintf(theirs, sizeof theirs, "blk.%d.ffn_%s_exps.bias", i, names[k]);
        put_info(o, theirs, rows, n, 0);
        for (uint32_t e = 0; e < n; e++) {
            snprintf(ours, sizeof ours, "model.layers.%d.mlp.experts.%u.%s_proj.bias", i, e, names[k]);
            float *v = synthetic(o, ours, rows, 0.1f, 0);
            put(&o->data, v, rows * sizeof *v);
            free(v);
        }
    }
}

static void put_oss_mlp(struct out *o, int i, uint32_t hidden) {
    static const char *const names[3] = { "model.layers.%d.mlp.experts.%u.gate_proj.weight",
                                          "model.layers.%d.mlp.experts.%u.up_proj.weight",
                                          "model.layers.%d.mlp.experts.%u.down_proj.weight" };
    char ours[128], theirs[128];
    uint32_t inner = config_int(o, "intermediate_size"), n = config_int(o, "num_local_experts");
    put_matrix(o, THEIRS("ffn_gate_inp"), OURS("mlp.router"), n, hidden, 0);
    put_vector(o, THEIRS_BIAS("ffn_gate_inp"), OURS_BARE("mlp.router.bias"), n, 0.1f);
    put_experts(o, i, names, hidden, inner);
    put_expert_biases(o, i, hidden, inner);
}

static void put_mlp(struct out *o, int i, uint32_t hidden) {
    static const char *const mixtral[3] = { "model.layers.%d.block_sparse_moe.experts.%u.w1.weight",
                                            "model.layers.%d.block_sparse_moe.experts.%u.w3.weight",
                                            "model.layers.%d.block_sparse_moe.experts.%u.w2.weight" };
    char ours[128], theirs[128];
    uint32_t inner = config_int(o, "intermediate_size"), local = config_int(o, "num_local_experts");
    if (local) {
        put_matrix(o, THEIRS("ffn_gate_inp"), OURS("block_sparse_moe.gate"), local, hidden, 0);
        put_experts(o, i, mixtral, hidden, inner);
    } else {
        put_matrix(o, THEIRS("ffn_gate"), OURS("mlp.gate_proj"), inner, hidden, 0);
        put_matrix(o, THEIRS("ffn_up"), OURS("mlp.up_proj"), inner, hidden, 0);
        put_matrix(o, THEIRS("ffn_down"), OURS("mlp.down_proj"), hidden, inner, 0);
    }
}

/* kv_b as newer files hold it: keys transposed, [heads][rank][nope], and values [heads][value][rank]. */
static void put_halves(struct out *o, int i, uint32_t heads, uint32_t rank) {
    char ours[128], theirs[128];
    uint32_t nope = config_int(o, "qk_nope_head_dim"), value = config_int(o, "v_head_dim"),
             rows = nope + value;
    float *v =
        synthetic(o, OURS("self_attn.kv_b_proj"), (size_t)heads * rows * rank, (float)sqrt(3.0 / rank), 0);
    put_info(o, THEIRS("attn_k_b"), nope, rank, heads);
    for (uint32_t k = 0; k < heads * rank * nope; k++)
        put(&o->data, v + ((size_t)(k / (rank * nope)) * rows + k % nope) * rank + k / nope % rank,
            sizeof *v);
    put_info(o, THEIRS("attn_v_b"), rank, value, heads);
    for (uint32_t h = 0; h < heads; h++)
        put(&o->data, v + ((size_t)h * rows + nope) * rank, (size_t)value * rank * sizeof *v);
    free(v);
}

static void put_latent_layer(struct out *o, int i) {
    static const char *const names[3] = { "model.layers.%d.mlp.experts.%u.gate_proj.weight",
                                          "model.layers.%d.mlp.experts.%u.up_proj.weight",
                                          "model.layers.%d.mlp.experts.%u.down_proj.weight" };
    char ours[128], theirs[128];
    uint32_t hidden = config_int(o, "hidden_size"), heads = config_int(o, "num_attention_heads"),
             rank = config_int(o, "kv_lora_rank"), rope = config_int(o, "qk_rope_head_dim"),
             nope = config_int(o, "qk_nope_head_dim"), value = config_int(o, "v_head_dim"),
             inner = config_int(o, "moe_intermediate_size"),
             shared = inner * config_int(o, "n_shared_experts");
    put_norm(o, THEIRS("attn_norm"), OURS("input_layernorm"), hidden);
    put_norm(o, THEIRS("ffn_norm"), OURS("post_attention_layernorm"), hidden);
    put_matrix(o, THEIRS("attn_q"), OURS("self_attn.q_proj"), heads * (nope + rope), hidden, 0);
    put_matrix(o, THEIRS("attn_kv_a_mqa"), OURS("self_attn.kv_a_proj_with_mqa"), rank + rope, hidden, 0);
    put_norm(o, THEIRS("attn_kv_a_norm"), OURS("self_attn.kv_a_layernorm"), rank);
    put_halves(o, i, heads, rank);
    put_matrix(o, THEIRS("attn_output"), OURS("self_attn.o_proj"), hidden, heads * value, 0);
    if (i < (int)config_int(o, "first_k_dense_replace")) {
        put_mlp(o, i, hidden);
        return;
    }
    put_matrix(o, THEIRS("ffn_gate_inp"), OURS("mlp.gate"), config_int(o, "n_routed_experts"), hidden, 0);
    put_experts(o, i, names, hidden, inner);
    put_matrix(o, THEIRS("ffn_gate_shexp"), OURS("mlp.shared_experts.gate_proj"), shared, hidden, 0);
    put_matrix(o, THEIRS("ffn_up_shexp"), OURS("mlp.shared_experts.up_proj"), shared, hidden, 0);
    put_matrix(o, THEIRS("ffn_down_shexp"), OURS("mlp.shared_experts.down_proj"), hidden, shared, 0);
}

static void put_latent_values(struct out *o) {
    float factor = 4, multiplier = 0.0707f;
    put_key(o, ".attention.key_length_mla", GGUF_U32);
    put_u32(&o->values, config_int(o, "qk_nope_head_dim") + config_int(o, "qk_rope_head_dim"));
    copy_int(o, ".attention.value_length_mla", "v_head_dim");
    copy_int(o, ".attention.kv_lora_rank", "kv_lora_rank");
    copy_int(o, ".rope.dimension_count", "qk_rope_head_dim");
    copy_int(o, ".leading_dense_block_count", "first_k_dense_replace");
    copy_int(o, ".expert_count", "n_routed_experts");
    copy_int(o, ".expert_feed_forward_length", "moe_intermediate_size");
    put_key(o, ".rope.scaling.type", GGUF_STRING);
    put_text(&o->values, "yarn");
    put_key(o, ".rope.scaling.factor", GGUF_F32);
    put(&o->values, &factor, 4);
    put_key(o, ".rope.scaling.yarn_log_multiplier", GGUF_F32);
    put(&o->values, &multiplier, 4);
    put_key(o, ".rope.scaling.original_context_length", GGUF_U32);
    put_u32(&o->values, 256);
}

static void put_layer(struct out *o, int i) {
    if (strcmp(o->arch, "deepseek2") == 0) {
        put_latent_layer(o, i);
        return;
    }
    char ours[128], theirs[128];
    bool swapped = strcmp(o->arch, "llama") == 0;
    uint32_t hidden = config_int(o, "hidden_size"), heads = config_int(o, "num_attention_heads"),
             kv = config_int(o, "num_key_value_heads"), dim = config_int(o, "head_dim");
    bool gemma = strcmp(o->arch, "gemma2") == 0, oss = strcmp(o->arch, "gpt-oss") == 0;
    if (!dim) dim = hidden / heads;
    put_norm(o, THEIRS("attn_norm"), OURS("input_layernorm"), hidden);
    if (gemma || oss)
        put_norm(o, THEIRS("post_attention_norm"), OURS("post_attention_layernorm"), hidden);
    else
        put_norm(o, THEIRS("ffn_norm"), OURS("post_attention_layernorm"), hidden);
    if (gemma) {
        put_norm(o, THEIRS("ffn_norm"), OURS("pre_feedforward_layernorm"), hidden);
        put_norm(o, THEIRS("post_ffw_norm"), OURS("post_feedforward_layernorm"), hidden);
    }
    if (oss) {
        put_vector(o, THEIRS("attn_sinks"), OURS_BARE("self_attn.sinks"), heads, 1.0f);
        put_vector(o, THEIRS_BIAS("attn_q"), OURS_BARE("self_attn.q_proj.bias"), heads * dim, 0.1f);
        put_vector(o, THEIRS_BIAS("attn_k"), OURS_BARE("self_attn.k_proj.bias"), kv * dim, 0.1f);
        put_vector(o, THEIRS_BIAS("attn_v"), OURS_BARE("self_attn.v_proj.bias"), kv * dim, 0.1f);
        put_vector(o, THEIRS_BIAS("attn_output"), OURS_BARE("self_attn.o_proj.bias"), hidden, 0.1f);
    }
    put_matrix(o, THEIRS("attn_q"), OURS("self_attn.q_proj"), heads * dim, hidden, swapped ? heads : 0);
    put_matrix(o, THEIRS("attn_k"), OURS("self_attn.k_proj"), kv * dim, hidden, swapped ? kv : 0);
    put_matrix(o, THEIRS("attn_v"), OURS("self_attn.v_proj"), kv * dim, hidden, 0);
    put_matrix(o, THEIRS("attn_output"), OURS("self_attn.o_proj"), hidden, heads * dim, 0);
    if (!swapped && !gemma && !oss) {
        put_norm(o, THEIRS("attn_q_norm"), OURS("self_attn.q_norm"), dim);
        put_norm(o, THEIRS("attn_k_norm"), OURS("self_attn.k_norm"), dim);
    }
    if (oss)
        put_oss_mlp(o, i, hidden);
    else
        put_mlp(o, i, hidden);
}

static void put_model(struct out *o) {
    uint32_t hidden = config_int(o, "hidden_size"), vocab = config_int(o, "vocab_size");
    put_key(o, "general.architecture", GGUF_STRING);
    put_text(&o->values, o->arch);
    copy_int(o, ".block_count", "num_hidden_layers");
    copy_int(o, ".embedding_length", "hidden_size");
    copy_int(o, ".context_length", "max_position_embeddings");
    copy_int(o, ".feed_forward_length", "intermediate_size");
    copy_int(o, ".attention.head_count", "num_attention_heads");
    copy_int(o, ".attention.head_count_kv", "num_key_value_heads");
    copy_float(o, ".attention.layer_norm_rms_epsilon", "rms_norm_eps");
    copy_float(o, ".rope.freq_base", "rope_theta");
    if (config_int(o, "head_dim")) copy_int(o, ".attention.key_length", "head_dim");
    if (config_int(o, "head_dim")) copy_int(o, ".attention.value_length", "head_dim");
    if (config_int(o, "num_local_experts")) copy_int(o, ".expert_count", "num_local_experts");
    if (config_int(o, "num_experts_per_tok")) copy_int(o, ".expert_used_count", "num_experts_per_tok");
    if (config_int(o, "sliding_window")) copy_int(o, ".attention.sliding_window", "sliding_window");
    if (strcmp(o->arch, "deepseek2") == 0) put_latent_values(o);
    if (strcmp(o->arch, "gemma2") == 0) {
        copy_float(o, ".attn_logit_softcapping", "attn_logit_softcapping");
        copy_float(o, ".final_logit_softcapping", "final_logit_softcapping");
    }
    if (strcmp(o->arch, "gpt-oss") == 0) {
        float factor = 32;
        put_key(o, ".rope.scaling.type", GGUF_STRING);
        put_text(&o->values, "yarn");
        put_key(o, ".rope.scaling.factor", GGUF_F32);
        put(&o->values, &factor, 4);
        put_key(o, ".rope.scaling.original_context_length", GGUF_U32);
        put_u32(&o->values, 256);
    }
    put_matrix(o, "token_embd.weight", "model.embed_tokens.weight", vocab, hidden, 0);
    put_norm(o, "output_norm.weight", "model.norm.weight", hidden);
    put_matrix(o, "output.weight", "lm_head.weight", vocab, hidden, 0);
    for (int i = 0; i < (int)config_int(o, "num_hidden_layers"); i++) put_layer(o, i);
}

static char *write_gguf(const struct fixture *f, const char *arch) {
    struct out o = {
        .f = f, .arch = arch, .values = STRBUF_INIT, .tensors = STRBUF_INIT, .data = STRBUF_INIT
    };
    struct strbuf file = STRBUF_INIT;
    struct err err;
    put_model(&o);
    put(&file, "GGUF", 4);
    put_u32(&file, 3);
    put_u64(&file, o.ntensors);
    put_u64(&file, o.nvalues);
    put(&file, o.values.buf, o.values.len);
    put(&file, o.tensors.buf, o.tensors.len);
    while (file.len % 32) strbuf_addch(&file, '\0');
    put(&file, o.data.buf, o.data.len);
    char *path = file_join(f->dir, "model.gguf");
    if (file_write_atomic(path, file.buf, file.len, &err) < 0) fail_msg("%s", err.msg);
    strbuf_free(&o.values);
    strbuf_free(&o.tensors);
    strbuf_free(&o.data);
    strbuf_free(&file);
    return path;
}

static void check_gguf(const char *name, const char *arch) {
    struct fixture f;
    struct err err;
    struct engine_result got;
    uint32_t *ids, *want;
    fixture_open(&f, name);
    char *path = write_gguf(&f, arch);
    size_t n = fixture_ids(&f, "prompt_ids", &ids), steps = fixture_ids(&f, "greedy", &want);
    char *config = file_join(f.dir, "config.json");
    CHECK_INT(remove(config), 0); /* then the folder is a GGUF model too */
    free(config);
    struct engine *e = engine_open(
        &(struct engine_load){ .model = f.dir, .device = "cpu", .threads = 2, .exact = true }, &err);
    if (!e) fail_msg("%s", err.msg);
    struct engine_request r = {
        .ids = ids, .nids = n, .max_new_tokens = (uint32_t)steps, .ignore_eos = true
    };
    if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(got.ids.n, steps);
    CHECK_MEM(got.ids.v, want, steps * sizeof *want);
    engine_result_free(&got);
    engine_close(e);
    free(path);
    free(ids);
    free(want);
    fixture_close(&f);
}

TEST(a_gguf_file_of_llama_agrees_with_transformers) { check_gguf("llama", "llama"); }
TEST(a_gguf_file_with_stacked_experts_agrees_with_transformers) { check_gguf("mixtral", "llama"); }
TEST(a_gguf_file_of_gpt_oss_agrees_with_transformers) { check_gguf("gpt_oss", "gpt-oss"); }
TEST(a_gguf_file_of_gemma2_agrees_with_transformers) { check_gguf("gemma2", "gemma2"); }
TEST(a_gguf_file_with_keys_and_values_of_latents_agrees_with_transformers) {
    check_gguf("deepseek_v2", "deepseek2");
}
TEST(a_gguf_file_of_qwen3_agrees_with_transformers) { check_gguf("qwen3", "qwen3"); }

TEST(weights_of_a_gguf_file_are_used_in_place) {
    struct fixture f;
    struct err err;
    fixture_open(&f, "llama");
    char *path = write_gguf(&f, "llama");
    struct engine *e = engine_open(&(struct engine_load){ .model = path, .device = "cpu" }, &err);
    if (!e) fail_msg("%s", err.msg);
    check_weights_are_mapped(e, path);
    engine_close(e);
    free(path);
    fixture_close(&f);
}
