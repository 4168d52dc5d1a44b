/* FLOPs, bytes and minimum times: exact values for DeepSeek-OCR, then properties of all models. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "llm/cost.h"
#include "unit/llm/models.h"
#include "unit/test.h"

static const struct llm_setup unknown = { .peak = { NAN, NAN } };
static const struct llm_setup h200 = { .peak = { 989.4e12, 4.8e12 } };
static const char *const all_models[] = {
    "deepseek-ocr",
    "deepseek-v2-lite",
    "gemma-2-9b",
    "gemma-3-27b-it",
    "gpt-oss-20b",
    "llama-2-7b",
    "llama-3.1-8b-instruct",
    "phi-4",
    "qwen2.5-32b-instruct",
    "qwen2.5-vl-3b-instruct",
    "qwen3-30b-a3b",
    "qwen3-8b",
};

/* Values given with two decimals of a GFLOP must round to exactly that. */
#define CHECK_GF(flops, gf) CHECK_NEAR((flops) / 1e9, gf, 0.00501)

static struct llm_image_plan plan_of(const struct llm_model *m, uint64_t w, uint64_t h, const char *mode) {
    struct llm_image_plan p;
    struct err err = { "" };
    CHECK_INT(llm_image_plan(m, w, h, &(struct llm_image_opts){ .mode = mode }, &p, &err), 0);
    return p;
}

static double vision_flops(const struct llm_model *m, int stage, const struct llm_counts *c) {
    return llm_cost_vision(m, &unknown, stage, c).flops;
}

static double op_flops(const struct llm_model *m, int stage, const char *prefix, const struct llm_counts *c) {
    double sum = 0;
    struct llm_pass pass = { .counts = *c };
    for (size_t i = 0; i < m->nops; i++)
        if (m->ops[i].stage == stage && strncmp(m->ops[i].name, prefix, strlen(prefix)) == 0)
            sum += llm_cost_op(m, &unknown, &m->ops[i], &pass).flops;
    return sum;
}

TEST(deepseek_ocr_vision_flops_by_view) {
    static const struct {
        const char *mode;
        double patch, neck, net, sam, clip, projector, view;
        uint64_t tokens;
    } rows[] = {
        { "base", 4.83, 6.44, 4.83, 976.91, 161.72, 1.34, 1139.97, 273 },
        { "small", 1.89, 2.52, 1.89, 325.62, 62.00, 0.52, 388.15, 111 },
        { "tiny", 1.21, 1.61, 1.21, 228.30, 39.67, 0.34, 268.31, 73 },
        { "large", 7.55, 10.07, 7.55, 1683.12, 258.00, 2.10, 1943.22, 421 },
    };
    struct llm_model *m = test_model("deepseek-ocr");
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct llm_image_plan p = plan_of(m, 2000, 1000, rows[i].mode);
        CHECK_GF(op_flops(m, 1, "patch_embed", &p.counts), rows[i].patch);
        CHECK_GF(op_flops(m, 1, "neck", &p.counts), rows[i].neck);
        CHECK_GF(op_flops(m, 1, "net_", &p.counts), rows[i].net);
        CHECK_GF(vision_flops(m, 1, &p.counts), rows[i].sam);
        CHECK_GF(vision_flops(m, 2, &p.counts), rows[i].clip);
        CHECK_GF(vision_flops(m, 3, &p.counts), rows[i].projector);
        CHECK_GF(vision_flops(m, 1, &p.counts) + vision_flops(m, 2, &p.counts) +
                     vision_flops(m, 3, &p.counts),
                 rows[i].view);
        CHECK_INT(p.tokens, rows[i].tokens);
    }
    llm_model_free(m);
}

/* One layer of a kind: operators shared by all 12 layers count 1/12. */
static double block_flops(const struct llm_model *m, bool window, const struct llm_counts *c) {
    static const char *const own[] = { "qkv", "rel_bias", "attention", "proj" };
    double layers = window ? 8 : 4, sum = op_flops(m, 1, "lin1", c) / 12 + op_flops(m, 1, "lin2", c) / 12;
    for (size_t i = 0; i < COUNTOF(own); i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_window", own[i]);
        double windowed = op_flops(m, 1, name, c), all = op_flops(m, 1, own[i], c);
        sum += (window ? windowed : all - windowed) / layers;
    }
    return sum;
}

TEST(deepseek_ocr_sam_blocks_and_decoder_layers) {
    static const struct {
        const char *mode;
        double windowed, global;
    } rows[] = { { "base", 64.94, 110.33 },
                 { "small", 24.56, 30.71 },
                 { "tiny", 19.13, 17.82 },
                 { "large", 98.24, 218.00 } };
    struct llm_model *m = test_model("deepseek-ocr");
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct llm_image_plan p = plan_of(m, 2000, 1000, rows[i].mode);
        CHECK_GF(block_flops(m, true, &p.counts), rows[i].windowed);
        CHECK_GF(block_flops(m, false, &p.counts), rows[i].global);
    }
    struct llm_counts one = llm_pass_decoder(&unknown, 1, 1, 0).counts;
    double projections = op_flops(m, 0, "q_proj", &one) + op_flops(m, 0, "k_proj", &one) +
                         op_flops(m, 0, "v_proj", &one) + op_flops(m, 0, "o_proj", &one);
    CHECK_NEAR(projections / 12e6, 13.107, 0.0006);
    CHECK_NEAR((op_flops(m, 0, "gate_proj", &one) + op_flops(m, 0, "up_proj", &one) +
                op_flops(m, 0, "down_proj", &one)) /
                   1e6,
               52.593, 0.0006);
    CHECK_NEAR(op_flops(m, 0, "router", &one) / 11e6, 0.164, 0.0006);
    CHECK_NEAR(op_flops(m, 0, "experts", &one) / 11e6, 41.288, 0.0006);
    CHECK_NEAR(op_flops(m, 0, "shared", &one) / 11e6, 13.763, 0.0006);
    CHECK_NEAR(op_flops(m, 0, "lm_head", &one) / 1e6, 330.96, 0.0051);
    llm_model_free(m);
}

TEST(deepseek_ocr_prompt_lengths_by_grid) {
    static const struct {
        uint64_t width, height, tokens;
    } rows[] = { { 640, 480, 283 },   { 1300, 650, 493 },  { 650, 1300, 503 },
                 { 1000, 1000, 703 }, { 1654, 2339, 913 }, { 1358, 1358, 1213 } };
    struct llm_model *m = test_model("deepseek-ocr");
    for (size_t i = 0; i < COUNTOF(rows); i++)
        CHECK_INT(plan_of(m, rows[i].width, rows[i].height, NULL).tokens + 10, rows[i].tokens);
    llm_model_free(m);
}

TEST(deepseek_ocr_page_with_tiles) {
    struct llm_model *m = test_model("deepseek-ocr");
    struct llm_image_plan p = plan_of(m, 1654, 2339, NULL);
    CHECK_INT(p.grid_width, 2);
    CHECK_INT(p.grid_height, 3);
    CHECK_INT(p.tokens, 903);
    CHECK_GF(vision_flops(m, 1, &p.counts), 2930.63);
    CHECK_GF(vision_flops(m, 2, &p.counts), 533.74);
    CHECK_GF(vision_flops(m, 3, &p.counts), 4.49);
    struct llm_image_plan wide = plan_of(m, 1000, 700, NULL);
    CHECK_INT(wide.tokens, 893);
    CHECK_INT(plan_of(m, 640, 640, NULL).tokens, 273);
    llm_model_free(m);
}

TEST(deepseek_ocr_tiles_match_the_reference) {
    static const struct {
        uint64_t width, height, max, w, h;
    } cases[] = {
        { 641, 640, 9, 2, 2 },   { 429, 806, 9, 1, 2 },   { 1000, 700, 9, 3, 2 },  { 1654, 2339, 9, 2, 3 },
        { 1357, 1357, 9, 2, 2 }, { 1600, 640, 9, 3, 1 },  { 1920, 1080, 9, 4, 2 }, { 1920, 1080, 6, 2, 1 },
        { 3000, 1200, 9, 4, 2 }, { 3000, 1200, 6, 3, 1 }, { 1358, 1358, 9, 3, 3 }, { 1358, 1358, 6, 2, 2 },
        { 4000, 500, 9, 8, 1 },  { 4000, 500, 6, 6, 1 },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        uint64_t w, h;
        llm_image_grid(cases[i].width, cases[i].height, 640, 2, cases[i].max, &w, &h);
        CHECK_INT(w, cases[i].w);
        CHECK_INT(h, cases[i].h);
    }
}

TEST(deepseek_ocr_prefill_and_decode_by_formula) {
    struct llm_model *m = test_model("deepseek-ocr");
    static const struct {
        uint64_t n;
        double linear, causal, full, all_head, total;
    } rows[] = { { 283, 231.28, 2.47, 4.92, 93.66, 234.08 },
                 { 703, 574.52, 15.20, 30.36, 232.66, 590.05 },
                 { 913, 746.13, 25.64, 51.21, 302.16, 772.10 } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        uint64_t n = rows[i].n;
        struct llm_cost c = llm_cost_prefill(m, &unknown, 1, n, 0);
        CHECK(c.flops == 817233920.0 * (double)n + 30720.0 * (double)(n * (n + 1)) + 330956800.0);
        CHECK_GF(c.linear_flops, rows[i].linear);
        CHECK_GF(c.attention_flops, rows[i].causal);
        CHECK_GF(c.full_attention_flops, rows[i].full);
        CHECK_GF(c.head_flops, 0.33);
        CHECK_GF(c.flops, rows[i].total);
        struct llm_setup all = { .peak = { NAN, NAN }, .head_all = true };
        CHECK_GF(llm_cost_prefill(m, &all, 1, n, 0).head_flops, rows[i].all_head);
    }
    static const uint64_t contexts[] = { 1, 914, 4096 };
    for (size_t i = 0; i < COUNTOF(contexts); i++) {
        double c = (double)contexts[i];
        struct llm_cost d = llm_cost_decode(m, &unknown, 1, contexts[i]);
        CHECK(d.flops == 1148190720.0 + 61440.0 * c);
        CHECK(d.kv_read_bytes + d.kv_write_bytes == 61440.0 * c);
        /* active weights plus one row of the embedding table */
        CHECK_NEAR(d.weight_bytes, 2 * (574127360.0 + 1280), 1);
        CHECK(isnan(d.floor_s));
        CHECK(llm_cost_bound(&d) == NULL);
    }
    llm_model_free(m);
}

TEST(flops_are_linear_in_batch) {
    for (size_t i = 0; i < COUNTOF(all_models); i++) {
        struct llm_model *m = test_model(all_models[i]);
        double one = llm_cost_prefill(m, &h200, 1, 777, 0).flops,
               many = llm_cost_prefill(m, &h200, 24, 777, 0).flops;
        CHECK_NEAR(many / one, 24, 1e-9);
        one = llm_cost_decode(m, &h200, 1, 5000).flops;
        many = llm_cost_decode(m, &h200, 24, 5000).flops;
        CHECK_NEAR(many / one, 24, 1e-9);
        llm_model_free(m);
    }
}

TEST(attention_is_quadratic_in_the_prompt_and_linear_past_a_window) {
    struct llm_model *m = test_model("llama-3.1-8b-instruct");
    double a = llm_cost_prefill(m, &h200, 1, 1000, 0).attention_flops;
    double b = llm_cost_prefill(m, &h200, 1, 2000, 0).attention_flops;
    double c = llm_cost_prefill(m, &h200, 1, 3000, 0).attention_flops;
    CHECK_NEAR((c - b) - (b - a), 2 * 2.0 * 32 * 32 * 128 * 2 * 500 * 1000,
               1); /* second difference of a square */
    llm_model_free(m);
    m = test_model("gpt-oss-20b");
    double w = 0;
    for (size_t i = 0; i < m->nops; i++) {
        struct llm_pass p1 = llm_pass_decoder(&h200, 1, 1000, 0), p2 = llm_pass_decoder(&h200, 1, 2000, 0);
        if (m->ops[i].window)
            w = llm_cost_op(m, &h200, &m->ops[i], &p2).flops - llm_cost_op(m, &h200, &m->ops[i], &p1).flops;
    }
    CHECK_NEAR(w, 2.0 * 12 * 64 * 128 * 128 * 1000,
               1); /* 12 layers, 64 heads, 64 + 64 wide, 128 keys per query */
    llm_model_free(m);
}

TEST(expert_bytes_are_between_k_and_all_experts) {
    struct llm_model *m = test_model("qwen3-30b-a3b");
    double one = 3.0 * 2048 * 768 * 2, layers = 48, before = 0;
    for (uint64_t t = 1; t <= 4096; t *= 2) {
        struct llm_pass p = llm_pass_decoder(&h200, t, 1, 99);
        double bytes = 0;
        for (size_t i = 0; i < m->nops; i++)
            if (m->ops[i].kind == LLM_OP_EXPERTS) bytes += llm_cost_op(m, &h200, &m->ops[i], &p).weight_bytes;
        CHECK(bytes >= 8 * one * layers * (1 - 1e-9) && bytes <= 128 * one * layers * (1 + 1e-9));
        CHECK(bytes >= before);
        if (t == 1) CHECK_NEAR(bytes, 8 * one * layers, 1);
        before = bytes;
    }
    CHECK_NEAR(before, 128 * one * layers, 1);
    llm_model_free(m);
}

TEST(experts_that_the_engine_counted_replace_the_expectation) {
    struct llm_model *m = test_model("qwen3-30b-a3b"); /* 128 experts, 8 per token */
    struct llm_setup counted = h200;
    double one = llm_cost_prefill(m, &h200, 1, 1, 0).weight_bytes,
           all = llm_cost_prefill(m, &h200, 1, 100000, 0).weight_bytes;
    counted.experts_read = 8;
    struct llm_cost skewed = llm_cost_prefill(m, &counted, 1, 512, 0);
    counted.experts_read = 1000; /* more than there are */
    struct llm_cost even = llm_cost_prefill(m, &counted, 1, 512, 0);
    double embedding = skewed.weight_bytes - one, rest = llm_cost_prefill(m, &h200, 1, 512, 0).weight_bytes;
    CHECK_NEAR(embedding, 511 * 2048 * 2.0, 1); /* 512 rows of the table instead of one */
    CHECK(skewed.weight_bytes < rest && rest < even.weight_bytes + 1);
    CHECK_NEAR(even.weight_bytes - 512 * 2048 * 2.0, all - 100000 * 2048 * 2.0, 1e3);
    CHECK_NEAR(skewed.flops, llm_cost_prefill(m, &h200, 1, 512, 0).flops, 0);
    llm_model_free(m);
}

TEST(operators_sum_to_stages_and_floors_hold) {
    for (size_t i = 0; i < COUNTOF(all_models); i++) {
        struct llm_model *m = test_model(all_models[i]);
        struct llm_pass p = llm_pass_decoder(&h200, 4, 333, 100);
        struct llm_cost sum = { 0 }, stage = llm_cost_prefill(m, &h200, 4, 333, 100);
        for (size_t k = 0; k < m->nops; k++) {
            if (m->ops[k].stage != LLM_STAGE_DECODER) continue;
            struct llm_cost c = llm_cost_op(m, &h200, &m->ops[k], &p);
            llm_cost_add(&sum, &c);
        }
        CHECK(sum.flops == stage.flops && sum.bytes == stage.bytes && sum.floor_s == stage.floor_s);
        CHECK_NEAR(stage.linear_flops + stage.attention_flops + stage.head_flops, stage.flops,
                   stage.flops * 1e-12);
        CHECK(stage.floor_s >= stage.compute_s && stage.floor_s >= stage.memory_s);
        CHECK(stage.floor_s <= stage.compute_s + stage.memory_s);
        CHECK(llm_cost_hard_bound_s(&stage) <= stage.floor_s);
        CHECK(llm_cost_hard_bound_s(&stage) == fmax(stage.compute_s, stage.memory_s));
        llm_model_free(m);
    }
}

TEST(generation_cost_is_the_sum_of_its_steps) {
    for (size_t i = 0; i < COUNTOF(all_models); i++) {
        struct llm_model *m = test_model(all_models[i]);
        struct llm_cost sum = { 0 }, all = llm_cost_generate(m, &h200, 3, 101, 300);
        for (uint64_t c = 101; c < 401; c++) {
            struct llm_cost d = llm_cost_decode(m, &h200, 3, c);
            llm_cost_add(&sum, &d);
        }
        CHECK_NEAR(all.flops / sum.flops, 1, 1e-9);
        CHECK_NEAR(all.bytes / sum.bytes, 1, 1e-9);
        CHECK_NEAR(all.floor_s / sum.floor_s, 1, 1e-6);
        llm_model_free(m);
    }
}

/* A model in which layers have two different windows; both become full during the generation. */
TEST(generation_with_two_windows_is_the_sum_of_its_steps) {
    struct llm_model *m = test_model("gemma-2-9b");
    struct llm_cost sum = { 0 };
    unsigned windows = 0;
    for (size_t i = 0; i < m->nops; i++)
        if (m->ops[i].kind == LLM_OP_ATTENTION) m->ops[i].window = windows++ ? 300 : 150;
    CHECK(windows >= 2);
    struct llm_cost all = llm_cost_generate(m, &h200, 3, 101, 300);
    for (uint64_t c = 101; c < 401; c++) {
        struct llm_cost d = llm_cost_decode(m, &h200, 3, c);
        llm_cost_add(&sum, &d);
    }
    CHECK_NEAR(all.flops / sum.flops, 1, 1e-9);
    CHECK_NEAR(all.kv_read_bytes / sum.kv_read_bytes, 1, 1e-9);
    llm_model_free(m);
}

/* The cache of a model with 8-bit weights has 16-bit values. */
TEST(kv_bytes_per_token_are_the_bytes_that_a_step_writes) {
    struct llm_model *m = test_model("llama-2-7b");
    m->dtype = LLM_FP8;
    CHECK_NEAR(llm_kv_bytes_per_token(m, LLM_DTYPE_UNKNOWN), llm_cost_decode(m, &h200, 1, 10).kv_write_bytes,
               0);
    llm_model_free(m);
}

TEST(chunked_prompt_has_the_flops_of_the_whole) {
    for (size_t i = 0; i < COUNTOF(all_models); i++) {
        struct llm_model *m = test_model(all_models[i]);
        struct llm_cost whole = llm_cost_prefill(m, &h200, 1, 1000, 0),
                        a = llm_cost_prefill(m, &h200, 1, 400, 0),
                        b = llm_cost_prefill(m, &h200, 1, 600, 400);
        CHECK_NEAR((a.flops - a.head_flops + b.flops) / whole.flops, 1, 1e-12);
        llm_model_free(m);
    }
}

TEST(qwen_images_keep_their_size_within_pixel_limits) {
    struct llm_model *m = test_model("qwen2.5-vl-3b-instruct");
    struct llm_image_plan p = plan_of(m, 1000, 700, NULL);
    CHECK_INT(p.views[0].width, 1008); /* 1000 / 28 = 35.7: 36 units */
    CHECK_INT(p.views[0].height, 700);
    CHECK_INT(p.tokens, 36 * 25);
    CHECK_INT(p.counts.rows[LLM_ROWS_PATCHES], 4 * 36 * 25);
    CHECK_INT(plan_of(m, 20, 20, NULL).tokens, 4); /* enlarged to 3136 pixels */
    CHECK(plan_of(m, 9000, 9000, NULL).tokens <= 12845056 / 784);
    llm_model_free(m);
}

TEST(text_models_reject_images) {
    struct llm_model *m = test_model("llama-2-7b");
    struct llm_image_plan p;
    struct err err;
    CHECK_INT(llm_image_plan(m, 10, 10, &(struct llm_image_opts){ 0 }, &p, &err), -1);
    CHECK_STR(err.msg, "llama-2-7b does not support images: remove --image");
    llm_model_free(m);
}
