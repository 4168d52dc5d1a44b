/* Quantised weights: which weights of a checkpoint are stored in fewer bits, and in which layout. Read from
 * quantization_config of the config.json, from ModelOpt's hf_quant_config.json, or from the tensors of the
 * safetensors headers. Internal to src/llm.
 *     struct llm_quant q = { 0 };
 *     quant_read(config, &q, &notes);
 *     text_ops(m, fam, stage, &q);                -- ops get q.pack.type as their weight type
 *     quant_exclude(m, &q, &notes);               -- layers of the ignore list get the model's type again */
#ifndef LLM_QUANT_H
#define LLM_QUANT_H

#include "llm/fields.h"
#include "llm/model.h"
#include "llm/safetensors.h"

struct llm_quant {
    struct llm_pack pack; /* pack.type LLM_DTYPE_UNKNOWN: not quantised */
    uint8_t scope;        /* OPROW_QUANT_* */
    const json_t *ignore; /* names and patterns of modules that are not quantised; NULL: none */
};

/* `config`: an object with quant_method (config.json) or quant_algo (ModelOpt). Returns false if it names
 * no method. If the method is not supported, adds a note and returns false. */
bool quant_read(const json_t *config, struct llm_quant *q, struct llm_notes *notes);
/* Finds the layout from the name, type and shape of the first quantised tensor. Returns false if there is
 * none. */
bool quant_from_tensors(const struct safetensors *st, struct llm_quant *q);
/* Resets the layers in the ignore list to the model's type. An operator is split if only some of its
 * layers are in the list. */
void quant_exclude(struct llm_model *m, const struct llm_quant *q, struct llm_notes *notes);
/* Returns text such as "int4 in groups of 128 (linear layers of the decoder)"; the caller frees it. */
char *quant_describe(const struct llm_quant *q);

#endif
