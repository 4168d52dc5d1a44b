/* What the files of ops share: records of operators. */
#ifndef ENGINE_OPS_INTERNAL_H
#define ENGINE_OPS_INTERNAL_H

#include "engine/ops/ops.h"

/* Both end an operator that began at `start`; 0: operators are not recorded. The first one: n linear layers
 * on the same m rows. */
void ops_record_linear(struct ops *o, uint64_t start, const char *name, const char *kernel,
                       const struct linear_out *v, int n, int m);
/* An operator on rows or elements. `floats`: number of floats that it reads and writes. */
void ops_record_rows(struct ops *o, uint64_t start, const char *name, const char *kernel, size_t items, int n,
                     double floats);

#endif
