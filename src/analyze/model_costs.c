/* What the input's model must cost in the stages of the trace: its formulas at the token counts that the
 * trace has. One sequence at a time is assumed. */
#include <math.h>
#include <string.h>

#include "analyze/internal.h"
#include "llm/cost.h"

static const struct analysis_stage *find_stage(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->nstages; i++)
        if (strcmp(a->stages[i].name, name) == 0) return &a->stages[i];
    return NULL;
}

static uint64_t per_occurrence(double tokens, const struct analysis_stage *s) {
    return tokens > 0 && s->occurrences ? (uint64_t)(tokens / (double)s->occurrences + 0.5) : 0;
}

/* Decode, per token. An occurrence may be a single step; the context still grows over all steps of a
 * request, of which there are as many as prefills. */
static struct analyze_cost decode_cost(const struct llm_model *m, const struct llm_setup *setup,
                                       uint64_t prompt, const struct analysis_stage *decode,
                                       uint64_t requests) {
    uint64_t steps = (uint64_t)decode->tokens_out, each = per_occurrence(decode->tokens_out, decode);
    if (each <= 1 && steps > requests) each = steps / requests;
    struct llm_cost cost = llm_cost_generate(m, setup, 1, prompt + 1, each ? each : 1);
    double n = each ? (double)each : 1;
    return (struct analyze_cost){ "decode", true, cost.flops / n, cost.bytes / n, cost.floor_s * 1e9 / n };
}

static size_t model_rows(const struct analysis *a, const struct llm_model *m, struct analyze_cost *out) {
    struct llm_setup setup = { .peak = { a->peak_flops_per_s, a->peak_bytes_per_s } };
    const struct analysis_stage *prefill = find_stage(a, "prefill"), *decode = find_stage(a, "decode");
    uint64_t prompt = prefill ? per_occurrence(prefill->tokens_in, prefill) : 0;
    size_t n = 0;
    if (!prompt) return 0;
    struct llm_cost cost = llm_cost_prefill(m, &setup, 1, prompt, 0);
    out[n++] = (struct analyze_cost){ "prefill", false, cost.flops, cost.bytes, cost.floor_s * 1e9 };
    if (decode && decode->tokens_out >= 1)
        out[n++] = decode_cost(m, &setup, prompt, decode, prefill->occurrences ? prefill->occurrences : 1);
    return n;
}

void analyze_costs(struct context *c) {
    struct analysis *a = c->a;
    const struct llm_model *m = c->in->llm;
    a->costs = c->in->costs;
    a->ncosts = c->in->ncosts;
    a->model = c->in->model;
    if (!m) return;
    struct analyze_cost *rows = analysis_alloc(c, 2, sizeof *rows);
    size_t n = m->decodes ? model_rows(a, m, rows) : 0;
    if (!n) {
        a->no_model_costs = m->decodes ? "the trace does not say how many tokens prefill and decode took"
                                       : "the model has no decoder";
        return;
    }
    a->costs = rows;
    a->ncosts = n;
    a->costs_replaced = true;
    a->model = m->name;
}
