/* Shared by the files of ops: functions that record operators. */
#ifndef ENGINE_OPS_INTERNAL_H
#define ENGINE_OPS_INTERNAL_H

#include "engine/ops/ops.h"

/* Both functions end an operator that began at `start`; they do nothing if `start` is 0. This one records
 * n linear layers on the same m rows. */
void ops_record_linear(struct ops *o, uint64_t start, const char *name, const char *kernel,
                       const struct linear_out *v, int n, int m);
/* Records an operator on rows or elements. `floats`: number of floats that it reads and writes. */
void ops_record_rows(struct ops *o, uint64_t start, const char *name, const char *kernel, size_t items, int n,
                     double floats);

#endif
