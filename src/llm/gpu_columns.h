/* Columns of the tables of GPUs and links. The items are struct llm_gpu and struct llm_link. */
#ifndef LLM_GPU_COLUMNS_H
#define LLM_GPU_COLUMNS_H

#include "base/columns.h"

extern const struct column_group llm_gpu_name_column;
extern const struct column_group llm_gpu_columns; /* all except the name */
extern const struct column_group llm_link_columns;

#endif
