#include "run/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "llm/model.h"

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

static double known(uint64_t v) { return v ? (double)v : NAN; }

void run_model_facts(const struct llm_model *m, struct run_model *out) {
    out->family = m->family;
    out->architecture = m->architecture ? m->architecture : m->model_type;
    if (!out->dtype) out->dtype = llm_dtype_name(m->dtype);
    out->quantization = m->quantization;
    out->parameters = (double)m->params.total;
    out->active_parameters = (double)(m->decodes ? m->params.active : m->params.total);
    out->weight_bytes = llm_weight_bytes(m);
    if (!m->decodes) return;
    out->layers = m->text.layers;
    out->hidden_size = (double)m->text.hidden;
    out->heads = (double)m->text.heads;
    out->kv_heads = (double)m->text.kv_heads;
    out->vocab_size = (double)m->text.vocab;
    out->experts = known(m->text.experts);
    out->experts_per_token = known(m->text.experts_per_token);
    if (m->text.max_positions) out->context = (double)m->text.max_positions;
}

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
