/* Readers of config sections and their operator tables. Internal to src/llm. */
#ifndef LLM_PARTS_H
#define LLM_PARTS_H

#include "llm/families.h"
#include "llm/fields.h"
#include "llm/quant.h"

/* Builds a model from the fields of a config.json. Does not set its name. */
struct llm_model *model_of_config(const json_t *root, const char *what, const struct llm_load *how,
                                  struct err *err);

/* `own`: the section is the whole file, not a part of a multi-part config. Sizes then have no defaults,
 * because such files always contain them. */
int text_read(struct llm_text *t, const struct text_family *fam, struct llm_fields *f, bool own, bool tied);
void text_ops(struct llm_model *m, const struct text_family *fam, int stage, const struct llm_quant *quant);

/* Returns the name of an activation as a static string: "silu", "gelu", ..., "other"; NULL for NULL. */
const char *activation_named(const char *name);

int vision_read(struct llm_vision *v, const struct vision_family *fam, struct llm_fields *f, bool own);
void vision_ops(struct llm_model *m, const struct vision_family *fam, struct llm_fields *f, int stage);

int ocr_read(struct llm_vision *v, struct llm_fields *f);
void ocr_ops(struct llm_model *m, int sam_stage, int clip_stage);

void projector_ops(struct llm_model *m, enum projector_kind kind, uint32_t tower_traits, uint64_t common,
                   int stage, int text_stage);

#endif
