/* Parameter counts: equal to the published numbers, and checked part by part for DeepSeek-OCR. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "llm/cost.h"
#include "unit/llm/models.h"
#include "unit/test.h"

/* tests/data/models/SOURCES.md lists the sources. */
static const struct {
    const char *model;
    uint64_t total;
} published[] = {
    { "deepseek-v2-lite", 15706484224 },
    { "gemma-2-9b", 9241705984 },
    { "gemma-3-27b-it", 27432406640 },
    { "gpt-oss-20b", 20914757184 },
    { "llama-2-7b", 6738415616 },
    { "llama-3.1-8b-instruct", 8030261248 },
    { "llama-3.2-1b-instruct", 1235814400 },
    { "phi-4", 14659507200 },
    { "qwen2.5-32b-instruct", 32763876352 },
    { "qwen2.5-vl-3b-instruct", 3754622976 },
    { "qwen3-30b-a3b", 30532122624 },
    { "qwen3-8b", 8190735360 },
    { "deepseek-ocr", 3336106240 },
};

TEST(total_parameters_equal_the_published_counts) {
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(published); i++) {
        struct llm_model *m = test_model(published[i].model);
        if (m->params.total != published[i].total) {
            fprintf(stderr, "%s: %" PRIu64 ", published %" PRIu64 "\n", published[i].model, m->params.total,
                    published[i].total);
            wrong++;
        }
        llm_model_free(m);
    }
    CHECK_INT(wrong, 0);
}

TEST(deepseek_ocr_counts_part_by_part) {
    static const struct {
        const char *module;
        uint64_t params;
    } parts[] = {
        { "sam", 89670912 },      { "compressor", 5898240 }, { "clip", 303177728 },
        { "projector", 2622720 }, { "image_tokens", 2560 },  { "embedding", 165478400 },
        { "lm_head", 165478400 }, { "attention", 78643200 }, { "norms", 32000 },
        { "mlp", 26296320 },      { "experts", 2422210560 }, { "shared_experts", 75694080 },
        { "router", 901120 },
    };
    struct llm_model *m = test_model("deepseek-ocr");
    uint64_t sum = 0, decoder = 0;
    for (size_t i = 0; i < COUNTOF(parts); i++) {
        CHECK_INT(llm_module_params(m, parts[i].module), parts[i].params);
        sum += parts[i].params;
        if (i >= 5) decoder += parts[i].params;
    }
    CHECK_INT(sum, m->params.total);
    CHECK_INT(decoder, 2934734080);
    CHECK_INT(m->params.active, 574127360);
    CHECK_INT(m->params.active_inner, 408648960);
    CHECK_INT(llm_weight_bytes(m), 6672212480);
    CHECK_INT(llm_kv_bytes_per_token(m, LLM_DTYPE_UNKNOWN), 61440);
    llm_model_free(m);
}

TEST(parts_sum_to_the_whole) {
    for (size_t i = 0; i < COUNTOF(published); i++) {
        struct llm_model *m = test_model(published[i].model);
        uint64_t sum = 0;
        for (size_t k = 0; k < m->nops; k++) {
            bool first = true;
            for (size_t j = 0; j < k; j++) first = first && strcmp(m->ops[j].module, m->ops[k].module) != 0;
            if (first) sum += llm_module_params(m, m->ops[k].module);
        }
        CHECK_INT(sum, m->params.total);
        CHECK(m->params.active <= m->params.total);
        llm_model_free(m);
    }
}
