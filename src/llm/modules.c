#include "llm/modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

/* Prefill and the image stages as one pass. Each operator uses only the counts of its own stage. */
static struct llm_pass prefill_pass(const struct llm_request *q, const struct llm_setup *setup) {
    struct llm_pass p = llm_pass_decoder(setup, (uint64_t)q->batch, (uint64_t)q->prompt_tokens, 0);
    for (size_t i = 0; q->image && i < COUNTOF(p.counts.rows); i++)
        if (i != LLM_ROWS_TOKENS && i != LLM_ROWS_HEAD) p.counts.rows[i] = q->image->rows[i] * q->batch;
    for (size_t i = 0; q->image && i < COUNTOF(p.counts.pairs); i++)
        p.counts.pairs[i] = q->image->pairs[i] * q->batch;
    return p;
}

static void add_to_module(struct llm_modules *r, const struct llm_module *op) {
    struct llm_module *m = NULL;
    for (size_t i = 0; i < r->nmodules && !m; i++)
        if (strcmp(r->modules[i].module, op->module) == 0 && r->modules[i].stage == op->stage)
            m = &r->modules[i];
    if (!m) {
        m = &r->modules[r->nmodules++];
        *m = (struct llm_module){ .stage = op->stage, .module = op->module };
    }
    m->layers = MAX(m->layers, op->layers);
    m->params += op->params;
    m->prefill_flops += op->prefill_flops;
    m->prefill_bytes += op->prefill_bytes;
    m->step_flops += op->step_flops;
    m->step_bytes += op->step_bytes;
    m->activation_bytes = MAX(m->activation_bytes, op->activation_bytes);
}

static int by_prefill_flops(const void *a, const void *b) {
    const struct llm_module *x = a, *y = b;
    if (x->prefill_flops != y->prefill_flops) return x->prefill_flops < y->prefill_flops ? 1 : -1;
    if (x->step_bytes != y->step_bytes) return x->step_bytes < y->step_bytes ? 1 : -1;
    return strcmp(x->module, y->module);
}

/* Numbers that the operator writes per row. */
static double output_width(const struct llm_op *op) {
    if (op->kind == LLM_OP_ATTENTION) return (double)(op->heads * op->v_dim);
    return (double)(op->kind == LLM_OP_NORM ? op->in : op->out * MAX(op->topk, 1));
}

/* Sorts the rows and computes the figures per layer and the shares. */
static void finish_rows(struct llm_module *v, size_t n, double prefill_flops) {
    if (n) qsort(v, n, sizeof *v, by_prefill_flops);
    for (size_t i = 0; i < n; i++) {
        double layers = (double)MAX(v[i].layers, 1);
        v[i].prefill_layer_flops = v[i].prefill_flops / layers;
        v[i].step_layer_bytes = v[i].step_bytes / layers;
        v[i].prefill_share = v[i].prefill_flops / prefill_flops;
    }
}

void llm_modules_find(struct llm_modules *out, const struct llm_model *m, const struct llm_peak *peak,
                      const struct llm_request *request) {
    struct llm_setup setup = { .peak = *peak };
    struct llm_pass prefill = prefill_pass(request, &setup),
                    step = llm_pass_decoder(&setup, (uint64_t)request->batch, 1,
                                            (uint64_t)request->prompt_tokens);
    double prefill_flops = 0;
    *out = (struct llm_modules){ .ops = xcalloc(m->nops + 1, sizeof *out->ops),
                                 .modules = xcalloc(m->nops + 1, sizeof *out->modules) };
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        struct llm_cost in_prefill = llm_cost_op(m, &setup, op, &prefill), in_step = { 0 };
        if (op->stage == LLM_STAGE_DECODER) in_step = llm_cost_op(m, &setup, op, &step);
        if (in_prefill.flops + in_prefill.bytes + in_step.bytes == 0) continue;
        struct llm_module row = { .stage = m->stages[op->stage],
                                  .module = op->module,
                                  .op = op->name,
                                  .layers = op->count,
                                  .params = (double)llm_op_params(op),
                                  .prefill_flops = in_prefill.flops,
                                  .prefill_bytes = in_prefill.bytes,
                                  .step_flops = in_step.flops,
                                  .step_bytes = in_step.bytes,
                                  .activation_bytes = prefill.counts.rows[op->rows] * output_width(op) *
                                                      llm_dtype_bytes(m->dtype) };
        prefill_flops += row.prefill_flops;
        out->ops[out->nops++] = row;
        add_to_module(out, &row);
    }
    for (int i = 0; i < m->nstages; i++) out->activation_bytes[i] = llm_activation_bytes(m, i, &prefill);
    finish_rows(out->ops, out->nops, prefill_flops);
    finish_rows(out->modules, out->nmodules, prefill_flops);
}

void llm_modules_free(struct llm_modules *r) {
    free(r->ops);
    free(r->modules);
}
