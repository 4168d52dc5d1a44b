/* Quantised weights: bytes against published checkpoints, modules without quantisation, and peaks.
 *
 * Published sizes are sums of the tensors' bytes, as quoted in public repositories; the checkpoints
 * themselves were not opened. The configs below are written by hand from the models' sizes.
 *   openai/gpt-oss-20b                   13,761,264,768   index, total_size
 *   openai/gpt-oss-120b                  65,248,815,744   tensor bytes of its 15 weight files
 *   deepseek-ai/DeepSeek-V3             688,586,727,753   bytes of its weight files at revision afb92e1f
 *   Qwen/Qwen3-32B-FP8                   34,322,434,048   Hub: 1,558,406,144 BF16 + 31,205,621,760 F8_E4M3
 *                                                         (bf16 scales; the model assumes fp32, 0.01% more)
 *   nvidia/Llama-3.3-70B-Instruct-FP4    42,709,045,632   index, total_size
 *   Llama-3.1-8B "RedHatAI/...-FP8-dynamic"        9,083,953,152   headers; the quote shortens the name
 *   Llama-3.1-8B "RedHatAI/...-quantized.w4a16"    5,735,587,840   headers; see below
 *   Llama-3.3-70B "RedHatAI/...-quantized.w4a16"  39,525,311,232   headers; see below
 *   AWQ, 80 layers, 9 files                       39,767,785,472   index, total_size; the quote has no name
 * The layouts of the two w4a16 files are inferred from their sizes: GPTQ plus zero biases (which the model
 * does not count), and packed int4 plus a group index. The AWQ size is that of a 70B Llama 3 to the byte. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "llm/gpus.h"
#include "llm/safetensors.h"
#include "llm/static.h"
#include "unit/llm/models.h"
#include "unit/test.h"

#define LLAMA(hidden, layers, heads, inter)                                                           \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"torch_dtype\":\"bfloat16\",\"vocab_size\":128256,"   \
    "\"hidden_size\":" #hidden ",\"num_hidden_layers\":" #layers ",\"num_attention_heads\":" #heads   \
    ",\"num_key_value_heads\":8,\"intermediate_size\":" #inter ",\"max_position_embeddings\":131072," \
    "\"tie_word_embeddings\":false,\"quantization_config\":"
#define LLAMA_8B LLAMA(4096, 32, 32, 14336)
#define LLAMA_70B LLAMA(8192, 80, 64, 28672)

static const char gpt_oss_120b[] =
    "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"hidden_size\":2880,"
    "\"num_hidden_layers\":36,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,"
    "\"intermediate_size\":2880,\"num_local_experts\":128,\"num_experts_per_tok\":4,\"vocab_size\":201088,"
    "\"sliding_window\":128,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
    "\"quantization_config\":{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":"
    "[\"model.layers.*.self_attn\",\"model.layers.*.mlp.router\",\"model.embed_tokens\",\"lm_head\"]}}";

static const char deepseek_v3[] =
    "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\",\"torch_dtype\":"
    "\"bfloat16\","
    "\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":128,\"num_key_value_heads\":128,"
    "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"n_routed_experts\":256,"
    "\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"moe_layer_freq\":1,"
    "\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"
    "\"v_head_dim\":128,\"vocab_size\":129280,\"max_position_embeddings\":163840,"
    "\"num_nextn_predict_layers\":1,\"tie_word_embeddings\":false,\"quantization_config\":"
    "{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":\"dynamic\",\"weight_block_size\":[128,"
    "128]}}";

static const char qwen3_32b_fp8[] =
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"torch_dtype\":\"bfloat16\","
    "\"hidden_size\":5120,\"num_hidden_layers\":64,\"num_attention_heads\":64,\"num_key_value_heads\":8,"
    "\"head_dim\":128,\"intermediate_size\":25600,\"vocab_size\":151936,\"max_position_embeddings\":40960,"
    "\"tie_word_embeddings\":false,\"quantization_config\":{\"quant_method\":\"fp8\","
    "\"activation_scheme\":\"dynamic\",\"weight_block_size\":[128,128]}}";

#define PACKED_GROUPS                                                                                  \
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"ignore\":[\"lm_head\"]," \
    "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"input_activations\":null,"             \
    "\"weights\":{\"num_bits\":4,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"group\","          \
    "\"group_size\":128,\"actorder\":\"group\"}}}}}"
#define FP8_DYNAMIC                                                                                     \
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"ignore\":[\"lm_head\"]," \
    "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],"                                         \
    "\"input_activations\":{\"num_bits\":8,\"type\":\"float\",\"dynamic\":true},"                       \
    "\"weights\":{\"num_bits\":8,\"type\":\"float\",\"symmetric\":true,\"strategy\":\"channel\"}}}}}"
#define GPTQ "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,\"desc_act\":true}}"
#define AWQ \
    "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"zero_point\":true,\"version\":\"gemm\"}}"
#define NVFP4 \
    "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"group_size\":16,\"ignore\":[\"lm_head\"]}}"

TEST(bytes_equal_published_checkpoints_within_half_a_percent) {
    static const struct {
        const char *name, *config;
        double bytes;
    } rows[] = {
        { "openai/gpt-oss-120b", gpt_oss_120b, 65248815744 },
        { "deepseek-ai/DeepSeek-V3", deepseek_v3, 688586727753 },
        { "Qwen/Qwen3-32B-FP8", qwen3_32b_fp8, 34322434048 },
        { "Llama-3.1-8B FP8-dynamic", LLAMA_8B FP8_DYNAMIC, 9083953152 },
        { "Llama-3.1-8B w4a16 (GPTQ)", LLAMA_8B GPTQ, 5735587840 },
        { "Llama-3.3-70B w4a16", LLAMA_70B PACKED_GROUPS, 39525311232 },
        { "Llama-3.1-70B AWQ", LLAMA_70B AWQ, 39767785472 },
        { "nvidia/Llama-3.3-70B-Instruct-FP4", LLAMA_70B NVFP4, 42709045632 },
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct llm_model *m = test_model_text(rows[i].config);
        double bytes = llm_weight_bytes(m) + m->mtp.bytes, off = bytes / rows[i].bytes - 1;
        if (fabs(off) > 0.0006) {
            fprintf(stderr, "%s: %.0f, published %.0f (%+.3f%%)\n", rows[i].name, bytes, rows[i].bytes,
                    off * 100);
            wrong++;
        }
        llm_model_free(m);
    }
    CHECK_INT(wrong, 0);
}

TEST(bytes_are_exact_where_the_config_has_the_whole_layout) {
    struct llm_model *m = test_model("gpt-oss-20b");
    CHECK_INT(llm_weight_bytes(m), 13761264768);
    llm_model_free(m);
    m = test_model_text(LLAMA_70B AWQ);
    CHECK_INT(llm_weight_bytes(m), 39767785472);
    llm_model_free(m);
    m = test_model_text(LLAMA_70B NVFP4);
    CHECK_INT(llm_weight_bytes(m), 42709045632);
    llm_model_free(m);
    m = test_model_text(LLAMA_8B FP8_DYNAMIC);
    CHECK_INT(llm_weight_bytes(m), 9083953152);
    llm_model_free(m);
    m = test_model_text(LLAMA_70B PACKED_GROUPS);
    CHECK_INT(llm_weight_bytes(m), 39525311232);
    llm_model_free(m);
}

TEST(layouts_are_described) {
    static const struct {
        const char *config, *text;
    } rows[] = {
        { deepseek_v3, "fp8 in 128x128 blocks (linear layers of the decoder)" },
        { LLAMA_8B GPTQ, "int4 in groups of 128 (linear layers of the decoder)" },
        { LLAMA_8B FP8_DYNAMIC, "fp8 per channel (linear layers of the decoder)" },
        { LLAMA_8B NVFP4, "nvfp4 (linear layers of the decoder)" },
        { gpt_oss_120b, "mxfp4 (experts)" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct llm_model *m = test_model_text(rows[i].config);
        CHECK_STR(m->quantization, rows[i].text);
        llm_model_free(m);
    }
}

TEST(unknown_methods_are_noted_and_counted_in_the_configs_type) {
    struct llm_model *m = test_model_text(LLAMA_8B "{\"quant_method\":\"aqlm\"}}");
    CHECK(m->quantization == NULL);
    CHECK_INT(llm_weight_bytes(m), 2 * 8030261248);
    bool noted = false;
    for (size_t i = 0; i < m->nnotes; i++)
        noted = noted || strstr(m->notes[i], "quantisation 'aqlm' is not modelled");
    CHECK(noted);
    llm_model_free(m);
}

/* ---- Modules without quantisation */
static double awq_bytes_without(const char *ignore) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s,
                "%s{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"modules_to_not_convert\":%s}}",
                LLAMA_8B, ignore);
    struct llm_model *m = test_model_text(s.buf);
    double bytes = llm_weight_bytes(m);
    strbuf_free(&s);
    llm_model_free(m);
    return bytes;
}

TEST(modules_of_the_ignore_list_keep_their_type) {
    double all = awq_bytes_without("[]"), more = 4096 * 4096 * (2 - 4.15625 / 8); /* a q_proj in bf16 */
    static const struct {
        const char *ignore;
        double layers; /* with q_proj in bf16 */
    } rows[] = {
        { "[\"lm_head\"]", 0 },
        { "[\"model.layers.3.self_attn.q_proj\"]", 1 },
        { "[\"model.layers.3.self_attn.q_proj\",\"model.layers.30.self_attn.q_proj\"]", 2 },
        { "[\"q_proj\"]", 32 },
        { "[\"q_pro\"]", 0 },
        { "[\"model.layers.*.self_attn.q_proj\"]", 32 },
        { "[\"model.layers.1*.self_attn.q_proj\"]", 11 },
        { "[\"language_model.model.layers.3.self_attn.q_proj\"]", 1 },
        { "[\"vision_tower.encoder.layers.3.self_attn.q_proj\"]", 0 },
        { "[\"re:.*q_proj\"]", 32 },
        { "[\"re:.*q_pro$\"]", 0 },
        { "[\"re:q_proj\"]", 0 },
        { "[\"re:.*\\\\.[0-3]\\\\.self_attn\\\\.q_proj$\"]", 4 },
        { "[\"re:.*\\\\d+.self_attn.q_proj\"]", 32 },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        double got = (awq_bytes_without(rows[i].ignore) - all) / more;
        if (fabs(got - rows[i].layers) > 1e-6) fprintf(stderr, "%s: %g layers\n", rows[i].ignore, got);
        CHECK_NEAR(got, rows[i].layers, 1e-6);
    }
}

TEST(an_excluded_head_is_counted_in_the_models_type) {
    struct llm_model *with =
        test_model_text(LLAMA_8B "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}}");
    struct llm_model *without = test_model_text(
        LLAMA_8B "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\",\"exclude_modules\":[\"lm_head\"]}}");
    CHECK_INT(llm_weight_bytes(without) - llm_weight_bytes(with), 128256.0 * 4096 - 8);
    llm_model_free(with);
    llm_model_free(without);
}

TEST(hostile_patterns_end_quickly) {
    char ignore[400];
    snprintf(ignore, sizeof ignore,
             "[\"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a1\",\"re:.*.*.*.*.*.*.*.*.*.*.*.*.*.*x1\"]");
    CHECK_NEAR(awq_bytes_without(ignore), awq_bytes_without("[]"), 1);
}

/* ---- From the headers of the weight files */
TEST(headers_reveal_a_quantisation_that_the_config_omits) {
    static const struct {
        const char *head;
        double data;
        const char *text;
    } rows[] = {
        { "{\"l.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[256,384],\"data_offsets\":[0,98304]},"
          "\"l.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[98304,98328]}}",
          98328, "fp8 in 128x128 blocks (linear layers of the decoder)" },
        { "{\"l.weight\":{\"dtype\":\"I8\",\"shape\":[4,2],\"data_offsets\":[0,8]},"
          "\"l.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[4,1],\"data_offsets\":[8,16]}}",
          16, "int8 per channel (linear layers of the decoder)" },
        { "{\"l.g_idx\":{\"dtype\":\"I32\",\"shape\":[128],\"data_offsets\":[0,512]},"
          "\"l.qweight\":{\"dtype\":\"I32\",\"shape\":[16,64],\"data_offsets\":[512,4608]},"
          "\"l.qzeros\":{\"dtype\":\"I32\",\"shape\":[2,8],\"data_offsets\":[4608,4672]},"
          "\"l.scales\":{\"dtype\":\"F16\",\"shape\":[2,64],\"data_offsets\":[4672,4928]}}",
          4928, "int4 in groups of 64 (linear layers of the decoder)" },
        { "{\"l.weight\":{\"dtype\":\"U8\",\"shape\":[2,8],\"data_offsets\":[0,16]},"
          "\"l.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1],\"data_offsets\":[16,18]},"
          "\"l.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[18,22]}}",
          22, "nvfp4 (linear layers of the decoder)" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct err err = { "" };
        struct safetensors *st =
            safetensors_parse(rows[i].head, strlen(rows[i].head), (uint64_t)rows[i].data, "t", &err);
        if (!st) fprintf(stderr, "%s\n", err.msg);
        CHECK(st != NULL);
        static const char config[] = LLAMA_8B "null}";
        struct llm_load how = { .weights = st };
        struct llm_model *m = llm_model_parse(config, sizeof config - 1, "t", &how, &err);
        CHECK(m != NULL);
        CHECK_STR(m->quantization ? m->quantization : "none", rows[i].text);
        llm_model_free(m);
        safetensors_close(st);
    }
}

/* ---- Peaks */
TEST(peaks_follow_what_the_gpu_does_with_the_type) {
    static const struct {
        const char *gpu, *config;
        double tflops;
        enum llm_dtype type;
    } rows[] = {
        { "h100", LLAMA_8B FP8_DYNAMIC, 1978.9, LLM_FP8 },
        { "a100", LLAMA_8B FP8_DYNAMIC, 312, LLM_BF16 }, /* no fp8 units */
        { "mi300x", LLAMA_8B FP8_DYNAMIC, 2614.9, LLM_FP8 },
        { "l40s", LLAMA_8B FP8_DYNAMIC, 733, LLM_FP8 },
        { "h100", LLAMA_8B NVFP4, 989.4, LLM_BF16 },
        { "b200", LLAMA_8B NVFP4, 9000, LLM_NVFP4 },
        { "b200", LLAMA_8B GPTQ, 2250, LLM_BF16 },
        { "v100", LLAMA_8B GPTQ, 125, LLM_F16 },
        { "mi355x", gpt_oss_120b, 10066.3, LLM_MXFP4 },
        { "h200", gpt_oss_120b, 989.4, LLM_BF16 },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct err err = { "" };
        struct llm_model *m = test_model_text(rows[i].config);
        const struct llm_gpu *g = llm_gpu_find(rows[i].gpu, &err);
        CHECK(g != NULL);
        struct llm_device d = llm_device_of(g, m, 0, NULL, 0);
        CHECK_NEAR(d.quantized.flop_per_s / 1e12, rows[i].tflops, 1e-6);
        CHECK_INT(d.quantized.type, rows[i].type);
        CHECK(d.quantized.reason != NULL);
        llm_model_free(m);
    }
    struct err err;
    CHECK_NEAR(llm_gpu_flop_per_s(llm_gpu_find("a100", &err), LLM_INT8) / 1e12, 624, 1e-6);
}
