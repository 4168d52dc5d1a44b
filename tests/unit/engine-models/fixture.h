/* Fixtures of tests/data/engine: a config, and PyTorch's results for it with the synthetic weights. */
#ifndef TESTS_UNIT_ENGINE_MODELS_FIXTURE_H
#define TESTS_UNIT_ENGINE_MODELS_FIXTURE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "unit/relative_error.h"

struct fixture {
    json_t *root;
    char *dir; /* contains the fixture's config.json */
};
void fixture_open(struct fixture *f, const char *name);
/* Calls check once per case of a file with several cases. */
void fixture_each(const char *name, void (*check)(const struct fixture *f));
void fixture_close(struct fixture *f);
/* The fixture's model with its synthetic weights of that type, two threads. */
struct engine *fixture_engine(const struct fixture *f, const char *dtype);
struct engine *fixture_engine_on(const struct fixture *f, const char *dtype,
                                 const struct engine_backend *backend);
struct engine *fixture_engine_files(const struct fixture *f); /* with the folder's own weights */

size_t fixture_floats(const struct fixture *f, const char *key, float **out); /* caller frees */
size_t fixture_ids(const struct fixture *f, const char *key, uint32_t **out); /* caller frees */

long long fixture_int(const struct fixture *f, const char *key);
/* The random input of the block: numbers between -1 and 1; caller frees. */
float *fixture_rows(const struct fixture *f, const char *name, size_t n);
/* got[n] must equal the fixture's numbers under `key` within `most` (relative_error.h). */
void fixture_check(const struct fixture *f, const char *key, const float *got, size_t n, double most);
void fixture_check_tensor(const struct fixture *f, const char *key, struct ops *o, struct tensor *got,
                          size_t n, double most);
/* A new tensor with these n numbers; NULL: zeros. */
struct tensor *fixture_upload(struct ops *o, const float *numbers, size_t n);

#endif
