/* The model that a program ran, from the weight files that the collector saw it use (GGUF heads, or headers
 * of safetensors with their config.json). Reads only the trace: the files need not exist here.
 *     struct trace_model m = trace_model_find(tl);
 *     if (m.model) ... m.path ...
 *     trace_model_free(&m); */
#ifndef RUN_TRACE_MODEL_H
#define RUN_TRACE_MODEL_H

#include "base/err.h"
#include "llm/model.h"
#include "timeline/timeline.h"

struct trace_model {
    struct llm_model *model; /* NULL: no model was recorded, or it cannot be used (see `problem`) */
    char *path;              /* path of its first file; for safetensors, of their config.json */
    const char *how;         /* how the program used it: "open", "mapped", "named by an argument" */
    size_t files;            /* number of weight files of this model */
    double file_bytes;       /* total size of the weight files */
    char *problem;           /* why the model cannot be used; NULL: it can */
};

/* Chooses the decoder with the most weights; files that the program only named count less. */
struct trace_model trace_model_find(const struct timeline *tl);
void trace_model_free(struct trace_model *m);

#endif
