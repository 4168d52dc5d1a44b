/* Records NVTX ranges and marks. Each library that uses NVTX contains its own copy of NVTX, and each copy
 * attaches once. In the domain "inferprof", categories have a meaning (docs/run.md): 1 stage, 2 module, 3
 * operator; marks of category 4 and 5: `payload` tokens consumed or produced. The handlers run on the
 * program's threads, in its NVTX calls. */
#ifndef COLLECT_NVTX_H
#define COLLECT_NVTX_H

#include <stdbool.h>

#include "collect/abi.h"

bool nvtx_attach(nvtx_get_table get_table); /* false: NVTX version not supported */
void nvtx_after_fork(void);

#endif
