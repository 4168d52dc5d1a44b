/* A config.json from anyone: refused with a message, or a model whose parts sum to its whole. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "llm/model.h"
#include "fuzz/fuzz.h"

static void check(const struct llm_model *m) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->nops; i++) sum += llm_op_params(&m->ops[i]);
    if (sum != m->params.total) abort();
    if (m->decodes && m->params.active > m->params.total + m->params.embedding) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    static const char *const assume[] = { NULL, "llama", "deepseek_ocr" };
    for (size_t i = 0; i < sizeof assume / sizeof *assume; i++) {
        struct llm_load how = { .assume = assume[i] };
        struct llm_model *m = llm_model_parse((const char *)data, size, "fuzz", &how, &err);
        if (m) check(m);
        llm_model_free(m);
    }
    return 0;
}
