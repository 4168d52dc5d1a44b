/* One text for the sources of the two peaks of a device, if the user gave one or both of them:
 *     "peak FLOP/s given by peak.tflops; bandwidth: datasheet of H200 SXM, dense bf16"
 *     "peak FLOP/s: datasheet of H200 SXM, dense bf16; bandwidth given by peak.gbps"
 *     "peak FLOP/s given by peak.tflops; bandwidth given by peak.gbps"
 *     "given by the user" */
#ifndef LLM_PEAK_SOURCE_H
#define LLM_PEAK_SOURCE_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "llm/model.h"

struct llm_gpu;

/* Adds "datasheet of H200 SXM, dense bf16". If the weights are quantised, adds the peak of their products:
 * "; mxfp4 weights: dense bf16, ..." */
void peak_source_of_gpu(const struct llm_gpu *g, enum llm_dtype type, const struct llm_pack *pack,
                        struct strbuf *out);

/* `source`: source of the peaks that the user did not give, or such a combined text; NULL or "": unknown.
 * flops_by, bytes_by: name of the setting with the peak FLOP/s or the bandwidth; NULL: not given. */
void peak_source_add(const char *source, const char *flops_by, const char *bytes_by, struct strbuf *out);
/* Returns true if the peak FLOP/s come from the datasheet of a GPU. source NULL: returns false. */
bool peak_source_is_datasheet(const char *source);

#endif
