#include "run/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

#define TEXT_FIELD(name) \
    { #name, offsetof(struct run_model, name), true }
#define NUMBER_FIELD(name) \
    { #name, offsetof(struct run_model, name), false }
const struct run_model_field run_model_fields[] = {
    TEXT_FIELD(family),
    TEXT_FIELD(architecture),
    TEXT_FIELD(dtype),
    TEXT_FIELD(quantization),
    TEXT_FIELD(costs_from),
    NUMBER_FIELD(parameters),
    NUMBER_FIELD(active_parameters),
    NUMBER_FIELD(weight_bytes),
    NUMBER_FIELD(layers),
    NUMBER_FIELD(hidden_size),
    NUMBER_FIELD(heads),
    NUMBER_FIELD(kv_heads),
    NUMBER_FIELD(vocab_size),
    NUMBER_FIELD(experts),
    NUMBER_FIELD(experts_per_token),
    NUMBER_FIELD(context),
};
const size_t run_model_fields_n = COUNTOF(run_model_fields);

void run_info_init(struct run_info *in) {
    memset(in, 0, sizeof *in);
    in->peak.flops_per_s = in->peak.bytes_per_s = in->context.tokens = NAN;
    for (size_t i = 0; i < run_model_fields_n; i++) {
        void *field = (char *)&in->facts + run_model_fields[i].offset;
        if (!run_model_fields[i].text) *(double *)field = NAN;
    }
}

struct stats run_figure_stats(const struct run_info *in, const struct run_figure *f) {
    struct stats s = stats_of(f->values, f->n);
    if (in->neach_repeat != f->n) return s;
    uint32_t *inputs = xcalloc(f->n + 1, sizeof *inputs);
    for (size_t i = 0; i < f->n; i++) inputs[i] = in->each_repeat[i].input;
    s.cv = stats_grouped_cv(f->values, inputs, f->n);
    free(inputs);
    return s;
}
