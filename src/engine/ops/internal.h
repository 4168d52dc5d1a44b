/* Shared by the files of ops: functions that record operators. */
#ifndef ENGINE_OPS_INTERNAL_H
#define ENGINE_OPS_INTERNAL_H

#include "engine/ops/ops.h"

/* Ends an operator that began at `start`: n linear layers on the same m rows. Does nothing if `start` is
 * 0. */
void ops_record_linear(struct ops *o, uint64_t start, const char *name, const char *kernel,
                       const struct linear_out *v, int n, int m);
/* Like ops_record_linear(), for an operator on rows or elements. `floats`: number of floats that it reads
 * and writes. */
void ops_record_rows(struct ops *o, uint64_t start, const char *name, const char *kernel, size_t items, int n,
                     double floats);

#endif
