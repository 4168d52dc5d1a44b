/* The model that a program ran, from the weight files that it used (GGUF heads, or headers of safetensors
 * with their config.json). Reads only the trace.
 *     struct trace_model m = trace_model_find(tl);
 *     if (m.model) ... m.path ...
 *     trace_model_free(&m); */
#ifndef RUN_TRACE_MODEL_H
#define RUN_TRACE_MODEL_H

#include "base/err.h"
#include "llm/model.h"
#include "timeline/timeline.h"

struct trace_model {
    struct llm_model *model; /* NULL: none recorded, or see `problem` */
    char *path;              /* first file; safetensors: config.json */
    const char *how;         /* "open", "mapped", "named by an argument" */
    size_t files;            /* weight files */
    double file_bytes;       /* total size */
    char *problem;           /* NULL: the model can be used */
};

/* Chooses the decoder with the most weights. Files that appear only as an argument of the program count
 * less. */
struct trace_model trace_model_find(const struct timeline *tl);
void trace_model_free(struct trace_model *m);

#endif
