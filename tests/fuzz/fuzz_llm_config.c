/* An untrusted config.json: it is rejected with a message, or gives a model whose modules sum to the total
 * and whose costs are finite. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "llm/static.h"

static void check_params(const struct llm_model *m) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->nops; i++) sum += llm_op_params(&m->ops[i]);
    if (sum != m->params.total) abort();
    if (m->decodes && m->params.active > m->params.total + m->params.embedding) abort();
}

static void check_cost(const struct llm_model *m) {
    struct err err;
    struct llm_workload w = {
        .batch = 3, .text_tokens = 50, .new_tokens = 40, .nimages = m->vision.rule ? 1 : 0
    };
    struct llm_device d = { .peak = { 1e15, 1e12 } };
    struct llm_static r;
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    w.images[0].width = 900;
    w.images[0].height = 700;
    if (llm_static_eval(m, &w, &d, &r, &err) < 0) return;
    const double values[] = { r.prefill.flops, r.prefill.bytes,      r.prefill.floor_s, r.decode.flops,
                              r.decode.bytes,  r.generation.floor_s, r.memory_bytes };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!isfinite(values[i]) || values[i] < 0) abort();
    jsonw_start(&j, &out, JSONW_COMPACT);
    jsonw_object(&j);
    llm_static_json_fields(&r, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
    llm_static_text(&r, (struct llm_print){ .width = 60 }, true, &out);
    strbuf_free(&out);
    llm_static_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    static const char *const assume[] = { NULL, "llama", "deepseek_ocr" };
    for (size_t i = 0; i < sizeof assume / sizeof *assume; i++) {
        struct llm_load how = { .assume = assume[i] };
        struct llm_model *m = llm_model_parse((const char *)data, size, "fuzz", &how, &err);
        if (m) {
            check_params(m);
            check_cost(m);
        }
        llm_model_free(m);
    }
    return 0;
}
