/* What a model must cost in the stages a trace shows: the model's formulas at the token counts that were
 * seen. */
#ifndef REPORT_COSTS_H
#define REPORT_COSTS_H

#include "analyze/analyze.h"
#include "llm/model.h"

#define REPORT_COSTS_MAX 2

/* Fills up to REPORT_COSTS_MAX rows, for prefill and decode; returns how many. 0: the trace does not say
 * how many tokens they took, and *why says so. One sequence at a time is assumed. */
size_t report_costs(const struct analysis *a, const struct llm_model *m, double peak_flops_per_s,
                    double peak_bytes_per_s, struct analyze_cost *out, const char **why);

#endif
