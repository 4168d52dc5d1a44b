/* static_compute.json and static_compute.md: the minimum cost of the model for the token counts of this
 * run. */
#ifndef REPORT_STATIC_COMPUTE_H
#define REPORT_STATIC_COMPUTE_H

#include "analyze/analyze.h"
#include "base/jsonw.h"
#include "base/strbuf.h"
#include "llm/cost.h"
#include "run/info.h"

struct static_compute {
    const char *model_name;
    const struct llm_model *model; /* NULL: unknown */
    const char *unknown_because;
    const struct run_peak *peak;
    const struct analyze_timing *stages; /* [nstages], each with its `work` */
    const struct llm_cost *costs;        /* [nstages] */
    size_t nstages;
    struct {                            /* the recorded request; prompt_tokens NaN: it failed */
        double prompt_tokens, batch;    /* prompt_tokens: of one sequence; batch: number of sequences */
        const struct llm_counts *image; /* image counts of one sequence; NULL: no image */
    } request;
};

void static_compute_json(const struct static_compute *s, struct strbuf *out);
void static_compute_markdown(const struct static_compute *s, struct strbuf *out);

/* static_modules.c: writes modules, operators and activations; the Markdown version lists only the operators
 * with the most FLOPs. Writes nothing if the model is unknown or does not decode, or the request failed. */
void static_modules_json(const struct static_compute *s, struct jsonw *j);
void static_modules_markdown(const struct static_compute *s, struct strbuf *out);

#endif
