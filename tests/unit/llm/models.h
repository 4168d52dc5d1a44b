/* The configs of tests/data/models, for the tests of this folder. */
#ifndef TESTS_UNIT_LLM_MODELS_H
#define TESTS_UNIT_LLM_MODELS_H

#include "llm/model.h"

struct llm_model *test_model(const char *name); /* "llama-2-7b"; fails the test if it cannot be read */
struct llm_model *test_model_text(const char *json);

#endif
