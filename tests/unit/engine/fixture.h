/* Fixtures of tests/data/engine: a config, and what PyTorch made of it with the synthetic weights. */
#ifndef TESTS_UNIT_ENGINE_FIXTURE_H
#define TESTS_UNIT_ENGINE_FIXTURE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct fixture {
    json_t *root;
    char *dir; /* holds the fixture's config.json */
};
void fixture_open(struct fixture *f, const char *name);
void fixture_close(struct fixture *f);
/* The fixture's model with its synthetic weights of that type, two threads. */
struct engine *fixture_engine(const struct fixture *f, const char *dtype);
struct engine *fixture_engine_files(const struct fixture *f); /* with the folder's own weights */

size_t fixture_floats(const struct fixture *f, const char *key, float **out); /* caller frees */
size_t fixture_ids(const struct fixture *f, const char *key, uint32_t **out); /* caller frees */

/* Largest |got - want| over the largest |want|. */
double relative_error(const float *got, const float *want, size_t n);

#endif
