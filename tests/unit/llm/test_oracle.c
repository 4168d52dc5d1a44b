/* Compares parameters and FLOPs with PyTorch's FLOP counter (data from tests/gpu/flop_oracle.py). The
 * counter measures eager attention: every query with every key, masked afterwards, and logits for every
 * row. Therefore we compute all rows of the head and full-square attention; everything else must match
 * unchanged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonr.h"
#include "llm/cost.h"
#include "unit/llm/models.h"
#include "unit/test.h"

static const struct llm_setup all_rows = { .peak = { NAN, NAN }, .head_all = true };

static json_t *load(void) {
    struct err err = { "" };
    json_t *root = jsonr_load_path("tests/data/flops/oracle.json", 4 << 20, &err);
    if (!root) fprintf(stderr, "%s\n", err.msg);
    CHECK(root != NULL);
    return root;
}

static struct llm_model *model_of(const json_t *c) {
    char *text = json_dumps(json_object_get(c, "config"), JSON_COMPACT);
    struct llm_model *m = test_model_text(text);
    free(text);
    return m;
}

static double number(const json_t *c, const char *key) { return json_number_value(json_object_get(c, key)); }

/* Every query of a pass with every key, ignoring windows and causality. */
static double square_attention(const struct llm_model *m, double queries, double keys) {
    double sum = 0;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        if (op->pairs == LLM_PAIRS_CAUSAL)
            sum += 2.0 * (double)(op->count * op->heads * (op->qk_dim + op->v_dim)) * queries * keys;
    }
    return sum;
}

/* The reference caches MLA's latent and expands all of it again at every step. Our figures do not include
 * this recomputation. */
static double mla_expansion(const struct llm_model *m, double past) {
    const struct llm_text *t = &m->text;
    return 2.0 * past * (double)(t->layers * t->kv_lora_rank * t->heads * (t->qk_nope_dim + t->v_head_dim));
}

static int differs(const char *name, const char *what, double ours, double theirs) {
    if (fabs(ours / theirs - 1) <= 0.005) return 0;
    fprintf(stderr, "%s: %s %.0f, counted %.0f (%+.2f%%)\n", name, what, ours, theirs,
            100 * (ours / theirs - 1));
    return 1;
}

TEST(parameters_equal_those_of_the_reference_models) {
    json_t *root = load(), *c;
    size_t i;
    int wrong = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        struct llm_model *m = model_of(c);
        uint64_t theirs = (uint64_t)number(c, "params");
        if (m->params.total != theirs) {
            fprintf(stderr, "%s: %llu parameters, counted %llu\n",
                    json_string_value(json_object_get(c, "name")), (unsigned long long)m->params.total,
                    (unsigned long long)theirs);
            wrong++;
        }
        llm_model_free(m);
    }
    CHECK(json_array_size(json_object_get(root, "cases")) >= 30);
    CHECK_INT(wrong, 0);
    json_decref(root);
}

TEST(decoder_flops_agree_with_the_counter) {
    json_t *root = load(), *c;
    size_t i;
    int wrong = 0, seen = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        if (!json_object_get(c, "prefill_flops")) continue;
        struct llm_model *m = model_of(c);
        double n = number(c, "prompt_tokens"), keys = number(c, "decode_context");
        struct llm_cost p = llm_cost_prefill(m, &all_rows, 1, (uint64_t)n, 0);
        struct llm_cost d = llm_cost_decode(m, &all_rows, 1, (uint64_t)keys);
        wrong += differs(name, "prefill", p.linear_flops + p.head_flops + square_attention(m, n, n),
                         number(c, "prefill_flops"));
        wrong += differs(name, "decode", d.flops + mla_expansion(m, keys - 1), number(c, "decode_flops"));
        seen++;
        llm_model_free(m);
    }
    CHECK(seen >= 16);
    CHECK_INT(wrong, 0);
    json_decref(root);
}

TEST(vision_flops_agree_with_the_counter) {
    json_t *root = load(), *c;
    size_t i;
    int wrong = 0, seen = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        const json_t *size = json_object_get(c, "image");
        if (!size) continue;
        struct llm_model *m = model_of(c);
        struct llm_image_plan plan;
        struct err err;
        CHECK_INT(llm_image_plan(m, (uint64_t)json_integer_value(json_array_get(size, 0)),
                                 (uint64_t)json_integer_value(json_array_get(size, 1)),
                                 &(struct llm_image_opts){ 0 }, &plan, &err),
                  0);
        double sum = 0;
        for (int s = 1; s < m->nstages; s++) sum += llm_cost_vision(m, &all_rows, s, &plan.counts).flops;
        wrong += differs(name, "image", sum, number(c, "vision_flops"));
        seen++;
        llm_model_free(m);
    }
    CHECK(seen >= 8);
    CHECK_INT(wrong, 0);
    json_decref(root);
}
