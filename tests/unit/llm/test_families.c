/* Families by their published configs (shortened to the fields that affect the count), and errors of bad
 * configs. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "unit/llm/models.h"
#include "unit/test.h"

static const struct {
    const char *name;
    uint64_t total;
    const char *config;
} released[] = {
    { "gpt2", 124439808,
      "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":768,\"n_head\":12,\"n_"
      "layer\":12,"
      "\"n_positions\":1024,\"n_ctx\":1024,\"vocab_size\":50257}" },
    { "pythia-6.9b", 6857302016,
      "{\"architectures\":[\"GPTNeoXForCausalLM\"],\"model_type\":\"gpt_neox\",\"hidden_size\":4096,"
      "\"intermediate_size\":16384,"
      "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"max_position_embeddings\":2048,\"rotary_pct\":0."
      "25,"
      "\"tie_word_embeddings\":false,\"torch_dtype\":\"float16\",\"vocab_size\":50432}" },
    { "mistral-7b", 7241732096,
      "{\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\",\"hidden_size\":4096,"
      "\"intermediate_size\":14336,"
      "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"sliding_window\":4096,"
      "\"tie_word_embeddings\":false,\"vocab_size\":32000,\"max_position_embeddings\":32768}" },
    { "mixtral-8x7b", 46702792704,
      "{\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"mixtral\",\"hidden_size\":4096,"
      "\"intermediate_size\":14336,"
      "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"num_local_experts\":8,"
      "\"num_experts_per_tok\":2,\"tie_word_embeddings\":false,\"vocab_size\":32000}" },
    { "qwen1.5-moe-a2.7b", 14315784192,
      "{\"architectures\":[\"Qwen2MoeForCausalLM\"],\"model_type\":\"qwen2_moe\",\"hidden_size\":2048,"
      "\"intermediate_size\":5632,"
      "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"num_hidden_layers\":24,\"moe_intermediate_"
      "size\":1408,"
      "\"shared_expert_intermediate_size\":5632,\"num_experts\":60,\"num_experts_per_tok\":4,\"decoder_"
      "sparse_step\":1,"
      "\"tie_word_embeddings\":false,\"vocab_size\":151936}" },
    { "gemma-2b", 2506172416,
      "{\"architectures\":[\"GemmaForCausalLM\"],\"model_type\":\"gemma\",\"hidden_size\":2048,"
      "\"intermediate_size\":16384,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":256,\"num_hidden_layers\":18,\"vocab_"
      "size\":256000}" },
    { "phi-3-mini", 3821079552,
      "{\"architectures\":[\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"hidden_size\":3072,\"intermediate_"
      "size\":8192,"
      "\"num_attention_heads\":32,\"num_key_value_heads\":32,\"num_hidden_layers\":32,\"sliding_window\":"
      "2047,"
      "\"tie_word_embeddings\":false,\"vocab_size\":32064}" },
    { "qwen3-235b-a22b", 235093634560,
      "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\",\"hidden_size\":4096,"
      "\"intermediate_size\":12288,"
      "\"moe_intermediate_size\":1536,\"num_attention_heads\":64,\"num_key_value_heads\":4,\"head_dim\":128,"
      "\"num_hidden_layers\":94,\"num_experts\":128,\"num_experts_per_tok\":8,\"decoder_sparse_step\":1,"
      "\"mlp_only_layers\":[],\"tie_word_embeddings\":false,\"vocab_size\":151936}" },
    { "deepseek-v3", 671026419200,
      "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,"
      "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"num_hidden_layers\":61,\"num_attention_"
      "heads\":128,"
      "\"num_key_value_heads\":128,\"n_shared_experts\":1,\"n_routed_experts\":256,\"kv_lora_rank\":512,\"q_"
      "lora_rank\":1536,"
      "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"qk_nope_head_dim\":128,\"num_experts_per_tok\":8,\"moe_"
      "layer_freq\":1,"
      "\"first_k_dense_replace\":3,\"tie_word_embeddings\":false,\"topk_method\":\"noaux_tc\",\"vocab_size\":"
      "129280}" },
    { "gpt-oss-120b", 116829156672,
      "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"hidden_size\":2880,"
      "\"intermediate_size\":2880,"
      "\"head_dim\":64,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"num_hidden_layers\":36,"
      "\"num_local_experts\":128,\"experts_per_token\":4,\"tie_word_embeddings\":false,\"vocab_size\":"
      "201088}" },
    { "llava-1.5-7b", 7063427072,
      "{\"architectures\":[\"LlavaForConditionalGeneration\"],\"model_type\":\"llava\",\"text_config\":{"
      "\"model_type\":\"llama\",\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-05,\"vocab_size\":32064}"
      ","
      "\"tie_word_embeddings\":false,\"vision_config\":{\"hidden_size\":1024,\"image_size\":336,"
      "\"intermediate_size\":4096,"
      "\"model_type\":\"clip_vision_model\",\"num_attention_heads\":16,\"num_hidden_layers\":24,\"patch_"
      "size\":14}}" },
    { "qwen2-vl-7b", 8291375616,
      "{\"architectures\":[\"Qwen2VLForConditionalGeneration\"],\"model_type\":\"qwen2_vl\",\"hidden_size\":"
      "3584,"
      "\"intermediate_size\":18944,\"num_attention_heads\":28,\"num_hidden_layers\":28,\"num_key_value_"
      "heads\":4,"
      "\"tie_word_embeddings\":false,\"vision_config\":{\"depth\":32,\"embed_dim\":1280,\"mlp_ratio\":4,"
      "\"num_heads\":16,"
      "\"in_chans\":3,\"hidden_size\":3584,\"patch_size\":14,\"spatial_merge_size\":2,\"temporal_patch_"
      "size\":2},"
      "\"vocab_size\":152064}" },
    { "gemma-3-4b", 4300079472,
      "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"mm_tokens_per_"
      "image\":256,"
      "\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\","
      "\"num_hidden_layers\":34,\"sliding_window\":1024},\"vision_config\":{\"hidden_size\":1152,\"image_"
      "size\":896,"
      "\"intermediate_size\":4304,\"model_type\":\"siglip_vision_model\",\"num_attention_heads\":16,"
      "\"num_hidden_layers\":27,\"patch_size\":14,\"vision_use_head\":false}}" },
    { "clip-vit-large-patch14", 427616513,
      "{\"architectures\":[\"CLIPModel\"],\"model_type\":\"clip\",\"projection_dim\":768,\"text_config\":{"
      "\"hidden_size\":768,"
      "\"intermediate_size\":3072,\"num_attention_heads\":12,\"num_hidden_layers\":12},\"vision_config\":{"
      "\"hidden_size\":1024,\"intermediate_size\":4096,\"num_attention_heads\":16,\"num_hidden_layers\":24,"
      "\"patch_size\":14}}" },
    { "vit-base-patch16-224-in21k", 86389248,
      "{\"architectures\":[\"ViTModel\"],\"model_type\":\"vit\",\"hidden_size\":768,\"image_size\":224,"
      "\"intermediate_size\":3072,\"num_attention_heads\":12,\"num_hidden_layers\":12,\"patch_size\":16}" },
};

TEST(released_models_have_their_published_parameters) {
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(released); i++) {
        struct llm_model *m = test_model_text(released[i].config);
        if (m->params.total != released[i].total) {
            fprintf(stderr, "%s: %" PRIu64 ", published %" PRIu64 "\n", released[i].name, m->params.total,
                    released[i].total);
            wrong++;
        }
        llm_model_free(m);
    }
    CHECK_INT(wrong, 0);
}

TEST(llava_config_without_vision_config_has_a_default_tower) {
    struct llm_model *m = test_model_text(
        "{\"architectures\":[\"LlavaLlamaForCausalLM\"],\"model_type\":\"llava_llama\",\"hidden_size\":4096,"
        "\"intermediate_size\":11008,\"num_attention_heads\":32,\"num_hidden_layers\":32,\"vocab_size\":"
        "32000,"
        "\"mm_hidden_size\":1024,\"mm_vision_tower\":\"openai/clip-vit-large-patch14-336\"}");
    CHECK_INT(m->vision.tower.hidden, 1024);
    CHECK_INT(m->vision.tower.image_size, 336);
    llm_model_free(m);
}

TEST(windows_follow_layer_types_and_patterns) {
    struct llm_model *m = test_model("gemma-3-27b-it");
    uint32_t sliding = 0;
    for (uint32_t i = 0; i < m->text.layers; i++) sliding += m->text.layer[i].window != 0;
    CHECK_INT(sliding, 62 - 10); /* every sixth layer has full attention */
    CHECK_INT(m->text.layer[4].window, 1024);
    CHECK_INT(m->text.layer[5].window, 0);
    llm_model_free(m);
    m = test_model("gemma-2-9b");
    CHECK_INT(m->text.layer[0].window, 4096);
    CHECK_INT(m->text.layer[1].window, 0);
    llm_model_free(m);
    m = test_model("qwen2.5-32b-instruct"); /* use_sliding_window is false */
    CHECK_INT(m->text.layer[63].window, 0);
    llm_model_free(m);
}

TEST(rope_is_read_from_old_and_new_fields) {
    struct llm_model *m = test_model("llama-3.1-8b-instruct");
    CHECK_INT(m->text.rope.kind, LLM_ROPE_LLAMA3);
    CHECK(m->text.rope.theta == 500000 && m->text.rope.factor == 8 && m->text.rope.high_freq_factor == 4);
    CHECK_INT(m->text.rope.original_max_positions, 8192);
    CHECK_INT(m->text.rope.dims, 128);
    llm_model_free(m);
    m = test_model("deepseek-ocr");
    CHECK_INT(m->text.rope.kind, LLM_ROPE_PLAIN);
    CHECK(m->text.rope.theta == 10000);
    CHECK_INT(m->text.rope.dims, 128);
    CHECK_INT(m->text.bos_id, 0);
    CHECK_INT(m->text.neos, 1);
    CHECK_INT(m->text.eos_ids[0], 1);
    llm_model_free(m);
    m = test_model_text(
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"vocab_size\":10,\"intermediate_size\":8,\"rope_parameters\":{\"rope_theta\":7.0,"
        "\"rope_type\":\"yarn\",\"factor\":4.0,\"partial_rotary_factor\":0.5}}");
    CHECK_INT(m->text.rope.kind, LLM_ROPE_YARN);
    CHECK(m->text.rope.theta == 7);
    CHECK_INT(m->text.rope.dims, 16);
    llm_model_free(m);
}

/* ---- Bad configs */
#define LLAMA(fields)                                                                                 \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4," \
    "\"vocab_size\":100,\"intermediate_size\":96" fields "}"

TEST(bad_configs_name_the_field_and_its_value) {
    static const struct {
        const char *config, *message;
    } cases[] = {
        { "{", "t: line 1, column 1: string or '}' expected near end of file" },
        { "[1]", "t: not a JSON object" },
        { "{}", "t: has neither model_type nor architectures: is it the config.json of a model?" },
        { "{\"model_type\":\"llama\"}", "t: hidden_size is missing; llama requires it" },
        { "{\"model_type\":\"llama\",\"hidden_size\":-4096}",
          "t: hidden_size is -4096; expected a whole number from 1 to 4194304" },
        { "{\"model_type\":\"llama\",\"hidden_size\":\"big\"}",
          "t: hidden_size is \"big\"; expected a whole number from 1 to 4194304" },
        { "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":0}",
          "t: num_hidden_layers is 0; expected a whole number from 1 to 4096" },
        { "{\"model_type\":\"gpt2\",\"n_embd\":1e300}",
          "t: n_embd is 1.0000000000000001e300; expected a whole number from 1 to 4194304" },
        { LLAMA(",\"num_key_value_heads\":3"),
          "t: num_attention_heads is 4, which num_key_value_heads 3 does not divide" },
        { LLAMA(",\"tie_word_embeddings\":3"), "t: tie_word_embeddings is 3; expected true or false" },
        { "{\"model_type\":\"llama\",\"hidden_size\":65,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
          "\"vocab_size\":100,\"intermediate_size\":96}",
          "t: hidden_size is 65, which num_attention_heads 4 does not divide" },
        { "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\",\"vocab_size\":-1}}",
          "t: text_config.vocab_size is -1; expected a whole number from 1 to 268435456" },
        { "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":[1,2]}",
          "t: num_hidden_layers is [1,2]; expected a whole number from 1 to 4096" },
        { LLAMA(",\"num_key_value_heads\":0"),
          "t: num_key_value_heads is 0; expected a whole number from 1 to 65536" },
        { LLAMA(",\"head_dim\":0"), "t: head_dim is 0; expected a whole number from 1 to 65536" },
        { LLAMA(",\"hidden_act\":3"), "t: hidden_act is 3; expected a text" },
        { LLAMA(",\"eos_token_id\":\"2\""),
          "t: eos_token_id is \"2\"; expected a token id, or a list of token ids" },
        { LLAMA(",\"rope_theta\":0"), "t: rope_theta is 0; expected a number greater than 0" },
        { LLAMA(",\"rms_norm_eps\":-1e-6"),
          "t: rms_norm_eps is -9.9999999999999995e-7; expected a number greater than 0" },
        { LLAMA(",\"rope_scaling\":\"yarn\""), "t: rope_scaling is \"yarn\"; expected an object" },
        { LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}"),
          "t: rope_scaling.factor is 0; expected a number greater than 0" },
        { LLAMA(",\"partial_rotary_factor\":25"), "t: partial_rotary_factor is 25; expected 1 or less" },
        { LLAMA(",\"torch_dtype\":16"), "t: torch_dtype is not a text" },
        { LLAMA(",\"quantization_config\":\"gptq\""), "t: quantization_config is not an object" },
        { "{\"model_type\":5}", "t: model_type is not a text" },
        { "{\"model_type\":\"llava\",\"text_config\":[1]}", "t: text_config is not an object" },
        { "{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\"},\"vision_config\":7}",
          "t: vision_config is not an object" },
        { "{\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
          "\"intermediate_size\":8,\"image_size\":[448,224]}",
          "t: image_size is [448,224]; expected a whole number, or two equal numbers" },
        { "{\"model_type\":\"gpt_oss\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
          "\"num_key_value_heads\":2,\"vocab_size\":100,\"intermediate_size\":96,\"layer_types\":[\"full_"
          "attention\"]}",
          "t: layer_types lists 1 layers; there are 2" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err err = { "" };
        struct llm_load how = { 0 };
        CHECK(llm_model_parse(cases[i].config, strlen(cases[i].config), "t", &how, &err) == NULL);
        CHECK_STR(err.msg, cases[i].message);
    }
}

TEST(unmodelled_features_are_noted) {
    struct llm_model *m = test_model_text(LLAMA(
        ",\"rope_scaling\":{\"type\":\"spiral\"},\"layer_types\":[\"full_attention\",\"linear_attention\"]"));
    bool rope = false, layer = false;
    for (size_t i = 0; i < m->nnotes; i++) {
        rope |= strcmp(m->notes[i], "rope_scaling has the unknown type 'spiral'") == 0;
        layer |= strcmp(m->notes[i],
                        "layer_types contains 'linear_attention', which is not modelled: counted as full "
                        "attention") == 0;
    }
    CHECK(rope && layer);
    CHECK_INT(m->text.rope.kind, LLM_ROPE_OTHER);
    llm_model_free(m);
}

TEST(edges_may_be_pairs_and_ids_may_be_lists) {
    struct llm_model *m = test_model_text(
        "{\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
        "\"intermediate_size\":8,\"image_size\":[448,448],\"patch_size\":[14,14]}");
    CHECK_INT(m->vision.tower.image_size, 448);
    CHECK_INT(m->vision.tower.patch, 14);
    llm_model_free(m);
    m = test_model_text(LLAMA(",\"eos_token_id\":[7,8],\"bos_token_id\":null,\"num_key_value_heads\":null"));
    CHECK_INT(m->text.neos, 2);
    CHECK_INT(m->text.eos_ids[0], 7);
    CHECK_INT(m->text.eos_ids[1], 8);
    CHECK_INT(m->text.bos_id, -1);
    CHECK_INT(m->text.kv_heads, 4);
    llm_model_free(m);
}

TEST(unknown_architectures_are_errors_and_may_be_assumed) {
    static const char config[] =
        "{\"architectures\":[\"SomethingNewForCausalLM\"],\"model_type\":\"newthing\",\"hidden_size\":64,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":100,\"intermediate_size\":96}";
    struct err err = { "" };
    struct llm_load how = { 0 };
    CHECK(llm_model_parse(config, sizeof config - 1, "t", &how, &err) == NULL);
    CHECK(strstr(err.msg,
                 "unknown architecture 'SomethingNewForCausalLM' (model_type 'newthing'); known: llama, ") !=
          NULL);
    CHECK(strstr(err.msg, "deepseek_ocr") != NULL);
    how.assume = "llama";
    struct llm_model *m = llm_model_parse(config, sizeof config - 1, "t", &how, &err);
    CHECK(m != NULL);
    CHECK_STR(m->assumed, "llama");
    CHECK(strstr(m->notes[0], "read as llama because of --assume") != NULL);
    llm_model_free(m);
    how.assume = "lama";
    CHECK(llm_model_parse(config, sizeof config - 1, "t", &how, &err) == NULL);
}

TEST(used_defaults_are_noted) {
    struct llm_model *m = test_model("gemma-3-27b-it");
    bool vocab = false;
    for (size_t i = 0; i < m->nnotes; i++)
        vocab =
            vocab ||
            strcmp(m->notes[i],
                   "text_config.vocab_size is not in the config: 262208, the default of gemma3_text") == 0;
    CHECK(vocab);
    CHECK_INT(m->text.vocab, 262208);
    llm_model_free(m);
}

TEST(quantised_weights_only_change_memory) {
    struct llm_model *m = test_model("gpt-oss-20b");
    CHECK_INT(m->params.total, 20914757184);
    double experts = 24.0 * 32 * 3 * 2880 * 2880; /* without their bf16 biases */
    CHECK_NEAR(llm_weight_bytes(m), experts * 4.25 / 8 + 2 * (20914757184.0 - experts), 1);
    llm_model_free(m);
}
