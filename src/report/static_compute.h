/* static_compute.json and static_compute.md: the minimum cost of the model for the token counts of this
 * run. */
#ifndef REPORT_STATIC_COMPUTE_H
#define REPORT_STATIC_COMPUTE_H

#include "analyze/analyze.h"
#include "base/jsonw.h"
#include "base/strbuf.h"
#include "llm/modules.h"
#include "run/info.h"

struct static_compute {
    const char *model_name;
    const struct llm_model *model; /* NULL: unknown */
    const char *unknown_because;
    const struct run_peak *peak;
    const struct analyze_timing *stages; /* [nstages], each with its `work` */
    const struct llm_cost *costs;        /* [nstages] */
    size_t nstages;
    struct llm_request request; /* prompt_tokens NaN: the request failed */
};

void static_compute_json(const struct static_compute *s, struct strbuf *out);
void static_compute_markdown(const struct static_compute *s, struct strbuf *out);

/* static_modules.c: modules, operators and activations. Writes nothing if the model is unknown or does not
 * decode, or if the request failed. */
void static_modules_json(const struct static_compute *s, struct jsonw *j);
void static_modules_markdown(const struct static_compute *s, struct strbuf *out);

#endif
