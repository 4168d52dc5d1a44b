/* A backend whose tensors the host cannot read, as on a GPU: the CPU backend, with all tensors in memory that
 * is accessible only during an operator. Code outside of the backend that touches a tensor crashes. */
#ifndef TESTS_UNIT_ENGINE_MODELS_GUARDED_H
#define TESTS_UNIT_ENGINE_MODELS_GUARDED_H

#include "engine/engine.h"

extern const struct engine_backend guarded_backend; /* for struct engine_load */
size_t guarded_calls(const struct ops *o);          /* operators so far */
const void *guarded_memory(const struct ops *o);    /* where the tensors are */
extern size_t guarded_memory_bytes;                 /* memory of the device */

#endif
