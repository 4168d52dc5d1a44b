/* Converts a GGUF file to a struct llm_model. The metadata is converted to the fields of a config.json,
 * which the reader for config.json then reads. Unless how->dtype is set, the bytes of the operators and the
 * number of parameters come from the tensors. Internal to src/llm. */
#ifndef LLM_GGUF_MODEL_H
#define LLM_GGUF_MODEL_H

#include "llm/gguf.h"
#include "llm/model.h"

/* `what` is the name of the file in messages. NULL: see err. */
struct llm_model *llm_model_of_gguf(const struct gguf *g, const char *what, const struct llm_load *how,
                                    struct err *err);
/* Returns 7 for "blk.7.attn_q.weight"; -1: not in a layer. */
int gguf_layer_of(const char *tensor);

#endif
