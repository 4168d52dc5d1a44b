#include "unit/llm/models.h"

#include <stdio.h>
#include <string.h>

#include "unit/test.h"

struct llm_model *test_model(const char *name) {
    char path[256];
    struct err err = { "" };
    snprintf(path, sizeof path, "tests/data/models/%s.json", name);
    struct llm_model *m = llm_model_load(path, &(struct llm_load){ 0 }, &err);
    if (!m) fprintf(stderr, "%s\n", err.msg);
    CHECK(m != NULL);
    return m;
}

struct llm_model *test_model_text(const char *json) {
    struct err err = { "" };
    struct llm_model *m = llm_model_parse(json, strlen(json), "test", &(struct llm_load){ 0 }, &err);
    if (!m) fprintf(stderr, "%s\n", err.msg);
    CHECK(m != NULL);
    return m;
}
