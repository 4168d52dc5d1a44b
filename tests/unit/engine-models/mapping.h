/* Where a model's weights are in memory. */
#ifndef TESTS_UNIT_ENGINE_MODELS_MAPPING_H
#define TESTS_UNIT_ENGINE_MODELS_MAPPING_H

#include "engine/engine.h"

/* The query weights of the engine's first layer must be used in place, in a mapping of the file, for which
 * huge pages were requested if the kernel supports them. */
void check_weights_are_mapped(const struct engine *e, const char *file);

#endif
