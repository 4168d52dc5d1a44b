#include "report/costs.h"

#include <math.h>
#include <string.h>

#include "llm/cost.h"

static const struct analysis_stage *find(const struct analysis *a, const char *name) {
    for (size_t i = 0; i < a->nstages; i++)
        if (strcmp(a->stages[i].name, name) == 0) return &a->stages[i];
    return NULL;
}

static uint64_t per_occurrence(double tokens, const struct analysis_stage *s) {
    return tokens > 0 && s->occurrences ? (uint64_t)(tokens / (double)s->occurrences + 0.5) : 0;
}

size_t report_costs(const struct analysis *a, const struct llm_model *m, double peak_flops_per_s,
                    double peak_bytes_per_s, struct analyze_cost *out, const char **why) {
    struct llm_setup setup = { .peak = { peak_flops_per_s, peak_bytes_per_s } };
    const struct analysis_stage *prefill = find(a, "prefill"), *decode = find(a, "decode");
    uint64_t prompt = prefill ? per_occurrence(prefill->tokens_in, prefill) : 0;
    size_t n = 0;
    *why = "the trace does not say how many tokens prefill and decode took";
    if (!m->decodes) {
        *why = "the model has no decoder";
        return 0;
    }
    if (prompt) {
        struct llm_cost c = llm_cost_prefill(m, &setup, 1, prompt, 0);
        out[n++] = (struct analyze_cost){ "prefill", false, c.flops, c.bytes, c.floor_s * 1e9 };
    }
    uint64_t steps = decode ? (uint64_t)(decode->tokens_out > 0 ? decode->tokens_out : 0) : 0;
    uint64_t each = decode ? per_occurrence(decode->tokens_out, decode) : 0;
    if (steps && prompt) {
        uint64_t runs = prefill->occurrences ? prefill->occurrences : 1;
        if (each <= 1 && steps > runs)
            each = steps / runs; /* an occurrence is a step: the context still grows over all */
        struct llm_cost c = llm_cost_generate(m, &setup, 1, prompt + 1, each ? each : 1);
        double k = each ? (double)each : 1;
        out[n++] = (struct analyze_cost){ "decode", true, c.flops / k, c.bytes / k, c.floor_s * 1e9 / k };
    }
    return n;
}
